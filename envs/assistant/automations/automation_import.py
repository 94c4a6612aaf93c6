"""Automations of a Home Assistant as automations of the home; scripts and scenes are devices that the home can call.

Their keys are those of `automation_text.py`. Each trigger becomes a rule of its own: what the automation does when that
trigger sets it off.

An automation that is not exposed itself is kept in the home's origin, for those who guard the real home. So is, of one that
is not taken, or that reaches beyond the home, whose change may make it act and on what (`automation_reach.py`).

What must hold when an automation acts is no part of what makes it act: where it becomes true later, nothing happens. A
script runs for as long as its delays take, where its text tells.

Invariants: an automation is taken as a whole or not at all, so a key that is not read in any of its parts makes the whole
unreadable; for each automation or script that is not taken, a note says why, whatever is wrong with its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.assistant.automations.automation_actions import ActionWriter, Step, can_wait, write_script
from homerl.envs.assistant.automations.automation_reach import (
    acts_by_event,
    keep_reachable,
    reach_beyond_home,
    reach_of_unread,
)
from homerl.envs.assistant.automations.automation_text import (
    NESTING,
    UnreadableAutomation,
    keep_readable_parts,
)
from homerl.envs.assistant.automations.home_facts import HomeFacts, join_with_and
from homerl.envs.assistant.automations.named_entities import AutomationReferences, is_left_out, list_heard_events
from homerl.envs.assistant.automations.triggers_and_conditions import (
    AutomationScope,
    RuleTrigger,
    define_variables,
    entries_under_key,
    parse_duration,
    read_triggers,
)
from homerl.envs.assistant.listing.home_listing import (
    AUTOMATIONS,
    FORMS,
    SCRIPTS,
    STATES,
    ImportNote,
    Listing,
    entity_domain,
)
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient, HomeAssistantError
from homerl.envs.assistant.privacy import CODES
from homerl.envs.homeenv.sim.automation import make_recorded_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import Hidden, Unfollowed
from homerl.envs.homeenv.sim.values.auditor import Refused

RUNS = "runs"  # the attribute in which an imported script counts how often it was run
MODES = ("single", "restart", "queued", "parallel")
MOST = 10  # runs at a time of an automation that admits several and does not say how many


async def with_automation_texts(client: HomeAssistantClient, listing: Listing) -> Listing:
    """The listing with the texts of its automations and scripts, as far as the token may read them."""
    texts: dict[str, dict[str, Any]] = {AUTOMATIONS: {}, SCRIPTS: {}}
    kinds = {"automation": AUTOMATIONS, "script": SCRIPTS}
    for entity in sorted(state["entity_id"] for state in listing.sources[STATES]):
        if (command := kinds.get(entity_domain(entity))) is not None:
            try:
                texts[command][entity] = (await client.call_command(command, entity_id=entity)).get("config")
            except HomeAssistantError as error:
                if error.code is None:
                    raise
                texts[command][entity] = None
    return listing.with_sources(texts)


@dataclass(frozen=True)
class ReadableTexts:
    """What is read of the texts of a listing, by entity. A text is None where the token may not read it."""

    automations: Mapping[str, Any]
    scripts: Mapping[str, Any]

    @classmethod
    def of_listing(cls, listing: Listing) -> ReadableTexts:
        """What is read of the texts of a listing."""
        told, forms = listing.sources[AUTOMATIONS], listing.sources[FORMS]
        refers = AutomationReferences(heard=frozenset(list_heard_events(list(told.values()))))
        scripts = sorted(listing.sources.get(SCRIPTS, {}).items())
        return cls(
            {
                entity: text and keep_readable_parts(text, forms, CODES, refers=refers)
                for entity, text in sorted(told.items())
            },
            {entity: keep_readable_parts(text, forms, CODES) for entity, text in scripts if text is not None},
        )


def add_automations(home: Home, listing: Listing, readable: ReadableTexts) -> list[ImportNote]:
    """Give the home the automations that can be read, and its origin what is not exposed. Returns what cannot be read."""
    notes: list[ImportNote] = []
    hidden: list[Hidden] = []
    unfollowed: list[Unfollowed] = []
    states = {row["entity_id"]: row["state"] for row in listing.sources[STATES]}
    texts = readable.automations
    heard = acts_by_event(texts)
    for entity, kept in texts.items():
        if kept is None:
            notes.append(ImportNote(entity, "automation", "its text could not be read: give an administrator's token"))
            continue
        try:
            hidden_rules, outside = _read_automation(home, entity, kept, readable.scripts)
            rules = tuple(make_recorded_rule(home, one, str(kept.get("alias") or "")) for one in hidden_rules)
        except Exception as error:  # people write the texts: none ends the import of the others
            notes.append(ImportNote(entity, "automation", _explain_error(error)))
            unfollowed.append(reach_of_unread(entity, kept, heard))
            continue
        unfollowed += reach_beyond_home(entity, kept, outside, heard)
        if entity in states:
            home.rules += tuple(rule.with_progress(enabled=states[entity] == "on") for rule in rules)
        else:
            hidden += hidden_rules
    for entity in readable.scripts:
        if entity in home.plan.devices_by_did:
            hidden += _read_script(home, entity, readable.scripts, notes)
    if home.plan.origin is not None:
        origin = home.plan.origin.model_copy(update={"hidden": tuple(hidden), "unfollowed": tuple(unfollowed)})
        reached = keep_reachable(origin, home.plan.devices_by_did)
        home.plan = replace(home.plan, origin=origin.model_copy(update={"unfollowed": reached}))
    return notes


def _explain_error(error: Exception) -> str:
    """Why something is not taken. Of what nobody foresaw the kind alone is told: the rest may repeat what is private."""
    if isinstance(error, Refused):
        return error.message
    return str(error) if isinstance(error, UnreadableAutomation) else f"its text cannot be read ({type(error).__name__})"


def _read_script(home: Home, id: str, scripts: Mapping[str, Any], notes: list[ImportNote]) -> Iterator[Hidden]:
    """What a script does when it is run, if it can be read: its device counts the runs."""
    text = scripts[id]
    try:
        steps, _ = write_script(HomeFacts(home, {}, scripts), id, text, {})
        one = Hidden(
            id=id,
            conditions=(f'changed = device("{id}").{RUNS}',),
            actions=tuple(steps),
            runs=_read_runs(id, text, can_wait(steps)),
        )
        make_recorded_rule(home, one)
    except Exception as error:  # its device is guarded all the same, since nobody knows what it does
        notes.append(ImportNote(id, "script", _explain_error(error), minor=True))
        return
    if steps:
        yield one


def _read_automation(
    home: Home, entity: str, text: Any, scripts: Mapping[str, Any]
) -> tuple[tuple[Hidden, ...], tuple[str, ...]]:
    """The rules of an automation, one for each way in which a trigger comes, and the services that it calls beyond the home.

    Raises `UnreadableAutomation` or `Refused`.
    """
    if not isinstance(text, Mapping):
        raise UnreadableAutomation("its text is none of an automation")
    if (key := next((key for key, value in text.items() if is_left_out(value)), None)) is not None:
        raise UnreadableAutomation(f"it has '{key}', which is not known here")
    facts = HomeFacts(home, text.get("sun") or {}, scripts)
    scope = AutomationScope(facts, tells_past="from_state" in str(text))
    define_variables(scope, text.get("trigger_variables"))
    triggers = read_triggers(scope, entries_under_key(text, "triggers", "trigger"))
    made = [_read_rule(facts, entity, text, trigger) for trigger in triggers]
    if not triggers:  # it is read all the same, so that what is taken is taken as a whole
        _read_rule(facts, entity, text, RuleTrigger(()))
    found = [(trigger, given, steps) for trigger, (given, steps, _) in zip(triggers, made) if given is not None and steps]
    runs = _read_runs(entity, text, any(can_wait(steps) for _, _, steps in found)) | (
        {"of": entity} if len(found) > 1 else {}
    )
    rules = tuple(
        Hidden(
            id=entity if len(found) == 1 else f"{entity}.{number}",
            conditions=trigger.conditions,
            hold=trigger.hold,
            given=(*trigger.given, *given),
            actions=tuple(steps),
            runs=runs,
        )
        for number, (trigger, given, steps) in enumerate(found, 1)
    )
    return rules, tuple(dict.fromkeys(one for *_, outside in made for one in outside))


def _read_rule(
    facts: HomeFacts, entity: str, text: Mapping[str, Any], trigger: RuleTrigger
) -> tuple[tuple[str, ...] | None, list[Step], list[str]]:
    """What must hold where a trigger comes, None if it never does; the steps; and the services beyond the home."""
    scope = AutomationScope(facts, trigger.ids, dict(trigger.names))
    define_variables(scope, text.get("variables"), known=True)
    tests = [scope.read_condition(one) for one in entries_under_key(text, "conditions", "condition")]
    writer = ActionWriter(scope, entity)
    steps = writer.write_steps(entries_under_key(text, "actions", "action"))
    given = None if join_with_and(tests) is False else tuple(test for test in tests if isinstance(test, str))
    return given, steps, writer.outside


def _read_runs(entity: str, text: Mapping[str, Any], waits: bool) -> dict[str, Any]:
    """How many runs an automation admits, which matters if it may wait."""
    mode = text.get("mode") or "single"
    if mode not in MODES:
        raise UnreadableAutomation(f"it has the mode '{mode}', which is not known here")
    if not waits:
        return {}
    if mode == "queued":
        raise UnreadableAutomation("it queues its runs, and waits in them")
    most = text.get("max") or MOST
    if not isinstance(most, int):
        raise UnreadableAutomation(f"it has '{most}' runs at most")
    return {"of": entity, "most": 1 if mode == "single" else most, **({"restart": True} if mode == "restart" else {})}


UNTOLD = ("wait_template", "wait_for_trigger", "repeat")  # what takes as long as it takes


def script_duration(text: Any) -> int | None:
    """The seconds for which a script runs; None if that is not told, or depends on the home."""
    sequence = text.get("sequence") if isinstance(text, Mapping) else None
    total = 0
    for action in sequence if isinstance(sequence, list) else [sequence]:
        if not isinstance(action, Mapping) or any(key in action for key in UNTOLD):
            return None
        if "delay" in action:
            try:
                total += parse_duration(action["delay"])
            except UnreadableAutomation:
                return None
        elif "delay" in str({key: action[key] for key in NESTING if key in action}) or "wait_" in str(action):
            return None
    return total
