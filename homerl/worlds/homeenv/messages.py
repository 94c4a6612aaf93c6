"""What agents are told of a home at the start, and how devices are listed.

Invariants: `system_prompt` holds what an agent may know of a home (rooms, names, ids), never its state or the task; a
language is one file of `prompts/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from envs.documents import InputError, read_yaml, validate
from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.toolsets import TOOLSETS
from envs.model import Model
from homerl.language.grammar import tight

PROMPTS = Path(__file__).parent / "prompts"


class Prompts(Model):
    """What agents are told, in one language (prompts/en.yaml)."""

    brief: str
    hour: str
    rooms: str
    days: tuple[str, ...]
    between: str
    floor: str
    entrance: str
    memory: str


@lru_cache
def prompts(language: str) -> Prompts:
    """The texts of a language."""
    known = sorted(path.stem for path in PROMPTS.glob("*.yaml"))
    if language not in known:
        raise InputError(f"there are no prompts in '{language}'", "language", f"known: {', '.join(known)}")
    return validate(Prompts, read_yaml(PROMPTS / f"{language}.yaml"))


def system_prompt(devices: Iterable[Device], style: str = "brief", toolset: str = "homeflow", language: str = "en") -> str:
    """The instruction and the home's devices, one a line: `- kitchen ceiling light=1001`."""
    listed = "\n".join(f"- {label(device)}" for device in devices)
    told = prompts(language)
    return f"{told.brief if style == 'brief' else TOOLSETS[toolset].instruction[language]}\n{listed}"


def briefing(
    home: Home, style: str = "brief", toolset: str = "homeflow", memory: Iterable[str] = (), language: str = "en"
) -> str:
    """All that an agent is told at the start: instruction, devices, and (in full) hour, rooms, entrance; its memory.

    An agent that can make automations is told the hour in any case; one that cannot ask is shown what its toolset shows.
    """
    told, given = prompts(language), TOOLSETS[toolset]
    parts = [system_prompt(home.plan.devices, style, toolset, language)]
    if style == "full" or given.automations:  # who makes automations must know the hour
        moment = datetime.fromtimestamp(home.clock, UTC)
        day = told.days[moment.weekday()]
        parts.append(told.hour.format(day=day, date=f"{moment:%Y-%m-%d}", time=f"{moment:%H:%M}"))
    if style == "full":
        parts.append(told.rooms.format(rooms=told.between.join(_placed(home, told))))
        parts += [told.entrance.format(did=home.plan.entrance)] if home.plan.entrance else []
    if known := [f"- {fact}" for fact in memory]:
        parts.append("\n".join([told.memory, *known]))
    if given.shown:
        parts.append(json.dumps(given.shown(home), ensure_ascii=False))
    return "\n".join(parts)


def _placed(home: Home, told: Prompts) -> Iterator[str]:
    """Room names, with their floor (0 is the lowest) where the home has several."""
    storeys = len({room.floor for room in home.plan.rooms})
    for room in home.plan.rooms:
        yield room.name if storeys == 1 else told.floor.format(room=room.name, floor=room.floor)


def label(device: Device) -> str:
    """How a device is listed: `kitchen wall light=1001`, or the id alone where it says as much."""
    return device.did if device.did == device.slug else tight(f"{device.room.name} {device.name}") + f"={device.did}"
