"""Families of questions about the present scene: who does what, where, in which order, and what is heard and seen.

Invariants: those of `families.py`; a household without a transcript has no candidates, because its tables are empty; the
names of these families begin with `scene_`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

from homerl.envs.personalhome.tasks.questions.families import QuestionCandidate, QuestionSlot, register_family
from homerl.envs.personalhome.tasks.questions.household_tables import LOOKS, HouseholdTables, SceneAct
from homerl.envs.personalhome.tasks.questions.question_programs import (
    ColumnValues,
    Expression,
    Extreme,
    Follow,
    OnlyValue,
    RowCount,
    TableRows,
    ValueGap,
    Where,
)

ACTS, TIMED = TableRows("scene_acts"), TableRows("scene_acts_timed")
SOUNDS, HEARD = TableRows("scene_sounds"), TableRows("scene_sounds_timed")
STATES, THINGS, SEEN = TableRows("scene_states"), TableRows("scene_things"), TableRows("scene_looks")
CHANGING = ("power", "door", "condition", "use")  # attributes of things whose state may change
WHO, SOMEBODY, GAP = "?who", "?somebody", "?gap"  # what stands in an act for what is not said
LOOSE = {"what": "?anything", "at": "?anywhere", "zone": "?anywhere"}  # the same, by field


def act_slot(act: SceneAct) -> QuestionSlot:
    """An act as a sentence names it."""
    return QuestionSlot("scene:act", act)


def _actor(who: str) -> QuestionSlot:
    return QuestionSlot("scene:actor", who)


def _zone(zone: str) -> QuestionSlot:
    return QuestionSlot("scene:zone", zone)


def _values(tables: HouseholdTables, table: str, column: str) -> list[Any]:
    """The values of a column, each once, in the order of the table."""
    return list(dict.fromkeys(row[column] for row in tables.rows[table] if row[column] is not None))


def _like(act: SceneAct, unknown: str) -> Expression:
    """The rows of what is done as in an act, whatever the column is that is `unknown`."""
    rows: Expression = Where(ACTS, "do", act.do)
    for column in ("who", "what", "at", "zone"):
        value = getattr(act, column)
        if value is not None and column != unknown:
            rows = Where(rows, column, value)
    return rows


def _exactly(act: SceneAct, table: Expression = TIMED) -> Expression:
    return Where(table, "act", act)


def _when(act: SceneAct, column: str = "start") -> Expression:
    """The time of an act, in seconds."""
    return OnlyValue(ColumnValues(_exactly(act), column))


def _first(rows: Expression, column: str, last: bool = False) -> Expression:
    """A value of the row that begins first, or last."""
    return OnlyValue(ColumnValues(Extreme(rows, "start", last), column))


def _look(who: Expression, attribute: str) -> Expression:
    """What somebody looks like."""
    return OnlyValue(ColumnValues(Where(Follow(who, "scene_looks", "who"), "attribute", attribute), "value"))


# What is seen at a glance


@register_family
def look_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What people wear, and what appliances look like."""
    for row in tables.rows["scene_looks"]:
        one = Where(Where(SEEN, "who", row["who"]), "attribute", row["attribute"])
        slots, kind = {"who": _actor(row["who"])}, f"scene:look:{row['attribute']}"
        yield QuestionCandidate(f"scene_look_{row['attribute']}", OnlyValue(ColumnValues(one, "value")), slots, kind)
    for attribute in LOOKS:
        for value in dict.fromkeys(row["value"] for row in tables.rows["scene_looks"] if row["attribute"] == attribute):
            one = Where(Where(SEEN, "attribute", attribute), "value", value)
            slots = {"look": QuestionSlot(f"scene:look:{attribute}", value)}
            yield QuestionCandidate(f"scene_who_has_{attribute}", OnlyValue(ColumnValues(one, "who")), slots, "scene:actor")


@register_family
def scene_setting_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Where landmarks are, what finish appliances have, where zones are in the picture, and the light."""
    owned = {row["appliance"] for row in tables.rows["appliances"]}
    for row in tables.rows["scene_things"]:
        attribute, thing = row["attribute"], row["thing"]
        one = Where(Where(THINGS, "thing", thing), "attribute", attribute)
        if attribute == "zone" and thing not in owned:
            yield QuestionCandidate(
                "scene_zone_of_thing",
                OnlyValue(ColumnValues(one, "value")),
                {"what": QuestionSlot("scene:thing", thing)},
                "scene:zone",
            )
        elif attribute == "finish":
            slots = {"what": QuestionSlot("scene:thing", thing)}
            yield QuestionCandidate("scene_finish", OnlyValue(ColumnValues(one, "value")), slots, "scene:look:finish")
        elif attribute == "position":
            yield QuestionCandidate(
                "scene_position", OnlyValue(ColumnValues(one, "value")), {"zone": _zone(thing)}, "scene:look:position"
            )
        elif attribute == "light":
            light = OnlyValue(ColumnValues(Where(THINGS, "attribute", "light"), "value"))
            yield QuestionCandidate("scene_light", light, {}, "scene:look:light")


# What happens


@register_family
def act_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Who does something, with what, where, how often and for how long."""
    for act in _values(tables, "scene_acts", "act"):
        slots = {"act": act_slot(act)}
        if act.zone is None:
            yield QuestionCandidate(
                "scene_room_of_act", OnlyValue(ColumnValues(_exactly(act, ACTS), "zone")), slots, "scene:zone"
            )
        yield QuestionCandidate("scene_seconds", ValueGap(_when(act), _when(act, "end")), slots, "seconds")
        if act.who is not None:
            who, asked = OnlyValue(ColumnValues(_like(act, "who"), "who")), {"act": act_slot(replace(act, who=WHO))}
            yield QuestionCandidate("scene_who", who, asked, "scene:actor")
        for column in ("what", "at"):
            if act.who is not None and getattr(act, column) is not None:
                missing = OnlyValue(ColumnValues(_like(act, column), column))
                yield QuestionCandidate(
                    "scene_gap", missing, {"act": act_slot(replace(act, **{column: GAP}))}, "scene:thing"
                )


@register_family
def act_kind_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """How often somebody does a kind of thing, and with what they do it first and last."""
    for who, do in dict.fromkeys((row["who"], row["do"]) for row in tables.rows["scene_acts"] if row["who"]):
        like = next(row["act"] for row in tables.rows["scene_acts"] if (row["who"], row["do"]) == (who, do))
        loose = replace(like, **{name: text for name, text in LOOSE.items() if getattr(like, name) is not None})
        rows = Where(Where(TIMED, "who", who), "do", do)
        count = RowCount(Where(Where(ACTS, "who", who), "do", do))
        yield QuestionCandidate("scene_times", count, {"act": act_slot(loose)}, "times")
        if like.what is not None:
            slots = {"act": act_slot(replace(loose, what=GAP))}
            for name, last in (("first", False), ("last", True)):
                yield QuestionCandidate(f"scene_{name}_thing", _first(rows, "what", last), slots, "scene:thing")


@register_family
def actor_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What somebody does first and last, where, and how many things they do, by themselves and beside others."""
    for who in _values(tables, "scene_acts", "who"):
        rows, slots = Where(TIMED, "who", who), {"who": _actor(who)}
        for name, last in (("first", False), ("last", True)):
            yield QuestionCandidate(f"scene_{name}_act", _first(rows, "act", last), slots, "scene:act")
            yield QuestionCandidate(f"scene_{name}_room", _first(rows, "zone", last), slots, "scene:zone")
        span = ValueGap(_first(rows, "start"), _first(rows, "start", True))
        yield QuestionCandidate("scene_span", span, slots, "seconds")
        yield QuestionCandidate("scene_count", RowCount(Where(ACTS, "who", who)), slots, "number")
        for zone in _values(tables, "scene_acts", "zone"):
            within = Where(Where(ACTS, "who", who), "zone", zone)
            yield QuestionCandidate("scene_count_in", RowCount(within), {**slots, "zone": _zone(zone)}, "number")
    for one, other in permutations(_values(tables, "scene_acts", "who"), 2):
        more = ValueGap(*(RowCount(Where(ACTS, "who", who)) for who in (one, other)))
        yield QuestionCandidate("scene_more", more, {"who": _actor(one), "other": _actor(other)}, "number")


@register_family
def zone_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Who acts first and last in a zone, and who that is."""
    for zone in _values(tables, "scene_acts", "zone"):
        rows, slots = Where(Where(TIMED, "zone", zone), "who", "", "!="), {"zone": _zone(zone)}
        for name, last in (("first", False), ("last", True)):
            yield QuestionCandidate(f"scene_{name}_in", _first(rows, "who", last), slots, "scene:actor")
        doer = ColumnValues(Extreme(rows, "start"), "who")
        for column, answer in (("occupation", "occupations"), ("age", "years")):
            about = OnlyValue(ColumnValues(Follow(doer, "members", "who"), column))
            yield QuestionCandidate(f"scene_{column}_of_last_in", about, slots, answer)
        for attribute in ("top_colour", "hair"):
            yield QuestionCandidate(
                f"scene_{attribute}_of_last_in", _look(doer, attribute), slots, f"scene:look:{attribute}"
            )


# What is heard


@register_family
def sound_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What is heard where, how often, and with what."""
    for zone in _values(tables, "scene_sounds", "zone"):
        yield QuestionCandidate(
            "scene_heard_in",
            OnlyValue(ColumnValues(Where(SOUNDS, "zone", zone), "sound")),
            {"zone": _zone(zone)},
            "scene:sound",
        )
    for sound in _values(tables, "scene_sounds", "sound"):
        rows, slots = Where(SOUNDS, "sound", sound), {"sound": QuestionSlot("scene:sound", sound)}
        yield QuestionCandidate("scene_room_of_sound", OnlyValue(ColumnValues(rows, "zone")), slots, "scene:zone")
        yield QuestionCandidate("scene_times_heard", RowCount(rows), slots, "times")
        maker = ColumnValues(Follow(ColumnValues(rows, "event"), "scene_acts", "event"), "who")
        yield QuestionCandidate("scene_who_with_sound", OnlyValue(maker), slots, "scene:actor")
        for attribute in ("top", "top_colour", "bottom_colour"):
            yield QuestionCandidate(
                f"scene_{attribute}_with_sound", _look(maker, attribute), slots, f"scene:look:{attribute}"
            )
        begin = OnlyValue(ColumnValues(Where(HEARD, "sound", sound), "start"))
        next_act = Where(TIMED, "start", begin, ">")
        for who in _values(tables, "scene_acts", "who"):
            after = Where(next_act, "who", who)
            named = {**slots, "who": _actor(who)}
            yield QuestionCandidate("scene_act_after_sound", _first(after, "act"), named, "scene:act")
            yield QuestionCandidate("scene_room_after_sound", _first(after, "zone"), named, "scene:zone")
    for name, last in (("first", False), ("last", True)):
        yield QuestionCandidate(f"scene_{name}_sound", _first(HEARD, "sound", last), {}, "scene:sound")


# What comes after what


@register_family
def order_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What comes next after something is done: an act, a thing, a room, another one who acts, a sound."""
    people = _values(tables, "scene_acts", "who")
    for act in _values(tables, "scene_acts", "act"):
        slots, since = {"act": act_slot(act)}, Where(TIMED, "start", _when(act), ">")
        yield QuestionCandidate(
            "scene_next_sound", _first(Where(HEARD, "start", _when(act), ">"), "sound"), slots, "scene:sound"
        )
        before = Where(HEARD, "start", _when(act), "<")
        yield QuestionCandidate("scene_sound_before", _first(before, "sound", True), slots, "scene:sound")
        for who in people:
            later, named = Where(since, "who", who), {**slots, "who": _actor(who)}
            yield QuestionCandidate("scene_next_act", _first(later, "act"), named, "scene:act")
            yield QuestionCandidate("scene_count_after", RowCount(later), named, "number")
            taken = Where(later, "do", "take")
            yield QuestionCandidate("scene_next_taken", _first(taken, "what"), named, "scene:thing")
        if act.who is not None:
            others = Where(since, "who", act.who, "!=")
            yield QuestionCandidate("scene_next_actor", _first(others, "who"), slots, "scene:actor")


@register_family
def seconds_between_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Seconds between two things that are done, and between a sound and something that is done."""
    acts = _values(tables, "scene_acts", "act")
    for one, other in zip(acts, acts[2:]):
        between = ValueGap(_when(one), _when(other))
        yield QuestionCandidate("scene_between", between, {"act": act_slot(one), "other": act_slot(other)}, "seconds")
    for sound in _values(tables, "scene_sounds", "sound"):
        begin = _first(Where(HEARD, "sound", sound), "start")
        for who in _values(tables, "scene_acts", "who"):
            last = _first(Where(TIMED, "who", who), "start", True)
            slots = {"sound": QuestionSlot("scene:sound", sound), "who": _actor(who)}
            yield QuestionCandidate("scene_sound_to_last", ValueGap(begin, last), slots, "seconds")


# How it ends, and who they are


@register_family
def end_state_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """The state and the place of a thing at the end, and where people and what they took are then."""
    for thing, attribute in dict.fromkeys((row["thing"], row["attribute"]) for row in tables.rows["scene_states"]):
        own = Where(Where(STATES, "thing", thing), "attribute", attribute)
        end, what = _first(own, "value", True), {"what": QuestionSlot("scene:thing", thing)}
        if attribute in CHANGING and _single(tables, thing):
            yield QuestionCandidate("scene_state_at_end", end, what, "scene:state")
        elif attribute == "place":
            yield QuestionCandidate("scene_place_at_end", end, what, "scene:spot")
        elif attribute in ("location", "posture"):
            kind = {"location": "scene:zone", "posture": "scene:posture"}[attribute]
            yield QuestionCandidate(f"scene_{attribute}_at_end", end, {"who": _actor(thing)}, kind)
    for who in _values(tables, "scene_acts", "who"):
        for name, last in (("first", False), ("last", True)):
            taken = Extreme(Where(Where(TIMED, "who", who), "do", "take"), "start", last)
            place = Where(Follow(ColumnValues(taken, "what"), "scene_states", "thing"), "attribute", "place")
            yield QuestionCandidate(
                f"scene_place_of_{name}_taken", _first(place, "value", True), {"who": _actor(who)}, "scene:spot"
            )


def _single(tables: HouseholdTables, thing: str) -> bool:
    """Whether a thing has one kind of state, so that a question about its state is clear."""
    kinds = {row["attribute"] for row in tables.rows["scene_states"] if row["thing"] == thing}
    return len(kinds & {*CHANGING}) == 1


@register_family
def doer_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What the person who does something looks like, does for a living, and how old they are."""
    for act in _values(tables, "scene_acts", "act"):
        if act.who is None:
            continue
        slots = {"act": act_slot(replace(act, who=SOMEBODY))}
        doer = ColumnValues(_like(act, "who"), "who")
        for column, answer in (("occupation", "occupations"), ("age", "years")):
            yield QuestionCandidate(
                f"scene_{column}_of_doer", OnlyValue(ColumnValues(Follow(doer, "members", "who"), column)), slots, answer
            )
        for attribute in ("top_colour", "hair", "feet"):
            yield QuestionCandidate(f"scene_{attribute}_of_doer", _look(doer, attribute), slots, f"scene:look:{attribute}")
