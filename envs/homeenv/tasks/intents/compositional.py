"""Compositional control, QT2 and TC2: several operations, or a set of devices (HomeFlow Table 10).

Invariants: a set of devices is what `denoted_devices` makes of its description; devices that are already as wanted must
stay so, and so must the other parts of a device with several parts; the description of a set reads no device that
another intent may change.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from homerl.envs.homeenv.language.meaning import (
    OPERATORS,
    Act,
    AttributeComparison,
    SpokenCommand,
    Target,
    attribute_values_of,
    denoted_devices,
    devices_of_kind,
    has_lookalikes,
    parts_of_kind,
)
from homerl.envs.homeenv.language.speaker import Speaker, noun_phrase, place_phrase
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import (
    DeviceAction,
    Operation,
    actions,
    carry_out_on_kind,
    earlier_values_condition,
    propose_action,
)
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, draft_of_actions
from homerl.envs.homeenv.tasks.intents.device_choice import (
    KINDS,
    TRIVIAL,
    Read,
    draw_scope,
    find_comparisons,
    rank_targets,
    resolve_target,
    room_signs,
)

MOST = 24  # most devices of one request
TRIES = 60  # number of descriptions tried in a home
ENDING = ("turn_off", "close", "pause", "stop")  # services that people ask for whatever the settings of the device
# Services that nobody asks of several devices.
UNTOLD = tuple("set_alias set_channel set_hold_time set_page set_breathing_light_enabled set_countdown set_tilt".split())
OPPOSITES = {"on": None, "off": "turn_on", "locked": "unlock", "unlocked": "lock", "open": "close", "closed": "open"}


@dataclass(frozen=True)
class ConditionalRoomsRequest:
    """An act in rooms that a condition describes.

    The condition may come first: "in rooms where it is warm, open the curtains".
    """

    act: Act

    @property
    def acts(self) -> tuple[Act, ...]:
        """The act, as the only one of its request."""
        return (self.act,)

    def words(self, speaker: Speaker) -> str:
        """The request, in half of the cases with the condition first."""
        if not speaker.draw_chance(0.5):
            return speaker.request(self.acts)
        bare = replace(self.act, target=replace(self.act.target, rooms_where=None))
        clause = speaker.say("request", act=speaker.act(bare, noun_phrase(bare.target, speaker, placed=False)))
        return speaker.say("compositional.fronted", where=place_phrase(self.act.target, speaker), clause=clause)


def propose_explicit(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """Changes of several devices, one for each.

    If the home offers fewer than wanted, the draft has fewer devices, but at least two.
    """
    wanted = rng.randint(*ask.devices)
    chosen: dict[str, DeviceAction] = {}
    for action in actions(home, rng):
        if action.device.did not in ask.taken:
            chosen.setdefault(action.device.did, action)
        if len(chosen) == wanted:
            break
    if len(chosen) < 2:
        return None
    return draft_of_actions("explicit", tuple(chosen.values()), Factors(scope="multi_device"))


def propose_batch(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """The same operation on all devices of a kind, in some place."""
    for kind in _draw_kinds(home, rng):
        target = resolve_target(draw_scope(home, kind, rng, ask.briefed), home)
        if len(target.devices) < 2 or _is_any_taken(target.devices, ask):
            continue
        first = draw_operation(home, target, rng)
        if first is None:
            continue
        second = draw_operation(home, target, rng) if first.service.startswith("set_") and rng.random() < 0.3 else None
        pair = second and second.service.startswith("set_") and second.service != first.service
        if draft := command_draft("batch", home, target, (first, second) if second and pair else (first,), ask):
            return draft
    return None


def propose_state_dependent(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """An operation on the devices of a kind that meet a comparison."""
    for kind in _draw_kinds(home, rng):
        within = draw_scope(home, kind, rng, ask.briefed)
        candidates = denoted_devices(within, home)
        if len(candidates) < 2 or _is_any_taken(candidates, ask):
            continue
        for comparison in find_comparisons(home, within, rng):
            target = resolve_target(replace(within, where=comparison), home)
            wanted = draw_operation(home, target, rng)
            if wanted is None or not is_sensible_operation(comparison, wanted):
                continue
            reads = _attribute_reads(candidates, kind, comparison.attribute)
            draft = command_draft("state_dependent", home, target, (wanted,), ask, reads)
            if draft and set(draft.devices) == {device.did for device in target.devices}:
                return draft
    return None


def propose_room_dependent(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """An operation on all devices of a kind in some rooms.

    These are the rooms where another kind of device meets a comparison, or all other rooms.
    """
    for kind in _draw_kinds(home, rng):
        for sign, comparison in room_signs(home, rng):
            elsewhere = rng.random() < 0.35 and comparison.value not in (False, "no")
            target = resolve_target(Target((), kind, rooms_where=(sign, comparison), elsewhere=elsewhere), home)
            signs, alike = devices_of_kind(home, sign), devices_of_kind(home, kind)
            if sign == kind or not 0 < len(target.devices) < len(alike) or _is_any_taken((*signs, *target.devices), ask):
                continue
            wanted = draw_operation(home, target, rng)
            reads = _attribute_reads(signs, sign, comparison.attribute)
            if wanted and (draft := command_draft("room_dependent", home, target, (wanted,), ask, reads)):
                return replace(draft, meaning=ConditionalRoomsRequest(wanted.to_act(target)))
    return None


def propose_top_n(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """An operation on the first few devices of a kind by a number."""
    for kind in _draw_kinds(home, rng):
        within = draw_scope(home, kind, rng, ask.briefed)
        candidates = denoted_devices(within, home)
        if len(within.rooms) > 1 or len(candidates) < 2 or _is_any_taken(candidates, ask):
            continue  # "the brightest in the hall and the study" might be one in each
        for target in rank_targets(home, within, rng):
            wanted = draw_operation(home, target, rng)
            if wanted is None or not _fits_rank(target, wanted, home):
                continue
            read = (target.required_rank.attribute, *(("state",) if target.where else ()))
            reads = tuple(pair for name in read for pair in _attribute_reads(candidates, kind, name))
            draft = command_draft("top_n", home, target, (wanted,), ask, reads)
            if draft and set(draft.devices) == {device.did for device in target.devices}:
                return draft
    return None


def _draw_kinds(home: Home, rng: random.Random) -> Iterator[str]:
    """Kinds of which the home has several devices, drawn `TRIES` times.

    Kinds with more devices are drawn more often.
    """
    counts = {kind: len(devices_of_kind(home, kind)) for kind in KINDS}
    several = {kind: count**0.5 for kind, count in counts.items() if count > 1}
    for _ in range(TRIES if several else 0):
        yield rng.choices(list(several), list(several.values()))[0]


def _is_any_taken(devices: Sequence[Device], ask: Ask) -> bool:
    return any(device.did in ask.taken for device in devices)


def draw_operation(home: Home, target: Target, rng: random.Random) -> Operation | None:
    """A random operation that one of the devices can do, and that would change it; None if there is none."""
    device = rng.choice(target.devices)
    prefixes = parts_of_kind(device, target.required_kind)
    paths = [path for path in device.spec.service_index if path[: path.rfind(".") + 1] in prefixes]
    for path in rng.sample(paths, len(paths)):
        flicker = target.kind == "light" and path.endswith("set_speed")  # the speed of an effect
        action = None if flicker else propose_action(home, device, path, rng)
        if action is None or action.asked_service != action.service:
            continue
        if action.service not in UNTOLD and action.value not in TRIVIAL:
            return Operation(action.service, action.value, action.value_type)
    return None


def is_sensible_operation(comparison: AttributeComparison, wanted: Operation) -> bool:
    """Whether people would ask this operation of devices that they describe so.

    It must reverse what the description says, or end what the devices do.
    """
    if comparison.attribute == "state":
        opposite = OPPOSITES.get(comparison.value, "")
        return wanted.service == opposite or (opposite is None and wanted.service != "turn_on")
    if wanted.service == f"set_{comparison.attribute}":
        return not OPERATORS[comparison.operator](wanted.value, comparison.value)
    if comparison.attribute == "position":  # ">": the devices are open
        return wanted.service == ("close" if comparison.operator == ">" else "open")
    return wanted.service in ENDING


def _fits_rank(target: Target, wanted: Operation, home: Home) -> bool:
    """Whether people would ask this operation of devices with this rank.

    It must not be what the devices do already, nor move them further in the direction of the rank.
    """
    rank = target.required_rank
    if wanted.service in ("turn_on", "open", "play") and not rank.attribute.startswith("current"):
        return False
    if wanted.service != f"set_{rank.attribute}":
        return True
    others = [one for one in denoted_devices(replace(target, rank=None), home) if one not in target.devices]
    values = [attribute_values_of(home, device, target.required_kind, rank.attribute) for device in others]
    beyond = OPERATORS["<" if rank.highest else ">"]
    return all(beyond(wanted.value, value) for own in values for value in own)


def command_draft(
    subcategory: str, home: Home, target: Target, wanted: tuple[Operation, ...], ask: Ask, reads: tuple[Read, ...] = ()
) -> Draft | None:
    """The draft that asks for these operations on a target.

    None if it has too many devices, if people could disagree about them, if some cannot do the operations, or if none
    would change.
    """
    if not 0 < len(target.devices) <= MOST or has_lookalikes(home, target):
        return None
    kind = target.required_kind
    outcomes = [outcome for device in target.devices for outcome in carry_out_on_kind(home, device, kind, wanted)]
    carried = [outcome for outcome in outcomes if outcome is not None]
    if len(carried) < len(outcomes) or not any(changes for _, changes in carried):
        return None
    changed = tuple(action for action, changes in carried if changes)
    keeps = [action.condition for action, changes in carried if not changes]
    for device in (action.device for action in changed):  # its parts of other kinds keep their state
        others = [prefix + "state" for prefix, _ in device.spec.part_kinds if prefix not in parts_of_kind(device, kind)]
        paths = [path for path in others if path in device.spec.attribute_index]
        keeps += [earlier_values_condition(home, device, (path,)) for path in paths]
    acts = (wanted[0].to_act(target), *(one.to_act(replace(target, pronoun=True)) for one in wanted[1:]))
    factors = Factors(scope="batch_device", dependency="dependent" if reads else "independent")
    draft = draft_of_actions(subcategory, changed, factors, SpokenCommand(acts))
    if ask.whole_sets and not reads:  # who has read the states knows which are as wanted
        draft = replace(draft, plan=tuple(call for action, _ in carried for call in action.plan))
    return replace(draft, keeps=tuple(dict.fromkeys(keeps)), reads=reads)


def _attribute_reads(devices: Sequence[Device], kind: str, attribute: str) -> tuple[Read, ...]:
    pairs = ((device, prefix + attribute) for device in devices for prefix in parts_of_kind(device, kind))
    return tuple((device.did, path) for device, path in pairs if path in device.spec.attribute_index)


SUBCATEGORIES = {
    "explicit": propose_explicit,
    "batch": propose_batch,
    "state_dependent": propose_state_dependent,
    "room_dependent": propose_room_dependent,
    "top_n": propose_top_n,
}
