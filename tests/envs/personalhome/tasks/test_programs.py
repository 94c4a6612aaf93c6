"""Programs of questions on a small household whose answers are worked out by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest

from homerl.envs.personalhome.tasks.questions import question_programs as scene_tables
from homerl.envs.personalhome.tasks.questions.counterfactual_edits import FactorEdit, shift_edits, swap_edits
from homerl.envs.personalhome.tasks.questions.families import Deed, QuestionCandidate, question_candidates
from homerl.envs.personalhome.tasks.questions.question_maker import _values_nearby, answer_candidate
from homerl.envs.personalhome.tasks.questions.question_programs import (
    ColumnValues,
    Extreme,
    Follow,
    HouseholdTables,
    NoAnswer,
    OnlyValue,
    RowCount,
    Shared,
    TableRows,
    Total,
    UsualValue,
    ValueGap,
    Where,
    YearsSince,
    count_operations,
    program_difficulty,
    run_settled,
)

BLANK = dict.fromkeys(("who", "pet", "appliance", "sensor", "room", "what", "value", "unit"))


def memory(number: int, day: str, kind: str, **fields: Any) -> dict[str, Any]:
    time = datetime.fromisoformat(f"{day}T10:00")
    return {"id": f"memory:{number}", "time": time, "date": time.date(), "kind": kind, **BLANK, **fields}


def person(who: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"member:{who}", "who": who, **fields}


TABLES = HouseholdTables(
    datetime(2026, 3, 10, 18, 0),
    {
        "members": (
            person("a", name="Ann", age=41, occupation="nurse", role="parent", gender="Female"),
            person("b", name="Ben", age=9, occupation="pupil", role="child", gender="Male"),
        ),
        "hobbies": tuple(person(who, hobby=hobby) for who, hobby in (("a", "yoga"), ("a", "chess"), ("b", "chess"))),
        "life": ({"id": "life:a", "who": "a", "date": date(2020, 6, 1), "kind": "moved_in"},),
        "pets": ({"id": "pet:Rex", "pet": "Rex", "animal": "dog", "age": 3},),
        "memories": (
            memory(0, "2025-01-05", "cooked", who="a", what="pizza", value=4.0),
            memory(1, "2025-02-05", "cooked", who="a", what="pizza", value=2.0),
            memory(2, "2025-03-05", "cooked", who="b", what="muffins", value=6.0),
            memory(3, "2025-03-20", "ill", who="a", what="cold", value=3.0),
            memory(4, "2025-04-02", "ill", who="a", what="flu", value=5.0),
            memory(5, "2025-05-01", "cooked", who="a", what="curry", value=2.0),
        ),
        **dict.fromkeys(("events", "weather", "appliances", "sensors", "states", "readings", *scene_tables.TABLES), ()),
    },
)
MEMORIES = TableRows("memories")
COOKED = Where(MEMORIES, "kind", "cooked")
BY_ANN = Where(COOKED, "who", "a")
LAST_COOKED = OnlyValue(ColumnValues(Extreme(BY_ANN, "time"), "time"))
LAST_BAKER = ColumnValues(Extreme(Where(COOKED, "what", "muffins"), "time"), "who")
LAST_ILL = OnlyValue(ColumnValues(Extreme(Where(Where(MEMORIES, "kind", "ill"), "who", "a"), "time"), "time"))


@pytest.mark.parametrize(
    ("program", "answer", "evidence", "operations"),
    [
        (OnlyValue(ColumnValues(Where(TableRows("members"), "who", "a"), "occupation")), "nurse", {"member:a"}, 2),
        (RowCount(Where(BY_ANN, "what", "pizza")), 2, {"memory:0", "memory:1"}, 4),
        (OnlyValue(ColumnValues(Extreme(BY_ANN, "time"), "what")), "curry", {"memory:0", "memory:1", "memory:5"}, 4),
        (Total(ColumnValues(Where(Where(MEMORIES, "kind", "ill"), "who", "a"), "value")), 8.0, {"memory:3", "memory:4"}, 4),
        (UsualValue(ColumnValues(BY_ANN, "what")), "pizza", {"memory:0", "memory:1", "memory:5"}, 4),
        (YearsSince(OnlyValue(ColumnValues(TableRows("life"), "date"))), 5, {"life:a"}, 2),
        (
            OnlyValue(Shared(*(ColumnValues(Where(TableRows("hobbies"), "who", who), "hobby") for who in "ab"))),
            "chess",
            {"member:a", "member:b"},
            5,
        ),
        (OnlyValue(ColumnValues(Follow(LAST_BAKER, "members", "who"), "age")), 9, {"memory:2", "member:b"}, 6),
        (
            OnlyValue(ColumnValues(Extreme(Where(BY_ANN, "time", LAST_ILL, ">"), "time", largest=False), "what")),
            "curry",
            {"memory:3", "memory:4", "memory:5"},
            9,
        ),
        (ValueGap(LAST_ILL, LAST_COOKED), 29, {f"memory:{n}" for n in (0, 1, 3, 4, 5)}, 9),
    ],
)
def test_answer_evidence_and_steps(program, answer, evidence, operations):
    found = program.run_on(TABLES)
    assert (found.value, set(found.evidence), count_operations(program)) == (answer, evidence, operations)


@pytest.mark.parametrize(
    "program",
    [
        RowCount(Where(COOKED, "what", "salmon")),  # it never happened
        OnlyValue(ColumnValues(COOKED, "what")),  # several
        UsualValue(ColumnValues(Where(MEMORIES, "kind", "ill"), "what")),  # each once
        OnlyValue(ColumnValues(Where(TableRows("pets"), "pet", "Tom"), "age")),  # there is no such pet
        ValueGap(RowCount(Where(COOKED, "what", "muffins")), RowCount(Where(COOKED, "what", "curry"))),  # 1 and 1
        OnlyValue(
            Shared(ColumnValues(TableRows("hobbies"), "hobby"), ColumnValues(TableRows("hobbies"), "hobby"))
        ),  # two in common
    ],
)
def test_no_single_answer(program):
    with pytest.raises(NoAnswer):
        program.run_on(TABLES)


def test_a_tie_is_no_answer():
    tied = TABLES.with_edited_rows("memories", "memory:5", {"time": datetime(2025, 2, 5, 10, 0)})
    with pytest.raises(NoAnswer):
        Extreme(BY_ANN, "time").run_on(tied)


def test_difficulty_goes_by_steps():
    rows: Any = MEMORIES
    found = []
    for _ in range(11):
        found.append(program_difficulty(RowCount(rows)))
        rows = Where(rows, "kind", "cooked")
    assert found == ["simple"] * 3 + ["medium"] * 2 + ["hard"] * 5 + [None]


def test_edits_leave_the_tables_alone():
    program = RowCount(Where(BY_ANN, "what", "pizza"))
    assert program.run_on(TABLES.with_edited_rows("memories", "memory:0", None)).value == 1
    assert program.run_on(TABLES.with_edited_rows("memories", "memory:2", {"who": "a", "what": "pizza"})).value == 3
    later = TABLES.years_later(2)
    assert [row["age"] for row in later.rows["members"]] == [43, 11] and later.rows["pets"][0]["age"] == 5
    assert YearsSince(OnlyValue(ColumnValues(TableRows("life"), "date"))).run_on(later).value == 7
    assert program.run_on(TABLES).value == 2


HOME = replace(
    TABLES,
    rows={
        **TABLES.rows,
        "appliances": (
            {"id": "appliance:tv", "appliance": "tv", "room": "den"},
            {"id": "appliance:oven", "appliance": "oven", "room": "kitchen"},
        ),
        "sensors": ({"id": "sensor:smoke", "sensor": "smoke", "room": "hall"},),
        "states": ({"id": "state:oven", "appliance": "oven", "attribute": "heat", "value": 9, "range": (0, 10)},),
        "weather": ({"id": "weather", "side": "outdoor", "quantity": "sunny", "value": 0.95},),
    },
)
RELATIVE = [  # frame, what it names, the table, row and column that are asked for, and the answer
    ("member_occupation_of", {"who": "a", "other": "b"}, ("members", "a", "occupation"), "pupil"),
    ("member_occupation_of", {"who": "a", "other": "b"}, ("members", "b", "occupation"), "pupil"),
    ("member_occupation_swapped", {"who": "a", "other": "b"}, ("members", "b", "occupation"), "nurse"),
    ("appliance_room_of", {"appliance": "tv", "other": "oven"}, ("appliances", "tv", "room"), "kitchen"),
    ("appliance_room_swapped", {"appliance": "oven", "other": "tv"}, ("appliances", "tv", "room"), "kitchen"),
    ("sensor_room_of", {"sensor": "smoke", "other": "oven"}, ("sensors", "smoke", "room"), "kitchen"),
    ("life_earlier", {"years": 3}, ("life", "a", "date"), date(2017, 6, 1)),
    ("life_later", {"years": 4}, ("life", "a", "date"), date(2024, 6, 1)),
    ("state_higher", {"step": 1}, ("states", "oven", "value"), 10),
    ("state_lower", {"step": 5}, ("states", "oven", "value"), 4),
    ("weather_lower", {"step": 0.2}, ("weather", "outdoor", "value"), 0.75),
]


def drawn(seed: int) -> list[Any]:
    return [FactorEdit(*row) for each in (swap_edits, shift_edits) for _, *row in each(HOME, random.Random(seed))]


@pytest.mark.parametrize(("frame", "named", "asked", "answer"), RELATIVE)
def test_an_assumption_that_goes_by_another_value(frame, named, asked, answer):
    edits = [edit for seed in range(60) for edit in drawn(seed) if edit.frame == frame]
    edit = next(edit for edit in edits if named.items() <= {name: value for name, (_, value) in edit.slots.items()}.items())
    table, key, column = asked
    assert [row[column] for row in edit.tables.rows[table] if key in row.values()] == [answer]


def test_no_assumption_leaves_what_is_possible():
    for edit in (edit for seed in range(60) for edit in drawn(seed)):
        assert edit.frame != "weather_higher", "the share of sunshine is 0.95"
        assert all(0 <= row["value"] <= 10 for row in edit.tables.rows["states"])
        assert all(row["date"] < HOME.now.date() for row in edit.tables.rows["life"])


def test_every_candidate_names_what_it_asks_about():
    found = question_candidates(TABLES)
    assert len({(one.family, str(one.slots)) for one in found}) == len(found), "no question is asked twice"
    times = [one for one in found if one.family == "times" and one.slots["deed"][1] == Deed("cooked", "pizza")]
    assert len(times) == 1 and answer_candidate(times[0], TABLES).answer == 2


@pytest.mark.parametrize(("once", "twice", "asked"), [(0, 3, 0), (9, 0, 0), (9, 3, 3), (2, 3, 2)])
def test_what_was_done_once_is_counted_no_more_often_than_what_was_done_twice(once, twice, asked):
    done = [f"dish {at}" for at in range(once)] + [f"meal {at}" for at in range(twice)] * 2 + ["feast"] * 5
    memories = tuple(memory(n, "2025-01-05", "cooked", who="a", what=what) for n, what in enumerate(done))
    tables = replace(TABLES, rows={**TABLES.rows, "memories": memories})
    counts = Counter(one.program.run_on(tables).value for one in question_candidates(tables) if one.family == "times")
    assert (counts[1], counts[2], counts[5]) == (asked, twice, 1)


def test_what_has_too_many_steps_is_not_asked():
    rows: Any = MEMORIES
    for _ in range(11):
        rows = Where(rows, "kind", "cooked")
    assert answer_candidate(QuestionCandidate("long", RowCount(rows), {}, "times"), TABLES) is None


def test_what_events_or_companions_would_change_is_not_asked():
    last = QuestionCandidate("last_cooked", OnlyValue(ColumnValues(Extreme(BY_ANN, "time"), "what")), {}, "what:cooked")
    event = {**memory(9, "2026-03-10", "cooked", who="a", what="popcorn"), "id": "event:0"}
    told = replace(TABLES, told={"memories": (*TABLES.rows["memories"], event)})
    assert answer_candidate(last, TABLES).answer == "curry" and answer_candidate(last, told) is None
    ill = QuestionCandidate(
        "total_ill", Total(ColumnValues(Where(Where(MEMORIES, "kind", "ill"), "who", "a"), "value")), {}, "number:day"
    )
    assert answer_candidate(ill, told).answer == 8.0, "popcorn is no illness"


def test_an_edit_changes_what_is_told_as_well():
    trip = memory(7, "2025-06-01", "travelled", who="a", what="paris", value=3.0)
    event = {**memory(9, "2026-03-10", "cooked", who="b", what="popcorn"), "id": "event:0"}
    memories = (*TABLES.rows["memories"], trip)
    tables = HouseholdTables(
        TABLES.now,
        {**TABLES.rows, "memories": memories, "events": (event,)},
        {"memories": (*memories, {**trip, "who": "b"}, event), "events": (event,)},
    )

    def told(edited, id, table="memories"):
        return [(row["who"], row["value"]) for row in edited.with_told_rows().rows[table] if row["id"] == id]

    trips = RowCount(Where(Where(MEMORIES, "kind", "travelled"), "who", "a"))
    assert run_settled(trips, tables).value == 1
    other = tables.with_edited_rows("memories", "memory:7", {"who": "c", "value": 5.0})
    assert told(other, "memory:7") == [("c", 5.0), ("b", 5.0)], "the companion travelled as long"
    assert told(tables.with_edited_rows("memories", "memory:7", None), "memory:7") == []
    by_ann = tables.with_edited_rows("events", "event:0", {"who": "a"})
    assert told(by_ann, "event:0") == told(by_ann, "event:0", "events") == [("a", None)]
    last = OnlyValue(ColumnValues(Extreme(BY_ANN, "time"), "what"))
    assert run_settled(last, tables.years_later(2)).value == "curry"
    with pytest.raises(NoAnswer):
        run_settled(last, by_ann)


def test_only_a_leap_day_moves():
    assert replace(TABLES, now=datetime(2026, 3, 31)).years_later(2).now == datetime(2028, 3, 31)
    assert replace(TABLES, now=datetime(2028, 2, 29)).years_later(2).now == datetime(2030, 2, 28)


def test_the_right_number_has_any_place_among_the_wrong_ones():
    places = Counter()
    for seed in range(500):
        wrong = _values_nearby("times", 20, random.Random(seed))
        assert len(set(wrong)) == 4 and 20 not in wrong
        places[sum(value < 20 for value in wrong)] += 1
    assert set(places) == set(range(5)) and max(places.values()) < 140
    for seed in range(50):
        shares = [*_values_nearby("number", 0.8, random.Random(seed)), *_values_nearby("share", 1.0, random.Random(seed))]
        assert all(0 <= value <= 1 for value in shares)
        assert min(_values_nearby("times", 1, random.Random(seed))) >= 0
