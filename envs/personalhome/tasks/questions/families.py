"""Families of questions: which programs can be asked of a household, and of its present scene.

A family yields every candidate that its tables suggest. Whether a candidate has exactly one answer is found by running it.

Invariants:
- Candidates come in the order of the tables, so a seed draws the same ones.
- The slots of a candidate are all that its sentence names.
- Names of families of the scene begin with `scene_`. Without a transcript they have no candidates, because the tables of the
  scene are empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from homerl.envs.personalhome.sim.vocabulary import FACT_UNITS, load_vocabulary
from homerl.envs.personalhome.tasks.questions.question_programs import (
    CHANGING,
    LOOKS,
    ColumnValues,
    Expression,
    Extreme,
    Follow,
    HouseholdTables,
    OnlyValue,
    RowCount,
    SceneAct,
    Shared,
    TableRows,
    Total,
    UsualValue,
    ValueGap,
    Where,
    YearsSince,
    only_value,
    rows_where,
)

MEMORIES, EVENTS, MEMBERS = TableRows("memories"), TableRows("events"), TableRows("members")
DONE = ("cooked", "used", "travelled", "complained", "ill", "bought", "celebrated", "cared", "repaired", "learned")
OBJECT = {"used": "appliance", "repaired": "appliance"}  # what a deed is done to; of other kinds it is `what`
SUMMED = ("travelled", "ill", "used", "bought")  # kinds of deeds whose values are added


@dataclass(frozen=True)
class Deed:
    """Something that people do, as a question names it: the kind of fact, and what it is done to (None: anything)."""

    kind: str
    object: str | None = None


# What a sentence names: the name in the frame -> what kind of thing it is, such as `person` or `dishes`, and its value.
Slots = Mapping[str, tuple[str, Any]]


@dataclass(frozen=True)
class QuestionCandidate:
    """A question that might be asked. `answer` is the kind of its answer."""

    family: str
    program: Expression
    slots: Slots
    answer: str


Row = tuple[str, Expression, Slots, str]  # the fields of a `QuestionCandidate`
Family = Callable[[HouseholdTables], Iterator[Row]]
FAMILIES: list[Family] = []


def register_family(function: Family) -> Family:
    """Register a function that yields the fields of candidates: name, program, slots, and kind of the answer.

    Example:
        @register_family
        def pet_questions(tables):
            for row in tables.rows["pets"]:
                yield "pet_age", only_value(rows_where(PETS, pet=row["pet"]), "age"), {"pet": ("pet", row["pet"])}, "years"
    """
    FAMILIES.append(function)
    return function


def question_candidates(tables: HouseholdTables) -> list[QuestionCandidate]:
    """All candidates of all families."""
    return [QuestionCandidate(*row) for family in FAMILIES for row in family(tables)]


def has_number(row: Mapping[str, Any]) -> bool:
    """Whether the value of a row is a number: `on` and `true` are none."""
    return isinstance(row["value"], int | float) and not isinstance(row["value"], bool)


def _number_kind(unit: str | None) -> str:
    """The kind of an answer that is a number in a unit."""
    return f"number:{unit}" if unit else "number"


def object_column(kind: str) -> str:
    """The column that says what a deed is done to."""
    return OBJECT.get(kind, "what")


def object_kind(kind: str) -> str:
    """The kind of an answer that says what a deed is done to."""
    return OBJECT.get(kind) or f"what:{kind}"


def key_group(kind: str) -> str:
    """The group of `vocabulary.yaml` that keys of a kind are from: `dishes` for `what:cooked`, otherwise the kind itself."""
    fact = load_vocabulary().facts.get(kind.removeprefix("what:"))
    return (fact and fact.what) or kind


def _count_deeds(tables: HouseholdTables) -> Counter[tuple[str, Deed]]:
    """How often each person did, and remembers, each deed."""
    deeds: Counter[tuple[str, Deed]] = Counter()
    for row in tables.rows["memories"]:
        done_to = row[object_column(row["kind"])]
        if row["kind"] in DONE and row["who"] is not None and done_to is not None:
            deeds[row["who"], Deed(row["kind"], done_to)] += 1
    return deeds


def _deed_rows(deed: Deed, who: str | None = None) -> Expression:
    """The memories of a deed, of one person or of all."""
    rows = rows_where(MEMORIES, kind=deed.kind, **({"who": who} if who is not None else {}))
    return rows if deed.object is None else Where(rows, object_column(deed.kind), deed.object)


def _latest_value(rows: Expression, column: str) -> Expression:
    return only_value(Extreme(rows, "time"), column)


# Looking up


@register_family
def people_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Occupation and age of a person, and who has an occupation or a hobby."""
    for row in tables.rows["members"]:
        one, slots = rows_where(MEMBERS, who=row["who"]), {"who": ("person", row["who"])}
        yield "occupation_of", only_value(one, "occupation"), slots, "occupations"
        yield "age_of", only_value(one, "age"), slots, "years"
    for table, column, kind in (("members", "occupation", "occupations"), ("hobbies", "hobby", "hobbies")):
        for value in dict.fromkeys(row[column] for row in tables.rows[table]):
            who = only_value(Where(TableRows(table), column, value), "who")
            yield f"who_has_{column}", who, {"what": (kind, value)}, "person"


@register_family
def extremes_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What the oldest and the youngest person do."""
    if len(tables.rows["members"]) > 1:
        for name, largest in (("oldest", True), ("youngest", False)):
            occupation = only_value(Extreme(MEMBERS, "age", largest), "occupation")
            yield f"occupation_of_{name}", occupation, {}, "occupations"


@register_family
def pet_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Age and animal of a pet."""
    for row in tables.rows["pets"]:
        one, slots = rows_where(TableRows("pets"), pet=row["pet"]), {"pet": ("pet", row["pet"])}
        yield "pet_age", only_value(one, "age"), slots, "years"
        yield "pet_animal", only_value(one, "animal"), slots, "animals"


@register_family
def place_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Where an appliance or a sensor is."""
    for table, column in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            place = only_value(Where(TableRows(table), column, row[column]), "room")
            yield f"place_of_{column}", place, {column: (column, row[column])}, "room"


@register_family
def state_questions(tables: HouseholdTables) -> Iterator[Row]:
    """A number that an appliance is at, or that a sensor reads."""
    for table, column in (("states", "appliance"), ("readings", "sensor")):
        for row in tables.rows[table]:
            if not has_number(row):
                continue
            value = only_value(rows_where(TableRows(table), **{column: row[column], "attribute": row["attribute"]}), "value")
            slots = {column: (column, row[column]), "attribute": ("attribute", row["attribute"])}
            yield f"state_of_{column}", value, slots, _number_kind(row["unit"])


@register_family
def weather_questions(tables: HouseholdTables) -> Iterator[Row]:
    """The weather outside and the air inside."""
    for row in tables.rows["weather"]:
        value = only_value(rows_where(TableRows("weather"), side=row["side"], quantity=row["quantity"]), "value")
        kind = "share" if row["quantity"] == "sunny" else _number_kind(row["unit"])
        yield f"weather_{row['side']}_{row['quantity']}", value, {}, kind


@register_family
def life_event_questions(tables: HouseholdTables) -> Iterator[Row]:
    """When something happened in a life, and how many years ago."""
    for row in tables.rows["life"]:
        day = only_value(rows_where(TableRows("life"), who=row["who"], kind=row["kind"]), "date")
        slots = {"who": ("person", row["who"]), "what": ("life_events", row["kind"])}
        yield "date_of_life_event", day, slots, "date"
        yield "years_since_life_event", YearsSince(day), slots, "span"


# Remembering


@register_family
def deed_time_questions(tables: HouseholdTables) -> Iterator[Row]:
    """How often a person did something, and when last.

    Most deeds were done once, so 1 would be a good guess. Of those, only as many are asked for as were done twice.
    """
    deeds = _count_deeds(tables)
    once = [deed for deed, count in deeds.items() if count == 1]
    twice = sum(count == 2 for count in deeds.values())
    counted = {deed for deed, count in deeds.items() if count > 1}
    counted |= {once[at * len(once) // twice] for at in range(twice) if once}
    for who, deed in deeds:
        rows, slots = _deed_rows(deed, who), {"who": ("person", who), "deed": ("deed", deed)}
        if (who, deed) in counted:
            yield "times", RowCount(rows), slots, "times"
        yield "last_day", _latest_value(rows, "date"), slots, "date"


@register_family
def deed_kind_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What a person did last, what most often, and how much in all."""
    for who, kind in dict.fromkeys((who, deed.kind) for who, deed in _count_deeds(tables)):
        rows, column, slots = _deed_rows(Deed(kind), who), object_column(kind), {"who": ("person", who)}
        yield f"last_{kind}", _latest_value(rows, column), slots, object_kind(kind)
        yield f"usually_{kind}", UsualValue(ColumnValues(rows, column)), slots, object_kind(kind)
        if kind in SUMMED:
            yield f"total_{kind}", Total(ColumnValues(rows, "value")), slots, _number_kind(FACT_UNITS[kind])


@register_family
def setting_questions(tables: HouseholdTables) -> Iterator[Row]:
    """To what an appliance was last set, and by whom."""
    rows_set = {(row["appliance"], row["what"]): row for row in tables.rows["memories"] if row["kind"] == "adjusted"}
    for (appliance, what), row in rows_set.items():
        rows = rows_where(MEMORIES, kind="adjusted", appliance=appliance, what=what)
        slots = {"appliance": ("appliance", appliance), "what": ("quantities", what)}
        yield "last_setting", _latest_value(rows, "value"), slots, _number_kind(row["unit"])
        yield "who_set_last", _latest_value(rows, "who"), slots, "person"


@register_family
def recent_event_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Who entered a room last, and what was last measured or noticed."""
    for kind, column, slot, name, answer in (
        ("entered", "room", "room", "who", "person"),
        ("measured", "what", "quantities", "value", "number"),
        ("noticed", "what", "signs", "room", "room"),
        ("used", "appliance", "appliance", "who", "person"),
    ):
        events = {row[column]: row for row in tables.rows["events"] if row["kind"] == kind and row[column]}
        for value, row in events.items():
            found = _latest_value(rows_where(EVENTS, **{"kind": kind, column: value}), name)
            answer_kind = _number_kind(row["unit"]) if answer == "number" else answer
            yield f"last_{kind}_event", found, {"what": (slot, value)}, answer_kind


# Putting together


@register_family
def two_people_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What two people have in common, and how much more often one did something."""
    for pair in permutations([row["who"] for row in tables.rows["members"]], 2):
        slots = {"who": ("person", pair[0]), "other": ("person", pair[1])}
        if pair[0] < pair[1]:
            shared = Shared(*(ColumnValues(rows_where(TableRows("hobbies"), who=who), "hobby") for who in pair))
            yield "shared_hobby", OnlyValue(shared), slots, "hobbies"
        for kind in DONE:
            more = ValueGap(*(RowCount(_deed_rows(Deed(kind), who)) for who in pair))
            yield "more_often", more, {**slots, "deed": ("deed", Deed(kind))}, "times"
        for kind in ("travelled", "ill"):
            apart = ValueGap(*(Total(ColumnValues(_deed_rows(Deed(kind), who), "value")) for who in pair))
            yield f"difference_{kind}", apart, slots, _number_kind("day")


@register_family
def last_doer_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Occupation and age of whoever did something last."""
    for deed in dict.fromkeys(deed for _, deed in _count_deeds(tables)):
        doer = Follow(ColumnValues(Extreme(_deed_rows(deed), "time"), "who"), "members", "who")
        yield "occupation_of_last", only_value(doer, "occupation"), {"deed": ("deed", deed)}, "occupations"
        yield "age_of_last", only_value(doer, "age"), {"deed": ("deed", deed)}, "years"


@register_family
def days_apart_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Days between the last times that a person did two things, and what came first after the other."""
    deeds = _count_deeds(tables)
    for who in (row["who"] for row in tables.rows["members"]):
        kinds = dict.fromkeys(deed.kind for doer, deed in deeds if doer == who)
        for one, other in permutations(kinds, 2):
            slots = {"who": ("person", who), "deed": ("deed", Deed(one)), "other": ("deed", Deed(other))}
            rows, last = _deed_rows(Deed(one), who), _latest_value(_deed_rows(Deed(other), who), "time")
            if one < other:
                yield "days_apart", ValueGap(_latest_value(rows, "time"), last), slots, _number_kind("day")
            first = Extreme(Where(rows, "time", last, ">"), "time", largest=False)
            yield f"first_after_{one}", only_value(first, object_column(one)), slots, object_kind(one)


@register_family
def breakdown_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Who repaired what broke last, and where that stands."""
    broken = _latest_value(rows_where(MEMORIES, kind="broke"), "appliance")
    repairs = rows_where(MEMORIES, kind="repaired", appliance=broken)
    yield "who_repaired_last_broken", _latest_value(repairs, "who"), {}, "person"
    yield "day_repaired_last_broken", _latest_value(repairs, "date"), {}, "date"
    for who in (row["who"] for row in tables.rows["members"]):
        used = ColumnValues(Extreme(_deed_rows(Deed("used"), who), "time"), "appliance")
        place = only_value(Follow(used, "appliances", "appliance"), "room")
        yield "place_of_last_used", place, {"who": ("person", who)}, "room"


ACTS, TIMED = TableRows("scene_acts"), TableRows("scene_acts_timed")
SOUNDS, HEARD = TableRows("scene_sounds"), TableRows("scene_sounds_timed")
STATES, THINGS, SEEN = TableRows("scene_states"), TableRows("scene_things"), TableRows("scene_looks")
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
