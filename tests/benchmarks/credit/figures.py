"""Success by rollouts spent, as a table, as differences with their intervals, and as a plot.

Invariants: pure functions of the curves, `{task: {mode: [one curve a seed]}}`, a curve being (rollouts, success) pairs, at
the same rollouts for all of a task; seed i of one mode is compared with seed i of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from scipy.stats import ttest_1samp

from credit.variants import COLOURS
from homerl.measure.intervals import holm, student_interval
from homerl.view.charts import tag

Curves = dict[str, dict[str, list[list[tuple[int, float]]]]]
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 200, 46, 28, 44
KEY, NOTE = 132, 560  # the width of a mode's name in the legend, and of the line below it
STYLE = "text{font:13px sans-serif;fill:#222}.m{text-anchor:middle}.e{text-anchor:end}polyline{fill:none;stroke-width:2}"
STYLE += ".frame{fill:none;stroke:#999}.grid{stroke:#ddd}"


def table(curves: Curves) -> str:
    """Success on the mean of all points of the way, and at the end."""
    rows = []
    for task, modes in curves.items():
        cells = []
        for runs in map(successes, modes.values()):
            cells.append(f"{runs.mean():.2f} / {runs[:, -1].mean():.2f} ({_deviation(runs[:, -1]):.2f})")
        rows.append([task, f"{successes(next(iter(modes.values())))[:, 0].mean():.2f}", *cells])
    return markdown(["task", "start", *next(iter(curves.values()))], rows)


def differences(curves: Curves, against: str = "trajectory") -> str:
    """What each mode has over `against`, of the same seeds: mean of the way and end, each with its 95 % interval.

    A star marks a difference that remains at a family-wise error rate of 5 %, by Holm's correction over the whole table.
    """
    others = [mode for mode in next(iter(curves.values())) if mode != against]
    gaps = {
        (task, mode): successes(modes[mode]) - successes(modes[against]) for task, modes in curves.items() for mode in others
    }
    sides = [values for gap in gaps.values() for values in (gap.mean(1), gap[:, -1])]
    stars = iter(holm([chance(values) for values in sides]))
    cells = {at: " / ".join(interval(v, next(stars)) for v in (gap.mean(1), gap[:, -1])) for at, gap in gaps.items()}
    return markdown(["task", *others], [[task, *(cells[task, mode] for mode in others)] for task in curves])


def chance(values: np.ndarray) -> float:
    """The two-sided p-value of Student's t that the mean is 0; 1 if the values do not vary."""
    if len(values) < 2 or np.allclose(values, values[0]):
        return 1.0
    return float(ttest_1samp(values, 0.0).pvalue)


def reached(curves: Curves, against: str = "trajectory", share: float = 1.0) -> str:
    """The rollouts after which a mode has on average a share of the final success of `against`; a dash if it never has."""
    rows = []
    for task, modes in curves.items():
        goal = share * successes(modes[against]).mean(0)[-1]
        rows.append([task, f"{goal:.2f}", *(_first(runs, goal) for runs in modes.values())])
    return markdown(["task", "goal", *next(iter(curves.values()))], rows)


def _first(runs: Sequence[Sequence[tuple[int, float]]], goal: float) -> str:
    spent = [x for x, _ in runs[0]]
    return next((str(x) for x, mean in zip(spent, successes(runs).mean(0), strict=True) if mean >= goal), "-")


def interval(values: np.ndarray, chance: float = 1.0, digits: int = 2) -> str:
    """The mean and its 95 % interval by Student's t; a star if `chance` is below 0.05."""
    mean = values.mean()
    if len(values) < 2:
        return f"{mean:+.{digits}f}"
    low, high = (f"{edge:+.{digits}f}" for edge in student_interval(values))
    return f"{mean:+.{digits}f} ({low} to {high}){'*' if chance < 0.05 else ''}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plot(curves: Curves) -> str:
    """One panel a task, one line a mode: the mean of the seeds, and a band of one standard deviation to each side."""
    panels = [_panel(task, modes, LEFT + i * (WIDTH + GAP)) for i, (task, modes) in enumerate(curves.items())]
    modes = next(iter(curves.values()))
    seeds, foot = len(next(iter(modes.values()))), TOP + HEIGHT + 62
    legend = [_key(mode, LEFT + KEY * i, foot) for i, mode in enumerate(modes)]
    said = f"success on fresh episodes; line: mean of {seeds} seeds, band: one standard deviation to each side"
    note = tag("text", said, x=LEFT, y=foot + 22)
    wide, high = LEFT + max(len(curves) * (WIDTH + GAP), KEY * len(modes), NOTE), foot + 38
    ground = tag("rect", width=wide, height=high, fill="#fff")
    drawn = chain([tag("style", STYLE), ground], *panels, *legend, [note])
    return tag("svg", *drawn, xmlns="http://www.w3.org/2000/svg", width=wide, height=high) + "\n"


def _panel(task: str, modes: dict, left: float):
    """Frame, axes, bands, lines."""
    xs = np.array([x for x, _ in next(iter(modes.values()))[0]])
    across = left + WIDTH * xs / xs.max()
    yield tag("text", task, x=left, y=TOP - 10)
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _up(share)
        yield tag("line", x1=left, x2=left + WIDTH, y1=y, y2=y, class_="grid")
        yield tag("text", f"{share:.0%}", x=left - 6, y=y + 4, class_="e")
    for share in (0, 0.25, 0.5, 0.75, 1):
        yield tag("text", f"{share * xs.max():.0f}", x=left + WIDTH * share, y=TOP + HEIGHT + 17, class_="m")
    yield tag("text", "rollouts spent", x=left + WIDTH / 2, y=TOP + HEIGHT + 36, class_="m")
    found = {mode: successes(modes[mode]) for mode in reversed(modes)}  # the first is dashed and on top: no line is hidden
    yield from (_band(across, values, COLOURS[mode]) for mode, values in found.items())
    for mode, values in found.items():
        yield tag("polyline", points=_points(zip(across, _up(values.mean(0)))), **_stroke(mode))
    yield tag("rect", x=left, y=TOP, width=WIDTH, height=HEIGHT, class_="frame")


def _band(across: np.ndarray, values: np.ndarray, colour: str):
    mean, off = values.mean(0), np.array([_deviation(column) for column in values.T])
    low, high = (_up(np.clip(edge, 0, 1)) for edge in (mean - off, mean + off))
    edge = [*zip(across, low), *zip(across[::-1], high[::-1])]
    return tag("polygon", points=_points(edge), fill=colour, opacity="0.13")


def _key(mode: str, left: float, foot: float):
    yield tag("line", x1=left, x2=left + 22, y1=foot - 4, y2=foot - 4, stroke_width=3, **_stroke(mode))
    yield tag("text", mode, x=left + 28, y=foot)


def _stroke(mode: str) -> dict[str, str]:
    return {"stroke": COLOURS[mode]} | ({"stroke_dasharray": "6 4"} if mode == "trajectory" else {})


def successes(runs: Sequence[Sequence[tuple[int, float]]]) -> np.ndarray:
    """(seeds, points)."""
    return np.array([[y for _, y in run] for run in runs], dtype=float)


def _deviation(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _up(share):
    return TOP + HEIGHT * (1 - share)


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)
