"""Who waits for the reply to a sentence, and how long.

A person who hears nothing says it again. So what was asked first must not be carried out minutes later.

How much more careful than it was started an agent is to be for one request.

Invariant: a request never makes an agent less careful.

Where the person speaks: Home Assistant tells the area of the satellite in its system message, always in English.

Invariants: the last such line counts, since Home Assistant writes it behind the names of entities; a name that no room of
the home has tells nothing.

Texts from outside, made fit for files and for other programs, and dialogues, made fit for a model.

How much of what a model reads before a dialogue it has read before: a server's cache saves it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from homerl.envs.assistant.listing.home_listing import ENTITY
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.assist.entities_of_home import areas_of_plan
from homerl.envs.homeenv.sim.assist.intents import is_same_name
from homerl.envs.homeenv.sim.home import Home
from homerl.host.web_server import BadRequest
from homerl.play.episode import Episode

LOOK_SECONDS = 0.25  # between two looks whether the asker is still there
T = TypeVar("T")


class AskerGone(Exception):
    """Nobody waits for the reply any more."""


async def never_gone() -> bool:
    """The `gone` of an asker who never goes."""
    return False


@dataclass(frozen=True)
class Asker:
    """Someone who waits until a time of the monotonic clock, or goes before."""

    until: float
    gone: Callable[[], Awaitable[bool]] = never_gone

    @property
    def remaining_seconds(self) -> float:
        """The seconds that the asker waits on."""
        return max(0.0, self.until - time.monotonic())

    async def require_waiting(self) -> None:
        """Raise `AskerGone` if the asker does not wait any more."""
        if time.monotonic() > self.until:
            raise AskerGone("it took too long")
        if await self.gone():
            raise AskerGone("whoever asked has hung up")

    async def run_while_waiting(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of work, which is cancelled once nobody waits for it. Raises `AskerGone`."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await self.require_waiting()
                await asyncio.wait({task}, timeout=LOOK_SECONDS)
            return await task
        finally:
            task.cancel()
            await asyncio.wait({task})


Mode = Literal["shadow", "confirm", "act"]
MODES: tuple[Mode, ...] = ("shadow", "confirm", "act")  # from the most careful
FIELD = "homerl"  # of the body of a request


@dataclass(frozen=True)
class RequestCare:
    """The most that is done for a request, and the ids of devices that are guarded as well."""

    mode: Mode = "act"
    guard: frozenset[str] = frozenset()

    def limit_mode(self, mode: Mode) -> Mode:
        """The mode of an agent that was started in this mode."""
        return min(self.mode, mode, key=MODES.index)


def parse_request_care(body: dict[str, Any]) -> RequestCare:
    """The care that the body of a request asks for. Raises `BadRequest` for what is none, so that nothing is done."""
    asked = body.get(FIELD, {})
    if not isinstance(asked, dict) or asked.keys() - {"mode", "guard"}:
        raise BadRequest(400, f"`{FIELD}` is not an object of `mode` and `guard`")
    mode, guard = asked.get("mode", "act"), asked.get("guard", [])
    if mode not in MODES:
        raise BadRequest(400, f"`{FIELD}.mode` is none of {', '.join(MODES)}")
    if not isinstance(guard, list) or not all(isinstance(one, str) and ENTITY.fullmatch(one) for one in guard):
        raise BadRequest(400, f"`{FIELD}.guard` is not a list of ids of entities, such as switch.heater")
    return RequestCare(cast(Mode, mode), frozenset(guard))


TOLD = re.compile(r"^You are in area (.+) and all generic commands", re.M)
FLOOR = re.compile(r" \(floor [^()]*\)$")


def parse_speaker_area(prompts: Iterable[str]) -> str | None:
    """The area, with its floor if it has one, that system messages tell."""
    found = [area for prompt in prompts for area in TOLD.findall(prompt)]
    return found[-1] if found else None


def place_speaker(home: Home, area: str | None) -> Home:
    """A home in which the person speaks in an area, as `parse_speaker_area` has it, or nobody knows where."""
    told = (area, FLOOR.sub("", area)) if area else ()
    room = next(
        (
            one.room.id
            for by in told
            for one in areas_of_plan(home.plan)
            if any(is_same_name(name, by) for name in one.names)
        ),
        None,
    )
    if room == home.plan.entrance:
        return home
    placed = home.fork()
    placed.plan = replace(home.plan, entrance=room)
    return placed


MOST_MESSAGES = 40  # of a dialogue that the agent reads; the oldest are left out


def replace_lone_surrogates(value: Any) -> Any:
    """A value of JSON whose texts can be written as UTF-8: half of a pair of surrogates becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {replace_lone_surrogates(key): replace_lone_surrogates(part) for key, part in value.items()}
    if isinstance(value, list):
        return [replace_lone_surrogates(part) for part in value]
    return tuple(replace_lone_surrogates(part) for part in value) if isinstance(value, tuple) else value


def recent_messages(dialogue: Sequence[Message]) -> Sequence[Message]:
    """What the agent reads of a dialogue: it begins and ends with words of the person."""
    last = dialogue[-MOST_MESSAGES:]
    return last[next(at for at, message in enumerate(last) if message["role"] == "user") :]


def prompt_before_dialogue(episode: Episode) -> str:
    """What a model reads before the dialogue: tools and system prompt, in the order in which templates write them."""
    return json.dumps([*episode.world.tools, episode.messages[0]["content"]])


def cached_prompt_share(before: str | None, now: str) -> float | None:
    """The share of a prompt, from its beginning, that is as it was before."""
    if before is None:
        return None
    differs = (at for at, (one, other) in enumerate(zip(before, now)) if one != other)
    return round(next(differs, min(len(before), len(now))) / len(now), 4)
