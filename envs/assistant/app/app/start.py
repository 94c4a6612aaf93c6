"""Starts the agent by the options of the app, once Home Assistant knows where it listens:  start.py FOLDER

The folder holds `options.json`, and keeps the log and the key. The environment has SUPERVISOR_TOKEN. Standard library alone,
but for what it starts. Invariant: no token and no key is printed or stands in a command line.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

PORT = 8124
INGRESS = "172.30.32.2"  # from where Home Assistant's ingress asks, in each installation


def main(folder: Path) -> None:
    """Tell the Supervisor of the agent, and become it."""
    options = json.loads((folder / "options.json").read_text())
    key, supervisor = key_of(folder), os.environ.get("SUPERVISOR", "http://supervisor")
    environment = dict(os.environ) | {"HA_TOKEN": os.environ["SUPERVISOR_TOKEN"], "AGENT_KEY": key}
    if options.get("model_key"):
        environment["OPENAI_API_KEY"] = options["model_key"]
    try:
        told = asked(supervisor, "addons/self/info")
        config = {"host": told["hostname"], "port": PORT, "api_key": key}
        asked(supervisor, "discovery", {"service": "homerl", "config": config})
        print(f"Home Assistant offers the integration homerl, or add http://{told['hostname']}:{PORT} by hand.", flush=True)
    except (URLError, OSError, ValueError, KeyError) as error:  # it serves all the same, and is added by hand
        print(f"the Supervisor was not told of the agent ({error})", file=sys.stderr, flush=True)
    command = command_of(options, f"{supervisor}/core", folder)
    os.execvpe(command[0], command, environment)


def key_of(folder: Path) -> str:
    """The key of the agent, which is made at the first start."""
    path = folder / "key"
    if not path.exists():
        path.touch(0o600)
        path.write_text(secrets.token_urlsafe(32))
    return path.read_text().strip()


def asked(supervisor: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the Supervisor answers. Raises `URLError`, `OSError`, `ValueError` or `KeyError` if it does not."""
    head = {"Authorization": f"Bearer {os.environ['SUPERVISOR_TOKEN']}", "Content-Type": "application/json"}
    request = Request(f"{supervisor}/{path}", json.dumps(body).encode() if body else None, head)
    with urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)["data"]
    return found


def command_of(options: dict[str, Any], home: str, folder: Path) -> list[str]:
    """The command line of the agent."""
    given = {name: options[name] for name in ("model", "served", "mode", "language", "prompt") if options.get(name)}
    given |= {"ha": home, "log": folder / "agent.jsonl", "host": "0.0.0.0", "port": PORT}
    given |= {"key-env": "AGENT_KEY", "ingress": INGRESS}
    named = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    first = ["--first", "hassil"] if options.get("matcher") else []
    allowed = [word for did in options.get("allow", ()) for word in ("--allow", did)]
    return [sys.executable, "-m", "homerl", "serve-agent", *named, *first, *allowed]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
