"""The report of runs of PersonalHomeBench as tables.

Invariant: every figure of ours is computed from results and stored verdicts; nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from homerl.envs.personalhome.bench.figures import LEVELS, QUESTIONS, TASKS, Figure, Figures, Scores, scores
from homerl.envs.personalhome.bench.judged import Compared, Judged, compared, judge_in, judged, together
from homerl.envs.personalhome.bench.reflecting import FILE as REVISIONS
from homerl.envs.personalhome.bench.reflecting import Reflection, reflection
from homerl.envs.personalhome.bench.stored import Results, read_results
from homerl.envs.personalhome.bench.tables import PERCENT, POINTS, UNITS, Cell, Line, Table, cell
from homerl.envs.personalhome.judge.hearing import Verdicts
from homerl.envs.personalhome.tasks.metrics import CALL_CLASSES, CUTS, ERRORS
from homerl.host.pages.glossary import sections_of

HERE = Path(__file__).parents[1]  # the world's folder, with its glossary
RULES_IN_WORDS = {
    "kept": "no preference is broken",
    "ordered": "the most urgent first",
    "compatible": "steps go together",
    "reasoned": "each step has a reason",
    "sized": "1 to 3 programs of 1 to 5 steps",
}


@dataclass(frozen=True)
class Run:
    """A run with all that is known of it. `win` is its win rate in rel mode."""

    results: Results
    scores: Scores
    judged: Judged | None
    win: Figure | None
    reflection: Reflection | None = None

    def figure(self, name: str) -> Figure | None:
        """A figure of its tasks."""
        if name == "win rate":
            return self.win
        return self.scores.tasks.get(name) or (self.judged.figures.get(name) if self.judged else None)


@dataclass(frozen=True)
class Report:
    """The tables of a report, and what is to be known of all of them."""

    runs: tuple[str, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def report(folders: Sequence[Path], judge: str | None = None) -> Report:
    """The report of the runs in some folders, with the stored verdicts of a judge. Nobody is asked."""
    found = read_results(folders)
    verdicts = together(found)
    by = judge_in(verdicts, judge)
    orders = compared(found, verdicts, by) if by and len(found) > 1 else None
    runs = [_run(one, verdicts, by, orders) for one in found]
    tables = tuple(table for table in _tables(runs) if table.lines)
    return Report(tuple(one.name for one in found), tables, tuple(_notes(runs, by, orders)))


def _run(results: Results, verdicts: Verdicts, by: str | None, orders: Compared | None) -> Run:
    if by is None:
        return Run(results, scores(results.rows), None, None)
    kept = Verdicts(results.folder / REVISIONS)
    win = orders.wins.get(results.name) if orders else None
    reflected = reflection(results, verdicts, by, kept) if kept.rows else None
    return Run(results, scores(results.rows), judged(results, verdicts, by), win, reflected)


# Runs as columns


def _tables(runs: Sequence[Run]) -> Iterator[Table]:
    heads = tuple(run.results.name for run in runs)
    yield Table("Questions, accuracy in %", heads, tuple(_lines(runs, QUESTION_LABELS)), ("CF is the mean of both sides.",))
    if any(run.judged for run in runs):
        meant = {"IG ACC": "IG", "CF ACC": "CF"}
        lines = _lines_of([run.judged.figures if run.judged else {} for run in runs], meant)
        yield Table("Questions with the judge of meaning, accuracy in %", heads, tuple(lines))
    yield Table("Questions by difficulty, accuracy in %", heads, tuple(_level_lines(runs)))
    yield Table("Names (personal) and ids (generic), accuracy in %", heads, tuple(_named_lines(runs)))
    features = {**{f"MAP@{k}": f"MAP@{k}" for k in CUTS}, "RRS": "RRS, 0 is best"}
    yield Table("Features", heads, tuple(_lines(runs, features)))
    yield Table("Plans", heads, tuple(_lines(runs, PLAN_LABELS)), ("A plan that settles nothing keeps no rule.",))
    yield Table("Plans before and after one revision", heads, tuple(_revised_lines(runs)))
    yield Table("Errors, number (and by episode)", heads, tuple(_error_lines(runs)))
    yield Table("Episodes by number of calls, in %", heads, tuple(_call_lines(runs)))


QUESTION_LABELS = {
    "IG ACC": "IG",
    "CF ACC": "CF",
    "CF ACC changed": "CF, the answer changes",
    "CF ACC unchanged": "CF, it does not",
    "MC ACC": "MC",
}
PLAN_LABELS = {
    "validity": "validity, static",
    "executed": "validity, executed",
    "settled": "situations settled, %",
    **{rule: f"{words}, %" for rule, words in RULES_IN_WORDS.items()},
    "RPJ abs": "RPJ abs, 1 to 5",
    "RPJ members": "RPJ abs of members",
    "RPJ home": "RPJ abs of the home",
    "win rate": "RPJ rel, best plan, %",
}
REVISED = ("RPJ abs", "validity", "executed", "settled")


def _lines(runs: Sequence[Run], labels: Mapping[str, str]) -> Iterator[Line]:
    yield from _lines_of([{name: found for name in labels if (found := run.figure(name))} for run in runs], labels)


def _lines_of(found: Sequence[Figures], labels: Mapping[str, str]) -> Iterator[Line]:
    """A line for each label that a run has a figure of."""
    for name, label in labels.items():
        cells = tuple(cell(figures.get(name), UNITS.get(name, PERCENT)) for figures in found)
        if any(cells):
            yield Line(label, cells)


def _level_lines(runs: Sequence[Run]) -> Iterator[Line]:
    for level in LEVELS:
        labels = {name: f"{name.removesuffix(' ACC')}, {level}" for name in QUESTIONS}
        yield from _lines_of([run.scores.levels.get(level, {}) for run in runs], labels)


def _named_lines(runs: Sequence[Run]) -> Iterator[Line]:
    for name in QUESTIONS:
        parts = [run.scores.naming.get(name, {}) for run in runs]
        for way, unit in (("personal", PERCENT), ("generic", PERCENT), ("difference", POINTS)):
            cells = tuple(cell(part.get(way), unit) for part in parts)
            if any(cells):
                yield Line(f"{name.removesuffix(' ACC')}, {way}", cells)


def _revised_lines(runs: Sequence[Run]) -> Iterator[Line]:
    for name in REVISED:
        for when in ("before", "after"):
            parts = [getattr(run.reflection, when) if run.reflection else {} for run in runs]
            yield from _lines_of(parts, {name: f"{PLAN_LABELS[name]}, {when}"})


def _error_lines(runs: Sequence[Run]) -> Iterator[Line]:
    """The errors that occurred."""
    for task in TASKS:
        for name in ERRORS:
            counts = [(run.scores.errors.get(task, {}).get(name, 0), run.scores.episodes.get(task, 0)) for run in runs]
            if any(count for count, _ in counts):
                cells = (Cell(f"{count}", f"{count / of:.2f}", of) if of else None for count, of in counts)
                yield Line(f"{task}, {name.lower().replace('_', ' ')}", tuple(cells))


def _call_lines(runs: Sequence[Run]) -> Iterator[Line]:
    for task in TASKS:
        found = [run.scores.calls.get(task) for run in runs]
        for kind in CALL_CLASSES if any(found) else ():
            yield Line(f"{task}, {kind}", tuple(_part(calls, kind) for calls in found))


def _part(calls: Mapping[str, int] | None, kind: str) -> Cell | None:
    if calls is None:
        return None
    episodes = sum(calls.values())
    return Cell(f"{100 * calls[kind] / episodes:.1f}", n=episodes)


def _notes(runs: Sequence[Run], by: str | None, orders: Compared | None) -> Iterable[str]:
    named = (f"{term} is {said.name}" for _, terms in sections_of(HERE) for term, said in terms.items() if said.name)
    yield f"{', '.join(named)}."
    yield "Intervals are of 95 %."
    for run in runs:
        if run.scores.left_out:
            yield f"{run.results.name}: {run.scores.left_out} episodes are left out, since they say nothing about the agent."
        if run.judged and run.judged.missing:
            yield f"{run.results.name}: {run.judged.missing} questions to the judge have no verdict; ask again."
        if run.reflection and run.reflection.missing:
            yield f"{run.results.name}: {run.reflection.missing} plans have no revision that is rated."
        if run.judged and run.judged.unsure:
            yield f"{run.results.name}: of {run.judged.unsure} answers the judge could not tell; they count as wrong."
    if by:
        yield f"The judge is {by}; its verdicts are stored."
    else:
        yield "No judge has been asked: homerl personalhome judge."
    if orders and orders.disagrees and orders.kept:
        changed, kept = 100 * orders.disagrees.mean, 100 * orders.kept.mean
        yield f"In rel mode the best plan changed with the letters in {changed:.1f} % of tasks."
        yield f"Of two plans, the better one was the same both times in {kept:.1f} % of pairs."
    if orders and orders.missing:
        yield f"In rel mode {orders.missing} tasks lack a verdict."
