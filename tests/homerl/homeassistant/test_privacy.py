"""What a saved listing and a home do not tell."""

from __future__ import annotations

import json

from homerl.homeassistant.exposure import selected
from homerl.homeassistant.listing import STATES
from homerl.homeassistant.privacy import stripped, without_secrets
from tests.homerl.homeassistant.replay import listing


def test_no_token_place_or_account_is_left() -> None:
    text = stripped(listing(), [one.entity_id for one in selected(listing(), everything=True)]).model_dump_json()
    for secret in (
        "access_token",
        "entity_picture",
        "latitude",
        "52.5",
        "user_id",
        "unique_id",
        "identifiers",
        "Future Event",
    ):
        assert secret in listing().model_dump_json() and secret not in text


def test_only_the_chosen_entities_are_left() -> None:
    kept = stripped(listing(), ["light.bed_light"])
    assert [state["entity_id"] for state in kept.sources[STATES]] == ["light.bed_light"]
    assert "climate.ecobee" not in json.dumps({name: kept.sources[name] for name in kept.sources if name != "get_services"})


def test_stripping_twice_is_stripping_once() -> None:
    once = stripped(listing(), [one.entity_id for one in selected(listing())])
    assert stripped(once, [one.entity_id for one in selected(once, everything=True)]) == once


def test_a_person_is_at_home_or_away() -> None:
    assert without_secrets("person.anna", "The secret club", {"latitude": 1, "source": "gps"})[0] == "not_home"
    assert without_secrets("person.anna", "home", {"latitude": 1})[1] == {}


def test_a_password_is_not_kept() -> None:
    assert without_secrets("text.password", "hunter2", {"mode": "password"})[0] == ""
    assert without_secrets("text.text", "hello", {"mode": "text"})[0] == "hello"
