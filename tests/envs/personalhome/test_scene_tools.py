"""The scene tools as tools: when they are offered, what they pass on, what they refuse. Their data has tests of its own."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st
from mutations import JUNK
from scene_household import scene_household

from homerl.envs.core.world import check_world
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.env import TOOLS, PersonalHome, call_household_tool, list_offered_tools
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.scene.transcript_writer import playable_situations, write_transcript
from homerl.envs.personalhome.sim.tools import scene_tools as scene
from tests.envs.personalhome.conftest import small_household

NAMES = {tool.name for tool in scene.TOOLS}


@lru_cache(maxsize=1)
def filmed() -> Household:
    """The small household, with a video of others."""
    others = scene_household(1)
    return small_household().model_copy(update={"transcript": write_transcript(others, playable_situations(others)[0], 0)})


@pytest.fixture
def state() -> HouseholdState:
    return HouseholdState(filmed())


def right() -> dict[str, dict[str, Any]]:
    """A right call of every scene tool."""
    entities = filmed().transcript.video_description.entities
    return {
        "get_scene_summary": {},
        "get_layout_zones": {},
        "get_landmarks_in_house": {},
        "get_members_appearance": {"member_ids": [entities.members[0].member_id]},
        "get_appliance_descriptions": {"appliance_names": [entities.appliances[0].appliance_id]},
        "get_object_information": {},
        "extract_captions": {"start": None, "end": "00:15.000", "return_text": True},
        "extract_event_captions": {"num_events": 3},
        "inspect_video_segment": {"start": 0, "end": 10.5},
        "get_audio_events": {},
        "extract_frames": {"start": 0, "end": 3, "fps": "1"},
    }


def test_scene_tools_are_offered_only_with_a_transcript(state: HouseholdState) -> None:
    with_scene, without = (
        {tool.name for tool in list_offered_tools(one)} for one in (state, HouseholdState(small_household()))
    )
    assert with_scene - without == NAMES == {*right()} and without <= with_scene
    assert len(NAMES) == 11 and len(TOOLS) == 34  # 28 of the paper, and 6 of plans
    for name, arguments in right().items():
        with pytest.raises(Refused) as caught:
            call_household_tool(HouseholdState(small_household()), name, arguments)
        assert caught.value.rule == "unknown_tool"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_scene_tool_shows_facts_of_the_transcript(state: HouseholdState, name: str) -> None:
    result, facts = call_household_tool(state, name, right()[name]), {fact.id for fact in filmed().transcript.facts}
    assert result and json.loads(json.dumps(result)) == result
    assert state.seen == {*state.shown} and all(id.startswith("scene:") for id in state.shown)
    assert {id.removeprefix("scene:").removesuffix(".time") for id in state.shown} <= facts


@pytest.mark.parametrize(
    ("name", "arguments", "rule"),
    [
        ("get_members_appearance", {"member_ids": ["nobody"]}, "unknown_member"),
        ("get_appliance_descriptions", {"appliance_names": ["nothing"]}, "unknown_appliance"),
        ("extract_captions", {"start": "soon"}, "wrong_type"),
        ("extract_captions", {"start": -1}, "out_of_range"),
        ("extract_event_captions", {"num_events": 0}, "out_of_range"),
        ("inspect_video_segment", {"start": 3}, "missing_argument"),
        ("inspect_video_segment", {"start": 5, "end": 3}, "out_of_range"),
        ("get_audio_events", {"end": 10**5000}, "wrong_type"),
        ("extract_frames", {}, "missing_argument"),
        ("extract_frames", {"start": 0, "fps": 300}, "out_of_range"),
    ],
)
def test_a_scene_tool_refuses(state: HouseholdState, name: str, arguments: dict[str, Any], rule: str) -> None:
    key = state.state_key()
    with pytest.raises(Refused) as caught:
        call_household_tool(state, name, arguments)
    assert caught.value.rule == rule and state.state_key() == key


def test_a_household_with_a_clip_shows_its_frames() -> None:
    household = filmed()
    assert household.transcript is not None
    clip = household.transcript.model_copy(update={"video_path": "h1.mp4"})
    state = HouseholdState(household.model_copy(update={"transcript": clip}))
    assert call_household_tool(state, "extract_frames", {"start": 0, "end": 0})["frames"] == [
        {"ts": "00:00.000", "image": "frame:h1@0.000"}
    ]


def test_a_household_with_a_scene_keeps_the_contract() -> None:
    check_world(PersonalHome(HouseholdState(filmed())), [{"name": name, **given} for name, given in right().items()])


@few(20, 40)
@given(st.integers(0, 1 << 32))
def test_junk_arguments_keep_the_contract(seed: int) -> None:
    rng, calls = random.Random(f"scene calls {seed}"), right()
    actions = []
    for name in rng.choices(sorted(NAMES), k=5):
        action = {"name": name, **calls[name]}
        action[rng.choice([*TOOLS[name].parameters] or ["junk"])] = rng.choice(JUNK)
        actions.append(action)
    check_world(PersonalHome(HouseholdState(filmed())), actions)
