"""What an agent tried for a sentence and the home did not do, as a person is told it.

An attempt counts unless a later message of the agent put it right. What was wanted of a device that is there is put right by
the same service of that device; where it has no such service, by any. Else the same tool has to work with the same service.
If the person named the device that was not found, the later call must name it too: another device may be the next wish.
What only reads, or names neither, is put right by any later act.

Invariants: all functions are pure; of what the agent wrote, only names that a person may say are told of a `MissedAction`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.assistant.listing.room_and_device_names import (
    SPACELESS,
    full_device_names,
    normalize_text,
    spoken_device_name,
)
from homerl.envs.assistant.serving.live_situation import UNMADE, ToolAttempt, TwinCall
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.play.tool_call_parser import read_tool_calls
from homerl.play.trajectory import Step

LEFT_OUT, UNFINISHED = "left_out", "unfinished"  # rules beside those of attempts
WITH_SENTENCE = (UNMADE, UNFINISHED)  # rules that are told in a sentence of their own
READS = re.compile("(?:get|query|list|read|search|find)\\b")  # how the names of tools begin that change nothing
FILLING = {"the", "a", "an", "my", "all", "的"}  # words that are no part of a name
SPOKEN = re.compile(r"(?!.*\w[._]\w)[^{}\[\]<>=\\/@\n]{1,60}")  # what may be a name; an id, an address or JSON is none


@dataclass(frozen=True)
class MissedAction:
    """Something that was not done, by which rule. `device` and `service` are as people say them; empty if nothing fits."""

    rule: str
    device: str = ""
    service: str = ""
    did: str = ""
    tool: str = ""

    @classmethod
    def missed_call(cls, plan: FixedPlan, did: Any, service: Any, rule: str, tool: str = "") -> MissedAction:
        """A service call that was not made."""
        known = isinstance(did, str) and did in plan.devices_by_did
        return cls(
            rule, spoken_device_name(plan, did) if known else "", _spoken_service(service), did if known else "", tool
        )


def attempts_in_step(step: Step, taken: Iterable[ToolAttempt]) -> tuple[ToolAttempt, ...]:
    """The attempts of a message, in order: those that the home has taken, and those that it never saw."""
    rest, calls = iter(taken), read_tool_calls(step.message)
    if not calls:  # one answer in place of calls, or what should have been a call
        return (*rest,) or ((ToolAttempt("", rule="syntax"),) if step.facts.blocked else ())
    lost = step.facts.blocked[-1] if step.facts.blocked else "call_limit"  # the rule by which the home never saw a call
    return tuple(
        ToolAttempt(call.name, rule="syntax")
        if call.malformed
        else replace(next(rest, ToolAttempt(call.name, rule=lost)), arguments=call.arguments)
        for call in calls
    )


def find_missed_actions(tried: Sequence[Sequence[ToolAttempt]], said: str, home: Home) -> tuple[MissedAction, ...]:
    """What was not done of the attempts of each of an agent's messages, and was not put right by a later message."""
    found = (
        one
        for at, attempts in enumerate(tried)
        for attempt in attempts
        for one in _missed_in(attempt, home.plan)
        if not _is_put_right(one, [later for message in tried[at + 1 :] for later in message], said, home)
    )
    return tuple(dict.fromkeys(found))


def _missed_in(attempt: ToolAttempt, plan: FixedPlan) -> Iterator[MissedAction]:
    """What an attempt wanted and the home did not do."""
    yield from (MissedAction.missed_call(plan, one.did, one.service, rule, attempt.tool) for one, rule in attempt.refused)
    if attempt.rule is None:
        return
    known = {(one.did, one.service) for one in [*attempt.made, *(one for one, _ in attempt.refused)]}
    left = [wanted for wanted in _wanted_calls(attempt) if wanted not in known]
    rules = [LEFT_OUT if attempt.refused else attempt.rule, *[LEFT_OUT] * len(left)]
    yield from (
        MissedAction.missed_call(plan, did, service, rule, attempt.tool) for (did, service), rule in zip(left, rules)
    )
    if not (attempt.refused or left):
        act = _act_of_tool(attempt.tool) if "__" in attempt.tool or attempt.rule == "unknown_tool" else ""
        yield MissedAction(attempt.rule, _name_in_arguments(attempt), act, tool=attempt.tool)


def _wanted_calls(attempt: ToolAttempt) -> list[tuple[Any, Any]]:
    """(device id, service) of the calls that the arguments hold."""
    actions = attempt.arguments.get("actions")
    given = actions if isinstance(actions, list) else [attempt.arguments]
    pairs = [(one.get("did"), one.get("locator")) for one in given if isinstance(one, dict)]
    return [(did, service) for did, service in pairs if isinstance(did, str) and isinstance(service, str)]


def _name_in_arguments(attempt: ToolAttempt) -> str:
    """The words by which arguments of Assist name a device: its room, and its name or else its kind."""
    area, name, kind = (attempt.arguments.get(key) for key in ("area", "name", "domain"))
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return " ".join(filter(None, (_spoken_name(area), _spoken_name(name) or _spoken_name(kind))))


def _act_of_tool(tool: str) -> str:
    """What a tool does, by its name: `turn on` for `intent__HassTurnOn`."""
    words = tool.rpartition("__")[2].removeprefix("Hass")
    return _spoken_service(re.sub("(?<=[a-z])(?=[A-Z])", " ", words).lower())


def _spoken_service(locator: Any) -> str:
    """The own name of a service: `set brightness` for `light.set_brightness`."""
    return _spoken_name(locator.rpartition(".")[2].replace("_", " ")) if isinstance(locator, str) else ""


def _spoken_name(text: Any) -> str:
    """A name as people say it, or nothing if it is none."""
    return text.strip() if isinstance(text, str) and SPOKEN.fullmatch(text) else ""


def _is_put_right(one: MissedAction, later: Sequence[ToolAttempt], said: str, home: Home) -> bool:
    """Whether later attempts did what was missed."""
    made = [call for attempt in later for call in attempt.made]
    worked = [attempt for attempt in later if attempt.rule is None]
    if one.rule in WITH_SENTENCE:
        return False
    if one.did:
        anything = one.rule == "unknown_service" or not one.service
        return any(call.did == one.did and (anything or _spoken_service(call.service) == one.service) for call in made)
    anywhere = not one.tool or one.rule == "unknown_tool"
    alike = [attempt for attempt in worked if anywhere or attempt.tool == one.tool]
    if one.device and words_of_name(one.device) <= words_of_name(said):
        return any(words_of_name(one.device) <= words_of_name(" ".join(_names_in(attempt, home))) for attempt in alike)
    if one.service and "__" not in one.tool and not anywhere:
        return any(_spoken_service(call.service) == one.service for attempt in alike for call in attempt.made)
    reads = READS.match(_act_of_tool(one.tool)) or not (one.device or one.rule == "syntax")
    return bool(alike or (made and reads))


def _names_in(attempt: ToolAttempt, home: Home) -> Iterator[str]:
    """By which names an attempt speaks of devices."""
    yield _name_in_arguments(attempt)
    for did in dict.fromkeys(call.did for call in attempt.made):
        yield from full_device_names(home, home.plan.devices_by_did[did])


def left_out_calls(plan: FixedPlan, made: Sequence[TwinCall], rule: str = LEFT_OUT) -> tuple[MissedAction, ...]:
    """Calls that are not made after all: the first for this reason, the others since they were left out then."""
    rules = [rule, *[LEFT_OUT] * len(made)]
    return tuple(MissedAction.missed_call(plan, one.did, one.service, why) for one, why in zip(made, rules))


def words_of_name(text: str) -> set[str]:
    """The words of a text, without the sign of the plural; each letter of a script without spaces is one."""
    apart = SPACELESS.sub(lambda letter: f" {letter[0]} ", normalize_text(text))
    return {word.rstrip("s") for word in apart.split()} - FILLING
