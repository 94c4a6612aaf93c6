"""Closes a vLLM server to whoever lacks its key: `vllm serve ... --middleware homerl.models.endpoint.key_guard.KeyGuard`.

Invariants:
- The key is that of vLLM's own variable. vLLM asks for it below `/v1`, and in many versions leaves open what pauses a server
  or gives it other weights. Here every path needs it.
- `/health` alone needs none: it tells that the server runs.
- A server without a key answers nobody.
"""

from __future__ import annotations

import os

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from homerl.envs.core.documents import InputError
from homerl.host.web_server import BadRequest, ServerAddress, admit_request, refusal_response

VARIABLE = "VLLM_API_KEY"


class KeyGuard:
    """An ASGI application that hands on what brings the key."""

    def __init__(self, app: ASGIApp) -> None:
        if not (key := os.environ.get(VARIABLE, "").strip()):
            raise InputError(f"${VARIABLE} holds no key", "--middleware", f"export {VARIABLE}=... before `vllm serve`")
        self.app, self.address = app, ServerAddress("0.0.0.0", key=key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] != "/health":
            try:
                admit_request(HTTPConnection(scope), self.address)
            except BadRequest as error:
                answer = await refusal_response(Request({**scope, "type": "http"}), error)
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)
