"""A WebSocket client of Home Assistant, and what its history tells of devices that move: whether they take their time.

Invariants:
- A token comes from an environment variable and is in no log, repr or message of an error. It is shown only to the address
  that its owner gave: a redirect is not followed.
- Whatever goes wrong is a `HomeAssistantError` that says what, where and what to do, in words for the home's owner.
- One command is under way at a time, and its answer belongs to it: a late answer to a command given up is skipped.
- Of an entity's past nothing is kept but which states it was in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as opening
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from homerl.envs.assistant.listing.home_listing import (
    ASSIST,
    ENTRIES,
    EXPOSED,
    HISTORY,
    PLAIN,
    SERVICES,
    STATES,
    Listing,
    entity_domain,
)


class HomeAssistantError(Exception):
    """What was wrong, where, and what to do; with Home Assistant's code and message if it gave them."""

    def __init__(self, text: str, code: str | None = None, said: str | None = None) -> None:
        super().__init__(text)
        self.code, self.said = code, said


class HomeAssistantUnreachable(HomeAssistantError):
    """Nothing answers at the address now."""


PATIENCE = 60.0  # seconds for one answer: the slowest service call of a real home
ADDRESS = re.compile(r"https?://([^@:/?#\[\]\s]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[^?#\s]*)?")

PAGE = re.compile(r"(?<=[^/:])/.*")  # what follows host and port
SECRET_PART = re.compile(r"(?<=//).*@|[?#].*")  # of an address: a password, a token

frames = logging.getLogger(f"{__name__}.frames")
frames.setLevel(logging.WARNING)  # at DEBUG the library logs each message, and the first one is the token


def read_token(variable: str) -> SecretStr:
    """The token that an environment variable holds."""
    token = os.environ.get(variable, "").strip()
    if not token:
        raise HomeAssistantError(
            f"The environment variable {variable} holds no token. In Home Assistant, open your profile, Security, and make "
            f"a long-lived access token. Then: export {variable}=..."
        )
    return SecretStr(token)


class _Opening(opening):
    """Opens a socket at the address that is given, and nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


@asynccontextmanager
async def connect_client(url: str, token: SecretStr, patience: float = PATIENCE) -> AsyncIterator[HomeAssistantClient]:
    """A client of the Home Assistant at a URL (`http://127.0.0.1:8123`); it is closed on leaving.

    The address of one of its pages is understood: what does not greet there is asked at the top.
    """
    top = PAGE.sub("", url)
    if url.rstrip("/") != top and ADDRESS.fullmatch(url):
        try:
            socket = await _open_socket(url, patience)
        except HomeAssistantUnreachable:
            raise
        except HomeAssistantError:
            url, socket = top, await _open_socket(top, patience)
    else:
        socket = await _open_socket(url, patience)
    async with socket:
        yield HomeAssistantClient(url, socket, await _authenticate(url, socket, token, patience), patience)


async def _open_socket(url: str, patience: float) -> ClientConnection:
    """A socket at a URL that nothing was sent to yet."""
    if not ADDRESS.fullmatch(url):
        shown = SECRET_PART.sub("", url)
        raise HomeAssistantError(f"'{shown}' is no address of a Home Assistant. Write it like http://127.0.0.1:8123")
    address = f"ws{url.removeprefix('http').rstrip('/')}/api/websocket"
    try:
        # a home stands in its own network, so no proxy; a listing is one message of some MB, so no limit
        return await _Opening(address, max_size=None, open_timeout=patience, proxy=None, logger=frames)
    except InvalidStatus as error:
        status = error.response.status_code
        if (elsewhere := error.response.headers.get("Location")) is not None and 300 <= status < 400:
            place = SECRET_PART.sub("", elsewhere)  # its owner, not the server, says whom the token is shown to
            raise HomeAssistantError(
                f"{url} answers HTTP {status}, a redirect to {place}. It is not followed, for the token would go there. "
                f"If you trust that place, give the address that a browser then shows."
            ) from None
        raise HomeAssistantError(
            f"{url} answers HTTP {status}, not as Home Assistant does. Give the address that you open in a browser."
        ) from None
    except (OSError, ValueError, TimeoutError, InvalidHandshake) as error:
        reason = str(error) or type(error).__name__
        raise HomeAssistantUnreachable(
            f"{url} cannot be reached ({reason}). Is Home Assistant running, and are host, port and http(s) right?"
        ) from None


class HomeAssistantClient:
    """An authenticated connection. `version` is Home Assistant's."""

    def __init__(self, url: str, socket: ClientConnection, version: str, patience: float) -> None:
        self.url, self.version = url, version
        self._socket, self._patience = socket, patience
        self._ids, self._turn = count(1), asyncio.Lock()

    async def call_command(self, command: str, **fields: Any) -> Any:
        """The result of a WebSocket command."""
        async with self._turn:
            answer = await self._exchange({"id": next(self._ids), "type": command, **fields})
        if answer.get("success"):
            return answer.get("result")
        error = answer.get("error") or {}
        code, said = str(error.get("code", "unknown_error")), str(error.get("message", ""))
        name = f"{command} {fields['domain']}.{fields['service']}" if command == "call_service" else command
        text = f"`{name}` at {self.url}: Home Assistant says: {said} ({code})"
        if code == "unknown_command":
            text = (
                f"Home Assistant {self.version} at {self.url} does not know the command `{command}`. Update it, or load the "
                f"integration that has the command."
            )
        if code == "unauthorized":
            text += ". Use the token of an administrator."
        raise HomeAssistantError(text, code, said)

    async def read_states(self) -> list[dict[str, Any]]:
        """The state of every entity."""
        return list(await self.call_command("get_states"))

    async def read_translations(self, language: str, categories: Iterable[str]) -> dict[str, str]:
        """Home Assistant's texts in a language, by key."""
        found: dict[str, str] = {}
        for category in categories:
            answer = await self.call_command("frontend/get_translations", language=language, category=category)
            texts = answer.get("resources") if isinstance(answer, dict) else None
            found |= {key: text for key, text in (texts or {}).items() if isinstance(text, str)}
        return found

    async def read_exposed_entities(self) -> frozenset[str]:
        """The entities of which Home Assistant says that they are exposed to Assist."""
        answer = await self.call_command(EXPOSED)
        try:
            return frozenset(name for name, to in answer["exposed_entities"].items() if to.get(ASSIST))
        except (TypeError, KeyError, AttributeError):
            what = f"{self.url} answered `{EXPOSED}` with what is no list of entities. Is a proxy in between?"
            raise HomeAssistantError(what) from None

    async def receive_events(self) -> AsyncIterator[dict[str, Any]]:
        """The events that were subscribed to, as they come. Nothing else may be asked meanwhile.

        Raises `HomeAssistantError` when the connection ends.
        """
        while True:
            try:
                message = await _receive_message(self._socket)
            except (ConnectionClosed, ValueError):
                raise HomeAssistantError(f"{self.url} tells no more events. Has Home Assistant stopped?") from None
            if message.get("type") == "event":
                yield message.get("event") or {}

    async def call_service(
        self, domain: str, service: str, data: Mapping[str, Any], target: Mapping[str, Any], returns: bool = False
    ) -> Any:
        """Call a service (an action) and wait until Home Assistant has carried it out; its answer if it `returns` one."""
        fields: dict[str, Any] = {"domain": domain, "service": service, "service_data": dict(data), "target": dict(target)}
        fields |= {"return_response": True} if returns else {}
        return (await self.call_command("call_service", **fields)).get("response")

    async def read_listing(self) -> Listing:
        """Everything that an importer needs of this home."""
        sources = {command: await self.call_command(command) for command in PLAIN}
        named = [entity["entity_id"] for entity in sources["config/entity_registry/list"]]
        sources[ENTRIES] = await self.call_command(ENTRIES, entity_ids=named)
        sources[SERVICES] = {
            entity: sorted(await self.call_command(SERVICES, target={"entity_id": [entity]}))
            for entity in sorted(state["entity_id"] for state in sources["get_states"])
        }
        return Listing(version=self.version, sources=sources)

    async def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a command, and wait for its answer."""
        command = message["type"]
        try:
            async with asyncio.timeout(self._patience):
                await self._socket.send(json.dumps(message))
                while (answer := await _receive_message(self._socket)).get("id") != message["id"]:
                    pass  # the answer to a command given up
                return answer
        except TimeoutError:
            what = f"gave no answer to `{command}` within {self._patience:g} s. Is Home Assistant busy?"
        except ConnectionClosed:
            what = f"closed the connection at `{command}`. Has Home Assistant stopped?"
        except ValueError:
            what = f"answered `{command}` with what is no message. Is a proxy in between?"
        raise HomeAssistantError(f"{self.url} {what}")


async def _receive_message(socket: ClientConnection) -> dict[str, Any]:
    message = json.loads(await socket.recv())
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message


async def _authenticate(url: str, socket: ClientConnection, token: SecretStr, patience: float) -> str:
    """Show the token; the version of the Home Assistant that took it."""
    try:
        async with asyncio.timeout(patience):
            hello = await _receive_message(socket)
            await socket.send(json.dumps({"type": "auth", "access_token": token.get_secret_value()}))
            answer = await _receive_message(socket)
    except (TimeoutError, ConnectionClosed, ValueError):
        raise HomeAssistantError(f"{url} does not greet as Home Assistant does. Is another program at this port?") from None
    if answer.get("type") != "auth_ok":
        raise HomeAssistantError(
            f"Home Assistant at {url} refused the token ({answer.get('message', 'no reason given')}). Make a new long-lived "
            f"access token: your profile, Security.",
            code=str(answer.get("type")),
        )
    return str(answer.get("ha_version") or hello.get("ha_version") or "of unknown version")


PAST = timedelta(days=10)  # for so long Home Assistant keeps its history, unless its owner says otherwise
UNDERWAY = frozenset("opening closing locking unlocking arming disarming pending returning".split())
MOVING = ("alarm_control_panel", "cover", "lock", "valve")  # domains whose states tell that something is under way
ROAMING = ("lawn_mower", "vacuum")  # domains of robots, of which only the way home may be at once
HOME = "docked"
NONE = frozenset(("unknown", "unavailable", ""))


async def with_state_history(client: HomeAssistantClient, listing: Listing) -> Listing:
    """The listing with the states in which its moving entities were, if the home keeps a history.

    Those whose past the listing knows are not asked for. Of a robot, what follows its last return does not count: it may
    be on its way.
    """
    now, known = datetime.now(UTC), listing.sources.get(HISTORY, {})
    names = {row["entity_id"] for row in listing.sources[STATES]} - known.keys()
    moving = [name for name in names if entity_domain(name) in (*MOVING, *ROAMING)]
    asked = {"start_time": (now - PAST).isoformat(), "end_time": now.isoformat(), "entity_ids": sorted(moving)}
    try:
        told = await client.call_command("history/history_during_period", **asked, no_attributes=True) if moving else {}
    except HomeAssistantError as error:
        if error.code is None:
            raise
        told = {}
    seen = dict(known)
    for name in moving:
        states = [str(row.get("s", row.get("state", ""))) for row in told.get(name, ())]
        if entity_domain(name) in ROAMING:
            states = states[: max((number for number, state in enumerate(states, 1) if state == HOME), default=0)]
        seen[name] = sorted({*states} - NONE)
    return listing.with_sources({HISTORY: dict(sorted(seen.items()))})


def is_moved_at_once(domain: str, states: Collection[str], assumed: bool) -> bool:
    """Whether an entity that was in these states is where it is sent at once: it moved, and never was on its way.

    One whose state is assumed shows what it was told; a robot, that it returns.
    """
    moved = domain in (*MOVING, *ROAMING) and len(states) > 1 and not UNDERWAY & {*states}
    return moved or (assumed and domain in MOVING)
