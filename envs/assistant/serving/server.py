"""An OpenAI-compatible endpoint in front of a caretaker: what Home Assistant's `llama_cpp` and similar integrations talk to.

Invariants:
- It never returns tool calls: the caretaker makes the calls, so that Home Assistant cannot make them behind its back.
- It admits whom `homerl.host.web.door` admits. On an address other than the loopback every request needs the key.
- Nothing is carried out for a client that has hung up.
- A request may ask for more care than the agent was started with, never for less.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from homerl.envs.assistant.serving.care import care_of
from homerl.envs.assistant.serving.caretaker import Caretaker
from homerl.envs.assistant.serving.page import journal_page
from homerl.envs.assistant.serving.speaker import area_told
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, text_message
from homerl.host.web.address import Address
from homerl.host.web.completions import completion, models, streamed_completion
from homerl.host.web.door import BadRequest, admit, body_of, refused


class Endpoint:
    """The routes of the endpoint."""

    def __init__(self, caretaker: Caretaker, address: Address) -> None:
        self.caretaker, self.address = caretaker, address

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/", self._page),
                Route("/health", _well),
            ],
            exception_handlers={BadRequest: refused, InputError: _unreadable},
        )

    async def _models(self, request: Request) -> Response:
        admit(request, self.address)
        return models(self.caretaker.name)

    async def _page(self, request: Request) -> Response:
        admit(request, self.address, browser=True)
        return HTMLResponse(await asyncio.to_thread(self._drawn))  # a long log takes long

    def _drawn(self) -> str:
        log = self.caretaker.journal.log()
        return journal_page(log.entries, log.damaged)

    async def _chat(self, request: Request) -> Response:
        admit(request, self.address)
        body = await body_of(request)
        dialogue, speaker = dialogue_of(body), _text(body.get("user"))
        told = (_text(one.get("content")) for one in body["messages"] if one.get("role") == "system")
        asked: dict[str, Any] = {
            "gone": request.is_disconnected,
            "care": care_of(body),
            "area": area_told(told),
            "speaker": speaker,
        }
        if body.get("stream"):
            return streamed_completion(self.caretaker.name, self._parts(dialogue, asked))
        return completion(self.caretaker.name, text_message(await self.caretaker.answer(dialogue, **asked)), False)

    async def _parts(self, dialogue: list[Message], asked: Mapping[str, Any]) -> AsyncIterator[str]:
        """The reply in the parts in which it may be spoken."""
        parts, told = asyncio.Queue[str | None](), ""
        task = asyncio.create_task(self.caretaker.answer(dialogue, speak=parts.put_nowait, **asked))
        task.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                told += part
                yield part
            if rest := (await task).removeprefix(told):
                yield rest
        finally:
            task.cancel()


def dialogue_of(body: Mapping[str, Any]) -> list[Message]:
    """What person and agent said, in plain text. System messages are left out: the agent has its own, with the same area.

    Raises `BadRequest` if the last of these messages is not a person's.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadRequest(400, "`messages` is not a list of messages")
    told = [{"role": message.get("role"), "content": _text(message.get("content"))} for message in messages]
    dialogue = [message for message in told if message["role"] in ("user", "assistant") and message["content"]]
    if not dialogue or dialogue[-1]["role"] != "user":
        raise BadRequest(400, "the last message must be the user's")
    return dialogue


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str)).strip()


async def _well(request: Request) -> Response:
    return PlainTextResponse("ok")  # for whom restarts it, without a key


async def _unreadable(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 500)
