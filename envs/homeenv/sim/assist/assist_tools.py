"""The tools of Assist that a home's own entities make: its lists, calendars, scripts, rooms to clean, and what plays media.

Their schemas are recorded, with the home's names in place of the recorded ones; a script's follows from its fields. What
Home Assistant reads beside the states, such as the events of a calendar, a home here does not hold: there is none. A served
home asks the real one (`READS`).

Invariant: what changes anything is a call of a service of a device, so whoever watches the calls sees it.

The tools of Assist: their recorded schemas, and what a call of them does in a home and answers.

A call fails as in Home Assistant, in its words. Which tools a home has follows Home Assistant's rule: the tools of a domain
are offered if the home has an entity of it, those for covers and valves if it has one of these, and those of `own.py` if its
entities make them. The other tools are always there.

Invariants: schemas are those of the dump; a call that is refused changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api, live_context
from homerl.envs.homeenv.sim.assist.entities_of_home import AssistArea, AssistEntity, areas_of_plan, entities_of_plan
from homerl.envs.homeenv.sim.assist.entity_matching import (
    EntityConstraints,
    MatchedEntities,
    NoMatch,
    is_same_name,
    match_entities,
)
from homerl.envs.homeenv.sim.assist.intent_calls import (
    IntentFailed,
    calls_of_intent,
    invalid_slots,
    make_entity_calls,
    match_intent_targets,
    needed_domains,
    read_intent_slots,
)
from homerl.envs.homeenv.sim.assist.value_translation import translation_table
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import Limits, RunResult
from homerl.envs.homeenv.sim.tools import Tool, ToolHints
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType

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


CONTEXT, CLOCK = "homeassistant__GetLiveContext", "llm__GetDateTime"
TIMERS, BROADCAST = "intent__HassCancelAllTimers", "assist_satellite__HassBroadcast"
MOVES = ("intent__HassSetPosition", "intent__HassStopMoving")
HINTS = {  # by their names in MCP
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
FAILED = "Error calling tool: "


@dataclass(frozen=True)
class AssistTool(Tool):
    """A recorded tool. Home Assistant reads arguments more freely than the schema says, and so does `run`."""

    def function_schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        parameters: dict[str, Any] = {"properties": dict(self.parameters)}
        parameters |= {"required": list(self.required)} if self.required else {}
        parameters["type"] = "object"
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def run(self, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        """Act on `home`. A refusal is returned in the result, in Home Assistant's words."""
        try:
            json.dumps(arguments, allow_nan=False)
            return self.act(home, arguments, limits)
        except IntentFailed as failed:
            return refused_result(failed.rule, f"{FAILED}{failed}")
        except (ValueError, RecursionError):
            return refused_result("wrong_type", f"{FAILED}{invalid_slots(self.name)}")


def refused_result(rule: str, text: str) -> RunResult:
    """A result that is a refusal, in words of its own."""
    return RunResult(text, Refused(rule, text), worded=True)


def _intent(tool: str, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    slots = read_intent_slots(tool, arguments)
    matched = match_intent_targets(home, tool, slots)
    act = translation_table().tools[tool]
    if tool in MOVES and (other := [e.domain for e in matched.entities if e.domain not in act.offered]):
        raise IntentFailed("unknown_service", f"Domain not supported: {other[0]}")
    speech = _speech(tool, home, matched.entities[0], slots.values) if act.speech else None
    done, failed, why = _each(tool, home, matched.entities, slots.values)
    if failed and not done and act.answer != "all":
        raise IntentFailed(why or "precondition", f"Error handling {tool.rpartition('__')[2]}")
    if failed and not done and not (matched.areas or matched.floors):
        ids = [entity.id for entity in failed]
        service = act.says.replace("cover", failed[-1].domain) if tool in MOVES else act.says
        raise IntentFailed(why or "precondition", f"Failed to call {service} for: {ids}")
    text = _response(act.answer, matched, done, failed, speech)
    return RunResult(text) if done else refused_result(why or "precondition", text)


def _each(
    tool: str, home: Home, meant: Sequence[AssistEntity], values: Mapping[str, Any]
) -> tuple[list[AssistEntity], list[AssistEntity], str | None]:
    """Those on which the intent acted, those that refused it, and the rule of the first refusal."""
    done: list[AssistEntity] = []
    failed: list[AssistEntity] = []
    why: str | None = None
    for entity in meant:
        try:
            make_entity_calls(home, entity, calls_of_intent(home, tool, entity, values))
            done.append(entity)
        except Refused as refused:
            failed.append(entity)
            why = why or refused.rule
    return done, failed, why


def _speech(tool: str, home: Home, entity: AssistEntity, values: Mapping[str, Any]) -> str:
    """What Home Assistant says of an intent that it words itself. Raises `Failed` for a mode that the entity lacks."""
    (what, value), *_ = values.items()
    setting = entity.shape.sets.get(what)
    if what == "mode" and setting is None:
        raise IntentFailed("unknown_service", f"Entity {entity.name} does not support modes")
    if what == "mode" and setting and value not in (setting.kind.options or ()):
        raise IntentFailed("out_of_range", f"Entity {entity.name} does not support {value} mode")
    wording = translation_table().tools[tool].speech["off" if entity.state_text(home) == "off" else "on"]
    return wording.format(name=entity.name, value=value)


def _response(
    answer: str, matched: MatchedEntities, done: Sequence[AssistEntity], failed: Sequence[AssistEntity], speech: str | None
) -> str:
    places = [{"name": floor.name, "type": "floor", "id": floor.id} for floor in matched.floors]
    places = places or [{"name": area.name, "type": "area", "id": area.room.id} for area in matched.areas]
    success = [_target(entity) for entity in done] if answer != "nothing" else []
    return json.dumps(
        {
            "speech": {"plain": {"speech": speech, "extra_data": None}} if speech else {},
            "response_type": "action_done",
            "data": {
                "success": places + success if answer == "all" else success,
                "failed": [_target(entity) for entity in failed] if answer == "all" else [],
            },
        },
        ensure_ascii=False,
    )


def _target(entity: AssistEntity) -> dict[str, str]:
    return {"name": entity.name, "type": "entity", "id": entity.id}


def _nothing_done(**more: Any) -> RunResult:
    answer = {"speech": {}, "response_type": "action_done", **more, "data": {"success": [], "failed": []}}
    return RunResult(json.dumps(answer, ensure_ascii=False))


def _cancel_timers(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """A home's speakers hold no timers of Assist, so none is cancelled."""
    area = arguments.get("area")
    slots = {"canceled": 0} | ({"area": str(area)} if area is not None and str(area).strip() else {})
    return _nothing_done(speech_slots=slots)


def _broadcast(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """The satellites that are exposed say it; in the recorded home there is none."""
    message = arguments.get("message")
    if not isinstance(message, str):
        raise invalid_slots(BROADCAST)
    for entity in entities_of_plan(home.plan):
        if entity.domain == "assist_satellite" and "announce" in entity.device.spec.service_index:
            home.call(entity.device.did, "announce", (), {"message": message})
    return _nothing_done()


def _now(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    zone = home.plan.origin.time_zone if home.plan.origin else UTC
    now = datetime.fromtimestamp(home.clock, UTC).replace(tzinfo=zone)  # the clock shows local time
    parts = {"date": f"{now:%Y-%m-%d}", "time": f"{now:%H:%M:%S}", "timezone": f"{now:%Z}", "weekday": f"{now:%A}"}
    return RunResult(json.dumps(parts))


def _context(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    known = latest_recorded_api().tools[CONTEXT]["inputSchema"]["properties"]
    if other := [key for key in arguments if key not in known]:
        raise IntentFailed("unknown_argument", f"not a valid option at '{other[0]}'")
    given = {key: value for key, value in arguments.items() if value is not None}
    for key in ("name", "area"):
        if isinstance(given.get(key), (dict, list)):
            raise IntentFailed("wrong_type", f"value should be a string for dictionary value at '{key}'")
    domains = given.get("domain", [])
    if not all(isinstance(one, str) for one in (domains if isinstance(domains, list) else [domains])):
        raise IntentFailed("wrong_type", "value should be a string for dictionary value at 'domain'")
    named = {key: str(given[key]) for key in ("name", "area") if key in given}
    text, found = live_context(home, given | named)
    return RunResult(text) if found else refused_result("unknown_device", text)


def _tool(name: str) -> AssistTool:
    own = {TIMERS: _cancel_timers, BROADCAST: _broadcast, CLOCK: _now, CONTEXT: _context}
    recorded = latest_recorded_api().tools[name]
    required = tuple(recorded["inputSchema"].get("required", ()))

    def act(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        return own[name](home, arguments, limits) if name in own else _intent(name, home, arguments, limits)

    properties = recorded["inputSchema"]["properties"]
    return AssistTool(name, recorded["description"], properties, required, act, recorded_hints(name))


def recorded_hints(tool: str) -> ToolHints:
    """How a tool behaves, as it was recorded; those that were not may do anything."""
    if tool not in latest_recorded_api().tools:
        return ToolHints(open_world=True)
    return ToolHints(**{HINTS[key]: value for key, value in latest_recorded_api().tools[tool]["annotations"].items()})


PLAYED = {*translation_table().tools, TIMERS, BROADCAST, CLOCK, CONTEXT}
TOOLS = tuple(_tool(name) for name in latest_recorded_api().tools if name in PLAYED)


def offered_assist_tools(home: Home) -> tuple[Tool, ...]:
    """The tools that Home Assistant would offer for a home, in its order: by what they belong to."""
    present = {entity.domain for entity in entities_of_plan(home.plan)}
    own = [
        AssistTool(one.name, one.description, one.parameters, one.required, one.act, recorded_hints(one.name))
        for one in make_own_tools(home)
    ]
    return tuple(sorted([*(tool for tool in TOOLS if _fits(tool.name, present)), *own], key=_owner))


def _owner(tool: Tool) -> str:
    return tool.name.partition("__")[0]


def _fits(tool: str, present: set[str]) -> bool:
    act = translation_table().tools.get(tool)
    wanted = needed_domains(act) if act else ()
    return not wanted or not present.isdisjoint(wanted)


def unknown_tool_result(name: str) -> RunResult:
    """The result of a call of a tool that is not offered."""
    return refused_result("unknown_tool", f'{FAILED}Tool "{name}" not found')
