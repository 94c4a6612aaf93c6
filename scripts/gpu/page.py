"""Writes a report's figures as Markdown into docs/results/gpu.md, between two markers. The rest is written by hand.

Invariants: the same report gives the same text; a part that was not measured or failed is named with that; nothing is
rounded to more digits than the measurement repeats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpu.breakdown import GROUPS

PAGE = "docs/results/gpu.md"
BEGIN, END = "<!-- measured: written by scripts/gpu_report -->", "<!-- /measured -->"
TRAINING = ("sft_8b_lora", "sft_4b", "rlve_8b_lora")
GENERATION = ("generate_transformers", "generate_vllm")
SCRATCH = ("scratch_100m", "long_100m")
STAGES = {"untrained": "untrained", "sft": "SFT", "rlve": "RLVE", "rlve_trajectory": "RLVE, credit by trajectory"}
Report = dict[str, Any]


MEASURED = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


def unfit(page: Path) -> str | None:
    """Why a page cannot take a report; None if it can."""
    if not page.is_file():
        return f"there is no page {page}: make it, with the lines {BEGIN} and {END}"
    if not MEASURED.search(page.read_text(encoding="utf-8")):
        return f"{page} has no lines {BEGIN} and {END}: add them where the results belong"
    return None


def write_page(page: Path, report: Report) -> None:
    """Put a report's text between the markers of a page. Raises `ValueError` if the page cannot take it."""
    if fault := unfit(page):
        raise ValueError(fault)
    text = page.read_text(encoding="utf-8")
    page.write_text(MEASURED.sub(lambda _: f"{BEGIN}\n{text_of(report)}{END}", text), encoding="utf-8")


def text_of(report: Report) -> str:
    """The report as Markdown: what was measured, then the tables that it has figures for."""
    packages = ", ".join(f"{name} {version}" for name, version in report["packages"].items())
    head = f"{report['device']}, {report['cores']} CPU cores, {report['date']}, commit {report['commit']}; {packages}."
    tables = (ratios(report), memory(report), groups(report), shares(report), generation(report), scratch(report))
    return "\n\n".join([head, *filter(None, tables), *failures(report), *doubts(report)]) + "\n"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A titled table; empty if it has no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([title, "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines]) if lines else ""


def sides(report: Report, names: Iterable[str] = TRAINING) -> Iterable[tuple[str, Report, Report]]:
    """Measured training parts: name, homerl's figures, TRL's."""
    return ((name, report[name], report[name].get("trl", {})) for name in names if name in report)


def ratios(report: Report) -> str:
    """How many times as fast homerl trains as TRL as shipped."""
    rows = [
        [f"`{name}`", times(ours.get("ratio")), speed(ours), speed(trl), share(ours.get("mfu")),
         share(ours.get("mfu_whole_rows")), share(trl.get("mfu")), share(ours.get("unique_share"))]
        for name, ours, trl in sides(report)
    ]  # fmt: skip
    columns = ("part", "times TRL", "homerl", "TRL as shipped", "MFU", "MFU, whole rows", "MFU of TRL", "unique / forwarded")
    return table("Training, beside TRL's own trainers in the same run:", columns, rows)


def speed(side: Report) -> str:
    """Tokens a second, or the seconds of training where rollouts are the unit."""
    if "failed" in side:
        return "failed"
    if "tokens_per_second" in side:
        said = f"{side['tokens_per_second']:,.0f} tokens/s"
    else:
        said = f"{side['training_seconds']:.3g} s an update" if "training_seconds" in side else "not measured"
    return f"{said}, cut after {side['updates']} updates" if "cut" in side else said


def memory(report: Report) -> str:
    """Predicted beside measured memory."""
    rows = []
    for name, ours, trl in sides(report):
        measured, predicted = ours.get("peak_gb") or {}, ours.get("predicted_gb") or {}
        for phase in predicted:
            peaks = (measured.get(phase), (trl.get("peak_gb") or {}).get(phase) if phase == "training" else None)
            rows.append([f"`{name}`", phase, f"{predicted[phase]:.1f}", *(f"{gb:.1f}" if gb else "–" for gb in peaks)])
    return table("Peak memory in GB:", ("part", "phase", "predicted", "homerl", "TRL"), rows)


def groups(report: Report) -> str:
    """Where the seconds of an update's training go."""
    columns, cells = [], []
    for name, ours, trl in sides(report):
        for whose, side in (("homerl", ours), ("TRL", trl)):
            if spent := side.get("by_group"):
                whole = sum(spent.values())
                columns.append(f"`{name}`, {whose}")
                cells.append([f"{spent[group]:.3f} s ({share(spent[group] / whole)})" for group in GROUPS])
                cells[-1].append("–" if (rate := side.get("linear_tflops")) is None else f"{rate:,.0f}")
    names = (*GROUPS, "TFLOP/s of linear")
    rows = [[name, *(column[i] for column in cells)] for i, name in enumerate(names)] if cells else []
    return table("Where the time of an update goes (training alone, without rollouts):", ("", *columns), rows)


def shares(report: Report) -> str:
    """Seconds of an update of RLVE, by what it did."""
    rows = []
    for name, ours, _ in sides(report):
        if spent := ours.get("by_share"):
            whole = sum(spent.values())
            rows += [[f"`{name}`", what, f"{seconds:.3f}", share(seconds / whole)] for what, seconds in spent.items()]
    return table("An update with its rollouts:", ("part", "phase", "seconds", "share"), rows)


def generation(report: Report) -> str:
    """Sampled tokens a second, by engine."""
    rows = [
        [name.removeprefix("generate_"), f"{report[name]['tokens_per_second']:,.0f}"]
        for name in GENERATION
        if "tokens_per_second" in report.get(name, {})
    ]
    return table("Generation, 256 prompts of 512 tokens, 256 tokens each:", ("engine", "tokens a second"), rows)


def scratch(report: Report) -> str:
    """Success of the models of 100M parameters before and after training."""
    return "\n\n".join(filter(None, (_trained(name, report.get(name, {})) for name in SCRATCH)))


def _trained(name: str, found: dict[str, Any]) -> str:
    rows = [
        [said, interval(found[stage]["success"], found[stage].get("interval")), str(found[stage]["n"]),
         str(found.get(f"{stage} updates", "–")), _seconds(found, stage)]
        for stage, said in STAGES.items()
        if stage in found
    ]  # fmt: skip
    columns = ("after", "success, % (95 %)", "tasks", "updates", "seconds")
    gains = [
        f"- {STAGES[after]} − {STAGES[before]}: {interval(gap['gain'], gap['interval'], '+.1f')} points"
        for before, after in (("sft", "rlve"), ("sft", "rlve_trajectory"), ("rlve_trajectory", "rlve"))
        if (gap := found.get(f"{after} - {before}"))
    ]
    return "\n\n".join(filter(None, (table(f"`recipes/{name}.yaml`:", columns, rows), "\n".join(gains))))


def _seconds(found: dict[str, Any], stage: str) -> str:
    seconds = found.get("seconds", {}).get(stage)
    return "–" if seconds is None else f"{seconds:.0f}"


def interval(share: float, bounds: Sequence[float] | None, style: str = ".1f") -> str:
    """A share in percent, with its interval if that is known."""
    shown = f"{100 * share:{style}}"
    return f"{shown} ({' to '.join(f'{100 * bound:{style}}' for bound in bounds)})" if bounds else shown


def failures(report: Report) -> list[str]:
    """The last line of what a failed part said."""
    found = []
    for name in (*TRAINING, *GENERATION, *SCRATCH):
        for whose, side in (("", report.get(name, {})), (" of TRL", report.get(name, {}).get("trl", {}))):
            if "failed" in side:
                words = side["failed"].strip().splitlines()[-1]
                found.append(f"`{name}`{whose} failed: {words}")
    return found


def doubts(report: Report) -> list[str]:
    """Why the division of an update's time cannot be right."""
    return [
        f"`{name}`{whose}: do not trust where its time goes: {doubt}."
        for name, ours, trl in sides(report)
        for whose, side in (("", ours), (" of TRL", trl))
        for doubt in side.get("doubts", ())
    ]


def share(part: float | None) -> str:
    """A share in percent."""
    return "–" if part is None else f"{100 * part:.1f} %"


def times(ratio: float | None) -> str:
    """A ratio."""
    return "–" if ratio is None else f"**{ratio:.2f}**"
