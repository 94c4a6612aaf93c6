"""Which entities are imported."""

from __future__ import annotations

from typing import Any

from homerl.envs.assistant.listing.exposure import select_entities
from homerl.envs.assistant.listing.home_listing import ENTRIES, EXPOSED, STATES, Listing
from tests.envs.assistant.listing.replay import listing


def ids(home: Listing, everything: bool = False) -> set[str]:
    return {one.entity_id for one in select_entities(home, everything)}


def unexposed(**attributes: Any) -> Listing:
    """The recorded home before Assist was ever asked."""
    home = listing()
    entries = {name: entry | {"options": {}, **attributes} for name, entry in home.sources[ENTRIES].items()}
    return home.model_copy(update={"sources": home.sources | {ENTRIES: entries, EXPOSED: {"exposed_entities": {}}}})


def test_what_the_owner_exposed_is_imported() -> None:
    chosen = ids(listing())
    assert chosen == {one.entity_id for one in listing().entities if one.exposed}
    assert "light.bed_light" in chosen and "sun.sun" not in chosen


def test_everything_is_every_entity_with_a_state() -> None:
    assert ids(listing(), everything=True) == {state["entity_id"] for state in listing().sources[STATES]}


def test_before_assist_was_asked_its_defaults_hold() -> None:
    chosen = ids(unexposed())
    assert {"light.bed_light", "climate.ecobee", "todo.chores", "sensor.outside_temperature"} <= chosen
    assert not {"lock.front_door", "alarm_control_panel.security", "sensor.power_consumption", "button.push"} & chosen


def test_what_is_hidden_or_diagnostic_is_not_exposed_by_default() -> None:
    assert not ids(unexposed(hidden_by="user")) & listing().sources[ENTRIES].keys()
    assert not ids(unexposed(entity_category="diagnostic")) & listing().sources[ENTRIES].keys()


def test_the_owners_word_is_above_the_defaults() -> None:
    said = unexposed(options={"conversation": {"should_expose": False}})
    assert not ids(said) & listing().sources[ENTRIES].keys()
