"""Home Assistant's own fixtures for tests, with the component of this folder, and an agent that stands for a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component

pytest_plugins = "pytest_homeassistant_custom_component"
KEY = "a-key-of-the-tests"


@pytest.fixture(autouse=True)
async def component(hass: HomeAssistant, enable_custom_integrations: None) -> None:
    """Home Assistant finds the component, and knows what is exposed."""
    assert await async_setup_component(hass, "homeassistant", {})


@dataclass
class StandIn:
    """Answers as `homerl serve-agent` does, in the words of `says`. After each of them it waits for `goes`."""

    says: Callable[[dict[str, Any]], str] = lambda body: "Done."
    requests: list[dict[str, Any]] = field(default_factory=list)
    goes: asyncio.Event = field(default_factory=asyncio.Event)
    breaks: bool = False
    tells: dict[str, Any] = field(default_factory=lambda: {"homerl": {"serves": "agent", "version": "1.2.3", "mode": "act"}})
    url: str = ""
    server: TestServer | None = None

    async def models(self, request: web.Request) -> web.Response:
        """The list of its model."""
        return self._with_key(request, {"object": "list", "data": [{"id": "tiny", "object": "model"} | self.tells]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """A reply."""
        self.requests.append(body := await request.json())
        refused = self._with_key(request, {})
        if refused.status != 200:
            return refused
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        for number, word in enumerate(self.says(body).split(" ")):
            delta = {"content": f" {word}" if number else word}
            await stream.write(f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode())
            await self.goes.wait()
        if not self.breaks:
            await stream.write(b"data: [DONE]\n\n")
        return stream

    def _with_key(self, request: web.Request, answer: dict[str, Any]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "the key is missing or wrong"}}, status=401)
        return web.json_response(answer)


@pytest.fixture
async def agent(socket_enabled: None) -> StandIn:
    """An agent behind a key."""
    one, app = StandIn(), web.Application()
    one.goes.set()
    app.router.add_get("/v1/models", one.models)
    app.router.add_post("/v1/chat/completions", one.chat)
    one.server = TestServer(app)
    await one.server.start_server()
    one.url = f"http://127.0.0.1:{one.server.port}/v1"
    yield one
    await one.server.close()
