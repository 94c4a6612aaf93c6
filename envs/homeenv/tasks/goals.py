"""Φ: the goals of a blueprint, and when each goal is met.

Goals on the home (conditions, automations) are functions of its current state, so a met goal can become unmet. Goals on
the dialogue (answers, clarifying questions) are met by the words of an agent, and stay met.

Invariants: pure; nothing here is random or asks a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from homerl.envs.homeenv.sim.conditions import Condition, compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.automation_goals import has_wanted_automation
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.play.words.answer_rules import judge_answer_by_rules


@dataclass(frozen=True)
class HeardReplies:
    """What the agents have said so far, as sets of intent ids.

    `answered` are intents whose question was answered correctly. `asked` are intents for which the agent asked a
    clarifying question before it acted. `misled` are intents that were answered wrongly before any correct answer; a
    later correct answer does not count, so that an agent cannot try one answer after another.
    """

    answered: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    misled: frozenset[int] = frozenset()

    def after_message(self, intent: Intent, claims: str, question: bool, untouched: bool) -> HeardReplies:
        """The state after one more message, said while the user spoke of `intent`.

        `claims` is the part of the message that states something. `question` says whether the message asks something.
        `untouched` says whether the agent has not yet done anything about the intent.
        """
        answered, asked, misled = self.answered, self.asked, self.misled
        if question and intent.clarify:
            asked |= {intent.id} if untouched else set()
        elif intent.answer is not None and intent.id not in misled:
            reading = judge_answer_by_rules(intent.answer, claims)
            answered |= {intent.id} if reading == "right" else set()
            misled |= {intent.id} - answered if reading == "wrong" else set()
        return HeardReplies(answered, asked, misled)


@dataclass(frozen=True)
class Goal:
    """One goal of Φ: the id of its intent, a predicate, and whether the goal asks for an answer."""

    intent: int
    met: Callable[[Home, HeardReplies], bool] = field(compare=False)
    answer: bool = False


def compile_goals(blueprint: Blueprint, start: Home) -> tuple[Goal, ...]:
    """All goals in the order of the intents.

    Raises `InputError` if a condition does not fit the home.
    """
    return tuple(goal for intent in blueprint.intents for goal in _goals_of_intent(intent, start))


def compile_keeps(blueprint: Blueprint, start: Home) -> tuple[Condition, ...]:
    """The compiled conditions that must hold throughout the episode."""
    return tuple(compile_condition(text, start.plan) for intent in blueprint.intents for text in intent.keeps)


def _condition_holds(condition: Condition, home: Home, heard: HeardReplies) -> bool:
    return condition.holds_in(home)


def _goals_of_intent(intent: Intent, start: Home) -> Iterator[Goal]:
    id = intent.id
    if intent.clarify:
        yield Goal(id, lambda home, heard: id in heard.asked)
    for text in intent.conditions:
        yield Goal(id, partial(_condition_holds, compile_condition(text, start.plan)))
    if (wanted := intent.automation) is not None:
        yield Goal(id, lambda home, heard: has_wanted_automation(home, start, wanted))
    if intent.answer is not None:
        yield Goal(id, lambda home, heard: id in heard.answered, answer=True)


def goals_on_home(intents: Iterable[Mapping[str, Any]]) -> dict[int, set[int]]:
    """By the id of each intent, given as plain data: where in Φ its goals on the home are, in the order of Φ."""
    found, at = {}, 0
    for intent in intents:
        first = at + bool(intent.get("clarify"))
        end = first + len(intent.get("conditions", ())) + (intent.get("automation") is not None)
        found[intent["id"]], at = {*range(first, end)}, end + (intent.get("answer") is not None)
    return found


def describe_goals(intent: Mapping[str, Any]) -> Iterator[str]:
    """Descriptions for people of the goals of an intent, given as plain data, in the order of Φ."""
    if intent.get("clarify"):
        yield "asks before it acts"
    yield from intent.get("conditions", ())
    if rule := intent.get("automation"):
        after = f"after {rule['delay_seconds']} s" if rule["delay_seconds"] else ""
        held = f"held {rule['hold_seconds']} s" if rule["hold_seconds"] else ""
        when = " and ".join([*rule["conditions"], *filter(None, (after, held))])
        yield f"a rule: when {when}, then {' and '.join(rule['effects'])}"
    if answer := intent.get("answer"):
        yield f"answers: {json.dumps(answer['value'], ensure_ascii=False)}"
