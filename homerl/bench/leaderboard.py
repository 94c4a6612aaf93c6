"""A leaderboard: results of models over suites, which folders of runs give and people add by files of one form.

Invariants:
- A result names its grader's version, the digest of its suite, its command and its commit, or it is refused.
- All results of a suite are of the same tasks: of the shipped suite where there is one, else of those that came first.
- A result that another version of the grader judged stays, and is marked.
- A figure of a run is that of its results. A file that is refused changes nothing.
- Equal results give equal bytes, in whatever order they come.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from homerl.bench.scores import GRADER, is_complete_score, is_counted_result, success_with_interval
from homerl.bench.suites import digest_of_shipped_suite, match_suite_name
from homerl.envs.core.documents import InputError, read_json, validate_document, write_atomic
from homerl.envs.core.model import Model
from homerl.play.bench_results import read_bench_results, read_run_facts
from homerl.worlds.registry import known_suites

# Texts of strangers stand on pages: what is Markdown, HTML or acts on a terminal is refused.
Name = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f|`<>\[\]*\u202a-\u202e\u2066-\u2069]+$", max_length=120)]
Words = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f|`<>\u202a-\u202e\u2066-\u2069]+$", max_length=400)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=1 << 53)]
Amount = Annotated[float, Field(ge=0)]


class LeaderboardResult(Model):
    """What a model reaches in a suite, and all that the figure depends on."""

    model: Name = Field(description="The name of the model, or of an agent without one.")
    parameters: Count | None = Field(None, description="The model's size in parameters; null where it is not known.")
    suite: Name = Field(description="The name of the suite.")
    suite_sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="The SHA-256 of the suite's file.")
    setting: Name = Field(description="The setting of the suite that was played.")
    grader: int = Field(ge=1, description="The version of the grader that judged all episodes.")
    tasks: Count = Field(description="The number of tasks that were played.")
    of: Count = Field(description="The number of tasks of the suite.")
    runs: Count = Field(1, description="The number of plays of each task.")
    n: Count = Field(description="The number of episodes that count; a server or user spoiled the others.")
    success: Share = Field(description="The share of the counted episodes that succeeded.")
    interval: tuple[Share, Share] = Field(description="Its 95 % interval.")
    tokens: Amount | None = Field(None, description="The mean number of tokens that the agent writes in a task.")
    cost: Amount | None = Field(None, description="The mean price of the tokens of a task, read and written.")
    judge: Words | None = Field(None, description="The LLM that decided what no rule decides.")
    homerl: Name = Field(description="The version of homerl that played it.")
    commit: str | None = Field(pattern=r"^[0-9a-f]{7,40}$", description="Its commit; null for an installed package.")
    command: Words = Field(description="The command by which others play the same.")

    @model_validator(mode="after")
    def _refuse_impossible_figures(self) -> LeaderboardResult:
        low, high = self.interval
        if not low <= self.success <= high:
            raise ValueError("the success lies outside of its interval")
        if self.tasks > self.of or self.n > self.tasks * self.runs:
            raise ValueError(
                "more is played or counted than there is: n is at most tasks times runs, and tasks at most `of`"
            )
        if not math.isclose(successes := self.success * self.n, round(successes), abs_tol=1e-3):
            raise ValueError(f"no number of successes in {self.n} episodes gives this share")
        return self

    @property
    def key(self) -> tuple[str | int, ...]:
        """Results of one key are of the same thing: of a model, a suite and a setting, played and judged alike."""
        return self.suite, self.setting, self.model, self.command, self.grader

    @property
    def current_grader(self) -> int | None:
        """The version of the suite's grader in this homerl; None if it does not know the suite."""
        return known_suites()[self.suite][0].grader if self.suite in known_suites() else None

    @property
    def is_of_other_grader(self) -> bool:
        """Whether another version of the grader judged it than that of this homerl."""
        return self.current_grader not in (None, self.grader)

    @property
    def marks(self) -> list[str]:
        """What a reader must know beside the figures."""
        found = []
        if self.is_of_other_grader:
            found.append(f"grader {self.grader}, now {self.current_grader}")
        if self.tasks < self.of:
            found.append(f"{self.tasks:,} of {self.of:,} tasks")
        if left_out := self.tasks * self.runs - self.n:
            found.append(f"{left_out:,} left out: a server or user failed")
        return found + ([f"judge {self.judge}"] if self.judge else [])


class Leaderboard(Model):
    """The file of a leaderboard. `homerl_leaderboard` is the version of its form."""

    homerl_leaderboard: Literal[1]
    results: tuple[LeaderboardResult, ...] = ()

    def by_suite(self) -> dict[tuple[str, str], list[LeaderboardResult]]:
        """The results of each (suite, setting): those of the grader of this homerl first, and the best first."""
        found: dict[tuple[str, str], list[LeaderboardResult]] = {}
        for result in sorted(self.results, key=lambda one: (one.is_of_other_grader, -one.success, *one.key)):
            found.setdefault((result.suite, result.setting), []).append(result)
        return dict(sorted(found.items()))


def read_leaderboard(file: Path) -> Leaderboard:
    """The leaderboard of a file. Raises `InputError` with file and line for one that is none."""
    return validate_document(Leaderboard, read_json(file))


def write_leaderboard_file(board: Leaderboard, file: Path) -> None:
    """Write the results, sorted, one key a line."""
    ordered = board.model_copy(update={"results": tuple(sorted(board.results, key=lambda one: one.key))})
    write_atomic(file, ordered.model_dump_json(indent=1) + "\n")


def result_of_run(folder: Path, name: str | None = None, parameters: int | None = None) -> LeaderboardResult:
    """The result of a folder of `homerl bench run`, by its name or one that is given.

    Raises `InputError` for a run that was not played to its end, that several versions of the grader judged, whose score is
    not that of its results, or that does not say which tasks it played.
    """
    said, score = read_run_facts(folder, "run.json"), read_run_facts(folder, "score.json")
    rows = read_bench_results(folder)
    if "suite_sha256" not in said or "command" not in said:
        what = "the run does not say which tasks it played: an earlier homerl made it"
        raise InputError(what, str(folder / "run.json"), "play the suite again: homerl bench run")
    tasks = min(said["limit"] or said["of"], said["of"])
    if not is_complete_score(score, tasks * said["runs"]):
        raise InputError("this benchmark was not played to its end", str(folder), "go on with homerl bench run --resume")
    counted = [row for row in rows if is_counted_result(row)]
    figures = success_with_interval(counted)
    if any(figures[key] != score.get(key) for key in ("n", "success")):
        raise InputError("the score is not that of the results", str(folder), f"homerl bench rescore {folder} says more")
    file = Path(said["suite"]).name.removesuffix(".xz").removesuffix(".jsonl")
    told = {
        "model": name or name_without_folders(said.get("served") or said["model"]),
        "parameters": parameters or said.get("parameters"),
        "suite": match_suite_name(rows[0]["id"], known_suites()) or file,
        "grader": _grader_of_results(counted, folder),
        **{key: said[key] for key in ("suite_sha256", "setting", "of", "runs", "homerl", "commit")},
        "command": shlex.join(map(name_without_folders, shlex.split(said["command"]))),  # earlier versions stored folders
        "tasks": tasks,
        "n": figures["n"],
        "success": figures["success"],
        "interval": tuple(figures["interval"]),
        "tokens": score.get("tokens") or None,
        "cost": _cost_of_task(said.get("prices"), rows),
        "judge": score.get("judge", {}).get("by"),
    }
    try:
        return LeaderboardResult.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = f"{'.'.join(map(str, first['loc'])) or 'the result'} is {first['input']!r}: {first['msg']}"
        raise InputError(what, str(folder), "give the model another name by --name, if it is that") from None


def name_without_folders(value: str | Path) -> str:
    """The name alone of a file or folder of this machine; what is none, as it is: a name on a hub has a slash too."""
    path, text = Path(value).expanduser(), str(value)
    is_path = text.startswith((".", "~")) or text.count("/") > 1 or path.is_absolute() or path.exists()
    return path.absolute().name if is_path and "://" not in text else text


def _grader_of_results(rows: Iterable[Mapping[str, Any]], folder: Path) -> int:
    """The version of the grader that judged all results."""
    versions = {row.get(GRADER) for row in rows}
    if len(versions) == 1 and (version := versions.pop()) is not None:
        return int(version)
    said = " and ".join(sorted("no known version" if version is None else f"version {version}" for version in versions))
    what = f"{said or 'no known version'} of the grader judged the results"
    raise InputError(what, str(folder / "results.jsonl"), "play the suite again: homerl bench run")


def _cost_of_task(prices: Sequence[float] | None, rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean cost of the tokens of an episode, in the currency of the prices; None without prices."""
    if not prices:
        return None
    spent = (price * sum(row.get(key, 0) for row in rows) for price, key in zip(prices, ("prompt_tokens", "tokens")))
    return float(sum(spent)) / 1e6 / len(rows)


def add_results(board: Leaderboard, added: Sequence[LeaderboardResult], source: Path, replace: bool = False) -> Leaderboard:
    """The leaderboard with the results of a file or of a run.

    Raises `InputError` for a result of other tasks than its suite has here, and, unless results may `replace` others of
    the same thing, for one with other figures than such a one.
    """
    found = {result.key: result for result in board.results}
    for result in added:
        refuse_other_tasks(result, found.values(), source)
        if not replace and found.get(result.key, result) != result:
            what = f"{result.model} on {result.suite} stands there already, with other figures"
            raise InputError(what, str(source), "delete one of the two, or give the model another name")
        found[result.key] = result
    return board.model_copy(update={"results": tuple(found.values())})


def refuse_other_tasks(result: LeaderboardResult, others: Iterable[LeaderboardResult], source: Path) -> None:
    """Raise `InputError` for a result of other tasks than the shipped suite's, or than the `others` of its suite."""
    there = next((other.suite_sha256 for other in others if other.suite == result.suite), result.suite_sha256)
    shipped = digest_of_shipped_suite(result.suite)
    if (wanted := shipped or there) != result.suite_sha256:
        whose = "the shipped suite's" if shipped else "that of the results here"
        what = (
            f"{result.model} played other tasks that are called {result.suite}: their SHA-256 is {result.suite_sha256[:12]}…"
        )
        raise InputError(f"{what}, {whose} is {wanted[:12]}…", str(source), "play that suite, or publish to another --out")
