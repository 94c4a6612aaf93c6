"""What makes an automation act that is not understood, and on what it may act: for those who guard the home.

Invariants:
- What is not understood may be set off by every entity that its triggers and waits name or look up, and where these name
  nothing, by any. What comes from outside or once a day sets off nothing here. What comes again and again by the clock acts
  once its conditions hold, so what these name sets it off too.
- That an automation runs is an event, for which others may wait.
- An action of an unknown form, or whose service or entities are not known, may act on anything: `anything`, or
  `switch.anything` of a known kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from homerl.envs.assistant.automations.automation_text import DATA, NESTED, NESTING, TELLING, find_hidden_key
from homerl.envs.assistant.automations.named_entities import (
    CLOCK_SENSORS,
    FIRED,
    OTHERS,
    PLACES,
    fired_event,
    is_left_out,
    list_heard_events,
    list_names,
)
from homerl.envs.assistant.automations.triggers_and_conditions import comes_from_outside, entries_under_key, trigger_kind
from homerl.envs.assistant.listing.home_listing import entity_domain, is_entity_id
from homerl.envs.homeenv.sim.home_plan import ANY_DEVICE, ANYTHING, Origin, Unfollowed

OFTEN = "time_pattern"  # the kind of triggers that come again and again
CLOCKS = ("time", OFTEN, "sun")  # kinds of triggers by the time
HELD = ("if", "conditions", "while", "until")  # keys of actions under which conditions stand
VALUES = ("variables", "trigger_variables", "for_each")  # keys under which stands what conditions may look at
OF_CLOCK = ("time", "sun", "trigger")  # kinds of conditions that look at nothing in the home
WAITS = frozenset(("delay", "wait_template", "wait_for_trigger"))  # keys of actions in which time passes
SIDE_BY_SIDE = ("parallel", "choose")  # keys under which no part follows another one
FORMS = frozenset(  # keys by which an action is known, also one that acts on nothing
    "action service domain event scene delay wait_template wait_for_trigger stop variables condition and or not if "
    "set_conversation_response sequence conditions while until count for_each".split()
) | {*NESTING}
NAMELESS = ("trigger", "platform", "id", "event_type", "domain", "type", "variables")  # keys that name no entity
AUTOMATION = "automation"
BASIC = "homeassistant.turn_on"  # a service that hands on what it does to those of each entity


Heard = Mapping[str, Collection[str]]  # by an event that is fired: what those act on that hear it


def acts_by_event(texts: Mapping[str, Any]) -> Heard:
    """What automations may act on that wait for events, by the event. That another automation runs is one."""
    heard = defaultdict[str, list[str]](list)
    for id, text in texts.items():
        if isinstance(text, Mapping):
            others = (one for one in names_read(text) if entity_domain(one) == AUTOMATION)
            for kind in dict.fromkeys((*list_heard_events(text), *others)):
                heard[fired_event(kind)] += [*list_acts(text), fired_event(id)]
    return heard


def follow_events(acts: Iterable[str], heard: Heard) -> tuple[str, ...]:
    """What is acted on, also by automations that hear the events that are fired on the way, or caused by a service."""
    found, new = dict[str, None](), list(acts)
    for one in new:  # which grows
        if one not in found:
            found[one] = None
            new += [*heard.get(one, ()), *(act for kind in heard if may_cause(one, kind) for act in heard[kind])]
    return tuple(one for one in found if not one.startswith(FIRED))


def may_cause(act: str, event: str) -> bool:
    """Whether what is acted on may cause an event, by their names: `logbook.log` causes `logbook_entry`."""
    kind = fired_event(entity_domain(act))
    return event == kind or event.startswith((f"{kind}_", f"{kind}."))


def list_acts(text: Mapping[str, Any]) -> Iterable[str]:
    """What an automation may act on."""
    told = has_key(text, "actions", "action")
    return list_targets(entries_under_key(text, "actions", "action")) if told else (ANYTHING,)


def reach_of_unread(id: str, text: Any, heard: Heard) -> Unfollowed:
    """What an automation may do that is not understood, and what sets it off."""
    parts: Mapping[str, Any] = text if isinstance(text, Mapping) else {}
    acts = follow_events((*list_acts(parts), fired_event(id)), heard)
    return Unfollowed(id=id, reads=_reads_of_names(names_read(parts)), acts=acts)


def reach_beyond_home(id: str, text: Mapping[str, Any], outside: tuple[str, ...], heard: Heard) -> Iterator[Unfollowed]:
    """What an automation does that the twin does not show, whose text is understood: beyond the home, by events, by what
    speaks, and in a run that waits now, which nobody knows of."""
    actions = entries_under_key(text, "actions", "action")
    acts = [*list_targets(actions)]
    unseen = [one for one in acts if any(may_cause(one, kind) for kind in heard)]
    unseen += list_targets(actions, lambda service: entity_domain(service) in TELLING)
    acted = follow_events((*outside, *unseen, fired_event(id)), heard)
    yield Unfollowed(id=id, reads=_reads_of_names(names_read(text)), acts=acted)
    waits = dict.fromkeys(name for part in _list_waits(actions) for name in list_names(part))
    yield Unfollowed(id=id, reads=_reads_of_names(waits), acts=follow_events(acts, heard))


def _reads_of_names(named: Collection[str]) -> tuple[str, ...]:
    return ANY_DEVICE if OTHERS in named else tuple(filter(is_entity_id, named))


def keep_reachable(origin: Origin, devices: Collection[str]) -> tuple[Unfollowed, ...]:
    """What automations may do, of those that act on something and that something may set off: a device of the home, what
    another one of these acts on, or what changes with all that."""
    kept = tuple(one for one in origin.unfollowed if one.acts)
    while True:  # one that goes may have been all that set off another one
        may_change = origin.model_copy(update={"unfollowed": kept}).change_test(devices)
        read = (one.reads if one.reads == ANY_DEVICE else tuple(filter(may_change, one.reads)) for one in kept)
        left = tuple(one.model_copy(update={"reads": reads}) for one, reads in zip(kept, read) if reads)
        if left == kept:
            return kept
        kept = left


def has_key(text: Mapping[str, Any], *keys: str) -> bool:
    """Whether something stands under one of these keys."""
    return any(text.get(key) is not None for key in keys)


def names_read(text: Mapping[str, Any]) -> dict[str, None]:
    """What may make an automation act: what its triggers and waits name, and `*` if others may, whichever they are."""
    found: dict[str, None] = {}
    if has_key(text, "triggers", "trigger"):
        parts = [*_list_triggers(entries_under_key(text, "triggers", "trigger"))]
        if any(map(_comes_often, parts)):
            for asked in _list_conditions(text):
                named = dict.fromkeys(list_names(asked))
                found |= named if named or _asks_the_clock(asked) else {OTHERS: None}
        parts += _list_waits(entries_under_key(text, "actions", "action"))
    else:
        parts = [text]  # such as a blueprint's inputs
    for part in parts:
        said = {key: one for key, one in part.items() if key not in NAMELESS} if isinstance(part, Mapping) else part
        named = dict.fromkeys(list_names(said))
        found |= named if named or _comes_from_elsewhere(part) else {OTHERS: None}
    return found


def _list_triggers(texts: list[Any]) -> Iterator[Any]:
    """The triggers of a list, and those that they hold."""
    for one in texts:
        if isinstance(one, Mapping) and NESTED in one:
            yield from _list_triggers(entries_under_key(one, NESTED))
        else:
            yield one


def _list_waits(action: Any, in_order: bool = True) -> Iterator[Any]:
    """The triggers and templates for which an action, or one within it, waits, and the conditions that come after a wait.

    The actions of a list are taken `in_order`, or else beside or instead of each other.
    """
    if isinstance(action, list):
        waited = False
        for one in action:
            yield from _list_waits(one)
            yield from _list_conditions(one) if waited and in_order else ()
            waited = waited or _may_wait(one)
    if isinstance(action, Mapping):
        yield from _list_triggers(entries_under_key(action, "wait_for_trigger"))
        yield from entries_under_key(action, "wait_template")
        yield from _list_conditions(action["repeat"]) if "repeat" in action else ()  # a loop looks again and again
        yield from (found for key in NESTING for found in _list_waits(action.get(key), key not in SIDE_BY_SIDE))


def _may_wait(action: Any) -> bool:
    """Whether time may pass in an action, or in one within it."""
    if isinstance(action, list):
        return any(map(_may_wait, action))
    return isinstance(action, Mapping) and (
        not WAITS.isdisjoint(action) or any(_may_wait(action.get(key)) for key in NESTING)
    )


def _comes_often(trigger: Any) -> bool:
    """Whether a trigger comes again and again by the clock, also by one of its sensors."""
    if not isinstance(trigger, Mapping):
        return False
    return trigger_kind(trigger) == OFTEN or not CLOCK_SENSORS.isdisjoint(list_names(trigger))


def _list_conditions(part: Any) -> Iterator[Any]:
    """The conditions of an automation, and those among its actions; variables and lists, too, on which these may depend."""
    if isinstance(part, list):
        yield from (found for one in part for found in _list_conditions(one))
    elif isinstance(part, str):
        yield from (part,) if is_left_out(part) or "{" in part else ()  # a template among the actions
    elif isinstance(part, Mapping):
        if part.keys() & {"condition", "and", "or", "not"} and not part.keys() & {"actions", "action", "service"}:
            yield part
        yield from (part[key] for key in (*HELD, "condition", *VALUES) if key in part)
        yield from (found for key in ("actions", "action", *NESTING) for found in _list_conditions(part.get(key)))


def _asks_the_clock(condition: Any) -> bool:
    """Whether a condition that names no entity, or each of a list of them, looks at nothing in the home."""
    if isinstance(condition, list):
        return all(map(_asks_the_clock, condition))
    if isinstance(condition, Mapping):
        return condition.get("condition") in OF_CLOCK and find_hidden_key(condition) is None
    return not isinstance(condition, str)


def _comes_from_elsewhere(trigger: Any) -> bool:
    """Whether a trigger that names no entity comes from outside of the home, or from the clock."""
    if not isinstance(trigger, Mapping):
        return False
    return comes_from_outside(trigger) or (trigger_kind(trigger) in CLOCKS and find_hidden_key(trigger) is None)


def list_targets(action: Any, counts: Callable[[str], bool] | None = None) -> Iterator[str]:
    """What an action, or one within it, may act on: entities, or its service where it names none, or anything.

    With `counts` only by the services for which it holds.
    """
    if isinstance(action, list):
        yield from (found for one in action for found in list_targets(one, counts))
    if not isinstance(action, Mapping):
        return
    service = next((one for key in ("action", "service", "domain") if isinstance(one := action.get(key), str)), None)
    if service is not None:
        yield from _list_called(action, service) if counts is None or counts(service) else ()
    yield from (found for key in NESTING for found in list_targets(action.get(key), counts))
    if service is not None or counts is not None:
        return
    if isinstance(fired := action.get("event"), str):
        yield fired_event(fired)
    yield from (one if is_entity_id(one) else ANYTHING for one in entries_under_key(action, "scene"))
    if action and not action.keys() & FORMS:
        yield ANYTHING


def _list_called(action: Mapping[str, Any], service: str) -> Iterator[str]:
    """What the call of a service may act on."""
    places = [action, *(one for key in ("target", *DATA) if isinstance(one := action.get(key), Mapping))]
    named = [one for place in places for one in entries_under_key(place, "entity_id")]
    entities = [one for one in named if is_entity_id(one)]
    unknown = len(entities) < len(named) or any(is_left_out(action.get(key)) for key in ("target", *DATA))
    unknown |= any(key in place for place in places[1:] for key in PLACES) or ("device_id" in action and not entities)
    yield from entities
    if is_left_out(service):
        yield ANYTHING
    elif unknown:
        yield f"{entity_domain(service)}.{ANYTHING}"
    elif not entities or entity_domain(service) not in map(entity_domain, (*entities, BASIC)):
        yield service  # of an integration, which may do more with an entity than its own services
