"""Draws the rooms of a home with their nesting and floors, and the devices of each room with their names and ids.

Invariants:
- Room ids and names are unique. An id reveals only the type and a number.
- A nested room comes after its parent and is on the same floor.
- Devices and climate depend on the type of a room. The variant (an ensuite is a variant of the bathroom) decides only how
  often the room occurs, where it is nested, and its name.
- A product stands only in the room types that its specification names, or else in those of its category's prior. No oven
  stands in a bathroom.
- The name of a device is unique within its room.
- Ids are drawn without repetition and reveal nothing about the device.
- At least one device can be controlled, if any of the products can.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import cast

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.home_names import Half, Lexicon
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room, RoomType

CORE = ("living_room", "bedroom", "kitchen", "bathroom")  # every home with four rooms or more has these
REPEAT = 0.45  # the weight of a variant is multiplied by it for each room of the variant that exists
FLOORS = ((7, 1), (16, 2))  # (most rooms, floors); homes with more rooms have three floors


@dataclass(frozen=True)
class RoomVariant:
    """A kind of room in the draw.

    `weight` says how often it occurs besides the core, and `type` is its room type. `within` are the types of rooms that may
    contain it (none: it stands alone). `upstairs` says whether it may be on any floor.
    """

    weight: float
    type: str
    within: tuple[str, ...] = ()
    upstairs: bool = False


ROOM_VARIANTS: dict[str, RoomVariant] = {
    "living_room": RoomVariant(0.5, "living_room"),
    "kitchen": RoomVariant(0.1, "kitchen"),
    "dining_room": RoomVariant(1.5, "dining_room"),
    "bedroom": RoomVariant(5.0, "bedroom", upstairs=True),
    "bathroom": RoomVariant(1.0, "bathroom", upstairs=True),
    "ensuite": RoomVariant(1.8, "bathroom", within=("bedroom",)),
    "closet": RoomVariant(0.9, "closet", within=("bedroom",)),
    "pantry": RoomVariant(0.4, "pantry", within=("kitchen",)),
    "study": RoomVariant(2.0, "study", upstairs=True),
    "hallway": RoomVariant(1.6, "hallway", upstairs=True),
    "laundry": RoomVariant(0.9, "laundry"),
    "balcony": RoomVariant(1.0, "balcony", within=("living_room", "bedroom")),
    "garage": RoomVariant(0.7, "garage"),
    "leisure": RoomVariant(0.9, "leisure", upstairs=True),
    "storage": RoomVariant(0.6, "storage"),
}


def draw_layout(count: int, lexicon: Lexicon, half: Half, rng: random.Random) -> tuple[Room, ...]:
    """Draw `count` rooms: first the core, then variants by weight. A nested variant needs a room that may contain it."""
    floors = next((floors for most, floors in FLOORS if count <= most), 3)
    core = rng.sample(CORE, min(count, len(CORE)))
    rooms: list[Room] = []
    drawn: Counter[str] = Counter()
    while len(rooms) < count:
        if len(rooms) < len(core):
            chosen = core[len(rooms)]
        else:
            types = {room.type for room in rooms}
            allowed = [name for name, variant in ROOM_VARIANTS.items() if not variant.within or types & {*variant.within}]
            weights = [ROOM_VARIANTS[name].weight * REPEAT ** drawn[name] for name in allowed]
            (chosen,) = rng.choices(allowed, weights)
        drawn[chosen] += 1
        variant = ROOM_VARIANTS[chosen]
        name = lexicon.room_name(chosen, half, {room.name for room in rooms}, rng)
        number = 1 + sum(room.type == variant.type for room in rooms)
        id = variant.type if number == 1 else f"{variant.type}_{number}"
        if variant.within:
            parent = rng.choice([room for room in rooms if room.type in variant.within])
            rooms.append(Room(id, variant.type, name, parent.floor, parent.id))
        else:
            rooms.append(Room(id, variant.type, name, rng.randrange(floors) if variant.upstairs else 0))
    return tuple(rooms)


RARE = 0.05  # factor of the weight of a second device, for categories that a home usually has once
AGAIN = 0.6  # factor of the weight of a second device of a category in the same room
UNKNOWN = 1.0  # the weight of a category that has no prior


class DevicePriors(Model):
    """The prior probabilities of devices in rooms. `priors.yaml` explains each key."""

    categories: dict[str, dict[RoomType, float]]
    most_in_room: dict[str, int] = Field(default_factory=dict)
    one_a_home: frozenset[str] = frozenset()
    entrance: tuple[tuple[str, ...], ...] = ()


@lru_cache(maxsize=1)
def shipped_priors() -> DevicePriors:
    """The priors that come with homerl."""
    return validate_document(DevicePriors, read_yaml(Path(__file__).parent / "priors.yaml"))


@dataclass(frozen=True, eq=False)
class ProductOffer:
    """The products of one category that a room of one type may hold, their weight, and the most devices of them."""

    category: str
    weight: float
    products: tuple[DeviceSpec, ...]
    most: int

    @cached_property
    def useful_products(self) -> tuple[DeviceSpec, ...]:
        """The products that can be controlled. A sensor is not among them, even if it has a service to set its name."""
        return tuple(spec for spec in self.products if spec.service_index and "sensor" not in spec.userdata.tags)


class ProductStock:
    """The products that a recipe allows, by the type of room in which they may stand."""

    def __init__(self, products: Collection[DeviceSpec], priors: DevicePriors) -> None:
        self.priors = priors
        self._by_category: dict[str, list[DeviceSpec]] = {}
        for spec in products:
            self._by_category.setdefault(spec.category, []).append(spec)
        self._offers: dict[str, tuple[ProductOffer, ...]] = {}

    def offers_for(self, kind: str) -> tuple[ProductOffer, ...]:
        """The offers for a room of this type, one per category."""
        if kind in self._offers:
            return self._offers[kind]
        offers = []
        for category, specs in self._by_category.items():
            prior = {} if kind == HOME else self.priors.categories.get(category)  # what names no room is not in no room
            usual = UNKNOWN if prior is None else prior.get(cast(RoomType, kind), 0.0)
            if products := tuple(s for s in specs if (kind in s.userdata.rooms if s.userdata.rooms else usual)):
                most = self.priors.most_in_room.get(category, 1)
                offers.append(ProductOffer(category, usual or UNKNOWN, products, most))
        return self._offers.setdefault(kind, tuple(offers))

    @property
    def has_roomless_products(self) -> bool:
        """Whether some product is put in no room."""
        return any(HOME in spec.userdata.rooms for specs in self._by_category.values() for spec in specs)

    def device_capacity(self, rooms: Sequence[Room]) -> int:
        """The most devices that the rooms can hold."""
        return sum(offer.most for room in rooms for offer in self.offers_for(room.type))

    def has_place_for(self, product: DeviceSpec, rooms: Sequence[Room]) -> bool:
        """Whether the product may stand in one of the rooms."""
        return any(product in offer.products for room in rooms for offer in self.offers_for(room.type))


def furnish_rooms(
    rooms: Sequence[Room],
    count: int,
    stock: ProductStock,
    dids: range,
    lexicon: Lexicon,
    half: Half,
    rng: random.Random,
    spoken_to: bool = False,
    sure: Sequence[DeviceSpec] = (),
) -> tuple[Device, ...]:
    """Draw `count` devices, in the order of the rooms. `count` must not exceed the stock's capacity.

    `dids` are the possible ids. With `spoken_to`, one device is such that people can speak to it, if the stock has one.
    `sure` are products that are put in first, as far as there is a place for them.
    """
    # First the places: for each room, pools of products from each of which one device is drawn later.
    places = [(i, offer) for i, room in enumerate(rooms) for offer in stock.offers_for(room.type)]
    weights = [offer.weight for _, offer in places]
    of_category: dict[str, list[int]] = {}
    for at, (_, offer) in enumerate(places):
        of_category.setdefault(offer.category, []).append(at)
    drawn: list[list[tuple[DeviceSpec, ...]]] = [[] for _ in rooms]
    held = [0] * len(places)

    def draw_place(chances: Sequence[float]) -> tuple[list[tuple[DeviceSpec, ...]], ProductOffer]:
        """The room and the offer of one more device."""
        (at,) = rng.choices(range(len(places)), chances)
        i, offer = places[at]
        held[at] += 1
        weights[at] = 0.0 if held[at] == offer.most else weights[at] * AGAIN
        if offer.category in stock.priors.one_a_home:
            for other in of_category[offer.category]:
                weights[other] *= RARE
        return drawn[i], offer

    for spec in sure:
        fitting = [weight if spec in offer.products else 0.0 for weight, (_, offer) in zip(weights, places)]
        if any(fitting):
            pools, _ = draw_place(fitting)
            pools.append((spec,))
    # The first other device is one of the best entrance that is on offer, else one that can be controlled.
    first = weights
    for kinds in (*(stock.priors.entrance if spoken_to else ()), None):
        useful = (offer.useful_products and (kinds is None or offer.category in kinds) for _, offer in places)
        if any(fitting := [weight if fits else 0.0 for weight, fits in zip(weights, useful)]):
            first = fitting
            break
    for turn in range(count - sum(held)):
        pools, offer = draw_place(first if turn == 0 else weights)
        pools.append((turn == 0 and offer.useful_products) or offer.products)
    ids = iter(rng.sample(dids, count))
    devices = []
    for room, pools in zip(rooms, drawn, strict=True):
        used: set[str] = set()
        for products in pools:
            spec = rng.choice(products)
            name = lexicon.device_name(spec, room.type, half, used, rng)
            used.add(name)
            devices.append(Device(str(next(ids)), name, room, spec))
    return tuple(devices)


def draw_entrance(devices: Sequence[Device], priors: DevicePriors, rng: random.Random) -> str | None:
    """The id of the device that people speak to, of the first kind in the priors that the home has; None without any."""
    for kinds in priors.entrance:
        if dids := [device.did for device in devices if device.spec.category in kinds]:
            return rng.choice(dids)
    return None
