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
from homerl.envs.homeenv.sim.devices.device_spec import Device
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
    usual, appliances, sensors = load_household_priors().appliances, appliance_kinds(), sensor_kinds()
    kinds_here, types = together
    suiting = [room for room in rooms if all(room.type in rooms_for_kind(kind) for kind in kinds_here)]
    suiting = [room for room in suiting if not types or room.type in types]
    room = rng.choice(suiting) if suiting else None
    here = [(kind, room) for kind in kinds_here if room is not None]
    others = [kind for kind in needed if kind not in kinds_here]
    owned = [placed for placed in here if placed[0] in appliances]
    mandatory = [kind for kind in usual.mandatory if kind not in kinds_here]
    owned += _place_kinds((*mandatory, *(kind for kind in others if kind in appliances)), rooms, rng)
    # Kinds that the people like are more usual. A feeder needs an animal that it feeds.
    weights = {
        kind: prior.weight * (usual.boost if {*prior.because} & {*liked} else 1) for kind, prior in usual.weights.items()
    }
    weights["pet_feeder"] = usual.feeder_weight if {*animals} & {*usual.fed} else 0
    count = rng.choices(list(usual.count), list(usual.count.values()))[0]
    _add_kinds_by_weight(owned, count, weights, rooms, usual.several, rng)
    measuring = [placed for placed in here if placed[0] in sensors]
    measuring += _place_kinds([kind for kind in others if kind in sensors], rooms, rng)
    count = rng.choices(list(usual.sensors), list(usual.sensors.values()))[0]
    _add_kinds_by_weight(measuring, count, usual.sensor_weights, rooms, (), rng)
    placed = [
        (kind, room) for kinds in (owned, measuring) for kind, room in sorted(kinds, key=lambda one: (one[0], one[1].id))
    ]
    number, devices = Counter(kind for kind, _ in placed), []
    for kind, room in placed:
        spec = appliances.get(kind) or sensors[kind]
        did = f"{spec.name}_{room.id}" if number[kind] > 1 else spec.name
        devices.append(Device(did, words.key_word("devices", kind), room, spec))
    return tuple(devices)


Placed = tuple[str, Room]  # a kind and the room that it stands in


def _place_kinds(wanted: Sequence[str], rooms: Sequence[Room], rng: random.Random) -> list[Placed]:
    """Each kind once, in a room that suits it."""
    return [(kind, rng.choice(suiting)) for kind in dict.fromkeys(wanted) if (suiting := _suiting_rooms(kind, rooms))]


def _suiting_rooms(kind: str, rooms: Sequence[Room]) -> list[Room]:
    return [room for room in rooms if room.type in rooms_for_kind(kind)]


def _add_kinds_by_weight(
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
            kind: [room for room in _suiting_rooms(kind, rooms) if (kind, room) not in placed]
            for kind in weights
            if kind in several or all(kind != other for other, _ in placed)
        }
        open_kinds = [kind for kind, places in free.items() if places and weights[kind] > 0]
        if not open_kinds:
            return
        (kind,) = rng.choices(open_kinds, [weights[kind] for kind in open_kinds])
        placed.append((kind, rng.choice(free[kind])))


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
    dust = rng.randint(*DUST)  # all devices of a home measure about the same
    for device in devices:
        usual = usual_state(device.spec, rng)
        usual |= {path: dust for path in ("dust", "pm25") if path in usual}
        for path, quantity in measured_quantities(device.spec):  # a device measures the air of its room
            attribute, value = device.spec.attribute_index[path][1], states[device.room.id][QUANTITIES[quantity]]
            usual[path] = attribute.check_value(round(value) if attribute.type == "int" else value)
        states[device.did] = usual | starts.get(device.did, {})
    return states
