"""The stages of runs: the processes of a flywheel's stages, synthesis, and benchmarks of recipes.

Invariants:
- A stage runs from its own recipe, which lies in its folder.
- Ctrl-C reaches the flywheel alone, which says so. No stage outlives the flywheel.
- A stage that fails ends the flywheel with the stage's exit code.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from homerl.app.runs.recipe import recipe_data
from homerl.app.runs.run_folder import describe_environment
from homerl.app.served.model_agents import load_engine
from homerl.bench.recipe import BenchRecipe, SuiteSettings
from homerl.bench.runner import WAVE, EpisodePace, HeldoutSuite, ParticipantFactories, SuiteInstances, run_suite
from homerl.bench.stored_scores import PlayerRecord, claim_results, model_file_stamps
from homerl.envs.core.documents import read_json, write_atomic
from homerl.host.exit_codes import TOLD, RunStopped, read_exit_code
from homerl.host.processes import PARENT
from homerl.host.progress_bar import progress_bar, progress_updater
from homerl.host.terminal import count_with_noun, say
from homerl.play.episode import EpisodeLimits
from homerl.play.trajectory import Outcome, read_rows
from homerl.report.cards.dataset_card import write_dataset_description
from homerl.synth.blueprint_synthesis import NO_BLUEPRINT
from homerl.synth.recipe import SynthRecipe
from homerl.synth.shards import count_filter_drops, synthesise_dataset
from homerl.train.model_settings import ModelSettings

PLAYED, TOLD_EVERY = "journal/played", 0.5  # a file of a benchmark, written at most once in so many seconds
GRACE = 10.0  # seconds that an interrupted benchmark gets to write what it played


def stage_recipe_path(stage: dict[str, Any]) -> Path:
    """The path of a stage's own recipe. A model's benchmark shares the folder of the model."""
    return Path(stage["out"]) / f"{stage['run']}.yaml"


def run_stage(stage: dict[str, Any], command: list[str]) -> None:
    """Run a stage to its end, with its output in the terminal. Raises `StageFailed` if it fails."""
    with start_stage_process(stage, command) as child:
        child.process.wait()
    child.raise_if_failed()


@dataclass(frozen=True)
class StageProcess:
    """The process of a stage, whose recipe is at `path`. Its output goes to the terminal or to `log`."""

    path: Path
    process: subprocess.Popen[bytes]
    log: Path | None

    @property
    def is_process_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def raise_if_failed(self) -> None:
        """Raise `StageFailed` if the process failed."""
        if code := read_exit_code(exit_code_path(self.path), self.process.returncode):
            ended = f"{self.path}: stage {self.path.parent.name} ended with code {code}"
            remedy = f"see {self.log or 'its message above'}; the same command goes on from here"
            raise StageFailed(f"{ended}\n{remedy}", max(code, 1))


class StageFailed(RunStopped):
    """A stage failed. The exit code is the stage's; 1 if a signal ended it."""


def exit_code_path(recipe: Path) -> Path:
    """The file into which a stage writes its exit code, which torchrun does not pass on."""
    return recipe.with_suffix(".exit_code")


@contextmanager
def start_stage_process(stage: dict[str, Any], command: list[str], log: Path | None = None) -> Iterator[StageProcess]:
    """Write the stage's recipe and start it. It ends with the block, whatever ends that."""
    path = stage_recipe_path(stage)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "homerl: 1\n" + yaml.safe_dump({k: v for k, v in stage.items() if k != "homerl"}, sort_keys=False))
    # What a launcher told the flywheel is not for its stages, which have launchers of their own.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "RANK", "WORLD_", "LOCAL_", "MASTER_"))}
    environment = {"OMP_NUM_THREADS": "1"} | clean | {PARENT: str(os.getpid()), TOLD: str(exit_code_path(path))}
    exit_code_path(path).unlink(missing_ok=True)  # of a flywheel that was killed
    with log.open("w") if log else nullcontext() as words:
        output: Any = {"stdout": words, "stderr": words}
        process = subprocess.Popen([*command, str(path)], env=environment, start_new_session=True, **output)
    child = StageProcess(path, process, log)
    try:
        yield child
    finally:
        # A benchmark, which has a log, gets the time to write what it played.
        if child.is_process_running and child.log:
            child.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(GRACE)
        if child.is_process_running:
            child.process.kill()
            child.process.wait()


def run_synth(recipe: SynthRecipe) -> None:
    """Synthesise with a progress bar. Finished shards are kept."""
    with progress_bar() as bar:
        task = bar.add_task("synth", total=None, note=recipe.synth.strategy)

        def progress(done: int, total: int) -> None:
            if bar.tasks[task].total is None and 0 < done < total:
                say(f"kept from an earlier start: {done} of {count_with_noun(total, 'shard')}")
            bar.update(task, completed=done, total=total)

        synthesise_dataset(recipe.synth, recipe.out, recipe.processes, progress, recipe.ray, write_dataset_description)
    stats = read_json(recipe.out / "stats.json").data
    if not stats["trajectories"]:
        raise RunStopped(why_nothing_synthesised(stats, recipe.out), code=4)
    for line in synthesis_summary_lines(stats, recipe.out):
        say(line)


def why_nothing_synthesised(stats: Mapping[str, Any], out: Path) -> str:
    """The most frequent reason that blueprints gave no trajectory, and what to do."""
    faults = Counter(row["fault"] for row in read_rows(out / "blueprints.jsonl") if row.get("fault"))
    drops = count_filter_drops(stats["dropped"]) if NO_BLUEPRINT in stats["outcomes"] else {}
    dropped = [f"dropped: {reason}" for reason in sorted(drops, key=lambda reason: drops[reason])]
    outcomes = ", ".join(name.replace("_", " ") for name in stats["outcomes"])
    reason = faults.most_common(1)[0][0] if faults else (dropped[-1] if dropped else outcomes)
    tried = f"so {sum(stats['outcomes'].values()):,} blueprints gave no trajectory ({outcomes})"
    return f"{reason}: {tried}\nsee to the models that the recipe names; what was tried stands in {out / 'blueprints.jsonl'}"


def synthesis_summary_lines(stats: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield what became of the blueprints, and what to do if servers failed."""
    outcomes = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in stats["outcomes"].items())
    made = count_with_noun(stats["trajectories"], "trajectory")
    of = count_with_noun(sum(stats["outcomes"].values()), "blueprint")
    yield f"{made} of {of} ({outcomes}): {out}"
    if lost := stats["outcomes"].get(Outcome.INFRA_ERROR):
        yield f"servers failed for {lost:,} of them for good: see to the servers, and the same command makes these again"


def run_bench(recipe: BenchRecipe) -> dict[str, Any]:
    """Play every suite of the recipe; write results to `out/bench/<suite>` and return the scores."""
    name = recipe.model.name if recipe.model else None
    players = _make_model_players(recipe, recipe.model, name) if recipe.model and name else _make_baseline_players(recipe)
    beside = recipe.out / "model"
    own = name is not None and Path(name).is_dir() and beside.is_dir() and beside.samefile(name)
    files = tuple(model_file_stamps(name)) if name else ()
    note = Path(name).parent.name if name else str(recipe.agent)
    scores, made = {}, describe_environment(recipe)
    for suite in recipe.bench.suites:
        factories, pace = players(suite)
        episodes, folder = suite_episodes(suite, recipe.bench.limits), recipe.out / "bench" / suite.name
        player = PlayerRecord(recipe=recipe_data(recipe), own=own, files=files, episodes=len(episodes), made=made)
        claim_results(folder, player)
        with progress_bar() as bar:
            task = bar.add_task(f"bench {suite.name}", total=suite.count, note=note)
            progress = _tell_flywheel(folder, progress_updater(bar, task))
            scores[suite.name] = run_suite(episodes, factories, folder, pace, progress)
    return scores


def _tell_flywheel(folder: Path, show: Callable[[float, int], None]) -> Callable[[float, int], None]:
    """A function that shows how much is done, and keeps it in a file of the benchmark, from which a flywheel shows it."""
    written = -math.inf

    def progress(done: float, total: int) -> None:
        nonlocal written
        show(done, total)
        if done == total or time.monotonic() - written > TOLD_EVERY:
            write_atomic(folder / PLAYED, f"{done:.2f}\n")
            written = time.monotonic()

    return progress


def count_played_episodes(folder: Path) -> float:
    """How many episodes of a benchmark were played: the lines of its journals, or what its process says is done."""
    lines = sum(file.read_bytes().count(b"\n") for file in folder.glob("journal/*.jsonl"))
    with suppress(OSError, ValueError):  # it has not said so yet
        return max(lines, float((folder / PLAYED).read_text()))
    return lines


Players = Callable[[SuiteSettings], tuple[ParticipantFactories, EpisodePace]]


def _make_model_players(recipe: BenchRecipe, model: ModelSettings, name: str) -> Players:
    """The recipe's model as agent, loaded once."""
    import torch

    from homerl.models.policy.faster_decoding import DialogueCache
    from homerl.models.policy.policy_agent import agent_factory_for

    settings = recipe.bench
    engine = load_engine(model, name, recipe.cpu, settings.max_tokens, settings.temperature, settings.batch)
    engine.held = DialogueCache(2 * max(WAVE, settings.batch), forks=True)  # of all that are in play

    def begin_wave(first: int) -> None:  # as a run that begins with this wave
        torch.manual_seed(recipe.seed + first)
        engine.forget_dialogues()

    agents = agent_factory_for(engine, engine.tokenizer, engine.context_length)
    factories = ParticipantFactories(agents, identity=bench_identity(recipe, model, name))
    pace = EpisodePace(max(WAVE, settings.batch), begin=begin_wave)
    return lambda suite: (factories, pace)


def _make_baseline_players(recipe: BenchRecipe) -> Players:
    """The agent that the recipe names, of each suite's world."""
    agent = str(recipe.agent)
    if (config := recipe.expert) is None:
        return lambda suite: (ParticipantFactories(suite.world.baselines[agent], identity=agent), EpisodePace())
    who = f"{agent} {config.model_dump_json()} {recipe.seed}"
    return lambda suite: (ParticipantFactories(lambda: suite.world.expert(config, recipe.seed), identity=who), EpisodePace())


def suite_episodes(suite: SuiteSettings, limits: EpisodeLimits) -> HeldoutSuite | SuiteInstances:
    """The episodes of a suite: held-out blueprints by seed, or the instances of a benchmark with their own limits."""
    if suite.benchmark is None:
        return HeldoutSuite(suite, limits)
    from homerl.bench.suites import read_suite, resolve_setting, resolve_suite, spread_evenly

    instances, benchmark = read_suite(suite.benchmark), resolve_suite(suite.benchmark)[1]
    played = benchmark.easier_half(instances) if suite.easier_half else instances
    chosen, setting = spread_evenly(played or (), suite.count), resolve_setting(benchmark, suite.setting)
    return SuiteInstances(chosen, setting, 1, suite.user.behaviours)


def bench_identity(recipe: BenchRecipe, model: ModelSettings, name: str) -> str:
    """A text of what results depend on besides suite and limits: the model, the state of its files, and its sampling."""
    stamps = model_file_stamps(name)
    sampling = recipe.bench.model_dump(mode="json", include={"temperature", "max_tokens"})
    told = model.model_dump(mode="json", exclude={"name"} if stamps else None)  # a folder may be moved
    return json.dumps([told, stamps, sampling, recipe.seed])
