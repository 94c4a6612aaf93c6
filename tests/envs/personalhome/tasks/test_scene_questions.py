"""Questions about a scene that is written by hand, so that every answer is known."""

import random
import re
from datetime import datetime

import pytest

from homerl.envs.personalhome.tasks.questions.counterfactual_edits import FactorEdit, present_scene_edits
from homerl.envs.personalhome.tasks.questions.families import ACTS, HEARD, LOOSE, TIMED, question_candidates
from homerl.envs.personalhome.tasks.questions.question_maker import answer_candidate, load_phrases
from homerl.envs.personalhome.tasks.questions.question_programs import (
    MOST_STEPS,
    TABLES,
    ColumnValues,
    HouseholdTables,
    NoAnswer,
    OnlyValue,
    SceneAct,
    Where,
    count_operations,
    program_difficulty,
)

FIELD = re.compile(r"\{(\w+)\}")
ENTER, TAKE_POT = SceneAct("enter", "ann", zone="kitchen"), SceneAct("take", "ann", "pot", "counter")
TAKE_KEYS, PUT = SceneAct("take", "bob", "keys", "shelf"), SceneAct("put_on_top", "ann", "pot", "stove")
TURN_ON, SIT = SceneAct("turn_on", "ann", "stove"), SceneAct("sit_down", "bob", at="chair")
EVENTS = [  # start, end, zone, what is done, what is heard
    (0, 2, "kitchen", ENTER, "footsteps"),
    (4, 6, "kitchen", TAKE_POT, None),
    (8, 10, "hall", SceneAct("enter", "bob", zone="hall"), None),
    (12, 15, "hall", TAKE_KEYS, "rustling"),
    (16, 17, "kitchen", PUT, None),
    (20, 21, "kitchen", TURN_ON, "clinking"),
    (24, 26, "hall", SIT, None),
    (30, 31, "kitchen", None, "alarm"),
    (34, 36, "kitchen", SceneAct("leave", "ann", zone="kitchen"), None),
]
STATES = [  # event (0: the setting), from when on, whose, which, what
    (0, 0, "pot", "place", "counter"),
    (2, 6, "pot", "place", "ann"),
    (5, 17, "pot", "place", "stove"),
    (0, 0, "keys", "place", "shelf"),
    (4, 15, "keys", "place", "bob"),
    (0, 0, "stove", "power", "off"),
    (6, 21, "stove", "power", "on"),
    (1, 2, "ann", "location", "kitchen"),
    (9, 36, "ann", "location", "out_of_view"),
    (3, 10, "bob", "location", "hall"),
    (7, 26, "bob", "posture", "sitting"),
]
THINGS = [
    ("counter", "zone", "kitchen"),
    ("stove", "zone", "kitchen"),
    ("shelf", "zone", "hall"),
    ("chair", "zone", "hall"),
    ("stove", "finish", "white"),
    ("pot", "colour", "red"),
    ("keys", "colour", "grey"),
    ("kitchen", "position", "left"),
    ("hall", "position", "right"),
    ("scene", "light", "day"),
]
LOOKS = {
    "ann": {"hair": "long_dark", "top": "shirt", "top_colour": "red", "bottom": "jeans", "bottom_colour": "blue",
            "feet": "socks"},
    "bob": {"hair": "shaved", "top": "hoodie", "top_colour": "green", "bottom": "shorts", "bottom_colour": "black",
            "feet": "sneakers"},
}  # fmt: skip
PEOPLE = [("ann", 40, "teacher"), ("bob", 70, "chef")]


def scene() -> HouseholdTables:
    """The tables of the scene, whose ids are `act1` and the like, and those of its people."""
    rows = {name: [] for name in (*TABLES, "members", "appliances")}
    for number, (start, end, zone, act, sound) in enumerate(EVENTS, 1):
        span = {"event": f"e{number}", "start": start, "end": end, "zone": zone}
        for timed, ending in (("", ""), ("_timed", ".time")):
            if act:
                own = {"do": act.do, "who": act.who, "what": act.what, "at": act.at, "act": act}
                rows[f"scene_acts{timed}"].append({"id": f"act{number}{ending}", **own, **span})
            if sound:
                rows[f"scene_sounds{timed}"].append({"id": f"sound{number}{ending}", "sound": sound, **span})
    for at, (event, start, thing, attribute, value) in enumerate(STATES):
        row = {"id": f"state{at}", "event": f"e{event}", "start": start, "end": 40}
        rows["scene_states"].append({**row, "thing": thing, "attribute": attribute, "value": value})
    for at, (thing, attribute, value) in enumerate(THINGS):
        rows["scene_things"].append({"id": f"thing{at}", "thing": thing, "attribute": attribute, "value": value})
    for who, looks in LOOKS.items():
        for attribute, value in looks.items():
            rows["scene_looks"].append({"id": f"{who} {attribute}", "who": who, "attribute": attribute, "value": value})
    rows["members"] = [{"id": f"member:{who}", "who": who, "age": age, "occupation": job} for who, age, job in PEOPLE]
    rows["appliances"] = [{"id": "appliance:stove", "appliance": "stove", "room": "kitchen", "kind": "stove"}]
    empty = ("hobbies", "life", "pets", "memories", "events", "weather", "sensors", "states", "readings")
    return HouseholdTables(datetime(2026, 3, 14), {name: tuple(rows.get(name, ())) for name in (*rows, *empty)})


SCENE = scene()
ASKED = [each for each in question_candidates(SCENE) if each.family.startswith("scene_")]
A, B = {"who": "ann"}, {"who": "bob"}
GOLDEN = [  # family, the values that its slots have, the answer
    *((f"scene_look_{attribute}", B, value) for attribute, value in LOOKS["bob"].items()),
    *((f"scene_who_has_{attribute}", {"look": value}, "bob") for attribute, value in LOOKS["bob"].items()),
    ("scene_zone_of_thing", {"what": "shelf"}, "hall"),
    ("scene_finish", {"what": "stove"}, "white"),
    ("scene_position", {"zone": "hall"}, "right"),
    ("scene_light", {}, "day"),
    ("scene_room_of_act", {"act": SIT}, "hall"),
    ("scene_seconds", {"act": TAKE_KEYS}, 3),
    ("scene_who", {"act": SceneAct("take", "?who", "keys", "shelf")}, "bob"),
    ("scene_gap", {"act": SceneAct("take", "bob", "?gap", "shelf")}, "keys"),
    ("scene_gap", {"act": SceneAct("put_on_top", "ann", "pot", "?gap")}, "stove"),
    ("scene_times", {"act": SceneAct("take", "ann", LOOSE["what"], LOOSE["at"])}, 1),
    ("scene_first_thing", {"act": SceneAct("take", "bob", "?gap", LOOSE["at"])}, "keys"),
    ("scene_last_thing", {"act": SceneAct("turn_on", "ann", "?gap")}, "stove"),
    ("scene_first_act", A, ENTER),
    ("scene_last_act", B, SIT),
    ("scene_first_room", B, "hall"),
    ("scene_last_room", A, "kitchen"),
    ("scene_span", A, 34),
    ("scene_count", B, 3),
    ("scene_count_in", {**A, "zone": "kitchen"}, 5),
    ("scene_more", {**A, "other": "bob"}, 2),
    ("scene_first_in", {"zone": "hall"}, "bob"),
    ("scene_last_in", {"zone": "kitchen"}, "ann"),
    ("scene_occupation_of_last_in", {"zone": "hall"}, "chef"),
    ("scene_age_of_last_in", {"zone": "kitchen"}, 40),
    ("scene_top_colour_of_last_in", {"zone": "hall"}, "green"),
    ("scene_hair_of_last_in", {"zone": "kitchen"}, "long_dark"),
    ("scene_heard_in", {"zone": "hall"}, "rustling"),
    ("scene_room_of_sound", {"sound": "alarm"}, "kitchen"),
    ("scene_times_heard", {"sound": "alarm"}, 1),
    ("scene_who_with_sound", {"sound": "rustling"}, "bob"),
    ("scene_top_with_sound", {"sound": "rustling"}, "hoodie"),
    ("scene_top_colour_with_sound", {"sound": "clinking"}, "red"),
    ("scene_bottom_colour_with_sound", {"sound": "footsteps"}, "blue"),
    ("scene_act_after_sound", {**A, "sound": "rustling"}, PUT),
    ("scene_room_after_sound", {**B, "sound": "clinking"}, "hall"),
    ("scene_first_sound", {}, "footsteps"),
    ("scene_last_sound", {}, "alarm"),
    ("scene_next_sound", {"act": PUT}, "clinking"),
    ("scene_sound_before", {"act": PUT}, "rustling"),
    ("scene_next_act", {**B, "act": PUT}, SIT),
    ("scene_count_after", {**A, "act": TAKE_KEYS}, 3),
    ("scene_next_taken", {**B, "act": TAKE_POT}, "keys"),
    ("scene_next_actor", {"act": PUT}, "bob"),
    ("scene_between", {"act": TAKE_POT, "other": TAKE_KEYS}, 8),
    ("scene_sound_to_last", {**B, "sound": "rustling"}, 12),
    ("scene_state_at_end", {"what": "stove"}, "on"),
    ("scene_place_at_end", {"what": "pot"}, "stove"),
    ("scene_location_at_end", A, "out_of_view"),
    ("scene_posture_at_end", B, "sitting"),
    ("scene_place_of_first_taken", A, "stove"),
    ("scene_place_of_last_taken", B, "bob"),
    ("scene_occupation_of_doer", {"act": SceneAct("turn_on", "?somebody", "stove")}, "teacher"),
    ("scene_age_of_doer", {"act": SceneAct("sit_down", "?somebody", at="chair")}, 70),
    ("scene_top_colour_of_doer", {"act": SceneAct("turn_on", "?somebody", "stove")}, "red"),
    ("scene_hair_of_doer", {"act": SceneAct("sit_down", "?somebody", at="chair")}, "shaved"),
    ("scene_feet_of_doer", {"act": SceneAct("take", "?somebody", "keys", "shelf")}, "sneakers"),
]


def asked(family, slots):
    """The one candidate of a family whose slots have these values."""
    fits = [
        one for one in ASKED if one.family == family and {name: value for name, (_, value) in one.slots.items()} == slots
    ]
    assert len(fits) == 1, (family, slots, len(fits))
    return fits[0]


@pytest.mark.parametrize(("family", "slots", "answer"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_a_question_has_the_answer_that_the_scene_shows(family, slots, answer):
    question = answer_candidate(asked(family, slots), SCENE)
    assert question is not None
    assert question.answer == answer
    assert question.evidence


def test_every_family_with_sentences_is_asked_and_known_by_an_answer():
    named = set(load_phrases("en")["scenes"]["questions"])
    assert {one.family for one in ASKED} == named == {family for family, _, _ in GOLDEN}


def test_every_difficulty_occurs_and_none_takes_more_steps_than_there_are():
    assert {program_difficulty(one.program) for one in ASKED} == {*MOST_STEPS}
    assert max(count_operations(one.program) for one in ASKED) <= MOST_STEPS["hard"]


def test_what_happens_twice_has_no_single_answer():
    twice = [("scene_acts", 3, {"act": TAKE_POT, **vars(TAKE_POT), "zone": "hall"})]
    rows = {name: list(SCENE.rows[name]) for name in SCENE.rows}
    for table, at, changes in twice:
        rows[table][at] = {**rows[table][at], **changes}
    changed = HouseholdTables(SCENE.now, {name: tuple(each) for name, each in rows.items()})
    where = OnlyValue(ColumnValues(Where(ACTS, "act", TAKE_POT), "zone"))
    with pytest.raises(NoAnswer):
        where.run_on(changed)


def test_only_programs_that_read_times_have_times_as_evidence():
    who = answer_candidate(asked("scene_who", {"act": SceneAct("take", "?who", "keys", "shelf")}), SCENE)
    order = answer_candidate(asked("scene_next_actor", {"act": PUT}), SCENE)
    assert who.evidence == ("act4",)
    assert order.evidence == ("act5.time", "act7.time")


@pytest.mark.parametrize("group", ["questions", "edits"])
def test_languages_have_the_same_sentences_and_name_the_same_slots(group):
    english, chinese = (load_phrases(language)["scenes"][group] for language in ("en", "zh"))
    assert english.keys() == chinese.keys()
    for name in english:
        fields = [set(FIELD.findall(frame)) for frame in (*english[name], *chinese[name])]
        assert all(each == fields[0] for each in fields), name


def edited(frame, **slots):
    """The tables after the first edit of a frame whose slots have these values."""
    for seed in range(40):
        for _, *row in present_scene_edits(SCENE, random.Random(seed)):
            edit = FactorEdit(*row)
            if edit.frame == frame and all(edit.slots[name][1] == value for name, value in slots.items()):
                return edit.tables
    raise AssertionError(frame)


def test_an_edit_of_an_event_changes_all_that_the_event_is_read_for():
    took = OnlyValue(ColumnValues(Where(ACTS, "what", "keys"), "who"))
    end = asked("scene_place_at_end", {"what": "keys"}).program
    other = edited("scene_actor", act=TAKE_KEYS, other="ann")
    assert took.run_on(other).value == end.run_on(other).value == "ann"
    gone = edited("scene_gone", act=TAKE_KEYS)
    assert end.run_on(gone).value == "shelf"
    with pytest.raises(NoAnswer):
        took.run_on(gone)
    assert "rustling" not in {row["sound"] for row in gone.rows["scene_sounds_timed"]}
    away = edited("scene_place", act=TAKE_KEYS, new="kitchen")
    assert OnlyValue(ColumnValues(Where(ACTS, "act", TAKE_KEYS), "zone")).run_on(away).value == "kitchen"
    assert asked("scene_room_of_sound", {"sound": "rustling"}).program.run_on(away).value == "kitchen"


def test_an_edit_of_an_object_moves_the_other_object():
    other = edited("scene_object", act=TAKE_KEYS, other="pot")
    assert OnlyValue(ColumnValues(Where(ACTS, "who", "bob"), "what")).run_on(other).value == "pot"


def test_an_edit_of_time_keeps_how_long_it_takes():
    moved = edited("scene_time", act=TAKE_KEYS)
    (row,) = [row for row in moved.rows["scene_acts_timed"] if row["act"] == TAKE_KEYS]
    assert row["start"] != 12 and row["end"] - row["start"] == 3
    assert OnlyValue(ColumnValues(Where(HEARD, "sound", "rustling"), "start")).run_on(moved).value == row["start"]
    assert OnlyValue(ColumnValues(Where(TIMED, "act", PUT), "start")).run_on(moved).value == 16


def test_a_sound_can_be_silent_another_or_elsewhere():
    heard = asked("scene_heard_in", {"zone": "hall"}).program
    with pytest.raises(NoAnswer):
        heard.run_on(edited("scene_silent", sound="rustling"))
    assert heard.run_on(edited("scene_other_sound", sound="rustling")).value not in {event[4] for event in EVENTS}
    assert (
        asked("scene_room_of_sound", {"sound": "alarm"}).program.run_on(edited("scene_sound_place", sound="alarm")).value
        == "hall"
    )


def test_an_edit_of_the_setting_changes_what_is_seen():
    assert asked("scene_look_hair", B).program.run_on(edited("scene_set_hair", what="bob")).value != "shaved"
    assert (
        asked("scene_zone_of_thing", {"what": "shelf"}).program.run_on(edited("scene_set_zone", what="shelf")).value
        == "kitchen"
    )
    assert asked("scene_light", {}).program.run_on(edited("scene_set_light")).value != "day"


def test_edits_have_sentences():
    frames = {FactorEdit(*row).frame for _, *row in present_scene_edits(SCENE, random.Random(0))}
    assert frames == set(load_phrases("en")["scenes"]["edits"])
