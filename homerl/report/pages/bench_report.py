"""Reads the folder of a benchmark run.

Invariants: every figure is the score's or is computed from the results; the papers' figures stand beside ours, marked as
printed, and are never mixed with them.

The report of a benchmark as one HTML file: success by group, errors, the paper's figures, and some trajectories.

Invariants: the page needs no other file; every text of a run is escaped, by the template or by the charts; dialogues and
changes of the home are shown as stored. For large runs the page shows the first dialogues of each subcategory and
outcome, and says how many are missing.

The report of a benchmark run: terminal tables, CSV, and one HTML page (`homerl.report.pages.bench_report`).

Invariants: every figure is the score's or is computed from the results; the papers' figures stand beside ours, marked as
printed, and are never mixed with them.

Logs a benchmark run to Weights & Biases: figures, a table of groups, the report and the trajectories.

Invariants: only the content of the run's folder is logged; logging again continues the same W&B run.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from homerl.bench.suites import match_suite_name
from homerl.envs.core.documents import write_atomic
from homerl.host.html_pages import load_template
from homerl.play.bench_results import read_bench_results, read_run_facts
from homerl.play.metrics.contract import Mean, Share, format_percent
from homerl.play.metrics.registry import METRICS
from homerl.play.trajectory import ShownDialogue, locate_row_errors, read_rows, trajectory_from_row
from homerl.report import figures as charts
from homerl.report.pages.flywheel_report import readable_dialogue
from homerl.report.pages.world_pages import glossary_of_world
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


EACH = 4  # dialogues shown of one subcategory and outcome (success or not)


@dataclass(frozen=True)
class BenchEntry:
    """One result with its dialogue."""

    result: dict[str, Any]
    played: ShownDialogue


def render_bench_page(report: BenchReport) -> str:
    """The page as HTML."""
    categories, rows = report.printed_figures()
    shown = list(select_entries(report))
    words = glossary_of_world(report.world)
    filters: dict[str, Callable[..., Any]] = {
        "percent": format_percent,
        "explained": words.explain_terms_as_html,
        "full": words.expand_abbreviations,
        "meaning": words.meaning_of_term,
    }
    return load_template(Path(__file__).with_name("bench.html.jinja"), **filters).render(
        report=report,
        score=report.score,
        parts=figures_by_label(report.score),
        bar=charts.interval_bar,
        errors=list(count_errors(report)),
        taxonomy=report.world.taxonomy,
        judge=judge_sentence(report.score),
        categories=categories,
        overall=overall_success(report, categories),
        printed=sorted(rows, key=lambda row: -row["overall"]),
        entries=shown,
        shares=[metric for metric in METRICS.values() if isinstance(metric, Share)],
        hidden=len(report.results) - len(shown),
    )


def overall_success(report: BenchReport, categories: Sequence[str]) -> float | None:
    """Success over all of the paper's categories; None if others were played, for then it is not the paper's figure."""
    played = report.score.get("by_category", {})
    return report.score.get("success") if set(played) == set(categories) else None


def count_errors(report: BenchReport) -> Iterator[tuple[str, str, int, float]]:
    """(dimension in words, type, count, share of all failures), in the score's order: most frequent first."""
    counts = report.score.get("errors", {})
    known = report.world.dimensions
    for name, count in counts.items():
        dimension, _, kind = name.partition(": ")
        yield f"{dimension}: {known.get(dimension, dimension)}", kind, count, count / sum(counts.values())


def select_entries(report: BenchReport) -> Iterator[BenchEntry]:
    """The results whose dialogues are shown, in the suite's order."""
    seen: Counter[tuple[str, bool]] = Counter()
    path = report.folder / "trajectories.jsonl"
    for number, (result, row) in enumerate(zip(report.results, read_rows(path), strict=True), 1):
        kind = result.get("subcategory", ""), result["success"]
        seen[kind] += 1
        if seen[kind] <= EACH:
            with locate_row_errors(f"{path}:{number}"):
                dialogue = readable_dialogue(trajectory_from_row(row))
            yield BenchEntry(dict(result), dialogue)


FREQUENT = 5  # reasons of left-out episodes that are named
MANY = 8  # most columns that a terminal shows in full


def write_bench_report(folder: Path) -> Group:
    """Write `report.csv` and `report.html` to the run's folder; return tables for the terminal."""
    report = BenchReport.read_folder(folder)
    write_atomic(folder / "report.csv", bench_report_to_csv(report))
    write_atomic(folder / "report.html", render_bench_page(report).encode("utf-8", "replace"))
    return bench_report_tables(report)


def bench_report_to_csv(report: BenchReport) -> str:
    """One row for the whole, and for each value of each label."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["suite", "model", "setting", "group", "value", "n", "success", "low", "high"])
    for group, value, row in list_score_groups(report.score):
        fixed = [report.suite_name, report.model_name, report.setting_name, group, value, row["n"]]
        writer.writerow([*fixed, *(f"{share:.6f}" for share in (row["success"], *row["interval"]))])
    return text.getvalue()


def bench_report_tables(report: BenchReport) -> Group:
    """Tables for the terminal: success by group, errors, why episodes were left out, and the paper's figures."""
    found: list[Table | str] = [_success(report)]
    if report.score.get("errors"):
        found.append(_errors(report))
    if report.fault_counts:
        found.append(faults_table(report))
    if judge := judge_sentence(report.score):
        found.append(f"{judge[0].upper()}{judge[1:]}.")
    categories, rows = report.printed_figures()
    if rows:
        found.append(_printed(report, categories, rows))
    return Group(*found, f"report: {report.folder / 'report.html'}")


def _success(report: BenchReport) -> Table:
    score = report.score
    table = Table(
        "", *_right("n", "success %", "95 %"), title=f"{report.suite_name}, {report.setting_name}: {report.model_name}"
    )
    group, words = None, glossary_of_world(report.world)
    for label, value, row in list_score_groups(score):
        if group not in (None, label):
            table.add_section()
        group = label
        low, high = row["interval"]
        name = words.expand_abbreviations(value.replace("_", " ")) or (report.played_part and "these tasks") or "overall"
        table.add_row(name, str(row["n"]), f"{100 * row['success']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}")
    notes = [report.played_part] if report.played_part else []
    notes += [f"{metric.heading} {said}" for metric, said in report.metric_texts]
    notes += [f"{report.left_out_count} left out: nobody's failure"] if report.left_out_count else []
    notes += [f"cost {report.token_cost:.2f}"] if report.token_cost is not None else []
    notes += [f"pass^{k} {100 * share:.1f} %{of and f' ({of})'}" for k, share, of in report.pass_hat]
    table.caption = ", ".join(notes)
    return table


def _errors(report: BenchReport) -> Table:
    table = Table("dimension", "error", *_right("n", "%"), title="why instances failed")
    for dimension, kind, count, share in count_errors(report):
        table.add_row(dimension, kind, str(count), f"{100 * share:.1f}")
    return table


def _right(*names: str) -> Iterator[Column]:
    """Columns of figures."""
    return (Column(name, justify="right") for name in names)


def faults_table(report: BenchReport) -> Table:
    """The most frequent reasons of episodes that were left out."""
    table = Table("who failed", "why", *_right("n"), title="why episodes were left out")
    for who, reason, count in report.fault_counts[:FREQUENT]:
        table.add_row(who, Text(reason), str(count))
    if rest := sum(count for _, _, count in report.fault_counts[FREQUENT:]):
        table.add_row("", "other reasons", str(rest))
    return table


def _printed(report: BenchReport, categories: Sequence[str], rows: Sequence[Row]) -> Table:
    many = len(categories) > MANY  # a terminal has 80 columns
    heads = [name.removeprefix("QT").replace("-", ".").replace(" ", "\n") if many else name for name in categories]
    shape: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "pad_edge": False} if many else {}
    title = "beside the paper's figures, as printed"
    table = Table("success %", *_right(*heads, "all" if many else "overall"), title=title, **shape)
    by, digits = report.score.get("by_category", {}), 0 if many else 1

    def figures(values: Iterable[float | None]) -> list[str]:
        return ["" if value is None else f"{value:.{digits}f}" for value in values]

    ours = [100 * by[name]["success"] if name in by else None for name in categories]
    whole = overall_success(report, categories)
    table.add_row(Text(report.model_name, "bold"), *figures([*ours, None if whole is None else 100 * whole]))
    table.add_section()
    for row in sorted(rows, key=lambda row: -row["overall"]):
        table.add_row(row["model"], *figures([*row["categories"], row["overall"]]))
    return table


FILES = ("report.html", "report.csv", "results.jsonl", "trajectories.jsonl", "score.json", "run.json")


def log_bench_to_wandb(folder: Path, project: str) -> str:
    """Log the run in a folder, and return a text with its address; WANDB_MODE=offline writes beside the run."""
    import wandb

    report = BenchReport.read_folder(folder)
    id = hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()
    with wandb.init(
        project=project,
        id=id,
        resume="allow",
        job_type="bench",
        group=report.suite_name,
        dir=folder,
        config=dict(report.run),
        name=f"{report.suite_name} {report.setting_name} {report.model_name}",
    ) as run:
        table = wandb.Table(columns=["group", "value", "n", "success", "low", "high"])
        for group, value, row in list_score_groups(report.score):
            table.add_data(group, value, row["n"], row["success"], *row["interval"])
        run.log({"bench/groups": table, "bench/report": wandb.Html((folder / "report.html").open(encoding="utf-8"))})
        run.summary.update(flatten_score(report))
        artifact = wandb.Artifact(f"bench-{id}", "bench")
        for name in FILES:
            artifact.add_file(str(folder / name))
        run.log_artifact(artifact)
        return f"wandb: {run.url or run.dir}"


def flatten_score(report: BenchReport) -> dict[str, Any]:
    """The score as flat numbers: `bench/success`, `bench/category/TC1/success` and so on."""
    score = report.score
    found: dict[str, Any] = {f"bench/{name}": score[name] for name in ("n", "undecided") if name in score}
    for metric in METRICS.values():
        found |= {f"bench/{name}": value for name, value in metric.flat_figures(score).items()}
    found |= {f"bench/pass^{k}": share for k, share in score.get("pass_hat", {}).items()}
    found |= {f"bench/pass^{k}/n": count for k, count in score.get("pass_hat_n", {}).items()}
    found |= {f"bench/error/{name}": count for name, count in score.get("errors", {}).items()}
    found |= {f"bench/fault/{name}": count for name, count in score.get("faults", {}).items()}
    for group, value, row in list_score_groups(score):
        name = "bench" if group == "overall" else f"bench/{group}/{value}"
        found |= {f"{name}/success": row["success"], f"{name}/low": row["interval"][0], f"{name}/high": row["interval"][1]}
    return found
