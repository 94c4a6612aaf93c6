"""The scene tools' data: what they show, what they count as shown, and what they refuse."""

import json

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st
from scene_household import scene_household

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.scene.transcript import parse_video_timestamp
from homerl.envs.personalhome.sim.scene.transcript_writer import playable_situations, write_transcript
from homerl.envs.personalhome.sim.tools import scene_tools as reading

SCENE = write_transcript(scene_household(3), "smoke", 1)
EVENTS = SCENE.video_description.entities.events


def facts(shown):
    """The facts whose ids are shown."""
    ids = {id.removeprefix("scene:").removesuffix(".time") for id in shown.ids}
    return [fact for fact in SCENE.facts if fact.id in ids]


def test_the_summary_shows_the_light_and_the_events_that_it_tells():
    shown = reading.get_scene_summary(SCENE)
    told = {event.event_id for event in EVENTS if event.description in shown.data}
    assert told and {fact.event_id for fact in facts(shown)} == {*told, None}
    assert [fact.attribute for fact in facts(shown) if fact.event_id is None] == ["light"]


def test_zones_and_landmarks_are_shown_with_their_facts():
    zones, marks = reading.get_layout_zones(SCENE), reading.get_landmarks_in_house(SCENE)
    assert {zone["zone_id"] for zone in zones.data} == {fact.object for fact in facts(zones)}
    assert {(mark["landmark_id"], mark["zone_id"]) for mark in marks.data} == {
        (fact.object, fact.value) for fact in facts(marks) if fact.attribute == "zone"
    }


def test_an_appearance_shows_what_that_person_wears_and_nothing_else():
    shown = reading.get_members_appearance(SCENE, ["h3_1"])
    assert list(shown.data) == ["h3_1"]
    assert {fact.actor for fact in facts(shown)} == {"h3_1"}
    assert {fact.attribute for fact in facts(shown)} == {"hair", "top", "top_colour", "bottom", "bottom_colour", "feet"}
    with pytest.raises(Refused, match=r"unknown_member.*'h9_9'.*h3_1"):
        reading.get_members_appearance(SCENE, ["h3_1", "h9_9"])


def test_an_appliance_is_described_if_it_is_in_view():
    shown = reading.get_appliance_descriptions(SCENE, ["kitchen_stove"])
    assert {fact.attribute for fact in facts(shown)} == {"zone", "finish", "power"}
    with pytest.raises(Refused, match=r"unknown_appliance.*kitchen_stove"):
        reading.get_appliance_descriptions(SCENE, ["garage_door"])


def test_objects_are_one_flat_json_text():
    shown = reading.get_object_information(SCENE)
    flat = json.loads(shown.data)
    assert all(not isinstance(value, (dict, list)) for value in flat.values())
    assert {key.split(".")[0] for key in flat} == {fact.object for fact in facts(shown)}


def test_captions_can_be_cut_by_time_filtered_by_words_and_joined():
    everything = reading.extract_captions(SCENE)
    assert {fact.event_id for fact in facts(everything)} == {event.event_id for event in EVENTS}
    first = everything.data[0]
    early = reading.extract_captions(SCENE, end=first["ts_end"])
    assert first in early.data and len(early.data) < len(everything.data)
    smoke = reading.extract_captions(SCENE, query="smoke rising")
    assert smoke.data and all("smoke" in one["caption"].casefold() for one in smoke.data)
    assert reading.extract_captions(SCENE, query="giraffe") == ([], ())
    text = reading.extract_captions(SCENE, return_text=True, join_with=" / ").data
    assert text.count(" / ") == len(everything.data) - 1 and first["ts_start"] in text


def test_captions_of_events_have_no_times_and_count_none_as_read():
    latest = reading.extract_event_captions(SCENE)
    assert [one["event_id"] for one in latest.data] == [event.event_id for event in EVENTS[-5:]]
    assert not any(id.endswith(".time") for id in latest.ids)
    (one,) = reading.extract_event_captions(SCENE, 1, "pan from the counter").data
    assert "takes" in one["caption"] and "pan" in one["caption"]


def test_sounds_are_found_by_time_and_word_and_show_only_sounds():
    shown = reading.get_audio_events(SCENE, query="ringing phone")
    assert [one["audio"] for one in shown.data] == ["a ringing phone"]
    assert {fact.sound for fact in facts(shown)} == {"phone_ringing"}
    start = shown.data[0]["ts_start"]
    assert all(one["ts_end"] >= start for one in reading.get_audio_events(SCENE, start=start).data)
    assert len(reading.get_audio_events(SCENE, start=start).data) < len(reading.get_audio_events(SCENE).data)


@few(30, 60)
@given(st.floats(0, SCENE.length), st.floats(0, SCENE.length))
def test_a_part_of_the_video_shows_the_events_that_touch_it(one, other):
    start, end = sorted((round(one, 2), min(round(other, 2), SCENE.length)))
    shown = reading.inspect_video_segment(SCENE, start, end)
    touching = [
        event
        for event in EVENTS
        if parse_video_timestamp(event.ts_start) <= end and parse_video_timestamp(event.ts_end) >= start
    ]
    assert [row["description"] for row in shown.data["events"]] == [event.description for event in touching]
    assert {fact.event_id for fact in facts(shown)} == {event.event_id for event in touching}
    assert shown.data["note"] == reading.NO_CLIP


def test_frames_say_what_is_seen_at_their_times_and_let_nothing_be_heard():
    shown = reading.extract_frames(SCENE, 0, 10, fps=2)
    assert [frame["ts"] for frame in shown.data["frames"]][:3] == ["00:00.000", "00:00.500", "00:01.000"]
    assert len(shown.data["frames"]) == 21
    assert facts(shown) and not any(fact.sound for fact in facts(shown))
    first = reading.extract_frames(SCENE, start=EVENTS[0].ts_start, end=EVENTS[0].ts_start)
    assert [frame["seen"] for frame in first.data["frames"]] == [[EVENTS[0].description]]


def test_with_a_clip_there_are_handles_in_place_of_words():
    scene = SCENE.model_copy(update={"video_path": "h3"})
    part = reading.inspect_video_segment(scene, 1, 3).data
    assert part == {"start": 1.0, "end": 3.0, "video": "video:h3@1.000-3.000"}
    frames = reading.extract_frames(scene, 1, 2).data["frames"]
    assert frames[1] == {"ts": "00:01.500", "image": "frame:h3@1.500"}


def test_at_most_300_frames_are_given():
    end = min(SCENE.length, 100)
    assert len(reading.extract_frames(SCENE, 0, (reading.FRAMES - 1) / 10, fps=10).data["frames"]) == reading.FRAMES
    with pytest.raises(Refused, match="at most 300"):
        reading.extract_frames(SCENE, 0, end, fps=10)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (-1, 5, "0 <= start"),
        (9, 5, "0 <= start"),
        (0, 9999, "<= 106|seconds"),
        ("soon", 5, "MM:SS.mmm"),
        (True, 5, "wrong_type"),
        ("1:2:3:4", 5, "wrong_type"),
        (float("nan"), 5, "wrong_type"),
    ],
)
def test_bad_times_are_refused_with_what_is_allowed(start, end, message):
    for tool in (reading.extract_captions, reading.get_audio_events, reading.inspect_video_segment, reading.extract_frames):
        with pytest.raises(Refused, match=message):
            tool(SCENE, start, end)


@pytest.mark.parametrize("fps", [0, -1, 301, "fast"])
def test_a_bad_rate_is_refused(fps):
    with pytest.raises(Refused, match="fps"):
        reading.extract_frames(SCENE, 0, 1, fps=fps)


def test_frames_need_one_time():
    with pytest.raises(Refused, match="missing_argument"):
        reading.extract_frames(SCENE)
    assert len(reading.extract_frames(SCENE, end=1).data["frames"]) == 3


@pytest.mark.parametrize(
    ("written", "read"), [(5, 5), ("5", 5), ("83.5", 83.5), ("01:23.500", 83.5), ("00:01:23.5", 83.5), ("1:05", 65)]
)
def test_times_are_read_in_every_usual_form(written, read):
    assert reading.parse_video_time(written, "start") == read


@few(15, 30)
@given(st.integers(0, 200))
def test_every_event_can_be_read_with_its_times_and_the_setting_but_for_what_no_tool_shows(seed):
    household = scene_household(seed)
    scene = write_transcript(household, playable_situations(household)[seed % 5], seed)
    known = reading.readable_ids(scene)
    hidden = [fact for fact in scene.facts if f"scene:{fact.id}" not in known]
    assert {fact.attribute for fact in hidden} <= {"location", "posture", "animal", "coat"}
    assert all(fact.event_id is None for fact in hidden)
    assert all(f"scene:{fact.id}.time" in known for fact in scene.facts if fact.event_id)


def test_chinese_queries_find_chinese_captions():
    scene = write_transcript(scene_household(3, "zh"), "smoke", 1)
    found = reading.extract_event_captions(scene, 2, "冒烟").data
    assert any("冒烟" in one["caption"] for one in found)
