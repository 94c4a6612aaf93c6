"""Dates and times of imported devices are written as Home Assistant writes them, whoever sets them."""

from __future__ import annotations

from typing import Any

import pytest

from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant, to_homeassistant
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone

BOTH = {"has_date": True, "has_time": True, "year": 2026, "hour": 9}


@pytest.mark.parametrize(
    ("entity", "state", "attributes", "data", "shown"),
    [
        ("input_datetime.a", "2026-12-01 09:30:00", BOTH, {"datetime": "2027-02-03T04:05"}, "2027-02-03 04:05:00"),
        ("input_datetime.a", "unknown", BOTH, {"date": "2027-02-03", "time": "4:05"}, "2027-02-03 04:05:00"),
        ("input_datetime.a", "unknown", BOTH, {"timestamp": 0}, "1970-01-01 01:00:00"),
        ("input_datetime.a", "2026-12-01", BOTH | {"has_time": False}, {"datetime": "2027-02-03 04:05:06"}, "2027-02-03"),
        ("input_datetime.a", "2026-12-01", BOTH | {"has_time": False}, {"date": "2027-02-03", "time": "1:00"}, "2027-02-03"),
        ("input_datetime.a", "09:30:00", BOTH | {"has_date": False}, {"time": "7:15"}, "07:15:00"),
        ("input_datetime.a", "09:30:00", BOTH | {"has_date": False}, {"datetime": "2027-02-03 04:05:06"}, "04:05:06"),
        ("datetime.a", "2020-01-01T12:00:00+00:00", {}, {"datetime": "2026-12-24 18:30"}, "2026-12-24T17:30:00+00:00"),
        ("date.a", "2020-01-01", {}, {"date": "2026-12-24"}, "2026-12-24"),
        ("time.a", "12:00:00", {}, {"time": "7:30"}, "07:30:00"),
    ],
)
def test_a_moment_is_set_as_there(entity: str, state: str, attributes: dict[str, Any], data: Any, shown: str) -> None:
    home = alone(entity, state, **attributes).home
    setting = "set_datetime" if entity.startswith("input") else "set_value"
    service, arguments = from_homeassistant(home, entity, f"{entity.partition('.')[0]}.{setting}", data)
    home.call(entity, service, (), arguments)
    assert home.read_value(entity, "state") == shown and "hour" not in home.state_of(entity)
    assert list(to_homeassistant(home, entity, service, arguments).data.values()) == [shown]


def test_an_agents_own_way_of_writing_is_the_same() -> None:
    home = alone("input_datetime.a", "2026-12-01 09:30:00", **BOTH).home
    home.call("input_datetime.a", "set_datetime", (), {"datetime": "2027-02-03T04:05:06Z"})
    assert home.read_value("input_datetime.a", "state") == "2027-02-03 04:05:06"


@pytest.mark.parametrize(
    "data", [{"time": "7:00"}, {"datetime": "soon"}, {"timestamp": "1e99"}, {"date": "2027-02-03", "time": "noon"}]
)
def test_what_tells_no_whole_moment_is_refused(data: dict[str, Any]) -> None:
    home = alone("input_datetime.a", "2026-12-01 09:30:00", **BOTH).home
    with pytest.raises(Refused):
        from_homeassistant(home, "input_datetime.a", "input_datetime.set_datetime", data)
