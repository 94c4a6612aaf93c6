"""The tools that look at a video of the present scene. What they show is worked out in `scene/transcript_reader.py`.

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
from homerl.envs.personalhome.sim.tools.contract import NAMES, Arguments, HouseholdTool

LATEST = 100_000  # seconds: more than any video has, and few enough to be quoted
TIME: dict[str, Any] = {"type": ["number", "string", "null"], "minimum": 0, "maximum": LATEST, "maxLength": 32}
SPAN = {
    "start": {**TIME, "description": "from when on: seconds (83.5) or MM:SS.mmm (01:23.500); by default the beginning"},
    "end": {**TIME, "description": "until when: seconds or MM:SS.mmm; by default the end"},
}
QUERY = {"type": ["string", "null"], "maxLength": 2000, "description": "what to look for, in a few words"}


def _reading_tool(
    read: Callable[..., ShownData],
    description: str,
    parameters: Mapping[str, Mapping[str, Any]] = {},
    required: tuple[str, ...] = (),
    with_rank: bool = False,
) -> HouseholdTool:
    """A tool of the name of `read`, which reads the transcript. `with_rank` passes on how the household ranks texts."""

    def run(state: HouseholdState, arguments: Arguments) -> Any:
        if state.household.transcript is None:
            raise HouseholdRefused("unknown_tool", f"{read.__name__} needs a video, and there is none of this household")
        rank = {"rank": state.rank} if with_rank else {}
        data, ids = read(state.household.transcript, **arguments, **rank)
        state.note_shown(*ids)
        return data

    return HouseholdTool(read.__name__, description, parameters, run, required)


TOOLS = (
    _reading_tool(reading.get_scene_summary, "What the video of the present scene shows, in a few sentences."),
    _reading_tool(reading.get_layout_zones, "The zones of the home that are in view."),
    _reading_tool(reading.get_landmarks_in_house, "Fixed points of reference in view, such as a counter, with their zones."),
    _reading_tool(
        reading.get_members_appearance,
        "What members look like in the video, by id.",
        {"member_ids": {**NAMES, "description": "ids of members who are in the video"}},
        required=("member_ids",),
    ),
    _reading_tool(
        reading.get_appliance_descriptions,
        "What appliances look like in the video, by name.",
        {"appliance_names": {**NAMES, "description": "names of appliances that are in view"}},
        required=("appliance_names",),
    ),
    _reading_tool(reading.get_object_information, "The objects in view, such as a mug, as flat JSON in a text."),
    _reading_tool(
        reading.extract_captions,
        "What parts of the video show, with times: as a list, or joined into one text.",
        {
            **SPAN,
            "query": QUERY,
            "return_text": {"type": "boolean", "description": "one text in place of a list (default false)"},
            "join_with": {"type": "string", "maxLength": 20, "description": "what stands between captions in a text"},
        },
        with_rank=True,
    ),
    _reading_tool(
        reading.extract_event_captions,
        "What happens in the video, without times: the events that match a query, or the latest ones.",
        {
            "num_events": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many at most (default 5)"},
            "query": QUERY,
        },
        with_rank=True,
    ),
    _reading_tool(
        reading.inspect_video_segment,
        "Look at a part of the video closely, between two times.",
        {name: {**schema, "type": ["number", "string"]} for name, schema in SPAN.items()},
        required=("start", "end"),
    ),
    _reading_tool(
        reading.get_audio_events, "What is heard in the video, with times.", {**SPAN, "query": QUERY}, with_rank=True
    ),
    _reading_tool(
        reading.extract_frames,
        f"Single frames of the video between two times, at most {reading.FRAMES}. Give at least one of the times.",
        {
            **SPAN,
            "fps": {**TIME, "type": ["number", "string"], "maximum": 300, "description": "frames a second (default 2)"},
        },
    ),
)
