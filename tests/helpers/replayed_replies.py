"""A server of OpenAI's protocol that gives stored replies: what one program played, another program plays again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from homerl.play.trajectory import Trajectory

Message = Mapping[str, Any]


class StoredReplies:
    """The replies of stored dialogues, each by what was said before the first of them."""

    def __init__(self, played: Iterable[Trajectory]) -> None:
        self._stored: dict[str, tuple[int, list[Message]]] = {}
        for trajectory in played:
            said = [at for at, message in enumerate(trajectory.messages) if message["role"] == "assistant"]
            first = said[len(said) - len(trajectory.steps)]
            key = self._key(trajectory.messages[:first])
            self._stored[key] = first, [step.message for step in trajectory.steps]

    def reply_to(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The message that was said then, with an id for each call."""
        keys = (self._key(messages[:at]) for at in range(len(messages) + 1))
        first, stored = next(self._stored[key] for key in keys if key in self._stored)
        number = sum(message["role"] == "assistant" for message in messages[first:])
        message = {"role": "assistant", "content": stored[number].get("content") or None}
        if calls := stored[number].get("tool_calls"):
            message["tool_calls"] = [{**call, "id": f"call_{number}_{at}"} for at, call in enumerate(calls)]
        return message

    def _key(self, messages: Iterable[Message]) -> str:
        return json.dumps([[message["role"], message.get("content") or ""] for message in messages])


@contextmanager
def serve_stored_replies(played: Iterable[Trajectory]) -> Iterator[str]:
    """The address of a server that gives these dialogues' replies in their turn."""
    replies = StoredReplies(played)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = replies.reply_to(asked["messages"])
            reason = "tool_calls" if "tool_calls" in message else "stop"
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            body = {"id": "x", "object": "chat.completion", "created": 0, "model": asked["model"], "usage": usage}
            self._answer({**body, "choices": [{"index": 0, "message": message, "finish_reason": reason}]})

        def do_GET(self) -> None:
            self._answer({"object": "list", "data": [{"id": "stored", "object": "model"}]})

        def _answer(self, body: Mapping[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
