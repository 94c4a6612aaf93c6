"""PersonalHome keeps the contract of worlds, whatever an agent sends."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st
from mutations import JUNK

from homerl.envs.core.world import check_world
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.env import TOOLS, PersonalHome, call_household_tool, list_offered_tools
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.tools.contract import RULES
from tests.envs.personalhome.conftest import printed, small_household

CALLS: dict[str, dict[str, Any]] = {
    "get_household_profile": {},
    "get_household_member_info": {"member_ids": ["h1_1", "h1_2"]},
    "get_household_member_major_events": {"member_id": "h1_1"},
    "get_household_memories": {"search_string": "sourdough", "num_memories": 3},
    "get_member_memories": {"member_id": "h1_1", "search_string": "pie", "num_memories": 3},
    "get_owned_appliances": {},
    "get_appliances": {"appliance_names": ["oven"]},
    "get_appliances_by_location": {"locations": ["kitchen"]},
    "get_appliance_features": {"appliance_names": ["oven", "speaker"]},
    "run_appliance_feature": {
        "appliance_name": "speaker",
        "feature_method": "notify",
        "feature_kwargs": {"message": "Hello"},
    },
    "update_appliance": {"appliance_name": "oven", "state": {"power": "on"}},
    "get_owned_sensors": {},
    "get_sensors": {"sensor_names": ["hall_motion"]},
    "get_sensors_by_location": {"locations": ["entrance hall"]},
    "get_weather": {},
    "get_appliance_and_sensor_events": {},
    "get_contextual_event_descriptions": {"compact": True},
}
PLANS: dict[str, dict[str, Any]] = {
    "update_user_information": {"user": {"member_id": "h1_1", "age": 40}},
    "update_memories": {"household_id": "h1", "memories": [{"memory": "Rain.", "subjects": ["Milo"]}]},
    "update_sensor_status": {"sensor_name": "kitchen_leak", "sensor_location": "kitchen", "status": {"leak": True}},
    "update_appliance_status": {"appliance_name": "oven", "appliance_location": "kitchen", "status": {"days": ["mon"]}},
    "update_pet_information": {"household_id": "h1", "pet": {"name": "Milo", "age": 5}},
    "create_routine": {"functions": [{"appliance": "oven", "feature": "preheat_oven"}]},
}
RIGHT = [{"name": name, **arguments} for name, arguments in CALLS.items()]
ALL = [*CALLS.items(), *PLANS.items()]
SPOILT = [{"name": name, **arguments} for name, arguments in ALL]


def world(**settings: Any) -> PersonalHome:
    return PersonalHome(HouseholdState(small_household()), **settings)


def test_there_is_a_right_call_of_every_tool_but_the_scene_tools() -> None:
    assert [schema["function"]["name"] for schema in world().tools] == [*CALLS]
    assert [tool.name for tool in list_offered_tools(HouseholdState(small_household()), in_plans=True)] == [*CALLS, *PLANS]


def test_the_world_keeps_the_contract() -> None:
    check_world(world(), RIGHT)
    check_world(world(), RIGHT[::-1])


def spoilt(rng: random.Random) -> dict[str, Any]:
    """A right call, with arguments of other calls or junk in place of some, or some left out."""
    action: dict[str, Any] = dict(rng.choice(SPOILT))
    for _ in range(rng.randrange(3)):
        other = rng.choice(SPOILT)
        value = rng.choice([*JUNK, *other.values()])
        match rng.randrange(3):
            case 0:
                action[rng.choice([*action])] = value
            case 1:
                action.pop(rng.choice([*action]), None)
                action.setdefault("name", "get_weather")
            case 2:
                action[rng.choice([*other])] = value
    return action


@few(20, 40)
@given(st.integers(0, 1 << 32))
def test_random_calls_and_junk_keep_the_contract(seed: int) -> None:
    rng = random.Random(f"calls {seed}")
    actions = [spoilt(rng) for _ in range(6)]
    played = world()
    check_world(played, actions)
    for action in actions:
        key, seen = played.state_key(), played.state.seen
        observation, _, ended, cut, info = played.step(action)
        assert not ended and not cut and info["error"] is None
        if info["blocked"]:
            assert info["blocked"]["rule"] in RULES and info["read"] == () and not info["changed"]
            assert observation == f"refused: {info['blocked']['rule']}: {info['blocked']['message']}"
            assert played.state_key() == key
        else:
            json.loads(observation)
            assert played.state.seen == seen | {*info["read"]}


@few(30, 60)
@given(st.integers(0, 1 << 32))
def test_any_call_succeeds_with_plain_data_or_changes_nothing(seed: int) -> None:
    rng, state = random.Random(f"steps {seed}"), HouseholdState(small_household())
    for _ in range(6):
        action = spoilt(rng)
        before, twin = state.fork(), state.fork()
        first, second = (outcome(one, dict(action)) for one in (state, twin))
        assert first == second and state.state_key() == twin.state_key()
        assert bool(state.changes_since(before)) == (state.state_key() != before.state_key())
        if isinstance(first, str) and first.startswith("refused"):
            assert state.state_key() == before.state_key()


def outcome(state: HouseholdState, action: dict[str, Any]) -> Any:
    """The result of a call as JSON holds it, or the refusal."""
    try:
        result = call_household_tool(state, action.pop("name"), action)
    except Refused as refusal:
        assert refusal.rule in RULES
        return f"refused: {refusal}"
    assert json.loads(json.dumps(result)) == result
    return json.dumps(result)


@pytest.mark.parametrize("action", [None, 3, [], {}, {"name": {}}, "get_weather"])
def test_an_action_that_is_none_is_blocked(action: Any) -> None:
    assert world().step(action)[4]["blocked"]["rule"] == "unknown_tool"


def test_observations_are_compact_json_in_any_language() -> None:
    household = small_household()
    played = PersonalHome(HouseholdState(household.model_copy(update={"layout": "厨房"})))
    observation = played.step({"name": "get_household_profile"})[0]
    assert '"layout":"厨房","pets":[{' in observation
    assert played.step({"name": "update_appliance", "appliance_name": "oven"})[0].startswith("refused: missing_argument: ")


def test_what_was_read_is_told_at_once_and_kept() -> None:
    played, weather = world(), {"name": "get_weather"}
    first, again = played.step(weather)[4], played.step(weather)[4]
    assert first["read"] == again["read"] == ("weather",)
    assert (first["changed"], again["changed"]) == (("seen.weather",), ())
    assert played.state.seen == {"weather"}


@pytest.mark.parametrize(("name", "arguments"), ALL)
def test_a_fork_is_independent(name: str, arguments: dict[str, Any]) -> None:
    parent = HouseholdState(small_household())
    child, key = parent.fork(), parent.state_key()
    call_household_tool(child, name, arguments)
    assert parent.state_key() == key != child.state_key() and not parent.seen
    call_household_tool(parent, name, arguments)
    assert parent.state_key() == child.state_key()
    assert parent.household is child.household is small_household()


def after(calls: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """The state key after some calls."""
    state = HouseholdState(small_household())
    for name, arguments in calls:
        call_household_tool(state, name, arguments)
    return state.state_key()


def test_keys_tell_households_and_records_apart(household: Household) -> None:
    quiet = household.model_copy(update={"memories": household.memories[:1]})
    keys = {after([]), HouseholdState(quiet).state_key(), *(after([one]) for one in ALL)}
    assert len(keys) == 2 + len(ALL) - 2  # the oven and the motion sensor are shown by name and by room
    assert after(ALL) == after(ALL)


@pytest.mark.long
def test_the_key_is_the_same_in_every_process() -> None:
    assert printed("from tests.envs.personalhome.test_world import ALL, after; print(after(ALL))") == after(ALL)


def test_a_world_without_looking_around_has_no_tools() -> None:
    played = world(tools=())
    assert played.tools == [] and played.step({"name": "get_weather"})[4]["blocked"]["rule"] == "unknown_tool"


def test_every_tool_has_a_name_of_its_own() -> None:
    assert all(name == tool.name for name, tool in TOOLS.items()) and len(TOOLS) >= len(ALL)
