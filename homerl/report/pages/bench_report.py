"""The report of a benchmark run: tables for the terminal, a CSV file, one HTML page, and a log at Weights & Biases.

Invariants:
- Every figure is the score's, or is computed from the results. The papers' figures stand beside ours, marked as printed,
  and are never mixed with them.
- The page needs no other file. The template and the charts escape every text of a run.
- Dialogues and changes of the home are shown as stored. Of a large run the page shows the first dialogues of each
  subcategory and outcome, and says how many are missing.
- Weights & Biases gets only the content of the run's folder. Logging again continues the same run there.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape
from rich.console import Group
from rich.table import Table

from homerl.bench.suites import match_suite_name
from homerl.envs.core.documents import write_atomic
from homerl.host.html_pages import identifier_to_words
from homerl.play.bench_results import METRICS, read_bench_results, read_run_facts
from homerl.play.metrics.contract import Mean, Share, format_percent
from homerl.play.trajectory import ShownDialogue, locate_row_errors, read_rows, trajectory_from_row
from homerl.report.figures import Estimate, FigureColumn, FigureTable
from homerl.report.pages.world_pages import glossary_of_world, load_report_template, readable_dialogue
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
        run, score = (read_run_facts(folder, name) for name in ("run.json", "score.json"))
        return cls(folder, run, score, read_bench_results(folder))

    @property
    def suite_name(self) -> str:
        """The suite that the instances' ids name, else the name of the suite's file."""
        first = self.results[0]["id"] if self.results else ""
        file = Path(self.run["suite"]).name.removesuffix(".xz").removesuffix(".jsonl")
        return match_suite_name(first, known_suites()) or file

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
        printed = known_suites()[self.suite_name][1].printed() if self.suite_name in known_suites() else {}
        if not printed or self.played_part:
            return [], []
        rows = [row for row in printed["rows"] if row.get("setting", self.setting_name) == self.setting_name]
        return printed["categories"], rows


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


SHOWN_OF_A_KIND = 4  # dialogues of one subcategory and outcome (success or not) on the page
MOST_REASONS = 5  # of left-out episodes in the terminal
MOST_COLUMNS = 8  # of the paper's figures that a terminal of 80 characters shows in full


def write_bench_report(folder: Path) -> Group:
    """Write `report.csv` and `report.html` to the run's folder; return tables for the terminal."""
    report = BenchReport.read_folder(folder)
    write_atomic(folder / "report.csv", success_table(report).to_csv())
    write_atomic(folder / "report.html", render_bench_page(report).encode("utf-8", "replace"))
    return bench_report_tables(report)


def render_bench_page(report: BenchReport) -> str:
    """The page as HTML."""
    shown = list(select_entries(report))
    return load_report_template("bench.html.jinja", report.world).render(
        report=report,
        score=report.score,
        parts=figures_by_label(report.score),
        errors=errors_table(report),
        faults=faults_table(report),
        taxonomy=report.world.taxonomy,
        judge=judge_sentence(report.score),
        printed=printed_table(report),
        entries=shown,
        shares=[metric for metric in METRICS.values() if isinstance(metric, Share)],
        hidden=len(report.results) - len(shown),
    )


def select_entries(report: BenchReport) -> Iterator[tuple[Row, ShownDialogue]]:
    """(result, dialogue) of the results whose dialogues the page shows, in the suite's order."""
    seen: Counter[tuple[str, bool]] = Counter()
    path = report.folder / "trajectories.jsonl"
    for number, (result, row) in enumerate(zip(report.results, read_rows(path), strict=True), 1):
        kind = result.get("subcategory", ""), result["success"]
        seen[kind] += 1
        if seen[kind] <= SHOWN_OF_A_KIND:
            with locate_row_errors(f"{path}:{number}"):
                yield result, readable_dialogue(trajectory_from_row(row))


def bench_report_tables(report: BenchReport) -> Group:
    """Tables for the terminal: success by group, errors, why episodes were left out, and the paper's figures."""
    notes = [report.played_part] if report.played_part else []
    notes += [f"{metric.heading} {said}" for metric, said in report.metric_texts]
    notes += [f"{report.left_out_count} left out: nobody's failure"] if report.left_out_count else []
    notes += [f"cost {report.token_cost:.2f}"] if report.token_cost is not None else []
    notes += [f"pass^{k} {100 * share:.1f} %{of and f' ({of})'}" for k, share, of in report.pass_hat]
    title = f"{report.suite_name}, {report.setting_name}: {report.model_name}"
    found: list[Table | str] = [success_table(report).to_rich(title=title)]
    found += [", ".join(notes)] if notes else []  # a caption would be as narrow as the table
    if errors := errors_table(report):
        found.append(errors.to_rich(title="why instances failed"))
    if faults := faults_table(report, MOST_REASONS):
        found.append(faults.to_rich(title="why episodes were left out"))
    if judge := judge_sentence(report.score):
        found.append(f"{judge[0].upper()}{judge[1:]}.")
    if printed := printed_table(report):
        narrow = {"box": None, "padding": (0, 1, 0, 0), "pad_edge": False}
        settings: dict[str, Any] = narrow if len(printed.columns) > MOST_COLUMNS + 2 else {}
        found.append(printed.to_rich(title="beside the paper's figures, as printed", **settings))
    return Group(*found, f"report: {report.folder / 'report.html'}")


def success_table(report: BenchReport) -> FigureTable:
    """Success of the whole, and of each value of each label."""
    words = glossary_of_world(report.world)
    whole = "these tasks" if report.played_part else "overall"
    columns = (
        *(FigureColumn(None, key) for key in ("suite", "model", "setting", "group")),
        FigureColumn(
            "", "value", lambda value: words.expand_abbreviations(identifier_to_words(value)) or whole, right=False
        ),
        FigureColumn("n", "n"),
        FigureColumn("success %", "success", lambda success: f"{100 * success.value:.1f}", interval_heading="95 %"),
    )
    sections: dict[str, list[tuple[Any, ...]]] = {}
    for group, value, row in list_score_groups(report.score):
        fixed = report.suite_name, report.model_name, report.setting_name, group, value, row["n"]
        sections.setdefault(group, []).append((*fixed, Estimate.of_score(row)))
    return FigureTable(columns, [*sections.values()])


def errors_table(report: BenchReport) -> FigureTable | None:
    """Why instances failed, the most frequent error first, as the score has them; None without errors."""
    if not (counts := report.score.get("errors")):
        return None
    explain = glossary_of_world(report.world).explain_terms_as_html
    names = FigureColumn("dimension", html=explain, right=False), FigureColumn("error", right=False)
    columns = *names, FigureColumn("n"), FigureColumn("share", write=format_percent)
    rows = []
    for name, count in counts.items():
        dimension, _, kind = name.partition(": ")
        known = report.world.dimensions.get(dimension, dimension)
        rows.append((f"{dimension}: {known}", kind, count, count / sum(counts.values())))
    return FigureTable(columns, [rows])


def faults_table(report: BenchReport, most: int | None = None) -> FigureTable | None:
    """Why episodes were left out: all reasons, or the `most` frequent ones and the rest together; None without faults."""
    if not (faults := report.fault_counts):
        return None
    rest = sum(count for _, _, count in faults[most:]) if most else 0
    columns = FigureColumn("who failed", right=False), FigureColumn("why", right=False), FigureColumn("n")
    return FigureTable(columns, [[*faults[:most], *([("", "other reasons", rest)] if rest else [])]])


def printed_table(report: BenchReport) -> FigureTable | None:
    """Our success beside the paper's figures for this suite and setting; None without them."""
    categories, rows = report.printed_figures()
    if not rows or not report.score["n"]:
        return None
    narrow = len(categories) > MOST_COLUMNS
    explain = glossary_of_world(report.world).explain_terms_as_html

    def format_model_as_html(model: str) -> Markup:
        return escape(model) if model == report.model_name else Markup("{} <span>printed</span>").format(model)

    def figure_column(name: str, heading: str) -> FigureColumn:
        write, write_in_full = ("{:.0f}".format, "{:.1f}".format) if narrow else ("{:.1f}".format, None)
        return FigureColumn(heading, write=write, html=write_in_full, html_heading=explain(name))

    short = [name.removeprefix("QT").replace("-", ".").replace(" ", "\n") if narrow else name for name in categories]
    columns = (
        FigureColumn("success in %", html=format_model_as_html, right=False, is_name=True),
        *map(figure_column, categories, short),
        figure_column("overall", "all" if narrow else "overall"),
    )
    by_category = report.score.get("by_category", {})
    ours = [100 * by_category[name]["success"] if name in by_category else None for name in categories]
    # Over other categories, the success of the whole is not the paper's figure.
    whole = 100 * report.score["success"] if set(by_category) == set(categories) else None
    printed = [(row["model"], *row["categories"], row["overall"]) for row in sorted(rows, key=lambda row: -row["overall"])]
    return FigureTable(columns, [[(report.model_name, *ours, whole)], printed], strong=report.model_name)


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
        groups, named = success_table(report), 3  # suite, model and setting are those of the run
        table = wandb.Table(columns=groups.file_keys[named:], data=[row[named:] for row in groups.file_rows()])
        run.log({"bench/groups": table, "bench/report": wandb.Html((folder / "report.html").open(encoding="utf-8"))})
        run.summary.update(flatten_score(report))
        artifact = wandb.Artifact(f"bench-{id}", "bench")
        for name in ("report.html", "report.csv", "results.jsonl", "trajectories.jsonl", "score.json", "run.json"):
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
