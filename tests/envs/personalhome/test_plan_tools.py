"""The tools of plans: what they write down, and what they refuse."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.env import TOOLS, call_household_tool
from homerl.envs.personalhome.sim.household_state import HouseholdState, Note
from homerl.envs.personalhome.sim.tools.contract import household_tool_schema


def written(state: HouseholdState, name: str, arguments: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The result of a call, and the records and slots that it changed."""
    before = state.fork()
    result = call_household_tool(state, name, arguments)
    assert state.state_key() != before.state_key()
    return result, tuple(name for name in state.changes_since(before) if not name.startswith("seen."))


def rule(state: HouseholdState, name: str, arguments: dict[str, Any]) -> str:
    key = state.state_key()
    with pytest.raises(Refused) as caught:
        call_household_tool(state, name, arguments)
    assert state.state_key() == key
    return caught.value.rule


@pytest.mark.parametrize("name", [tool.name for tool in TOOLS.values() if tool.in_plans])
def test_a_tool_of_plans_is_no_tool_of_one_who_looks_around(state: HouseholdState, name: str) -> None:
    with pytest.raises(Refused) as caught:
        call_household_tool(state, name, {}, in_plans=False)
    assert caught.value.rule == "unknown_tool"


def test_only_the_given_fields_of_a_member_change(state: HouseholdState) -> None:
    user = {"member_id": "h1_1", "age": 40, "hobbies": ["chess"], "occupation": "nurse"}
    row, changed = written(state, "update_user_information", {"user": user})
    assert (row["age"], row["hobbies"], row["occupation"], row["name"]) == (40, ["chess"], "nurse", "Anna Berg")
    assert changed == ("member.h1_1",)
    assert call_household_tool(state, "get_household_member_info", {"member_ids": ["h1_1"]}) == [row]
    assert [one.occupation for one in state.household.members if one.member_id == "h1_1"] == ["teacher"]


@pytest.mark.parametrize("age", [0, 1, 40, 120])
@pytest.mark.parametrize("member_id", ["h1_1", "h1_2"])
def test_a_birthday_follows_from_the_age(state: HouseholdState, member_id: str, age: int) -> None:
    assert (
        call_household_tool(state, "update_user_information", {"user": {"member_id": member_id, "age": age}})["age"] == age
    )


def test_a_member_who_is_renamed_keeps_the_memories(state: HouseholdState) -> None:
    call_household_tool(state, "update_user_information", {"user": {"member_id": "h1_1", "name": "Anna Lind"}})
    arguments = {"member_id": "h1_1", "search_string": "", "num_memories": 9}
    assert len(call_household_tool(state, "get_member_memories", arguments)) == 2


def test_what_is_known_of_a_member_has_bounds(state: HouseholdState) -> None:
    assert rule(state, "update_user_information", {"user": {"member_id": "h1_1", "age": 400}}) == "out_of_range"
    assert rule(state, "update_user_information", {"user": {"member_id": "h1_1", "shoe": 4}}) == "unknown_argument"
    assert rule(state, "update_user_information", {"user": {"age": 4}}) == "missing_argument"


def test_a_pet_is_rewritten_and_an_unknown_one_refused(state: HouseholdState) -> None:
    row, changed = written(state, "update_pet_information", {"household_id": "h1", "pet": {"name": "Milo", "age": 5}})
    assert row == {"name": "Milo", "animal": "cat", "age": 5} and changed == ("pet.Milo",)
    assert call_household_tool(state, "get_household_profile", {})["pets"] == [row]
    assert rule(state, "update_pet_information", {"household_id": "h1", "pet": {"name": "Rex"}}) == "unknown_pet"
    assert rule(state, "update_pet_information", {"household_id": "h2", "pet": {"name": "Milo"}}) == "unknown_household"


def remember(**memory: Any) -> dict[str, Any]:
    return {"household_id": "h1", "memories": [{"memory": "Anna burned her hand.", "subjects": ["h1_1"], **memory}]}


def test_a_new_memory_is_of_now_and_can_be_found(state: HouseholdState) -> None:
    result, changed = written(state, "update_memories", remember())
    assert result is None and changed == ("memory.5",)
    assert state.records.memories[5] == Note("Anna burned her hand.", ("h1_1",), "", state.now)
    found = call_household_tool(
        state, "get_member_memories", {"member_id": "h1_1", "search_string": "burn", "num_memories": 3}
    )
    assert [row["memory"] for row in found] == ["Anna burned her hand."] and state.shown == ("memory:5",)


def test_a_memory_of_the_same_time_and_subjects_is_replaced(state: HouseholdState) -> None:
    _, changed = written(state, "update_memories", remember(time="2026-02-20T15:00"))
    assert changed == ("memory.2",) and len(state.records.memories) == 5
    assert state.records.memories[2].time == datetime(2026, 2, 20, 15)


def test_memories_are_refused_as_a_whole(state: HouseholdState) -> None:
    good = remember()["memories"][0]
    assert rule(state, "update_memories", remember() | {"household_id": "h2"}) == "unknown_household"
    assert rule(state, "update_memories", remember(time="yesterday")) == "wrong_type"
    for wrong, name in (({"subjects": ["Bob"]}, "unknown_member"), ({"memory": ""}, "out_of_range")):
        assert rule(state, "update_memories", {"household_id": "h1", "memories": [good, good | wrong]}) == name


def status(name: str = "kitchen_leak", location: str = "kitchen", **readings: Any) -> dict[str, Any]:
    return {"sensor_name": name, "sensor_location": location, "status": readings}


def test_a_status_is_written_beside_what_the_sensor_measures(state: HouseholdState) -> None:
    row, changed = written(state, "update_sensor_status", status(leak=True))
    assert row["state"] == {"leak": True, "battery": 40} and changed == ("status.kitchen_leak.leak",)
    assert call_household_tool(state, "get_sensors", {"sensor_names": ["kitchen_leak"]})["kitchen_leak"] == row
    assert state.home.read_value("kitchen_leak", "leak") is False


def test_a_status_is_of_a_known_sensor_in_its_room(state: HouseholdState) -> None:
    assert rule(state, "update_sensor_status", status("oven", leak=True)) == "unknown_sensor"
    assert rule(state, "update_sensor_status", status(location="entrance hall", leak=True)) == "unknown_location"
    assert rule(state, "update_sensor_status", status(smoke=True)) == "unknown_attribute"
    assert rule(state, "update_sensor_status", status(leak="yes")) == "wrong_type"


def test_an_appliance_is_set_in_its_room(state: HouseholdState) -> None:
    arguments = {"appliance_name": "oven", "appliance_location": "Kitchen", "status": {"power": "on"}}
    row, changed = written(state, "update_appliance_status", arguments)
    assert row["state"]["power"] == "on" and changed == ("oven.power",)
    assert rule(state, "update_appliance_status", arguments | {"appliance_location": "entrance hall"}) == "unknown_location"
    assert rule(state, "update_appliance_status", arguments | {"status": {"probe": 3.0}}) == "read_only"


def routine(*functions: dict[str, Any]) -> dict[str, Any]:
    return {"functions": [*functions]}


PREHEAT = {"appliance": "oven", "feature": "preheat_oven", "args": {"temperature": 200}}


def test_a_routine_is_made_and_not_run(state: HouseholdState) -> None:
    assert written(state, "create_routine", routine(PREHEAT, PREHEAT)) == ("routine_1", ("routine.1",))
    assert written(state, "create_routine", routine(PREHEAT))[0] == "routine_2"
    assert state.home.read_value("oven", "power") == "off"
    assert state.records.routines[0].functions[0] == ("oven", "preheat_oven", '{"temperature": 200}')


def test_a_routine_chains_features_that_exist(state: HouseholdState) -> None:
    assert rule(state, "create_routine", routine(PREHEAT, PREHEAT | {"appliance": "tv"})) == "unknown_appliance"
    assert rule(state, "create_routine", routine(PREHEAT | {"feature": "explode"})) == "unknown_feature"
    assert rule(state, "create_routine", routine(PREHEAT | {"args": {"temperature": 1}})) == "out_of_range"
    assert rule(state, "create_routine", routine()) == "out_of_range"


def test_schemas_name_all_that_is_required() -> None:
    for tool in TOOLS.values():
        parameters = household_tool_schema(tool)["function"]["parameters"]
        assert set(parameters["required"]) <= set(parameters["properties"]), tool.name
