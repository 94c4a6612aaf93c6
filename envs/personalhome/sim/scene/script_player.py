"""Fills the roles of a script with a household and plays it: what happens is kept as typed events and facts.

Invariants:
- Nobody and nothing has two roles. An appliance is in the room where the home has it.
- The same rng gives the same cast and play.
- Who acts is in view, and in the same zone as what they act on. An action that sets states changes at least one of them.
- Events begin in order. A fact of a state holds from the end of its event until the next change.
- Times are multiples of half a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TypeVar

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.household import Household, Member
from homerl.envs.personalhome.sim.scene.scene_scripts import NONE, PlacedThing, SceneScript, ScriptBeat, load_stage
from homerl.envs.personalhome.sim.scene.transcript import SceneFact

T = TypeVar("T")
ADULT, CHILD, ELDER, INFANT = 18, 12, 65, 4  # years; whoever is younger than `INFANT` has no role
LOOSE = 2  # things that lie about besides those of the script


@dataclass
class SceneCast:
    """Who and what is in a scene.

    `roles` maps each role to an id; a role that stays empty is missing. `rooms` are the zones by id. `pets`, `appliances`,
    `landmarks` and `objects` map ids to kinds. `places` is where each landmark, appliance and object is at first.
    `here` is the room that is preferred, if there is one.
    """

    here: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    rooms: dict[str, Room] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    pets: dict[str, str] = field(default_factory=dict)
    appliances: dict[str, str] = field(default_factory=dict)
    landmarks: dict[str, str] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)


def _script_kind(device: Device) -> str:
    """The kind of an appliance as scripts write it: `coffee_maker`."""
    return device.spec.category.replace("-", "_")


def cast_script(
    script: SceneScript, household: Household, home: Home, rng: random.Random, here: str | None = None
) -> SceneCast | None:
    """A cast for a script. None: the household lacks a room, a person or an appliance that it needs.

    `here` is the id of the room that the first zone is, if the script names no appliance after which it must be.
    """
    cast = SceneCast(here=here)
    filled = (
        _cast_appliances_and_zones(script, home, cast, rng)
        and _cast_members(script, household, cast, rng)
        and _cast_pets(script, household, cast, rng)
    )
    if not filled:
        return None
    cast.roles["main"], cast.roles["lead"] = next(iter(cast.rooms)), cast.members[0]
    _cast_things(script, cast, rng)
    _cast_bystanders(household, home, cast, rng)
    return cast


def is_member_of_kind(kind: str, member: Member, today: date) -> bool:
    """Whether a person is of a kind: of an age, or with a trait."""
    age = member.age(today)
    ages = {"adult": age >= ADULT, "elder": age >= ELDER, "minor": age < ADULT, "child": age < CHILD, "anyone": True}
    return age >= INFANT and ages.get(kind, kind in member.traits)


def _cast_appliances_and_zones(script: SceneScript, home: Home, cast: SceneCast, rng: random.Random) -> bool:
    """Choose the appliances after which zones are named, then the zones, then the other appliances in their zones."""
    # A zone `@stove` is the room of the stove, so the stove is chosen before any zone.
    anchors = {option[1:] for options in script.zones.values() for option in options if option[0] == "@"}
    if not all(_cast_device(role, script.appliances[role], home.plan.devices, cast, rng) for role in sorted(anchors)):
        return False
    for role, options in script.zones.items():
        room = _choose_room(options, home, cast, rng)
        if room is None:
            return False
        cast.roles[role], cast.rooms[room.id] = room.id, room
    # An appliance that a zone is named after must be in a zone, too.
    if any(cast.places[cast.roles[role]] not in cast.rooms for role in anchors if role in cast.roles):
        return False
    for role, placed in script.appliances.items():
        here = [device for device in home.plan.devices if device.room.id == cast.roles.get(placed.zone or "")]
        if role not in anchors and not _cast_device(role, placed, here, cast, rng):
            return False
    return True


def _cast_device(role: str, placed: PlacedThing, devices: Iterable[Device], cast: SceneCast, rng: random.Random) -> bool:
    """Give a role to a device of the first kind that there is. False if there is none and there must be one."""
    free = [device for device in devices if device.did not in cast.appliances]
    for kind in placed.kinds:
        if found := [device for device in free if _script_kind(device) == kind]:
            chosen = rng.choice([device for device in found if device.room.id == cast.here] or found)
            cast.roles[role], cast.appliances[chosen.did], cast.places[chosen.did] = chosen.did, kind, chosen.room.id
            return True
    return NONE in placed.kinds


def _choose_room(options: Sequence[str], home: Home, cast: SceneCast, rng: random.Random) -> Room | None:
    """The first option that there is and no other zone has. The first zone is the preferred room, if it has no anchor."""
    preferred = next((room for room in home.plan.rooms if room.id == cast.here and not cast.rooms), None)
    if preferred and options[0][0] != "@":
        return preferred
    for option in options:
        anchored = cast.places.get(cast.roles.get(option[1:], "")) if option[0] == "@" else None
        free = [room for room in home.plan.rooms if room.id not in cast.rooms]
        if found := [room for room in free if room.id == anchored or room.type == option]:
            return rng.choice(found)
    return None


def _cast_members(script: SceneScript, household: Household, cast: SceneCast, rng: random.Random) -> bool:
    today = household.now.date()
    for role, options in script.members.items():
        if "unknown" in options:
            id = "unknown_1"
        else:
            free = [member for member in household.members if member.member_id not in cast.members]
            chosen = _choose_by_kind(options, free, lambda kind, member: is_member_of_kind(kind, member, today), rng)
            if chosen is None:
                if NONE in options:
                    continue
                return False
            id = chosen.member_id
        cast.roles[role] = id
        cast.members.append(id)
    return True


def _cast_pets(script: SceneScript, household: Household, cast: SceneCast, rng: random.Random) -> bool:
    for role, options in script.pets.items():
        free = [pet for pet in household.pets if pet.name not in cast.pets]
        chosen = _choose_by_kind(options, free, lambda kind, pet: kind in ("any", pet.animal), rng)
        if chosen is None and NONE not in options:
            return False
        if chosen is not None:
            cast.roles[role], cast.pets[chosen.name] = chosen.name, chosen.animal
    return True


def _cast_things(script: SceneScript, cast: SceneCast, rng: random.Random) -> None:
    """Landmarks and objects of the script, further ones, and things that lie about."""
    stage = load_stage()
    for kind, zone in script.landmarks.items():
        _add_thing(cast.landmarks, kind, cast.roles[zone], cast, kind)
    for role, placed in script.objects.items():
        if place := cast.roles.get(placed.at or ""):
            free = [kind for kind in placed.kinds if kind not in cast.objects.values()]
            _add_thing(cast.objects, rng.choice(free or placed.kinds), place, cast, role)
    for number, room in enumerate(cast.rooms.values()):
        kinds = dict.fromkeys((*stage.extras.get(room.type, ()), *stage.extras["any"]))
        free = [kind for kind in kinds if kind not in cast.landmarks.values()]
        _add_thing(cast.landmarks, rng.choice(free), room.id, cast, "" if number else "extra")
    surfaces = [id for id, kind in cast.landmarks.items() if kind in stage.surfaces]
    main = [id for id in surfaces if cast.places[id] == cast.roles["main"]]
    for number in range(LOOSE):
        free = [kind for kind in stage.loose if kind not in cast.objects.values()]
        place = rng.choice(surfaces if number or not main else main)
        # The first loose thing has a role, so that distractors can name it and where it lies.
        if place in main and not number:
            cast.roles["surface"] = place
        _add_thing(cast.objects, rng.choice(free), place, cast, "" if number else "loose")


def _cast_bystanders(household: Household, home: Home, cast: SceneCast, rng: random.Random) -> None:
    """Who may pass by, and one further appliance of each zone that comes into view."""
    today = household.now.date()
    free = [member for member in household.members if member.member_id not in cast.members]
    people = [member.member_id for member in free if is_member_of_kind("anyone", member, today)]
    pets = [pet for pet in household.pets if pet.animal in load_stage().walking and pet.name not in cast.pets]
    if people:
        cast.roles["bystander"] = rng.choice(people)
    if pets:
        stray = rng.choice(pets)
        cast.roles["stray"], cast.pets[stray.name] = stray.name, stray.animal
    for room in cast.rooms:
        devices = [device for device in home.plan.devices if device.room.id == room and device.did not in cast.appliances]
        if appliances := [device for device in devices if not is_sensor(device.spec)]:
            chosen = rng.choice(appliances)
            cast.appliances[chosen.did], cast.places[chosen.did] = _script_kind(chosen), room


def _add_thing(group: dict[str, str], kind: str, place: str, cast: SceneCast, role: str) -> None:
    """A thing of a kind, with an id such as `pot_1`."""
    id = f"{kind}_{1 + sum(known == kind for known in group.values())}"
    group[id], cast.places[id] = kind, place
    if role:
        cast.roles[role] = id


def _choose_by_kind(
    options: Iterable[str], free: Sequence[T], suits: Callable[[str, T], bool], rng: random.Random
) -> T | None:
    """One of those that suit the first option that suits anybody."""
    for kind in options:
        if found := [one for one in free if suits(kind, one)]:
            return rng.choice(found)
    return None


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
        # `$at` stands for the id in the role `at`.
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
        # A beat that began with the one before may end earlier.
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
