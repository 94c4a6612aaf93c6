"""Reads the folder of a benchmark run.

Invariants: every figure is the score's or is computed from the results; the papers' figures stand beside ours, marked as
printed, and are never mixed with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from homerl.bench.suites import match_suite_name
from homerl.play.metrics.contract import Mean
from homerl.play.metrics.registry import METRICS
from homerl.play.results import read_bench_results, read_run_facts
from homerl.play.trajectory import read_rows
from homerl.worlds.contract import WorldAdapter
from homerl.worlds.registry import default_world, known_suites, world_of

Row = Mapping[str, Any]


@dataclass(frozen=True)
class BenchReport:
    """The content of a run's folder: `run` is what was asked for, `score` and `results` are what came out."""

    folder: Path
    run: Row
    score: Row
    results: tuple[Row, ...]

    @classmethod
    def read_folder(cls, folder: Path) -> BenchReport:
        """Read a folder; `InputError` if it has no results."""
        return cls(
            folder, read_run_facts(folder, "run.json"), read_run_facts(folder, "score.json"), read_bench_results(folder)
        )

    @property
    def suite_name(self) -> str:
        """The suite that the instances' ids name, else the name of the suite's file."""
        first = self.results[0]["id"] if self.results else ""
        return match_suite_name(first, known_suites()) or Path(self.run["suite"]).name.removesuffix(".xz").removesuffix(
            ".jsonl"
        )

    @cached_property
    def world(self) -> WorldAdapter:
        """The world of the episodes."""
        row = next(read_rows(self.folder / "trajectories.jsonl"), None)
        return default_world() if row is None else world_of(json.loads(row["blueprint"]))

    @property
    def model_name(self) -> str:
        """The model's name, as its server knows it or as it was given."""
        return str(self.run.get("served") or self.run["model"])

    @property
    def setting_name(self) -> str:
        """The setting that was played, such as `eia`."""
        return str(self.run["setting"])

    @property
    def played_part(self) -> str:
        """Which part of the suite was played, in words; empty for all of it."""
        limit, of = self.run.get("limit"), self.run.get("of")
        if limit is None or (of is not None and limit >= of):
            return ""
        return f"{limit} of {of} tasks, spread evenly" if of else f"the first {limit} tasks"

    @property
    def left_out_count(self) -> int:
        """The number of episodes that say nothing about the agent."""
        return len(self.results) - int(self.score["n"])

    @property
    def fault_counts(self) -> list[tuple[str, str, int]]:
        """(who failed, why, how many episodes were left out for it), the most frequent first."""
        named = ((*name.partition(": ")[::2], count) for name, count in self.score.get("faults", {}).items())
        return sorted(named, key=lambda fault: -fault[2])

    @property
    def pass_hat(self) -> list[tuple[str, float, str]]:
        """(k, pass^k, over how many tasks in words, empty for all of them)."""
        fewer = self.score.get("pass_hat_n", {})
        said = {k: f"over {count} task{'s' if count != 1 else ''}" for k, count in fewer.items()}
        return [(k, share, said.get(k, "")) for k, share in self.score.get("pass_hat", {}).items()]

    @property
    def metric_texts(self) -> list[tuple[Mean, str]]:
        """The metrics that the score has, each as it is written."""
        return [(metric, said) for metric in METRICS.values() if (said := metric.format_score(self.score))]

    @property
    def token_cost(self) -> float | None:
        """The cost of all tokens, in the currency of the prices; None without prices."""
        if not self.run.get("prices"):
            return None
        paid = zip(self.run["prices"], ("prompt_tokens", "tokens"))
        return float(sum(price * sum(row.get(key, 0) for row in self.results) / 1e6 for price, key in paid))

    def printed_figures(self) -> tuple[list[str], list[Row]]:
        """The paper's categories and rows for this suite and setting; empty if there are none, or beside a part of it."""
        if not self._printed or self.played_part:
            return [], []
        rows = [row for row in self._printed["rows"] if row.get("setting", self.setting_name) == self.setting_name]
        return self._printed["categories"], rows

    @cached_property
    def _printed(self) -> Row:
        return known_suites()[self.suite_name][1].printed() if self.suite_name in known_suites() else {}


def figures_by_label(score: Row) -> dict[str, Mapping[str, Row]]:
    """The figures of each value of each label by which the score groups the results, in the suite's order of labels."""
    return {key.removeprefix("by_"): part for key, part in score.items() if key.startswith("by_") and key != "by_family"}


def list_score_groups(score: Row) -> list[tuple[str, str, Row]]:
    """(group, value, figures) of the whole and of each value of each label."""
    found = [("overall", "", score)] if "success" in score else []
    return found + [(label, value, row) for label, part in figures_by_label(score).items() for value, row in part.items()]


def judge_sentence(score: Row) -> str:
    """A sentence on what the judge decided and on its agreement, or on cases that a judge could decide; may be empty."""
    judge = score.get("judge")
    if judge is None:
        waiting = score.get("undecided", 0)
        return f"{waiting} failed by an answer that no rule decides: --judge URL" if waiting else ""
    found = f"judge {judge['by']}: {judge['right']} of {judge['decided']} undecided answers right"
    if (with_rules := judge.get("agreement")) is None:
        return found
    low, high = (100 * share for share in with_rules["interval"])
    found += f"; agrees with the rules in {100 * with_rules['share']:.1f} % ({low:.1f} to {high:.1f}) of "
    return found + f"{with_rules['n']} cases, kappa {with_rules['kappa']:.2f}"
