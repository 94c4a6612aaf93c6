"""Words for what questions about the present scene name and answer, as the captions of its transcript say them.

Kinds of things begin with `scene:`: `actor`, `thing`, `spot` (where a thing is: at something, or with somebody), `zone`,
`sound`, `state`, `posture`, `act`, and `look:<attribute>`.

Invariants: a text is a pure function of household and value; what a caption calls something is among its texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.naming import GROUPS, transcript_nouns
from homerl.envs.personalhome.sim.scene.play import GONE
from homerl.envs.personalhome.sim.scene.playbook import CaptionWords, load_caption_words, load_stage
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.sim.words import FactCast, household_cast
from homerl.envs.personalhome.tasks.questions.scene_tables import SceneAct
from homerl.envs.personalhome.tasks.questions.scenes import CHANGING
from homerl.envs.personalhome.tasks.questions.tables import HouseholdTables

VALUES = {  # kind -> the (table, column) pairs whose values are of this kind, those of the scene first
    "actor": (("scene_acts", "who"), ("scene_looks", "who"), ("members", "who"), ("pets", "pet")),
    "thing": (("scene_acts", "what"), ("scene_acts", "at")),
    "spot": (("scene_acts", "at"), ("scene_acts", "who")),
    "zone": (("scene_acts", "zone"), ("scene_sounds", "zone"), ("appliances", "room"), ("sensors", "room")),
    "sound": (("scene_sounds", "sound"),),
    "act": (("scene_acts", "act"),),
}
TYPED = {  # kind -> (table, column, attributes) where rows of these attributes have values of this kind
    "thing": (("scene_things", "thing", ("colour", "finish", "zone")),),
    "spot": (("scene_things", "thing", ("zone",)),),
    "state": (("scene_states", "value", CHANGING),),
    "posture": (("scene_states", "value", ("posture",)),),
}


@dataclass(frozen=True)
class SceneWords:
    """The words of a household's scene. `personal` names people and appliances by name, and not by id."""

    household: Household
    said: Mapping[str, str]  # `phrases/<language>.yaml`, `scenes`
    personal: bool

    @property
    def scene_transcript(self) -> Transcript:
        """The transcript of the scene."""
        assert self.household.transcript is not None
        return self.household.transcript

    @cached_property
    def scene_nouns(self) -> Mapping[str, str]:
        """What captions call everything in the scene, by id."""
        return transcript_nouns(self.scene_transcript)

    @cached_property
    def fact_cast(self) -> FactCast:
        """What texts call people, rooms and devices."""
        return household_cast(self.household.members, self.household.home)

    @property
    def caption_words(self) -> CaptionWords:
        """The words of captions in the household's language."""
        return load_caption_words(self.household.language)

    def say_value(self, kind: str, value: Any) -> str:
        """The words for a thing of a kind."""
        return next(self._texts(kind.removeprefix("scene:"), value))

    def answer_texts(self, kind: str, value: Any) -> tuple[str, ...]:
        """The texts that give an answer, the best first, each once."""
        return tuple(dict.fromkeys(self._texts(kind.removeprefix("scene:"), value)))

    def _texts(self, kind: str, value: Any) -> Iterator[str]:
        if kind == "act":
            yield from self._clauses(value)
        elif kind == "zone" and value != GONE:
            room = self.fact_cast.rooms[value]
            noun = self.caption_words.frames["zone"].format(name=room.name)
            yield from (noun, room.name, self.caption_words.frames["location"].format(zone=noun), value)
        elif kind in ("actor", "thing", "spot"):
            yield from self._names(value)
            if kind == "spot":
                frame = self.caption_words.frames["held" if value in self._holders() else "place"]
                yield from [frame.format(at=name) for name in self._names(value)]
        elif kind == "sound":
            yield self.caption_words.sounds[value]
        else:
            yield getattr(self.caption_words, GROUPS.get(kind.removeprefix("look:"), "states"))[value]

    def _clauses(self, act: SceneAct) -> Iterator[str]:
        """What is done: in names, in ids, as the caption says it, and without its subject."""
        for personal in (self.personal, not self.personal):
            wording = replace(self, personal=personal)
            who = wording._noun(act.who) if act.who else ""
            fields = {"who": who, **{name: wording._noun(getattr(act, name) or "") for name in ("what", "at", "zone")}}
            clause = self.caption_words.actions[act.do].format(**fields)
            yield clause
            if act.place and not act.zone:
                yield self.caption_words.frames["within"].format(sentence=clause, zone=wording._noun(act.place))
            if who:
                yield clause.removeprefix(who).strip()

    def _noun(self, id: str) -> str:
        """What a sentence calls somebody or something, or what stands there for what is not said."""
        return self.said[id.removeprefix("?")] if id.startswith("?") else next(self._names(id), "")

    def _names(self, id: str) -> Iterator[str]:
        """The names of somebody or something: the best, then others, then the id."""
        called = self.fact_cast.people.get(id) or self.fact_cast.devices.get(id)
        if called and self.personal:
            yield called
        if id in self.scene_nouns:
            yield self.scene_nouns[id]
            labels = [one.label for one in self.scene_transcript.video_description.entities.objects if one.object_id == id]
            yield from (label for label in labels if self._alone(label))
        if called:
            yield called
        if id:
            yield id

    def _alone(self, label: str) -> bool:
        """Whether one object alone is called so."""
        return [one.label for one in self.scene_transcript.video_description.entities.objects].count(label) == 1

    def _holders(self) -> set[str]:
        """Those who may hold things."""
        entities = self.scene_transcript.video_description.entities
        return {one.member_id for one in entities.members} | {one.pet_id for one in entities.pets}


def values_in_scene(kind: str, tables: HouseholdTables) -> list[Any]:
    """The values of a kind in the tables, those of the scene first."""
    name = kind.removeprefix("scene:")
    pairs = VALUES.get(name, ())
    found = [row[column] for table, column in pairs for row in tables.rows[table] if row[column] is not None]
    for table, column, attributes in TYPED.get(name, ()):
        found += [row[column] for row in tables.rows[table] if row["attribute"] in attributes]
    if name.startswith("look:"):
        rows = [*tables.rows["scene_looks"], *tables.rows["scene_things"]]
        found += [row["value"] for row in rows if row["attribute"] == name.removeprefix("look:")]
    return found


def values_elsewhere(kind: str) -> list[Any]:
    """The values of a kind that scenes may have, in a fixed order."""
    name = kind.removeprefix("scene:")
    keys = load_stage()
    if name == "sound":
        return list(keys.sounds)
    if name in ("state", "posture"):
        attributes = CHANGING if name == "state" else ("posture",)
        after = [value for action in keys.actions.values() for _, attribute, value in action.sets if attribute in attributes]
        return list(dict.fromkeys([*after, *(keys.before[value] for value in after if value in keys.before)]))
    if not name.startswith("look:"):
        return []
    attribute = name.removeprefix("look:")
    groups = {
        "hair": keys.hair,
        "top": keys.tops,
        "bottom": keys.bottoms,
        "feet": keys.feet,
        "position": keys.positions,
        "finish": keys.finishes,
        "light": tuple(keys.light),
    }
    return list(groups.get(attribute, keys.colours))
