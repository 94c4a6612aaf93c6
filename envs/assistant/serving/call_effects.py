"""What a call could cause: at once, later by automations, and unseen by the twin; and whether the real home became so.

The twin follows the automations of the home, but no automation that was not understood, and no group: a group that is called
drives its members in the real home alone, and there alone does its state follow theirs.

Invariants: nothing here changes a home. What happens later without the calls too, such as at a time of day, is no change.
What an automation does to a device is in the changes or the actions, also if the twin refuses it or shows nothing of it.
What the twin does not follow is told too often rather than not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from homerl.envs.assistant.listing.home_listing import entity_domain, is_entity_id
from homerl.envs.assistant.listing.room_and_device_names import spoken_device_name
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.assistant.serving.secret_masking import HIDDEN
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import ANY_DEVICE, ANYTHING, Beside, FixedPlan
from homerl.envs.homeenv.sim.home_state import SlotChange
from homerl.envs.homeenv.sim.rules import HomeRule, RuleProgress
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType

INDIRECT = frozenset(  # their effects are not in the twin; the last ones have no devices, but automations call them
    "script scene automation button input_button group remote rest_command shell_command python_script pyscript mqtt".split()
)
TRAVEL_SECONDS = 120  # after which what moves in the twin, such as a cover, has arrived
ON, OFF = frozenset("on idle playing paused buffering".split()), frozenset(("off", "standby"))  # states of media players
OF_NUMBER, OF_RANGE = 0.02, 0.01  # the shares of a number, and of its range, by which devices round at most
FORESIGHT_SECONDS = 3600  # in which automations are followed; what still waits then counts as if it happened
MOST_EVENTS = 400  # in that time; where a home has more, automations are followed until then, and then perhaps they act
PRESSED = ("button", "input_button", "notify", "scene")  # domains whose state there is when they were pressed last

UNKNOWN = Beside()
Links = Mapping[str, Iterable[str]]


class ChangeRecord(Model):
    """What a call changes: the value before, at once after, and once all that moves has arrived (`settled`).

    `actual` is the value in the real home afterwards, if it was another one; `compared` says whether it was looked at. The
    values of a `hidden` one are not told, and the real home does not tell its own.
    """

    did: str
    device: str
    path: str
    before: Any = None
    after: Any = None
    settled: Any = None
    actual: Any = None
    differs: bool = False
    compared: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class LaterEffects:
    """What automations make of calls afterwards.

    `changes` tell devices that become other than without the calls, and `actions` the calls of automations that no change
    tells. `dids` are the devices of both. They are `whole` if automations were followed for `FORESIGHT_SECONDS`.
    """

    changes: tuple[ChangeRecord, ...] = ()
    actions: tuple[TwinCall, ...] = ()
    whole: bool = True

    @property
    def affected_dids(self) -> list[str]:
        """The devices of the changes and of the actions."""
        return [*dict.fromkeys([*(one.did for one in self.changes), *(one.did for one in self.actions)])]


@dataclass(frozen=True)
class Effects:
    """All that calls could cause, without the values of password fields.

    `called` are their devices, and `changes` what changes at once. `unseen` are, by device called or changed, the entities
    on which automations may act then that the twin does not follow.
    """

    called: tuple[str, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    later: LaterEffects = field(default_factory=LaterEffects)
    unseen: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def foresee_effects(
        cls, home: Home, twin: Home, calls: Iterable[TwinCall], passwords: Collection[str], groups: Links
    ) -> Effects:
        """What calls could cause that were made in a twin of a home. `groups` are the members of groups, as known before."""

        def hidden(changes: Sequence[ChangeRecord]) -> tuple[ChangeRecord, ...]:
            values = {"before": HIDDEN, "after": HIDDEN, "settled": HIDDEN, "hidden": True}
            return tuple(one.model_copy(update=values) if one.did in passwords else one for one in changes)

        later = foresee_later_effects(home, twin)
        seen = cls(
            called=tuple(call.did for call in calls),
            changes=hidden(changes_between(home, twin)),
            later=replace(later, changes=hidden(later.changes)),
        )
        members = {**groups, **list_groups(home)}
        return replace(seen, unseen=find_unseen_reach(home, seen.touched_dids, members, followed=later.whole))

    @property
    def changed_dids(self) -> list[str]:
        """The devices that change, at once or later."""
        return [*(change.did for change in self.changes), *self.later.affected_dids]

    @property
    def touched_dids(self) -> list[str]:
        """The devices that are called or change, each once."""
        return [*dict.fromkeys([*self.called, *self.changed_dids])]


def changes_between(before: Home, after: Home) -> tuple[ChangeRecord, ...]:
    """What differs between two states of a home, of its devices alone, without what devices keep to themselves."""
    plan, after = before.plan, _let_automations_act(after)
    later = after.fork()
    later.advance(TRAVEL_SECONDS)
    return tuple(_record_change(plan, one, later.values[one.slot]) for one in _visible_changes(before, after))


def is_already_so(home: Home, call: TwinCall) -> bool:
    """Whether a device is already as a call would make it, and shows all that the call says.

    A call of which the twin shows nothing, such as an announcement, is never so.
    """
    service = home.plan.devices_by_did[call.did].spec.service_index[call.service]
    shown, twin = [None, *home.state_of(call.did).values()], home.fork()
    if not service.writes or any(said not in shown for said in call.arguments.values()):
        return False
    try:
        twin.call(call.did, call.service, (), call.arguments)
    except Refused:
        return False
    return not any(_visible_changes(home, twin))


def find_moved_dids(home: Home, calls: Iterable[TwinCall], members: Links) -> set[str]:
    """The devices that calls may move, each made where those before it were. `members` are the entities that groups list.

    What a call drives beside the twin may be otherwise for those after it, whatever the twin shows.
    """
    twin, holders, moved, driven = home.fork(), find_holders(members), set[str](), set[str]()
    for call in calls:
        if call.did in driven or ANYTHING in driven or not is_already_so(twin, call):
            moved.add(call.did)
            driven |= _reach_of_links(_reach_of_links({call.did}, members), holders) - {call.did}
            driven |= {ANYTHING} if entity_domain(call.did) in INDIRECT else set()
        with suppress(Refused):  # the twin took it, where it stands now or before what an automation did since
            twin.call(call.did, call.service, (), call.arguments)
    return moved


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
    plan, with_calls = before.plan, after.fork()
    begun = [
        rule for rule in after.rules if rule.progress.run is not None and all(rule.id != one.id for one in before.rules)
    ]
    with_calls.rules = (*(_rule_afterwards(rule, after) for rule in before.rules), *begun)
    (without, with_calls), seconds = _advance_alike(before, with_calls)
    now = {one.slot: one.after for one in before.diff(after)}
    at_once = {plan.slots[one.slot].owner for one in _visible_changes(before, after)}
    stirred = [rule for rule in rules if _is_stirred(without, with_calls, rule, before.clock)]
    driven = _devices_acted_on(stirred) | (_devices_acted_on(rules) - at_once)
    changes = tuple(
        _record_change(plan, one)
        for one in _visible_changes(without, with_calls)
        if plan.slots[one.slot].owner in driven and (one.slot, one.after) not in now.items()
    )
    changed = {change.did for change in changes}
    actions = []
    for rule in stirred:
        course, waits = _progress_of_rule(with_calls, rule)
        # the devices whose changes tell what the automation does: none if it still waits
        seen = set() if course.since is not None else at_once | changed if course.fired == before.clock else changed
        # of its steps, unless a run still waits, those to which it has come
        everything = rule.definition.steps is None or waits
        for action in rule.definition.actions:
            if (everything or course.tried.get(action, -1) >= before.clock) and action.did not in seen:
                actions.append(TwinCall(action.did, action.service, dict(action.arguments)))
    return LaterEffects(changes, tuple(actions), whole=seconds == FORESIGHT_SECONDS)


def _advance_alike(*homes: Home) -> tuple[list[Home], int]:
    """Copies of homes after the time of foresight, or the part of it for which the events suffice, and its seconds."""

    def later(home: Home, seconds: int, most: int | None = None) -> Home:
        future = home.fork()
        future.advance(seconds, most)
        return future

    futures = [later(home, FORESIGHT_SECONDS, MOST_EVENTS) for home in homes]
    passed = [future.clock - home.clock for home, future in zip(homes, futures)]
    seconds = min(passed)
    alike = [future if one == seconds else later(home, seconds) for home, future, one in zip(homes, futures, passed)]
    return alike, seconds


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


def _progress_of_rule(home: Home, rule: HomeRule) -> tuple[RuleProgress, bool]:
    """How far an automation has come, and whether a run of it waits."""
    waits = any(one.id.startswith(f"{rule.id}#") for one in home.rules)
    return next((one.progress for one in home.rules if one.id == rule.id), RuleProgress()), waits


def _is_stirred(without: Home, with_calls: Home, rule: HomeRule, begin: int) -> bool:
    """Whether an automation waits or has acted since a time, and not so without the calls."""
    (before, before_waits), (after, after_waits) = _progress_of_rule(without, rule), _progress_of_rule(with_calls, rule)
    waits = after.since not in (None, before.since) or after_waits > before_waits
    acted = after.fired != before.fired and (after.fired or 0) >= begin
    return waits or acted or not after.tried.keys() <= before.tried.keys()


def _devices_acted_on(rules: Iterable[HomeRule]) -> set[str]:
    """The devices that automations act on."""
    return {action.did for rule in rules for action in rule.definition.actions}


@dataclass(frozen=True)
class AutomationPath:
    """From what an automation reads to what it acts on. `followed` says whether the twin plays it."""

    reads: frozenset[str]
    acts: frozenset[str]
    followed: bool

    def may_follow(self, dids: Collection[str]) -> bool:
        """Whether a change of these devices may make it act."""
        return not self.reads.isdisjoint(dids) or (self.reads == ANY and bool(dids))


ANY = frozenset(ANY_DEVICE)


def find_unseen_reach(home: Home, dids: Iterable[str], members: Links, followed: bool = True) -> dict[str, frozenset[str]]:
    """The entities on which automations may act, unseen by the twin, because of these devices, by device.

    `members` are the entities that groups list. `followed` says whether the twin has followed its automations to the end.
    """
    paths = list(_automation_paths(home, followed))
    if not paths:
        return {}
    holders = find_holders(members)

    @cache
    def reached(did: str) -> set[str]:
        """What changes in the real home with a device: what it drives, and the groups of all that."""
        return _reach_of_links(_reach_of_links({did}, members), holders)

    entities = {*home.plan.devices_by_did}.union(*(path.reads for path in paths))
    onward = {
        path: set[str]().union(*(reached(did) for act in path.acts for did in _entities_meant(entities, act)))
        for path in paths
    }
    ends = {path: {*path.acts} for path in paths}
    grown = True
    while grown:  # an automation may make another one act
        sizes = [len(found) for found in ends.values()]
        for path in paths:
            ends[path] |= set[str]().union(*(ends[other] for other in paths if other.may_follow(onward[path])))
        grown = sizes != [len(found) for found in ends.values()]
    told: dict[str, frozenset[str]] = {}
    for did in dids:
        # those that read the device itself are followed, if any are
        unseen = {True: reached(did) - {did}, False: reached(did)}
        told[did] = frozenset().union(*(found for path, found in ends.items() if path.may_follow(unseen[path.followed])))
    return told


def _entities_meant(entities: Iterable[str], act: str) -> list[str]:
    """What an automation acts on: an entity, or every one of a kind, or of any."""
    kind, _, name = act.rpartition(".")
    if name != ANYTHING:
        return [act]
    return [act, *(did for did in entities if kind in ("", "homeassistant", entity_domain(did)))]


def _automation_paths(home: Home, followed: bool) -> Iterator[AutomationPath]:
    for rule in home.rules:
        compiled = rule.compiled
        if not followed:  # also one of a time, which may find a condition changed
            if rule.progress.enabled:
                reads = frozenset(home.plan.slots[slot].owner for slot in compiled.slots_it_reads)
                yield AutomationPath(reads, frozenset(action.did for action in rule.definition.actions), followed=False)
        elif rule.progress.enabled and (compiled.trigger_slots or compiled.awaited_slots):
            reads = frozenset(home.plan.slots[slot].owner for slot in compiled.trigger_slots)
            acts = frozenset(action.did for action in rule.definition.actions)
            yield AutomationPath(reads, acts, followed=True)
            awaited = frozenset(home.plan.slots[slot].owner for slot in compiled.awaited_slots)
            yield AutomationPath(awaited, acts, followed=False)  # whether it waits there, the twin does not know
            arming = frozenset(home.plan.slots[slot].owner for slot in compiled.arming_slots)
            yield AutomationPath(arming, acts, followed=False)  # a later report of a sensor sets it off
    for one in home.plan.origin.unfollowed if home.plan.origin else ():
        yield AutomationPath(frozenset(one.reads), frozenset(one.acts), followed=False)


def _reach_of_links(dids: set[str], links: Links) -> set[str]:
    """These devices, and all that links lead to."""
    found, new = set(dids), set(dids)
    while new:
        new = {other for did in new for other in links.get(did, ())} - found
        found |= new
    return found


def find_holders(members: Links) -> dict[str, set[str]]:
    """The groups that list an entity, by entity."""
    holders = defaultdict[str, set[str]](set)
    for group, held in members.items():
        for one in held:
            if one != ANYTHING:
                holders[one].add(group)
    return holders


def list_groups(home: Home) -> dict[str, tuple[str, ...]]:
    """What the entities of a home drive or follow, such as groups their members, by entity."""
    beside = {did: one.lists for did, one in home.plan.origin.beside.items() if one.lists} if home.plan.origin else {}
    return beside | {device.did: listed for device in home.plan.devices if (listed := listed_entities(home, device))}


def listed_entities(home: Home, device: Device) -> tuple[str, ...]:
    """The entities that a device lists."""
    listed = (value for value in home.state_of(device.did).values() if isinstance(value, tuple))
    shown = (one for value in listed for one in value if is_entity_id(one))
    return tuple(dict.fromkeys((*shown, *facts_beside(home, device.did).lists)))


def facts_beside(home: Home, did: str) -> Beside:
    """What the origin of a home tells of an entity beside its device."""
    return home.plan.origin.beside.get(did, UNKNOWN) if home.plan.origin else UNKNOWN


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
