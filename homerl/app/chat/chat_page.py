"""The face of a talk in the browser: a page, and what it asks for.

Invariants:
- One answer runs at a time; until it has ended, nothing else is said or taken back. It ends too when the browser is gone.
- The page needs nothing from elsewhere, and its browser is told to load nothing from there.
- All text of agents and homes is escaped: by the world's drawing, or by the script, which makes texts and no HTML of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from homerl.app.chat.session import AgentAct, ChatSession, Event, SessionNote
from homerl.envs.core.messages import replace_surrogates
from homerl.host.html_pages import load_template
from homerl.host.web_server import (
    BadRequest,
    ServerAddress,
    admit_request,
    read_json_body,
    refusal_response,
    serve_until_stopped,
)
from homerl.play.trajectory import rows_to_json_lines, trajectory_to_row

TEMPLATE = Path(__file__).with_name("page.html.jinja")
LONGEST = 2000  # signs of a sentence
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def serve_chat_page(session: ChatSession, at: socket.socket) -> None:
    """Serve the page of a session at a socket of the loopback, until SIGTERM or SIGINT."""
    host, port = at.getsockname()[:2]
    asyncio.run(serve_until_stopped(ChatPage(session, ServerAddress(host, port)).build_chat_app(), at))


class ChatPage:
    """The routes of the page of a session."""

    def __init__(self, session: ChatSession, address: ServerAddress) -> None:
        self.session, self.address = session, address
        self._answering: asyncio.Task[None] | None = None

    def build_chat_app(self) -> Starlette:
        """The application."""
        shown = {"/": self._show_page, "/favicon.ico": _no_icon, "/talk": self._send_talk, "/talk.jsonl": self._save_talk}
        done = {"/say": self._say_sentence, "/stop": self._stop_answer, "/undo": self._undo_turn, "/reset": self._reset_talk}
        routes = [Route(path, answer) for path, answer in shown.items()]
        routes += [Route(path, answer, methods=["POST"]) for path, answer in done.items()]
        return Starlette(routes=routes, exception_handlers={BadRequest: refusal_response})

    async def _show_page(self, request: Request) -> Response:
        admit_request(request, self.address)
        nonce, look = secrets.token_urlsafe(16), self.session.visits.look
        drawn = {"css": Markup(look.css), "symbols": Markup(look.symbols)}
        name = self.session.partner.name
        told = {"name": name, "look": drawn, "suggestions": self.session.suggestions}
        page = load_template(TEMPLATE).render(nonce=nonce, longest=LONGEST, **told)
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY.format(nonce=nonce)})

    async def _send_talk(self, request: Request) -> Response:
        admit_request(request, self.address)
        return JSONResponse(self._talk_as_json())

    async def _save_talk(self, request: Request) -> Response:
        admit_request(request, self.address)
        self._refuse_busy()
        if not self.session.turns:
            raise BadRequest(409, "nothing was said yet")
        text = "".join(rows_to_json_lines([trajectory_to_row(self.session.to_trajectory())]))
        return Response(text, headers={"Content-Disposition": 'attachment; filename="talk.jsonl"'})

    async def _say_sentence(self, request: Request) -> Response:
        await self._admit_action(request)
        sentence = request.state.body.get("sentence")
        if not isinstance(sentence, str) or not sentence.strip() or len(sentence) > LONGEST:
            raise BadRequest(400, f"`sentence` is a text of 1 to {LONGEST} signs")
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._answering = asyncio.create_task(self._queue_events(replace_surrogates(sentence.strip()), lines))
        return StreamingResponse(self._stream_answer(self._answering, lines), media_type="application/x-ndjson")

    async def _stop_answer(self, request: Request) -> Response:
        admit_request(request, self.address)
        await read_json_body(request)
        if self._answering is not None:
            await _end_answer(self._answering)
        return JSONResponse(self._talk_as_json())

    async def _undo_turn(self, request: Request) -> Response:
        await self._admit_action(request)
        before = self.session.current_situation
        sentence = self.session.undo_turn()
        changed = [change.owner for change in self.session.visits.changes(before, self.session.current_situation)]
        return JSONResponse(self._talk_as_json() | {"undone": sentence, "changed": changed})

    async def _reset_talk(self, request: Request) -> Response:
        await self._admit_action(request)
        self.session.undo_all_turns()
        return JSONResponse(self._talk_as_json())

    async def _admit_action(self, request: Request) -> None:
        """Admit a request that does something while no answer runs, and read its body."""
        admit_request(request, self.address)
        request.state.body = await read_json_body(request)
        self._refuse_busy()

    @property
    def _is_answering(self) -> bool:
        return self._answering is not None and not self._answering.done()

    def _refuse_busy(self) -> None:
        if self._is_answering:
            raise BadRequest(409, "the answer to the last sentence has not ended")

    async def _stream_answer(self, task: asyncio.Task[None], lines: asyncio.Queue[str | None]) -> AsyncIterator[str]:
        """What comes of a sentence, one JSON object a line, and at the end the whole talk."""
        try:
            while (line := await lines.get()) is not None:
                yield line
        finally:
            await _end_answer(task)
        yield _to_json_line(self._talk_as_json())

    async def _queue_events(self, sentence: str, lines: asyncio.Queue[str | None]) -> None:
        try:
            async with aclosing(self.session.say_sentence(sentence)) as events:
                async for event in events:
                    home = {"home": self._draw_home()} if isinstance(event, AgentAct) and event.changes else {}
                    lines.put_nowait(_to_json_line({"event": chat_event_to_json(event)} | home))
        except Exception as error:  # of the model's program: the talk goes on
            logging.getLogger(__name__).exception("an answer broke off")
            lines.put_nowait(_to_json_line({"event": chat_event_to_json(SessionNote(f"no answer: {error}"))}))
        finally:
            lines.put_nowait(None)

    def _draw_home(self) -> str:
        return self.session.visits.drawn(self.session.current_situation)

    def _talk_as_json(self) -> dict[str, Any]:
        """The home and the talk so far."""
        turns = [{"sentence": one.sentence, "events": [*map(chat_event_to_json, one.events)]} for one in self.session.turns]
        return {"home": self._draw_home(), "turns": turns, "busy": self._is_answering}


async def _no_icon(request: Request) -> Response:
    """Browsers ask for an icon of whatever they show; there is none."""
    return Response(status_code=204)


async def _end_answer(task: asyncio.Task[None]) -> None:
    """Stop an answer, if it still runs."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def chat_event_to_json(event: Event) -> dict[str, Any]:
    """An event as the page's script reads it."""
    if not isinstance(event, AgentAct):
        return {"note": event.text}
    changes = [{"owner": change.owner, "thing": change.thing, "words": change.describe_change} for change in event.changes]
    step = {"calls": list(event.step.calls), "results": list(event.step.observations), "refused": bool(event.step.blocked)}
    return {"words": event.words, **step, "changes": changes}


def _to_json_line(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False) + "\n"
