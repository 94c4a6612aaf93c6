"""Families of questions about the present scene: who does what, where, in which order, and what is heard and seen.

Invariants: those of `families.py`; a household without a transcript has no candidates, because its tables are empty; the
names of these families begin with `scene_`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

from homerl.envs.personalhome.tasks.questions.families import Candidate, Slot, family
from homerl.envs.personalhome.tasks.questions.programs import (
    Column,
    Count,
    Difference,
    Expression,
    Extreme,
    Follow,
    Table,
    The,
    Where,
)
from homerl.envs.personalhome.tasks.questions.scene_tables import LOOKS, Act
from homerl.envs.personalhome.tasks.questions.tables import Tables

ACTS, TIMED = Table("scene_acts"), Table("scene_acts_timed")
SOUNDS, HEARD = Table("scene_sounds"), Table("scene_sounds_timed")
STATES, THINGS, SEEN = Table("scene_states"), Table("scene_things"), Table("scene_looks")
CHANGING = ("power", "door", "condition", "use")  # attributes of things whose state may change
WHO, SOMEBODY, GAP = "?who", "?somebody", "?gap"  # what stands in an act for what is not said
LOOSE = {"what": "?anything", "at": "?anywhere", "zone": "?anywhere"}  # the same, by field


def act_slot(act: Act) -> Slot:
    """An act as a sentence names it."""
    return Slot("scene:act", act)


def _actor(who: str) -> Slot:
    return Slot("scene:actor", who)


def _zone(zone: str) -> Slot:
    return Slot("scene:zone", zone)


def _values(tables: Tables, table: str, column: str) -> list[Any]:
    """The values of a column, each once, in the order of the table."""
    return list(dict.fromkeys(row[column] for row in tables.rows[table] if row[column] is not None))


def _like(act: Act, unknown: str) -> Expression:
    """The rows of what is done as in an act, whatever the column is that is `unknown`."""
    rows: Expression = Where(ACTS, "do", act.do)
    for column in ("who", "what", "at", "zone"):
        value = getattr(act, column)
        if value is not None and column != unknown:
            rows = Where(rows, column, value)
    return rows


def _exactly(act: Act, table: Expression = TIMED) -> Expression:
    return Where(table, "act", act)


def _when(act: Act, column: str = "start") -> Expression:
    """The time of an act, in seconds."""
    return The(Column(_exactly(act), column))


def _first(rows: Expression, column: str, last: bool = False) -> Expression:
    """A value of the row that begins first, or last."""
    return The(Column(Extreme(rows, "start", last), column))


def _look(who: Expression, attribute: str) -> Expression:
    """What somebody looks like."""
    return The(Column(Where(Follow(who, "scene_looks", "who"), "attribute", attribute), "value"))


# What is seen at a glance


@family
def of_looks(tables: Tables) -> Iterator[Candidate]:
    """What people wear, and what appliances look like."""
    for row in tables.rows["scene_looks"]:
        one = Where(Where(SEEN, "who", row["who"]), "attribute", row["attribute"])
        slots, kind = {"who": _actor(row["who"])}, f"scene:look:{row['attribute']}"
        yield Candidate(f"scene_look_{row['attribute']}", The(Column(one, "value")), slots, kind)
    for attribute in LOOKS:
        for value in dict.fromkeys(row["value"] for row in tables.rows["scene_looks"] if row["attribute"] == attribute):
            one = Where(Where(SEEN, "attribute", attribute), "value", value)
            slots = {"look": Slot(f"scene:look:{attribute}", value)}
            yield Candidate(f"scene_who_has_{attribute}", The(Column(one, "who")), slots, "scene:actor")


@family
def of_settings(tables: Tables) -> Iterator[Candidate]:
    """Where landmarks are, what finish appliances have, where zones are in the picture, and the light."""
    owned = {row["appliance"] for row in tables.rows["appliances"]}
    for row in tables.rows["scene_things"]:
        attribute, thing = row["attribute"], row["thing"]
        one = Where(Where(THINGS, "thing", thing), "attribute", attribute)
        if attribute == "zone" and thing not in owned:
            yield Candidate(
                "scene_zone_of_thing", The(Column(one, "value")), {"what": Slot("scene:thing", thing)}, "scene:zone"
            )
        elif attribute == "finish":
            slots = {"what": Slot("scene:thing", thing)}
            yield Candidate("scene_finish", The(Column(one, "value")), slots, "scene:look:finish")
        elif attribute == "position":
            yield Candidate("scene_position", The(Column(one, "value")), {"zone": _zone(thing)}, "scene:look:position")
        elif attribute == "light":
            light = The(Column(Where(THINGS, "attribute", "light"), "value"))
            yield Candidate("scene_light", light, {}, "scene:look:light")


# What happens


@family
def of_acts(tables: Tables) -> Iterator[Candidate]:
    """Who does something, with what, where, how often and for how long."""
    for act in _values(tables, "scene_acts", "act"):
        slots = {"act": act_slot(act)}
        if act.zone is None:
            yield Candidate("scene_room_of_act", The(Column(_exactly(act, ACTS), "zone")), slots, "scene:zone")
        yield Candidate("scene_seconds", Difference(_when(act), _when(act, "end")), slots, "seconds")
        if act.who is not None:
            who, asked = The(Column(_like(act, "who"), "who")), {"act": act_slot(replace(act, who=WHO))}
            yield Candidate("scene_who", who, asked, "scene:actor")
        for column in ("what", "at"):
            if act.who is not None and getattr(act, column) is not None:
                missing = The(Column(_like(act, column), column))
                yield Candidate("scene_gap", missing, {"act": act_slot(replace(act, **{column: GAP}))}, "scene:thing")


@family
def of_kinds_of_acts(tables: Tables) -> Iterator[Candidate]:
    """How often somebody does a kind of thing, and with what they do it first and last."""
    for who, do in dict.fromkeys((row["who"], row["do"]) for row in tables.rows["scene_acts"] if row["who"]):
        like = next(row["act"] for row in tables.rows["scene_acts"] if (row["who"], row["do"]) == (who, do))
        loose = replace(like, **{name: text for name, text in LOOSE.items() if getattr(like, name) is not None})
        rows = Where(Where(TIMED, "who", who), "do", do)
        count = Count(Where(Where(ACTS, "who", who), "do", do))
        yield Candidate("scene_times", count, {"act": act_slot(loose)}, "times")
        if like.what is not None:
            slots = {"act": act_slot(replace(loose, what=GAP))}
            for name, last in (("first", False), ("last", True)):
                yield Candidate(f"scene_{name}_thing", _first(rows, "what", last), slots, "scene:thing")


@family
def of_actors(tables: Tables) -> Iterator[Candidate]:
    """What somebody does first and last, where, and how many things they do, by themselves and beside others."""
    for who in _values(tables, "scene_acts", "who"):
        rows, slots = Where(TIMED, "who", who), {"who": _actor(who)}
        for name, last in (("first", False), ("last", True)):
            yield Candidate(f"scene_{name}_act", _first(rows, "act", last), slots, "scene:act")
            yield Candidate(f"scene_{name}_room", _first(rows, "zone", last), slots, "scene:zone")
        span = Difference(_first(rows, "start"), _first(rows, "start", True))
        yield Candidate("scene_span", span, slots, "seconds")
        yield Candidate("scene_count", Count(Where(ACTS, "who", who)), slots, "number")
        for zone in _values(tables, "scene_acts", "zone"):
            within = Where(Where(ACTS, "who", who), "zone", zone)
            yield Candidate("scene_count_in", Count(within), {**slots, "zone": _zone(zone)}, "number")
    for one, other in permutations(_values(tables, "scene_acts", "who"), 2):
        more = Difference(*(Count(Where(ACTS, "who", who)) for who in (one, other)))
        yield Candidate("scene_more", more, {"who": _actor(one), "other": _actor(other)}, "number")


@family
def of_zones(tables: Tables) -> Iterator[Candidate]:
    """Who acts first and last in a zone, and who that is."""
    for zone in _values(tables, "scene_acts", "zone"):
        rows, slots = Where(Where(TIMED, "zone", zone), "who", "", "!="), {"zone": _zone(zone)}
        for name, last in (("first", False), ("last", True)):
            yield Candidate(f"scene_{name}_in", _first(rows, "who", last), slots, "scene:actor")
        doer = Column(Extreme(rows, "start"), "who")
        for column, answer in (("occupation", "occupations"), ("age", "years")):
            about = The(Column(Follow(doer, "members", "who"), column))
            yield Candidate(f"scene_{column}_of_last_in", about, slots, answer)
        for attribute in ("top_colour", "hair"):
            yield Candidate(f"scene_{attribute}_of_last_in", _look(doer, attribute), slots, f"scene:look:{attribute}")


# What is heard


@family
def of_sounds(tables: Tables) -> Iterator[Candidate]:
    """What is heard where, how often, and with what."""
    for zone in _values(tables, "scene_sounds", "zone"):
        yield Candidate(
            "scene_heard_in", The(Column(Where(SOUNDS, "zone", zone), "sound")), {"zone": _zone(zone)}, "scene:sound"
        )
    for sound in _values(tables, "scene_sounds", "sound"):
        rows, slots = Where(SOUNDS, "sound", sound), {"sound": Slot("scene:sound", sound)}
        yield Candidate("scene_room_of_sound", The(Column(rows, "zone")), slots, "scene:zone")
        yield Candidate("scene_times_heard", Count(rows), slots, "times")
        maker = Column(Follow(Column(rows, "event"), "scene_acts", "event"), "who")
        yield Candidate("scene_who_with_sound", The(maker), slots, "scene:actor")
        for attribute in ("top", "top_colour", "bottom_colour"):
            yield Candidate(f"scene_{attribute}_with_sound", _look(maker, attribute), slots, f"scene:look:{attribute}")
        begin = The(Column(Where(HEARD, "sound", sound), "start"))
        next_act = Where(TIMED, "start", begin, ">")
        for who in _values(tables, "scene_acts", "who"):
            after = Where(next_act, "who", who)
            named = {**slots, "who": _actor(who)}
            yield Candidate("scene_act_after_sound", _first(after, "act"), named, "scene:act")
            yield Candidate("scene_room_after_sound", _first(after, "zone"), named, "scene:zone")
    for name, last in (("first", False), ("last", True)):
        yield Candidate(f"scene_{name}_sound", _first(HEARD, "sound", last), {}, "scene:sound")


# What comes after what


@family
def of_order(tables: Tables) -> Iterator[Candidate]:
    """What comes next after something is done: an act, a thing, a room, another one who acts, a sound."""
    people = _values(tables, "scene_acts", "who")
    for act in _values(tables, "scene_acts", "act"):
        slots, since = {"act": act_slot(act)}, Where(TIMED, "start", _when(act), ">")
        yield Candidate("scene_next_sound", _first(Where(HEARD, "start", _when(act), ">"), "sound"), slots, "scene:sound")
        before = Where(HEARD, "start", _when(act), "<")
        yield Candidate("scene_sound_before", _first(before, "sound", True), slots, "scene:sound")
        for who in people:
            later, named = Where(since, "who", who), {**slots, "who": _actor(who)}
            yield Candidate("scene_next_act", _first(later, "act"), named, "scene:act")
            yield Candidate("scene_count_after", Count(later), named, "number")
            taken = Where(later, "do", "take")
            yield Candidate("scene_next_taken", _first(taken, "what"), named, "scene:thing")
        if act.who is not None:
            others = Where(since, "who", act.who, "!=")
            yield Candidate("scene_next_actor", _first(others, "who"), slots, "scene:actor")


@family
def of_seconds(tables: Tables) -> Iterator[Candidate]:
    """Seconds between two things that are done, and between a sound and something that is done."""
    acts = _values(tables, "scene_acts", "act")
    for one, other in zip(acts, acts[2:]):
        between = Difference(_when(one), _when(other))
        yield Candidate("scene_between", between, {"act": act_slot(one), "other": act_slot(other)}, "seconds")
    for sound in _values(tables, "scene_sounds", "sound"):
        begin = _first(Where(HEARD, "sound", sound), "start")
        for who in _values(tables, "scene_acts", "who"):
            last = _first(Where(TIMED, "who", who), "start", True)
            slots = {"sound": Slot("scene:sound", sound), "who": _actor(who)}
            yield Candidate("scene_sound_to_last", Difference(begin, last), slots, "seconds")


# How it ends, and who they are


@family
def of_ends(tables: Tables) -> Iterator[Candidate]:
    """The state and the place of a thing at the end, and where people and what they took are then."""
    for thing, attribute in dict.fromkeys((row["thing"], row["attribute"]) for row in tables.rows["scene_states"]):
        own = Where(Where(STATES, "thing", thing), "attribute", attribute)
        end, what = _first(own, "value", True), {"what": Slot("scene:thing", thing)}
        if attribute in CHANGING and _single(tables, thing):
            yield Candidate("scene_state_at_end", end, what, "scene:state")
        elif attribute == "place":
            yield Candidate("scene_place_at_end", end, what, "scene:spot")
        elif attribute in ("location", "posture"):
            kind = {"location": "scene:zone", "posture": "scene:posture"}[attribute]
            yield Candidate(f"scene_{attribute}_at_end", end, {"who": _actor(thing)}, kind)
    for who in _values(tables, "scene_acts", "who"):
        for name, last in (("first", False), ("last", True)):
            taken = Extreme(Where(Where(TIMED, "who", who), "do", "take"), "start", last)
            place = Where(Follow(Column(taken, "what"), "scene_states", "thing"), "attribute", "place")
            yield Candidate(f"scene_place_of_{name}_taken", _first(place, "value", True), {"who": _actor(who)}, "scene:spot")


def _single(tables: Tables, thing: str) -> bool:
    """Whether a thing has one kind of state, so that a question about its state is clear."""
    kinds = {row["attribute"] for row in tables.rows["scene_states"] if row["thing"] == thing}
    return len(kinds & {*CHANGING}) == 1


@family
def of_doers(tables: Tables) -> Iterator[Candidate]:
    """What the person who does something looks like, does for a living, and how old they are."""
    for act in _values(tables, "scene_acts", "act"):
        if act.who is None:
            continue
        slots = {"act": act_slot(replace(act, who=SOMEBODY))}
        doer = Column(_like(act, "who"), "who")
        for column, answer in (("occupation", "occupations"), ("age", "years")):
            yield Candidate(f"scene_{column}_of_doer", The(Column(Follow(doer, "members", "who"), column)), slots, answer)
        for attribute in ("top_colour", "hair", "feet"):
            yield Candidate(f"scene_{attribute}_of_doer", _look(doer, attribute), slots, f"scene:look:{attribute}")
