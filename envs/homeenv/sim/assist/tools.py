"""The tools of Assist: their recorded schemas, and what a call of them does in a home and answers.

A call fails as in Home Assistant, in its words. Which tools a home has follows Home Assistant's rule: the tools of a domain
are offered if the home has an entity of it, those for covers and valves if it has one of these, and those of `own.py` if its
entities make them. The other tools are always there.

Invariants: schemas are those of the dump; a call that is refused changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from homerl.envs.homeenv.sim.assist.dump import latest_recorded_api
from homerl.envs.homeenv.sim.assist.entities import AssistEntity, entities_of_plan
from homerl.envs.homeenv.sim.assist.intents import (
    IntentFailed,
    calls_of_intent,
    invalid_slots,
    make_entity_calls,
    match_intent_targets,
    needed_domains,
    read_intent_slots,
)
from homerl.envs.homeenv.sim.assist.live import live_context
from homerl.envs.homeenv.sim.assist.match import MatchedEntities
from homerl.envs.homeenv.sim.assist.own import make_own_tools
from homerl.envs.homeenv.sim.assist.table import translation_table
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import Limits, RunResult
from homerl.envs.homeenv.sim.tools import Tool, ToolHints
from homerl.envs.homeenv.sim.values.audit import Refused

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
