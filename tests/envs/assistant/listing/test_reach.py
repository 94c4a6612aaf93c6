"""What is out of reach is told apart from what is not known, of every kind of entity."""

from __future__ import annotations

import json
from functools import cache

import pytest

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.homeenv.sim.assist.assist_tools import live_context
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone
from tests.envs.assistant.listing.replay import listing


@cache
def everything() -> Home:
    return import_home(listing(), everything=True).home


@cache
def in_state(state: str) -> Home:
    attributes = {entity.entity_id: entity.attributes for entity in listing().entities}
    rows = [{"entity_id": did, "state": state, "attributes": attributes[did]} for did in everything().plan.devices_by_did]
    return refresh_home(everything(), rows)


@cache
def back() -> Home:
    """The home when all is in reach again."""
    return refresh_home(in_state("unavailable"), [one.model_dump() for one in listing().entities])


def told(home: Home, did: str) -> str:
    """The state of an entity in `GetLiveContext`."""
    found = json.loads(live_context(home, {"name": did})[0]).get("result", "")
    return next((line.partition(": ")[2].strip("'") for line in found.splitlines() if line.startswith("  state:")), "")


@pytest.mark.parametrize("did", sorted(everything().plan.devices_by_did))
def test_an_agent_is_told_which_of_the_two_it_is(did: str) -> None:
    if everything().plan.devices_by_did[did].spec.category in ("calendar", "script"):
        return  # tools of their own, and in no list
    assert told(in_state("unavailable"), did) == "unavailable"
    assert told(in_state("unknown"), did) != "unavailable"
    assert told(back(), did) == told(everything(), did)


def test_nothing_is_called_that_is_out_of_reach() -> None:
    gone = in_state("unavailable").fork()
    for did, device in gone.plan.devices_by_did.items():
        for name in device.spec.service_index:
            with pytest.raises(Refused) as refused:
                gone.call(did, name)
            assert refused.value.rule in ("unavailable", "missing_argument"), (did, name)


@pytest.mark.parametrize("state", ["unavailable", "unknown"])
@pytest.mark.parametrize(("did", "unit"), [("sensor.a", "°C"), ("number.a", "%"), ("date.a", None), ("text.a", None)])
def test_it_is_told_where_it_is_imported(did: str, unit: str | None, state: str) -> None:
    home = alone(did, state, min=1, max=5, unit_of_measurement=unit).home
    assert told(home, did) == state and home.read_value(did, "state") in (None, state)
    assert home.plan.devices_by_did[did].spec.can_be_reached(home.state_of(did)) == (state == "unknown")


def test_an_attribute_of_the_same_name_is_another() -> None:
    home = alone("sensor.a", "3", unit_of_measurement="W", available="twice a day").home
    assert home.read_value("sensor.a", "available") is True and home.read_value("sensor.a", "available_2") == "twice a day"
