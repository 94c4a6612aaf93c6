"""Writes transcripts: a script of a situation is cast with a household, played, given looks, and put into words.

Invariants:
- A transcript is a pure function of household, situation and seed.
- Two objects of a kind differ in colour, and whoever is in the cast has looks.
- Every caption is made of events, and every event of facts; every description is made of facts.
- A sentence names the actor, the object, the zone, the place and the sound of its event, and nothing that is no fact.
- What follows from the facts, but is not seen, stands in `inferred` alone.
- `transcript_nouns` gives the names that the captions use.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene import transcript as schema
from homerl.envs.personalhome.sim.scene.scene_scripts import (
    CaptionWords,
    SceneScript,
    load_caption_words,
    load_scene_scripts,
    load_stage,
)
from homerl.envs.personalhome.sim.scene.script_player import (
    GONE,
    SceneCast,
    SceneMove,
    ScenePlay,
    cast_script,
    play_script,
)
from homerl.envs.personalhome.sim.scene.transcript import Domain, Inference, SceneFact, Transcript

SCENE = "scene"  # the id of the setting itself in facts


@dataclass(frozen=True)
class SceneLooks:
    """`clothes` maps people to attributes and keys, `coats` pets, `colours` objects and `finishes` appliances to a colour.

    `positions` are where the zones are in the picture. `light` is a key of `light` in `stage.yaml`.
    """

    clothes: Mapping[str, Mapping[str, str]]
    coats: Mapping[str, str]
    colours: Mapping[str, str]
    finishes: Mapping[str, str]
    positions: Mapping[str, str]
    light: str


def draw_looks(cast: SceneCast, light: str, rng: random.Random) -> SceneLooks:
    """Looks for everybody and everything in a cast."""
    keys = load_stage()
    clothes = {}
    for id in (*cast.members, *filter(None, [cast.roles.get("bystander")])):
        top, bottom = rng.sample(keys.colours, 2)
        worn = {"hair": rng.choice(keys.hair), "top": rng.choice(keys.tops), "top_colour": top}
        clothes[id] = worn | {"bottom": rng.choice(keys.bottoms), "bottom_colour": bottom, "feet": rng.choice(keys.feet)}
    coats = {id: rng.choice(keys.coats[kind]) for id, kind in cast.pets.items()}
    colours: dict[str, str] = {}
    for id, kind in cast.objects.items():
        taken = {colour for other, colour in colours.items() if cast.objects[other] == kind}
        colours[id] = rng.choice([colour for colour in keys.colours if colour not in taken])
    finishes = {id: rng.choice(keys.finishes) for id in cast.appliances}
    positions = dict(zip(cast.rooms, rng.sample(keys.positions, len(cast.rooms))))
    return SceneLooks(clothes, coats, colours, finishes, positions, light)


def setting_facts(play: ScenePlay, looks: SceneLooks) -> Iterator[SceneFact]:
    """The facts that hold from the start, with empty ids. A state holds until its first change, looks until the end."""
    cast, actors = play.cast, {*looks.clothes, *looks.coats}
    seen = {*play.entities_in_view([*looks.clothes, *looks.coats])}
    in_zones = [id for id in cast.appliances if cast.places[id] in cast.rooms]
    rows: list[tuple[str, str, str]] = [(SCENE, "light", looks.light)]
    rows += [(zone, "position", position) for zone, position in looks.positions.items()]
    rows += [(id, "zone", cast.places[id]) for id in (*cast.landmarks, *in_zones)]
    rows += [(id, "finish", looks.finishes[id]) for id in in_zones]
    rows += [(id, "colour", colour) for id, colour in looks.colours.items()]
    rows += [(id, key, value) for id, worn in looks.clothes.items() if id in seen for key, value in worn.items()]
    for id, coat in looks.coats.items():
        rows += [(id, "animal", cast.pets[id]), (id, "coat", coat)] if id in seen else []
    rows += [(id, key, value) for (id, key), value in play.first.items() if id in seen or id not in actors]
    for owner, attribute, value in rows:
        first = next((one.time for one in play.changes if (one.owner, one.attribute) == (owner, attribute)), play.length)
        fact = SceneFact(id="", ts_start=0.0, ts_end=first, attribute=attribute, value=value)
        yield fact.model_copy(update={"actor" if owner in actors else "object": owner})


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
        if not move.do:
            return self.sound_sentence(move, located=True)
        frame, fields = self.words.actions[move.do], {"who": move.who, "what": move.what, "at": move.at, "zone": move.zone}
        clause = frame.format(**{name: self.nouns[id] for name, id in fields.items() if id})
        return self._make_sentence(clause if "{zone}" in frame else self._add_zone(clause, move))

    def sound_sentence(self, move: SceneMove, located: bool = False) -> str:
        """The sentence of what is heard; empty if nothing is."""
        if not move.sound:
            return ""
        clause = self.fill_scene_frame("heard", sound=self.words.sounds[move.sound])
        return self._make_sentence(self._add_zone(clause, move) if located else clause)

    def event_caption(self, move: SceneMove) -> str:
        """All that an event shows and lets hear."""
        heard = self.sound_sentence(move) if move.do else ""
        return self.join_sentences(filter(None, [self.action_sentence(move), heard]))

    def join_sentences(self, sentences: Iterable[str]) -> str:
        """Sentences as one text."""
        return self.words.frames["separator"].join(sentences)

    def state_text(self, attribute: str, value: str) -> str:
        """A state in words: `in the kitchen`, `at the counter`, `on`."""
        if value == GONE:
            return self.words.frames["gone"]
        if attribute == "location":
            return self.fill_scene_frame("location", zone=self.nouns[value])
        return self.place_text(value) if attribute == "place" else self.words.states[value]

    def place_text(self, id: str) -> str:
        """Where a thing is. It is `with` whoever holds it."""
        return self.fill_scene_frame("held" if id in self.holders else "place", at=self.nouns[id])

    def _add_zone(self, clause: str, move: SceneMove) -> str:
        return self.fill_scene_frame("within", sentence=clause, zone=self.nouns[move.zone])

    def _make_sentence(self, clause: str) -> str:
        """The clause as a sentence. It begins with a capital letter, unless with an id."""
        id = any(noun == id and clause.startswith(noun) for id, noun in self.nouns.items())
        return self.fill_scene_frame("sentence", text=clause if id else clause[:1].upper() + clause[1:])


def make_scene_wording(cast: SceneCast, colours: Mapping[str, str], language: str) -> SceneWording:
    """The wording of a scene. `colours` are those of the objects. Raises `InputError` for a language without words."""
    known = load_caption_words(language)
    holders = frozenset((*cast.members, *cast.pets, *filter(None, [cast.roles.get("bystander")])))
    nouns = _make_nouns(
        known,
        (*sorted(holders), *cast.appliances),
        {id: room.name for id, room in cast.rooms.items()},
        {id: known.landmarks[kind] for id, kind in cast.landmarks.items()},
        {id: (known.colours[colours[id]], known.objects[kind]) for id, kind in cast.objects.items()},
    )
    return SceneWording(known, nouns, holders)


def _make_nouns(
    words: CaptionWords,
    ids: Iterable[str],
    zones: Mapping[str, str],
    landmarks: Mapping[str, str],
    objects: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """The noun phrase of every id. `ids` stand for themselves; of objects, the words are colour and kind."""
    nouns = {id: id for id in ids}
    nouns |= {id: words.frames["zone"].format(name=name) for id, name in zones.items()}
    nouns |= {id: words.frames["fixture"].format(kind=kind) for id, kind in landmarks.items()}
    return nouns | {id: words.frames["thing"].format(colour=one, kind=kind) for id, (one, kind) in objects.items()}


GROUPS = {
    "hair": "hair", "top": "tops", "bottom": "bottoms", "feet": "feet", "animal": "animals", "light": "lights",
    "position": "positions", "colour": "colours", "top_colour": "colours", "bottom_colour": "colours", "coat": "colours",
    "finish": "colours",
}  # fmt: skip


def transcript_nouns(transcript: Transcript) -> Mapping[str, str]:
    """The noun phrase of every id: `the red pot`, `the counter`, `the kitchen`. Who acts, and appliances, are their ids."""
    known, described = load_caption_words(transcript.language), transcript.video_description
    entities, layout = described.entities, described.scene.layout
    colours = {one.object: known.colours[one.value or ""] for one in transcript.facts if one.attribute == "colour"}
    return _make_nouns(
        known,
        entities.entity_ids(),
        {zone.zone_id: zone.label for zone in layout.zones},
        {mark.landmark_id: mark.type for mark in layout.landmarks},
        {one.object_id: (colours[one.object_id], one.label) for one in entities.objects},
    )


TOGETHER = 3  # at most so many events of one actor in one zone make a segment


def describe_play(play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.VideoDescription:
    """The description of what has been played."""
    checks = schema.ConsistencyChecks(
        entity_ids_consistent=True, all_state_changes_timestamped=True, no_unverifiable_inferences=True
    )
    return schema.VideoDescription(
        scene=_describe_scene(play, looks, said),
        entities=_describe_entities(play, looks, said),
        captions=_describe_in_captions(play, said),
        quality=schema.Quality(consistency_checks=checks),
    )


def _describe_scene(play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.Scene:
    known, cast = said.words, play.cast
    zones = said.list_parts(said.nouns[id] for id in cast.rooms)
    keys = [move for move in play.moves if move.key]
    gist = said.join_sentences(said.action_sentence(move) for move in dict.fromkeys((keys[0], keys[-1])))
    people = said.list_parts(play.entities_in_view([*looks.clothes, *looks.coats]))
    light, landmarks = known.lights[looks.light], []
    for id, kind in cast.landmarks.items():
        zone = cast.places[id]
        text = said.fill_scene_frame("mark", mark=said.nouns[id], zone=said.nouns[zone])
        landmarks.append(schema.Landmark(landmark_id=id, type=known.landmarks[kind], description=text, zone_id=zone))
    placed = [
        schema.Zone(zone_id=id, label=room.name, relative_position=known.positions[looks.positions[id]])
        for id, room in cast.rooms.items()
    ]
    sources = tuple(known.sources[source] for source in load_stage().light[looks.light])
    return schema.Scene(
        summary=said.fill_scene_frame("summary", people=people, zones=zones, light=light, gist=gist),
        environment_type=said.fill_scene_frame("kinds_of_place"),
        location_label=zones,
        lighting=schema.Lighting(overall=light, sources_visible=sources),
        camera=schema.Camera(**known.camera, notes=said.fill_scene_frame("camera", zones=zones)),
        layout=schema.Layout(zones=tuple(placed), landmarks=tuple(landmarks)),
    )


def _describe_entities(play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.Entities:
    cast, known = play.cast, said.words
    members, pets = [], []
    for id in play.entities_in_view([*looks.clothes]):
        worn = {key: getattr(known, GROUPS[key])[value] for key, value in looks.clothes[id].items()}
        text = said.fill_scene_frame("wears", **worn)
        members.append(schema.SeenMember(member_id=id, appearance=text, initial_location=_first_zone(play, id, said)))
    for id in play.entities_in_view(cast.pets):
        animal, zone = known.animals[cast.pets[id]], _first_zone(play, id, said)
        text = said.fill_scene_frame("pet", coat=known.colours[looks.coats[id]], animal=animal)
        pets.append(schema.SeenPet(pet_id=id, species=animal, initial_location=zone, description=text))
    in_zones = [id for id in cast.appliances if cast.places[id] in cast.rooms]
    return schema.Entities(
        members=tuple(members),
        pets=tuple(pets),
        appliances=tuple(_describe_appliance(id, play, looks, said) for id in in_zones),
        objects=tuple(_describe_object(id, play, looks, said) for id in cast.objects),
        events=tuple(_describe_event(move, said) for move in play.moves),
        entity_state_timelines=_describe_changes(play, said),
    )


def _describe_appliance(id: str, play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.SeenAppliance:
    zone, states = play.cast.places[id], _first_states(play, id, said)
    fields = {"finish": said.words.colours[looks.finishes[id]], "zone": said.nouns[zone]}
    fields |= {"state": said.list_parts(states.values())} if states else {}
    return schema.SeenAppliance(
        appliance_id=id,
        type=play.cast.appliances[id],
        location=play.cast.rooms[zone].name,
        initial_state=states,
        description=said.fill_scene_frame("appliance_state" if states else "appliance", **fields),
    )


def _describe_object(id: str, play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.SeenObject:
    known, kind, place = said.words, play.cast.objects[id], said.place_text(play.cast.places[id])
    colour, label = known.colours[looks.colours[id]], known.objects[kind]
    states = [text for key, text in _first_states(play, id, said).items() if key != "place"]
    return schema.SeenObject(
        object_id=id,
        label=label,
        category=known.categories[load_stage().objects[kind]],
        initial_location=place,
        initial_state=said.list_parts(states),
        description=said.fill_scene_frame("object", colour=colour, kind=label, place=place),
    )


def _first_zone(play: ScenePlay, id: str, said: SceneWording) -> str:
    """Where somebody is at the start, in words."""
    return said.state_text("location", play.first.get((id, "location"), GONE))


def _first_states(play: ScenePlay, id: str, said: SceneWording) -> dict[str, str]:
    """The states of a thing at the start, by attribute, in words."""
    return {key: said.state_text(key, value) for (owner, key), value in play.first.items() if owner == id}


def _describe_event(move: SceneMove, said: SceneWording) -> schema.SceneEvent:
    """An event. Its type is `action` of somebody, `change` of something, or `sound`."""
    return schema.SceneEvent(
        event_id=move.id,
        ts_start=schema.format_video_timestamp(move.start),
        ts_end=schema.format_video_timestamp(move.end),
        event_type="action" if move.who else "change" if move.do else "sound",
        actors=(move.who,) if move.who else (),
        targets=tuple(id for id in (move.what, move.at) if id),
        description=said.action_sentence(move),
        audio=said.words.sounds[move.sound] if move.sound else "",
    )


def _describe_changes(play: ScenePlay, said: SceneWording) -> schema.Timelines:
    changes: dict[str, list[schema.StateChange]] = {}
    for one in sorted(play.changes, key=lambda one: one.time):
        time, state = schema.format_video_timestamp(one.time), said.state_text(one.attribute, one.value)
        change = schema.StateChange(ts=time, state=state, trigger_event_ids=(one.event_id,))
        changes.setdefault(one.owner, []).append(change)
    rows = {id: tuple(changes[id]) for id in dict.fromkeys(one.owner for one in play.changes)}
    cast = play.cast
    people = [id for id in play.entities_in_view([*said.holders]) if id not in cast.pets]
    things = (*cast.objects, *cast.landmarks)
    return schema.Timelines(
        members=tuple(schema.MemberTimeline(member_id=id, states=one) for id, one in rows.items() if id in people),
        pets=tuple(schema.PetTimeline(pet_id=id, states=one) for id, one in rows.items() if id in cast.pets),
        appliances=tuple(
            schema.ApplianceTimeline(appliance_id=id, states=one) for id, one in rows.items() if id in cast.appliances
        ),
        objects=tuple(schema.ObjectTimeline(object_id=id, states=one) for id, one in rows.items() if id in things),
    )


def _describe_in_captions(play: ScenePlay, said: SceneWording) -> schema.Captions:
    segments = [
        schema.Segment(
            ts_start=schema.format_video_timestamp(moves[0].start),
            ts_end=schema.format_video_timestamp(max(move.end for move in moves)),
            caption=said.join_sentences(said.event_caption(move) for move in moves),
        )
        for moves in split_into_segments(play.moves)
    ]
    events = [schema.EventCaption(event_id=move.id, caption=said.event_caption(move)) for move in play.moves]
    whole = said.join_sentences(said.action_sentence(move) for move in play.moves if move.key)
    return schema.Captions(**{"global": whole}, segments=tuple(segments), events=tuple(events))


def split_into_segments(moves: list[SceneMove]) -> list[list[SceneMove]]:
    """The moves in runs of one actor in one zone, of at most `TOGETHER`."""
    runs: list[list[SceneMove]] = []
    for move in moves:
        last = runs[-1] if runs else []
        if last and len(last) < TOGETHER and (last[-1].who, last[-1].zone) == (move.who, move.zone):
            last.append(move)
        else:
            runs.append([move])
    return runs


NIGHT, MORNING, EVENING = 22, 7, 18  # hours at which the light changes


def playable_situations(household: Household) -> tuple[str, ...]:
    """The situations that can be played in a household, in the order of the scripts."""
    home = home_from_json(household.home, household.household_id)
    rng = random.Random("playable")
    known = [script for found in load_scene_scripts().values() for script in found]
    return tuple(dict.fromkeys(one.situation for one in known if cast_script(one, household, home, rng)))


def write_transcript(household: Household, situation: str, seed: int, room: str | None = None) -> Transcript:
    """The transcript of a situation in a household, in the household's language.

    `room` is the id of the room where it should happen, such as that of the events that tell of it. It happens elsewhere if
    the home has no such cast.

    Raises `KeyError` for a situation without a script, and `InputError` if the household cannot play it.
    """
    rng = random.Random(f"scene {household.household_id} {situation} {seed}")
    domain, script, cast = _cast_any_script(household, situation, rng, room)
    play = play_script(script, cast, rng)
    looks = draw_looks(cast, script.light or light_at_hour(household.now.hour), rng)
    said = make_scene_wording(cast, looks.colours, household.language)
    facts = tuple(
        fact.model_copy(update={"id": f"f{number}"})
        for number, fact in enumerate([*setting_facts(play, looks), *play.event_facts()], 1)
    )
    keys = [move for move in play.moves if move.key]  # they let one conclude that it is this situation
    subjects = tuple(dict.fromkeys(move.who for move in keys if move.who))
    because = tuple(fact.id for fact in facts if fact.event_id in {move.id for move in keys})
    text = said.words.inferred[situation].format(who=subjects[-1] if subjects else "")
    return Transcript(
        datapoint_id=f"{household.household_id}_{situation}_{seed}",
        language=household.language,
        domain=domain,
        situation=situation,
        length=play.length,
        video_description=describe_play(play, looks, said),
        facts=facts,
        inferred=(Inference(kind=situation, text=text, subjects=subjects, because=because),),
    )


def light_at_hour(hour: int) -> str:
    """The light at an hour of the day: a key of `light` in `stage.yaml`."""
    if hour >= NIGHT or hour < MORNING:
        return "night"
    return "day" if hour < EVENING else "evening"


def _cast_any_script(
    household: Household, situation: str, rng: random.Random, room: str | None
) -> tuple[Domain, SceneScript, SceneCast]:
    """One of the situation's scripts that can be cast, its domain and its cast."""
    found = [(domain, one) for domain, known in load_scene_scripts().items() for one in known if one.situation == situation]
    if not found:
        raise KeyError(situation)
    home = home_from_json(household.home, household.household_id)
    for domain, script in rng.sample(found, len(found)):
        for here in dict.fromkeys((room, None)):
            if cast := cast_script(script, household, home, rng, here):
                return domain, script, cast
    remedy = f"play one of {', '.join(playable_situations(household))}"
    raise InputError(f"lacks a room, a person or an appliance for '{situation}'", household.household_id, remedy)
