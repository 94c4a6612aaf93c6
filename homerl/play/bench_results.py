"""The results of benchmarks: the metrics by name, what is counted and scored of them, and how a run's folder is read.

Invariants:
- A metric is discovered by its file (see `homerl.play.metrics`).
- A folder without results, and a file that is cut or of another kind, is an `InputError` with its path.
- Of what scores and comparisons read in a result, nothing has a wrong type.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

import homerl.play.metrics
from homerl.envs.core.documents import InputError, read_json
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.play.faults import Boundary
from homerl.play.metrics.contract import CountingWorld, Mean, Row
from homerl.play.trajectory import Outcome, Trajectory, read_rows

METRICS: dict[str, Mean] = sort_plugins(discover(homerl.play.metrics, "METRIC", Mean, ("contract",)))


def count_metrics(kind: type[Mean], played: Trajectory, world: CountingWorld, told: Row) -> dict[str, float]:
    """The numbers of an episode for the metrics of one kind; `told` are those that the player counted."""
    numbers = {
        key: told.get(key) if metric.count is None else metric.count(played, world)
        for key, metric in METRICS.items()
        if type(metric) is kind
    }
    return {key: number for key, number in numbers.items() if number is not None}


def score_metrics(kind: type[Mean], rows: Sequence[Row], seed: int) -> dict[str, Any]:
    """What score.json holds of the metrics of one kind, each of the results that have its number."""
    having = {key: [row for row in rows if key in row] for key, metric in METRICS.items() if type(metric) is kind}
    return {key: METRICS[key].score_rows(found, seed) for key, found in having.items() if found}


OUTCOMES = tuple(map(str, Outcome))
# What a score needs of a result that counts.
SCORED = ("families", *(key for key, metric in METRICS.items() if not metric.newer))
Count = Annotated[int, Field(ge=0, le=1 << 53)]


class FaultResult(BaseModel, strict=True):
    """Who failed, and why."""

    boundary: Annotated[str, Field(pattern=f"^({'|'.join(Boundary)})$")]
    reason: str


class _KnownKeys(BaseModel):
    """The keys of a result that are read again, where it has them; metrics, worlds and suites add their own."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    families: list[str] = []
    subcategories: list[str] = []
    run: Count = 0
    grader: Count = 0
    released: Annotated[float, Field(ge=-1, le=1)] = -1.0
    error: list[str] | None = None
    undecided: bool = False
    fault: FaultResult | None = None


_NUMBERS: dict[str, Any] = {
    key: (bool if metric.type is bool else Annotated[metric.type, Field(ge=0, le=metric.most)], 0)
    for key, metric in METRICS.items()
}
StoredResult = create_model("StoredResult", __base__=_KnownKeys, **_NUMBERS)


def read_run_facts(folder: Path, name: str) -> dict[str, Any]:
    """One of a run's files of facts: `run.json` (what was asked for) or `score.json` (what came out)."""
    path = folder / name
    if not path.is_file():
        if played := sum(file.read_bytes().count(b"\n") for file in folder.glob("journal/*.jsonl")):
            what = f"{name} is not there, but {played} played episode{'s' if played != 1 else ''}"
            raise InputError(what, str(folder), "the command of the run goes on from them with --resume, and writes it")
        raise InputError("there are no results", str(folder), "run the suite first: homerl bench run")
    data = read_json(path).data
    if not isinstance(data, dict):
        raise InputError("these are no facts of a benchmark run", str(path), "name a folder of homerl bench run")
    return data


def read_bench_results(folder: Path) -> tuple[dict[str, Any], ...]:
    """The results of a run, in the suite's order."""
    return read_results_file(folder / "results.jsonl")


def read_results_file(path: Path, needed: Sequence[str] = ()) -> tuple[dict[str, Any], ...]:
    """The results of a file, in the suite's order. Raises `InputError` for one that is none, or lacks a `needed` key."""
    rows = tuple(read_rows(path))
    for number, row in enumerate(rows, 1):
        check_result(row, f"{path}:{number}", needed)
    return rows


def check_result(row: Any, where: str, needed: Sequence[str] = ()) -> None:
    """Raise `InputError` with the place unless a row is a result with these keys."""
    told = row if isinstance(row, dict) else {}
    typed = isinstance(told.get("id"), str) and told.get("outcome") in OUTCOMES and isinstance(told.get("success"), bool)
    why = "" if typed else ": it needs an id, an outcome and success"
    if "fault" in told and told["fault"] is None:
        why = why or ": its fault is null"
    if missing := next((key for key in needed if key not in told), None):
        why = why or f": it has no '{missing}'"
    try:
        StoredResult.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = why or f": {'.'.join(map(str, first['loc']))}: {first['msg']}"
    if why:
        raise InputError(f"the line is no result{why}", where, "results.jsonl of homerl bench run has results")
