"""Statistics of a synthesis: generation success, trajectories and tokens for each blueprint, diversity, difficulty.

Invariants: the same shards give the same bytes; the report reads shard by shard and keeps counts and hashes, never rows;
errors of servers are kept apart from the statistics of the data.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.play.trajectory import Outcome, read_rows
from homerl.play.words.text_diversity import TextDiversity
from homerl.synth.blueprint_synthesis import NO_BLUEPRINT, REFUSED
from homerl.synth.recipe import SynthesisConfig

SUMS = (
    "rollouts", "successes", "first", "recovered", "grounded", "nodes", "merged", "steps_run", "steps_linear", "calls",
    "calls_linear", "sampled", "tokens", "tokens_linear",
)  # fmt: skip
BINS = 10
UNFILTERED = ("tasks: ", "candidates: ", "paraphrase: ")  # counts that are not drops of a filter


def count_filter_drops(dropped: Mapping[str, int]) -> dict[str, int]:
    """How many blueprints each filter dropped, of all that was counted on the way."""
    return {reason: count for reason, count in dropped.items() if not reason.startswith(UNFILTERED)}


class SynthesisStatistics:
    """Sums up shards, then the trajectories."""

    def __init__(self, config: SynthesisConfig = SynthesisConfig()) -> None:
        self.config = config
        self.total: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.user_errors: Counter[str] = Counter()
        self.transport: Counter[str] = Counter()
        self.difficulty = [0] * BINS
        self.kept = 0
        self.said = TextDiversity(random.Random("utterances"))
        self.done = TextDiversity(random.Random("deeds"))

    def add_shard_stats(self, stats: Mapping[str, Any]) -> None:
        """Add the statistics of one shard."""
        for line in stats["blueprints"]:
            self.outcomes[line["outcome"]] += 1
            self.total.update({key: line[key] for key in SUMS})
            self.user_errors.update(line["user_errors"])
            if line["rollouts"]:
                self.difficulty[min(BINS - 1, int(BINS * line["difficulty"] + 1e-9))] += 1
        self.dropped.update(stats["dropped"])
        self.transport.update(stats.get("transport", {}))

    def read_dataset(self, path: Path) -> None:
        """Read the dataset row by row, for the diversity of utterances and of code."""
        for row in read_rows(path):
            self.kept += 1
            for message in row["messages"]:
                if message["role"] == "user":
                    self.said.add_text(message["content"].lower())
                for call in message["tool_calls"]:
                    self.done.add_text(tool_call_text(call))

    def summarise_synthesis(self) -> dict[str, Any]:
        """All figures. Shares of blueprints exclude those lost to servers, and seeds that gave no blueprint."""
        total, count = self.total, self.outcomes.total()
        judged = count - sum(self.outcomes[outcome] for outcome in (Outcome.INFRA_ERROR, REFUSED, NO_BLUEPRINT))
        sums = {key: total[key] for key in SUMS}
        return {
            "strategy": self.config.strategy,
            "blueprints": count,
            "outcomes": dict(sorted(self.outcomes.items())),
            "generation_success": self.outcomes[Outcome.SUCCESS] / max(1, judged),
            "grounded_share": total["grounded"] / max(1, total["successes"]),
            "rollout_success": total["successes"] / max(1, total["rollouts"]),
            **sums,
            "steps_saved": 1 - total["steps_run"] / max(1, total["steps_linear"]),
            "tokens_saved": 1 - total["tokens"] / max(1, total["tokens_linear"]) if total["tokens_linear"] else 0.0,
            "trajectories": self.kept,
            "trajectories_per_blueprint": total["successes"] / max(1, judged),
            "tokens_per_blueprint": total["tokens"] / max(1, judged),
            "tokens_per_trajectory": total["tokens"] / max(1, total["successes"]),
            "calls_per_trajectory": total["calls"] / max(1, total["successes"]),
            "difficulty": self.difficulty,
            "diversity": {"utterances": self.said.diversity_figures(), "deeds": self.done.diversity_figures()},
            "user_errors": dict(sorted(self.user_errors.items())),
            "dropped": dict(sorted(self.dropped.items())),
            "drop_rates": self.drop_rates(count),
        }

    def drop_rates(self, blueprints: int) -> dict[str, float]:
        """Dropped drafts as a share of written drafts, by filter and reason; candidates and tasks are counted apart.

        A scripted author does not count what it writes. Its number of written drafts is the dropped ones plus the
        blueprints.
        """
        lost = dict(sorted(count_filter_drops(self.dropped).items()))
        tasks = self.dropped["tasks: written"] or blueprints + sum(lost.values())
        candidates = self.dropped["candidates: written"]
        return {key: count / (candidates if key.startswith("candidate:") else tasks) for key, count in lost.items()}


def tool_call_text(call: Mapping[str, Any]) -> str:
    """A tool call as text: the code if it has an argument `code`, else the tool's name and its arguments."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        return str(json.loads(arguments)["code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{name} {arguments}"
