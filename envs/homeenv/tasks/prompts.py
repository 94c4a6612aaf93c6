"""The texts that an agent gets at the start of an episode, and the form in which devices are listed.

Invariants: `home_system_prompt` holds what an agent may know of a home (rooms, names, ids), never its state or the task. The
instruction of a toolset is in the toolset's file, by language. If that file lacks a language, the language's folder holds
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from pydantic import Field

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.language import language_path
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.play.words.grammar import normalise_spaces


class CardExample(Model):
    """The example of a model card: a room, a light in it, and a person's request."""

    room: str
    device: str
    says: str


class AskedFor(Model):
    """What a question calls a thing that a request left open, by its sort; questions may also name the thing itself."""

    room: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()


class AgentPrompts(Model):
    """The texts for agents in one language (`languages/en/prompts.yaml`).

    `brief` is the instruction of the style "brief". `hour`, `floor`, `entrance`, `here` and `rooms` are templates, `days`
    are the names of the weekdays from Monday, and `between` separates rooms. `asked_for` has the words of questions for what
    a request left open; without it, a question names the devices, rooms or values themselves.
    """

    brief: str
    hour: str
    rooms: str
    days: tuple[str, ...]
    between: str
    floor: str
    entrance: str
    here: str = "The person speaks in {room}."
    memory: str
    example: CardExample
    asked_for: AskedFor = AskedFor()
    toolsets: dict[str, str] = Field({}, description="instructions of toolsets that do not know the language")


@lru_cache
def agent_prompts(language: str) -> AgentPrompts:
    """The texts for agents in a language. Raises `InputError` if the language has none."""
    return validate_document(AgentPrompts, read_yaml(language_path(language, "prompts.yaml")))


def toolset_instruction(toolset: str, language: str) -> str:
    """The full instruction of a toolset. Raises `InputError` if there is none in the language."""
    own, given = TOOLSETS[toolset].instruction, agent_prompts(language).toolsets
    if TOOLSETS[toolset].told:  # recorded in one language, whatever the home's is
        return own.get(language) or own["en"]
    if language not in own and toolset not in given:
        raise InputError(
            f"the toolset '{toolset}' has no instruction in '{language}'",
            "language",
            f"write it in the toolset's file, or under `toolsets` of {language_path(language, 'prompts.yaml')}",
        )
    return own[language] if language in own else given[toolset]


def home_system_prompt(
    devices: Iterable[Device], style: str = "brief", toolset: str = "homeflow", language: str = "en"
) -> str:
    """The instruction, and a list of the devices, one on each line: `- kitchen ceiling light=1001`."""
    listed = "\n".join(f"- {device_label(device)}" for device in devices)
    told = agent_prompts(language).brief if style == "brief" else toolset_instruction(toolset, language)
    return f"{told}\n{listed}"


def episode_system_prompt(
    home: Home, style: str = "brief", toolset: str = "homeflow", memory: Iterable[str] = (), language: str = "en"
) -> str:
    """The system prompt of an episode: instruction and devices, and in the style "full" also time, rooms and entrance.

    The memory of the person follows, if there is any. The time is given in any style if the toolset can make automations. A
    toolset of one answer, which cannot query the home, adds what it shows of the home. The room where the person speaks is
    the last line.
    """
    told, given = agent_prompts(language), TOOLSETS[toolset]
    full = style == "full" and not given.told
    # A toolset may have a way of its own to tell of a home, or to list its devices.
    if style == "full" and given.told:
        parts = [given.told(home)]
    elif given.listed:
        parts = [f"{told.brief}\n{given.listed(home)}"]
    else:
        parts = [home_system_prompt(home.plan.devices, style, toolset, language)]
    if full or given.automations:  # an agent that makes automations must know the time
        moment = datetime.fromtimestamp(home.clock, UTC)
        day = told.days[moment.weekday()]
        parts.append(told.hour.format(day=day, date=f"{moment:%Y-%m-%d}", time=f"{moment:%H:%M}"))
    if full:
        rooms = [room.name for room in home.plan.rooms]
        if len({room.floor for room in home.plan.rooms}) > 1:  # floor 0 is the lowest
            rooms = [told.floor.format(room=room.name, floor=room.floor) for room in home.plan.rooms]
        parts.append(told.rooms.format(rooms=told.between.join(rooms)))
        parts += [told.entrance.format(did=home.plan.entrance)] if home.plan.entrance in home.plan.devices_by_did else []
    if known := [f"- {fact}" for fact in memory]:
        parts.append("\n".join([told.memory, *known]))
    if given.shown:
        parts.append(json.dumps(given.shown(home), ensure_ascii=False))
    # last, so that a server keeps the prompt of one room for the next
    if home.plan.entrance in home.plan.rooms_by_id and (style != "full" or full):  # `given.told` names the area itself
        parts.append(told.here.format(room=home.plan.rooms_by_id[home.plan.entrance].name))
    return "\n".join(parts)


def device_label(device: Device) -> str:
    """A device as agents see it listed: `kitchen wall light=1001`, or the id alone if the id is made of the names."""
    if device.did == device.slug_name:
        return device.did
    return normalise_spaces(f"{device.room.name} {device.name}") + f"={device.did}"


def describe_services(device: Device) -> str:
    """The services with the types of their arguments, such as `turn_on(); set_brightness(int 1-100)`."""
    services = device.spec.service_index.items()
    types = {path: ", ".join(kind.describe_type() for kind in compiled.service.arguments) for path, compiled in services}
    return "; ".join(f"{path}({described})" for path, described in types.items())
