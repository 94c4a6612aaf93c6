"""Φ: what a blueprint asks for, and when each goal is met.

Goals on the home (conditions, automations) are functions of its state, and may be undone. Goals on the dialogue
(answers, questions asked back) are met by an agent's words, and stay met.

Invariants: pure; nothing here draws on chance or on a model's opinion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.homeenv.conditions import Condition, compile_condition
from envs.homeenv.home import Home
from homerl.language.answers import read
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint, Intent
from homerl.worlds.homeenv.blueprints.rules import fulfils


@dataclass(frozen=True)
class Heard:
    """What agents have said so far: the intents that were answered, those that were asked about in time, and those that
    were answered wrongly (which stands: nobody may try one answer after the other)."""

    answered: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    misled: frozenset[int] = frozenset()

    def after(self, intent: Intent, claims: str, question: bool, untouched: bool) -> Heard:
        """With one more message, said while the user spoke of `intent`; `untouched` says that nothing was done yet."""
        answered, asked, misled = self.answered, self.asked, self.misled
        if question and intent.clarify:
            asked |= {intent.id} if untouched else set()
        elif intent.answer is not None and intent.id not in misled:
            reading = read(intent.answer, claims)
            answered |= {intent.id} if reading == "right" else set()
            misled |= {intent.id} - answered if reading == "wrong" else set()
        return Heard(answered, asked, misled)


@dataclass(frozen=True)
class Goal:
    """One item of Φ, and whether it asks for an answer."""

    intent: int
    met: Callable[[Home, Heard], bool] = field(compare=False)
    answer: bool = False


def goals(blueprint: Blueprint, start: Home) -> tuple[Goal, ...]:
    """All goals in the order of the intents, or `InputError` where one does not fit the home."""
    return tuple(goal for intent in blueprint.intents for goal in _goals_of(intent, start))


def keeps(blueprint: Blueprint, start: Home) -> tuple[Condition, ...]:
    """What must hold all the while."""
    return tuple(compile_condition(text, start.plan) for intent in blueprint.intents for text in intent.keeps)


def _goals_of(intent: Intent, start: Home) -> Iterator[Goal]:
    id = intent.id
    if intent.clarify:
        yield Goal(id, lambda home, heard: id in heard.asked)
    for text in intent.conditions:
        condition = compile_condition(text, start.plan)
        yield Goal(id, lambda home, heard, condition=condition: condition.holds(home))
    if (wanted := intent.automation) is not None:
        yield Goal(id, lambda home, heard: fulfils(home, start, wanted))
    if intent.answer is not None:
        yield Goal(id, lambda home, heard: id in heard.answered, answer=True)


def describe_goals(intent: Mapping[str, Any]) -> Iterator[str]:
    """The goals of an intent (as plain data) in the order of Φ, for people."""
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
