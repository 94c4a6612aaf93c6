"""Puts a play into the schema of transcripts: scene, entities, events, state timelines and captions.

Invariant: every text is made of facts: of moves, states, looks and places.
"""

from __future__ import annotations

from collections.abc import Iterator

from homerl.envs.personalhome.sim.scene import schema
from homerl.envs.personalhome.sim.scene.looks import SceneLooks
from homerl.envs.personalhome.sim.scene.play import GONE, SceneMove, ScenePlay
from homerl.envs.personalhome.sim.scene.playbook import load_stage
from homerl.envs.personalhome.sim.scene.wording import SceneWording

TOGETHER = 3  # at most so many events of one actor in one zone make a segment


def describe_play(play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.VideoDescription:
    """The description of what has been played."""
    checks = schema.ConsistencyChecks(
        entity_ids_consistent=True, all_state_changes_timestamped=True, no_unverifiable_inferences=True
    )
    return schema.VideoDescription(
        scene=_scene(play, looks, said),
        entities=_entities(play, looks, said),
        captions=_captions(play, said),
        quality=schema.Quality(consistency_checks=checks),
    )


def _scene(play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.Scene:
    known, cast = said.words, play.cast
    zones = said.list_parts(said.nouns[id] for id in cast.rooms)
    keys = [move for move in play.moves if move.key]
    gist = said.join_sentences(said.action_sentence(move) for move in dict.fromkeys((keys[0], keys[-1])))
    people = said.list_parts(play.entities_in_view([*looks.clothes, *looks.coats]))
    light = known.lights[looks.light]
    layout = schema.Layout(
        zones=tuple(
            schema.Zone(zone_id=id, label=room.name, relative_position=known.positions[looks.positions[id]])
            for id, room in cast.rooms.items()
        ),
        landmarks=tuple(_landmark(id, kind, play, said) for id, kind in cast.landmarks.items()),
    )
    return schema.Scene(
        summary=said.fill_scene_frame("summary", people=people, zones=zones, light=light, gist=gist),
        environment_type=said.fill_scene_frame("kinds_of_place"),
        location_label=zones,
        lighting=schema.Lighting(
            overall=light, sources_visible=tuple(known.sources[s] for s in load_stage().light[looks.light])
        ),
        camera=schema.Camera(**known.camera, notes=said.fill_scene_frame("camera", zones=zones)),
        layout=layout,
    )


def _landmark(id: str, kind: str, play: ScenePlay, said: SceneWording) -> schema.Landmark:
    zone = play.cast.places[id]
    text = said.fill_scene_frame("mark", mark=said.nouns[id], zone=said.nouns[zone])
    return schema.Landmark(landmark_id=id, type=said.words.landmarks[kind], description=text, zone_id=zone)


def _entities(play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.Entities:
    cast = play.cast
    return schema.Entities(
        members=tuple(
            schema.SeenMember(member_id=id, appearance=_appearance(id, looks, said), initial_location=_first(play, id, said))
            for id in play.entities_in_view([*looks.clothes])
        ),
        pets=tuple(_pet(id, play, looks, said) for id in play.entities_in_view(cast.pets)),
        appliances=tuple(_appliance(id, play, looks, said) for id in cast.appliances if cast.places[id] in cast.rooms),
        objects=tuple(_object(id, play, looks, said) for id in cast.objects),
        events=tuple(_event(move, said) for move in play.moves),
        entity_state_timelines=_timelines(play, said),
    )


def _appearance(id: str, looks: SceneLooks, said: SceneWording) -> str:
    """What a person wears, in words."""
    known, worn = said.words, looks.clothes[id]
    colours = {key: known.colours[worn[key]] for key in ("top_colour", "bottom_colour")}
    garments = {"top": known.tops[worn["top"]], "bottom": known.bottoms[worn["bottom"]]}
    return said.fill_scene_frame(
        "wears", hair=known.hair[worn["hair"]], feet=known.feet[worn["feet"]], **colours, **garments
    )


def _pet(id: str, play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.SeenPet:
    animal, coat = said.words.animals[play.cast.pets[id]], said.words.colours[looks.coats[id]]
    text = said.fill_scene_frame("pet", coat=coat, animal=animal)
    return schema.SeenPet(pet_id=id, species=animal, initial_location=_first(play, id, said), description=text)


def _appliance(id: str, play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.SeenAppliance:
    zone = play.cast.places[id]
    states = _initial(play, id, said)
    fields = {"finish": said.words.colours[looks.finishes[id]], "zone": said.nouns[zone]}
    frame, more = ("appliance_state", {"state": said.list_parts(states.values())}) if states else ("appliance", {})
    return schema.SeenAppliance(
        appliance_id=id,
        type=play.cast.appliances[id],
        location=play.cast.rooms[zone].name,
        initial_state=states,
        description=said.fill_scene_frame(frame, **fields, **more),
    )


def _object(id: str, play: ScenePlay, looks: SceneLooks, said: SceneWording) -> schema.SeenObject:
    known, kind, place = said.words, play.cast.objects[id], said.place_text(play.cast.places[id])
    colour, label = known.colours[looks.colours[id]], known.objects[kind]
    states = {key: value for key, value in _initial(play, id, said).items() if key != "place"}
    return schema.SeenObject(
        object_id=id,
        label=label,
        category=known.categories[load_stage().objects[kind]],
        initial_location=place,
        initial_state=said.list_parts(states.values()),
        description=said.fill_scene_frame("object", colour=colour, kind=label, place=place),
    )


def _first(play: ScenePlay, id: str, said: SceneWording) -> str:
    """Where somebody is at the start, in words."""
    return said.state_text("location", play.first.get((id, "location"), GONE))


def _initial(play: ScenePlay, id: str, said: SceneWording) -> dict[str, str]:
    """The states of a thing at the start, by attribute, in words."""
    return {key: said.state_text(key, value) for (owner, key), value in play.first.items() if owner == id}


def _event(move: SceneMove, said: SceneWording) -> schema.SceneEvent:
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


def _timelines(play: ScenePlay, said: SceneWording) -> schema.Timelines:
    cast = play.cast
    people = [id for id in play.entities_in_view([*said.holders]) if id not in cast.pets]
    changes = {id: tuple(_changes(play, id, said)) for id in dict.fromkeys(one.owner for one in play.changes)}
    return schema.Timelines(
        members=tuple(schema.MemberTimeline(member_id=id, states=states) for id, states in changes.items() if id in people),
        pets=tuple(schema.PetTimeline(pet_id=id, states=states) for id, states in changes.items() if id in cast.pets),
        appliances=tuple(
            schema.ApplianceTimeline(appliance_id=id, states=states)
            for id, states in changes.items()
            if id in cast.appliances
        ),
        objects=tuple(
            schema.ObjectTimeline(object_id=id, states=states)
            for id, states in changes.items()
            if id in cast.objects or id in cast.landmarks
        ),
    )


def _changes(play: ScenePlay, id: str, said: SceneWording) -> Iterator[schema.StateChange]:
    """The changes of one entity in the order of time."""
    for one in sorted((one for one in play.changes if one.owner == id), key=lambda one: one.time):
        state = said.state_text(one.attribute, one.value)
        yield schema.StateChange(ts=schema.format_video_timestamp(one.time), state=state, trigger_event_ids=(one.event_id,))


def _captions(play: ScenePlay, said: SceneWording) -> schema.Captions:
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
