"""Plays a suite with an agent, many episodes concurrently, resumable.

Invariants of a run (`run_suite`):
- A played episode is in the journal as soon as it ends.
- It is never played again (but see `EpisodePace.alike`), and never mistaken for one of another suite, setting or agent
  (`identity`).
- An episode that a server, user or world spoiled is retried in a fresh world, then marked, left out of the score, and
  played again by the next run.
- Memory does not grow with the number of instances.

Invariants of the journal (`BenchJournal`), one append-only file with a row for each episode:
- A row is in the file completely or not at all (opening the file cuts off an incomplete last line).
- A killed process loses no row.
- Of two rows with one index the later counts.
- Memory holds only the positions of rows.
- A line that is no row of a journal is an `InputError` with its place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from homerl.bench.recipe import SuiteSettings
from homerl.bench.scores import build_result_row, is_counted_result, score_results
from homerl.bench.suites import digest_of_instances, labels_in_trajectories, spread_evenly, suite_of_instance
from homerl.envs.core.documents import InputError, name_path_in_errors, write_atomic
from homerl.envs.core.model import IDENTITY
from homerl.host.exit_codes import INTERRUPTED, RunStopped
from homerl.host.processes import stop_on_signals
from homerl.host.terminal import count_with_noun
from homerl.models.endpoint.endpoint_settings import AT_ONCE, Behaviours
from homerl.play.bench_results import SCORED, check_result
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import EPISODE_ERRORS, TOO_LONG, InfraError, describe_escaped_error
from homerl.play.loop import Agent, User, play, replies_from
from homerl.play.situation import BlueprintProtocol, Reply
from homerl.play.trajectory import Outcome, parse_json_line, trajectory_to_row, uniform_rows, write_rows
from homerl.worlds.contract import SuiteInstance
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

EDITED = "a journal may have been edited: remove the line, and what it holds is played again"


class BenchJournal:
    """Rows by index, a number or a text, in the order of playing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at: dict[Any, tuple[int, int]] = {}  # the position and the number of the line
        self._lines = 0
        self._counts: dict[Any, bool] = {}
        self._synced = -math.inf
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return
        with path.open("rb+") as file:
            whole = 0  # the end of the last complete line
            for line in iter(file.readline, b""):
                if not line.endswith(b"\n"):
                    break
                self._lines += 1
                row = parse_json_line(line, where := f"{self.path}:{self._lines}")
                index, counts = row.get("index"), row.get("counts")
                number = isinstance(index, int) and not isinstance(index, bool) and index >= 0
                alike = type(index) is type(next(iter(self._at), index))
                if not (number or isinstance(index, str)) or not alike or not isinstance(counts, bool):
                    raise InputError("not a row of a journal: it has no index, or does not say what counts", where, EDITED)
                self._at[index], self._counts[index] = (whole, self._lines), counts
                whole = file.tell()
            file.truncate(whole)  # an incomplete last line is what a killed process left

    def append_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows, each with `index` and `counts` (whether the outcome says something about the agent)."""
        rows = list(rows)
        lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for row in rows]
        with name_path_in_errors(self.path), self.path.open("ab") as file:
            at = file.tell()
            file.write(b"".join(lines))
            file.flush()
            if time.monotonic() - self._synced > 1.0:  # only a loss of power makes it necessary
                os.fsync(file.fileno())
                self._synced = time.monotonic()
        for row, line in zip(rows, lines):
            self._lines += 1
            self._at[row["index"]], self._counts[row["index"]] = (at, self._lines), row["counts"]
            at += len(line)

    def is_settled(self, index: int | str) -> bool:
        """Whether the episode of this index was played, and its outcome counts."""
        return self._counts.get(index, False)

    def __len__(self) -> int:
        return len(self._at)

    def sorted_rows(self) -> Iterator[dict[str, Any]]:
        """Read all rows, ordered by index."""
        if not self._at:
            return
        with self.path.open("rb") as file:
            for index in sorted(self._at):
                file.seek(self._at[index][0])
                yield json.loads(file.readline())

    def row_location(self, index: int | str) -> str:
        """The place of a row."""
        return f"{self.path}:{self._at[index][1]}"


RETRIES = 2
AGAIN = "the same command goes on from here (bench run: with --resume)"
SCOUTS = 2  # episodes that are tried before all others, to learn whether anybody answers
USUAL, MOST = 4, 0.9  # messages of an episode before one has ended; the most of one that counts while it is played
WAVE = 100  # concurrent episodes of a local model


@dataclass(frozen=True)
class EpisodeSpec:
    """One episode to play; its `labels` are added to its result."""

    blueprint: BlueprintProtocol
    limits: EpisodeLimits
    labels: dict[str, Any] = field(default_factory=dict)


class EpisodeSpecs(Protocol):
    """The episodes of a suite by index; `identity` is a text of everything they depend on."""

    identity: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> EpisodeSpec: ...


class HeldoutSuite:
    """A suite by recipe: blueprints of the held-out split."""

    def __init__(self, suite: SuiteSettings, limits: EpisodeLimits) -> None:
        self.suite, self.limits = suite, limits
        asked = suite.model_dump(mode="json", context=IDENTITY, exclude={"count", "benchmark", "easier_half", "setting"})
        self.identity = json.dumps([asked, limits.to_record()])

    def __len__(self) -> int:
        return self.suite.count

    def __getitem__(self, index: int) -> EpisodeSpec:
        recipe = self.suite.recipe
        made = make_blueprint_of_seed(recipe, "heldout", self.suite.first_seed + index)
        blueprint = blueprint_with_behaviours(made, self.suite.user.behaviours, recipe)
        return EpisodeSpec(blueprint, self.limits, {name: getattr(blueprint, name) for name in world_of(blueprint).labels})


@dataclass(frozen=True)
class ParticipantFactories:
    """Makes the agent and the user of each episode; `identity` is a text of what the agent's answers depend on."""

    agent: Callable[[], Agent]
    user: Callable[[int], User] = ScriptedUser
    identity: str = ""


@dataclass(frozen=True)
class EpisodePace:
    """The number of concurrent episodes.

    With `waves` they start together, and `begin` gets the index of the first. Without, an episode starts as another ends.
    `alike` plays a wave that was interrupted again as a whole, so that equal random numbers fall on equal episodes.
    """

    at_once: int = WAVE
    waves: bool = True
    alike: bool = True
    begin: Callable[[int], None] = lambda first: None


def run_suite(
    episodes: EpisodeSpecs,
    factories: ParticipantFactories,
    out: Path,
    pace: EpisodePace = EpisodePace(),
    progress: Callable[[float, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Play the episodes that were not played yet; write results, trajectories and score to `out`; return the score.

    `progress` is called with (episodes done, episodes in all) after each message of the agent: of an episode that is being
    played, a share counts as done. Ctrl-C and SIGTERM raise `BenchInterrupted`, and servers that
    fail for every episode `NothingScored`; what was played is then written all the same.
    """
    digest = hashlib.blake2b(f"{episodes.identity}{factories.identity}".encode(), digest_size=8).hexdigest()
    path = out / "journal" / f"{digest}.jsonl"
    journal, count = BenchJournal(path), len(episodes)
    shown = _EpisodeProgress(lambda begun: progress(min(count, len(journal) + begun), count))

    async def play_and_keep(index: int, patient: bool = True) -> dict[str, Any]:
        row = await _play_episode(episodes, index, factories, patient, lambda: shown.count_message(index))
        journal.append_rows([row])
        shown.end_episode(index)
        return row

    async def play_interruptible() -> None:
        def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            # a task that Ctrl-C ended is not reported as one that nobody waited for
            if not isinstance(context.get("exception"), KeyboardInterrupt):
                loop.default_exception_handler(context)

        asyncio.get_running_loop().set_exception_handler(report)
        if pace.waves:
            await _play_in_waves(play_and_keep, journal, count, pace)
            progress(count, count)
        else:
            await _play_one_by_one(play_and_keep, journal, count, pace)

    try:
        with stop_on_signals():
            asyncio.run(play_interruptible())
    except KeyboardInterrupt:
        journal = BenchJournal(path)  # read again, since it may have been interrupted between disk and memory
        write_bench_results(journal, count, out)
        raise BenchInterrupted(
            f"{len(journal)} of {count_with_noun(count, 'episode')} are played, their results are in {out}\n{AGAIN}"
        ) from None
    scored = write_bench_results(journal, count, out)
    if not scored["n"] or len(journal) < count:
        ends = "so the run stops" if scored["n"] else "so there is no score"
        what = f"{why_nothing_scored(scored)}: {len(journal)} episodes were tried, {ends}"
        raise NothingScored(f"{what}\nsee to it; {AGAIN}")
    faults = (row["result"].get("fault") or {} for row in _read_results(journal, count))
    # prompts that exceed a server's limit count as the agent's failures, unless every single one does
    if all((fault.get("reason") or "").startswith(TOO_LONG) for fault in faults):
        what = f"of all {count_with_noun(len(journal), 'task')}, {TOO_LONG}: that says nothing about the agent"
        raise NothingScored(
            f"{what}\nlet its server take more tokens, ask for fewer a message, or take shorter prompts; {AGAIN}"
        )
    return scored


class BenchInterrupted(RunStopped):
    """The run was stopped. The message says what is done."""

    code = INTERRUPTED


class NothingScored(RunStopped):
    """No episode says anything about the agent (exit code 4). The message begins with the reason."""

    code = 4


def why_nothing_scored(scored: Mapping[str, Any]) -> str:
    """The most frequent reason why episodes say nothing about the agent."""
    return next(iter(scored.get("faults", {})), "no episode says anything about the agent")


def write_bench_results(journal: BenchJournal, count: int, out: Path) -> dict[str, Any]:
    """Write `results.jsonl`, `trajectories.jsonl` and `score.json` in the suite's order; return the score."""
    trajectories = out / "trajectories.jsonl"
    write_rows(out / "results.jsonl", (row["result"] for row in _read_results(journal, count)))
    write_rows(trajectories, uniform_rows(lambda: (row["trajectory"] for row in _read_results(journal, count))))
    results = [row["result"] for row in _read_results(journal, count)]
    scored = score_results(results, labels_in_trajectories(trajectories))
    write_atomic(out / "score.json", json.dumps(scored, indent=1) + "\n")
    return scored


def _read_results(journal: BenchJournal, count: int) -> Iterator[dict[str, Any]]:
    """The rows of the first `count` episodes. Raises `InputError` with the place of one without a result or trajectory."""
    for row in journal.sorted_rows():
        where = journal.row_location(row["index"])
        check_result(row.get("result"), where, SCORED)
        if not isinstance(row.get("trajectory"), dict) or not isinstance(row["index"], int):
            raise InputError("the episode has no trajectory", where, EDITED)
        if row["index"] < count:
            yield row


Play = Callable[..., Awaitable[dict[str, Any]]]  # (index, patient=True) -> the row of the episode, which is in the journal


async def _play_in_waves(play_and_keep: Play, journal: BenchJournal, count: int, pace: EpisodePace) -> None:
    for start in range(0, count, pace.at_once):
        wave = range(start, min(start + pace.at_once, count))
        if missing := [index for index in wave if not journal.is_settled(index)]:
            pace.begin(start)
            await asyncio.gather(*map(play_and_keep, wave if pace.alike else missing))


async def _play_one_by_one(play_and_keep: Play, journal: BenchJournal, count: int, pace: EpisodePace) -> None:
    """Play what is missing, after a few scouts: while servers spoil all of these, nothing else is tried."""
    missing = [index for index in range(count) if not journal.is_settled(index)]
    answered = None
    for index in spread_evenly(missing, SCOUTS):
        row = await play_and_keep(index, patient=False)
        if row["result"]["outcome"] != Outcome.INFRA_ERROR:
            answered = index if row["counts"] else None
            break
    else:
        return
    # one iterator for all workers: each takes the next episode as soon as its own has ended
    todo = iter(index for index in missing if index != answered)

    async def worker() -> None:
        for index in todo:
            await play_and_keep(index)

    async with asyncio.TaskGroup() as group:
        for _ in range(pace.at_once):
            group.create_task(worker())


class _EpisodeProgress:
    """How much is done of the episodes that are being played. Of a batch all may end together, long after they began.

    An episode's share is that of its messages in what those took that have ended, `USUAL` before one has.
    """

    def __init__(self, show: Callable[[float], None]) -> None:
        self.show, self.running, self.ended = show, Counter[int](), list[int]()

    def count_message(self, index: int) -> None:
        """The agent has sent a message in an episode."""
        self.running[index] += 1
        self._show_share()

    def end_episode(self, index: int) -> None:
        """An episode has ended."""
        self.ended.append(self.running.pop(index, 0))
        self._show_share()

    def _show_share(self) -> None:
        usual = sum(self.ended) / len(self.ended) if self.ended else USUAL
        self.show(sum(min(MOST, messages / (usual + 1)) for messages in self.running.values()))


async def _play_episode(
    episodes: EpisodeSpecs, index: int, factories: ParticipantFactories, patient: bool, answered: Callable[[], None]
) -> dict[str, Any]:
    """The row of an episode, which is retried after faults that are not the agent's; those of servers only if `patient`."""
    task, user_failures = episodes[index], 0
    for _ in range(RETRIES + 1):
        agent, seed = _CountedAgent(factories.agent(), answered), task.blueprint.seed
        user = factories.user(seed + user_failures)  # a user that left its role would do so again
        trajectory = await play(begin_episode(task.blueprint, task.limits), agent, user, seed)
        user_failures += trajectory.outcome is Outcome.USER_ERROR
        if trajectory.outcome.is_counted or (trajectory.outcome is Outcome.INFRA_ERROR and not patient):
            break
    result = build_result_row(trajectory, agent.tokens, agent.prompt_tokens) | task.labels
    return {
        "index": index,
        "counts": is_counted_result(result),
        "result": result,
        "trajectory": trajectory_to_row(trajectory),
    }


class _CountedAgent:
    """An agent whose tokens are counted. It passes on what that agent may see."""

    def __init__(self, agent: Agent, answered: Callable[[], None]) -> None:
        self.agent, self.name, self.tokens, self.prompt_tokens = agent, agent.name, 0, 0
        self._answered = answered

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        try:
            replies = await replies_from(self.agent, episode, n)
        except EPISODE_ERRORS:
            raise
        except Exception as error:  # a fault of the agent's own program ends its episode alone
            raise InfraError(f"the agent's program failed: {describe_escaped_error(error)}") from error
        self._answered()
        self.tokens += sum(reply.tokens for reply in replies)
        self.prompt_tokens += sum(reply.prompt_tokens for reply in replies)
        return replies


class SuiteInstances:
    """The instances of a suite in one setting, each played `runs` times, with a user of these behaviours."""

    def __init__(self, found: Sequence[SuiteInstance], setting: str, runs: int, behaviours: Behaviours = AT_ONCE) -> None:
        self.found, self.setting, self.runs, self.behaviours = found, setting, runs, behaviours
        spoken = "" if behaviours == AT_ONCE else f" {behaviours.model_dump_json()}"
        self.identity = f"{digest_of_instances(found)} {setting}{spoken}"

    def __len__(self) -> int:
        return len(self.found) * self.runs

    def __getitem__(self, index: int) -> EpisodeSpec:
        run, at = divmod(index, len(self.found))
        spec = episode_of_instance(self.found[at], self.setting, run, self.behaviours)
        return replace(spec, labels=spec.labels | {"run": run})


def episode_of_instance(
    instance: SuiteInstance, setting: str, run: int = 0, behaviours: Behaviours = AT_ONCE
) -> EpisodeSpec:
    """The episode that an instance of a suite is played as in a setting; runs differ in their seed."""
    made = instance.blueprint_for(setting)
    labels = suite_of_instance(instance.id, world_of(made)).labels
    blueprint = blueprint_with_behaviours(made.model_copy(update={"id": instance.id, "seed": made.seed + run}), behaviours)
    return EpisodeSpec(blueprint, instance.limits_for(setting), {name: getattr(instance, name) for name in labels})
