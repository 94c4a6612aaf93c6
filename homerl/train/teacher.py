"""Self-distillation: the policy itself, shown the goals and a plan, judges what it did without them (`rlve.teacher`).

The teacher has the policy's weights. It reads the student's dialogue with a note in the instructions: the goals Φ in words,
and what the world's expert wrote in a dialogue of the same blueprint. With `shown: open`, the note before each step has only
what is open there: the goals that are not met, and the expert's turns that led to one of them. For a token that the
student sampled, the gap is

    d = log π(token | note, dialogue) - log π(token | dialogue)

in nats: above 0, one would rather write it if one knew the plan. Its use is bounded by ln b (`bound`), in both of two ways:

- `weigh` κ multiplies the credit A of a step by exp(clip(κ · sign(A) · D, ±ln b)), where D is the sum of its d: the
  logarithm of how much likelier the teacher finds the step than the student does. What the rewards and the teacher agree on
  weighs more, up to b times; what they disagree on weighs less. A credit never changes its sign, and no credit stays none.
  The estimate of the gradient is biased by at most the factor b.
- `teach` β adds β · σ(d) · clip(d, ±ln b) to the advantage of each token. With gate 1, its expectation over the student's
  samples is the negative gradient of KL(student ‖ teacher), the reverse KL. The gate σ(d) takes what the teacher would not
  write less seriously: there are other good ways than the plan's. It also teaches in groups whose returns do not vary.

This is close to SDPO (arXiv 2601.20802), and the gate to SDAR (arXiv 2605.15155). Difference: nothing is sampled from the
teacher, and no token of the plan has a loss. The student is trained on what it sampled itself, never on other calls.

Invariants: the note is in the teacher's tokens alone, and these are forwarded without gradients; the student's sequences and
targets are what they are without a teacher; a rollout that does not count is not taught; a world whose expert fails on a
blueprint has no note for it, and where nothing is open there is none either: the gap is then 0, but for rounding.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import log
from typing import Any

import numpy as np

from envs.messages import Message
from homerl.agents.controls import rendered
from homerl.agents.policy import encode
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.trajectory import unlearnt_in
from homerl.train.demonstration import demonstration
from homerl.train.packing.rows import TokenSequence
from homerl.train.recipe import TeacherSettings
from homerl.train.rollout import Rollout
from homerl.train.tensors import SampledTokens
from homerl.worlds.expert import ExpertConfig, Style
from homerl.worlds.registry import begin, read_blueprint, world_of


def note(goals: Iterable[str], messages: Iterable[Message]) -> str:
    """What the teacher is shown: goals in words, and what an assistant wrote in a dialogue that met them."""
    plan = (_written(message) for message in messages if message["role"] == "assistant")
    return "\n".join(["Goals:", *goals, "Plan:", *plan])


@dataclass(frozen=True)
class Turn:
    """What an expert wrote in one or several turns, and the numbers of the goals that were first met in them.

    A turn that meets no goal leads to the next that does: a question, or a wish that the user changes later.
    """

    messages: tuple[Message, ...]
    met: frozenset[int]


@dataclass(frozen=True)
class Plan:
    """Goals in words, the numbers of those that are met from the start, and the turns of an expert that met them all."""

    goals: tuple[str, ...]
    met: frozenset[int]
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, goals: Iterable[str], played: Sequence[Episode]) -> Plan:
        """The plan of a demonstration, which must have succeeded."""
        known = start = frozenset(i for i, holds in enumerate(played[0].situation.met()) if holds)
        turns, written = list[Turn](), list[Message]()
        for _, steps in groupby(played[-1].steps, key=lambda step: step.facts.turn):
            turn = list(steps)
            written += [step.message for step in turn]
            if met := frozenset().union(*(step.facts.met for step in turn)) - known:
                turns.append(Turn(tuple(written), met))
                known, written = known | met, []
        if turns:
            turns[-1] = replace(turns[-1], messages=turns[-1].messages + tuple(written))
        return cls(tuple(goals), start, tuple(turns))

    def whole(self) -> str:
        """The note with all goals and turns."""
        return note(self.goals, (message for turn in self.turns for message in turn.messages))

    def open(self, met: Set[int]) -> str | None:
        """The note with the goals that are not met, and the turns that led to one of them; None if all are met."""
        if self.met.union(*(turn.met for turn in self.turns)) <= met:
            return None
        goals = [text for number, text in enumerate(self.goals) if number not in met]
        return note(goals, (message for turn in self.turns if turn.met - met for message in turn.messages))


def with_note(messages: Sequence[Message], text: str) -> list[Message]:
    """The messages, with a note at the end of the instructions that they begin with."""
    first, *rest = messages
    if first["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{text}"}, *rest]


def with_notes(rows: Any, share: float, seed: int) -> Any:
    """Rows with `messages`, `tools` and `blueprint`; a share of them, drawn by the seed, with a note on themselves.

    From them a model from scratch learns to read notes, so that it can be a teacher. As in a teacher's note, the plan has
    nothing of an earlier dialogue, where "Done." stands without its calls, and no refused calls.
    """

    def noted(row: dict[str, Any], i: int) -> dict[str, Any]:
        if random.Random(f"note {seed} {i}").random() >= share:
            return row
        blueprint = json.loads(row["blueprint"])
        goals = world_of(blueprint).goals_in_words(blueprint)
        said, unlearnt = (message for message in row["messages"] if message["role"] == "assistant"), unlearnt_in(row)
        plan = [message for number, message in enumerate(said) if number not in unlearnt]
        return {**row, "messages": with_note(row["messages"], note(goals, plan))}

    return rows.map(noted, with_indices=True)


class Teacher:
    """Makes the teacher's sequences, and turns its judgement into advantages."""

    def __init__(self, settings: TeacherSettings, tokenizer: Any, limits: EpisodeLimits, seed: int) -> None:
        self.settings, self.tokenizer, self.limits, self.seed = settings, tokenizer, limits, seed
        self.styles = tuple(settings.styles.items())

    def sequences(self, rollouts: Sequence[Rollout], tokens: SampledTokens) -> list[TokenSequence]:
        """The student's sequences with the notes of their blueprints, and the same targets, in their order, in new places.

        With `shown: open` there is one sequence for each part of a rollout in which the same goals are open.
        """
        return [part for pair in zip(rollouts, tokens.sequences, strict=True) for part in self._shown(*pair)]

    def teach(
        self, rollouts: Sequence[Rollout], tokens: SampledTokens, teacher: np.ndarray, student: np.ndarray
    ) -> tuple[SampledTokens, dict[str, float]]:
        """The tokens with the advantages that the teacher makes of them, and metrics.

        `teacher` and `student` are log-probabilities of the sampled tokens, of shape (tokens,); NaN is a gap of 0.
        """
        counts = np.repeat([rollout.trajectory.outcome.counts for rollout in rollouts], tokens.counts)
        gap = np.nan_to_num(teacher - student) * counts
        factor = factors(tokens, gap, self.settings)
        advantages = tokens.advantages * factor + pulls(gap, self.settings)
        metrics = {"teacher/gap": _mean(gap), "teacher/agrees": _mean(gap > 0), "teacher/factor": _mean(factor)}
        return replace(tokens, advantages=advantages), metrics

    def _shown(self, rollout: Rollout, sequence: TokenSequence) -> Iterator[TokenSequence]:
        plan = expert_plan(json.dumps(rollout.trajectory.blueprint), self.limits, self.seed, self.styles)
        if plan is None or not len(sequence.ids):
            yield sequence
        elif self.settings.shown == "all":
            yield self._with(plan.whole(), rollout, sequence)
        else:
            for met, targets in _by_goals(plan, rollout, sequence.targets):
                part = TokenSequence(sequence.ids[: targets[-1] + 1], targets)
                text = plan.open(met)
                yield part if text is None else self._with(text, rollout, part)

    def _with(self, text: str, rollout: Rollout, sequence: TokenSequence) -> TokenSequence:
        """A sequence with a note in its instructions."""
        opening, tools = list(rollout.trajectory.messages[:1]), rollout.trajectory.tools
        plain = self._ids(opening if opening[0]["role"] == "system" else [], tools)
        if sequence.ids[: len(plain)].tolist() != plain:
            raise ValueError("a rollout does not begin with its instructions, so no note can be put into them")
        shown = self._ids(with_note(opening, text)[:1], tools)
        ids = np.concatenate([np.array(shown, dtype=np.int64), sequence.ids[len(plain) :]])
        return TokenSequence(ids, sequence.targets + len(shown) - len(plain))

    def _ids(self, messages: Sequence[Message], tools: Sequence[Any]) -> list[int]:
        if not messages:
            return []
        return encode(self.tokenizer, rendered(self.tokenizer, messages, tools))


@lru_cache(maxsize=1024)
def expert_plan(blueprint: str, limits: EpisodeLimits, seed: int, styles: tuple[tuple[Style, float], ...]) -> Plan | None:
    """The plan of the world's expert for a blueprint (JSON); None if it does not succeed within the limits."""
    data, config = json.loads(blueprint), ExpertConfig(mistakes=0.0, styles=dict(styles))
    played = asyncio.run(demonstration(begin(read_blueprint(data), limits), seed, config))
    return Plan.of(world_of(data).goals_in_words(data), played) if played else None


def _by_goals(plan: Plan, rollout: Rollout, targets: np.ndarray) -> Iterator[tuple[frozenset[int], np.ndarray]]:
    """The targets of a rollout in parts, each with the goals that are met before the steps that sampled them."""
    ledger, steps = rollout.ledger, rollout.trajectory.steps
    spans = [end - start for start, end in ledger.spans[ledger.shared :]]
    met = [frozenset(steps[at - 1].facts.met) if at else plan.met for at in range(ledger.shared, len(ledger.spans))]
    begin = 0
    for known, part in groupby(zip(met, spans, strict=True), key=lambda pair: pair[0]):
        size = sum(span for _, span in part)
        if size:
            yield known, targets[begin : begin + size]
        begin += size


def factors(tokens: SampledTokens, gap: np.ndarray, settings: TeacherSettings) -> np.ndarray:
    """What the advantage of each token is multiplied by, of shape (tokens,): the same within a step."""
    likelier = np.bincount(tokens.steps, gap, minlength=1)[tokens.steps]
    return np.exp(_bounded(settings.weigh * np.sign(tokens.advantages) * likelier, settings))


def pulls(gap: np.ndarray, settings: TeacherSettings) -> np.ndarray:
    """What is added to the advantage of each token, of shape (tokens,)."""
    gate = 1 / (1 + np.exp(-np.clip(gap, -50.0, 50.0)))
    return settings.teach * gate * _bounded(gap, settings)


def _bounded(values: np.ndarray, settings: TeacherSettings) -> np.ndarray:
    limit = log(settings.bound)
    return np.clip(values, -limit, limit)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _written(message: Mapping[str, Any]) -> str:
    """An assistant's message as the model writes it."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    lines = [f'{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}' for call in calls]
    return "\n".join([*filter(None, [message.get("content")]), *lines])
