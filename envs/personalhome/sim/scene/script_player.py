"""Playing: runs the beats of a script with a cast, and keeps what happens as typed events, facts and changes of state.

Invariants:
- Who acts is in view, and in the same zone as what they act on. An action that sets states changes at least one of them.
- Events begin in order. A fact of a state holds from the end of its event until the next change.
- Times are multiples of half a second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from homerl.envs.personalhome.sim.scene.casting import SceneCast
from homerl.envs.personalhome.sim.scene.scene_scripts import SceneScript, ScriptBeat, load_stage
from homerl.envs.personalhome.sim.scene.transcript import SceneFact

GONE = "out_of_view"
STEP = 0.5  # seconds
SHORTEST, LONGEST = 20.0, 300.0  # seconds of a scene
PACES = (0.7, 1.0, 1.6, 2.5)  # how slowly a scene goes
PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds between events, at pace 1


@dataclass(frozen=True)
class SceneMove:
    """A beat with ids in place of roles, and its times. `at` is the place of an action."""

    id: str
    start: float
    end: float
    key: bool
    do: str | None
    who: str | None
    what: str | None
    at: str | None
    zone: str
    sound: str | None


@dataclass(frozen=True)
class EntityStateChange:
    """A state of an entity from a time on."""

    time: float
    owner: str
    attribute: str
    value: str
    event_id: str


class OutOfPlace(Exception):
    """A beat cannot happen in the present state. The message says why."""


@dataclass
class ScenePlay:
    """What has happened. `states` maps (id, attribute) to the value now, and `first` to that at the start."""

    cast: SceneCast
    moves: list[SceneMove] = field(default_factory=list)
    changes: list[EntityStateChange] = field(default_factory=list)
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    first: dict[tuple[str, str], str] = field(default_factory=dict)
    length: float = 0.0

    def zone_of_entity(self, id: str) -> str:
        """The zone where somebody or something is; `out_of_view` if it is in none."""
        if id in self.cast.rooms or id == GONE:
            return id
        place = self.states.get((id, "location")) or self.states.get((id, "place")) or self.cast.places[id]
        return self.zone_of_entity(place)

    def set_start_states(self, script: SceneScript) -> None:
        """The states at the start."""
        roles = self.cast.roles
        people = [*self.cast.members, *self.cast.pets, *filter(None, [roles.get("bystander")])]
        starts = {roles[role]: at for role, at in script.starts.items() if role in roles}
        for id in people:
            zone, posture = starts.get(id, (None, "standing"))
            self.states[id, "location"] = roles[zone] if zone else GONE
            self.states[id, "posture"] = posture
        for id in self.cast.objects:
            self.states[id, "place"] = self.cast.places[id]
        self.first = dict(self.states)

    def perform_beat(self, beat: ScriptBeat, start: float, end: float) -> None:
        """Let a beat happen. Raises `OutOfPlace`, and has changed nothing, if it cannot."""
        ids = {name: self.cast.roles[role] for name in ("who", "what", "at", "zone") if (role := getattr(beat, name))}
        who, what, at = ids.get("who"), ids.get("what"), ids.get("at")
        # It happens in the zone that it names, or where who acts is, or where that is which changes.
        zone = ids.get("zone") or self.zone_of_entity(who or what or ids["at"])
        self._require_in_place(beat, ids, zone)
        sets = load_stage().actions[beat.do].sets if beat.do else ()
        wanted = [(ids[role], attribute, ids[value[1:]] if value[0] == "$" else value) for role, attribute, value in sets]
        changed = [(owner, key, value) for owner, key, value in wanted if self.states.get((owner, key)) != value]
        if sets and not changed:
            raise OutOfPlace(f"'{beat.do}' changes nothing: {wanted[0]}")
        event_id = f"e{len(self.moves) + 1}"
        self.moves.append(SceneMove(event_id, start, end, beat.key, beat.do, who, what, at, zone, beat.sound))
        for owner, attribute, value in changed:
            if (owner, attribute) not in self.first:  # the first change tells what was before
                self.first[owner, attribute] = load_stage().before[value]
            self.states[owner, attribute] = value
            self.changes.append(EntityStateChange(end, owner, attribute, value, event_id))

    def _require_in_place(self, beat: ScriptBeat, ids: dict[str, str], zone: str) -> None:
        outside = beat.do != "enter" and "who" in ids and not beat.from_outside and self.zone_of_entity(ids["who"]) != zone
        if zone == GONE or outside:
            raise OutOfPlace(f"'{beat.do}': {ids.get('who') or ids.get('what')} is not in {zone}")
        for name in ("what", "at"):
            if name in ids and self.zone_of_entity(ids[name]) not in (zone, *([GONE] if beat.from_outside else [])):
                raise OutOfPlace(f"'{beat.do}': {ids[name]} is not in {zone}")
        if beat.do == "take" and self.states[ids["what"], "place"] != ids["at"]:
            raise OutOfPlace(f"'take': {ids['what']} is not at {ids['at']}")
        held = beat.do in ("put_on_top", "put_inside", "drop", "put_on_clothes", "take_off_clothes")
        if held and self.states[ids["what"], "place"] != ids["who"]:
            raise OutOfPlace(f"'{beat.do}': {ids['who']} does not hold {ids['what']}")

    def event_facts(self) -> Iterator[SceneFact]:
        """The facts of all events: what is done and heard, and the states that follow. Their ids are left empty."""
        for move in self.moves:
            fact = SceneFact(id="", event_id=move.id, ts_start=move.start, ts_end=move.end, zone=move.zone)
            if move.do:
                place = {"attribute": "at", "value": move.at} if move.at else {}
                yield fact.model_copy(update={"actor": move.who, "action": move.do, "object": move.what, **place})
            if move.sound:
                yield fact.model_copy(update={"sound": move.sound})
            for change in self.changes:
                if change.event_id == move.id:
                    owner = "actor" if (change.owner, "location") in self.first else "object"
                    state = {"attribute": change.attribute, "value": change.value, owner: change.owner}
                    # The state ends at its next change, or with the scene.
                    same = [one for one in self.changes if (one.owner, one.attribute) == (change.owner, change.attribute)]
                    end = next((one.time for one in same if one.time > change.time), self.length)
                    yield fact.model_copy(update={**state, "ts_start": change.time, "ts_end": end})

    def entities_in_view(self, ids: dict[str, str] | list[str]) -> list[str]:
        """Those who take part or are in view at the start."""
        active = {id for move in self.moves for id in (move.who, move.what) if id}
        return [id for id in ids if id in active or self.first.get((id, "location"), GONE) != GONE]


def play_script(script: SceneScript, cast: SceneCast, rng: random.Random) -> ScenePlay:
    """Play a script. A distractor that does not fit is left out. Raises `OutOfPlace` if the script's beats do not fit."""
    play = ScenePlay(cast)
    play.set_start_states(script)
    beats = _with_distractors(_happening_beats(script, cast, rng), cast, rng)
    pace = rng.choice(PACES)
    clock = _round_to_step(rng.choice(PAUSES) * pace)
    for own, beat in beats:
        start = clock + _round_to_step(rng.choice(PAUSES) * pace)
        if beat.meanwhile and play.moves:
            start = play.moves[-1].start + STEP
        least, most = load_stage().actions[beat.do].takes if beat.do else (1, 4)
        end = start + max(_round_to_step(rng.uniform(least, most) * pace), STEP)
        try:
            play.perform_beat(beat, start, end)
        except OutOfPlace:
            if own:  # a script that does not fit is a mistake; a distractor that does not fit is left out
                raise
            continue
        clock = max(clock, end)
    play.length = max(clock + _round_to_step(rng.uniform(1, 6)), SHORTEST)
    if play.length > LONGEST:  # it goes faster: order stays, and times stay multiples of `STEP`
        share = LONGEST / play.length
        play.moves = [
            replace(one, start=_round_to_step(one.start * share), end=_round_to_step(one.end * share)) for one in play.moves
        ]
        play.changes = [replace(one, time=_round_to_step(one.time * share)) for one in play.changes]
        play.length = LONGEST
    return play


def _happening_beats(script: SceneScript, cast: SceneCast, rng: random.Random) -> list[ScriptBeat]:
    """The beats that happen: all their roles are filled, and chance lets them."""
    kept: list[ScriptBeat] = []
    before = False
    for beat in script.beats:
        lucky = rng.random() < beat.chance
        # Chance is drawn even for a beat whose roles are empty, so that the draws do not depend on the cast.
        before = lucky and all(role in cast.roles for role in beat.named_roles()) and (before or not beat.follows)
        if before:
            kept.append(beat)
    return kept


def _with_distractors(beats: list[ScriptBeat], cast: SceneCast, rng: random.Random) -> list[tuple[bool, ScriptBeat]]:
    """The script's own beats (True), and between them some that have nothing to do with them (False).

    People and animals distract before the first key beat; far sounds do at any time.
    """
    first = next((index for index, beat in enumerate(beats) if beat.key), len(beats) - 1)
    known = cast.roles.keys()
    blocks = [block for block in load_stage().distractors if all({*beat.named_roles()} <= known for beat in block)]
    added: dict[int, list[ScriptBeat]] = {}
    for block in rng.sample(blocks, min(len(blocks), rng.randint(0, 2))):
        added.setdefault(rng.randint(0, first), []).extend(block)
    for sound in rng.sample(load_stage().far, rng.randint(0, 2)):
        zone = rng.choice([role for role, id in cast.roles.items() if id in cast.rooms])
        added.setdefault(rng.randint(0, len(beats)), []).append(ScriptBeat(sound=sound, zone=zone))
    mixed: list[tuple[bool, ScriptBeat]] = []
    for index in range(len(beats) + 1):
        mixed += [(False, beat) for beat in added.get(index, ())]
        mixed += [(True, beats[index])] if index < len(beats) else []
    return mixed


def _round_to_step(seconds: float) -> float:
    """Seconds, rounded to `STEP`."""
    return round(seconds / STEP) * STEP
