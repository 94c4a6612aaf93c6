"""How well an imported home does what the real one does: the same calls in both, and the states that follow.

A recorded call has an entity, a service and its data, the entity's state before and right after it, and, where it took
time, at rest (`settled`). A call that reached other entities has all that it changed instead.

Invariant: before each call the home shows what the real one showed. Its automations are off, its scripts run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from homerl.envs.assistant.listing.homeassistant_mapping import (
    device_link,
    from_homeassistant,
    refresh_home,
    values_from_state,
)
from homerl.envs.assistant.privacy import hide_secret_values
from homerl.envs.homeenv.sim.automation import make_hidden_rules
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

PRESSED = ("button", "input_button", "notify", "scene")
REST = 90  # seconds in which everything that moves comes to rest

State = Mapping[str, Any]  # `state` and `attributes`


@dataclass(frozen=True)
class ComparedCall:
    """One call in both homes: `wanted` is the real main state, `got` ours, and `why` our refusal or the real one's."""

    entity: str
    service: str
    data: Mapping[str, Any]
    wanted: Any
    got: Any
    ours: str | None = None
    theirs: str | None = None
    attributes: tuple[str, ...] = ()  # further attributes that differ

    @property
    def is_equal(self) -> bool:
        """Whether the main state is the same."""
        return bool(self.wanted == self.got)

    def __str__(self) -> str:
        said = "; ".join(f"{who} refuses: {why}" for who, why in (("ours", self.ours), ("the real one", self.theirs)) if why)
        states = f"{self.wanted!r} there, {self.got!r} here"
        return f"{self.entity} {self.service} {dict(self.data)}: {states}{'; ' + said if said else ''}"


def compare_recorded_calls(home: Home, calls: Iterable[Mapping[str, Any]]) -> Iterator[ComparedCall]:
    """Make recorded calls in a home, and compare. Those of entities that it lacks or may not tell of are passed over."""
    home = home.fork()
    home.rules = tuple(rule for rule in make_hidden_rules(home) if rule.id.startswith("script."))
    for call in calls:
        entity, state = call["entity"], call.get("after")
        if entity not in home.plan.devices_by_did:
            continue
        if state is None or hide_secret_values(entity, state["state"], state["attributes"])[0] == state["state"]:
            home, compared = _compare_call(home, call)
            yield compared


def agreement_share(compared: Iterable[ComparedCall]) -> float:
    """The share of calls after which the main state is the same."""
    results = [one.is_equal for one in compared]
    return sum(results) / len(results) if results else 0.0


def _compare_call(home: Home, call: Mapping[str, Any]) -> tuple[Home, ComparedCall]:
    entity = call["entity"]
    changed = call.get("changed", {entity: {"before": call.get("before"), "after": call.get("after")}})
    home = refresh_home(home, [{"entity_id": name, **told["before"]} for name, told in changed.items() if told["before"]])
    refused = None
    try:
        service, arguments = from_homeassistant(home, entity, call["service"], call["data"])
        home.call(entity, service, (), arguments)
    except Refused as error:
        refused = f"{error.rule}: {error.message}"
    wanted, got = _main_states(home, {name: told["after"] for name, told in changed.items()})
    different: tuple[str, ...] = ()
    if after := call.get("after"):
        device = home.plan.devices_by_did[entity]
        shown = values_from_state(device, after["state"], after["attributes"], device_link(home, entity))
        others = {path: value for path, value in shown.items() if path != "state"}
        different = tuple(path for path, value in others.items() if home.read_value(entity, path) != value)
    if "settled" in call or "changed" in call:
        home.advance(REST)
        rest = {entity: call["settled"]} if "settled" in call else {name: told["after"] for name, told in changed.items()}
        there, here = _main_states(home, rest)
        wanted, got = ((wanted, there), (got, here)) if "settled" in call else (there, here)
    if wanted != got and entity.partition(".")[0] in PRESSED:  # its real state is the time of its last press
        nothing = call["service"].startswith("homeassistant.")  # which does nothing to what cannot be switched
        wanted, got = "error" not in call["outcome"], refused is None or nothing
    told = (entity, call["service"], call["data"], wanted, got, refused, call["outcome"].get("error"), different)
    return home, ComparedCall(*told)


def _main_states(home: Home, after: Mapping[str, State | None]) -> tuple[Any, Any]:
    """The main states there and here of the entities that the home has."""
    there, here = {}, {}
    for name, state in after.items():
        if state is not None and name in home.plan.devices_by_did:
            device = home.plan.devices_by_did[name]
            shown = values_from_state(device, state["state"], state["attributes"], device_link(home, name))
            there[name] = shown.get("state", f"{state['state']} (which the product does not have)")
            here[name] = home.read_value(name, "state")
    return (next(iter(there.values())), next(iter(here.values()))) if len(there) == 1 else (there, here)
