"""Every tool: what it returns, what it shows, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, load_features
from homerl.envs.personalhome.sim.env import TOOLS, call_household_tool
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.tools.contract import RULES
from homerl.envs.personalhome.sim.tools.household_tools import ASKED


def refusal(state: HouseholdState, name: Any, arguments: Any) -> Refused:
    """The refusal of a call, which must have changed nothing."""
    before, key = state.fork(), state.state_key()
    with pytest.raises(Refused) as caught:
        call_household_tool(state, name, arguments)
    assert state.state_key() == key and not state.changes_since(before)
    assert caught.value.rule in RULES and len(caught.value.message) < 1200
    return caught.value


def test_there_are_the_tools_of_the_paper() -> None:
    assert all(tool.description.endswith(".") for tool in TOOLS.values())
    assert {tool.name for tool in TOOLS.values() if tool.in_plans} == {
        "update_user_information",
        "update_memories",
        "update_sensor_status",
        "update_appliance_status",
        "update_pet_information",
        "create_routine",
    }


# Profile


def test_the_profile_shows_the_household_and_its_pets(state: HouseholdState) -> None:
    profile = call_household_tool(state, "get_household_profile", {})
    assert profile == {
        "household_id": "h1",
        "household_size": 2,
        "occupancy_type": "family",
        "layout": "A flat with a kitchen and a hall.",
        "pets": [{"name": "Milo", "animal": "cat", "age": 4}],
        "member_ids": ["h1_1", "h1_2"],
        "time": "2026-03-14T08:30",
    }
    assert state.shown == ("profile", "pet:Milo")


def test_members_are_shown_in_the_order_asked_with_the_age_of_today(state: HouseholdState) -> None:
    rows = call_household_tool(state, "get_household_member_info", {"member_ids": ["h1_2", "h1_1", "h1_2"]})
    assert [(row["name"], row["age"]) for row in rows] == [("Tom Berg", 41), ("Anna Berg", 37)]  # her birthday is tomorrow
    assert "major_events" not in rows[0] and "tastes" not in rows[0]
    assert state.shown == ("member:h1_2", "member:h1_1")


def test_a_life_has_dates_or_is_empty(state: HouseholdState) -> None:
    events = call_household_tool(state, "get_household_member_major_events", {"member_id": "h1_1"})["major_events"]
    assert events == [{"date": "2015-06-20", "description": "Anna married Tom."}] and state.shown == ("life:h1_1",)
    assert call_household_tool(state, "get_household_member_major_events", {"member_id": "h1_2"})["major_events"] == []


def test_an_unknown_member_is_refused_with_the_known_ones(state: HouseholdState) -> None:
    for name, arguments in (
        ("get_household_member_info", {"member_ids": ["h1_1", "h1_9"]}),
        ("get_household_member_major_events", {"member_id": "h1_9"}),
        ("get_member_memories", {"member_id": "h1_9", "search_string": "oven", "num_memories": 2}),
        ("update_user_information", {"user": {"member_id": "h1_9", "age": 4}}),
    ):
        refused = refusal(state, name, arguments)
        assert refused.rule == "unknown_member" and "h1_1, h1_2" in refused.message


# Memory


def search(state: HouseholdState, query: str, most: int = 9, **member: str) -> tuple[str, ...]:
    call_household_tool(
        state,
        f"get_{'member' if member else 'household'}_memories",
        {"search_string": query, "num_memories": most, **member},
    )
    return state.shown


def test_memories_are_found_by_their_words_the_latest_of_equals_first(state: HouseholdState) -> None:
    assert search(state, "sourdough in the oven") == ("memory:4", "memory:0")
    assert search(state, "Who baked?") == ("memory:4", "memory:0", "memory:2")  # the shorter texts first
    assert search(state, "oven", most=1) == ("memory:4",)


def test_a_search_without_a_match_is_empty_and_without_words_gives_the_latest(state: HouseholdState) -> None:
    assert search(state, "zebra") == ()
    assert search(state, " ", most=2) == ("memory:4", "memory:3")


def test_memories_of_a_member_are_about_that_member(state: HouseholdState) -> None:
    assert search(state, "", member_id="h1_1") == ("memory:2", "memory:1")
    assert search(state, "sourdough", member_id="h1_1") == ()


def test_subjects_may_be_names(household: Household) -> None:
    named = household.memories[0].model_copy(update={"subjects": ("Anna Berg",)})
    state = HouseholdState(household.model_copy(update={"memories": (named, *household.memories[1:])}))
    assert search(state, "", member_id="h1_1") == ("memory:2", "memory:1", "memory:0")


def test_a_memory_is_shown_without_its_typed_fact(state: HouseholdState) -> None:
    rows = call_household_tool(state, "get_household_memories", {"search_string": "vet", "num_memories": 5})
    assert rows == [
        {"memory": "Milo went to the vet.", "subjects": ["Milo"], "additional_information": "", "time": "2026-03-01T09:00"}
    ]


# Devices


def test_appliances_and_sensors_are_listed_apart(state: HouseholdState) -> None:
    assert call_household_tool(state, "get_owned_appliances", {}) == [
        {"appliance": "oven", "name": "oven", "type": "oven", "location": "kitchen"},
        {"appliance": "speaker", "name": "wall speaker", "type": "speaker", "location": "entrance hall"},
    ]
    assert state.shown == ("appliance:oven", "appliance:speaker")
    assert [row["sensor"] for row in call_household_tool(state, "get_owned_sensors", {})] == ["hall_motion", "kitchen_leak"]
    assert state.shown == ("sensor:hall_motion", "sensor:kitchen_leak")


def test_states_are_shown_by_name_and_by_room(state: HouseholdState) -> None:
    oven = call_household_tool(state, "get_appliances", {"appliance_names": ["oven"]})["oven"]
    assert oven["location"] == "kitchen" and oven["state"]["temperature"] == 180 and oven["state"]["days"] == []
    assert state.shown == ("appliance:oven", "state:oven")
    assert call_household_tool(state, "get_appliances_by_location", {"locations": ["Kitchen"]}) == [oven]
    assert call_household_tool(state, "get_appliances_by_location", {"locations": ["kitchen_1"]}) == [oven]
    leak = call_household_tool(state, "get_sensors", {"sensor_names": ["kitchen_leak"]})["kitchen_leak"]
    assert leak["state"] == {"leak": False, "battery": 40} and state.shown == ("sensor:kitchen_leak", "state:kitchen_leak")
    assert call_household_tool(state, "get_sensors_by_location", {"locations": ["kitchen"]}) == [leak]


def test_unknown_devices_and_rooms_are_refused_with_the_known_ones(state: HouseholdState) -> None:
    for name, arguments, rule, known in (
        ("get_appliances", {"appliance_names": ["oven", "hall_motion"]}, "unknown_appliance", "oven, speaker"),
        ("get_appliance_features", {"appliance_names": ["toaster"]}, "unknown_appliance", "oven, speaker"),
        ("run_appliance_feature", {"appliance_name": "tv", "feature_method": "f"}, "unknown_appliance", "oven, speaker"),
        ("update_appliance", {"appliance_name": "tv", "state": {"power": "on"}}, "unknown_appliance", "oven, speaker"),
        ("get_sensors", {"sensor_names": ["oven"]}, "unknown_sensor", "hall_motion, kitchen_leak"),
        ("get_appliances_by_location", {"locations": ["attic"]}, "unknown_location", "kitchen, entrance hall"),
        ("get_sensors_by_location", {"locations": ["attic"]}, "unknown_location", "kitchen, entrance hall"),
    ):
        refused = refusal(state, name, arguments)
        assert refused.rule == rule and known in refused.message


def test_features_say_their_parameters_and_what_they_require(state: HouseholdState) -> None:
    preheat, probe = call_household_tool(state, "get_appliance_features", {"appliance_names": ["oven"]})["oven"]
    assert preheat["parameters"] == {"temperature": {"type": "int 50..250 celsius", "required": False, "default": 180}}
    assert (preheat["title"], probe["feature_method"]) == (load_features()["oven.preheat_oven"].title.en, "read_probe_temp")
    assert probe["requires"] == 'power == "on"'
    assert state.shown == ("features:oven",)


def test_features_have_titles_in_the_language_of_the_household(household: Household) -> None:
    state = HouseholdState(household.model_copy(update={"language": "zh"}))
    rows = call_household_tool(state, "get_appliance_features", {"appliance_names": ["speaker"]})["speaker"]
    assert [row["title"] for row in rows] == [load_features()[f"speaker.{row['feature_method']}"].title.zh for row in rows]


def test_what_asks_the_assistant_has_a_question_and_a_result() -> None:
    asking = [
        (spec.service_index[method].service, ASKED[method])
        for spec in appliance_kinds().values()
        for method in ASKED
        if method in spec.service_index
    ]
    assert len(asking) == 2
    for service, question in asking:
        assert question in [one.name for one in service.arguments if one.required] and isinstance(service.returns, dict)


def run(state: HouseholdState, method: str, **kwargs: Any) -> Any:
    return call_household_tool(
        state, "run_appliance_feature", {"appliance_name": "oven", "feature_method": method, "feature_kwargs": kwargs}
    )


def test_a_feature_changes_the_home_and_returns_its_result(state: HouseholdState) -> None:
    before = state.fork()
    assert run(state, "preheat_oven", temperature=200) is None
    assert state.changes_since(before) == ("oven.power", "oven.temperature", "seen.result:oven.preheat_oven")
    assert run(state, "read_probe_temp") == {"probe": 20.0, "done": False}


def ask(state: HouseholdState, query: str) -> Any:
    arguments = {"appliance_name": "speaker", "feature_method": "complex_query", "feature_kwargs": {"query": query}}
    return call_household_tool(state, "run_appliance_feature", arguments)


def test_an_appliance_that_is_asked_answers_from_what_the_household_remembers(state: HouseholdState) -> None:
    result = ask(state, "When did Anna use the oven?")
    assert result["last_instruction"] == "play_music" and len(result["answer"].splitlines()) == 3
    assert result["answer"].splitlines()[0] == "2026-03-14T07:00 Anna used the oven."
    assert state.shown[:2] == ("result:speaker.complex_query", "event:1")
    assert ask(state, "zebras?")["answer"] == "" and state.shown == ("result:speaker.complex_query",)


@pytest.mark.parametrize(
    ("method", "kwargs", "rule"),
    [
        ("explode", {}, "unknown_feature"),
        ("read_probe_temp", {}, "precondition"),
        ("preheat_oven", {"temperature": 900}, "out_of_range"),
        ("preheat_oven", {"temperature": "hot"}, "wrong_type"),
        ("preheat_oven", {"heat": 3}, "unknown_argument"),
    ],
)
def test_a_feature_is_refused(state: HouseholdState, method: str, kwargs: dict[str, Any], rule: str) -> None:
    arguments = {"appliance_name": "oven", "feature_method": method, "feature_kwargs": kwargs}
    assert refusal(state, "run_appliance_feature", arguments).rule == rule


def test_a_feature_needs_its_arguments(state: HouseholdState) -> None:
    refused = refusal(state, "run_appliance_feature", {"appliance_name": "speaker", "feature_method": "notify"})
    assert refused.rule == "missing_argument" and "message" in refused.message


def test_a_state_is_set_as_a_whole_or_not_at_all(state: HouseholdState) -> None:
    row = call_household_tool(
        state, "update_appliance", {"appliance_name": "oven", "state": {"power": "on", "days": ["mon"]}}
    )
    assert (row["state"]["power"], row["state"]["days"]) == ("on", ["mon"])
    for wrong, rule in (
        ({"power": "off", "probe": 70.0}, "read_only"),
        ({"power": "off", "idle_seconds": 0}, "read_only"),
        ({"power": "off", "colour": 1}, "unknown_attribute"),
        ({"power": "off", "temperature": 1}, "out_of_range"),
        ({}, "out_of_range"),
    ):
        assert refusal(state, "update_appliance", {"appliance_name": "oven", "state": wrong}).rule == rule


# Situation


def test_the_timeline_holds_the_events_of_devices(state: HouseholdState) -> None:
    rows = call_household_tool(state, "get_appliance_and_sensor_events", {})
    assert [row["description"] for row in rows] == ["Anna used the oven.", "Motion in the hall."]
    assert rows[0]["appliances"] == ["oven"] and rows[0]["time"] == "2026-03-14T07:00" and "fact" not in rows[0]
    assert state.shown == ("event:1", "event:2")


def test_events_are_told_in_words(state: HouseholdState) -> None:
    compact = call_household_tool(state, "get_contextual_event_descriptions", {"compact": True})
    assert compact.splitlines()[0] == "2026-03-14T08:20 Motion in the hall."
    text = call_household_tool(state, "get_contextual_event_descriptions", {"sort_by_time": True, "indent": "> "})
    assert text.splitlines()[:3] == ["2026-03-13T21:10", "> Tom left home.", "2026-03-14T07:00"]
    assert "> appliances: oven" in text and state.shown == ("event:0", "event:1", "event:2")


def test_a_household_without_events_has_nothing_to_tell(household: Household) -> None:
    quiet = household.model_copy(update={"context": household.context.model_copy(update={"events": ()})})
    state = HouseholdState(quiet)
    assert call_household_tool(state, "get_appliance_and_sensor_events", {}) == []
    assert call_household_tool(state, "get_contextual_event_descriptions", {}) == "" and not state.seen


def test_the_weather_is_shown(state: HouseholdState) -> None:
    weather = call_household_tool(state, "get_weather", {})
    assert weather == {
        "outdoor": {"rain": "0 mm/h", "snow": "0 mm/h", "sunny": 0.5, "temperature": "9 °C", "wind": "3 m/s"},
        "indoor": {"dust": "8 µg/m³", "humidity": "45%", "odor": 1.0, "temperature": "21 °C"},
    }
    assert state.shown == ("weather",)


# The arguments of any tool


@pytest.mark.parametrize(
    ("name", "arguments", "rule"),
    [
        ("no_such_tool", {}, "unknown_tool"),
        (None, {}, "unknown_tool"),
        (["get_weather"], {}, "unknown_tool"),
        ("get_weather", {"where": "here"}, "unknown_argument"),
        ("get_weather", [], "wrong_type"),
        ("get_weather", {3: 4}, "unknown_argument"),
        ("get_sensors", {}, "missing_argument"),
        ("get_sensors", {"sensor_names": "hall_motion"}, "wrong_type"),
        ("get_sensors", {"sensor_names": []}, "out_of_range"),
        ("get_sensors", {"sensor_names": [None]}, "wrong_type"),
        ("get_household_memories", {"search_string": "oven", "num_memories": 0}, "out_of_range"),
        ("get_household_memories", {"search_string": "oven", "num_memories": 5.0}, "wrong_type"),
        ("get_household_memories", {"search_string": "oven", "num_memories": True}, "wrong_type"),
        ("get_household_memories", {"search_string": "\ud800", "num_memories": 1}, "wrong_type"),
        ("get_household_memories", {"search_string": "x" * 9999, "num_memories": 1}, "out_of_range"),
    ],
)
def test_wrong_arguments_are_refused_before_the_tool_runs(
    state: HouseholdState, name: Any, arguments: Any, rule: str
) -> None:
    refused = refusal(state, name, arguments)
    assert refused.rule == rule
    assert rule == "unknown_tool" or f"call {name}(" in refused.message
