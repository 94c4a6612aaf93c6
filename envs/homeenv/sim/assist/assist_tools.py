"""The tools of Assist: their schemas, and what a call of them does in a home and answers.

Most tools are the same in every home, and their schemas are recorded. Which of them a home has follows Home Assistant's
rule: the tools of a domain are offered if the home has an entity of the domain, and those for covers and valves if it has an
entity of one of the two. Other tools are made by the home's own entities: its lists, calendars, scripts, rooms to clean, and
what plays media. Their recorded schemas get the home's names, and the schema of a script follows from its fields.

Home Assistant keeps some data outside of the states, such as the events of a calendar. A simulated home has none of it. A
served home asks the real one (`READS`).

Invariants: a call fails as in Home Assistant, in its words; a call that is refused changes nothing; whatever changes
something is a call of a service of a device, so whoever watches the calls sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api, list_entities
from homerl.envs.homeenv.sim.assist.entities_of_home import AssistEntity, areas_of_plan, entities_of_plan
from homerl.envs.homeenv.sim.assist.intents import (
    EntityConstraints,
    IntentFailed,
    NoMatch,
    calls_of_intent,
    invalid_slots,
    is_same_name,
    make_entity_calls,
    match_entities,
    match_intent_targets,
    needed_domains,
    read_intent_slots,
)
from homerl.envs.homeenv.sim.assist.value_translation import translation_table
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import Limits, RunResult, Tool, ToolHints
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType

EVENTS, SEARCH, PLAY = "calendar__get_events", "media_player__search_media", "media_player__play_media"
ITEMS, ADD, COMPLETE, REMOVE = (
    f"todo__{name}" for name in ("get_items", "HassListAddItem", "HassListCompleteItem", "HassListRemoveItem")
)
LISTS = {ITEMS: "todo_list", ADD: "name", COMPLETE: "name", REMOVE: "name"}  # the tools of lists, and the slot of the list
CLEAN = "vacuum__HassVacuumCleanArea"
READS = (EVENTS, SEARCH)  # tools that read what is no state
CONTEXT, CLOCK = "homeassistant__GetLiveContext", "llm__GetDateTime"
TIMERS, BROADCAST = "intent__HassCancelAllTimers", "assist_satellite__HassBroadcast"
MOVES = ("intent__HassSetPosition", "intent__HassStopMoving")
SWITCHING = ("turn_on", "turn_off", "toggle")  # services that every script has; its own service, if any, takes its fields
OPEN, DONE = "needs_action", "completed"  # attributes of a list, and the status of its items
TEXT = {"type": "string"}
HINTS = {  # the names in MCP -> ours
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
FAILED = "Error calling tool: "
HEAD = "Live Context: An overview of the areas and the devices in this smart home:"
NONE_MATCHED = {
    "no_area": "Area '{area}' does not exist",
    "name": "No exposed entities matched name '{name}'",
    "area": "No exposed entities found in area '{area}'",
    "domain": "No exposed entities found in domain(s): {domains}",
}
Answer = Callable[[Home, Mapping[str, Any]], str]  # what a tool of a home's own entities does; it returns the text


@dataclass(frozen=True)
class AssistTool(Tool):
    """A tool of Assist. Home Assistant reads arguments more freely than the schema says, and so does `run`."""

    def parameters_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, whose keys are in Home Assistant's order."""
        required = {"required": list(self.required)} if self.required else {}
        return {"properties": dict(self.parameters), **required, "type": "object"}

    def run(self, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        """Act on `home`. A refusal is returned in the result, in Home Assistant's words."""
        try:
            # Arguments reach Home Assistant as JSON, so what JSON cannot hold is refused before anything else.
            json.dumps(arguments, allow_nan=False)
            return self.act(home, arguments, limits)
        except IntentFailed as failed:
            return refused_result(failed.rule, f"{FAILED}{failed}")
        except (ValueError, RecursionError):
            return refused_result("wrong_type", f"{FAILED}{invalid_slots(self.name)}")


def refused_result(rule: str, text: str) -> RunResult:
    """A result that is a refusal, in words of its own."""
    return RunResult(text, Refused(rule, text), worded=True)


def unknown_tool_result(name: str) -> RunResult:
    """The result of a call of a tool that is not offered."""
    return refused_result("unknown_tool", f'{FAILED}Tool "{name}" not found')


def offered_assist_tools(home: Home) -> tuple[Tool, ...]:
    """The tools that Home Assistant would offer for a home, in its order: by what they belong to."""
    present = {entity.domain for entity in entities_of_plan(home.plan)}
    offered: list[Tool] = []
    for tool in TOOLS:
        rules = translation_table().tools.get(tool.name)
        domains = needed_domains(rules) if rules else ()
        if not domains or not present.isdisjoint(domains):
            offered.append(tool)
    # `sorted` keeps the order of tools that belong to the same part of Home Assistant.
    return tuple(sorted([*offered, *_tools_of_entities(home)], key=lambda tool: tool.name.partition("__")[0]))


def _make_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    required: tuple[str, ...],
    act: Callable[[Home, Mapping[str, Any], Limits], RunResult],
) -> AssistTool:
    """A tool with its recorded hints. A tool that was not recorded may do anything."""
    recorded = latest_recorded_api().tools.get(name)
    hints = {HINTS[key]: value for key, value in recorded["annotations"].items()} if recorded else {"open_world": True}
    return AssistTool(name, description, parameters, required, act, ToolHints(**hints))


# The tools that are the same in every home


def _run_intent(tool: str, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    slots = read_intent_slots(tool, arguments)
    matched = match_intent_targets(home, tool, slots)
    rules = translation_table().tools[tool]
    if tool in MOVES and (other := [e.domain for e in matched.entities if e.domain not in rules.offered]):
        raise IntentFailed("unknown_service", f"Domain not supported: {other[0]}")
    # The words tell the state before the calls, so they are made first.
    speech = _intent_speech(tool, home, matched.entities[0], slots.values) if rules.speech else None
    done: list[AssistEntity] = []
    failed: list[AssistEntity] = []
    rule: str | None = None  # of the first refusal
    for entity in matched.entities:
        try:
            make_entity_calls(home, entity, calls_of_intent(home, tool, entity, slots.values))
            done.append(entity)
        except Refused as refused:
            failed.append(entity)
            rule = rule or refused.rule
    if failed and not done and rules.answer != "all":
        raise IntentFailed(rule or "precondition", f"Error handling {tool.rpartition('__')[2]}")
    if failed and not done and not (matched.areas or matched.floors):
        ids = [entity.id for entity in failed]
        service = rules.says.replace("cover", failed[-1].domain) if tool in MOVES else rules.says
        raise IntentFailed(rule or "precondition", f"Failed to call {service} for: {ids}")
    places = [_answer_target(floor.name, "floor", floor.id) for floor in matched.floors]
    # Home Assistant names the areas of a call only if the call names no floor.
    places = places or [_answer_target(area.name, "area", area.room.id) for area in matched.areas]
    acted, refusing = ([_answer_target(entity.name, "entity", entity.id) for entity in found] for found in (done, failed))
    match rules.answer:
        case "all":
            text = _action_done(places + acted, refusing, speech)
        case "entity":
            text = _action_done(acted, speech=speech)
        case "nothing":
            text = _action_done(speech=speech)
    return RunResult(text) if done else refused_result(rule or "precondition", text)


def _intent_speech(tool: str, home: Home, entity: AssistEntity, values: Mapping[str, Any]) -> str:
    """What Home Assistant says of an intent that it words itself. Raises `IntentFailed` for a mode that the entity lacks."""
    (what, value), *_ = values.items()
    setting = entity.shape.sets.get(what)
    if what == "mode" and setting is None:
        raise IntentFailed("unknown_service", f"Entity {entity.name} does not support modes")
    if what == "mode" and setting and value not in (setting.kind.options or ()):
        raise IntentFailed("out_of_range", f"Entity {entity.name} does not support {value} mode")
    wording = translation_table().tools[tool].speech["off" if entity.state_text(home) == "off" else "on"]
    return wording.format(name=entity.name, value=value)


def _action_done(
    success: Sequence[Mapping[str, str]] = (),
    failed: Sequence[Mapping[str, str]] = (),
    speech: str | None = None,
    **slots: Any,
) -> str:
    """The answer of an intent that has run, as Home Assistant words it. The order of the keys is Home Assistant's."""
    said = {"plain": {"speech": speech, "extra_data": None}} if speech else {}
    data = {"success": list(success), "failed": list(failed)}
    return json.dumps({"speech": said, "response_type": "action_done", **slots, "data": data}, ensure_ascii=False)


def _answer_target(name: str, type: str, id: str) -> dict[str, str]:
    return {"name": name, "type": type, "id": id}


def _cancel_timers(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """A home's speakers hold no timers of Assist, so none is cancelled."""
    area = arguments.get("area")
    slots = {"canceled": 0} | ({"area": str(area)} if area is not None and str(area).strip() else {})
    return RunResult(_action_done(speech_slots=slots))


def _broadcast(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Every satellite that is exposed says the message. The recorded home has none."""
    message = arguments.get("message")
    if not isinstance(message, str):
        raise invalid_slots(BROADCAST)
    for entity in entities_of_plan(home.plan):
        if entity.domain == "assist_satellite" and "announce" in entity.device.spec.service_index:
            home.call(entity.device.did, "announce", (), {"message": message})
    return RunResult(_action_done())


def _tell_time(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    zone = home.plan.origin.time_zone if home.plan.origin else UTC
    now = datetime.fromtimestamp(home.clock, UTC).replace(tzinfo=zone)  # the clock shows local time
    parts = {"date": f"{now:%Y-%m-%d}", "time": f"{now:%H:%M:%S}", "timezone": f"{now:%Z}", "weekday": f"{now:%A}"}
    return RunResult(json.dumps(parts))


def _read_context(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    known = latest_recorded_api().tools[CONTEXT]["inputSchema"]["properties"]
    if other := [key for key in arguments if key not in known]:
        raise IntentFailed("unknown_argument", f"not a valid option at '{other[0]}'")
    given = {key: value for key, value in arguments.items() if value is not None}
    for key in ("name", "area"):
        if isinstance(given.get(key), (dict, list)):
            raise IntentFailed("wrong_type", f"value should be a string for dictionary value at '{key}'")
    domains = given.get("domain", [])
    if not all(isinstance(domain, str) for domain in (domains if isinstance(domains, list) else [domains])):
        raise IntentFailed("wrong_type", "value should be a string for dictionary value at 'domain'")
    text, found = live_context(home, given | {key: str(given[key]) for key in ("name", "area") if key in given})
    return RunResult(text) if found else refused_result("unknown_device", text)


def live_context(home: Home, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """The answer of `GetLiveContext`, and whether it found anything."""
    domain = arguments.get("domain")
    domains = [str(one).strip().lower() for one in ([domain] if isinstance(domain, str) else domain or [])]
    name, area = arguments.get("name"), arguments.get("area")
    try:
        found = match_entities(home, EntityConstraints(name, area, domains=frozenset(domains), duplicates=True)).entities
    except NoMatch as none:
        text = NONE_MATCHED.get(none.reason, "No entities matched the provided filter")
        error = text.format(name=name, area=area, domains=", ".join(domains))
        return json.dumps({"error": error}, ensure_ascii=False), False
    return json.dumps({"result": f"{HEAD}\n{list_entities(found, home)}"}, ensure_ascii=False), True


def _recorded_tool(name: str) -> AssistTool:
    own = {TIMERS: _cancel_timers, BROADCAST: _broadcast, CLOCK: _tell_time, CONTEXT: _read_context}
    recorded = latest_recorded_api().tools[name]
    schema = recorded["inputSchema"]
    act = own.get(name) or partial(_run_intent, name)
    return _make_tool(name, recorded["description"], schema["properties"], tuple(schema.get("required", ())), act)


PLAYED = {*translation_table().tools, TIMERS, BROADCAST, CLOCK, CONTEXT}
TOOLS = tuple(_recorded_tool(name) for name in latest_recorded_api().tools if name in PLAYED)


# The tools that a home's own entities make


def _tools_of_entities(home: Home) -> Iterator[AssistTool]:
    found = sorted(entities_of_plan(home.plan), key=lambda entity: entity.name)
    calendars, lists = (
        [name for entity in found if entity.domain == domain for name in entity.names] for domain in ("calendar", "todo")
    )
    if calendars:
        yield _entities_tool(EVENTS, _list_no_events, calendar=calendars)
    if any(entity.device.spec.service_index.keys() >= {"search_media", "play_media"} for entity in found):
        # Home Assistant words these two tools otherwise; the home of the records has no player that can be searched.
        query = {"search_query": {"type": "string", "description": "the song, artist or album to look for"}}
        within = {f"within_media_content_{part}": TEXT for part in ("id", "type")}
        player = {"player_name": TEXT, "player_area": TEXT, "player_floor": TEXT}
        description = "Look for media that a media player can play, or for what is inside of something that was found."
        yield _checking_tool(SEARCH, description, query | within | player, ("search_query",), _find_no_media)
        media = ("media_content_id", "media_content_type")
        description = f"Play what {SEARCH} has found, on the same player, or a URL."
        yield _checking_tool(PLAY, description, dict.fromkeys(media, TEXT) | player, media, _play_media)
    yield from (_script_tool(entity) for entity in found if entity.domain == "script")
    if lists:
        yield _entities_tool(ITEMS, _list_items, todo_list=lists)
        yield from (_entities_tool(name, partial(_change_list, name)) for name in (ADD, COMPLETE, REMOVE))
    if any(entity.domain == "vacuum" for entity in found):
        yield _entities_tool(CLEAN, _clean_area)


def _entities_tool(name: str, act: Answer, **choices: list[str]) -> AssistTool:
    """A recorded tool whose arguments have these choices."""
    recorded = latest_recorded_api().tools[name]
    schema = recorded["inputSchema"]
    parameters = schema["properties"] | {key: schema["properties"][key] | {"enum": names} for key, names in choices.items()}
    return _checking_tool(name, recorded["description"], parameters, tuple(schema.get("required", ())), act)


def _checking_tool(
    name: str, description: str, parameters: Mapping[str, Any], required: tuple[str, ...], act: Answer
) -> AssistTool:
    """A tool that leaves out blank arguments and checks the others before it acts."""

    def run(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        # Language models often send an empty text for an argument that they mean to leave out.
        given = {key: value for key, value in arguments.items() if key in parameters and value not in (None, "")}
        if missing := [key for key in required if key not in given]:
            raise IntentFailed("missing_argument", f"required key not provided at '{missing[0]}'")
        for key, value in given.items():
            if (known := parameters[key].get("enum")) and value not in known:
                raise IntentFailed("out_of_range", f"value must be one of {sorted(known)} for dictionary value at '{key}'")
            if parameters[key].get("type") == "string" and not isinstance(value, (str, int, float)):
                raise invalid_slots(name)
        return RunResult(act(home, given))

    return _make_tool(name, description, parameters, required, run)


def _script_tool(entity: AssistEntity) -> AssistTool:
    """A script as a tool. Its fields are the arguments of its own service, if it has one."""
    services = entity.device.spec.service_index
    own = next((name for name in services if name not in SWITCHING), None)
    arguments = services[own].service.arguments if own else ()
    description = services[own].service.description if own else ""
    aliases = f"Aliases: {sorted(entity.names)}"

    def run(home: Home, given: Mapping[str, Any]) -> str:
        _call_service(home, entity, own or "turn_on", **given)
        return json.dumps({"result": {}})

    return _checking_tool(
        f"script__{entity.id.partition('.')[2]}",
        f"{description}. {aliases}" if description else aliases,
        {argument.name: _field_schema(argument) for argument in arguments},
        tuple(argument.name for argument in arguments if argument.required),
        run,
    )


def _field_schema(kind: ValueType) -> dict[str, Any]:
    """The schema of a script's field, as Home Assistant gives it."""
    if kind.type == "list":
        return {"type": "array", "items": _field_schema(kind.items[0]) if kind.items else TEXT}
    if kind.options:
        return {"type": "string", "enum": [str(option) for option in kind.options]}
    bounds = dict(zip(("minimum", "maximum"), kind.range)) if kind.range and kind.type in ("int", "float") else {}
    return {"type": {"bool": "boolean", "int": "number", "float": "number"}.get(kind.type, "string"), **bounds}


def find_media_player(home: Home, given: Mapping[str, Any]) -> AssistEntity:
    """The media player that the arguments of a tool mean. Raises `IntentFailed`."""
    name, floor, area = (given.get(f"player_{part}") for part in ("name", "floor", "area"))
    return _find_entity(home, "media_player", name, floor, area)


def _find_entity(
    home: Home, domain: str, name: str | None, floor: str | None = None, area: str | None = None
) -> AssistEntity:
    domains = frozenset({domain})
    return _find_entities(home, EntityConstraints(name or None, area, floor, domains=domains, one=not name))[0]


def _find_entities(home: Home, wanted: EntityConstraints) -> tuple[AssistEntity, ...]:
    try:
        return match_entities(home, wanted).entities
    except NoMatch as none:
        raise IntentFailed("unknown_device", str(none)) from None


def _call_service(home: Home, entity: AssistEntity, service: str, /, **arguments: Any) -> None:
    try:
        home.call(entity.device.did, service, (), arguments)
    except Refused as refused:
        raise IntentFailed(refused.rule, f"Error handling {service}: {refused.message}") from None


def _list_no_events(home: Home, given: Mapping[str, Any]) -> str:
    _find_entity(home, "calendar", given["calendar"])
    return json.dumps({"events": []})


def _find_no_media(home: Home, given: Mapping[str, Any]) -> str:
    find_media_player(home, given)
    return json.dumps({"results": []})


def _play_media(home: Home, given: Mapping[str, Any]) -> str:
    media = {key: str(given[key]) for key in ("media_content_id", "media_content_type")}
    _call_service(home, find_media_player(home, given), "play_media", **media)
    return json.dumps({"success": True})


def _list_items(home: Home, given: Mapping[str, Any]) -> str:
    entity, status = _find_entity(home, "todo", given["todo_list"]), given.get("status", OPEN)
    items = [
        {"summary": item, "status": kind}
        for kind in ((OPEN, DONE) if status == "all" else (status,))
        for item in _held_items(home, entity, kind)
    ]
    return json.dumps({"items": items}, ensure_ascii=False)


def _held_items(home: Home, entity: AssistEntity, status: str) -> tuple[str, ...]:
    known = status in entity.device.spec.attribute_index
    return (home.read_value(entity.device.did, status) if known else None) or ()


def _change_list(tool: str, home: Home, given: Mapping[str, Any]) -> str:
    name, item = str(given["name"]), str(given["item"]).strip()
    entity = _find_entity(home, "todo", name)
    if not item:
        raise invalid_slots(tool)
    if tool == ADD:
        _call_service(home, entity, "add_item", item=item[:1].upper() + item[1:])
    else:  # an item of the list is meant in any case, and is sent as the list has it
        kinds = (OPEN,) if tool == COMPLETE else (OPEN, DONE)
        held = (known for kind in kinds for known in _held_items(home, entity, kind) if is_same_name(known, item))
        if (known := next(held, None)) is None:
            raise IntentFailed("precondition", f"Item '{item}' not found on list")
        if tool == COMPLETE:
            _call_service(home, entity, "update_item", item=known, status=DONE)
        else:
            _call_service(home, entity, "remove_item", item=known)
    return _action_done([_answer_target(name, "entity", entity.id)])


def _clean_area(home: Home, given: Mapping[str, Any]) -> str:
    called = str(given["area"])
    areas = (a for a in areas_of_plan(home.plan) if any(is_same_name(name, called) for name in (*a.names, a.room.id)))
    if (area := next(areas, None)) is None:
        raise IntentFailed("unknown_room", f"The area does not exist (given area {called!r})")
    wanted = EntityConstraints(str(given.get("name", "")) or None, domains=frozenset({"vacuum"}))
    found = [one for one in _find_entities(home, wanted) if "clean_area" in one.device.spec.service_index]
    if not found:
        raise IntentFailed("unknown_service", "No entities supported the required features (given domains vacuum)")
    for entity in found:
        _call_service(home, entity, "clean_area", cleaning_area_id=[area.room.id])
    vacuums = [_answer_target(entity.name, "entity", entity.id) for entity in found]
    return _action_done([_answer_target(area.name, "area", area.room.id), *vacuums])
