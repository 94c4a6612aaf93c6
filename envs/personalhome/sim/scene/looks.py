"""How people, animals and things look, what light there is, and the facts of the setting.

Invariants: two objects of a kind differ in colour; whoever is in the cast has looks; the same rng gives the same looks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from homerl.envs.personalhome.sim.scene.casting import SceneCast
from homerl.envs.personalhome.sim.scene.play import ScenePlay
from homerl.envs.personalhome.sim.scene.playbook import load_stage
from homerl.envs.personalhome.sim.scene.transcript import SceneFact

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
    people = [*cast.members, *filter(None, [cast.roles.get("bystander")])]
    return SceneLooks(
        clothes={id: _clothes(rng) for id in people},
        coats={id: rng.choice(keys.coats[kind]) for id, kind in cast.pets.items()},
        colours=_colours(cast, rng),
        finishes={id: rng.choice(keys.finishes) for id in cast.appliances},
        positions=dict(zip(cast.rooms, rng.sample(keys.positions, len(cast.rooms)))),
        light=light,
    )


def _clothes(rng: random.Random) -> dict[str, str]:
    keys = load_stage()
    top, bottom = rng.sample(keys.colours, 2)
    drawn = {"hair": rng.choice(keys.hair), "top": rng.choice(keys.tops), "top_colour": top}
    return drawn | {"bottom": rng.choice(keys.bottoms), "bottom_colour": bottom, "feet": rng.choice(keys.feet)}


def _colours(cast: SceneCast, rng: random.Random) -> dict[str, str]:
    colours: dict[str, str] = {}
    for id, kind in cast.objects.items():
        taken = {colours[other] for other in colours if cast.objects[other] == kind}
        colours[id] = rng.choice([colour for colour in load_stage().colours if colour not in taken])
    return colours


def setting_facts(play: ScenePlay, looks: SceneLooks) -> Iterator[SceneFact]:
    """The facts that hold from the start, with empty ids. A state holds until its first change, looks until the end."""
    cast = play.cast
    seen = {*play.entities_in_view([*looks.clothes, *looks.coats])}
    rows: list[tuple[str, str, str]] = [(SCENE, "light", looks.light)]
    rows += [(zone, "position", position) for zone, position in looks.positions.items()]
    rows += [(id, "zone", cast.places[id]) for id in cast.landmarks]
    rows += [(id, "zone", cast.places[id]) for id in cast.appliances if cast.places[id] in cast.rooms]
    rows += [(id, "finish", looks.finishes[id]) for id in cast.appliances if cast.places[id] in cast.rooms]
    rows += [(id, "colour", colour) for id, colour in looks.colours.items()]
    rows += [(id, key, value) for id, worn in looks.clothes.items() if id in seen for key, value in worn.items()]
    rows += [
        (id, key, value)
        for id, coat in looks.coats.items()
        if id in seen
        for key, value in (("animal", cast.pets[id]), ("coat", coat))
    ]
    rows += [
        (id, key, value) for (id, key), value in play.first.items() if id in seen or id not in entities_with_looks(looks)
    ]
    for owner, attribute, value in rows:
        first = next((one.time for one in play.changes if (one.owner, one.attribute) == (owner, attribute)), play.length)
        role = "actor" if owner in entities_with_looks(looks) else "object"
        fact = SceneFact(id="", ts_start=0.0, ts_end=first, attribute=attribute, value=value)
        yield fact.model_copy(update={role: owner})


def entities_with_looks(looks: SceneLooks) -> set[str]:
    """The people and animals that have looks."""
    return {*looks.clothes, *looks.coats}
