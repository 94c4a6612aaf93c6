"""What calls change in a home, at once and later, and whether another home became the same.

Invariants: nothing here changes a home. What happens later without the calls too, such as at a time of day, is no change.
What an automation does to a device is in the changes or the actions, also if the twin refuses it or shows nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from homerl.envs.assistant.device_names import normalize_text
from homerl.envs.assistant.listing.areas_to_rooms import SPACELESS
from homerl.envs.assistant.listing.homeassistant_mapping import entity_domain
from homerl.envs.assistant.listing.import_agreement import PRESSED
from homerl.envs.assistant.serving.agent_journal import ChangeRecord
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.envs.homeenv.sim.home_state import SlotChange
from homerl.envs.homeenv.sim.rules import Action, HomeRule
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType

TRAVEL_SECONDS = 120  # after which what moves in the twin, such as a cover, has arrived
ON, OFF = frozenset("on idle playing paused buffering".split()), frozenset(("off", "standby"))  # states of media players
OF_NUMBER, OF_RANGE = 0.02, 0.01  # the shares of a number, and of its range, by which devices round at most
FORESIGHT_SECONDS = 3600  # in which automations are followed; what still waits then counts as if it happened


@dataclass(frozen=True)
class LaterEffects:
    """What automations make of calls afterwards.

    `changes` tell devices that become other than without the calls, and `actions` the calls of automations that no change
    tells. `dids` are the devices of both.
    """

    changes: tuple[ChangeRecord, ...] = ()
    actions: tuple[TwinCall, ...] = ()

    @property
    def affected_dids(self) -> list[str]:
        """The devices of the changes and of the actions."""
        return [*dict.fromkeys([*(one.did for one in self.changes), *(one.did for one in self.actions)])]


def changes_between(before: Home, after: Home) -> tuple[ChangeRecord, ...]:
    """What differs between two states of a home, of its devices alone, without what devices keep to themselves."""
    plan, after = before.plan, _let_automations_act(after)
    later = after.fork()
    later.advance(TRAVEL_SECONDS)
    return tuple(_record_change(plan, one, later.values[one.slot]) for one in _visible_changes(before, after))


def _record_change(plan: FixedPlan, change: SlotChange, settled: Any = None) -> ChangeRecord:
    slot = plan.slots[change.slot]
    return ChangeRecord(
        did=slot.owner,
        device=spoken_device_name(plan, slot.owner),
        path=slot.path,
        before=change.before,
        after=change.after,
        settled=settled,
    )


def foresee_later_effects(before: Home, after: Home) -> LaterEffects:
    """What automations do because of the calls that lie between two states of a home."""
    rules = [rule for rule in before.rules if rule.progress.enabled]  # those of the real home, whatever became of the twin's
    if not rules:
        return LaterEffects()
    after = _let_automations_act(after)
    plan, without, with_calls = before.plan, before.fork(), after.fork()
    begun = [
        rule for rule in after.rules if rule.progress.run is not None and all(rule.id != one.id for one in before.rules)
    ]
    with_calls.rules = (*(_rule_afterwards(rule, after) for rule in before.rules), *begun)
    for future in (without, with_calls):
        future.advance(FORESIGHT_SECONDS)
    now = {one.slot: one.after for one in before.diff(after)}
    at_once = {plan.slots[one.slot].owner for one in _visible_changes(before, after)}
    stirred = [
        rule
        for rule in rules
        if _is_stirred(_progress_of_rule(without, rule), _progress_of_rule(with_calls, rule), before.clock)
    ]
    driven = _devices_acted_on(stirred) | (_devices_acted_on(rules) - at_once)
    changes = tuple(
        _record_change(plan, one)
        for one in _visible_changes(without, with_calls)
        if plan.slots[one.slot].owner in driven and (one.slot, one.after) not in now.items()
    )
    changed = {change.did for change in changes}
    actions = []
    for rule in stirred:
        course = _progress_of_rule(with_calls, rule)
        # the devices whose changes tell what the automation does: none if it still waits
        seen = set() if course.since is not None else at_once | changed if course.fired == before.clock else changed
        # of its steps, unless a run still waits, those to which it has come
        everything = rule.definition.steps is None or course.waits
        for action in rule.definition.actions:
            if (everything or course.tried.get(action, -1) >= before.clock) and action.did not in seen:
                actions.append(TwinCall(action.did, action.service, dict(action.arguments)))
    return LaterEffects(changes, tuple(actions))


def _let_automations_act(home: Home) -> Home:
    """The home once its automations have done what they do at once."""
    settled = home.fork()
    settled.advance(0)
    return settled


def _rule_afterwards(rule: HomeRule, after: Home) -> HomeRule:
    """A rule as it is afterwards, unless it was changed or deleted."""
    same = (one for one in after.rules if one.id == rule.id and one.describe_rule() == rule.describe_rule())
    return next(same, rule)


def _visible_changes(before: Home, after: Home) -> Iterator[SlotChange]:
    """What differs in devices, without what they keep to themselves."""
    for one in before.diff(after):
        slot = before.plan.slots[one.slot]
        if slot.owner in before.plan.devices_by_did and not getattr(slot.type, "internal", False):
            yield one


@dataclass(frozen=True)
class AutomationProgress:
    """How far an automation has come: since when it waits to act, when it acted last, and its calls (`RuleProgress.tried`).

    It `waits` if a run of it does.
    """

    since: int | None = None
    fired: int | None = None
    tried: Mapping[Action, int] = field(default_factory=dict)
    waits: bool = False


def _progress_of_rule(home: Home, rule: HomeRule) -> AutomationProgress:
    waits = any(one.id.startswith(f"{rule.id}#") for one in home.rules)
    found = next((one.progress for one in home.rules if one.id == rule.id), None)
    return AutomationProgress() if found is None else AutomationProgress(found.since, found.fired, found.tried, waits)


def _is_stirred(without: AutomationProgress, with_calls: AutomationProgress, begin: int) -> bool:
    """Whether an automation waits or has acted since a time, and not so without the calls."""
    waits = with_calls.since not in (None, without.since) or with_calls.waits > without.waits
    acted = with_calls.fired != without.fired and (with_calls.fired or 0) >= begin
    return waits or acted or not with_calls.tried.keys() <= without.tried.keys()


def _devices_acted_on(rules: Iterable[HomeRule]) -> set[str]:
    """The devices that automations act on."""
    return {action.did for rule in rules for action in rule.definition.actions}


def compare_change(change: ChangeRecord, home: Home) -> ChangeRecord:
    """A change with what the home has come to, unless it is hidden, withdrawn, or a press: the home does not tell.

    Devices round numbers in their own way, so one that is nearly as it should be is no difference.
    """
    if change.hidden or is_press_change(change) or change.did not in home.plan.devices_by_did:
        return change
    kind = home.plan.slots[home.plan.slot_of(change.did, change.path)].type
    actual = home.read_value(change.did, change.path)
    near = _is_switched(change, actual) if is_state_change(change) else _is_near(kind, actual, change.after)
    same = actual in (change.after, change.settled) or near
    return change.model_copy(update={"actual": None if same else actual, "differs": not same, "compared": True})


def _is_switched(change: ChangeRecord, actual: Any) -> bool:
    """Whether a media player is on, or off, as it should be: each shows that in its own way. One that loads will play."""
    if entity_domain(change.did) != "media_player":
        return False
    before, after = change.before, change.after
    over = any(after in kind and actual in kind and before not in kind for kind in (ON, OFF))
    return over or (after, actual) == ("playing", "buffering")


def _is_near(kind: ValueType, actual: Any, wanted: Any) -> bool:
    """Whether a number, or each of a colour, is the wanted one but for rounding: a lamp takes 3003 K for 3000 K."""
    if None in (actual, wanted):
        return False
    if kind.type == "tuple":
        parts = zip(kind.items or (), actual, wanted)
        return all(
            one == other or (part.type in NUMBERS and abs(one - other) <= _rounding_step(part)) for part, one, other in parts
        )
    return kind.type in NUMBERS and bool(abs(actual - wanted) <= min(_rounding_step(kind), OF_NUMBER * abs(wanted)))


def _rounding_step(kind: ValueType) -> float:
    """By how much a number of this range may be off; none if it has no range."""
    return OF_RANGE * (kind.range[1] - kind.range[0]) if kind.range else 0


def spoken_device_name(plan: FixedPlan, did: str) -> str:
    """What a person calls a device: its whole name, with its room if that is one word or another device has it too."""
    device = plan.devices_by_did[did]
    name = _whole_name(plan, device)
    alike = sum(_whole_name(plan, other) == name for other in plan.devices) > 1
    placed = device.room.id == HOME or normalize_text(device.room.name) in normalize_text(name)
    bare = " " not in name.strip() and not SPACELESS.search(name)
    return name if placed or not (alike or bare) else f"{device.room.name} {name}"


def _whole_name(plan: FixedPlan, device: Device) -> str:
    return (plan.origin and plan.origin.link_of_device(device.did).name) or device.name


def was_asked_for(change: ChangeRecord, made: Sequence[TwinCall]) -> bool:
    """Whether a change is the main one of its device, or what a call named. What follows from it is in the log alone."""
    name = change.path.rpartition(".")[2]
    return is_state_change(change) or any(one.did == change.did and name in one.arguments for one in made)


def is_press_change(change: ChangeRecord) -> bool:
    """Whether a change counts a press: the real home shows when the last one was, and not how many there were."""
    return entity_domain(change.did) in PRESSED


def is_state_change(change: ChangeRecord) -> bool:
    """Whether a change is of a device's state."""
    return change.path.rpartition(".")[2] == "state"
