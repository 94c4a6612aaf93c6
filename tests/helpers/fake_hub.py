"""A fake Hugging Face hub: the requests by which huggingface_hub makes a repository, tags it, takes files and gives them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

TOKEN = "hf_dummy"
REPO = "(models/[^/]+/[^/]+|datasets/[^/]+/[^/]+)"
LARGE = (".safetensors", "trajectories.jsonl")  # endings of files that are uploaded as LFS files


class Hub(BaseHTTPRequestHandler):
    """A request handler that keeps repositories in `store`. The name of a data set begins with `datasets/`."""

    protocol_version = "HTTP/1.1"

    def __init__(self, store: dict, *args) -> None:
        self.store = store
        super().__init__(*args)

    def log_message(self, *args) -> None:
        pass

    def answer(self, status: int, data: object = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def route(self) -> None:
        body, path = self.body(), self.path.split("?")[0]
        self.store["calls"].append(f"{self.command} {path}")
        signed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if not signed and not path.startswith("/blobs/"):  # presigned
            return self.answer(401, {"error": "Invalid credentials"})
        for method, pattern, handle in self.ROUTES:
            if method == self.command and (match := re.fullmatch(pattern, path)):
                return handle(self, body, *(group.removeprefix("models/") for group in match.groups()))
        return self.answer(404, {"error": f"no {path}"})

    do_GET = do_POST = do_PUT = do_HEAD = route

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        above = "datasets/" if asked.get("type") == "dataset" else ""
        repo = f"{above}{asked['organization']}/{asked['name']}"
        if asked["organization"] == "theirs":
            return self.answer(403, {"error": "You don't have the rights"})
        url = {"url": f"{self.store['url']}/{repo}"}
        if repo in self.store["repos"]:
            return self.answer(409, url)
        self.store["repos"][repo] = {"visibility": asked["visibility"], "files": {}, "tags": []}
        return self.answer(200, url)

    def info(self, body: bytes, repo: str) -> None:
        if repo not in self.store["repos"]:
            return self.answer(404, {"error": "Repository not found"})
        private = self.store["repos"][repo]["visibility"] == "private"
        card = {"cardData": self.store["repos"][repo].get("card")}
        files = [{"rfilename": path} for path in self.store["repos"][repo].get("files", ())]
        return self.answer(200, {"id": repo, "private": private, "sha": "0" * 40, "siblings": files} | card)

    def download(self, body: bytes, repo: str, path: str) -> None:
        content = self.store["repos"].get(repo, {"files": {}})["files"].get(path)
        self.send_response(200 if content is not None else 404)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", str(len(content or b"")))
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", hashlib.sha256(content or b"").hexdigest())
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content or b"")

    def tree(self, body: bytes, repo: str) -> None:
        files = self.store["repos"][repo]["files"]
        known = {"type": "file", "oid": "0" * 40}
        self.answer(200, [known | {"path": path, "size": len(content)} for path, content in files.items()])

    def refs(self, body: bytes, repo: str) -> None:
        tags = [
            {"name": name, "ref": f"refs/tags/{name}", "targetCommit": "1" * 40}
            for name in self.store["repos"][repo]["tags"]
        ]
        self.answer(200, {"branches": [], "converts": [], "tags": tags})

    def tag(self, body: bytes, repo: str) -> None:
        self.store["repos"][repo]["tags"].append(json.loads(body)["tag"])
        self.answer(200, {})

    def validate(self, body: bytes) -> None:
        front = json.loads(body)["content"].split("---\n")[1]
        good = isinstance(yaml.safe_load(front), dict)
        self.answer(200 if good else 400, {"errors": [], "warnings": []})

    def preupload(self, body: bytes, repo: str) -> None:
        paths = [file["path"] for file in json.loads(body)["files"]]
        modes = {path: "lfs" if path.endswith(LARGE) else "regular" for path in paths}
        files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
        self.answer(200, {"files": files})

    def batch(self, body: bytes, repo: str) -> None:
        objects = json.loads(body)["objects"]
        href = f"{self.store['url']}/blobs/"
        upload = [item | {"actions": {"upload": {"href": href + item["oid"]}}} for item in objects]
        self.answer(200, {"transfer": "basic", "objects": upload})

    def blob(self, body: bytes, oid: str) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            return self.answer(400, {"error": "these are not the bytes announced"})
        self.store["blobs"][oid] = body
        return self.answer(200)

    def commit(self, body: bytes, repo: str) -> None:
        files = self.store["repos"][repo]["files"]
        for key, value in ((line["key"], line["value"]) for line in map(json.loads, body.splitlines())):
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.store["blobs"][value["oid"]]
            elif key == "deletedFile":
                del files[value["path"]]
        self.answer(200, {"commitUrl": f"{self.store['url']}/{repo}/commit/1", "commitOid": "1" * 40})

    ROUTES = (
        ("HEAD", "/([^/]+/[^/]+)/resolve/[^/]+/(.+)", download),
        ("GET", "/([^/]+/[^/]+)/resolve/[^/]+/(.+)", download),
        ("POST", "/api/repos/create", create),
        ("POST", "/api/validate-yaml", validate),
        ("GET", f"/api/{REPO}(?:/revision/(?:main|0+))?", info),
        ("GET", f"/api/{REPO}/tree/(?:main|0+)", tree),
        ("GET", f"/api/{REPO}/refs", refs),
        ("POST", f"/api/{REPO}/tag/main", tag),
        ("POST", f"/api/{REPO}/preupload/main", preupload),
        ("POST", "/((?:datasets/)?[^/]+/[^/]+).git/info/lfs/objects/batch", batch),
        ("PUT", "/blobs/([0-9a-f]+)", blob),
        ("POST", f"/api/{REPO}/commit/main", commit),
    )


@contextmanager
def hub_runs() -> Iterator[dict[str, Any]]:
    """Run a hub in a thread. Yields its store: `repos`, `blobs` by digest, the `calls` that were made, and its `url`."""
    store: dict[str, Any] = {"repos": {}, "blobs": {}, "calls": []}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, store))
    store["url"] = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield store
    server.shutdown()
    server.server_close()
