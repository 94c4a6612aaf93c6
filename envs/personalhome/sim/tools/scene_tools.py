"""The tools that look at a video of the present scene (PersonalHomeBench Table 15, prompt I.3).

Each function gives plain data of a transcript, and the ids of the facts that the data shows: `scene:f12`, and
`scene:f12.time` where the times stand beside it. Rewards count them as evidence.

Invariants: a function shows only what is in the paper's schema; a refused call raises `Refused` with what is allowed; the
tools are offered only where there is a transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value
from homerl.envs.personalhome.sim.bm25_search import rank_by_bm25
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.scene.transcript import (
    SceneEvent,
    SceneFact,
    Segment,
    Transcript,
    format_video_timestamp,
    parse_video_timestamp,
)
from homerl.envs.personalhome.sim.scene.video_clips import frame_handle, part_handle
from homerl.envs.personalhome.sim.tools.contract import (
    NAMES,
    Arguments,
    HouseholdRefused,
    HouseholdTool,
    unknown_name_refusal,
)

T = TypeVar("T")
Part = TypeVar("Part", SceneEvent, Segment)
FRAMES = 300  # most frames of a call (PersonalHomeBench Table 15)
EVENTS = 5
FPS = 2.0
NO_CLIP = "no clip is there; this is what the transcript says"
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d+)?)")
Time = str | float | None


class ShownData(NamedTuple):
    """The data of a tool, and the ids of what it shows."""

    data: Any
    ids: tuple[str, ...]


LATEST = 100_000  # seconds: more than any video has, and few enough to be quoted
TOOLS: list[HouseholdTool] = []
TIME: dict[str, Any] = {"type": ["number", "string", "null"], "minimum": 0, "maximum": LATEST, "maxLength": 32}
SPAN = {
    "start": {**TIME, "description": "from when on: seconds (83.5) or MM:SS.mmm (01:23.500); by default the beginning"},
    "end": {**TIME, "description": "until when: seconds or MM:SS.mmm; by default the end"},
}
QUERY = {"type": ["string", "null"], "maxLength": 2000, "description": "what to look for, in a few words"}
Reading = TypeVar("Reading", bound=Callable[..., ShownData])


def reading_tool(
    description: str, parameters: Mapping[str, Mapping[str, Any]] = {}, required: tuple[str, ...] = ()
) -> Callable[[Reading], Reading]:
    """Make a tool of a function that reads the transcript."""

    def add(read: Reading) -> Reading:
        def run(state: HouseholdState, arguments: Arguments) -> Any:
            assert state.household.transcript is not None, "without a transcript the tool is not offered"
            data, ids = read(state.household.transcript, **arguments)
            state.note_shown(*ids)
            return data

        TOOLS.append(HouseholdTool(read.__name__, description, parameters, run, required))
        return read

    return add


@reading_tool("What the video of the present scene shows, in a few sentences.")
def get_scene_summary(transcript: Transcript) -> ShownData:
    """The scene in a few sentences: who, where, in what light, and how it begins and ends to matter."""
    described = transcript.video_description
    told = {event.event_id for event in described.entities.events if event.description in described.scene.summary}
    ids = _fact_ids(transcript, lambda fact: fact.event_id in told or fact.attribute == "light")
    return ShownData(described.scene.summary, ids)


@reading_tool("The zones of the home that are in view.")
def get_layout_zones(transcript: Transcript) -> ShownData:
    """The zones in view, with their place in the picture."""
    zones = transcript.video_description.scene.layout.zones
    return ShownData([zone.model_dump() for zone in zones], _setting_fact_ids(transcript, [zone.zone_id for zone in zones]))


@reading_tool("Fixed points of reference in view, such as a counter, with their zones.")
def get_landmarks_in_house(transcript: Transcript) -> ShownData:
    """The fixed points of reference, with their zones."""
    marks = transcript.video_description.scene.layout.landmarks
    return ShownData(
        [mark.model_dump() for mark in marks], _setting_fact_ids(transcript, [mark.landmark_id for mark in marks])
    )


@reading_tool(
    "What members look like in the video, by id.",
    {"member_ids": {**NAMES, "description": "ids of members who are in the video"}},
    required=("member_ids",),
)
def get_members_appearance(transcript: Transcript, member_ids: Sequence[str]) -> ShownData:
    """What people in the video look like, by id. Raises `Refused` for somebody who is not in it."""
    seen = {member.member_id: member.appearance for member in transcript.video_description.entities.members}
    _require_known("unknown_member", "person in the video", member_ids, seen)
    looks = (fact for fact in transcript.facts if fact.event_id is None and fact.attribute not in ("location", "posture"))
    ids = tuple(f"scene:{fact.id}" for fact in looks if fact.actor in member_ids)
    return ShownData({id: seen[id] for id in member_ids}, ids)


@reading_tool(
    "What appliances look like in the video, by name.",
    {"appliance_names": {**NAMES, "description": "names of appliances that are in view"}},
    required=("appliance_names",),
)
def get_appliance_descriptions(transcript: Transcript, appliance_names: Sequence[str]) -> ShownData:
    """What appliances in the video look like, by name. Raises `Refused` for one that is not in it."""
    seen = {one.appliance_id: one.description for one in transcript.video_description.entities.appliances}
    _require_known("unknown_appliance", "appliance in the video", appliance_names, seen)
    return ShownData({name: seen[name] for name in appliance_names}, _setting_fact_ids(transcript, appliance_names))


@reading_tool("The objects in view, such as a mug, as flat JSON in a text.")
def get_object_information(transcript: Transcript) -> ShownData:
    """All objects as one JSON text, flat: `pot_1.label`."""
    objects = transcript.video_description.entities.objects
    flat = {
        f"{one.object_id}.{key}": value for one in objects for key, value in one.model_dump(exclude={"object_id"}).items()
    }
    return ShownData(json.dumps(flat, ensure_ascii=False), _setting_fact_ids(transcript, [one.object_id for one in objects]))


@reading_tool(
    "What parts of the video show, with times: as a list, or joined into one text.",
    {
        **SPAN,
        "query": QUERY,
        "return_text": {"type": "boolean", "description": "one text in place of a list (default false)"},
        "join_with": {"type": "string", "maxLength": 20, "description": "what stands between captions in a text"},
    },
)
def extract_captions(
    transcript: Transcript,
    start: Time = None,
    end: Time = None,
    query: str | None = None,
    return_text: bool = False,
    join_with: str = "\n",
) -> ShownData:
    """The captions of the segments that touch a range of time, with times; those that match a query, if there is one."""
    begin, until = parse_time_range(transcript, start, end)
    segments = _parts_within(transcript.video_description.captions.segments, begin, until)
    chosen = _matching_items(segments, [one.caption for one in segments], query)
    # A caption tells of the events that are in its time and whose captions are in its text.
    described = transcript.video_description
    events = {
        event.event_id
        for event, caption in zip(described.entities.events, described.captions.events)
        for one in chosen
        if one.ts_start <= event.ts_start <= event.ts_end <= one.ts_end and caption.caption in one.caption
    }
    lines = [f"{one.ts_start}-{one.ts_end} | {one.caption}" for one in chosen]
    data = join_with.join(lines) if return_text else [one.model_dump() for one in chosen]
    return ShownData(data, _event_fact_ids(transcript, events))


@reading_tool(
    "What happens in the video, without times: the events that match a query, or the latest ones.",
    {
        "num_events": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many at most (default 5)"},
        "query": QUERY,
    },
)
def extract_event_captions(transcript: Transcript, num_events: int = EVENTS, query: str | None = None) -> ShownData:
    """The captions of the events that match a query best, or of the latest ones; without times, in the order of time."""
    captions = transcript.video_description.captions.events
    if query and query.strip():
        best = sorted(rank_by_bm25(query, [one.caption for one in captions])[:num_events])
    else:
        best = list(range(len(captions)))[-num_events:]
    chosen = [captions[index] for index in best]
    ids = _event_fact_ids(transcript, [one.event_id for one in chosen], times=False)
    return ShownData([one.model_dump() for one in chosen], ids)


@reading_tool(
    "Look at a part of the video closely, between two times.",
    {name: {**schema, "type": ["number", "string"]} for name, schema in SPAN.items()},
    required=("start", "end"),
)
def inspect_video_segment(transcript: Transcript, start: Time, end: Time) -> ShownData:
    """A part of the video: a handle of it if there is a clip, else what happens in it and is heard."""
    begin, until = parse_time_range(transcript, start, end)
    events = _events_within(transcript, begin, until)
    ids = _event_fact_ids(transcript, [one.event_id for one in events])
    if clip := transcript.clip_name:
        return ShownData({"start": begin, "end": until, "video": part_handle(clip, begin, until)}, ids)
    rows = [{key: getattr(one, key) for key in ("ts_start", "ts_end", "description", "audio")} for one in events]
    return ShownData({"start": begin, "end": until, "events": rows, "note": NO_CLIP}, ids)


@reading_tool("What is heard in the video, with times.", {**SPAN, "query": QUERY})
def get_audio_events(transcript: Transcript, start: Time = None, end: Time = None, query: str | None = None) -> ShownData:
    """What is heard in a range of time, with times; what matches a query, if there is one."""
    begin, until = parse_time_range(transcript, start, end)
    events = [event for event in _events_within(transcript, begin, until) if event.audio]
    chosen = _matching_items(events, [event.audio for event in events], query)
    data = [{key: getattr(event, key) for key in ("event_id", "ts_start", "ts_end", "audio")} for event in chosen]
    heard = {event.event_id for event in chosen}
    return ShownData(data, _fact_ids(transcript, lambda fact: fact.event_id in heard and fact.sound is not None, times=True))


@reading_tool(
    f"Single frames of the video between two times, at most {FRAMES}. Give at least one of the times.",
    {**SPAN, "fps": {**TIME, "type": ["number", "string"], "maximum": 300, "description": "frames a second (default 2)"}},
)
def extract_frames(transcript: Transcript, start: Time = None, end: Time = None, fps: Time = FPS) -> ShownData:
    """Frames at `fps` a second: handles of images if there is a clip, else what is seen at their times."""
    times = _frame_times(transcript, start, end, fps)
    moments = [[event for event in _events_within(transcript, time, time) if event.event_type != "sound"] for time in times]
    seen = {event.event_id for events in moments for event in events}
    ids = _fact_ids(transcript, lambda fact: fact.event_id in seen and fact.sound is None, times=True)
    if clip := transcript.clip_name:
        frames = [{"ts": format_video_timestamp(time), "image": frame_handle(clip, time)} for time in times]
        return ShownData({"frames": frames}, ids)
    seen_at = zip(map(format_video_timestamp, times), moments)
    rows = [{"ts": time, "seen": [one.description for one in events]} for time, events in seen_at]
    return ShownData({"frames": rows, "note": NO_CLIP}, ids)


def readable_ids(transcript: Transcript) -> frozenset[str]:
    """The ids that any call can show. Questions rest on these facts alone.

    No tool of the paper shows where people and pets are before the first event, or what pets look like.
    """
    entities = transcript.video_description.entities
    calls = (
        get_scene_summary(transcript),
        get_layout_zones(transcript),
        get_landmarks_in_house(transcript),
        get_members_appearance(transcript, [one.member_id for one in entities.members]),
        get_appliance_descriptions(transcript, [one.appliance_id for one in entities.appliances]),
        get_object_information(transcript),
        extract_captions(transcript),
        get_audio_events(transcript),
    )
    return frozenset(id for call in calls for id in call.ids)


def _frame_times(transcript: Transcript, start: Time, end: Time, fps: Time) -> list[float]:
    """The times of the frames, in seconds. Raises `Refused` without a time, for a bad one, and for too many frames."""
    if start is None and end is None:
        raise HouseholdRefused("missing_argument", "give at least one of start and end, in seconds")
    begin, until = parse_time_range(transcript, start, end)
    rate = parse_video_time(fps, "fps")
    if not 0 < rate <= FRAMES:
        raise HouseholdRefused("out_of_range", f"fps is {quote_value(fps)}; it must be above 0 and at most {FRAMES}")
    count = int((until - begin) * rate) + 1
    if count > FRAMES:
        message = f"{count} frames are too many: at most {FRAMES}, so choose a shorter part or a lower fps"
        raise HouseholdRefused("out_of_range", message)
    return [begin + index / rate for index in range(count)]


def parse_time_range(transcript: Transcript, start: Time, end: Time) -> tuple[float, float]:
    """A range of time in seconds; what is not given is the start or the end of the video. Raises `Refused`."""
    begin = 0.0 if start is None else parse_video_time(start, "start")
    until = transcript.length if end is None else parse_video_time(end, "end")
    if not 0 <= begin <= until <= transcript.length:
        most = f"{transcript.length:g} seconds ({format_video_timestamp(transcript.length)})"
        message = f"start is {begin:g} and end is {until:g}; it must be 0 <= start <= end <= {most}"
        raise HouseholdRefused("out_of_range", message)
    return begin, until


def parse_video_time(value: str | float | None, name: str) -> float:
    """A time as seconds: a number, `83.5`, `01:23.500` or `00:01:23.5`. Raises `Refused` for anything else."""
    text = str(value).strip()
    if match := _CLOCK.fullmatch(text):
        hours, minutes, rest = match.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(rest)
    if isinstance(value, bool) or re.fullmatch(r"-?\d+(\.\d+)?", text) is None:
        message = f"{name} is {quote_value(value)}; write seconds (83.5) or MM:SS.mmm (01:23.500)"
        raise HouseholdRefused("wrong_type", message)
    return float(text)


def _parts_within(parts: Iterable[Part], begin: float, until: float) -> list[Part]:
    """The segments or events that touch a range of time."""
    starting = (one for one in parts if parse_video_timestamp(one.ts_start) <= until)
    return [one for one in starting if parse_video_timestamp(one.ts_end) >= begin]


def _events_within(transcript: Transcript, begin: float, until: float) -> list[SceneEvent]:
    return _parts_within(transcript.video_description.entities.events, begin, until)


def _matching_items(items: Sequence[T], texts: Sequence[str], query: str | None) -> list[T]:
    """The items whose texts match a query, in their own order; all, if there is none."""
    if not query or not query.strip():
        return list(items)
    return [items[index] for index in sorted(rank_by_bm25(query, texts))]


def _require_known(rule: str, what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `Refused` for the first name that is not known."""
    for name in given:
        if name not in known:
            raise unknown_name_refusal(rule, what, name, known)


def _setting_fact_ids(transcript: Transcript, owners: Collection[str]) -> tuple[str, ...]:
    """The ids of the facts of things at the start."""
    return _fact_ids(transcript, lambda fact: fact.event_id is None and fact.object in owners)


def _event_fact_ids(transcript: Transcript, events: Collection[str], times: bool = True) -> tuple[str, ...]:
    return _fact_ids(transcript, lambda fact: fact.event_id in events, times)


def _fact_ids(transcript: Transcript, wanted: Callable[[SceneFact], bool], times: bool = False) -> tuple[str, ...]:
    """The ids of the facts that are wanted, each with that of its time if times are shown."""
    found = [f"scene:{fact.id}" for fact in transcript.facts if wanted(fact)]
    return tuple(id for one in found for id in ((one, f"{one}.time") if times else (one,)))
