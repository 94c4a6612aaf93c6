"""An OpenAI-compatible endpoint in front of a caretaker: what Home Assistant's `llama_cpp` and similar integrations talk to.

Invariants:
- `/v1/models` says `"homerl": {"serves": "agent", ...}`, which no server of a model does: if one were added to Home
  Assistant in the place of an agent, it would say "Done", and nothing would act. Of a home file it says `"home":
  "simulated"`, and so does its page.
- It never returns tool calls: the caretaker makes the calls, so that Home Assistant cannot make them behind its back.
- It admits whom `homerl.host.web_server` admits. On an address other than the loopback every request needs the key.
- Nothing is carried out for a client that has hung up.
- A request may ask for more care than the agent was started with, never for less.
- Of the lines of system messages that tell the area of the satellite, the last counts: Home Assistant writes it behind the
  names of entities.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from homerl import __version__
from homerl.envs.assistant.listing.home_listing import is_entity_id
from homerl.envs.assistant.serving.caretaker import Caretaker
from homerl.envs.assistant.serving.exchange_journal import MODES, Mode, RequestCare, read_journal
from homerl.envs.assistant.serving.journal_page import render_journal_page
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, text_message
from homerl.host.web_server import (
    BadRequest,
    ServerAddress,
    admit_request,
    completion_response,
    models_response,
    read_json_body,
    refusal_response,
    streamed_completion,
    wants_json,
)

FIELD = "homerl"  # of the body of a request: the care that it asks for
TOLD = re.compile(r"^You are in area (.+) and all generic commands", re.M)  # always in English


class AgentEndpoint:
    """The routes of the endpoint."""

    def __init__(self, caretaker: Caretaker, address: ServerAddress) -> None:
        self.caretaker, self.address = caretaker, address

    def build_agent_app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/v1/models", self._answer_models),
                Route("/v1/chat/completions", self._answer_chat, methods=["POST"]),
                Route("/", self._answer_page),
                Route("/health", _answer_health),
            ],
            exception_handlers={BadRequest: refusal_response, InputError: _tell_unreadable_log},
        )

    async def _answer_models(self, request: Request) -> Response:
        admit_request(request, self.address)
        says = {
            "serves": "agent",
            "version": __version__,
            "mode": self.caretaker.house.mode,
            "home": self.caretaker.home_kind,
        }
        return models_response(self.caretaker.name, **says)  # by which the component knows it from a model's server

    async def _answer_page(self, request: Request) -> Response:
        admit_request(request, self.address, browser=True)

        def render() -> str:
            entries, damaged = read_journal(self.caretaker.journal.path)
            return render_journal_page(entries, damaged, simulated=self.caretaker.home_kind == "simulated")

        return HTMLResponse(await asyncio.to_thread(render))  # a long log takes long

    async def _answer_chat(self, request: Request) -> Response:
        admit_request(request, self.address)
        body = await read_json_body(request)
        dialogue, speaker = parse_dialogue(body), _plain_text(body.get("user"))
        told = (_plain_text(one.get("content")) for one in body["messages"] if one.get("role") == "system")
        asked: dict[str, Any] = {
            "gone": request.is_disconnected,
            "care": parse_request_care(body),
            "area": parse_speaker_area(told),
            "speaker": speaker,
            "wants_json": wants_json(body),
        }
        if body.get("stream"):
            return streamed_completion(self.caretaker.name, self._stream_parts(dialogue, asked))
        return completion_response(
            self.caretaker.name, text_message(await self.caretaker.answer_dialogue(dialogue, **asked)), False
        )

    async def _stream_parts(self, dialogue: list[Message], asked: Mapping[str, Any]) -> AsyncIterator[str]:
        """The reply in the parts in which it may be spoken."""
        parts, told = asyncio.Queue[str | None](), ""
        task = asyncio.create_task(self.caretaker.answer_dialogue(dialogue, speak=parts.put_nowait, **asked))
        task.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                told += part
                yield part
            if rest := (await task).removeprefix(told):
                yield rest
        finally:
            task.cancel()


def parse_dialogue(body: Mapping[str, Any]) -> list[Message]:
    """What person and agent said, in plain text. System messages are left out: the agent has its own, with the same area.

    Raises `BadRequest` if the last of these messages is not a person's.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadRequest(400, "`messages` is not a list of messages")
    told = [{"role": message.get("role"), "content": _plain_text(message.get("content"))} for message in messages]
    dialogue = [message for message in told if message["role"] in ("user", "assistant") and message["content"]]
    if not dialogue or dialogue[-1]["role"] != "user":
        raise BadRequest(400, "the last message must be the user's")
    return dialogue


def parse_request_care(body: dict[str, Any]) -> RequestCare:
    """The care that the body of a request asks for. Raises `BadRequest` for what is none, so that nothing is done."""
    asked = body.get(FIELD, {})
    if not isinstance(asked, dict) or asked.keys() - {"mode", "guard"}:
        raise BadRequest(400, f"`{FIELD}` is not an object of `mode` and `guard`")
    mode, guard = asked.get("mode", "act"), asked.get("guard", [])
    if mode not in MODES:
        raise BadRequest(400, f"`{FIELD}.mode` is none of {', '.join(MODES)}")
    if not isinstance(guard, list) or not all(map(is_entity_id, guard)):
        raise BadRequest(400, f"`{FIELD}.guard` is not a list of ids of entities, such as switch.heater")
    return RequestCare(cast(Mode, mode), frozenset(guard))


def parse_speaker_area(prompts: Iterable[str]) -> str | None:
    """The area, with its floor if it has one, that system messages tell."""
    found = [area for prompt in prompts for area in TOLD.findall(prompt)]
    return found[-1] if found else None


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str)).strip()


async def _answer_health(request: Request) -> Response:
    return PlainTextResponse("ok")  # for whom restarts it, without a key


async def _tell_unreadable_log(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 500)
