"""Actions of an automation as steps of a rule (`envs/homeenv/sim/rules.py`).

What only tells people something, or reaches beyond the home, is no step: it changes nothing here. What may reach a device
by another way is told to those who guard the home (`outside`).

Invariants: what a template tells of the past is read only as long as nothing has changed since; a condition that is decided
by the trigger is no step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from homerl.envs.assistant.automations.automation_templates import OF_TRIGGER, TemplateValue, value_to_number, value_to_text
from homerl.envs.assistant.automations.automation_text import (
    BESIDE,
    DATA,
    QUIET,
    TELLING,
    UnreadableAutomation,
    is_effectless_service,
    rewrite_device_action,
)
from homerl.envs.assistant.automations.home_facts import HomeFacts
from homerl.envs.assistant.automations.named_entities import HIDDEN, fired_event, is_left_out
from homerl.envs.assistant.automations.triggers_and_conditions import (
    UNITS,
    AutomationScope,
    define_variables,
    entries_under_key,
    parse_duration,
    read_triggers,
    require_fully_read,
)
from homerl.envs.assistant.listing.home_listing import entity_domain
from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant, ignored_arguments
from homerl.envs.assistant.listing.product_narrowing import CODE, GIVEN
from homerl.envs.homeenv.sim.home import Home

Step = dict[str, Any]
ALWAYS, NEVER = True, False
WAITING = ("delay", "wait")
MOST_REPEATED = 100
MOST_WITHIN = 4  # scripts that call each other with data
BLOCKS = ("choose", "if", "repeat", "parallel", "sequence")  # forms of an action that hold others
ROUND = re.compile(r"\brepeat\b\s*[.\[]")  # where a template reads in which round of a repeated sequence it is
FORMS = tuple("choose if repeat delay wait_template wait_for_trigger parallel sequence stop variables".split())


@dataclass
class ActionWriter:
    """Writes the steps of an automation for one of its triggers. `outside` are the services it calls beyond the home."""

    scope: AutomationScope
    own: str = ""  # the automation's id
    outside: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    within: tuple[str, ...] = ()  # the scripts that it is part of

    @property
    def home(self) -> Home:
        """The home that the steps are for."""
        return self.scope.facts.home

    def write_steps(self, texts: Any) -> list[Step]:
        """The steps of a list of actions. Raises `UnreadableAutomation` or `Refused`."""
        found: list[Step] = []
        for text in texts if isinstance(texts, list) else [texts]:
            made = self._read_action(text)
            if made is None:
                break  # nothing after it is ever reached
            found += made
        return found

    def _read_action(self, text: Any) -> list[Step] | None:
        """The steps of one action; None if the list ends there."""
        if isinstance(text, str) or (isinstance(text, Mapping) and text.keys() & {"condition", "and", "or", "not"}):
            test = self.scope.read_condition(text)
            return [{"only_if": test}] if isinstance(test, str) else [] if test else None
        if not isinstance(text, Mapping):
            raise UnreadableAutomation("an action is none")
        require_fully_read(text, "an action")
        if isinstance(service := text.get("action") or text.get("service"), str):
            if several := next((key for key in (*FORMS, "domain") if key in text), None):
                raise UnreadableAutomation(f"an action has '{several}' beside its service")
            return _going_on_after_errors(text, self._write_service(service, text))
        readers: dict[str, Callable[[Mapping[str, Any]], list[Step]]] = {
            "choose": self._write_choose,
            "if": self._write_if,
            "repeat": self._write_repeat,
            "delay": self._write_delay,
            "wait_template": self._wait_template,
            "wait_for_trigger": self._wait_for_trigger,
            "parallel": self._write_parallel,
            "sequence": lambda text: self._own_list(self.write_steps(entries_under_key(text, "sequence"))),
            "stop": lambda text: [{"stop": True}],
        }
        form = next((key for key in FORMS if key in text), None)
        if form == "variables":
            define_variables(self.scope, text["variables"])
            return []
        if form is not None:
            if text.get("continue_on_error") and form in BLOCKS:
                raise UnreadableAutomation(f"an action goes on after an error within '{form}'")
            return readers[form](text)
        if "device_id" in text and "domain" in text:
            return self._read_action(rewrite_device_action(text))
        if isinstance(text.get("scene"), str):
            return self._write_service("scene.turn_on", {"target": {"entity_id": text["scene"]}})
        if "event" in text:
            self.outside += [fired_event(text["event"])] if isinstance(text["event"], str) else []
            return []
        raise UnreadableAutomation("an action is no call of a service")

    def _write_branch(self, texts: Any) -> list[Step]:
        """The steps of a branch, after which the names are as before it."""
        names = self.scope.names
        self.scope.names = dict(names)
        try:
            return self.write_steps(texts)
        finally:
            self.changed |= {name for name, value in names.items() if self.scope.names.get(name) is not value}
            self.scope.names = names

    def _forget_branches(self, *branches: list[Step]) -> None:
        """Forget what a branch may have changed, now that they are behind."""
        if any(branches):
            self._forget_states()
        self.scope.names |= dict.fromkeys(self.changed - {"trigger", "repeat"}, _raise_gone)
        self.changed = set()

    def _write_choose(self, text: Mapping[str, Any]) -> list[Step]:
        options: list[tuple[str | bool, list[Step]]] = []
        for option in entries_under_key(text, "choose"):
            if not isinstance(option, Mapping):
                raise UnreadableAutomation("an action chooses among what are no options")
            test = self.scope.read_condition(entries_under_key(option, "conditions"))
            if test is not NEVER:
                options.append((test, self._write_branch(entries_under_key(option, "sequence"))))
            if test is ALWAYS:
                break
        otherwise = [] if options and options[-1][0] is ALWAYS else self._write_branch(entries_under_key(text, "default"))
        self._forget_branches(otherwise, *(steps for _, steps in options))
        for test, steps in reversed(options):
            otherwise = self._write_either(test, steps, otherwise)
        return otherwise

    def _write_if(self, text: Mapping[str, Any]) -> list[Step]:
        test = self.scope.read_condition(entries_under_key(text, "if"))
        yes = self._write_branch(entries_under_key(text, "then")) if test is not NEVER else []
        no = self._write_branch(entries_under_key(text, "else")) if test is not ALWAYS else []
        self._forget_branches(yes, no)
        return self._write_either(test, yes, no)

    def _write_either(self, test: str | bool, yes: list[Step], no: list[Step]) -> list[Step]:
        if isinstance(test, bool):
            return self._own_list(yes if test else no)
        return [{"if": test, "then": yes, **({"else": no} if no else {})}] if yes or no else []

    def _write_repeat(self, text: Mapping[str, Any]) -> list[Step]:
        told = text["repeat"]
        if not isinstance(told, Mapping):
            raise UnreadableAutomation("an action repeats what is no sequence")
        sequence = entries_under_key(told, "sequence")
        if "for_each" in told:
            return self._write_rounds(sequence, [{"item": item} for item in self._read_items(told["for_each"])])
        if (count := told.get("count")) is not None:
            if isinstance(count, str) and count.isdecimal():
                count = int(count)
            if not isinstance(count, int) or not 0 <= count <= MOST_REPEATED:
                raise UnreadableAutomation(f"an action is repeated '{count}' times")
            if ROUND.search(str(sequence)):
                return self._write_rounds(sequence, [{} for _ in range(count)])
        self._forget_states()  # what comes again finds things changed
        do = self._write_branch(sequence)
        self._forget_branches(do)
        if count is not None:
            return [{"repeat": count, "do": do}] if do else []
        key = "while" if "while" in told else "until"
        test = self.scope.read_condition(entries_under_key(told, key))
        if test is (key == "until"):
            return [] if key == "while" else [{"repeat": 1, "do": do}]
        if isinstance(test, bool) or not can_wait(do):
            raise UnreadableAutomation("an action repeats something without a wait in between")
        return [{key: test, "do": do}]

    def _read_items(self, told: Any) -> list[Any]:
        """What something is done for each of: none of them may depend on what changes."""
        items = self._read_argument(told)
        if not isinstance(items, list) or len(items) > MOST_REPEATED or not is_constant(items):
            raise UnreadableAutomation("an action repeats something for each of what is no list that can be read")
        return items

    def _write_rounds(self, sequence: list[Any], rounds: list[dict[str, Any]]) -> list[Step]:
        """The steps of a sequence for each of several rounds, of which its templates may read `repeat.item` and others."""
        found: list[Step] = []
        before = self.scope.names.get("repeat")
        for index, known in enumerate(rounds, 1):
            self.scope.names["repeat"] = known | {"index": index, "first": index == 1, "last": index == len(rounds)}
            do = self._write_branch(sequence)
            self._forget_branches(do)
            found += self._own_list(do)
        if before is None:
            self.scope.names.pop("repeat", None)
        else:
            self.scope.names["repeat"] = before
        return found

    def _write_delay(self, text: Mapping[str, Any]) -> list[Step]:
        told = text["delay"]
        if isinstance(told, str) and "{" in told:
            seconds: Any = self._delay_seconds(self.scope.read_template_value(told))
        elif isinstance(told, Mapping) and any(isinstance(one, str) and "{" in one for one in told.values()):
            parts = [
                self._delay_seconds(self.scope.read_template_value(one) if isinstance(one, str) else one, key)
                for key, one in told.items()
                if key in UNITS
            ]
            seconds = " + ".join(f"({part})" for part in parts) if any(isinstance(one, str) for one in parts) else sum(parts)
        else:
            seconds = parse_duration(told)
        self._forget_states()
        return [{"delay": seconds}]

    def _delay_seconds(self, value: Any, unit: str = "") -> int | str:
        """What a delay, or its part of a unit, comes to: seconds, or the expression of them."""
        if not isinstance(value, TemplateValue):
            return parse_duration({unit: value} if unit else value)
        return f"{value_to_number(value, self.scope.facts)} * {UNITS[unit or 'seconds']}"

    def _read_timeout(self, text: Mapping[str, Any]) -> Step:
        """How long something is waited for, and whether all ends then."""
        stop = {"stop": True} if text.get("continue_on_timeout") is False else {}
        return {"timeout": parse_duration(text["timeout"]), **stop} if text.get("timeout") is not None else {}

    def _wait_template(self, text: Mapping[str, Any]) -> list[Step]:
        told, late = str(text["wait_template"]), self._read_timeout(text)
        test = self.scope.read_template_condition(told)
        if test != self.scope.read_template_condition(told, OF_TRIGGER):  # as it begins to wait, and later
            raise UnreadableAutomation("an action waits for a template that does not write true or false")
        self._forget_states()
        if test is ALWAYS:
            return []
        if isinstance(test, bool) or "clock." in test:
            raise UnreadableAutomation("an action waits for a time")
        return [{"wait": test, **late}]

    def _wait_for_trigger(self, text: Mapping[str, Any]) -> list[Step]:
        found = read_triggers(
            AutomationScope(self.scope.facts, names=dict(self.scope.names)), entries_under_key(text, "wait_for_trigger")
        )
        if any(one.given or any(line.startswith("time_cron") for line in one.conditions) for one in found):
            raise UnreadableAutomation("an action waits for a time")
        late = self._read_timeout(text)
        if not found and not late:
            raise UnreadableAutomation("an action waits for what comes from outside")
        self._forget_states()
        forms = [{"conditions": list(one.conditions), **({"hold": one.hold} if one.hold else {})} for one in found]
        return [{"wait": forms, **late}]

    def _write_parallel(self, text: Mapping[str, Any]) -> list[Step]:
        branches = [self._write_branch(part) for part in entries_under_key(text, "parallel")]
        self._forget_branches(*branches)
        if sum(can_wait(branch) for branch in branches) > 0 and len(branches) > 1:
            raise UnreadableAutomation("an action does several things at a time, and waits in them")
        return [step for branch in branches for step in self._own_list(branch)]

    @staticmethod
    def _own_list(steps: list[Step]) -> list[Step]:
        """Steps as a list of their own, where a condition may end it."""
        return [{"repeat": 1, "do": steps}] if any("only_if" in step for step in steps) else steps

    def _forget_states(self) -> None:
        """Forget what templates would tell of the states before: time passes, or something was changed."""
        self.scope.names = {name: lasting_value(value) for name, value in self.scope.names.items()}

    def _write_service(self, service: str, text: Mapping[str, Any]) -> list[Step]:
        service = service.lower()
        if is_effectless_service(service):
            if entity_domain(service) in TELLING:
                self.outside.append(fired_event(entity_domain(service)))  # some wait for what is told
            elif service not in QUIET:
                self.outside.append(service)
            return []
        given: dict[str, Any] = {}
        for key in DATA:
            given |= part if isinstance(part := text.get(key), Mapping) else {}
        target = part if isinstance(part := text.get("target"), Mapping) else {}
        data = {key: value for key, value in given.items() if key != "entity_id"}
        named = [found for place in (target, text, given) if (found := entries_under_key(place, "entity_id"))]
        if entity_domain(service) == "script" and service not in BESIDE:
            named, service, data = [[service]], "script.turn_on", {"variables": given}
        handed = data.pop("variables", None) if service == "script.turn_on" else None
        if entity_domain(service) == "automation":
            return self._write_switch(service, named)
        if len(named) != 1:
            raise UnreadableAutomation(
                f"an action calls {service} for {'entities in several places' if named else 'no named entity'}"
            )
        entities = [one for told in named[0] for one in self._read_entities(str(told), service)]
        switched = [one for one in entities if entity_domain(one) == "automation"]
        made = [self._write_call(entity, service, data) for entity in dict.fromkeys(entities) if entity not in switched]
        if handed:
            made += self._write_script_given(entities, handed, bool(text.get("continue_on_error")))
        self._forget_states()
        return [*made, *(self._write_switch(service, [switched]) if switched else [])]

    def _write_script_given(self, scripts: list[str], given: Any, goes_on: bool) -> list[Step]:
        """What a script does with the data that it is given, where its device alone, when it is turned on, does nothing.

        What that is without the data must be the same, or not known: then it is nothing here, and the device is guarded.
        """
        if len(scripts) != 1 or not isinstance(given, Mapping):
            raise UnreadableAutomation("an action gives data to what is not one script")
        values: dict[str, Any] = {}
        for name, one in given.items():
            scope = replace(self.scope, names=dict(self.scope.names))
            define_variables(scope, {name: one})
            values[name] = scope.names[name]
        (plain, _), (told, outside) = (self._try_script(scripts[0], names) for names in ({}, values))
        if plain is not None and told != plain:
            raise UnreadableAutomation(f"an action gives {scripts[0]} data that change what it does")
        if plain is not None or told is None or can_wait(told) or can_stop(told) or goes_on:
            return []
        self.outside += outside
        return self._own_list(told)

    def _try_script(self, script: str, names: Mapping[str, Any]) -> tuple[list[Step] | None, list[str]]:
        """The steps of a script that is given some names, None if they cannot be read; and the services beyond the home."""
        text = self.scope.facts.scripts.get(script)
        if not isinstance(text, Mapping) or script in self.within or len(self.within) == MOST_WITHIN:
            return None, []
        try:
            return write_script(self.scope.facts, script, text, names, self.within)
        except Exception:  # people write the texts; the import of the script itself tells why it is not read
            return None, []

    def _write_switch(self, service: str, named: list[list[Any]]) -> list[Step]:
        """Turn automations on or off, of which those that are devices show it."""
        name = service.partition(".")[2]
        if name not in ("turn_on", "turn_off", "toggle") or len(named) != 1:
            raise UnreadableAutomation(f"an action calls {service}, which is not known here")
        ids = [id for told in named[0] for id in self._read_entities(str(told), service)]
        if self.own in ids and name != "turn_on":
            raise UnreadableAutomation("it switches itself off, which may end what it does")
        shown = [{"did": id, "locator": name, "arguments": {}} for id in ids if id in self.home.plan.devices_by_did]
        self.outside += [id for id in ids if id not in self.home.plan.devices_by_did]  # guards know what it may do
        self._forget_states()
        return [*shown, {"switch": ids, "to": {"turn_on": True, "turn_off": False}.get(name)}]

    def _read_entities(self, told: str, service: str) -> list[str]:
        """The entities that a call names: by a template, or as members of a group whose own services it does not call."""
        name = self.scope.read_template_value(told) if "{" in told else told.strip().lower()
        if not isinstance(name, str):
            raise UnreadableAutomation(f"an action calls {service} for an entity that a template tells")
        domain = entity_domain(service)
        if entity_domain(name) != "group" or domain == "group":
            return [name]
        members = self.scope.facts.group_members(name)
        return [one for one in members if domain in ("homeassistant", entity_domain(one))]

    def _write_call(self, entity: str, service: str, data: Mapping[str, Any]) -> Step:
        """The call of a service, with the arguments that are worked out then."""
        values = {key: self._read_argument(value) for key, value in data.items()}
        plain = {key: value for key, value in values.items() if not isinstance(value, TemplateValue)}
        ignored = ignored_arguments(self.home, entity, service)
        told = {key: value for key, value in values.items() if key not in plain and key not in ignored}
        name, arguments = from_homeassistant(self.home, entity, service, plain)
        if (called := self.home.plan.devices_by_did[entity].spec.service_index[name].service).requires == GIVEN:
            arguments = {CODE: HIDDEN, **arguments}  # the owner's code is in no home, and the panel here takes any
        step: Step = {"did": entity, "locator": name, "arguments": arguments}
        if told:
            known = {one.name: one for one in called.arguments}
            named = {key: value for key, value in told.items() if key in known}
            if len(named) < len(told) or any(known[key].type not in ("int", "float", "str", "enum") for key in named):
                raise UnreadableAutomation(f"an action gives {service} an argument that a template tells")
            step["arguments"] = {key: value for key, value in arguments.items() if key not in named}
            step["told"] = {key: self._argument_expression(known[key], value) for key, value in named.items()}
        return step

    def _argument_expression(self, argument: Any, value: TemplateValue) -> str:
        """What an argument is worth then, within the range that it may have."""
        if argument.type in ("str", "enum"):
            return value_to_text(value, self.scope.facts)
        worth = value_to_number(value, self.scope.facts)
        worth = f"round({worth})" if argument.type == "int" else worth
        low, high = argument.range or (None, None)
        return f"max({low!r}, min({high!r}, {worth}))" if low is not None else worth

    def _read_argument(self, value: Any) -> Any:
        """A value of a call: what a template tells, if it is one."""
        if isinstance(value, str) and "{" in value:
            told = self.scope.read_template_value(value)
            if isinstance(told, TemplateValue) and told.kind in ("state", "attribute", "number", "choice"):
                return told
            if isinstance(told, TemplateValue):
                raise UnreadableAutomation("an action gives an argument that a template tells")
            if not isinstance(told, str):
                return told
            try:  # as Home Assistant reads it: a number or a truth where it looks like one
                return int(told) if told.lstrip("-").isdecimal() else float(told)
            except ValueError:
                return {"True": True, "False": False}.get(told, told)
        if isinstance(value, list):
            return [self._read_argument(one) for one in value]
        return value


def write_script(
    facts: HomeFacts, id: str, text: Mapping[str, Any], given: Mapping[str, Any], within: tuple[str, ...] = ()
) -> tuple[list[Step], list[str]]:
    """The steps of a script, and the services that it calls beyond the home. What it is given goes before its variables.

    Raises `UnreadableAutomation` or `Refused`.
    """
    scope = AutomationScope(facts, names=dict(given))
    define_variables(scope, text.get("variables"), known=True)
    writer = ActionWriter(scope, within=(*within, id))
    return writer.write_steps(entries_under_key(text, "sequence")), writer.outside


def _going_on_after_errors(text: Mapping[str, Any], steps: list[Step]) -> list[Step]:
    """The steps of a call, after whose refusal the others go on if its text says so."""
    if not isinstance(goes_on := text.get("continue_on_error", False), bool):
        raise UnreadableAutomation("a template tells whether an action goes on after an error")
    return [step | {"anyway": True} if "did" in step and goes_on else step for step in steps]


def is_constant(value: Any) -> bool:
    """Whether nothing of a value is told by a template."""
    if isinstance(value, (list, Mapping)):
        return all(map(is_constant, value.values() if isinstance(value, Mapping) else value))
    return not isinstance(value, TemplateValue) and not (isinstance(value, str) and ("{" in value or is_left_out(value)))


def lasting_value(value: Any) -> Any:
    """What a name still tells once something has changed."""
    if isinstance(value, Mapping):
        return {key: lasting_value(one) for key, one in value.items()}
    if isinstance(value, TemplateValue) or callable(value):
        return _raise_gone
    return value


def _raise_gone() -> Any:
    raise UnreadableAutomation("a template reads what was before something was changed")


def can_wait(steps: list[Step]) -> bool:
    """Whether steps may wait."""
    return _has_key(steps, WAITING)


def can_stop(steps: list[Step]) -> bool:
    """Whether steps may end all."""
    return _has_key(steps, ("stop",))


def _has_key(steps: list[Step], keys: tuple[str, ...]) -> bool:
    """Whether a step, or one within it, has one of these keys."""
    inner = [step.get(key, []) for step in steps for key in ("then", "else", "do")]
    return any(key in step for step in steps for key in keys) or any(_has_key(part, keys) for part in inner)
