"""Writes service calls as calls of Assist's tools, for the scripted expert.

A device is meant by its name and domain, and by its area too if others have the name. Several devices that are all of a
domain in a room are one call for the area; many that are all of a domain in the home, one call for the domain. Such calls
are made together at the place of the first, unless that has another effect than one call after the other.

Invariant: a plan for which `unfit` is None has the same effect, written and executed, as the plan itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.core.messages import Message, call_message, tool_call
from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.sim.assist.assist_tools import CONTEXT, TOOLS
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD, AssistEntity, EntityCall, EntitySetting, entities_of_plan
from homerl.envs.homeenv.sim.assist.entity_matching import EntityConstraints, NoMatch, match_entities
from homerl.envs.homeenv.sim.assist.intent_calls import IntentFailed, calls_of_intent, read_intent_slots
from homerl.envs.homeenv.sim.assist.value_translation import IntentRules, to_slot_value, translation_table
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import Limits
from homerl.envs.homeenv.sim.toolset import Call, Reads, StructuredWriter, parse_turn_tool_calls
from homerl.envs.homeenv.sim.values.auditor import Refused

ON = "intent__HassTurnOn"
NOTHING: Mapping[str, Any] = {}
MANY = 5  # entities that are one call for the home, where nobody lists them by name
MOST_LOOKS = 3  # entities that are read one by one
RUN = {tool.name: tool for tool in TOOLS}


@dataclass(frozen=True)
class IntentCall:
    """A call of an intent: the tool, the entities that it means, and its values by slot."""

    tool: str
    entity: AssistEntity
    values: Mapping[str, Any]


class AssistWriter(StructuredWriter):
    """Writes intents, and reads by `GetLiveContext`."""

    reads = True

    def call(self, call: Call) -> dict[str, Any]:
        """The intent that makes a service call. One that no intent makes is written as a mistake would be."""
        return self._written(self._intended(call) or self._mistaken(call))

    def write_calls(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """One intent for each device, or for all devices of a domain in an area."""
        return call_message(*self._placed(calls, MANY, 2))

    def write_calls_on_all(self, calls: Sequence[Call], placed: bool, reply: str | None = None) -> Message:
        """One intent for all devices of a domain in the home, or else in an area, also if it is a single one."""
        return call_message(*self._placed(calls, len(calls) + 1 if placed else 1, 1))

    def write_misnamed_call(self, call: Call, rng: random.Random) -> Message:
        """An intent with a name that is nearly the entity's, and that nothing has."""
        intended = self._intended(call)
        near = _near(intended.entity) if intended else ()
        free = [name for name in near if intended and not self._means(intended.tool, {"name": name} | _domain(intended))]
        if not intended or not free:
            return self.write_calls([call])
        slots = {**self._arguments(intended), "name": rng.choice(free)}
        return call_message(tool_call(intended.tool, slots))

    def was_made_in(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """A call was made if an intent of the turn means its device and makes it."""
        made = list(parse_turn_tool_calls(turn))
        return lambda call: any(self._makes(tool, arguments, call) for tool, arguments in made)

    def look(self, did: str) -> Message:
        """A query of the device's first entity."""
        own = [entity for entity in entities_of_plan(self.home.plan) if entity.device.did == did]
        return self._read(own[:1])

    def read(self, slots: Reads) -> Message:
        """A query of the entities that show these attributes."""
        return self._read(self._shown(slots))

    def read_all(self, slots: Reads, placed: bool) -> Message:
        """One query of the domains of the entities that show these attributes; in their area, if that is named and one."""
        shown = self._shown(slots)
        areas, domains = {entity.area for entity in shown}, sorted({entity.domain for entity in shown})
        area = next(iter(areas)) if placed and len(areas) == 1 else None
        place = {"area": area.name} if area else {}
        return call_message(tool_call(CONTEXT, place | {"domain": domains[0] if len(domains) == 1 else domains}))

    def unfit(self, calls: Sequence[Call], reads: Reads) -> str | None:
        """Why these calls cannot be written or these attributes cannot be read, or None if they can."""
        for did, path in reads:
            if not self._showing(did, path):
                return f"'{path.rpartition('.')[2]}' is not shown"
        wanted, here = self.home.fork(), AssistWriter(self.home.fork(), self.done, self.label)
        for call in calls:
            if (intended := here._intended(call)) is None:
                return f"no intent for '{call.service.rpartition('.')[2]}'"
            written = here._written(intended)["function"]["name"], here._arguments(intended)
            try:
                wanted.call(call.did, call.service, call.args)
            except Refused:
                return "the plan is refused"
            result = RUN[written[0]].run(here.home, written[1], Limits())
            if result.refusal:
                return f"'{written[0].rpartition('__')[2]}' is refused"
            if here.home.state_key() != wanted.state_key():
                return f"'{written[0].rpartition('__')[2]}' does something else"
        return None

    def _shown(self, slots: Reads) -> list[AssistEntity]:
        shown = [entity for did, path in slots for entity in self._showing(did, path)[:1]]
        return list({entity.id: entity for entity in shown}.values())

    def _intents(self, calls: Sequence[Call]) -> list[IntentCall | _Mistake]:
        intended = [self._intended(call) or self._mistaken(call) for call in calls]
        return _joined(one for i, one in enumerate(intended) if not _implied(one, intended[i + 1 :]))

    def _intended(self, call: Call) -> IntentCall | None:
        for entity in entities_of_plan(self.home.plan):
            if entity.device.did == call.did and (found := _tool_for(entity, call)):
                intended = IntentCall(found[0], entity, found[1])
                return intended if self._arguments(intended) else None
        return None

    def _mistaken(self, call: Call) -> IntentCall | _Mistake:
        own = [entity for entity in entities_of_plan(self.home.plan) if entity.device.did == call.did]
        for entity in own:
            for what, setting in entity.shape.sets.items():
                if setting.service == call.service and call.args and (found := _tool_setting(entity, what)):
                    return _Mistake(found[0], {"name": entity.name, found[1]: call.args[-1]})
        return _Mistake(ON, {"name": own[0].name if own else call.did})

    def _written(self, intended: IntentCall | _Mistake) -> dict[str, Any]:
        if isinstance(intended, _Mistake):
            return tool_call(intended.tool, intended.arguments)
        return tool_call(intended.tool, self._arguments(intended) or {"name": intended.entity.name})

    def _arguments(self, intended: IntentCall) -> dict[str, Any]:
        """The slots that mean exactly this entity, and its values; nothing if no slots do."""
        entity = intended.entity
        domain = _domain(intended)
        for place in ({}, {"area": entity.area.name} if entity.area else {}):
            if place and "area" not in latest_recorded_api().tools[intended.tool]["inputSchema"]["properties"]:
                continue
            if self._means(intended.tool, {"name": entity.name, **place, **domain}) == [entity]:
                return {"name": entity.name, **place, **domain, **intended.values}
        return {}

    def _means(self, tool: str, slots: Mapping[str, Any]) -> list[AssistEntity]:
        act = translation_table().tools[tool]
        domains = frozenset(slots.get("domain", act.domains))
        wanted = EntityConstraints(slots.get("name"), slots.get("area"), domains=domains, needs=act.needs)
        try:
            return list(match_entities(self.home, wanted).entities)
        except NoMatch:
            return []

    def _placed(self, calls: Sequence[Call], home: int, area: int) -> list[dict[str, Any]]:
        """The calls by place, or one after the other where the order counts: the same effect, and nothing more refused."""
        intended = self._intents(calls)
        single, placed = list(map(self._written, intended)), self._by_place(intended, home, area)
        return placed if placed == single or self._effect(placed) == self._effect(single) else single

    def _effect(self, written: Sequence[dict[str, Any]]) -> tuple[str, bool]:
        """The state key of the home after these calls, and whether one of them was refused."""
        home = self.home.fork()
        results = [
            RUN[tool].run(home, arguments, Limits()) for tool, arguments in parse_turn_tool_calls([call_message(*written)])
        ]
        return home.state_key(), any(result.refusal for result in results)

    def _by_place(self, intended: Sequence[IntentCall | _Mistake], home: int, area: int) -> list[dict[str, Any]]:
        """The calls, one for the home or for an area where they are alike and mean everything of a domain there.

        In the home that takes at least `home` entities, and in an area `area`.
        """
        alike: dict[Any, list[IntentCall | _Mistake]] = {}
        for number, one in enumerate(intended):
            what = (one.tool, tuple(one.values.items()), one.entity.domain) if isinstance(one, IntentCall) else number
            alike.setdefault(what, []).append(one)
        return [call for group in alike.values() for call in self._together(group, home, area)]

    def _together(self, alike: Sequence[IntentCall | _Mistake], home: int, area: int) -> Iterator[dict[str, Any]]:
        if len(alike) >= home and (call := self._for_all(alike, {})):
            yield call
            return
        by_area: dict[Any, list[IntentCall | _Mistake]] = {}
        for one in alike:
            by_area.setdefault(one.entity.area if isinstance(one, IntentCall) else None, []).append(one)
        for place, there in by_area.items():
            call = self._for_all(there, {"area": place.name}) if place and len(there) >= area else None
            yield from [call] if call else map(self._written, there)

    def _for_all(self, alike: Sequence[IntentCall | _Mistake], place: Mapping[str, str]) -> dict[str, Any] | None:
        """One call for these of one tool, values and domain, if they are all of the domain in the place."""
        first, found = alike[0], [one.entity.id for one in alike if isinstance(one, IntentCall)]
        if not isinstance(first, IntentCall) or not _has(first.tool, "domain"):
            return None
        slots = {**place, "domain": [first.entity.domain]}
        meant = {entity.id for entity in self._means(first.tool, slots)}
        return tool_call(first.tool, slots | dict(first.values)) if meant == set(found) else None

    def _makes(self, tool: str, arguments: Any, call: Call) -> bool:
        if tool not in translation_table().tools or not isinstance(arguments, dict):
            return False
        try:
            slots = read_intent_slots(tool, arguments)
            found = match_entities(self.home, replace(slots.wanted, states=frozenset())).entities
            own = [entity for entity in found if entity.device.did == call.did]
            made = [step for entity in own for step in calls_of_intent(self.home, tool, entity, slots.values, always=True)]
        except (IntentFailed, NoMatch, Refused):
            return False
        return any(_is_call(self.home.plan.devices_by_did[call.did], step, call) for step in made)

    def _showing(self, did: str, path: str) -> list[AssistEntity]:
        """The entities of a device that show an attribute now."""
        own = [entity for entity in entities_of_plan(self.home.plan) if entity.device.did == did]
        return [entity for entity in own if _shows(entity, self.home, path)]

    def _read(self, found: Sequence[AssistEntity]) -> Message:
        if len(found) > MOST_LOOKS:
            domains = sorted({entity.domain for entity in found})
            return call_message(tool_call(CONTEXT, {"domain": domains[0] if len(domains) == 1 else domains}))
        names = [entity.name for entity in entities_of_plan(self.home.plan)]
        shared = {name for name in names if names.count(name) > 1}
        calls = [{"name": e.name} | ({"area": e.area.name} if e.area and e.name in shared else {}) for e in found]
        return call_message(*(tool_call(CONTEXT, slots) for slots in calls or [{}]))


@dataclass(frozen=True)
class _Mistake:
    """A call that means something else than was wanted."""

    tool: str
    arguments: Mapping[str, Any]


def _near(entity: AssistEntity) -> Iterator[str]:
    """Names that are nearly an entity's: with its area before it, a word less, one more or less."""
    words = entity.name.split()
    yield from (f"{entity.area.name} {entity.name}",) if entity.area else ()
    yield from (" ".join(words[1:]), " ".join(words[:-1])) if len(words) > 1 else ()
    yield entity.name[:-1] if entity.name.endswith("s") else entity.name + "s"


def _domain(intended: IntentCall) -> dict[str, Any]:
    """The slot of the entity's domain, if the tool takes one."""
    return {"domain": [intended.entity.domain]} if _has(intended.tool, "domain") else {}


def _has(tool: str, slot: str) -> bool:
    return slot in latest_recorded_api().tools[tool]["inputSchema"]["properties"]


def _tool_for(entity: AssistEntity, call: Call) -> tuple[str, dict[str, Any]] | None:
    """The tool that makes a call on an entity, and its values."""
    for act, step in entity.shape.acts.items():
        if _is_call(entity.device, step, call):
            for name, rule in translation_table().tools.items():
                if rule.act == act and not rule.value_slots and _for(rule, entity):
                    return name, {}
    for what, setting in entity.shape.sets.items():
        if setting.service == call.service and (only := _only(entity.device, call, setting)) is not None:
            value, found = to_slot_value(what, only, setting.kind), _tool_setting(entity, what)
            if found and value is not None:
                return found[0], {found[1]: value}
    return None


def _tool_setting(entity: AssistEntity, what: str) -> tuple[str, str] | None:
    """The tool that sets a value of an entity, and its slot."""
    for name, rule in translation_table().tools.items():
        for slot, sets in rule.sets.items():
            if sets == what and _for(rule, entity):
                return name, slot
    return None


def _for(rule: IntentRules, entity: AssistEntity) -> bool:
    wanted = rule.domains or rule.offered
    return not wanted or entity.domain in wanted


def _is_call(device: Device, step: EntityCall, call: Call) -> bool:
    return step.service == call.service and _by_name(device, step.service, step.args, step.kwargs) == _by_name(
        device, call.service, call.args
    )


def _only(device: Device, call: Call, setting: EntitySetting) -> Any:
    """The value that a call gives for a setting, if it gives no other; otherwise None."""
    told = _by_name(device, call.service, call.args)
    return next(iter(told.values())) if list(told) == [setting.kind.name] else None


def _by_name(device: Device, service: str, args: Sequence[Any], more: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """The arguments of a call that are not left out."""
    declared = device.spec.service_index[service].service.arguments
    told = {**{argument.name: value for argument, value in zip(declared, args)}, **more}
    return {name: value for name, value in told.items() if value is not None}


def _implied(one: IntentCall | _Mistake, later: Sequence[IntentCall | _Mistake]) -> bool:
    """Whether a call only switches on what a later one switches on as well."""
    if not isinstance(one, IntentCall) or one.tool != ON:
        return False
    rules = translation_table().domains.get(one.entity.domain)
    wakes = {
        slot
        for act in translation_table().tools.values()
        for slot, what in act.sets.items()
        if rules and what in rules.wakes
    }
    return any(isinstance(two, IntentCall) and two.entity == one.entity and wakes & two.values.keys() for two in later)


def _joined(intended: Iterable[IntentCall | _Mistake]) -> list[IntentCall | _Mistake]:
    """Values of one entity by one tool, as one call."""
    found: list[IntentCall | _Mistake] = []
    for one in intended:
        last = found[-1] if found else None
        if isinstance(last, IntentCall) and isinstance(one, IntentCall) and _joins(last, one):
            found[-1] = IntentCall(last.tool, last.entity, {**last.values, **one.values})
        else:
            found.append(one)
    return found


def _joins(last: IntentCall, one: IntentCall) -> bool:
    same = (last.tool, last.entity) == (one.tool, one.entity)
    return same and bool(last.values) and bool(one.values) and not _clash({**last.values, **one.values})


def _clash(values: Mapping[str, Any]) -> bool:
    """Whether a light cannot have all values at once."""
    return "color" in values and "temperature" in values


def _shows(entity: AssistEntity, home: Home, path: str) -> bool:
    """Whether agents can read an attribute in what they are shown of an entity now."""
    shape, state = entity.shape, entity.state_text(home)
    if path in (shape.state, shape.mode) and path not in shape.shows.values():
        return shape.mode is None or path == shape.state or state != "off"
    if shape.whole and state in DEAD:
        return False
    rules = translation_table().domains.get(entity.domain)
    dark = set(rules.while_on) if rules and state == "off" else set()
    return any(ours == path and name not in dark for name, ours in shape.shows.items())
