"""The words of a scene: noun phrases for ids, sentences for events, descriptions for states.

Invariant: a sentence names the actor, the object, the zone, the place and the sound of its event, and nothing that is not a
fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from homerl.envs.personalhome.sim.scene.casting import SceneCast
from homerl.envs.personalhome.sim.scene.play import GONE, SceneMove
from homerl.envs.personalhome.sim.scene.playbook import CaptionWords, load_caption_words


@dataclass(frozen=True)
class SceneWording:
    """The words of a language, and the noun phrase of every id. People, pets and appliances are called by their ids.

    `holders` are the ids of people and pets.
    """

    words: CaptionWords
    nouns: Mapping[str, str]
    holders: frozenset[str]

    def fill_scene_frame(self, name: str, **fields: str) -> str:
        """A frame with its fields filled in."""
        return self.words.frames[name].format(**fields)

    def list_parts(self, parts: Iterable[str]) -> str:
        """Parts in a row: `a, b and c`."""
        *first, last = list(parts) or [""]
        return self.words.frames["list"].join(first) + (self.words.frames["zones_and"] if first else "") + last

    def action_sentence(self, move: SceneMove) -> str:
        """The sentence of what is done, or else of what is heard, and where."""
        return self._sentence(self._within(self._clause(move), move)) if move.do else self.sound_sentence(move, located=True)

    def sound_sentence(self, move: SceneMove, located: bool = False) -> str:
        """The sentence of what is heard; empty if nothing is."""
        if not move.sound:
            return ""
        clause = self.fill_scene_frame("heard", sound=self.words.sounds[move.sound])
        return self._sentence(self._within(clause, move) if located else clause)

    def event_caption(self, move: SceneMove) -> str:
        """All that an event shows and lets hear."""
        heard = self.sound_sentence(move) if move.do else ""
        return self.words.frames["separator"].join(filter(None, [self.action_sentence(move), heard]))

    def join_sentences(self, sentences: Iterable[str]) -> str:
        """Sentences as one text."""
        return self.words.frames["separator"].join(sentences)

    def state_text(self, attribute: str, value: str) -> str:
        """A state in words: `in the kitchen`, `at the counter`, `on`."""
        if value == GONE:
            return self.words.frames["gone"]
        if attribute == "location":
            return self.fill_scene_frame("location", zone=self.nouns[value])
        if attribute == "place":
            return self.place_text(value)
        return self.words.states[value]

    def place_text(self, id: str) -> str:
        """Where a thing is. It is `with` whoever holds it."""
        return self.fill_scene_frame("held" if id in self.holders else "place", at=self.nouns[id])

    def _clause(self, move: SceneMove) -> str:
        fields = {"who": move.who, "what": move.what, "at": move.at, "zone": move.zone}
        return self.words.actions[move.do or ""].format(**{name: self.nouns[id] for name, id in fields.items() if id})

    def _within(self, clause: str, move: SceneMove) -> str:
        named = move.do is not None and "{zone}" in self.words.actions[move.do]
        return clause if named else self.fill_scene_frame("within", sentence=clause, zone=self.nouns[move.zone])

    def _sentence(self, clause: str) -> str:
        """The clause as a sentence. It begins with a capital letter, unless with an id."""
        id = any(noun == id and clause.startswith(noun) for id, noun in self.nouns.items())
        return self.fill_scene_frame("sentence", text=clause if id else clause[:1].upper() + clause[1:])


def make_scene_wording(cast: SceneCast, colours: Mapping[str, str], language: str) -> SceneWording:
    """The wording of a scene. `colours` are those of the objects. Raises `InputError` for a language without words."""
    known = load_caption_words(language)
    frames = known.frames
    holders = frozenset((*cast.members, *cast.pets, *filter(None, [cast.roles.get("bystander")])))
    nouns = {id: id for id in (*sorted(holders), *cast.appliances)}
    nouns |= {id: frames["zone"].format(name=room.name) for id, room in cast.rooms.items()}
    nouns |= {id: frames["fixture"].format(kind=known.landmarks[kind]) for id, kind in cast.landmarks.items()}
    for id, kind in cast.objects.items():
        nouns[id] = frames["thing"].format(colour=known.colours[colours[id]], kind=known.objects[kind])
    return SceneWording(known, nouns, holders)
