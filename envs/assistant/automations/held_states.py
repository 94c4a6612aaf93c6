"""For how long entities have been in a state: counters of the devices for which a condition asks with `for`.

Invariant: a device of whose states no condition asks for how long is what it was, as is a home without such a condition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from homerl.envs.assistant.automations.automation_text import UnreadableAutomation, rewrite_device_condition
from homerl.envs.assistant.automations.home_facts import counted_state
from homerl.envs.assistant.automations.triggers_and_conditions import entries_under_key, parse_duration
from homerl.envs.assistant.listing.entity_products import to_identifier, with_own_id
from homerl.envs.homeenv.sim.devices.device_spec import Device, spec_from_json

Held = Mapping[str, Mapping[str, int]]  # by entity and state, the most seconds that a condition asks for


def find_held_states(texts: Iterable[Any]) -> Held:
    """The states for which the conditions of automations and scripts ask for how long they have held."""
    found = defaultdict[str, dict[str, int]](dict)
    for text in texts:
        for entity, state, seconds in _list_held_states(text):
            found[entity][state] = max(seconds, found[entity].get(state, 0))
    return found


def _list_held_states(part: Any) -> Iterator[tuple[str, str, int]]:
    """By a part of a text: entity, state and seconds of each condition with `for`. What cannot be read is passed over."""
    inner = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    for one in inner:
        yield from _list_held_states(one)
    if not isinstance(part, Mapping) or part.get("condition") not in ("state", "device") or part.get("for") is None:
        return
    try:
        text = rewrite_device_condition(part) if part["condition"] == "device" else part
        seconds = parse_duration(text.get("for"))
    except UnreadableAutomation:
        return
    if seconds and text.get("attribute") is None:
        for entity in entries_under_key(text, "entity_id"):
            yield from (
                (str(entity), state, seconds) for state in entries_under_key(text, "state") if isinstance(state, str)
            )


def count_held_states(device: Device, held: Mapping[str, int], since: int) -> tuple[Device, dict[str, int]]:
    """The device with a counter for each of these states, and their values if it has been in its own for `since` seconds.

    A device whose state changes by itself, as that of a cover does, can count nothing of it, and stays as it was.
    """
    spec = device.spec.model_dump(mode="json", exclude_defaults=True)
    taken = set(device.spec.attribute_index)
    counters: dict[str, dict[str, Any]] = {}
    for state, seconds in sorted(held.items()):
        own = f"seconds_{to_identifier(state)}"
        name = next(free for number in count(1) if (free := own if number == 1 else f"{own}_{number}") not in taken)
        taken.add(name)
        one = {"name": name, "type": "int", "range": [0, seconds], "internal": True, "starts": "0"}
        counters[name] = one | {"counts": counted_state(state)}
    try:
        made = spec_from_json(with_own_id(spec | {"attributes": [*spec["attributes"], *counters.values()]}))
    except ValueError:
        return device, {}
    return replace(device, spec=made), {name: min(since, one["range"][1]) for name, one in counters.items()}
