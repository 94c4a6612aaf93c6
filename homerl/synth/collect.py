"""Synthesis over processes or a Ray cluster: blueprints in, verified trajectories out; resumable.

Invariants:
- Only this process writes shards, atomically, in a folder of the recipe's digest.
- A complete shard is never rewritten, except if servers failed in it.
- The dataset is the shards in order, so its bytes depend neither on the number of workers nor on where a run was killed.
- Workers end with the run.
- Memory holds tens of shards.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, read_json, write_atomic
from homerl.host.processes.interrupts import children_ignore_interrupt
from homerl.host.processes.lifetime import die_with_process
from homerl.play.faults import InfraError
from homerl.play.trajectory import Outcome
from homerl.synth import cluster
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.report import SynthesisStatistics
from homerl.synth.work import Shard, assign_shards, synthesise_shards

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
    todo = [shard for shard in shards if not _stands(folder, shard)]
    done = len(shards) - len(todo)
    progress(done, len(shards))
    if todo and ray is not None:
        cluster.check_ray_cluster(config, ray)
    with ExitStack() as servers:
        asked = _reachable(config, out, servers) if todo else config
        for shard in _workers(asked, todo, processes, ray):
            write_shard(folder, shard)
            done += 1
            progress(done, len(shards))
    return _assemble(config, folder, shards, out, describe)


def make_shard(config: SynthesisConfig, blueprints: range, folder: Path) -> None:
    """Synthesise one range of blueprints in this process, and write the shard to `folder`."""
    for shard in synthesise_shards(config, [blueprints], config.in_flight):
        write_shard(folder, shard)


def write_shard(folder: Path, shard: Shard) -> None:
    """Write a shard's lines, then its statistics, whose file marks the shard as complete."""
    write_atomic(_lines_path(folder, shard.blueprints), shard.lines)
    write_atomic(_stats_path(folder, shard.blueprints), json.dumps(shard.stats))


def _reachable(config: SynthesisConfig, out: Path, servers: ExitStack) -> SynthesisConfig:
    """The recipe with the address of every model; models that it serves run until `servers` closes."""
    from homerl.models.endpoint.serve import serve_endpoint
    from homerl.worlds.users.make import refuse_missing_key

    found = {}
    for part, settings in config.model_endpoints.items():
        refuse_missing_key(settings)
        urls, model = servers.enter_context(serve_endpoint(settings, out / f"{part}_server.log"))
        found[part] = settings.model_copy(update={"url": tuple(urls), "model": model, "serve": None})
    return config.model_copy(update=found)


def _workers(config: SynthesisConfig, todo: Sequence[range], processes: int | None, ray: str | None) -> Iterator[Shard]:
    """Yield shards as they are completed; the workers share the shards, and the concurrent blueprints, equally."""
    if not todo:
        return
    try:
        if ray is not None:
            yield from cluster.synthesise_on_ray(config, todo, ray, processes)
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
        process = context.Process(target=_serve, args=(writer, config, todo, at_once, os.getpid()), daemon=True)
        with children_ignore_interrupt():
            process.start()
        writer.close()  # the reader then sees the end of a worker that dies
        running[reader] = process
    try:
        while running:
            for ready in connection.wait(list(running)):
                if (found := _received(ready)) is None:
                    _ended(running.pop(ready))
                else:
                    yield found
    finally:
        for worker in running.values():
            worker.terminate()
        for worker in running.values():
            _ended(worker)


def _ended(process: Any) -> None:
    """Wait for a worker to end, and kill it after `GRACE` seconds."""
    process.join(GRACE)
    if process.is_alive():
        process.kill()
        process.join()


def _received(reader: Any) -> Shard | None:
    """What a worker sent: a shard, or None at its end; an error that it sent is raised."""
    try:
        found = reader.recv()
    except (EOFError, ConnectionResetError):
        raise RuntimeError("a worker was killed; start the same command again to go on") from None
    if isinstance(found, Exception):
        raise found
    shard: Shard | None = found
    return shard


def _serve(writer: Any, config: SynthesisConfig, todo: Sequence[range], at_once: int, parent: int) -> None:
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


def _assemble(config: SynthesisConfig, folder: Path, shards: Sequence[range], out: Path, describe: Describe) -> Path:
    """Join the shards, sum up their statistics, and let `describe` write further files; write `stats.json` last."""
    path = out / "trajectories.jsonl"
    write_atomic(path, (chunk for shard in shards for chunk in _chunks(_lines_path(folder, shard))))
    lines = (line for stats in _all(folder, shards) for line in stats["blueprints"])
    write_atomic(out / "blueprints.jsonl", (json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    report = SynthesisStatistics(config)
    for stats in _all(folder, shards):
        report.add_shard_stats(stats)
    report.read_dataset(path)
    write_atomic(out / "endpoints.json", json.dumps(report.transport, indent=1) + "\n")
    stats = report.summarise_synthesis()
    describe(out, config, stats)
    write_atomic(out / "stats.json", json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    return path


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _all(folder: Path, shards: Sequence[range]) -> Iterator[dict[str, Any]]:
    """The statistics of the shards, one at a time."""
    return (read_json(_stats_path(folder, shard)).data for shard in shards)


def _stands(folder: Path, shard: range) -> bool:
    """Whether a shard is complete, and servers failed for none of its blueprints."""
    path = _stats_path(folder, shard)
    if not path.exists():
        return False
    return all(line["outcome"] != Outcome.INFRA_ERROR for line in read_json(path).data["blueprints"])


def _lines_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:07d}.jsonl"


def _stats_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:07d}.stats.json"
