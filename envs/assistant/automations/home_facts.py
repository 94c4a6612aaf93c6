"""What an automation says of the entities of a home, as conditions and expressions, and how conditions are joined.

Invariants: what is told is a condition's text, or whether it always holds; connectives leave no constant in a condition. A
state is a text there, as is `21`, which is not `21.0`; so a number here is compared as a number alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from homerl.envs.assistant.automations.automation_text import UnreadableAutomation
from homerl.envs.assistant.automations.named_entities import CLOCK_SENSORS
from homerl.envs.assistant.listing.home_listing import entity_domain, is_entity_id
from homerl.envs.assistant.listing.homeassistant_mapping import NUMBER, device_link
from homerl.envs.assistant.privacy import PEOPLE, is_password
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import AVAILABLE
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType

STATED = re.compile(r"input_(boolean|datetime|number|select|text)\..+")  # a helper whose state is the one that is meant
HOME = "home"  # the only place of a person that an import keeps
TEXTS = ("str", "enum")  # types of states that are here what they are there
DURATION = "second"  # the unit of what may be a text there, such as `0:05:00`
SUN = "sun.sun"


class HomeFacts:
    """What is told of the entities of a home.

    `sun` has the seconds since midnight at which it rises and sets, and `scripts` what is read of the texts of scripts.
    """

    def __init__(self, home: Home, sun: Mapping[str, int], scripts: Mapping[str, Any]) -> None:
        self.home, self.sun, self.scripts = home, sun, scripts

    def is_state(self, entity: str, states: Sequence[Any]) -> str:
        """That an entity is in one of these states."""
        if entity == SUN:
            return self._is_sun(states)
        flags = self._conditions_out_of_reach(entity)
        dead, states = [flags[one] for one in states if one in flags], [one for one in states if one not in flags]
        if not states:
            return f"({' or '.join(dead)})"
        if self.slot_type(entity, "state").type not in TEXTS:
            if dead and not any(NUMBER.fullmatch(str(one)) for one in states):
                return f"({' or '.join(dead)})"  # a number is never any other word
            raise UnreadableAutomation(f"the state of {entity} is compared as a text, and here it is a number")
        self._be_known(entity, states)
        for one in states:
            if not isinstance(one, str) or STATED.fullmatch(one):
                raise UnreadableAutomation(f"a state is '{one}', which is no text of one")
        parts = [*dead, f"{device_reference(entity)}.state in ({', '.join(map(code_literal, states))},)"]
        return f"({' or '.join(parts)})" if dead else parts[0]

    def has_held_state(self, entity: str, states: Sequence[Any], seconds: int) -> str | bool:
        """That an entity has been in one of these states for some seconds, which its device counts."""
        now = self.is_state(entity, states)
        device = self.home.plan.devices_by_did.get(entity)
        counters = {one.counts: name for name, (_, one) in device.spec.attribute_index.items()} if device else {}
        names = [counters.get(counted_state(one)) for one in states]
        if None in names:
            raise UnreadableAutomation(
                f"a condition has 'for', and for how long {entity} has been {states} is not counted here"
            )
        held = [f"{device_reference(entity)}.{name} >= {seconds}" for name in names]
        return join_with_and([now, join_with_or(held)])

    def entity_text(self, entity: str) -> str:
        """The state of an entity, which is a text."""
        if self.slot_type(entity, "state").type not in TEXTS:
            raise UnreadableAutomation(f"the state of {entity} is compared as a text, and here it is a number")
        self._be_known(entity, [HOME] if entity_domain(entity) not in PEOPLE else [])
        return f"{device_reference(entity)}.state"

    def entity_number(self, entity: str, attribute: str | None) -> str:
        """The number that an entity shows."""
        name = "state" if attribute is None else self.own_attribute_name(entity, attribute)
        kind = self.slot_type(entity, name)
        if kind.type not in NUMBERS or kind.unit == DURATION or getattr(kind, "internal", False):
            raise UnreadableAutomation(
                f"a trigger or condition by number reads '{attribute or 'state'}' of {entity}, which is no such number here"
            )
        return f"{device_reference(entity)}.{name}"

    def is_attribute_value(self, entity: str, attribute: str, value: Any) -> str:
        """That an attribute of an entity has a value."""
        name = self.own_attribute_name(entity, attribute)
        kind = self.slot_type(entity, name)
        if value is None:
            return f"{device_reference(entity)}.{name} == None"
        alike = {"bool": (bool,), "int": (int, float), "float": (int, float), "str": (str,), "enum": (str,)}
        if not isinstance(value, alike.get(kind.type, ())) or isinstance(value, bool) is not (kind.type == "bool"):
            raise UnreadableAutomation(f"'{attribute}' of {entity} is compared with '{value}', which is no value of it here")
        return f"{device_reference(entity)}.{name} == {code_literal(value)}"

    def entity_number_within(self, entity: str, attribute: str | None, above: Any, below: Any) -> str:
        """That a number of an entity is within bounds, which are beyond them themselves."""
        if entity == SUN and attribute in (None, "elevation"):
            raise UnreadableAutomation("the height of the sun is not known here")
        return self.number_within(self.entity_number(entity, attribute), above, below)

    def number_within(self, value: str, above: Any, below: Any) -> str:
        """That a number is within bounds."""
        bounds = ((above, ">"), (below, "<"))
        said = [f"{value} {sign} {self._bound_expression(bound)}" for bound, sign in bounds if bound is not None]
        if not said:
            raise UnreadableAutomation("a trigger or condition by number has no bound")
        return " and ".join(said)

    def watched_paths(self, entity: str, attribute: str | None = None, everything: bool = False) -> str:
        """What changes where the state of an entity does, or its attribute, or anything that it shows."""
        told = self.slot_type(entity, "state") and self.home.plan.devices_by_did[entity].spec.readable_attributes
        device = device_reference(entity)
        if everything:
            return device
        if attribute is not None:
            return f"{device}.{self.own_attribute_name(entity, attribute)}"
        return f"{device}.state" + (f", {device}.{AVAILABLE}" if AVAILABLE in told else "")

    def slot_type(self, entity: str, path: str) -> ValueType:
        """The type of what an entity shows. Raises `Refused` if it is not in the home, or shows no such thing."""
        if entity in CLOCK_SENSORS:
            raise UnreadableAutomation(f"the time that {entity} shows does not pass here")
        return self.home.plan.slots[self.home.plan.slot_of(entity, path)].type

    def own_attribute_name(self, entity: str, attribute: str) -> str:
        """Our name of an attribute there. What has this name here may be another one there."""
        theirs = device_link(self.home, entity).attributes
        name = next((mine for mine, there in theirs.items() if there == attribute), attribute)
        if name == "state" or theirs.get(name, attribute) != attribute:
            raise UnreadableAutomation(
                f"a trigger or condition by number reads '{attribute}', which {entity} does not show here"
            )
        return name

    def group_members(self, entity: str) -> list[str]:
        """The entity, or the members of a group, and of those in it."""
        if entity_domain(entity) != "group":
            return [entity]
        listed = self.home.state_of(entity).get("entity_id") if entity in self.home.plan.devices_by_did else None
        if not listed:
            raise UnreadableAutomation(f"the members of {entity} are not known here")
        return list(dict.fromkeys(one for name in listed if name != entity for one in self.group_members(name)))

    def sun_time(self, event: Any, offset: float = 0) -> int:
        """The seconds since midnight at which the sun rises or sets."""
        if event not in self.sun:
            raise UnreadableAutomation("when the sun rises and sets is not known here")
        return int(self.sun[event] + offset)

    def _is_sun(self, states: Sequence[Any]) -> str:
        rises, sets = self.sun_time("sunrise"), self.sun_time("sunset")
        above = f"({rises} <= clock.time and clock.time < {sets})"
        told = {"above_horizon": above, "below_horizon": f"not {above}"}
        if not rises < sets or not all(one in told for one in states):
            raise UnreadableAutomation(f"the sun is in {list(states)}, which is not known here")
        return str(join_with_or([told[one] for one in states]))

    def _be_known(self, entity: str, states: Sequence[Any]) -> None:
        if entity_domain(entity) in PEOPLE and list(states) != [HOME]:
            raise UnreadableAutomation(f"the state of {entity} is a place, which is not known here")
        if is_password(entity, self.home.state_of(entity)):
            raise UnreadableAutomation(f"the state of {entity} is not known here, since it may be a password")

    def _conditions_out_of_reach(self, entity: str) -> dict[str, str]:
        """What tells that an entity is out of reach, or has no value, where its state cannot: a condition by that state."""
        device = self.home.plan.devices_by_did.get(entity)
        if device is None or AVAILABLE not in device.spec.readable_attributes:
            return {}
        named = device_reference(entity)
        reached = f"{named}.{AVAILABLE} == "
        return {"unavailable": f"{reached}False", "unknown": f"({reached}True and {named}.state == None)"}

    def _bound_expression(self, value: Any) -> Any:
        if is_entity_id(value):
            return self.entity_number(value, None)
        if isinstance(value, str) and NUMBER.fullmatch(value):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnreadableAutomation(f"a bound is '{value}', which is no number")
        return value


def counted_state(state: Any) -> str:
    """The expression whose seconds the counter of a state counts."""
    return f"self.state == {code_literal(state)}"


def device_reference(entity: str) -> str:
    """An entity as conditions and expressions name it."""
    return f"device({json.dumps(entity)})"


def if_then_else_condition(test: str | bool, yes: str | bool, no: str | bool) -> str | bool:
    """A condition by another one."""
    if isinstance(test, bool):
        return yes if test else no
    return join_with_or([join_with_and([test, yes]), join_with_and([negate_condition(test), no])])


def negate_condition(test: str | bool) -> str | bool:
    """That a condition does not hold."""
    return not test if isinstance(test, bool) else f"not ({test})"


def join_with_and(tests: Sequence[str | bool]) -> str | bool:
    """That all conditions hold."""
    return _join_conditions(tests, "and", ends=False)


def join_with_or(tests: Sequence[str | bool]) -> str | bool:
    """That one condition holds."""
    return _join_conditions(tests, "or", ends=True)


def _join_conditions(tests: Sequence[str | bool], word: str, ends: bool) -> str | bool:
    if any(test is ends for test in tests):
        return ends
    said = [test for test in tests if isinstance(test, str)]
    if len(said) > 1:
        return f" {word} ".join(f"({test})" for test in said)
    return said[0] if said else not ends
