"""A sample of the judge's verdicts for people to check (PersonalHomeBench Appendix J).

Invariant: the sample is a pure function of results, verdicts, size and seed, so that marks fit the page that was written.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, write_atomic
from homerl.envs.personalhome.bench.judged import FILE, choose_judge, plan_programs, plan_rating_question
from homerl.envs.personalhome.bench.stored import PlayedTask, read_named_results
from homerl.envs.personalhome.judge.check_page import render_check
from homerl.envs.personalhome.judge.hearing import VerdictStore
from homerl.envs.personalhome.judge.human import Item, checked, csv_template, read_marks
from homerl.envs.personalhome.sim.shown import household_shown

PAGE, SHEET = "judge_check.html", "marks.csv"


def sample(folder: Path, judge: str | None, size: int, seed: int) -> tuple[list[Item], str]:
    """Some verdicts on plans of a run, drawn by a seed, in the order of the run; and the language of its households.

    Raises `InputError` if no plan was rated.
    """
    (run,), verdicts = read_named_results([folder]), VerdictStore(folder / FILE)
    by = choose_judge(verdicts, judge)
    rated = [
        (played, verdict)
        for played in run.played_tasks(("plans",))
        if by
        and (asked := plan_rating_question(played, plan_programs(played)))
        and (verdict := verdicts.stored_verdict(asked, by))
    ]
    if not rated:
        raise InputError("no plan was rated", str(folder), "ask the judge first: homerl personalhome judge")
    chosen = sorted(random.Random(f"check {seed}").sample(range(len(rated)), min(size, len(rated))))
    return [_item(*rated[at]) for at in chosen], rated[0][0].blueprint.language


def _item(played: PlayedTask, verdict: dict[str, Any]) -> Item:
    household = household_shown(played.blueprint.household)
    context = household["context"]
    name = played.key[0] if not played.key[1] else f"{played.key[0]}-{played.key[1]}"
    return Item(
        item_id=name,
        household=household,
        scene=_scene(played, context["weather"]),
        events=tuple(f"{event['time'].replace('T', ' ')} {event['description']}" for event in context["events"]),
        programs=plan_programs(played),
        verdict=verdict,
    )


def _scene(played: PlayedTask, weather: dict[str, dict[str, str]]) -> str:
    """The time, and the weather outside and inside."""
    parts = [f"{place}: {', '.join(f'{name} {value}' for name, value in air.items())}" for place, air in weather.items()]
    return "; ".join([f"{played.blueprint.household.now:%Y-%m-%d %H:%M}", *parts])


def write_check(folder: Path, out: Path, judge: str | None, size: int, seed: int) -> int:
    """Write the page and an empty sheet of marks; return the number of items."""
    items, language = sample(folder, judge, size, seed)
    write_atomic(out / PAGE, render_check(items, language))
    write_atomic(out / SHEET, csv_template(items))
    return len(items)


def read_check(folder: Path, marks: Sequence[Path], judge: str | None, size: int, seed: int) -> dict[str, Any]:
    """What people's marks of the same sample say (`human.checked`). A file is one person's, named by it."""
    if len({path.stem for path in marks}) < len(marks):
        raise InputError("two files of marks have one name", "--marks", "name each file after its person")
    known = {item.item_id for item in sample(folder, judge, size, seed)[0]}
    return checked({path.stem: read_marks(path, known) for path in marks})
