"""`homerl audit-user`: checks whether a recipe's user is good enough to train with, with the scripted expert as agent.

Invariants:
- The expert makes no mistakes, so failures are due to the user (or its servers).
- The expert knows the goals without being told, so whether the user talks about them is measured separately.
- The result is one JSON file.
- The thresholds are those of the recipe.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.progress_bar import progress_bar
from homerl.host.recipe_files import BaseRecipe
from homerl.models.endpoint.endpoint_settings import AuditSettings, UserSettings
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import Boundary
from homerl.play.loop import User, play
from homerl.play.situation import Behaviour, BlueprintProtocol, Utterance
from homerl.play.trajectory import Outcome
from homerl.report.figures import FigureColumn, FigureTable
from homerl.synth.recipe import SynthRecipe
from homerl.train.recipe import RLVESections
from homerl.worlds.behaviour_rates import (
    WORD,
    BehaviourRate,
    behaviour_rates,
    detect_behaviours,
    dialogue_behaviour_rates,
    read_dialogues,
)
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, make_blueprint_of_seed, source_worlds, world_of
from homerl.worlds.sources import AnyBlueprintSource
from homerl.worlds.users import UserFactory, open_user_factory

REASONS = ("leak", "repetition", "contradiction", "gave_up", "malformed")
BINS = (5, 10, 20, 40, 80)  # words
MOST_WORDS = 60  # of nine in ten utterances


@dataclass(frozen=True)
class AuditedEpisode:
    """One episode of the audit.

    `reason` is that of the user's fault, if there was one. `said` are its utterances. `topics` tells for each intent
    whether the user opened it with words about it. `behaviours` are what each utterance shows.
    """

    blueprint: str
    outcome: Outcome
    reason: str | None
    said: tuple[str, ...]
    topics: tuple[bool, ...] = ()
    behaviours: tuple[frozenset[Behaviour], ...] = ()


@dataclass(frozen=True)
class UserAudit:
    """The metrics. Shares are of the blueprints played; `length` is in words.

    `on_topic` is the share of intents that were opened with a word about them, `distinct` that of utterances that
    differ. Both are None without utterances. `behaviours` are the rates of the user's behaviours, and `people` those of the
    recipe's dataset, if it names one.
    """

    blueprints: int
    success: float
    outcomes: dict[str, float]
    user_errors: float
    reasons: dict[str, float]
    utterances: int
    length: dict[str, float]
    lengths: dict[str, int]
    on_topic: float | None
    distinct: float | None
    usage: dict[str, Any]
    behaviours: dict[str, BehaviourRate] = field(default_factory=dict)
    people: dict[str, BehaviourRate] = field(default_factory=dict)
    breaches: tuple[str, ...] = ()

    def to_table(self) -> Table:
        """A table of the metrics, with breaches of the thresholds last."""
        rows: list[tuple[str | Text, str]] = []
        shares = {"end well": self.success, "user errors": self.user_errors}
        shares |= {f"  {reason}": share for reason, share in self.reasons.items()}
        shares |= {f"outcome {name}": share for name, share in self.outcomes.items()}
        words = {"wishes opened on topic": self.on_topic, "distinct utterances": self.distinct}
        for name, share in (shares | words).items():
            if share is not None:
                rows.append((name, f"{share:.1%}"))
        rows += [("utterances", str(self.utterances)), ("words", _format_pairs(self.length))]
        rows.append(("utterances by words", _format_pairs(self.lengths)))
        if counts := {key: value for key, value in self.usage.items() if not isinstance(value, dict)}:
            rows.append(("endpoint", _format_pairs(counts)))
        for name, rate in self.behaviours.items():
            beside = f"; in the dataset {_format_rate(self.people[name])}" if name in self.people else ""
            rows.append((f"utterances: {name.replace('_', ' ')}", _format_rate(rate) + beside))
        rows += [(Text("too bad", "red"), breach) for breach in self.breaches]
        columns = FigureColumn("", right=False), FigureColumn("", right=False)
        return FigureTable(columns, [rows]).to_rich(title=f"user audit: {self.blueprints} blueprints", show_header=False)


class AuditSetup(NamedTuple):
    """What a recipe's user is audited with."""

    recipe: AnyBlueprintSource
    first_seed: int
    user: UserSettings
    limits: EpisodeLimits


def read_audit_setup(recipe: BaseRecipe, path: str) -> AuditSetup:
    """The setup of a recipe. Raises `InputError` if it has no LLM user."""
    if isinstance(recipe, RLVESections):
        setup = AuditSetup(recipe.blueprints.recipe, recipe.blueprints.first_seed, recipe.user, recipe.limits)
    elif isinstance(recipe, SynthRecipe) and recipe.synth.strategy != "m1":
        setup = AuditSetup(recipe.synth.recipe, recipe.synth.first_seed, recipe.synth.user, recipe.synth.limits)
    else:
        raise InputError("its model plays with no user", path, "name a recipe of synth (m2 or m3), rlve or flywheel")
    if any("llm" not in world.users for world in source_worlds(setup.recipe)):
        raise InputError("its user speaks once, from the blueprint", path, "there is nothing to audit")
    return setup


def run_user_audit(recipe: BaseRecipe, path: str, count: int, at_once: int, out: Path) -> UserAudit:
    """Play `count` blueprints, evaluate the user, and write the JSON file."""
    setup = read_audit_setup(recipe, path)
    people = dialogue_behaviour_rates(read_dialogues(setup.user.audit.dataset)) if setup.user.audit.dataset else {}
    with open_user_factory(setup.user, recipe.out / "user_server.log") as users, progress_bar() as bar:
        task = bar.add_task("audit user", total=count, note=users(0).name)
        made = (make_blueprint_of_seed(setup.recipe, "train", setup.first_seed + i) for i in range(count))
        blueprints = [blueprint_with_behaviours(blueprint, setup.user.behaviours, setup.recipe) for blueprint in made]
        played = asyncio.run(play_audited_episodes(blueprints, users, setup.limits, at_once, lambda: bar.advance(task)))
    report = add_breaches(replace(compute_audit(played, users.usage_totals()), people=people), setup.user.audit)
    rows = [asdict(row) | {"outcome": str(row.outcome), "behaviours": [*map(sorted, row.behaviours)]} for row in played]
    write_atomic(out, json.dumps(asdict(report) | {"played": rows}, indent=1, ensure_ascii=False) + "\n")
    return report


async def play_audited_episodes(
    blueprints: Sequence[BlueprintProtocol],
    users: UserFactory,
    limits: EpisodeLimits,
    at_once: int,
    progress: Callable[[], None],
) -> list[AuditedEpisode]:
    """Play every blueprint once, `at_once` concurrently."""
    turnstile = asyncio.Semaphore(at_once)

    async def one(blueprint: BlueprintProtocol) -> AuditedEpisode:
        async with turnstile:
            user = RecordingUser(users(blueprint.seed))
            episode = begin_episode(blueprint, limits)
            opening = len(episode.messages)
            flawless = world_of(blueprint).expert(ExpertConfig(mistakes=0.0), blueprint.seed)
            end = await play(episode, flawless, user, blueprint.seed)
            progress()
        reason = end.fault.reason_kind if end.fault and end.fault.boundary is Boundary.USER else None
        topics = tuple(t for t in user.topics.values() if t is not None)
        spoken = [
            (m["role"], episode.spoken_words_of(m).text if m["role"] == "assistant" else m["content"])
            for m in end.messages[opening:]
        ]
        behaviours = tuple(detect_behaviours(spoken, blueprint.language))
        return AuditedEpisode(blueprint.id, end.outcome, reason, tuple(user.said), topics, behaviours)

    return list(await asyncio.gather(*map(one, blueprints)))


class RecordingUser:
    """Records a user's utterances, and whether it opened each intent with words about it."""

    def __init__(self, user: User) -> None:
        self.user, self.name, self.said = user, user.name, list[str]()
        self.topics = dict[int, bool | None]()

    async def speak(self, episode: Episode) -> Utterance:
        """Let the user speak, and record it."""
        utterance = await self.user.speak(episode)
        if utterance.text:
            self.said.append(utterance.text)
            intent = next((i for i in episode.blueprint.intents if i.id == utterance.intent_id), None)
            if intent and intent.id not in self.topics:
                self.topics[intent.id] = world_of(episode.blueprint).persona(episode).on_topic(utterance.text, intent)
        return utterance


def compute_audit(played: Sequence[AuditedEpisode], usage: dict[str, Any]) -> UserAudit:
    """The metrics of played episodes."""
    n = len(played)
    reasons = Counter(row.reason for row in played if row.reason)
    said = [text for row in played for text in row.said]
    topics = [topic for row in played for topic in row.topics]
    lengths = [count_words(text) for text in said]
    return UserAudit(
        blueprints=n,
        success=sum(row.outcome is Outcome.SUCCESS for row in played) / n,
        outcomes={str(outcome): count / n for outcome, count in sorted(Counter(row.outcome for row in played).items())},
        user_errors=reasons.total() / n,
        reasons={reason: reasons[reason] / n for reason in dict.fromkeys((*REASONS, *sorted(reasons)))},
        utterances=len(said),
        length=length_statistics(lengths),
        lengths=length_histogram(lengths),
        on_topic=mean(topics) if topics else None,
        distinct=len({tuple(WORD.findall(text.lower())) for text in said}) / len(said) if said else None,
        usage=usage,
        behaviours=behaviour_rates([behaviours for row in played for behaviours in row.behaviours]),
    )


def count_words(text: str) -> int:
    """The number of words; a Chinese character counts as one."""
    return len(WORD.findall(text))


def length_statistics(lengths: Sequence[int]) -> dict[str, float]:
    """Mean, median, 90th percentile and maximum; empty if there are no lengths."""
    if not lengths:
        return {}
    ninth = sorted(lengths)[-(-9 * len(lengths) // 10) - 1]
    return {"mean": round(mean(lengths), 1), "median": median(lengths), "p90": ninth, "max": max(lengths)}


def length_histogram(lengths: Sequence[int]) -> dict[str, int]:
    """The number of utterances in each range of lengths."""
    edges = [0, *BINS]
    counts = {f"{low + 1}-{high}": sum(low < n <= high for n in lengths) for low, high in zip(edges, BINS)}
    return counts | {f"over {BINS[-1]}": sum(n > BINS[-1] for n in lengths)}


def add_breaches(audit: UserAudit, allowed: AuditSettings) -> UserAudit:
    """The audit with its breaches: shares above the most, or below the least, that are allowed."""
    shares = {
        "user errors": (audit.user_errors, 0.05),  # the user left its role
        "leaks": (audit.reasons["leak"], 0.01),
        "contradictions": (audit.reasons["contradiction"], 0.02),
        "infra errors": (audit.outcomes.get(str(Outcome.INFRA_ERROR), 0.0), 0.02),
    }
    breaches = [f"{name}: {share:.1%}, over {most:.1%}" for name, (share, most) in shares.items() if share > most]
    least = {
        "end well": (audit.success, 0.9),
        "wishes opened on topic": (audit.on_topic, allowed.on_topic),
        "distinct utterances": (audit.distinct, 0.5),
    }
    breaches += [
        f"{name}: {share:.1%}, under {low:.1%}" for name, (share, low) in least.items() if share is not None and share < low
    ]
    for name, theirs in audit.people.items():
        ours = audit.behaviours.get(name)
        if ours and abs(ours.share - theirs.share) > allowed.behaviour_gap:
            what = f"{name.replace('_', ' ')}: {ours.share:.1%} of utterances, {theirs.share:.1%} in the dataset"
            breaches.append(f"{what}, further apart than {allowed.behaviour_gap:.1%}")
    if (p90 := audit.length.get("p90", 0)) > MOST_WORDS:
        breaches.append(f"words: nine in ten up to {p90:g}, over {MOST_WORDS}")
    return replace(audit, breaches=tuple(breaches))


def _format_rate(rate: BehaviourRate) -> str:
    return f"{rate.share:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _format_pairs(data: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in data.items())
