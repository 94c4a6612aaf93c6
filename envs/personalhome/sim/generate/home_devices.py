"""Appliances and sensors of a home, and the home that they make (PersonalHomeBench 3.1).

Invariants:
- Every home has the five mandatory kinds; a device stands in a room that suits its kind, and no room has two of a kind.
- A device's id is its product's name (`lighting`), with its room's id behind it if there are several (`lighting_kitchen`).
- Sensors of the air agree with the air of their room.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from homerl.envs.homeenv.maker.initial_state import Values, room_air
from homerl.envs.homeenv.maker.weather import Sky
from homerl.envs.homeenv.sim.devices.air_physics import measured_quantities
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, rooms_for_kind, sensor_kinds, usual_state
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.vocabulary import FactWords

QUANTITIES = tuple(ROOM_STATE)
DUST = (4, 22)  # micrograms per cubic metre of ordinary days
DRIFT = 1.2  # celsius by which rooms differ from what the weather gives


def draw_devices(
    rooms: Sequence[Room],
    liked: Collection[str],
    animals: Collection[str],
    together: tuple[Collection[str], Collection[str]],
    needed: Sequence[str],
    words: FactWords,
    rng: random.Random,
) -> tuple[Device, ...]:
    """The appliances, then the sensors. `liked` are the tastes, traits and hobbies of the people.

    `needed` are kinds that the home must have. `together` are kinds that stand in one room, and the types of such rooms (all
    if there are none). Kinds for which no room suits are left out.
    """
    usual = load_household_priors().appliances
    kinds_here, types = together
    suiting = [
        room
        for room in rooms
        if (not types or room.type in types) and all(room.type in rooms_for_kind(k) for k in kinds_here)
    ]
    room = rng.choice(suiting) if suiting else None
    here = [(kind, room) for kind in kinds_here if room is not None]
    others = [kind for kind in needed if kind not in kinds_here]
    appliances = [placed for placed in here if placed[0] in appliance_kinds()]
    mandatory = [kind for kind in usual.mandatory if kind not in kinds_here]
    appliances += _placed((*mandatory, *(kind for kind in others if kind in appliance_kinds())), rooms, rng)
    _fill(appliances, _weighted(usual.count, rng), _appliance_weights(liked, animals), rooms, usual.several, rng)
    measuring = [placed for placed in here if placed[0] in sensor_kinds()]
    measuring += _placed([kind for kind in others if kind in sensor_kinds()], rooms, rng)
    _fill(measuring, _weighted(usual.sensors, rng), usual.sensor_weights, rooms, (), rng)
    placed = [*sorted(appliances, key=_order), *sorted(measuring, key=_order)]
    count = Counter(kind for kind, _ in placed)
    return tuple(_device(kind, room, count[kind] > 1, words) for kind, room in placed)


Placed = tuple[str, Room]  # a kind and the room that it stands in


def _order(placed: Placed) -> tuple[str, str]:
    return placed[0], placed[1].id


def _device(kind: str, room: Room, several: bool, words: FactWords) -> Device:
    spec = appliance_kinds().get(kind) or sensor_kinds()[kind]
    return Device(f"{spec.name}_{room.id}" if several else spec.name, words.key_word("devices", kind), room, spec)


def _placed(wanted: Sequence[str], rooms: Sequence[Room], rng: random.Random) -> list[Placed]:
    """Each kind once, in a room that suits it."""
    return [(kind, rng.choice(suiting)) for kind in dict.fromkeys(wanted) if (suiting := _suiting(kind, rooms))]


def _suiting(kind: str, rooms: Sequence[Room]) -> list[Room]:
    return [room for room in rooms if room.type in rooms_for_kind(kind)]


def _fill(
    placed: list[Placed],
    count: int,
    weights: Mapping[str, float],
    rooms: Sequence[Room],
    several: Collection[str],
    rng: random.Random,
) -> None:
    """Add kinds by weight until there are `count`. Kinds of `several` may be added again, in another room."""
    while len(placed) < count:
        free = {
            kind: [room for room in _suiting(kind, rooms) if (kind, room) not in placed]
            for kind in weights
            if kind in several or all(kind != other for other, _ in placed)
        }
        open_kinds = [kind for kind, places in free.items() if places and weights[kind] > 0]
        if not open_kinds:
            return
        (kind,) = rng.choices(open_kinds, [weights[kind] for kind in open_kinds])
        placed.append((kind, rng.choice(free[kind])))


def _appliance_weights(liked: Collection[str], animals: Collection[str]) -> dict[str, float]:
    """The weights of the kinds, greater for what the people like; a feeder needs an animal that it feeds."""
    usual = load_household_priors().appliances
    weights = {
        kind: known.weight * (usual.boost if {*known.because} & {*liked} else 1) for kind, known in usual.weights.items()
    }
    return weights | {"pet_feeder": usual.feeder_weight if {*animals} & {*usual.fed} else 0}


def _weighted(weights: Mapping[int, float], rng: random.Random) -> int:
    return rng.choices(list(weights), list(weights.values()))[0]


# The home


def draw_usual_states(
    rooms: Sequence[Room], devices: Sequence[Device], sky: Sky, starts: Mapping[str, Values], rng: random.Random
) -> dict[str, Values]:
    """The values of every owner (outdoors, rooms, devices), by owner and path: ordinary ones, and then `starts` by did.

    Where `starts` says what a sensor reads, the air of its room is so.
    """
    states: dict[str, Values] = {
        OUTDOORS: {"temperature": sky.temperature, "humidity": sky.humidity, "brightness": sky.illuminance}
    }
    states |= {room.id: room_air(room.type, sky, drift=rng.gauss(0, DRIFT)) for room in rooms}
    for device in devices:
        for path, quantity in measured_quantities(device.spec):
            if path in starts.get(device.did, {}):
                states[device.room.id][QUANTITIES[quantity]] = float(starts[device.did][path])
    dust = rng.randint(*DUST)
    for device in devices:
        usual = usual_state(device.spec, rng)
        usual |= {path: dust for path in ("dust", "pm25") if path in usual}
        states[device.did] = usual | _readings(device.spec, states[device.room.id]) | starts.get(device.did, {})
    return states


def _readings(spec: DeviceSpec, air: Mapping[str, float]) -> Values:
    """What a device measures of the air of its room."""
    drawn = (
        (spec.attribute_index[path][1], path, air[QUANTITIES[quantity]]) for path, quantity in measured_quantities(spec)
    )
    return {
        path: attribute.check_value(round(value) if attribute.type == "int" else value) for attribute, path, value in drawn
    }
