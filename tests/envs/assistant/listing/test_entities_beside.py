"""What a guard knows of entities that are not exposed: it is saved, heard of when it changes, and names no place."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from written_home import Row, written_home

from homerl.envs.assistant.automations import automation_import
from homerl.envs.assistant.automations.automation_reach import keep_reachable
from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, EXPOSED, STATES, Listing
from homerl.envs.assistant.listing.home_setup import hash_home_setup
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.call_effects import find_unseen_reach, list_groups
from homerl.envs.assistant.serving.consent import is_guarded
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_to_json, load_home, save_home
from homerl.envs.homeenv.sim.home_plan import Origin, Unfollowed

SEEN = ("light.hall", "light.porch", "light.all", "switch.x")
ROWS = (
    Row("light.hall", "Hall Lamp"),
    Row("light.porch", "Porch Lamp"),
    Row("light.all", "All Lamps", members=["light.porch", "switch.relay_1"]),
    Row("switch.x", "Plug"),
    Row("switch.relay_1", "Relay 1"),  # nobody exposed this one, and those that follow
    Row("switch.relay_9", "Front door opener"),
    Row("light.downstairs", "Downstairs", members=["switch.relay_9", "input_boolean.second"]),
    Row("input_boolean.flag", "Flag"),
    Row("input_boolean.second", "Second"),
    Row("lock.front_door", "Front Door", state="locked"),
    *(Row(f"automation.{letter}", letter.upper(), state="on") for letter in "uvwxyz"),
)
SUN = {"trigger": "sun", "event": "sunset"}
SOMETIME = {"for": "{{ range(9) | random }}"}  # which nobody can follow


def on(entity: str, **more: Any) -> dict[str, Any]:
    return {"trigger": "state", "entity_id": entity, "to": "on"} | more


def turn_on(entity: str) -> dict[str, Any]:
    return {"action": f"{entity.partition('.')[0]}.turn_on", "target": {"entity_id": entity}}


UNLOCK = {"action": "lock.unlock", "target": {"entity_id": "lock.front_door"}}
ENTITIES = [row.entity_id for row in ROWS if not row.entity_id.startswith(("automation", "lock"))]
TRIGGERS = [
    SUN,
    {"trigger": "time", "at": "22:00:00"},
    {"trigger": "webhook", "webhook_id": "x"},
    {"trigger": "event", "event_type": "come_in"},
    on("binary_sensor.elsewhere"),
    {"trigger": "template", "value_template": "{{ is_state('input_boolean.flag', 'on') and 'a' is match('!') }}"},
    *(on(one, **more) for one in ENTITIES for more in ({}, SOMETIME)),
]
ACTIONS = [
    UNLOCK,
    {"event": "come_in"},
    {"action": "homeassistant.turn_on", "target": {"entity_id": "{{ whom }}"}},
    {"action": "light.turn_on", "target": {"entity_id": "{{ whom }}"}},
    *(turn_on(one) for one in ENTITIES * 2),
]
Automation = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture
def listed(tmp_path):
    """The listing of a home with automations, in which what is in `SEEN` is exposed."""

    def made(*automations: Automation, rows: tuple[Row, ...] = ROWS) -> Listing:
        if not (tmp_path / "states.json").exists() or rows != ROWS:
            written_home(tmp_path, *rows)
        texts = {
            f"automation.{letter}": {"alias": letter, "triggers": [trigger], "actions": [action]}
            for letter, (trigger, action) in zip("uvwxyz", automations, strict=False)
        }
        seen = {name: {"conversation": True} for name in SEEN}
        return load_listing(tmp_path).with_sources({AUTOMATIONS: texts, EXPOSED: {"exposed_entities": seen}})

    return made


def reach(home: Home) -> dict[str, frozenset[str]]:
    """What each exposed entity may set off, unseen."""
    return find_unseen_reach(home, SEEN, list_groups(home))


def asked_about(home: Home) -> set[str]:
    """The exposed entities that may set off something guarded, unseen."""
    return {did for did, found in reach(home).items() if any(is_guarded(home, one) for one in found)}


def saved_and_loaded(home: Home, folder) -> Home:
    save_home(home, folder / "home.json")
    return load_home(folder / "home.json")


FLAGGED = (on("input_boolean.flag"), UNLOCK)


@pytest.mark.parametrize(
    "trigger", [SUN, {"trigger": "webhook", "webhook_id": "x"}, {"trigger": "time", "at": "22:00:00"}, on("sensor.gone")]
)
def test_a_chain_that_nothing_in_the_home_begins_is_loaded_and_asks_nothing(listed, tmp_path, trigger):
    chain = (trigger, turn_on("input_boolean.flag")), FLAGGED
    assert asked_about(saved_and_loaded(import_home(listed(*chain)).home, tmp_path)) == set()
    begun = import_home(listed(*chain, (on("light.hall"), turn_on("input_boolean.flag")))).home
    assert asked_about(saved_and_loaded(begun, tmp_path)) == {"light.hall"}


@pytest.mark.parametrize(
    ("group", "member", "called"),
    [("light.downstairs", "input_boolean.second", "light.hall"), ("light.all", "switch.relay_1", "light.all")],
)
def test_a_member_that_is_not_exposed_changes_with_its_group(listed, tmp_path, group, member, called):
    """The guard asks of each device that the twin switches, so also of an exposed group."""
    home = import_home(listed((on("light.hall"), turn_on(group)), (on(member), UNLOCK))).home
    assert asked_about(saved_and_loaded(home, tmp_path)) == {called}


@pytest.mark.parametrize("count", [25, pytest.param(60, marks=pytest.mark.long)])
def test_whatever_is_imported_is_loaded_and_guarded_as_before(listed, tmp_path, monkeypatch, count):
    """As if nothing were left out that cannot be reached."""
    draws, answers, whole = random.Random(7), set[bool](), list[Origin]()

    def watched(origin: Origin, devices: Collection[str]) -> tuple[Unfollowed, ...]:
        whole.append(origin)
        return keep_reachable(origin, devices)

    monkeypatch.setattr(automation_import, "keep_reachable", watched)
    for _ in range(count):
        drawn = ((draws.choice(TRIGGERS), draws.choice(ACTIONS)) for _ in range(draws.randint(1, 6)))
        home = import_home(listed(*drawn)).home
        asked, again = asked_about(home), saved_and_loaded(home, tmp_path)
        assert again.plan.origin == home.plan.origin and reach(again) == reach(home) and asked_about(again) == asked
        home.plan = replace(home.plan, origin=whole.pop())
        assert asked_about(home) == asked
        answers |= {did in asked for did in SEEN}
    assert answers == {True, False}


def renamed(listing: Listing, entity: str, **attributes: Any) -> Listing:
    rows = [
        row | {"attributes": row["attributes"] | attributes} if row["entity_id"] == entity else row
        for row in listing.sources[STATES]
    ]
    return listing.with_sources({STATES: rows})


def test_a_home_is_another_one_once_what_an_automation_acts_on_may_open_it(listed):
    listing = listed((on("light.hall"), turn_on("switch.relay_1")))
    for other in (
        renamed(listing, "switch.relay_1", friendly_name="Front door opener"),
        renamed(listing, "switch.relay_1", entity_id=["switch.relay_9"]),
    ):
        assert hash_home_setup(other) != hash_home_setup(listing)
        assert "light.hall" in asked_about(import_home(other).home) and not asked_about(import_home(listing).home)
    for same in (
        renamed(listing, "switch.relay_1", entity_picture="/local/a.png"),
        renamed(listing, "lock.front_door", friendly_name="Side"),  # of which nothing is kept
    ):
        assert hash_home_setup(same) == hash_home_setup(listing)


def test_where_somebody_is_stays_there(listed):
    phone = "sensor.phone_geocoded_location"
    rows = (
        Row("zone.clinic", "Gate Clinic", state="1"),
        Row("person.ann", "Ann", state="Gate Clinic"),
        Row("group.family", "Family", members=["person.ann", "light.porch"]),
        Row(phone, "Phone", state="12 Main St"),
        Row("sensor.way", "Way", state="3"),
    )
    named = [(on(one, **SOMETIME), turn_on("light.hall")) for one in ("zone.clinic", "group.family", phone, "sensor.way")]
    listing = listed(*named, rows=(*ROWS, *rows))
    listing = renamed(renamed(listing, phone, Zones=["zone.clinic"]), "sensor.way", zone="zone.clinic", via="light.porch")
    imported: ImportedHome = import_home(listing)
    beside = imported.home.plan.origin.beside
    assert beside["group.family"].lists == ("light.porch",) and not {phone, "sensor.way"} & beside.keys()
    told = json.dumps(home_to_json(imported.home))
    assert not any(one in told for one in ("clinic", "person.", "Main St")), told
