"""Reads what a benchmark run left in its folder.

Invariant: a folder without results, and a file that is cut or of another kind, is an `InputError` with its path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envs.documents import InputError, read_json
from homerl.play.trajectory import Outcome, read_rows

OUTCOMES = tuple(map(str, Outcome))


def read_facts(folder: Path, name: str) -> dict[str, Any]:
    """One of a run's files of facts: `run.json` (what was asked for) or `score.json` (what came out)."""
    path = folder / name
    if not path.is_file():
        raise InputError("there are no results", str(folder), "run the suite first: homerl bench run")
    data = read_json(path).data
    if not isinstance(data, dict):
        raise InputError("these are no facts of a benchmark run", str(path), "name a folder of homerl bench run")
    return data


def read_results(folder: Path) -> tuple[dict[str, Any], ...]:
    """The results of a run, in the suite's order."""
    return results_in(folder / "results.jsonl")


def results_in(path: Path) -> tuple[dict[str, Any], ...]:
    """The results of a file, in the suite's order."""
    rows = tuple(read_rows(path))
    for number, row in enumerate(rows, 1):
        typed = isinstance(row.get("id"), str) and row.get("outcome") in OUTCOMES and isinstance(row.get("success"), bool)
        if not typed:
            raise InputError("the line is no result", f"{path}:{number}", "results.jsonl of homerl bench run has results")
    return rows
