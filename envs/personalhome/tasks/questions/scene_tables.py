"""The present scene of a household as tables: what is done, heard and seen in its video.

`scene_acts` and `scene_sounds` tell what happens, without its times; `scene_acts_timed` and `scene_sounds_timed` are the
same rows for programs that read times, in seconds from the start of the video. `scene_states` tells what state somebody or
something is in from a time on, `scene_things` what does not change, `scene_looks` what people look like.

Invariants: a row is a fact that a scene tool can show, and its id is the one that the tool counts as shown; rows of one
event share its name; without a transcript every table is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.playbook import load_caption_words
from homerl.envs.personalhome.sim.scene.reading import readable_ids
from homerl.envs.personalhome.sim.scene.transcript import SceneFact, Transcript

Row = Mapping[str, Any]
TABLES = (
    "scene_acts",
    "scene_acts_timed",
    "scene_sounds",
    "scene_sounds_timed",
    "scene_states",
    "scene_things",
    "scene_looks",
)
THINGS = ("zone", "finish", "colour", "position", "light")  # attributes of things that stay as they are
LOOKS = ("hair", "top", "top_colour", "bottom", "bottom_colour", "feet")


@dataclass(frozen=True)
class SceneAct:
    """Something that is done, as a caption says it: the action, who does it, to what, at what.

    `zone` is where, if the caption's words for the action name it. `place` is where in any case; it makes no difference.
    """

    do: str
    who: str | None = None
    what: str | None = None
    at: str | None = None
    zone: str | None = None
    place: str | None = field(default=None, compare=False)


def make_scene_tables(household: Household) -> dict[str, tuple[Row, ...]]:
    """The tables of a household's transcript by name."""
    found: dict[str, list[Row]] = {name: [] for name in TABLES}
    if household.transcript is not None:
        for table, row in _rows(household.transcript):
            found[table].append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def _rows(transcript: Transcript) -> Iterator[tuple[str, Row]]:
    """Each row with its table, in the order of the facts."""
    known = readable_ids(transcript)
    for fact in transcript.facts:
        id = f"scene:{fact.id}"
        if id not in known:
            continue
        timed = f"{id}.time" if f"{id}.time" in known else id
        span = {"event": fact.event_id, "start": fact.ts_start, "end": fact.ts_end}
        if fact.action is not None:
            row = {**_act(fact, transcript.language), **span}
            yield "scene_acts", {"id": id, **row}
            yield "scene_acts_timed", {"id": timed, **row}
        elif fact.sound is not None:
            row = {"sound": fact.sound, "zone": fact.zone, **span}
            yield "scene_sounds", {"id": id, **row}
            yield "scene_sounds_timed", {"id": timed, **row}
        elif fact.attribute in THINGS:
            yield "scene_things", {"id": id, "thing": fact.object, "attribute": fact.attribute, "value": fact.value}
        elif fact.attribute in LOOKS:
            yield "scene_looks", {"id": id, "who": fact.actor, "attribute": fact.attribute, "value": fact.value}
        else:
            owner = {"thing": fact.actor or fact.object, "attribute": fact.attribute, "value": fact.value}
            yield "scene_states", {"id": timed, **owner, **span}


def _act(fact: SceneFact, language: str) -> Row:
    """The columns of an action."""
    assert fact.action is not None
    at = fact.value if fact.attribute == "at" else None
    named = fact.zone if "{zone}" in load_caption_words(language).actions[fact.action] else None
    act = SceneAct(fact.action, fact.actor, fact.object, at, named, fact.zone)
    return {"do": fact.action, "who": fact.actor, "what": fact.object, "at": at, "zone": fact.zone, "act": act}
