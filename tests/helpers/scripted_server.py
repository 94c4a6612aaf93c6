"""A small OpenAI-compatible server that gives scripted answers and injects faults.

It looks up the answer by the dialogue of the request. To an unknown dialogue it answers "Done.". It runs in a thread of the
test's process. It keeps its port when it is stopped and started again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from running import PromptServer

MODEL = "scripted"


@dataclass
class Faults:
    """The probabilities of each fault of a request.

    The faults are a status 500, no answer for `stall_seconds`, invalid content, half of an answer, and the status 400 (or
    the server's `refusal`, with its `reason`).
    """

    errors: float = 0.0
    stalls: float = 0.0
    garbage: float = 0.0
    halves: float = 0.0
    refusals: float = 0.0
    stall_seconds: float = 3600.0

    def draw(self, rng: random.Random) -> str | None:
        """The name of a random fault, or None for a proper answer."""
        at = rng.random()
        for name in ("errors", "stalls", "garbage", "halves", "refusals"):
            at -= getattr(self, name)
            if at < 0:
                return name
        return None


def key_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """The key of a dialogue: a hash of its roles, texts and tool calls."""
    plain = [[m["role"], m.get("content") or "", [c["function"] for c in m.get("tool_calls") or ()]] for m in messages]
    return hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16).hexdigest()


@dataclass
class ScriptedServer:
    """The server. Use it as a context manager.

    `answers` maps `key_of` a dialogue to a message. If `answer` is given, it is called instead; it may return a list of
    different candidates. `requests` are the bodies of the requests so far (if `keep`), and `served` counts answers and
    faults.
    """

    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    answer: Callable[[Mapping[str, Any]], Mapping[str, Any] | list[Mapping[str, Any]]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    garbage: Sequence[str] = ("<html>bad gateway</html>", '{"choices": 5}', '{"choices": [{"index": 0, "message": 7}]}')
    refusal: int = 400
    reason: Mapping[str, Any] = field(default_factory=lambda: {"message": "no such thing"})
    seed: int = 0
    keep: bool = True

    def __post_init__(self) -> None:
        self.rng, self.requests, self.served = random.Random(self.seed), [], Counter()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def url(self) -> str:
        """The base URL for OpenAI clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ScriptedServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.die()

    def start(self) -> None:
        """Start the server, and return once it accepts requests."""
        quiet = {"log_level": "critical", "access_log": False, "lifespan": "off", "interface": "asgi3"}
        self.server = PromptServer(uvicorn.Config(self._app, host="127.0.0.1", port=self.port, **quiet))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)

    def die(self) -> None:
        """Stop the server and cut all connections."""
        self.server.should_exit = self.server.force_exit = True
        self.thread.join()

    async def _app(self, scope: Mapping[str, Any], receive: Callable, send: Callable) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"].endswith("/models"):
            await self._send(send, 200, json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
            return
        request = json.loads(body)
        if self.keep:
            self.requests.append(request)
        fault = self.drawn(request)
        self.served[fault or "answers"] += 1
        text = json.dumps(self._completion(request))
        match fault:
            case "errors":
                await self._send(send, 500, '{"error": {"message": "out of order"}}')
            case "refusals":
                await self._send(send, self.refusal, json.dumps({"error": self.reason}))
            case "stalls":
                await asyncio.sleep(self.faults.stall_seconds)
            case "garbage":
                await self._send(send, 200, self.garbage[self.served["garbage"] % len(self.garbage)])
            case "halves":
                await self._send(send, 200, text[: len(text) // 2], length=len(text.encode()))
            case _:
                await self._send(send, 200, text)

    def drawn(self, request: Mapping[str, Any]) -> str | None:
        """The fault to inject for a request, or None."""
        return self.faults.draw(self.rng)

    async def _send(self, send: Callable, status: int, text: str, length: int | None = None) -> None:
        data = text.encode()
        headers = {"content-type": "application/json", "content-length": str(length or len(data))} | dict(self.headers)
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": data})

    def _completion(self, request: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.answer(request) if self.answer else self.answers.get(key_of(request["messages"]), {"content": "Done."})
        messages = answer if isinstance(answer, list) else [answer] * (request.get("n") or 1)
        choices = [{"index": i, "finish_reason": "stop", "message": _said(said)} for i, said in enumerate(messages)]
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": MODEL, "choices": choices, "usage": usage}


def _said(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [{"id": f"call_{i}"} | dict(call) for i, call in enumerate(message.get("tool_calls") or ())]
    return {"role": "assistant", "content": message.get("content") or None, "tool_calls": calls or None}
