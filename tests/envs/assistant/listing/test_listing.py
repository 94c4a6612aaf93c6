"""What is read from the recorded listing of a real home."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from homerl.envs.assistant.listing.home_listing import AREAS, DEVICES, ENTRIES, ListedEntity, Listing
from tests.envs.assistant.listing.replay import listing


@pytest.fixture(scope="module")
def home() -> Listing:
    return listing()


@pytest.fixture(scope="module")
def entities(home: Listing) -> dict[str, ListedEntity]:
    return {entity.entity_id: entity for entity in home.entities}


def test_a_listing_survives_json(home: Listing) -> None:
    assert Listing.model_validate_json(home.model_dump_json()) == home


def test_a_listing_is_frozen(home: Listing) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        home.version = "1"


def test_a_dozen_areas_lie_on_two_floors(home: Listing) -> None:
    assert len(home.areas) == 12
    floors = {floor.floor_id for floor in home.floors}
    assert {area.floor_id for area in home.areas} == floors == {"ground_floor", "first_floor"}
    assert next(area for area in home.areas if area.name == "Living Room").aliases == ("Lounge",)


def test_an_entity_stands_in_the_area_of_its_device(home: Listing, entities: dict[str, ListedEntity]) -> None:
    assert home.sources[ENTRIES]["light.bed_light"]["area_id"] is None
    assert entities["light.bed_light"].area_id == "bedroom"


def test_an_entity_of_a_part_stands_in_the_area_of_the_whole(home: Listing) -> None:
    sources = {
        ENTRIES: {"switch.socket": {"area_id": None, "device_id": "socket"}},
        DEVICES: [{"id": "socket", "area_id": None, "parent_device_id": "strip"}, {"id": "strip", "area_id": "office"}],
    }
    assert Listing(version="1", sources=sources).area_of_entity("switch.socket") == "office"


def test_an_area_of_its_own_comes_first(entities: dict[str, ListedEntity]) -> None:
    assert entities["input_boolean.guest_mode"].device_id is None
    assert entities["input_boolean.guest_mode"].area_id is not None


def test_an_entity_that_is_not_registered_has_no_area(entities: dict[str, ListedEntity]) -> None:
    lock = entities["lock.front_door"]
    assert (lock.area_id, lock.platform, lock.aliases) == (None, None, ())
    assert lock.exposed and lock.services


def test_aliases_are_names_beside_its_own(entities: dict[str, ListedEntity]) -> None:
    light = entities["light.ceiling_lights"]
    assert (light.name, light.aliases) == ("Ceiling Lights", ("Big light", "Chandelier"))


def test_each_area_is_known(home: Listing, entities: dict[str, ListedEntity]) -> None:
    known = {row["area_id"] for row in home.sources[AREAS]}
    assert {entity.area_id for entity in entities.values()} - {None} == known


def test_what_is_of_no_use_to_a_speaker_is_not_exposed(entities: dict[str, ListedEntity]) -> None:
    assert not entities["sun.sun"].exposed and entities["vacuum.demo_vacuum_0_ground_floor"].exposed


def test_services_are_those_that_the_entity_supports(entities: dict[str, ListedEntity]) -> None:
    assert "cover.set_cover_position" in entities["cover.hall_window"].services
    assert "cover.set_cover_position" not in entities["cover.garage_door"].services
