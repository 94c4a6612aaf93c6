"""Synthesis in shards, over processes or a Ray cluster: blueprints in, verified trajectories and their statistics out.

A shard is a range of blueprints. Workers play the blueprints of several shards at once, each in one event loop
(`synthesise_shards`). This process alone writes shards (`synthesise_dataset`), in a folder of the recipe's digest, so
machines need no shared disk, and a killed run is taken up again. The dataset is the shards in order.

Invariants:
- A shard's bytes are a pure function of the recipe and its range of blueprints, if models give the same answer to the same
  request. So the dataset's bytes depend neither on the number of workers nor on where a run was killed.
- A shard is written atomically. A complete one is never rewritten, except if servers failed in it.
- While blueprints are left, a worker plays as many as it may, however long some take. It returns its shards in order where
  that is asked for.
- On Ray a worker returns its shards in the order in which it got them, so Ray can restart it on another machine. Folders of
  plug-ins must have the same path on every machine.
- Memory holds tens of shards. The statistics (`SynthesisStatistics`) keep counts and hashes, never rows.
- Where servers fail for one blueprint after another, the work ends: going on would not help. Their errors are kept apart
  from the statistics of the data.
- Workers end with the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import traceback
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from homerl.envs.core.documents import InputError, read_json, write_atomic
from homerl.envs.core.plugins import plugin_folder_variables
from homerl.host.processes import children_ignore_interrupt, die_with_process
from homerl.play.faults import InfraError
from homerl.play.trajectory import Outcome, read_rows, rows_to_json_lines
from homerl.play.words.text_diversity import TextDiversity
from homerl.synth.blueprint_synthesis import NO_BLUEPRINT, REFUSED, BlueprintResult, BlueprintSynthesiser
from homerl.synth.recipe import SynthesisConfig

OPEN = 32  # most shards that are open beyond those being played
FAILED = 10  # blueprints in a row, all of their shards, for which servers fail before the work ends


@dataclass(frozen=True)
class Shard:
    """A completed range of blueprints: the dataset's lines, and the statistics."""

    blueprints: range
    lines: str
    stats: dict[str, Any]


def assign_shards(config: SynthesisConfig, todo: Sequence[range], workers: int) -> list[tuple[Sequence[range], int]]:
    """(shards, concurrent blueprints) of each worker."""
    count = max(1, min(workers, len(todo), config.in_flight))
    return [(todo[w::count], (config.in_flight + w) // count) for w in range(count)]


def synthesise_shards(config: SynthesisConfig, todo: Sequence[range], at_once: int, ordered: bool = True) -> Iterator[Shard]:
    """Yield the shards of `todo`, in order or as they are completed.

    `at_once` blueprints are played concurrently, also across the borders of shards.
    """
    with asyncio.Runner() as loop:
        shards = _play_shards(config, todo, at_once, ordered)

        async def next_shard() -> Shard | None:
            return await anext(shards, None)

        while (shard := loop.run(next_shard())) is not None:
            yield shard


class BlueprintLimiter:
    """Lets `at_once` blueprints play at a time.

    `waiting` counts blueprints that are announced but have not started. `room` is set while `waiting` is less than
    `at_once`; the next shard is opened then.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once, self.waiting = at_once, 0
        self._free, self.room = asyncio.Semaphore(at_once), asyncio.Event()
        self.room.set()

    def expect_blueprints(self, more: int) -> None:
        """Announce `more` blueprints that will ask to play; a negative number takes them back."""
        self.waiting += more
        (self.room.set if self.waiting < self.at_once else self.room.clear)()

    async def __aenter__(self) -> None:
        await self._free.acquire()
        self.expect_blueprints(-1)

    async def __aexit__(self, *error: object) -> None:
        self._free.release()


async def _play_shards(config: SynthesisConfig, todo: Sequence[range], at_once: int, ordered: bool) -> AsyncIterator[Shard]:
    """Raises `InfraError` if servers failed for all blueprints of some shards in a row, and these are not few."""
    maker, limiter, failed = BlueprintSynthesiser(config), BlueprintLimiter(at_once), 0
    coming, pending = deque(todo), list[asyncio.Task[Shard]]()
    most = OPEN + at_once // config.shard  # open shards; a slow one keeps those after it open, if shards are ordered
    try:
        while coming or pending:
            awaited = pending[:1] if ordered else pending
            if done := next((task for task in awaited if task.done()), None):
                pending.remove(done)
                shard = done.result()
                faults = [line["fault"] for line in shard.stats["blueprints"] if line["outcome"] == Outcome.INFRA_ERROR]
                failed = failed + len(faults) if len(faults) == len(shard.blueprints) else 0
                if failed >= min(FAILED, config.shard, config.blueprints):
                    raise InfraError(faults[0])
                yield shard
            elif coming and len(pending) < most and limiter.room.is_set():
                limiter.expect_blueprints(len(coming[0]))
                pending.append(asyncio.create_task(_play_shard(maker, coming.popleft(), limiter)))
            else:  # wait until a shard is completed, or until there is room for another
                more = [asyncio.create_task(limiter.room.wait())] if coming and len(pending) < most else []
                await asyncio.wait((*awaited, *more), return_when=asyncio.FIRST_COMPLETED)
                for opened in more:
                    opened.cancel()
    finally:
        for task in pending:
            task.cancel()
        await maker.close()


async def _play_shard(maker: BlueprintSynthesiser, blueprints: range, limiter: BlueprintLimiter) -> Shard:
    async def play_blueprint(index: int) -> BlueprintResult:
        async with limiter:
            return await maker.synthesise_blueprint(index)

    made = await asyncio.gather(*map(play_blueprint, blueprints))
    lines = [part.stats for part in made]
    dropped = sum((part.dropped for part in made), Counter())
    stats = {"blueprints": lines, "dropped": dict(sorted(dropped.items())), "transport": maker.take_transport_counts()}
    return Shard(blueprints, "".join(rows_to_json_lines(row for part in made for row in part.rows)), stats)


ROOT = Path(__file__).parents[2]  # from which workers of a cluster import this code
HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # hosts that mean this machine
ANSWER = 10.0  # seconds in which a cluster must answer
TRIES = 3  # restarts of a worker whose machine fails


def synthesise_on_ray(
    config: SynthesisConfig, todo: Sequence[range], address: str, workers: int | None = None
) -> Iterator[Shard]:
    """Yield shards as they are completed; `local` starts a cluster on this machine until the run ends.

    Raises `InputError` if Ray is missing or does not answer, and the worker's own error if a worker fails.
    """
    ray = _connect_ray(address, workers, {settings.key for settings in config.model_endpoints.values()})
    try:
        from ray.exceptions import RayTaskError

        count = workers or int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(num_cpus=1, num_returns="streaming", max_retries=TRIES)(synthesise_shards)
        streams = [task.remote(config, part, at_once) for part, at_once in assign_shards(config, todo, count)]
        while streams:
            (stream,), _ = ray.wait(streams, num_returns=1, fetch_local=False)
            try:
                yield ray.get(next(stream))
            except StopIteration:
                streams.remove(stream)
            except RayTaskError as error:
                raise error.cause from None
    finally:
        ray.shutdown()


def check_ray_cluster(config: SynthesisConfig, address: str) -> None:
    """Raise `InputError` for what could only fail or hang later on the other machines."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    alone = address in ("local", "auto") or host in HERE
    for part, settings in config.model_endpoints.items():
        if not alone and (settings.serve or any(urlsplit(url).hostname in HERE for url in settings.urls)):
            raise InputError(
                "a model on this machine alone cannot be asked from the others",
                f"synth.{part}",
                "serve it where all of them reach it (homerl serve-user), and give its `url`",
            )
    if not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER).close()
    except OSError as error:
        raise _no_answer(address, error) from None


def _no_answer(address: str, error: Exception) -> InputError:
    return InputError(f"no Ray cluster answers at {address}: {error}", "--ray", "`ray start --head` prints one")


def _connect_ray(address: str, workers: int | None, keys: Iterable[str]) -> Any:
    """The package ray, connected; workers import this code as installed, or from the source tree."""
    try:
        import ray
    except ImportError:
        raise InputError("the package ray is not installed", "--ray", "pip install 'homerl[ray]'") from None
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    here = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    keys = {name: os.environ[name] for name in keys if name in os.environ}  # in the cluster's memory, written to no file
    variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | plugin_folder_variables() | keys
    settings = {"runtime_env": {"env_vars": variables}, "log_to_driver": False}
    try:
        ray.init(address=address, **settings, **here)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_answer(address, error) from None
    return ray


Progress = Callable[[int, int], None]
Describe = Callable[[Path, SynthesisConfig, dict[str, Any]], None]
GRACE = 10.0  # seconds that a worker gets to end


def synthesise_dataset(
    config: SynthesisConfig,
    out: Path,
    processes: int | None,
    progress: Progress,
    ray: str | None = None,
    describe: Describe = lambda out, config, stats: None,
) -> Path:
    """Fill `out` with `trajectories.jsonl`, `blueprints.jsonl`, `endpoints.json` and `stats.json`; return the first path.

    `processes` is the number of workers, by default one for each core of this machine, or of the Ray cluster at the
    address `ray`; 0 works in this process. Complete shards of an earlier run are kept. `describe` may write further
    files. Raises `InputError` if a server does not answer for a whole shard.
    """
    shards = [range(i, min(i + config.shard, config.blueprints)) for i in range(0, config.blueprints, config.shard)]
    folder = out / "shards" / config.digest
    todo = [shard for shard in shards if not _is_complete(folder, shard)]
    done = len(shards) - len(todo)
    progress(done, len(shards))
    if todo and ray is not None:
        check_ray_cluster(config, ray)
    with ExitStack() as servers:
        asked = _serve_models(config, out, servers) if todo else config
        for shard in _play_in_workers(asked, todo, processes, ray) if todo else ():
            write_shard(folder, shard)
            done += 1
            progress(done, len(shards))
    return join_shards(config, folder, shards, out, describe)


def join_shards(config: SynthesisConfig, folder: Path, shards: Sequence[range], out: Path, describe: Describe) -> Path:
    """Join the shards in `folder`, sum up their statistics, and let `describe` write further files.

    `stats.json` is written last, so a folder that has one is whole.
    """
    path = out / "trajectories.jsonl"
    write_atomic(path, (_lines_path(folder, shard).read_bytes() for shard in shards))
    lines = (line for stats in _read_stats(folder, shards) for line in stats["blueprints"])
    write_atomic(out / "blueprints.jsonl", (json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    report = SynthesisStatistics(config)
    for stats in _read_stats(folder, shards):
        report.add_shard_stats(stats)
    report.read_dataset(path)
    write_atomic(out / "endpoints.json", json.dumps(report.transport, indent=1) + "\n")
    stats = report.summarise_synthesis()
    describe(out, config, stats)
    write_atomic(out / "stats.json", json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    return path


def make_shard(config: SynthesisConfig, blueprints: range, folder: Path) -> None:
    """Synthesise one range of blueprints in this process, and write the shard to `folder`."""
    for shard in synthesise_shards(config, [blueprints], config.in_flight):
        write_shard(folder, shard)


def write_shard(folder: Path, shard: Shard) -> None:
    """Write a shard's lines, then its statistics, whose file marks the shard as complete."""
    write_atomic(_lines_path(folder, shard.blueprints), shard.lines)
    write_atomic(_stats_path(folder, shard.blueprints), json.dumps(shard.stats))


def _serve_models(config: SynthesisConfig, out: Path, servers: ExitStack) -> SynthesisConfig:
    """The recipe with the address of every model; models that it serves run until `servers` closes."""
    from homerl.models.endpoint.vllm_server import serve_endpoint
    from homerl.worlds.users import refuse_missing_key

    found = {}
    for part, settings in config.model_endpoints.items():
        refuse_missing_key(settings)
        found[part] = servers.enter_context(serve_endpoint(settings, out / f"{part}_server.log"))
    return config.model_copy(update=found)


def _play_in_workers(
    config: SynthesisConfig, todo: Sequence[range], processes: int | None, ray: str | None
) -> Iterator[Shard]:
    """Yield shards as they are completed; the workers share the shards, and the concurrent blueprints, equally."""
    try:
        if ray is not None:
            yield from synthesise_on_ray(config, todo, ray, processes)
        elif processes == 0:
            yield from synthesise_shards(config, todo, config.in_flight, ordered=False)
        else:
            yield from synthesise_in_processes(config, assign_shards(config, todo, processes or os.cpu_count() or 1))
    except InfraError as error:
        raise InputError(
            f"no model answers, for one blueprint after another: {error}",
            "synth",
            "see to the server and start the same command again: it goes on from here",
        ) from None


def synthesise_in_processes(config: SynthesisConfig, parts: Sequence[tuple[Sequence[range], int]]) -> Iterator[Shard]:
    """Yield the shards of worker processes on this machine; `parts` holds (shards, concurrent blueprints) of each."""
    context = get_context("spawn")
    running: dict[Any, BaseProcess] = {}
    for todo, at_once in parts:
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_work_in_process, args=(writer, config, todo, at_once, os.getpid()), daemon=True)
        with children_ignore_interrupt():
            process.start()
        writer.close()  # the reader then sees the end of a worker that dies
        running[reader] = process
    try:
        while running:
            for ready in connection.wait(list(running)):
                reader = cast(connection.Connection, ready)
                try:
                    found: Shard | Exception | None = reader.recv()
                except (EOFError, ConnectionResetError):
                    raise RuntimeError("a worker was killed; start the same command again to go on") from None
                if isinstance(found, Exception):
                    raise found
                if found is None:  # its end
                    _await_end(running.pop(reader))
                else:
                    yield found
    finally:
        for worker in running.values():
            worker.terminate()
        for worker in running.values():
            _await_end(worker)


def _await_end(process: Any) -> None:
    """Wait for a worker to end, and kill it after `GRACE` seconds."""
    process.join(GRACE)
    if process.is_alive():
        process.kill()
        process.join()


def _work_in_process(writer: Any, config: SynthesisConfig, todo: Sequence[range], at_once: int, parent: int) -> None:
    """The main function of a worker process."""
    die_with_process(parent)
    try:
        for shard in synthesise_shards(config, todo, at_once, ordered=False):
            writer.send(shard)
        writer.send(None)
    except BrokenPipeError:
        return  # whoever reads this was ended, as by SIGTERM
    except (InputError, InfraError) as error:
        writer.send(error)
    except Exception:
        writer.send(RuntimeError(f"a worker failed:\n{traceback.format_exc()}"))


def _read_stats(folder: Path, shards: Sequence[range]) -> Iterator[dict[str, Any]]:
    """The statistics of the shards, one at a time."""
    return (read_json(_stats_path(folder, shard)).data for shard in shards)


def _is_complete(folder: Path, shard: range) -> bool:
    """Whether a shard is complete, and servers failed for none of its blueprints."""
    path = _stats_path(folder, shard)
    if not path.exists():
        return False
    return all(line["outcome"] != Outcome.INFRA_ERROR for line in read_json(path).data["blueprints"])


def _lines_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:07d}.jsonl"


def _stats_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:07d}.stats.json"


SUMS = (  # figures of a blueprint (`TreeStats`) that are added up
    "rollouts", "successes", "first", "recovered", "grounded", "nodes", "merged", "steps_run", "steps_linear", "calls",
    "calls_linear", "sampled", "tokens", "tokens_linear",
)  # fmt: skip
BINS = 10  # of the difficulty, from 0 to 1
UNFILTERED = ("tasks: ", "candidates: ", "paraphrase: ")  # counts that are not drops of a filter


def count_filter_drops(dropped: Mapping[str, int]) -> dict[str, int]:
    """How many blueprints each filter dropped, of all that was counted on the way."""
    return {reason: count for reason, count in dropped.items() if not reason.startswith(UNFILTERED)}


class SynthesisStatistics:
    """Sums up shards, then the trajectories."""

    def __init__(self, config: SynthesisConfig = SynthesisConfig()) -> None:
        self.config = config
        self.total: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.user_errors: Counter[str] = Counter()
        self.transport: Counter[str] = Counter()
        self.difficulty = [0] * BINS
        self.kept = 0
        self.said = TextDiversity(random.Random("utterances"))
        self.done = TextDiversity(random.Random("deeds"))

    def add_shard_stats(self, stats: Mapping[str, Any]) -> None:
        """Add the statistics of one shard."""
        for line in stats["blueprints"]:
            self.outcomes[line["outcome"]] += 1
            self.total.update({key: line[key] for key in SUMS})
            self.user_errors.update(line["user_errors"])
            if line["rollouts"]:
                self.difficulty[min(BINS - 1, int(BINS * line["difficulty"] + 1e-9))] += 1
        self.dropped.update(stats["dropped"])
        self.transport.update(stats.get("transport", {}))

    def read_dataset(self, path: Path) -> None:
        """Read the dataset row by row, for the diversity of utterances and of code."""
        for row in read_rows(path):
            self.kept += 1
            for message in row["messages"]:
                if message["role"] == "user":
                    self.said.add_text(message["content"].lower())
                for call in message["tool_calls"]:
                    self.done.add_text(tool_call_text(call))

    def summarise_synthesis(self) -> dict[str, Any]:
        """All figures. Shares of blueprints exclude those lost to servers, and seeds that gave no blueprint."""
        total, count = self.total, self.outcomes.total()
        judged = count - sum(self.outcomes[outcome] for outcome in (Outcome.INFRA_ERROR, REFUSED, NO_BLUEPRINT))
        sums = {key: total[key] for key in SUMS}
        return {
            "strategy": self.config.strategy,
            "blueprints": count,
            "outcomes": dict(sorted(self.outcomes.items())),
            "generation_success": self.outcomes[Outcome.SUCCESS] / max(1, judged),
            "grounded_share": total["grounded"] / max(1, total["successes"]),
            "rollout_success": total["successes"] / max(1, total["rollouts"]),
            **sums,
            "steps_saved": 1 - total["steps_run"] / max(1, total["steps_linear"]),
            "tokens_saved": 1 - total["tokens"] / max(1, total["tokens_linear"]) if total["tokens_linear"] else 0.0,
            "trajectories": self.kept,
            "trajectories_per_blueprint": total["successes"] / max(1, judged),
            "tokens_per_blueprint": total["tokens"] / max(1, judged),
            "tokens_per_trajectory": total["tokens"] / max(1, total["successes"]),
            "calls_per_trajectory": total["calls"] / max(1, total["successes"]),
            "difficulty": self.difficulty,
            "diversity": {"utterances": self.said.diversity_figures(), "deeds": self.done.diversity_figures()},
            "user_errors": dict(sorted(self.user_errors.items())),
            "dropped": dict(sorted(self.dropped.items())),
            "drop_rates": self.drop_rates(count),
        }

    def drop_rates(self, blueprints: int) -> dict[str, float]:
        """Dropped drafts as a share of written drafts, by filter and reason; candidates and tasks are counted apart.

        A scripted author does not count what it writes. Its number of written drafts is the dropped ones plus the
        blueprints.
        """
        lost = dict(sorted(count_filter_drops(self.dropped).items()))
        tasks = self.dropped["tasks: written"] or blueprints + sum(lost.values())
        candidates = self.dropped["candidates: written"]
        return {key: count / (candidates if key.startswith("candidate:") else tasks) for key, count in lost.items()}


def tool_call_text(call: Mapping[str, Any]) -> str:
    """A tool call as text: the code if it has an argument `code`, else the tool's name and its arguments."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        return str(json.loads(arguments)["code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{name} {arguments}"
