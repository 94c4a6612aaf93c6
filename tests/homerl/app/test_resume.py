"""Kill -9, the same command again: nothing is lost, nothing happens twice, and the end is an unbroken run's."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest
from launches import (
    LAUNCHERS,
    checkpoints,
    descendants,
    figures,
    finish,
    kill,
    kill_at,
    lines,
    same_run,
    start,
    wait_for,
    written,
)

from homerl.bench.recipe import SuiteSettings
from homerl.bench.runner import EpisodePace, HeldoutSuite, ParticipantFactories, run_suite
from homerl.bench.scores import paired_difference
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.play.episode import EpisodeLimits

ROOT = Path(__file__).parents[3]
SIZES = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
OPTIM = {"warmup": 0.1, "log_steps": 1}


@pytest.fixture
def sft(dialogues, tmp_path) -> dict[str, Any]:
    """A recipe of 60 updates with a checkpoint every 5."""
    settings = {"learning_rate": 3e-3, "max_steps": 60, "save_steps": 5, "max_length": 1024, "dialogues_per_update": 4}
    return {
        "homerl": 1,
        "run": "sft",
        "cpu": True,
        "out": str(tmp_path / "sft"),
        "data": str(dialogues),
        "model": {"dtype": "float32", "from_scratch": SIZES},
        "wandb": {"mode": "disabled"},
        "sft": OPTIM | settings,
    }


@pytest.fixture
def rlve(model, tokenizer, task, tmp_path) -> dict[str, Any]:
    """A recipe of 8 updates with a checkpoint every 2."""
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    settings = {
        "learning_rate": 1e-3,
        "updates": 8,
        "save_steps": 2,
        "blueprints_per_update": 2,
        "group": 4,
        "max_tokens": 24,
        "max_episode_tokens": 512,
    }
    return {
        "homerl": 1,
        "run": "rlve",
        "cpu": True,
        "out": str(tmp_path / "rlve"),
        "wandb": {"mode": "disabled"},
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"},
        "limits": {"turns": 3, "steps": 4},
        "blueprints": {"recipe": task.model_dump(mode="json"), "count": 6},
        "rlve": OPTIM | settings,
    }


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from homerl.app.runs.launch import main

def kill(out):  # after seven updates, of which five are in a checkpoint
    while not list(out.glob("checkpoints/*/trainer_state.json")) or (out / "metrics.jsonl").read_text().count('"loss"') < 7:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, args=(Path(sys.argv[2]),), daemon=True).start()
sys.exit(main(sys.argv[1], []))
"""


@pytest.mark.parametrize(
    "settings", [pytest.param({}, marks=pytest.mark.long), {"muon": 0.02, "in_order": True}], ids=["adamw", "muon"]
)
def test_sft_killed_and_started_again_is_an_unbroken_run(sft, tmp_path, settings):
    """In processes that begin without training loaded under --all (below)."""
    from homerl.app.runs.recipe import load_recipe
    from homerl.train.update.sft import train_sft

    recipe = sft | {"sft": sft["sft"] | {"max_steps": 16} | settings}
    broken, whole = written(recipe, tmp_path), written(recipe, tmp_path, out=str(tmp_path / "whole"))
    out = tmp_path / "sft"
    done = forked.python(KILLED, broken, out)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert 5 <= checkpoints(out)[-1] < 16 and not (out / "model").exists()
    with (out / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 3, "lo')  # the kill may fall into a line
    (out / "checkpoints/checkpoint-15").mkdir()  # or into a checkpoint
    (out / "checkpoints/checkpoint-15/trainer_state.json").write_text('{"epoch"')
    train_sft(load_recipe(broken))
    train_sft(load_recipe(whole))
    same_run(tmp_path / "whole", out, 16)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_steps": 4},
        pytest.param({"epochs": 0.2, "max_steps": -1}, marks=pytest.mark.long),
        pytest.param({"epochs": 1, "max_steps": -1}, marks=pytest.mark.long),
    ],
)
def test_a_finished_run_started_again_changes_nothing(sft, tmp_path, settings):
    """As after a kill between the last checkpoint and the final model."""
    from homerl.app.runs.recipe import load_recipe
    from homerl.train.update.sft import train_sft

    recipe = load_recipe(written(sft | {"sft": sft["sft"] | settings}, tmp_path))
    seen = []
    for _ in range(2):
        train_sft(recipe)
        seen.append(((recipe.out / "model/model.safetensors").read_bytes(), figures(recipe.out)))
    assert seen[0] == seen[1]
    assert sum("train_runtime" in line for line in (recipe.out / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_sft_in_real_processes(sft, tmp_path, launcher):
    command = LAUNCHERS[launcher]
    broken, whole = written(sft, tmp_path), written(sft, tmp_path, out=str(tmp_path / "whole"))
    kill_at(7, tmp_path / "sft", *command, broken)
    kill_at(33, tmp_path / "sft", *command, broken)
    assert checkpoints(tmp_path / "sft")[-1] % 20, "it goes on in the middle of its second pass over the data"
    finish(*command, broken)
    finish(*command, whole)
    same_run(tmp_path / "whole", tmp_path / "sft", 60)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "settings", [{}, {"credit": "trajectory", "iterations": 2, "save_steps": 1}], ids=["step", "two iterations"]
)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rlve_in_real_processes(rlve, tmp_path, launcher, settings):
    """Six blueprints, two an update: the run goes through them more than twice, and is killed in the second pass."""
    rlve["rlve"] |= settings
    command = LAUNCHERS[launcher]
    broken, whole = written(rlve, tmp_path), written(rlve, tmp_path, out=str(tmp_path / "whole"))
    out = tmp_path / "rlve"
    kill_at(3, out, *command, broken)
    kill_at(6, out, *command, broken)
    finish(*command, broken)
    finish(*command, whole)
    updates = 8 * settings.get("iterations", 1)
    same_run(tmp_path / "whole", out, updates)
    files = sorted(path.name for path in (out / "rollouts").glob("*.jsonl"))
    assert files == sorted(path.name for path in (tmp_path / "whole/rollouts").iterdir()) and len(files) == 8
    for name in files:
        assert (out / "rollouts" / name).read_bytes() == (tmp_path / "whole/rollouts" / name).read_bytes()


CURRICULUM = {"curriculum": {"by": "success", "refill": 2}}


def same_rollouts(unbroken: Path, resumed: Path) -> None:
    names = [sorted(path.name for path in (out / "rollouts").iterdir()) for out in (unbroken, resumed)]
    assert names[0] == names[1] and names[0]
    for name in names[0]:
        assert (resumed / "rollouts" / name).read_bytes() == (unbroken / "rollouts" / name).read_bytes(), name


def test_rlve_broken_off_and_started_again_is_an_unbroken_run(rlve, tmp_path, monkeypatch):
    """In the middle of an update, with a curriculum that has learned and groups that were refilled."""
    from homerl.app.runs.recipe import load_recipe
    from homerl.train.update.rlve import RLVETrainer, train_rlve

    rlve["rlve"] |= CURRICULUM | {"updates": 2, "save_steps": 1, "blueprints_per_update": 3}
    broken, whole = (load_recipe(written(rlve, tmp_path, out=str(tmp_path / name))) for name in ("broken", "whole"))
    train_rlve(whole)
    report, left = RLVETrainer._report_rollouts, [1]

    def breaks(self, *args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        report(self, *args)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RLVETrainer, "_report_rollouts", breaks)
        train_rlve(broken)
    assert checkpoints(broken.out)[-1] == 1 and not (broken.out / "model").exists()
    train_rlve(broken)
    same_run(whole.out, broken.out, 2)
    same_rollouts(whole.out, broken.out)
    kept = [json.loads((out / "checkpoints/checkpoint-2/trainer_state.json").read_text()) for out in (whole.out, broken.out)]
    assert kept[0]["stateful_callbacks"] == kept[1]["stateful_callbacks"] and kept[0]["stateful_callbacks"]["SentinelState"]
    shares = [line["curriculum/zero_variance"] for line in lines(whole.out)]
    assert any(shares), "nothing was refilled: the test proves little"


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("ranks", [1, 2])
def test_twenty_kills_at_random_moments(rlve, tmp_path, ranks):
    """Every process at once, as when a machine goes down: the end is an unbroken run's, and nothing is played twice that
    the unbroken run does not play twice."""
    rlve["rlve"] |= CURRICULUM | {"updates": 60, "save_steps": 1}
    rlve["blueprints"] |= {"count": 80}
    command = LAUNCHERS["two ranks"] if ranks == 2 else [sys.executable]
    broken, whole = written(rlve, tmp_path), written(rlve, tmp_path, out=str(tmp_path / "whole"))
    began = time.monotonic()
    finish(*command, whole)
    seconds, rng, kills = time.monotonic() - began, random.Random(ranks), 0
    out = tmp_path / "rlve"
    while kills < 20:
        process = start(*command, broken)
        seen = len(lines(out))
        with contextlib.suppress(subprocess.TimeoutExpired):  # somewhere between its start and two updates on
            if rng.random() < 0.7:
                wait_for(lambda: len(lines(out)) > seen, process)  # noqa: B023
            process.wait(rng.uniform(0, seconds / 40))  # a machine may be twice as fast as it was
        assert process.poll() is None and not (out / "model").exists(), "it was over before it was killed twenty times"
        kill(process)
        kills += 1
    finish(*command, broken)
    same_run(tmp_path / "whole", out, 60)
    same_rollouts(tmp_path / "whole", out)


# Benchmarks


def play_suite(out: Path, count: int, begun: list[int], steps: int = 12, identity: str = "a") -> dict[str, Any]:
    suite = SuiteSettings(count=count, recipe=BlueprintRecipe(intents=(1, 1)))
    factories = ParticipantFactories(lambda: Expert(mistakes=0.6), identity=identity)
    return run_suite(
        HeldoutSuite(suite, EpisodeLimits(steps=steps)), factories, out, EpisodePace(at_once=3, begin=begun.append)
    )


def test_a_benchmark_goes_on_where_it_was_killed(tmp_path):
    begun: list[int] = []
    first = play_suite(tmp_path, 8, begun)
    assert begun == [0, 3, 6] and first["n"] == 8
    (journal,) = (tmp_path / "journal").iterdir()
    journal.write_bytes(journal.read_bytes()[:-100])
    assert play_suite(tmp_path, 8, begun) == first and begun[3:] == [6], "a torn line is no line"


def test_a_benchmark_takes_no_result_of_another_one(tmp_path):
    begun: list[int] = []
    assert play_suite(tmp_path, 4, begun)["n"] == 4 and begun == [0, 3]
    assert play_suite(tmp_path, 6, begun)["n"] == 6 and begun[2:] == [3], "what was played stands"
    assert play_suite(tmp_path, 6, begun, steps=1)["outcomes"].get("step_limit")
    play_suite(tmp_path, 6, begun, identity="another model")
    assert begun[3:] == [0, 3, 0, 3]
    assert play_suite(tmp_path, 4, begun)["n"] == 4 and len(begun) == 7


def test_only_outcomes_that_count_are_compared():
    def row(name: str, success: bool, outcome: str = "agent_failure") -> dict[str, Any]:
        return {"id": name, "success": success, "outcome": "success" if success else outcome}

    before = [row("a", False), row("b", True), row("c", False, "infra_error")]
    after = [row("a", True), row("b", False, "user_error"), row("c", True)]
    found = paired_difference(before, after)
    assert (found["n"], found["gain"]) == (1, 1.0) and found["interval"][0] < 0, "one task says little"
    with pytest.raises(InputError, match="share no instance"):
        paired_difference(before[2:], after)


# The flywheel

OVERRIDES = [
    "--sft.max_steps",
    "80",
    "--sft.save_steps",
    "5",
    "--rlve.updates",
    "6",
    "--synth.blueprints",
    "120",
    "--synth.shard",
    "5",
    "--wandb.mode",
    "disabled",
]
MIDDLES: dict[str, Callable[[Path], bool]] = {
    "synth": lambda out: len(list(out.glob("synth/shards/*/*.stats.json"))) >= 3,
    "sft": lambda out: len(lines(out / "sft")) >= 12,
    "rlve": lambda out: len(lines(out / "rlve")) >= 2,
    "the first benchmark": lambda out: (out / "untrained/bench.yaml").exists(),
    "between benchmarks": lambda out: (out / "untrained/bench/heldout/score.json").exists(),
}
PRODUCTS = (
    "synth/trajectories.jsonl",
    "synth/blueprints.jsonl",
    "synth/stats.json",
    *(
        f"{model}/bench/heldout/{name}"
        for model in ("untrained", "sft", "rlve")
        for name in ("score.json", "results.jsonl", "trajectories.jsonl")
    ),
)


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_flywheel_killed_in_every_stage_ends_as_an_unbroken_one(tmp_path):
    """Only the flywheel itself is killed: what it started ends by itself, or the next start would meet it."""
    recipe = ROOT / "recipes/smoke.yaml"

    def begin(out: Path) -> subprocess.Popen:
        with (tmp_path / "log.txt").open("a") as log:
            return subprocess.Popen(
                [sys.executable, str(recipe), "--out", str(out), *OVERRIDES],
                cwd=tmp_path,
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for in_the_middle in MIDDLES.values():
        process = begin(broken)
        wait_for(lambda: in_the_middle(broken), process)  # noqa: B023
        below = list(descendants(process.pid))
        assert below
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any(map(alive, below)):
            assert time.monotonic() < deadline, "a stage outlived its flywheel"
            time.sleep(0.05)
    for out in (broken, whole):
        assert begin(out).wait(600) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    for product in PRODUCTS:
        assert (broken / product).read_bytes() == (whole / product).read_bytes(), product
    same_run(whole / "sft", broken / "sft", 80)
    same_run(whole / "rlve", broken / "rlve", 6)
    assert not list(broken.rglob("*.making"))
