"""Transcripts: pure functions of household and seed, coherent, and with a fact for everything that they say."""

from collections import Counter
from pathlib import Path

import pytest
import yaml
from draws import few
from forked import python
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scene_household import scene_household

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim import appliance_catalogue as appliances
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene import transcript_writer as naming
from homerl.envs.personalhome.sim.scene.scene_scripts import (
    PERSONS,
    CaptionWords,
    SceneScript,
    ScriptBeat,
    domain_counts,
    find_script_problems,
    load_caption_words,
    load_scene_scripts,
    load_stage,
    situation_domain,
)
from homerl.envs.personalhome.sim.scene.transcript import Transcript, format_video_timestamp, parse_video_timestamp
from homerl.envs.personalhome.sim.scene.transcript_writer import light_at_hour, playable_situations, write_transcript
from homerl.envs.personalhome.sim.situations import load_situations

ROOT = Path(__file__).resolve().parents[4]
VOCABULARY = yaml.safe_load((ROOT / "envs/personalhome/sim/vocabulary.yaml").read_text("utf-8"))
SITUATIONS = [script.situation for known in load_scene_scripts().values() for script in known]
SCENES = st.tuples(st.integers(0, 300), st.sampled_from(SITUATIONS), st.sampled_from(["en", "zh"]))
HOME = scene_household(3)


def scene(seed: int, situation: str, language: str = "en") -> Transcript:
    household = scene_household(seed, language)
    return write_transcript(household, situation if situation in playable_situations(household) else "smoke", seed)


@few(15, 40)
@given(SCENES)
def test_a_transcript_survives_being_written_and_read(given_scene):
    transcript = scene(*given_scene)
    assert Transcript.model_validate_json(transcript.model_dump_json()) == transcript


def test_a_household_carries_its_transcript_in_its_file():
    household = HOME.model_copy(update={"transcript": scene(3, "fall")})
    assert Household.model_validate_json(household.model_dump_json()).transcript == household.transcript


@few(15, 40)
@given(SCENES)
def test_everything_that_a_caption_says_is_a_fact_and_every_fact_of_an_event_is_in_its_caption(given_scene):
    transcript = scene(*given_scene)
    captions = {one.event_id: one.caption.casefold() for one in transcript.video_description.captions.events}
    nouns = naming.transcript_nouns(transcript)
    told = [fact for fact in transcript.facts if fact.event_id and (fact.action or fact.sound)]
    assert {fact.event_id for fact in told} == {*captions}
    for fact in told:
        ids = [fact.actor, fact.object, fact.zone, fact.value if fact.action else None]
        names = [nouns[id] for id in ids if id] + (
            [load_caption_words(transcript.language).sounds[fact.sound]] if fact.sound else []
        )
        for name in names:
            assert name.casefold() in captions[fact.event_id]


@few(15, 40)
@given(SCENES)
def test_a_state_has_one_value_at_a_time_from_the_start_to_the_end(given_scene):
    transcript = scene(*given_scene)
    spans: dict[tuple[str | None, str], list[tuple[float, float]]] = {}
    for fact in transcript.facts:
        if fact.attribute and fact.attribute != "at":
            spans.setdefault((fact.actor or fact.object, fact.attribute), []).append((fact.ts_start, fact.ts_end))
    for known in spans.values():
        known.sort()
        assert known[0][0] == 0 and known[-1][1] == transcript.length
        assert all(before[1] == after[0] for before, after in zip(known, known[1:]))


@few(15, 40)
@given(SCENES)
def test_who_acts_is_in_view_in_the_zone_of_the_event(given_scene):
    transcript = scene(*given_scene)
    places = [fact for fact in transcript.facts if fact.attribute == "location"]
    outside = {"enter", "open", "ring", "put_on_top", "try_handle"}  # may be done on the way in, or at the door
    for fact in transcript.facts:
        if fact.action and fact.actor and fact.action not in outside:
            here = [one.value for one in places if one.actor == fact.actor and one.ts_start <= fact.ts_start < one.ts_end]
            assert here == [fact.zone], (fact, here)


@few(15, 40)
@given(SCENES)
def test_no_two_things_have_one_name_and_no_fact_one_id(given_scene):
    transcript = scene(*given_scene)
    assert max(Counter(naming.transcript_nouns(transcript).values()).values()) == 1
    assert len({fact.id for fact in transcript.facts}) == len(transcript.facts)


@few(15, 40)
@given(SCENES)
def test_what_is_inferred_rests_on_facts_and_is_nowhere_stated(given_scene):
    transcript = scene(*given_scene)
    (conclusion,) = transcript.inferred
    assert {*conclusion.because} <= {fact.id for fact in transcript.facts if fact.event_id}
    assert conclusion.text not in str(transcript.video_description.model_dump())


@few(15, 40)
@given(SCENES)
def test_no_text_has_an_open_field(given_scene):
    transcript = scene(*given_scene)
    for text in (*transcript.video_description.captions.caption_texts(), transcript.video_description.scene.summary):
        assert text.strip() and "{" not in text and "  " not in text


def test_lengths_go_from_20_seconds_to_several_minutes():
    lengths = [scene(seed, SITUATIONS[seed % len(SITUATIONS)]).length for seed in range(120)]
    assert min(lengths) >= 20 and min(lengths) < 35 and 150 < max(lengths) <= 300


def test_the_same_seed_gives_the_same_bytes_in_every_process():
    code = (
        "import sys; sys.path.append('tests/helpers'); from scene_household import scene_household;"
        "from homerl.envs.personalhome.sim.scene.transcript_writer import write_transcript;"
        "h = scene_household(3); print(*(write_transcript(h, s, 5).model_dump_json() for s in ('smoke', 'fall')), sep='\\n')"
    )
    household = scene_household(3)
    written = [write_transcript(household, situation, 5).model_dump_json() for situation in ("smoke", "fall")]
    assert python(code).stdout.splitlines() == written
    assert write_transcript(HOME, "smoke", 5) != write_transcript(HOME, "smoke", 6)


def test_every_situation_of_the_vocabulary_has_a_script_and_can_be_played():
    known = [situation for found in VOCABULARY["situations"].values() for situation in found]
    assert sorted(SITUATIONS) == sorted(known)
    played = {situation for seed in range(30) for situation in playable_situations(scene_household(seed))}
    assert played == {*known}


def test_every_situation_plays_in_many_households():
    for seed in range(6):
        household = scene_household(seed, small=seed % 2 == 0)
        for situation in playable_situations(household):
            assert write_transcript(household, situation, seed).domain == situation_domain(situation)


def test_a_household_that_lacks_a_role_is_told_what_it_can_play():
    household = scene_household(0, small=True)
    assert "child_near_stove" not in playable_situations(household) and "stove_left_on" in playable_situations(household)
    with pytest.raises(InputError, match="play one of"):
        write_transcript(household, "child_near_stove", 0)
    with pytest.raises(KeyError):
        write_transcript(household, "earthquake", 0)


def test_domains_share_100_households_as_the_paper_does_and_any_count_adds_up():
    assert domain_counts(100) == {"safety": 30, "health": 38, "daily": 32}
    assert all(sum(domain_counts(count).values()) == count for count in range(60))


def test_every_key_has_words_in_both_languages():
    keys = load_stage()
    wanted = {
        "actions": {*keys.actions}, "objects": {*keys.objects}, "landmarks": {*keys.landmarks}, "sounds": {*keys.sounds},
        "hair": {*keys.hair}, "tops": {*keys.tops}, "bottoms": {*keys.bottoms}, "feet": {*keys.feet},
        "animals": {*keys.coats}, "categories": {*keys.objects.values()}, "positions": {*keys.positions},
        "lights": {*keys.light}, "inferred": {*SITUATIONS},
        "colours": {*keys.colours, *keys.finishes, *(coat for coats in keys.coats.values() for coat in coats)},
    }  # fmt: skip
    for language in ("en", "zh"):
        known: CaptionWords = load_caption_words(language)
        for group, expected in wanted.items():
            assert {*getattr(known, group)} == expected, (language, group)
    assert (
        load_caption_words("en").frames.keys() == load_caption_words("zh").frames.keys()
        and load_caption_words("en").states.keys() == load_caption_words("zh").states.keys()
    )


def test_every_action_sound_and_thing_is_used_by_a_script():
    beats = [beat for known in load_scene_scripts().values() for script in known for beat in script.beats]
    beats += [beat for block in load_stage().distractors for beat in block]
    assert {beat.do for beat in beats if beat.do} == {*load_stage().actions}
    assert {beat.sound for beat in beats if beat.sound} | {*load_stage().far} == {*load_stage().sounds}


def test_scripts_name_appliances_and_traits_that_there_are():
    known = {kind.replace("-", "_") for kind in (*appliances.appliance_kinds(), *appliances.sensor_kinds())}
    for script in (script for found in load_scene_scripts().values() for script in found):
        assert {kind for one in script.appliances.values() for kind in one.kinds} <= {*known, "none"}, script.situation
        persons = {*PERSONS, "none", *VOCABULARY["traits"]}
        assert {kind for options in script.members.values() for kind in options} <= persons, script.situation


def test_a_home_that_has_what_a_situation_needs_has_what_its_scene_needs():
    everywhere = {"refrigerator", "thermostat", "microwave", "speaker", "tv"}  # in every home (PersonalHomeBench 3.1)
    for domain, found in load_scene_scripts().items():
        for script in found:
            record = load_situations()[script.situation]
            must = {kind for one in script.appliances.values() if "none" not in one.kinds for kind in one.kinds}
            assert must <= {kind.replace("-", "_") for kind in record.needs} | everywhere, script.situation
            assert record.domain == domain


def test_the_first_zone_is_the_room_that_is_asked_for():
    for room in ("study", "bedroom"):
        assert write_transcript(HOME, "fall", 1, room).video_description.scene.layout.zones[0].zone_id == room
    small = scene_household(0, small=True)
    elsewhere = write_transcript(small, "returning_home", 1, "kitchen")  # its second zone must be the kitchen
    assert [zone.zone_id for zone in elsewhere.video_description.scene.layout.zones] == ["living_room", "kitchen"]


def test_a_script_that_names_what_is_not_there_is_found():
    script = load_scene_scripts()["safety"][0]
    for wrong in (
        {"do": "fly", "who": "cook"},
        {"do": "take", "who": "cook"},
        {"sound": "boom", "zone": "kitchen"},
        {"do": "yawn", "who": "king"},
        {"sound": "alarm"},
    ):
        spoiled = script.model_copy(update={"beats": (ScriptBeat.model_validate(wrong),)})
        assert [*find_script_problems(spoiled)], wrong
    assert not [*find_script_problems(SceneScript.model_validate(script.model_dump(by_alias=True)))]


def spoil(transcript: Transcript, *path: str | int, value: object) -> dict:
    data = transcript.model_dump(mode="json", by_alias=True)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


ENTITIES = ("video_description", "entities")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*ENTITIES, "events", 0, "actors"), ["nobody"], "there is no 'nobody'"),
        ((*ENTITIES, "events", 1, "ts_start"), "59:00.000", "out of order"),
        ((*ENTITIES, "objects", 0, "object_id"), "counter_1", "given twice"),
        (("video_description", "captions", "segments", 0, "ts_end"), "59:00.000", "beyond the video"),
        (("video_description", "captions", "events", 0, "event_id"), "e99", "there is no 'e99'"),
        (("video_description", "scene", "layout", "landmarks", 0, "zone_id"), "moon", "there is no 'moon'"),
        ((*ENTITIES, "entity_state_timelines", "members", 0, "states", 0, "ts"), "59:00.000", "out of order"),
        ((*ENTITIES, "entity_state_timelines", "members", 0, "states", -1, "ts"), "00:00.000", "earlier than its event"),
        ((*ENTITIES, "entity_state_timelines", "members", 0, "states", 0, "trigger_event_ids"), [], "at least 1"),
        (("facts", -1, "event_id"), "e99", "unknown event"),
        (("facts", -1, "id"), "f1", "given twice"),
        (("inferred", 0, "because"), ["f9999"], "unknown fact"),
        (("length",), 5.0, "beyond the video"),
    ],
)
def test_an_incoherent_transcript_is_refused(path, value, message):
    with pytest.raises(ValidationError, match=message):
        Transcript.model_validate(spoil(scene(3, "smoke"), *path, value=value))


def test_a_caption_that_states_a_conclusion_is_refused_unless_the_flag_admits_it():
    transcript = scene(3, "smoke")
    said = transcript.inferred[0].text
    data = spoil(transcript, "video_description", "captions", "global", value=f"Smoke. {said}")
    with pytest.raises(ValidationError, match="concluded, and stated"):
        Transcript.model_validate(data)
    data["video_description"]["quality"]["consistency_checks"]["no_unverifiable_inferences"] = False
    assert Transcript.model_validate(data)


@given(st.integers(0, 720_000))
def test_a_timestamp_reads_back(thousandths):
    assert parse_video_timestamp(format_video_timestamp(thousandths / 1000)) == pytest.approx(thousandths / 1000)
    with pytest.raises(ValueError, match="no time"):
        parse_video_timestamp("1:2")


def test_the_light_follows_the_hour():
    assert [light_at_hour(hour) for hour in (3, 7, 17, 18, 21, 22)] == ["night", "day", "day", "evening", "evening", "night"]
