"""The tools of Assist that a home's own entities make: its lists, calendars, scripts, rooms to clean, and what plays media.

Their schemas are recorded, with the home's names in place of the recorded ones; a script's follows from its fields. What
Home Assistant reads beside the states, such as the events of a calendar, a home here does not hold: there is none. A served
home asks the real one (`READS`).

Invariant: what changes anything is a call of a service of a device, so whoever watches the calls sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.assist.dump import latest_recorded_api
from homerl.envs.homeenv.sim.assist.entities import AssistArea, AssistEntity, areas_of_plan, entities_of_plan
from homerl.envs.homeenv.sim.assist.intents import IntentFailed, invalid_slots
from homerl.envs.homeenv.sim.assist.match import EntityConstraints, NoMatch, is_same_name, match_entities
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import Limits, RunResult
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.sim.values.types import ValueType

EVENTS, SEARCH, PLAY = "calendar__get_events", "media_player__search_media", "media_player__play_media"
ITEMS, ADD, COMPLETE, REMOVE = (
    f"todo__{name}" for name in ("get_items", "HassListAddItem", "HassListCompleteItem", "HassListRemoveItem")
)
LISTS = {ITEMS: "todo_list", ADD: "name", COMPLETE: "name", REMOVE: "name"}  # tools of a list, and what names it
CLEAN = "vacuum__HassVacuumCleanArea"
READS = (EVENTS, SEARCH)  # tools whose answer is no state
SCRIPT = "script__"
SWITCHING = ("turn_on", "turn_off", "toggle")  # services of a script; another one takes its fields
OPEN, DONE = "needs_action", "completed"  # attributes of a list, and the status of its items
TEXT = {"type": "string"}
TARGET = {"player_name": TEXT, "player_area": TEXT, "player_floor": TEXT}
JSON_TYPE = {"bool": "boolean", "int": "number", "float": "number"}


@dataclass(frozen=True)
class HomeOwnTool:
    """A tool of a home: its description and parameters, which of these it requires, and what it does."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    required: tuple[str, ...]
    act: Callable[[Home, Mapping[str, Any], Limits], RunResult]


def make_own_tools(home: Home) -> Iterator[HomeOwnTool]:
    """The tools that the entities of a home make."""
    found = entities_of_plan(home.plan)
    if calendars := _names(found, "calendar"):
        yield _recorded(EVENTS, _no_events, calendar=calendars)
    if any(entity.device.spec.service_index.keys() >= {"search_media", "play_media"} for entity in found):
        yield from _media()
    for entity in sorted((one for one in found if one.domain == "script"), key=lambda one: one.name):
        yield _script(entity)
    if lists := _names(found, "todo"):
        yield _recorded(ITEMS, _items, todo_list=lists)
        for name, change in ((ADD, _add), (COMPLETE, _complete), (REMOVE, _remove)):
            yield _recorded(name, _changing(name, change))
    if any(entity.domain == "vacuum" for entity in found):
        yield _recorded(CLEAN, _clean)


def _names(found: tuple[AssistEntity, ...], domain: str) -> list[str]:
    return [name for one in sorted(found, key=lambda one: one.name) if one.domain == domain for name in one.names]


def _recorded(name: str, act: Callable[[Home, Mapping[str, Any]], str], **named: list[str]) -> HomeOwnTool:
    """A recorded tool, with these choices of its arguments."""
    recorded = latest_recorded_api().tools[name]
    parameters = {
        key: schema | ({"enum": named[key]} if key in named else {})
        for key, schema in recorded["inputSchema"]["properties"].items()
    }
    required = tuple(recorded["inputSchema"].get("required", ()))
    return HomeOwnTool(name, recorded["description"], parameters, required, _checked(name, parameters, required, act))


def _checked(
    name: str, parameters: Mapping[str, Any], required: tuple[str, ...], act: Callable[[Home, Mapping[str, Any]], str]
) -> Callable[[Home, Mapping[str, Any], Limits], RunResult]:
    """The function of a tool, for which blank arguments are left out and others are checked."""

    def run(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        given = {key: value for key, value in arguments.items() if key in parameters and value not in (None, "")}
        if missing := [key for key in required if key not in given]:
            raise IntentFailed("missing_argument", f"required key not provided at '{missing[0]}'")
        for key, value in given.items():
            if (known := parameters[key].get("enum")) and value not in known:
                raise IntentFailed("out_of_range", f"value must be one of {sorted(known)} for dictionary value at '{key}'")
            if parameters[key].get("type") == "string" and not isinstance(value, (str, int, float)):
                raise invalid_slots(name)
        return RunResult(act(home, given))

    return run


def _one(home: Home, domain: str, name: str, floor: str | None = None, area: str | None = None) -> AssistEntity:
    try:
        return match_entities(
            home, EntityConstraints(name or None, area, floor, domains=frozenset({domain}), one=not name)
        ).entities[0]
    except NoMatch as none:
        raise IntentFailed("unknown_device", str(none)) from None


def _call(home: Home, entity: AssistEntity, service: str, **arguments: Any) -> None:
    """Call a service. Raises `Failed`."""
    try:
        home.call(entity.device.did, service, (), arguments)
    except Refused as refused:
        raise IntentFailed(refused.rule, f"Error handling {service}: {refused.message}") from None


def _done(*targets: Mapping[str, str]) -> str:
    data = {"success": list(targets), "failed": []}
    return json.dumps({"speech": {}, "response_type": "action_done", "data": data}, ensure_ascii=False)


# Lists


def _items(home: Home, given: Mapping[str, Any]) -> str:
    entity, status = _one(home, "todo", given["todo_list"]), given.get("status", OPEN)
    kinds = (OPEN, DONE) if status == "all" else (status,)
    items = [{"summary": item, "status": kind} for kind in kinds for item in _held(home, entity, kind)]
    return json.dumps({"items": items}, ensure_ascii=False)


def _held(home: Home, entity: AssistEntity, kind: str) -> tuple[str, ...]:
    """The open items of a list, or those that are done."""
    held: tuple[str, ...] = home.read_value(entity.device.did, kind) if kind in entity.device.spec.attribute_index else ()
    return held or ()


def _changing(tool: str, change: Callable[[Home, AssistEntity, str], None]) -> Callable[[Home, Mapping[str, Any]], str]:
    def act(home: Home, given: Mapping[str, Any]) -> str:
        name, item = str(given["name"]), str(given["item"]).strip()
        entity = _one(home, "todo", name)
        if not item:
            raise invalid_slots(tool)
        change(home, entity, item)
        return _done({"name": name, "type": "entity", "id": entity.id})

    return act


def _add(home: Home, entity: AssistEntity, item: str) -> None:
    _call(home, entity, "add_item", item=item[:1].upper() + item[1:])


def _complete(home: Home, entity: AssistEntity, item: str) -> None:
    _call(home, entity, "update_item", item=_known(home, entity, item, OPEN), status=DONE)


def _remove(home: Home, entity: AssistEntity, item: str) -> None:
    _call(home, entity, "remove_item", item=_known(home, entity, item, OPEN, DONE))


def _known(home: Home, entity: AssistEntity, item: str, *kinds: str) -> str:
    """An item as its list has it. Case does not matter."""
    found = (held for kind in kinds for held in _held(home, entity, kind) if is_same_name(held, item))
    if (known := next(found, None)) is None:
        raise IntentFailed("precondition", f"Item '{item}' not found on list")
    return known


# Calendars and media: what they hold is not in the home


def _no_events(home: Home, given: Mapping[str, Any]) -> str:
    _one(home, "calendar", given["calendar"])
    return json.dumps({"events": []})


def find_media_player(home: Home, given: Mapping[str, Any]) -> AssistEntity:
    """The media player that arguments mean. Raises `Failed`."""
    return _one(home, "media_player", given.get("player_name", ""), given.get("player_floor"), given.get("player_area"))


def _media() -> Iterator[HomeOwnTool]:
    """Home Assistant words these two tools otherwise; the home of the records has no player that can be searched."""
    query = {"search_query": {"type": "string", "description": "the song, artist or album to look for"}}
    within = {f"within_media_content_{part}": TEXT for part in ("id", "type")}
    search = query | within | TARGET
    looks = "Look for media that a media player can play, or for what is inside of something that was found."
    yield HomeOwnTool(SEARCH, looks, search, ("search_query",), _checked(SEARCH, search, ("search_query",), _nothing_found))
    needed = ("media_content_id", "media_content_type")
    plays = dict.fromkeys(needed, TEXT) | TARGET
    what = f"Play what {SEARCH} has found, on the same player, or a URL."
    yield HomeOwnTool(PLAY, what, plays, needed, _checked(PLAY, plays, needed, _play))


def _nothing_found(home: Home, given: Mapping[str, Any]) -> str:
    find_media_player(home, given)
    return json.dumps({"results": []})


def _play(home: Home, given: Mapping[str, Any]) -> str:
    wanted = {key: str(given[key]) for key in ("media_content_id", "media_content_type")}
    _call(home, find_media_player(home, given), "play_media", **wanted)
    return json.dumps({"success": True})


# Scripts


def _script(entity: AssistEntity) -> HomeOwnTool:
    """A script as a tool. Its fields are the arguments of its own service, if it has any."""
    services = entity.device.spec.service_index
    own = next((name for name in services if name not in SWITCHING), None)
    arguments = services[own].service.arguments if own else ()
    told = services[own].service.description if own else ""
    aliases = f"Aliases: {sorted(entity.names)}"
    parameters = {str(one.name): _schema(one) for one in arguments}
    required = tuple(str(one.name) for one in arguments if one.required)
    name = f"{SCRIPT}{entity.id.partition('.')[2]}"

    def run(home: Home, given: Mapping[str, Any]) -> str:
        _call(home, entity, own or "turn_on", **given)
        return json.dumps({"result": {}})

    description = f"{told}. {aliases}" if told else aliases
    return HomeOwnTool(name, description, parameters, required, _checked(name, parameters, required, run))


def _schema(kind: ValueType) -> dict[str, Any]:
    """The schema of a field, as Home Assistant tells it."""
    if kind.type == "list":
        return {"type": "array", "items": _schema(kind.items[0]) if kind.items else TEXT}
    if kind.options:
        return {"type": "string", "enum": [str(option) for option in kind.options]}
    bounds = dict(zip(("minimum", "maximum"), kind.range)) if kind.range and kind.type in ("int", "float") else {}
    return {"type": JSON_TYPE.get(kind.type, "string"), **bounds}


# Rooms to clean


def _clean(home: Home, given: Mapping[str, Any]) -> str:
    place = _place(home, str(given["area"]))
    name = str(given.get("name", ""))
    try:
        wanted = EntityConstraints(name or None, domains=frozenset({"vacuum"}))
        found = [one for one in match_entities(home, wanted).entities if "clean_area" in one.device.spec.service_index]
    except NoMatch as none:
        raise IntentFailed("unknown_device", str(none)) from None
    if not found:
        raise IntentFailed("unknown_service", "No entities supported the required features (given domains vacuum)")
    for entity in found:
        _call(home, entity, "clean_area", cleaning_area_id=[place.room.id])
    area = {"name": place.name, "type": "area", "id": place.room.id}
    return _done(area, *({"name": one.name, "type": "entity", "id": one.id} for one in found))


def _place(home: Home, called: str) -> AssistArea:
    for area in areas_of_plan(home.plan):
        if any(is_same_name(name, called) for name in (*area.names, area.room.id)):
            return area
    raise IntentFailed("unknown_room", f"The area does not exist (given area {called!r})")
