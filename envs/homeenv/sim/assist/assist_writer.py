"""Writes service calls as calls of Assist's tools, for the scripted expert.

A call names the device and its domain, and its area too if other devices have the same name. Several devices that are all of
a domain in a room are one call for the area, and many that are all of a domain in the home are one call for the domain. Such
a call stands at the place of the first call that it replaces, unless its effect would differ from one call after the other.

The items of a list are changed and read by its own tools, and so are rooms cleaned and words said. An item that is added
begins with a capital there, so a plan that adds one without does not fit.

Invariant: a plan for which `unfit` is None has the same effect, written and executed, as the plan itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from homerl.envs.core.messages import Message, call_message, tool_call
from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.sim.assist.assist_tools import (
    ADD,
    BROADCAST,
    CLEAN,
    CLOCK,
    COMPLETE,
    CONTEXT,
    DONE,
    ITEMS,
    OPEN,
    REMOVE,
    TOOLS,
    offered_assist_tools,
)
from homerl.envs.homeenv.sim.assist.entities_of_home import (
    DEAD,
    AssistArea,
    AssistEntity,
    EntityCall,
    areas_of_plan,
    entities_of_plan,
)
from homerl.envs.homeenv.sim.assist.intents import (
    EntityConstraints,
    IntentFailed,
    NoMatch,
    calls_of_intent,
    match_entities,
    read_intent_slots,
)
from homerl.envs.homeenv.sim.assist.value_translation import IntentRules, to_slot_value, translation_table
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import NOW, Call, Limits, Reads, StructuredWriter, Tool, parse_turn_tool_calls
from homerl.envs.homeenv.sim.values.auditor import Refused

ON = "intent__HassTurnOn"
MANY = 5  # entities that are one call for the home, where nobody lists them by name
MOST_LOOKS = 3  # entities that are read one by one
RUN = {tool.name: tool for tool in TOOLS}
LIST, UPDATE = "todo", "update_item"
# the tools of services that no intent of the table makes, with the argument for each slot; None is the entity's name
OWN: Mapping[tuple[str, str], tuple[str, Mapping[str, str | None]]] = {
    (LIST, "add_item"): (ADD, {"name": None, "item": "item"}),
    (LIST, UPDATE): (COMPLETE, {"name": None, "item": "item"}),
    (LIST, "remove_item"): (REMOVE, {"name": None, "item": "item"}),
    ("vacuum", "clean_area"): (CLEAN, {"name": None, "area": "cleaning_area_id"}),
    ("assist_satellite", "announce"): (BROADCAST, {"message": "message"}),
}
ITEMS_BY_STATUS = (OPEN, DONE)  # attributes of a list, which its own tool reads


@dataclass(frozen=True)
class IntentCall:
    """A call of an intent: the tool, the entity that it means, and its values by slot.

    A call that is written by mistake has no entity, and `values` are all its slots.
    """

    tool: str
    entity: AssistEntity | None
    values: Mapping[str, Any]


class AssistWriter(StructuredWriter):
    """Writes intents, and reads by `GetLiveContext`."""

    reads = True

    def call(self, call: Call) -> dict[str, Any]:
        """The tool that makes a service call. A call that no tool makes is written as a mistake would be."""
        if written := self._write_own_tool(call):
            return written
        return self._write_intent(self._find_intent(call) or self._mistake_for(call))

    def write_calls(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """One intent for each device, or for all devices of a domain in an area. A list, a room to clean and words to say
        have tools of their own."""
        return call_message(*self._write_by_place(calls, MANY, 2))

    def write_calls_on_all(self, calls: Sequence[Call], placed: bool, reply: str | None = None) -> Message:
        """One intent for all devices of a domain in the home, or else in an area, also if it is a single one."""
        return call_message(*self._write_by_place(calls, len(calls) + 1 if placed else 1, 1))

    def write_misnamed_call(self, call: Call, rng: random.Random) -> Message:
        """An intent with a name that is nearly the entity's, and that nothing has."""
        intent = self._find_intent(call)
        if intent is None or (entity := intent.entity) is None:
            return self.write_calls([call])
        words = entity.name.split()
        near = [f"{entity.area.name} {entity.name}"] if entity.area else []
        near += [" ".join(words[1:]), " ".join(words[:-1])] if len(words) > 1 else []
        near.append(entity.name[:-1] if entity.name.endswith("s") else entity.name + "s")
        domain = _domain_slot(intent.tool, entity)
        if free := [name for name in near if not self._meant_by(intent.tool, {"name": name} | domain)]:
            slots = self._exact_slots(intent.tool, entity, intent.values) | {"name": rng.choice(free)}
            return call_message(tool_call(intent.tool, slots))
        return self.write_calls([call])

    def was_made_in(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """A call was made if an intent of the turn means its device and makes it."""
        made = list(parse_turn_tool_calls(turn))

        def was_made(call: Call) -> bool:
            if written := self._write_own_tool(call):
                return next(parse_turn_tool_calls([call_message(written)])) in made
            return any(self._makes_call(tool, arguments, call) for tool, arguments in made)

        return was_made

    def look(self, did: str) -> Message:
        """A query of the device's first entity."""
        return self._query_entities(self._entities_of(did)[:1])

    def read(self, slots: Reads) -> Message:
        """A query of the entities that show these attributes, or of the time."""
        if NOW in slots:
            return call_message(tool_call(CLOCK, {}))
        if lists := [self._list_of(did) for did, path in slots if path in ITEMS_BY_STATUS and self._list_of(did)]:
            return call_message(*(tool_call(ITEMS, {"todo_list": one.name}) for one in lists if one))
        return self._query_entities(self._entities_that_show(slots))

    def read_all(self, slots: Reads, placed: bool) -> Message:
        """One query of the domains of the entities that show these attributes; in their area, if that is named and one."""
        shown = self._entities_that_show(slots)
        areas, domains = {entity.area for entity in shown}, sorted({entity.domain for entity in shown})
        area = next(iter(areas)) if placed and len(areas) == 1 else None
        place = {"area": area.name} if area else {}
        return call_message(tool_call(CONTEXT, place | {"domain": domains[0] if len(domains) == 1 else domains}))

    def unfit(self, calls: Sequence[Call], reads: Reads) -> str | None:
        """Why these calls cannot be written or these attributes cannot be read, or None if they can."""
        for did, path in reads:
            told = (did, path) == NOW or (path in ITEMS_BY_STATUS and self._list_of(did) is not None)
            if not told and not any(_is_shown(entity, self.home, path) for entity in self._entities_of(did)):
                return f"'{path.rpartition('.')[2]}' is not shown"
        # The plan is executed twice: as service calls in one copy of the home, and as intents in another.
        wanted, here = self.home.fork(), AssistWriter(self.home.fork(), self.done, self.label)
        for call in calls:
            if written := here._write_own_tool(call):
                (name, slots), *_ = parse_turn_tool_calls([call_message(written)])
                tool: Tool = next(one for one in offered_assist_tools(here.home) if one.name == name)
            else:
                intent = here._find_intent(call)
                if intent is None or intent.entity is None:
                    return f"no intent for '{call.service.rpartition('.')[2]}'"
                slots = here._exact_slots(intent.tool, intent.entity, intent.values)
                tool = RUN[intent.tool]
            try:
                wanted.call(call.did, call.service, call.args)
            except Refused:
                return "the plan is refused"
            if tool.run(here.home, slots, Limits()).refusal:
                return f"'{tool.name.rpartition('__')[2]}' is refused"
            if here.home.state_key() != wanted.state_key():
                return f"'{tool.name.rpartition('__')[2]}' does something else"
        return None

    def _entities_of(self, did: str) -> list[AssistEntity]:
        return [entity for entity in entities_of_plan(self.home.plan) if entity.device.did == did]

    def _list_of(self, did: str) -> AssistEntity | None:
        return next((entity for entity in self._entities_of(did) if entity.domain == LIST), None)

    def _entities_that_show(self, slots: Reads) -> list[AssistEntity]:
        """The first entity of each attribute that shows it now, without repetition."""
        found: dict[str, AssistEntity] = {}
        for did, path in slots:
            shown = (entity for entity in self._entities_of(did) if _is_shown(entity, self.home, path))
            found |= {entity.id: entity for entity in islice(shown, 1)}
        return list(found.values())

    def _find_intent(self, call: Call) -> IntentCall | None:
        """The intent that makes a call, if there are slots that mean exactly the entity."""
        for entity in self._entities_of(call.did):
            if found := _find_tool(entity, call):
                return IntentCall(found[0], entity, found[1]) if self._exact_slots(found[0], entity, found[1]) else None
        return None

    def _mistake_for(self, call: Call) -> IntentCall:
        own = self._entities_of(call.did)
        for entity in own:
            for what, setting in entity.shape.sets.items():
                if setting.service == call.service and call.args and (found := _find_setting_tool(entity, what)):
                    return IntentCall(found[0], None, {"name": entity.name, found[1]: call.args[-1]})
        return IntentCall(ON, None, {"name": own[0].name if own else call.did})

    def _write_intent(self, intent: IntentCall) -> dict[str, Any]:
        if intent.entity is None:
            return tool_call(intent.tool, intent.values)
        slots = self._exact_slots(intent.tool, intent.entity, intent.values)
        return tool_call(intent.tool, slots or {"name": intent.entity.name})

    def _write_own_tool(self, call: Call) -> dict[str, Any] | None:
        """The call of a tool that the home's own entities make, if it is that of one."""
        service = call.service.rpartition(".")[2]
        entity = next((one for one in self._entities_of(call.did) if (one.domain, service) in OWN), None)
        if entity is None:
            return None
        tool, slots = OWN[entity.domain, service]
        given = _arguments_by_name(entity.device, call.service, call.args)
        if service == UPDATE and given.get("status") != DONE:
            return None
        values = {slot: entity.name if argument is None else given.get(argument) for slot, argument in slots.items()}
        if tool == CLEAN:  # a call for each room
            names = {area.room.id: area.name for area in areas_of_plan(self.home.plan)}
            values["area"] = names.get(next(iter(values["area"] or ()), ""), "")
        return tool_call(tool, values)

    def _exact_slots(self, tool: str, entity: AssistEntity, values: Mapping[str, Any]) -> dict[str, Any]:
        """The slots that mean exactly this entity, with the values; an empty dict if no slots do."""
        # The domain tells a lamp from a sensor of the same name.
        domain = _domain_slot(tool, entity)
        places = [{}, {"area": entity.area.name}] if entity.area and _has_slot(tool, "area") else [{}]
        for place in places:
            if self._meant_by(tool, {"name": entity.name, **place, **domain}) == [entity]:
                return {"name": entity.name, **place, **domain, **values}
        return {}

    def _meant_by(self, tool: str, slots: Mapping[str, Any]) -> list[AssistEntity]:
        act = translation_table().tools[tool]
        domains = frozenset(slots.get("domain", act.domains))
        wanted = EntityConstraints(slots.get("name"), slots.get("area"), domains=domains, needs=act.needs)
        try:
            return list(match_entities(self.home, wanted).entities)
        except NoMatch:
            return []

    def _write_by_place(self, calls: Sequence[Call], home: int, area: int) -> list[dict[str, Any]]:
        """Tool calls for service calls. Calls that are alike are one call for a place if they mean all of a domain there.

        That takes at least `home` entities in the home, or `area` entities in an area. Where the order counts, so that this
        would have another effect or be refused, the calls are written one after the other.
        """
        if any(self._write_own_tool(call) for call in calls):
            written = [self.call(call) for call in calls]
            return [one for at, one in enumerate(written) if one not in written[:at]]  # what all satellites say is one call
        intents = _merge_intents([self._find_intent(call) or self._mistake_for(call) for call in calls])
        alike: dict[Any, list[IntentCall]] = {}
        for number, one in enumerate(intents):
            what = (one.tool, tuple(one.values.items()), one.entity.domain) if one.entity else number
            alike.setdefault(what, []).append(one)
        placed: list[dict[str, Any]] = []
        for group in alike.values():
            if len(group) >= home and (call := self._write_for_all(group, {})):
                placed.append(call)
                continue
            by_area: dict[AssistArea | None, list[IntentCall]] = {}
            for one in group:
                by_area.setdefault(one.entity.area if one.entity else None, []).append(one)
            for place, there in by_area.items():
                call = self._write_for_all(there, {"area": place.name}) if place and len(there) >= area else None
                placed += [call] if call else map(self._write_intent, there)
        single = list(map(self._write_intent, intents))
        return placed if placed == single or self._effect_of(placed) == self._effect_of(single) else single

    def _write_for_all(self, alike: Sequence[IntentCall], place: Mapping[str, str]) -> dict[str, Any] | None:
        """One call for these of one tool, values and domain, if they are all of the domain in the place."""
        first = alike[0]
        if first.entity is None or not _has_slot(first.tool, "domain"):
            return None
        slots = {**place, "domain": [first.entity.domain]}
        meant = {entity.id for entity in self._meant_by(first.tool, slots)}
        named = {one.entity.id for one in alike if one.entity}
        return tool_call(first.tool, slots | dict(first.values)) if meant == named else None

    def _effect_of(self, written: Sequence[dict[str, Any]]) -> tuple[str, bool]:
        """The state key of the home after these calls, and whether one of them was refused."""
        home = self.home.fork()
        made = parse_turn_tool_calls([call_message(*written)])
        results = [RUN[tool].run(home, arguments, Limits()) for tool, arguments in made]
        return home.state_key(), any(result.refusal for result in results)

    def _makes_call(self, tool: str, arguments: Any, call: Call) -> bool:
        if tool not in translation_table().tools or not isinstance(arguments, dict):
            return False
        try:
            slots = read_intent_slots(tool, arguments)
            found = match_entities(self.home, replace(slots.wanted, states=frozenset())).entities
            own = [entity for entity in found if entity.device.did == call.did]
            made = [step for entity in own for step in calls_of_intent(self.home, tool, entity, slots.values, always=True)]
        except (IntentFailed, NoMatch, Refused):
            return False
        return any(_is_same_call(self.home.plan.devices_by_did[call.did], step, call) for step in made)

    def _query_entities(self, found: Sequence[AssistEntity]) -> Message:
        if len(found) > MOST_LOOKS:
            domains = sorted({entity.domain for entity in found})
            return call_message(tool_call(CONTEXT, {"domain": domains[0] if len(domains) == 1 else domains}))
        names = [entity.name for entity in entities_of_plan(self.home.plan)]
        calls = [{"name": e.name} | ({"area": e.area.name} if e.area and names.count(e.name) > 1 else {}) for e in found]
        return call_message(*(tool_call(CONTEXT, slots) for slots in calls or [{}]))


def _domain_slot(tool: str, entity: AssistEntity) -> dict[str, Any]:
    """The slot of the entity's domain, if the tool takes one."""
    return {"domain": [entity.domain]} if _has_slot(tool, "domain") else {}


def _has_slot(tool: str, slot: str) -> bool:
    return slot in latest_recorded_api().tools[tool]["inputSchema"]["properties"]


def _find_tool(entity: AssistEntity, call: Call) -> tuple[str, dict[str, Any]] | None:
    """The tool that makes a call on an entity, and its values."""
    for act, step in entity.shape.acts.items():
        if _is_same_call(entity.device, step, call):
            for name, rule in translation_table().tools.items():
                if rule.act == act and not rule.value_slots and _acts_on(rule, entity):
                    return name, {}
    for what, setting in entity.shape.sets.items():
        if setting.service != call.service:
            continue
        arguments = _arguments_by_name(entity.device, call.service, call.args)
        if list(arguments) == [setting.kind.name]:  # the call sets this value and no other
            value = to_slot_value(what, next(iter(arguments.values())), setting.kind)
            if value is not None and (found := _find_setting_tool(entity, what)):
                return found[0], {found[1]: value}
    return None


def _find_setting_tool(entity: AssistEntity, what: str) -> tuple[str, str] | None:
    """The tool that sets a value of an entity, and its slot."""
    for name, rule in translation_table().tools.items():
        for slot, sets in rule.sets.items():
            if sets == what and _acts_on(rule, entity):
                return name, slot
    return None


def _acts_on(rule: IntentRules, entity: AssistEntity) -> bool:
    domains = rule.domains or rule.offered
    return not domains or entity.domain in domains


def _is_same_call(device: Device, step: EntityCall, call: Call) -> bool:
    if step.service != call.service:
        return False
    arguments = _arguments_by_name(device, call.service, call.args)
    return _arguments_by_name(device, step.service, step.args, **step.kwargs) == arguments


def _arguments_by_name(device: Device, service: str, args: Sequence[Any], /, **kwargs: Any) -> dict[str, Any]:
    """The arguments of a call that are not left out."""
    declared = device.spec.service_index[service].service.arguments
    given = {argument.name: value for argument, value in zip(declared, args)} | kwargs
    return {name: value for name, value in given.items() if value is not None}


def _merge_intents(intents: Sequence[IntentCall]) -> list[IntentCall]:
    """The intents, with the values of one entity by one tool as one call, and without what a later intent does as well."""
    merged: list[IntentCall] = []
    for i, one in enumerate(intents):
        if one.tool == ON and one.entity:  # to set some values, such as a brightness, switches on as well
            rules = translation_table().domains.get(one.entity.domain)
            sets = [pair for act in translation_table().tools.values() for pair in act.sets.items()]
            wakes = {slot for slot, what in sets if rules and what in rules.wakes}
            if any(later.entity == one.entity and wakes & later.values.keys() for later in intents[i + 1 :]):
                continue
        if merged and one.entity and one.values and merged[-1].values:
            last, values = merged[-1], {**merged[-1].values, **one.values}
            # A light has either a colour or a colour temperature, so two calls set both.
            if (last.tool, last.entity) == (one.tool, one.entity) and not values.keys() >= {"color", "temperature"}:
                merged[-1] = replace(last, values=values)
                continue
        merged.append(one)
    return merged


def _is_shown(entity: AssistEntity, home: Home, path: str) -> bool:
    """Whether agents can read an attribute in what they are shown of an entity now."""
    shape, state = entity.shape, entity.state_text(home)
    if path in (shape.state, shape.mode) and path not in shape.shows.values():
        return shape.mode is None or path == shape.state or state != "off"
    if shape.whole and state in DEAD:
        return False
    rules = translation_table().domains.get(entity.domain)
    dark = set(rules.while_on) if rules and state == "off" else set()
    return any(ours == path and name not in dark for name, ours in shape.shows.items())
