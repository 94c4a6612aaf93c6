"""Rooms from areas, and names of devices in them."""

from __future__ import annotations

import pytest

from homerl.envs.assistant.listing.home_listing import ListedArea
from homerl.envs.assistant.listing.room_and_device_names import GENERAL, guess_room_type, name_devices, rooms_from_areas
from tests.envs.assistant.listing.making import entity
from tests.envs.assistant.listing.replay import listing


def test_an_area_is_a_room_on_its_floors_level() -> None:
    rooms = {room.id: room for room in rooms_from_areas(listing())}
    assert len(rooms) == 12
    assert (rooms["bedroom"].name, rooms["bedroom"].type, rooms["bedroom"].floor) == ("Bedroom", "bedroom", 1)
    assert rooms["utility_room"].type == "laundry" and rooms["kitchen"].floor == 0


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("Master bedroom", "bedroom"), ("Dining Room", "dining_room"), ("Home Office", "study"), ("Guest WC", "bathroom"),
        ("Schlafzimmer Eltern", "bedroom"), ("Wohnküche", "kitchen"), ("Gästebad", "bathroom"), ("Flur OG", "hallway"),
        ("主卧卫生间", "bathroom"), ("客厅", "living_room"), ("Chambre d'amis", "bedroom"), ("Badger den", "living_room"),
        ("Room 7", GENERAL), ("Vault", GENERAL), ("", GENERAL),
    ],
)  # fmt: skip
def test_a_rooms_type_is_guessed_from_its_name(name: str, type: str) -> None:
    assert guess_room_type(name) == type


def test_an_alias_tells_a_type_that_the_name_does_not() -> None:
    assert guess_room_type("The Vault", "Lounge") == "living_room"


KITCHEN = ListedArea(area_id="kitchen", name="Kitchen", aliases=("厨房",), floor_id=None)


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("Kitchen Lights", "Lights"), ("kitchen: Oven", "Oven"), ("厨房灯", "灯"), ("Kitchen", "Kitchen"),
        ("Kitchen 2", "Kitchen 2"),
        ("Kitchen - Oven", "Oven"), ("Kitchen 2nd lamp", "2nd lamp"), ("厨房的灯", "灯"), ("厨房 灯", "灯"),
        ("Kitchen's lamp", "Kitchen's lamp"), ("Kitchen’s lamp", "Kitchen’s lamp"),
        ("Kitchen & Hall light", "Kitchen & Hall light"), ("Kitchen and hall light", "Kitchen and hall light"),
        ("Kitchen/Dining light", "Kitchen/Dining light"), ("Kitchen-room lamp", "Kitchen-room lamp"),
        ("厨房和客厅灯", "厨房和客厅灯"), ("厨房/客厅灯", "厨房/客厅灯"), ("Kitchen (old) lamp", "Kitchen (old) lamp"),
        ("Kitchenette lamp", "Kitchenette lamp"), ("Lamp of the kitchen", "Lamp of the kitchen"),
    ],
)  # fmt: skip
def test_a_name_is_without_its_rooms(full: str, short: str) -> None:
    assert name_devices([entity("light.one", name=full, area_id="kitchen")], {"kitchen": KITCHEN}) == {"light.one": short}


def test_names_in_a_room_differ() -> None:
    lamps = [
        entity(f"light.{n}", name=name, area_id="kitchen") for n, name in enumerate(("Kitchen Lamp", "Lamp", "Lamp", "lamp"))
    ]
    names = list(name_devices(lamps, {"kitchen": KITCHEN}).values())
    assert names[0] == "Lamp" and len({name.casefold() for name in names}) == 4


def test_names_in_two_rooms_may_be_the_same() -> None:
    lamps = [entity("light.a", name="Lamp", area_id="kitchen"), entity("light.b", name="Lamp", area_id=None)]
    assert set(name_devices(lamps, {"kitchen": KITCHEN}).values()) == {"Lamp"}
