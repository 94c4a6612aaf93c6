"""Families of questions about the present scene: who does what, where, in which order, and what is heard and seen.

Invariants: those of `families.py`; a household without a transcript has no candidates, because its tables are empty; the
names of these families begin with `scene_`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from homerl.envs.personalhome.tasks.questions.families import Row, Slots, register_family
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
    only_value,
    rows_where,
)

ACTS, TIMED = TableRows("scene_acts"), TableRows("scene_acts_timed")
SOUNDS, HEARD = TableRows("scene_sounds"), TableRows("scene_sounds_timed")
STATES, THINGS, SEEN = TableRows("scene_states"), TableRows("scene_things"), TableRows("scene_looks")
CHANGING = ("power", "door", "condition", "use")  # attributes of things whose state may change
WHO, SOMEBODY, GAP = "?who", "?somebody", "?gap"  # what stands in an act for what is not said
LOOSE = {"what": "?anything", "at": "?anywhere", "zone": "?anywhere"}  # the same, by field
ENDS = (("first", False), ("last", True))  # name -> whether it begins last
ACT, ACTOR, THING, ZONE = "scene:act", "scene:actor", "scene:thing", "scene:zone"  # kinds of slots and answers


def _column_values(tables: HouseholdTables, table: str, column: str) -> list[Any]:
    """The values of a column, each once, in the order of the table."""
    return list(dict.fromkeys(row[column] for row in tables.rows[table] if row[column] is not None))


def _rows_like(act: SceneAct, unknown: str) -> Expression:
    """The rows of what is done as in an act, whatever the column is that is `unknown`."""
    known = {column: getattr(act, column) for column in ("who", "what", "at", "zone") if column != unknown}
    return rows_where(ACTS, do=act.do, **{column: value for column, value in known.items() if value is not None})


def _start_of_act(act: SceneAct) -> Expression:
    """When an act begins, in seconds."""
    return only_value(rows_where(TIMED, act=act), "start")


def _end_value(rows: Expression, column: str, last: bool = False) -> Expression:
    """A value of the row that begins first, or last."""
    return only_value(Extreme(rows, "start", last), column)


def _person_questions(doer: Expression, looks: Sequence[str], slots: Slots, name: str) -> Iterator[Row]:
    """What the person whose id is given does for a living, how old they are, and what they look like."""
    for column, answer in (("occupation", "occupations"), ("age", "years")):
        yield f"scene_{column}_{name}", only_value(Follow(doer, "members", "who"), column), slots, answer
    yield from _look_questions(doer, looks, slots, name)


def _look_questions(who: Expression, looks: Sequence[str], slots: Slots, name: str) -> Iterator[Row]:
    for attribute in looks:
        value = only_value(rows_where(Follow(who, "scene_looks", "who"), attribute=attribute), "value")
        yield f"scene_{attribute}_{name}", value, slots, f"scene:look:{attribute}"


# What is seen at a glance


@register_family
def look_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What people wear, and what appliances look like."""
    for row in tables.rows["scene_looks"]:
        who, attribute = row["who"], row["attribute"]
        look = only_value(rows_where(SEEN, who=who, attribute=attribute), "value")
        yield f"scene_look_{attribute}", look, {"who": (ACTOR, who)}, f"scene:look:{attribute}"
    for attribute in LOOKS:
        for value in dict.fromkeys(row["value"] for row in tables.rows["scene_looks"] if row["attribute"] == attribute):
            who = only_value(rows_where(SEEN, attribute=attribute, value=value), "who")
            yield f"scene_who_has_{attribute}", who, {"look": (f"scene:look:{attribute}", value)}, ACTOR


@register_family
def scene_setting_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Where landmarks are, what finish appliances have, where zones are in the picture, and the light."""
    owned = {row["appliance"] for row in tables.rows["appliances"]}
    for row in tables.rows["scene_things"]:
        attribute, thing = row["attribute"], row["thing"]
        value = only_value(rows_where(THINGS, thing=thing, attribute=attribute), "value")
        if attribute == "zone" and thing not in owned:
            yield "scene_zone_of_thing", value, {"what": (THING, thing)}, ZONE
        elif attribute == "finish":
            yield "scene_finish", value, {"what": (THING, thing)}, "scene:look:finish"
        elif attribute == "position":
            yield "scene_position", value, {"zone": (ZONE, thing)}, "scene:look:position"
        elif attribute == "light":
            yield "scene_light", only_value(rows_where(THINGS, attribute="light"), "value"), {}, "scene:look:light"


# What happens


@register_family
def act_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Who does something, with what, where, how often and for how long."""
    for act in _column_values(tables, "scene_acts", "act"):
        slots = {"act": (ACT, act)}
        if act.zone is None:
            yield "scene_room_of_act", only_value(rows_where(ACTS, act=act), "zone"), slots, ZONE
        seconds = ValueGap(_start_of_act(act), only_value(rows_where(TIMED, act=act), "end"))
        yield "scene_seconds", seconds, slots, "seconds"
        if act.who is None:
            continue
        yield "scene_who", only_value(_rows_like(act, "who"), "who"), {"act": (ACT, replace(act, who=WHO))}, ACTOR
        for column in ("what", "at"):
            if getattr(act, column) is not None:
                missing = only_value(_rows_like(act, column), column)
                yield "scene_gap", missing, {"act": (ACT, replace(act, **{column: GAP}))}, THING


@register_family
def act_kind_questions(tables: HouseholdTables) -> Iterator[Row]:
    """How often somebody does a kind of thing, and with what they do it first and last."""
    for who, do in dict.fromkeys((row["who"], row["do"]) for row in tables.rows["scene_acts"] if row["who"]):
        like = next(row["act"] for row in tables.rows["scene_acts"] if (row["who"], row["do"]) == (who, do))
        loose = replace(like, **{name: text for name, text in LOOSE.items() if getattr(like, name) is not None})
        yield "scene_times", RowCount(rows_where(ACTS, who=who, do=do)), {"act": (ACT, loose)}, "times"
        if like.what is not None:
            for name, last in ENDS:
                thing = _end_value(rows_where(TIMED, who=who, do=do), "what", last)
                yield f"scene_{name}_thing", thing, {"act": (ACT, replace(loose, what=GAP))}, THING


@register_family
def actor_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What somebody does first and last, where, and how many things they do, by themselves and beside others."""
    people = _column_values(tables, "scene_acts", "who")
    for who in people:
        rows, slots = rows_where(TIMED, who=who), {"who": (ACTOR, who)}
        for name, last in ENDS:
            yield f"scene_{name}_act", _end_value(rows, "act", last), slots, ACT
            yield f"scene_{name}_room", _end_value(rows, "zone", last), slots, ZONE
        yield "scene_span", ValueGap(_end_value(rows, "start"), _end_value(rows, "start", True)), slots, "seconds"
        yield "scene_count", RowCount(rows_where(ACTS, who=who)), slots, "number"
        for zone in _column_values(tables, "scene_acts", "zone"):
            yield "scene_count_in", RowCount(rows_where(ACTS, who=who, zone=zone)), {**slots, "zone": (ZONE, zone)}, "number"
    for one, other in permutations(people, 2):
        more = ValueGap(*(RowCount(rows_where(ACTS, who=who)) for who in (one, other)))
        yield "scene_more", more, {"who": (ACTOR, one), "other": (ACTOR, other)}, "number"


@register_family
def zone_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Who acts first and last in a zone, and who that is."""
    for zone in _column_values(tables, "scene_acts", "zone"):
        rows, slots = Where(rows_where(TIMED, zone=zone), "who", "", "!="), {"zone": (ZONE, zone)}
        for name, last in ENDS:
            yield f"scene_{name}_in", _end_value(rows, "who", last), slots, ACTOR
        doer = ColumnValues(Extreme(rows, "start"), "who")
        yield from _person_questions(doer, ("top_colour", "hair"), slots, "of_last_in")


# What is heard


@register_family
def sound_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What is heard where, how often, and with what."""
    for zone in _column_values(tables, "scene_sounds", "zone"):
        yield "scene_heard_in", only_value(rows_where(SOUNDS, zone=zone), "sound"), {"zone": (ZONE, zone)}, "scene:sound"
    for sound in _column_values(tables, "scene_sounds", "sound"):
        rows, slots = rows_where(SOUNDS, sound=sound), {"sound": ("scene:sound", sound)}
        yield "scene_room_of_sound", only_value(rows, "zone"), slots, ZONE
        yield "scene_times_heard", RowCount(rows), slots, "times"
        maker = ColumnValues(Follow(ColumnValues(rows, "event"), "scene_acts", "event"), "who")
        yield "scene_who_with_sound", OnlyValue(maker), slots, ACTOR
        yield from _look_questions(maker, ("top", "top_colour", "bottom_colour"), slots, "with_sound")
        begin = only_value(rows_where(HEARD, sound=sound), "start")
        for who in _column_values(tables, "scene_acts", "who"):
            after, named = rows_where(Where(TIMED, "start", begin, ">"), who=who), {**slots, "who": (ACTOR, who)}
            yield "scene_act_after_sound", _end_value(after, "act"), named, ACT
            yield "scene_room_after_sound", _end_value(after, "zone"), named, ZONE
    for name, last in ENDS:
        yield f"scene_{name}_sound", _end_value(HEARD, "sound", last), {}, "scene:sound"


# What comes after what


@register_family
def order_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What comes next after something is done: an act, a thing, a room, another one who acts, a sound."""
    for act in _column_values(tables, "scene_acts", "act"):
        slots, begin = {"act": (ACT, act)}, _start_of_act(act)
        since = Where(TIMED, "start", begin, ">")
        yield "scene_next_sound", _end_value(Where(HEARD, "start", begin, ">"), "sound"), slots, "scene:sound"
        before = Where(HEARD, "start", begin, "<")
        yield "scene_sound_before", _end_value(before, "sound", True), slots, "scene:sound"
        for who in _column_values(tables, "scene_acts", "who"):
            later, named = rows_where(since, who=who), {**slots, "who": (ACTOR, who)}
            yield "scene_next_act", _end_value(later, "act"), named, ACT
            yield "scene_count_after", RowCount(later), named, "number"
            yield "scene_next_taken", _end_value(rows_where(later, do="take"), "what"), named, THING
        if act.who is not None:
            yield "scene_next_actor", _end_value(Where(since, "who", act.who, "!="), "who"), slots, ACTOR


@register_family
def seconds_between_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Seconds between two things that are done, and between a sound and something that is done."""
    acts = _column_values(tables, "scene_acts", "act")
    for one, other in zip(acts, acts[2:]):
        between = ValueGap(_start_of_act(one), _start_of_act(other))
        yield "scene_between", between, {"act": (ACT, one), "other": (ACT, other)}, "seconds"
    for sound in _column_values(tables, "scene_sounds", "sound"):
        begin = _end_value(rows_where(HEARD, sound=sound), "start")
        for who in _column_values(tables, "scene_acts", "who"):
            last = _end_value(rows_where(TIMED, who=who), "start", True)
            slots = {"sound": ("scene:sound", sound), "who": (ACTOR, who)}
            yield "scene_sound_to_last", ValueGap(begin, last), slots, "seconds"


# How it ends, and who they are


@register_family
def end_state_questions(tables: HouseholdTables) -> Iterator[Row]:
    """The state and the place of a thing at the end, and where people and what they took are then."""
    states = tables.rows["scene_states"]
    for thing, attribute in dict.fromkeys((row["thing"], row["attribute"]) for row in states):
        end = _end_value(rows_where(STATES, thing=thing, attribute=attribute), "value", True)
        changing = {row["attribute"] for row in states if row["thing"] == thing} & {*CHANGING}
        if attribute in CHANGING and len(changing) == 1:  # of a thing with two kinds of states the question is not clear
            yield "scene_state_at_end", end, {"what": (THING, thing)}, "scene:state"
        elif attribute == "place":
            yield "scene_place_at_end", end, {"what": (THING, thing)}, "scene:spot"
        elif attribute in ("location", "posture"):
            kind = {"location": ZONE, "posture": "scene:posture"}[attribute]
            yield f"scene_{attribute}_at_end", end, {"who": (ACTOR, thing)}, kind
    for who in _column_values(tables, "scene_acts", "who"):
        for name, last in ENDS:
            taken = ColumnValues(Extreme(rows_where(TIMED, who=who, do="take"), "start", last), "what")
            place = _end_value(rows_where(Follow(taken, "scene_states", "thing"), attribute="place"), "value", True)
            yield f"scene_place_of_{name}_taken", place, {"who": (ACTOR, who)}, "scene:spot"


@register_family
def doer_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What the person who does something looks like, does for a living, and how old they are."""
    for act in _column_values(tables, "scene_acts", "act"):
        if act.who is not None:
            slots, doer = {"act": (ACT, replace(act, who=SOMEBODY))}, ColumnValues(_rows_like(act, "who"), "who")
            yield from _person_questions(doer, ("top_colour", "hair", "feet"), slots, "of_doer")
