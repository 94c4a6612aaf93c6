"""Which services and fields an entity supports."""

from __future__ import annotations

import json

from ha.forms import OUT, forms
from homerl.envs.assistant.listing.home_listing import FORMS
from homerl.envs.assistant.listing.service_forms import applicable_fields, shipped_service_forms, supported_services
from tests.envs.assistant.listing.making import recorded_entity
from tests.envs.assistant.listing.replay import listing


def test_an_entity_supports_what_home_assistant_says() -> None:
    home = listing()
    for entity in home.entities:
        own = sorted(one for one in entity.services if one.startswith(f"{entity.domain}."))
        assert supported_services(home.sources[FORMS], entity.entity_id, entity.attributes) == own


def test_the_shipped_forms_are_the_recorded_ones() -> None:
    recorded = listing().sources[FORMS]
    shipped = shipped_service_forms()
    assert {"light", "climate", "media_player"} <= shipped.keys() <= recorded.keys()
    for entity in listing().entities:
        if entity.domain in shipped:
            assert supported_services(shipped, entity.entity_id, entity.attributes) == supported_services(
                recorded, entity.entity_id, entity.attributes
            )


def test_a_field_is_there_for_entities_that_fit_its_filter() -> None:
    form = shipped_service_forms()["light"]["turn_on"]
    names = {name for name, _ in applicable_fields(form, recorded_entity("light.bed_light").attributes)}
    assert {"brightness", "color_temp_kelvin", "effect"} <= names and "white" not in names
    plain = {name for name, _ in applicable_fields(form, {"supported_color_modes": ["onoff"], "supported_features": 0})}
    assert "brightness" not in plain and "profile" in plain


def test_the_file_of_forms_is_what_its_script_makes() -> None:
    assert json.loads(OUT.read_text("utf-8")) == forms()
