"""What is shown of a household: the schema of the paper's Appendix H in words, and nothing that is typed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crossed import crossed

from homerl.envs.personalhome.sim.env import call_household_tool
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.sim.vocabulary import load_fact_words

KEYS = {
    "household_id", "household_size", "occupancy_type", "layout", "pets", "members", "appliances", "sensors", "memories",
    "context", "member_ids", "time",
}  # fmt: skip
MEMBER = {
    "member_id", "name", "role", "age", "gender", "occupation", "persona", "hobbies", "lifestyle", "preference",
    "major_events",
}  # fmt: skip
DEVICE = {"name", "type", "location", "state"}


@crossed(seed=range(8), language=["en", "zh"])
def test_the_schema_of_the_paper_is_shown(language: str, seed: int) -> None:
    home = make_household(seed, HouseholdRecipe(language=language))
    plain = household_shown(home)
    assert json.loads(json.dumps(plain)) == plain
    assert plain.keys() == KEYS and plain["household_size"] == len(home.members)
    assert plain["time"] == home.now.isoformat(timespec="minutes")
    for member, known in zip(plain["members"], home.members, strict=True):
        assert member.keys() == MEMBER
        assert member["age"] == known.age(home.now.date())
    devices = {row.get("appliance") or row["sensor"]: row for row in plain["appliances"] + plain["sensors"]}
    rooms = {room["id"]: room["name"] for room in home.home["rooms"]}
    for device in home.home["devices"]:
        row = devices.pop(device["did"])
        assert row.keys() - {"appliance", "sensor"} == DEVICE and row["location"] == rooms[device["room"]]
        assert row["name"] == device["name"] and json.dumps(row["state"]) == json.dumps(device["state"])
    assert not devices
    assert [m["memory"] for m in plain["memories"]] == [m.memory for m in home.memories]
    assert plain["context"]["weather"]["outdoor"].keys() == {"rain", "snow", "sunny", "temperature", "wind"}
    assert plain["context"]["weather"]["indoor"].keys() == {"dust", "humidity", "odor", "temperature"}


def rows_of_tools(household: Household) -> dict[str, Any]:
    """The household as its tools tell it, put together as `shown` does."""
    state = HouseholdState(household)
    profile = call_household_tool(state, "get_household_profile", {})
    ids = profile["member_ids"]
    lives = [call_household_tool(state, "get_household_member_major_events", {"member_id": id}) for id in ids]
    appliances = [row["appliance"] for row in call_household_tool(state, "get_owned_appliances", {})]
    sensors = [row["sensor"] for row in call_household_tool(state, "get_owned_sensors", {})]
    found = call_household_tool(state, "get_household_memories", {"search_string": "", "num_memories": 50})
    by_device = call_household_tool(state, "get_appliance_and_sensor_events", {})
    return {
        **profile,
        "members": [
            info | life
            for info, life in zip(
                call_household_tool(state, "get_household_member_info", {"member_ids": ids}), lives, strict=True
            )
        ],
        "appliances": list(call_household_tool(state, "get_appliances", {"appliance_names": appliances}).values()),
        "sensors": list(call_household_tool(state, "get_sensors", {"sensor_names": sensors}).values()) if sensors else [],
        "memories": sorted(found, key=lambda memory: memory["time"]),
        "context": {"events": by_device, "weather": call_household_tool(state, "get_weather", {})},
    }


@crossed(seed=range(8), language=["en", "zh"])
def test_tools_and_the_whole_say_the_same(language: str, seed: int) -> None:
    plain = household_shown(make_household(seed, HouseholdRecipe(language=language)))
    plain["context"]["events"] = [one for one in plain["context"]["events"] if one["sensors"] or one["appliances"]]
    assert rows_of_tools(make_household(seed, HouseholdRecipe(language=language))) == plain


def test_what_tools_list_is_part_of_what_they_read(state: HouseholdState) -> None:
    for owned, read, key in (
        ("get_owned_appliances", "get_appliances", "appliance"),
        ("get_owned_sensors", "get_sensors", "sensor"),
    ):
        rows = call_household_tool(state, owned, {})
        states = call_household_tool(state, read, {f"{key}_names": [row[key] for row in rows]})
        assert rows == [{name: value for name, value in row.items() if name != "state"} for row in states.values()]


def test_nothing_typed_is_shown() -> None:
    hidden = ('"fact"', '"habits"', '"tastes"', '"traits"', '"situations"', '"birthday"')
    for seed in range(10):
        text = json.dumps(household_shown(make_household(seed, HouseholdRecipe())))
        assert not [key for key in (*hidden, "software_engineer", "brewing_coffee") if key in text]


@pytest.mark.parametrize("seed", [3, 4])
def test_chinese_is_shown_in_chinese(seed: int) -> None:
    plain = rows_of_tools(make_household(seed, HouseholdRecipe(language="zh")))
    for member in plain["members"]:
        texts = [*(member[key] for key in ("name", "role", "gender", "occupation", "persona")), *member["hobbies"]]
        assert not any(text.isascii() for text in texts)
    assert not plain["occupancy_type"].isascii() and not any(pet["animal"].isascii() for pet in plain["pets"])


def test_what_a_tool_writes_in_words_stays(household: Household) -> None:
    state, words = HouseholdState(household.model_copy(update={"language": "zh"})), load_fact_words("zh")
    for occupation, told in (("nurse", words.key_word("occupations", "nurse")), ("潜水员", "潜水员")):
        user = {"member_id": "h1_1", "occupation": occupation, "hobbies": ["chess", "冲浪"]}
        row = call_household_tool(state, "update_user_information", {"user": user})
        assert row["occupation"] == told and row["hobbies"] == [words.key_word("hobbies", "chess"), "冲浪"]
