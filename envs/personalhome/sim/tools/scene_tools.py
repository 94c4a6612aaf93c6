"""The tools that look at a video of the present scene. What they show is worked out in `scene/reading.py`.

The ids that they show are those of the transcript's facts: `scene:f12`, and `scene:f12.time` where its times are told.

Invariant: they are offered only where there is a transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.refusals import HouseholdRefused
from homerl.envs.personalhome.sim.scene import transcript_reader as reading
from homerl.envs.personalhome.sim.scene.transcript_reader import ShownData
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool
from homerl.envs.personalhome.sim.tools.lookup import NAMES

LATEST = 100_000  # seconds: more than any video has, and few enough to be quoted
TIME: dict[str, Any] = {"type": ["number", "string", "null"], "minimum": 0, "maximum": LATEST, "maxLength": 32}
START = {**TIME, "description": "from when on: seconds (83.5) or MM:SS.mmm (01:23.500); by default the beginning"}
END = {**TIME, "description": "until when: seconds or MM:SS.mmm; by default the end"}
QUERY = {"type": ["string", "null"], "maxLength": 2000, "description": "what to look for, in a few words"}


def _tool(
    name: str,
    description: str,
    read: Callable[..., ShownData],
    parameters: Mapping[str, Mapping[str, Any]] = {},
    required: tuple[str, ...] = (),
    with_state: Callable[[HouseholdState], Mapping[str, Any]] = lambda state: {},
) -> HouseholdTool:
    """A tool that reads the transcript by `read`. `with_state` gives what `read` takes beside the agent's arguments."""

    def run(state: HouseholdState, arguments: Mapping[str, Any]) -> Any:
        if state.household.transcript is None:
            raise HouseholdRefused("unknown_tool", f"{name} needs a video, and there is none of this household")
        data, ids = read(state.household.transcript, **arguments, **with_state(state))
        state.note_shown(*ids)
        return data

    return HouseholdTool(name, description, parameters, run, required)


def _ranked(state: HouseholdState) -> Mapping[str, Any]:
    return {"rank": state.rank}


TOOLS = (
    _tool("get_scene_summary", "What the video of the present scene shows, in a few sentences.", reading.get_scene_summary),
    _tool("get_layout_zones", "The zones of the home that are in view.", reading.get_layout_zones),
    _tool(
        "get_landmarks_in_house",
        "Fixed points of reference in view, such as a counter, with their zones.",
        reading.get_landmarks_in_house,
    ),
    _tool(
        "get_members_appearance",
        "What members look like in the video, by id.",
        reading.get_members_appearance,
        {"member_ids": {**NAMES, "description": "ids of members who are in the video"}},
        required=("member_ids",),
    ),
    _tool(
        "get_appliance_descriptions",
        "What appliances look like in the video, by name.",
        reading.get_appliance_descriptions,
        {"appliance_names": {**NAMES, "description": "names of appliances that are in view"}},
        required=("appliance_names",),
    ),
    _tool(
        "get_object_information",
        "The objects in view, such as a mug, as flat JSON in a text.",
        reading.get_object_information,
    ),
    _tool(
        "extract_captions",
        "What parts of the video show, with times: as a list, or joined into one text.",
        reading.extract_captions,
        {
            "start": START,
            "end": END,
            "query": QUERY,
            "return_text": {"type": "boolean", "description": "one text in place of a list (default false)"},
            "join_with": {"type": "string", "maxLength": 20, "description": "what stands between captions in a text"},
        },
        with_state=_ranked,
    ),
    _tool(
        "extract_event_captions",
        "What happens in the video, without times: the events that match a query, or the latest ones.",
        reading.extract_event_captions,
        {
            "num_events": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many at most (default 5)"},
            "query": QUERY,
        },
        with_state=_ranked,
    ),
    _tool(
        "inspect_video_segment",
        "Look at a part of the video closely, between two times.",
        reading.inspect_video_segment,
        {"start": {**START, "type": ["number", "string"]}, "end": {**END, "type": ["number", "string"]}},
        required=("start", "end"),
    ),
    _tool(
        "get_audio_events",
        "What is heard in the video, with times.",
        reading.get_audio_events,
        {"start": START, "end": END, "query": QUERY},
        with_state=_ranked,
    ),
    _tool(
        "extract_frames",
        f"Single frames of the video between two times, at most {reading.FRAMES}. Give at least one of the times.",
        reading.extract_frames,
        {
            "start": START,
            "end": END,
            "fps": {**TIME, "type": ["number", "string"], "maximum": 300, "description": "frames a second (default 2)"},
        },
    ),
)
