"""State keys hash texts that depend on no Python name, and are those that `repr` gave when keys were first stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.state_encoding import AddedField, state_text, text_hash, written_as, written_by
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors
from homerl.envs.homeenv.sim.rules import Action
from homerl.envs.personalhome.sim.env import call_household_tool
from homerl.envs.personalhome.sim.household import Fact, LifeEvent, Member, Memory, Pet
from homerl.envs.personalhome.sim.household_state import HouseholdState, Note, Routine
from homerl.envs.simuhome.sim.air import Influence
from homerl.envs.simuhome.sim.device_catalogue import Struct, all_enumerations
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.sim.home import Workflow
from tests.envs.personalhome.conftest import small_household
from tests.envs.simuhome.conftest import BASE_TIME

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates(), st.datetimes(), st.characters()
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    actions = st.builds(Action, st.text(), st.text(), st.lists(st.tuples(st.text(), inner), max_size=2).map(tuple))
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.tuples(st.text())), inner, max_size=3),
        st.builds(Outdoors, st.floats(), st.floats(), inner),
        st.builds(Routine, st.text(), st.tuples(st.tuples(st.text(), st.text(), st.text()))),
        st.builds(Note, st.text(), st.tuples(st.text()), st.text(), st.datetimes()),
        actions,
    )


@given(st.recursive(SCALARS, nested, max_leaves=12))
def test_the_text_is_that_of_repr(value: Any) -> None:
    assert state_text(value) == repr(value)


def test_records_of_every_world_have_the_text_of_repr() -> None:
    fact = Fact(kind="likes", who="h1_1", value=2.5)
    event = LifeEvent(date=date(1999, 12, 31), kind="move", description="It moved.")
    person = dict.fromkeys("member_id name role occupation persona lifestyle preference".split(), "it's")
    records = (
        Workflow("1", 5, "2025-01-01 00:00:00", "[]", 1, None, "pending", 0, "late"),
        Pet(name="Milo", animal="cat", age=3),
        Member(**person, birthday=date(1980, 2, 3), gender="Male", hobbies=("tea",), major_events=(event,)),
        Memory(memory="Rain.", subjects=("Milo",), additional_information="", time=datetime(2025, 1, 2, 3), fact=fact),
        *(member for kind in all_enumerations().values() for member in kind),
    )
    assert [state_text(record) for record in records] == [repr(record) for record in records]
    assert state_text([Struct("Phase", {"a": 1})]) == "[Phase({'a': 1})]"
    pieces = state_text(Influence({"lamp": (True,)}, {}))
    assert pieces == "Influence(signature={'lamp': (True,)}, effects={})"
    assert state_text(Influence({}, {}, 2.0)).endswith("effects={}, before=2.0)")


def test_a_renamed_class_with_renamed_fields_has_the_same_text_and_key() -> None:
    @written_as("Action", did="device", service="act", arguments="given.pairs")
    @dataclass(frozen=True)
    class Deed:
        given: Any
        act: str
        device: str

    class Given(NamedTuple):
        pairs: tuple[tuple[str, Any], ...]

    before, after = Action("1", "turn_on", (("level", 5),)), Deed(Given((("level", 5),)), "turn_on", "1")
    assert state_text(before) == state_text(after) == repr(before) != repr(after)
    assert text_hash(state_text((before,))) == text_hash(state_text((after,)))


def test_an_added_field_is_written_only_where_it_differs() -> None:
    @written_as("Lamp", on="on", level=AddedField("level", 0), note=AddedField("note"))
    class Lamp(NamedTuple):
        on: bool
        level: int = 0
        note: str | None = None

    assert state_text(Lamp(True)) == "Lamp(on=True)"
    assert state_text((Lamp(False, 3),)) == "(Lamp(on=False, level=3),)"


def test_an_undeclared_type_is_refused_with_what_to_do() -> None:
    class Undeclared(tuple[int, ...]):
        pass

    @written_by(lambda value: "One()")
    class One:
        pass

    class Two(One):
        pass

    assert state_text([One()]) == "[One()]"
    for value in (Undeclared(), [Two()], {"a": {1, 2}}, ({1.5: b""},)):
        with pytest.raises(TypeError, match=r"which has no text in state keys: declare the class with `written_as`"):
            state_text(value)


# Keys of the worlds, as stored trajectories have them


def test_the_state_key_of_a_home_with_rules_and_air() -> None:
    home = make_home(3, HomeRecipe(devices=(6, 6)))
    quiet = home.state_key()
    did = next(device.did for device in home.plan.devices if {"turn_on", "turn_off"} <= set(device.spec.service_index))
    on = {"did": did, "locator": "turn_on"}
    home.rules = (
        make_rule(home, ["time_cron = 0 0 */6 * * ? *"], [on], "nightly", given=["clock.day > 0"]),
        make_rule(home, [f'changed = device("{did}").state'], [{"delay": 90000}, on], most=2),
    )
    home.call(did, "turn_on" if home.read_value(did, "state") != "on" else "turn_off")
    home.advance(30_000)
    assert len(home.rules) == 3, "one goes on with a run"
    assert (quiet, home.state_key()) == ("a13f6a2fac5347f0b00a3ce880948911", "df917d276ebf0bfef32691e9baee6b9c")


def test_the_state_key_of_a_simuhome() -> None:
    devices = [{"device_id": f"kitchen_{kind}_1", "device_type": kind} for kind in ("dishwasher", "air_conditioner")]
    config = {"base_time": BASE_TIME, "rooms": {"kitchen": {"devices": devices}}}
    episode = {
        "meta": {"query_type": "qt3", "case": "feasible"},
        "query": "Cool the kitchen.",
        "user_location": "kitchen",
        "eval": {"required_actions": [], "goals": []},
        "initial_home_config": config,
    }
    world = SimuHome(episode)
    world.reset()
    place = {"device_id": "kitchen_air_conditioner_1", "endpoint_id": 1, "cluster_id": "OnOff"}
    world.step({"name": "execute_command", **place, "command_id": "On", "args": {}})
    steps = [{"tool": "execute_command", "args": {**place, "command_id": "Off", "args": {}}}]
    world.step({"name": "schedule_workflow", "start_time": "2025-08-23 23:00:00", "steps": steps})
    world.wait_ticks(50)
    assert len(world.state.home.workflows) == 1
    assert world.state_key() == "a7b58cae6906ddfc65c1bf3202a42f60"


def test_the_state_key_of_a_personal_home() -> None:
    state = HouseholdState(small_household())
    calls: dict[str, dict[str, Any]] = {
        "get_household_profile": {},
        "update_appliance": {"appliance_name": "oven", "state": {"power": "on"}},
        "update_memories": {"household_id": "h1", "memories": [{"memory": "Rain.", "subjects": ["Milo"]}]},
        "update_pet_information": {"household_id": "h1", "pet": {"name": "Milo", "age": 5}},
    }
    for name, arguments in calls.items():
        call_household_tool(state, name, arguments, in_plans=True)
    assert state.state_key() == "a132adecd9333f3a99a80ea20f70c8db"
