"""The settings `sole` and `agentic` show the same: what a question rests on is in the prompt, and in what a tool returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from crossed import crossed

from homerl.envs.personalhome.sim.env import call_household_tool
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household import Fact, Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.vocabulary import household_cast, load_fact_words
from homerl.envs.personalhome.tasks.author import task_to_blueprint
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeRecipe, Plans
from homerl.envs.personalhome.tasks.questions.question_programs import FACT, Row, make_household_tables
from homerl.envs.personalhome.tasks.situation import personalhome_system_prompt

Shown = Mapping[str, Any]


class Place(NamedTuple):
    """Where evidence is shown: by a call, in a part of its result, and in a part of the whole household."""

    tool: str
    arguments: dict[str, Any]
    in_result: Callable[[Any], Shown]
    in_whole: Callable[[Shown], Shown]


Find = Callable[[HouseholdState, str], Place]


def told(household: Household) -> Shown:
    """The household that the prompt of `sole` holds."""
    recipe = PersonalHomeRecipe(world="personalhome", setting="sole")
    task = Plans(situations=household.context.situations, evidence=())
    prompt = personalhome_system_prompt(task_to_blueprint(household, task, "one", 0, "train", recipe))
    (line,) = (line for line in prompt.splitlines() if line.startswith('{"household_id"'))
    found: Shown = json.loads(line)
    return found


def of_member(state: HouseholdState, id: str) -> Place:
    at = [member.member_id for member in state.household.members].index(id)
    return Place("get_household_member_info", {"member_ids": [id]}, lambda rows: rows[0], lambda all: all["members"][at])


def of_life(state: HouseholdState, id: str) -> Place:
    at = [member.member_id for member in state.household.members].index(id)
    return Place("get_household_member_major_events", {"member_id": id}, lambda row: row, lambda all: all["members"][at])


def of_pet(state: HouseholdState, name: str) -> Place:
    at = [pet.name for pet in state.household.pets].index(name)
    return Place("get_household_profile", {}, lambda row: row["pets"][at], lambda all: all["pets"][at])


def of_memory(state: HouseholdState, n: str) -> Place:
    memory = state.household.memories[int(n)]
    return Place(
        "get_household_memories",
        {"search_string": memory.memory, "num_memories": 50},
        lambda rows: next(row for row in rows if row["memory"] == memory.memory and row["time"] == f"{memory.time:%FT%R}"),
        lambda all: all["memories"][int(n)],
    )


def of_event(state: HouseholdState, n: str) -> Place:
    event = state.household.context.events[int(n)]

    def line(text: str) -> Shown:
        assert f"{event.time:%FT%R} {event.description}" in text.splitlines()
        return {"time": f"{event.time:%FT%R}", "description": event.description}

    tool = "get_contextual_event_descriptions"
    return Place(tool, {"compact": True}, line, lambda all: all["context"]["events"][int(n)])


def of_weather(state: HouseholdState, _: str) -> Place:
    return Place("get_weather", {}, lambda row: row, lambda all: all["context"]["weather"])


def of_owned(state: HouseholdState, name: str, kind: str) -> Place:
    def pick(rows: list[Shown]) -> Shown:
        return next(row for row in rows if row[kind] == name)

    return Place(f"get_owned_{kind}s", {}, pick, lambda all: pick(all[f"{kind}s"]))


def of_appliance(state: HouseholdState, name: str) -> Place:
    return of_owned(state, name, "appliance")


def of_sensor(state: HouseholdState, name: str) -> Place:
    return of_owned(state, name, "sensor")


def of_state(state: HouseholdState, name: str) -> Place:
    kind = "sensor" if name in [device.did for device in state.devices_of_kind("sensor")] else "appliance"
    return Place(
        f"get_{kind}s",
        {f"{kind}_names": [name]},
        lambda rows: rows[name],
        lambda all: next(row for row in all[f"{kind}s"] if row[kind] == name),
    )


FIND: Mapping[str, Find] = {
    "member": of_member,
    "life": of_life,
    "pet": of_pet,
    "memory": of_memory,
    "event": of_event,
    "weather": of_weather,
    "appliance": of_appliance,
    "sensor": of_sensor,
    "state": of_state,
}


def says(row: Shown, table: str, known: Row, household: Household) -> bool:
    """Whether a shown row says all values of a row of a table."""
    words, cast = load_fact_words(household.language), household_cast(household.members, household.home)
    if table in ("memories", "events"):
        text = (row.get("memory") or row["description"]).casefold()
        fields = words.fact_field_words(Fact(**{name: known[name] for name in FACT}), cast)
        said = [word for name, word in fields.items() if name not in ("room", "place")]
        said += [cast.rooms[known["room"]].name] if known["room"] else []
        return row["time"] == f"{known['time']:%FT%R}" and all(word.casefold() in text for word in said)
    if table in ("states", "readings"):
        return json.dumps(row["state"][known["attribute"]]) == json.dumps(known["value"])
    if table in ("appliances", "sensors"):
        room = cast.rooms[known["room"]].name
        return (row["type"], row["location"], row["name"]) == (known["kind"], room, cast.devices[known[table[:-1]]])
    if table == "weather":
        return f"{known['value']:g}" in str(row[known["side"]][known["quantity"]])
    if table == "life":
        kind = words.key_word("life_events", known["kind"])
        return any(one["date"] == f"{known['date']}" and kind in one["description"] for one in row["major_events"])
    if table == "hobbies":
        return row["member_id"] == known["who"] and words.key_word("hobbies", known["hobby"]) in row["hobbies"]
    groups = {"role": "roles", "gender": "genders", "occupation": "occupations", "animal": "animals"}
    columns = {"who": "member_id", "pet": "name"}
    values = {columns.get(name, name): value for name, value in known.items() if name != "id"}
    return all(row[name] == (words.key_word(groups[name], one) if name in groups else one) for name, one in values.items())


@crossed(seed=range(8), language=["en", "zh"])
def test_the_prompt_and_the_tools_say_all_that_questions_rest_on(seed: int, language: str) -> None:
    household = make_household(seed, HouseholdRecipe(language=language))
    whole, start = told(household), HouseholdState(household)
    for table, rows in make_household_tables(household).rows.items():
        for known in rows:
            kind, _, name = known["id"].partition(":")
            place, state = FIND[kind](start, name), start.fork()
            row, same = place.in_result(call_household_tool(state, place.tool, place.arguments)), place.in_whole(whole)
            assert known["id"] in state.shown
            assert row.items() <= same.items()
            assert says(row, table, known, household), (known, row)
