"""The credit study's model half: its tasks are sound, and it runs end to end, in the real trainer, at the smallest size."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envs.documents import InputError
from homerl.play.loop import play
from homerl.play.scripted_user import ScriptedUser
from homerl.play.trajectory import Outcome, write_rows
from homerl.train.recipe import BlueprintSource
from homerl.worlds.homeenv.blueprints.filters import first_failure
from homerl.worlds.registry import begin, make_blueprint

ROOT = Path(__file__).resolve().parents[2]


def load(name: str):
    path = ROOT / "tests" / "benchmarks" / "credit" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"credit_study_{name}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tasks = load("tasks")


def test_chance_gets_a_quarter_of_the_eight_right():
    found = [played(tasks.EIGHT, seed) for seed in range(40)]
    assert 0.18 < sum(trajectory.progress for trajectory in found) / len(found) < 0.32


def test_of_the_steps_of_rare_a_quarter_is_right():
    steps = [step for seed in range(60) for step in played(tasks.RARE, seed).steps if step.facts.calls]
    assert 0.17 < sum(step.facts.progress_after > step.facts.progress_before for step in steps) / len(steps) < 0.33


def test_varied_slips_as_often_as_long():
    long, varied = ([played(task, seed) for seed in range(60)] for task in (tasks.LONG, tasks.VARIED))
    assert abs(sum(one.success for one in long) - sum(one.success for one in varied)) < 12
    assert abs(sum(len(one.steps) for one in long) - sum(len(one.steps) for one in varied)) < 2 * 60


def played(task, seed: int):
    episode = begin(tasks.make(task.name, "heldout", seed), task.limits)
    return asyncio.run(play(episode, tasks.Demonstrator(task, seed), ScriptedUser(seed), seed))


@pytest.mark.parametrize("task", tasks.TASKS.values(), ids=lambda task: task.name)
def test_blueprints_pass_the_filters_and_can_be_solved(task):
    sure = replace(task, slip=0.0, trifle=0.0)
    for seed in range(8):
        assert first_failure(tasks.make(task.name, "train", seed)) is None
        assert played(sure, seed).outcome is Outcome.SUCCESS


@pytest.mark.parametrize("task", tasks.TASKS.values(), ids=lambda task: task.name)
def test_one_slip_costs_what_the_task_says(task):
    """A dead end where one step decides or misleads; where the way is long, a turn, of which one can be spared."""
    lost = played(replace(task, slip=1.0, trifle=0.0), 3)
    if task is tasks.EIGHT:
        assert lost.outcome is Outcome.STEP_LIMIT and len(lost.steps) == 8 and lost.progress == 0.0 and not lost.clean
        return
    assert lost.outcome in (Outcome.AGENT_FAILURE, Outcome.TURN_LIMIT)
    gains = [step.facts.progress_after - step.facts.progress_before for step in lost.steps]
    if task is tasks.MISLEADING:
        assert gains[0] == pytest.approx(2 / 3) and lost.progress == pytest.approx(2 / 3)
    elif task is tasks.DECISIVE:
        assert lost.progress == 1.0 and not lost.clean
    else:
        assert lost.progress == 0.0 and len(lost.turns()) == task.limits.turns == task.wishes + 1


def test_trifles_are_only_punished():
    task = replace(tasks.DECISIVE, slip=0.0, trifle=1.0)
    found = played(task, 5)
    assert found.success and sum(bool(step.facts.blocked) for step in found.steps) == task.wishes - 1


def test_blueprints_from_a_file(tmp_path):
    file = tmp_path / "own.jsonl"
    every = [tasks.make("long", split, seed) for seed in range(3) for split in ("train", "heldout")]
    write_rows(file, (blueprint.model_dump(mode="json") for blueprint in every))
    recipe = BlueprintSource.model_validate({"recipe": {"file": str(file)}, "count": 3, "first_seed": 0}).recipe
    assert [make_blueprint(recipe, "heldout", seed) for seed in range(3)] == every[1::2]
    assert make_blueprint(recipe, "train", 4) == every[2].model_copy(update={"seed": 4})  # round and round
    write_rows(tmp_path / "none.jsonl", [])
    with pytest.raises(InputError, match="no blueprint belongs to the split 'train'"):
        make_blueprint(recipe.model_copy(update={"file": tmp_path / "none.jsonl"}), "train", 0)


@pytest.mark.long
def test_the_study_runs_and_goes_on(tmp_path):
    command = [sys.executable, ROOT / "scripts/credit_study", "--policy", "model", "--smallest", "--seeds", "1"]
    command += ["--tasks", "misleading", "--credit", "trajectory", "index prefixed", "branch", "counterfactual tokens"]
    command += ["--out", tmp_path]

    def study() -> str:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first, figures = study(), (tmp_path / "curves.json").read_bytes()
    runs = sorted((tmp_path / "runs").glob("*.json"))
    assert len(runs) == 4
    assert "misleading: its first run never succeeds" in first and "--sft-seed" in first, "so short an SFT teaches nothing"
    for run in map(json.loads, map(Path.read_text, runs)):
        assert [spent for spent, _ in run["curve"]] == [0, 8] and len(run["updates"]) == 1
    kept, gone = runs[1:], runs[0]
    before = [run.stat().st_mtime_ns for run in kept]
    gone.unlink()
    assert study().splitlines()[-3:] == first.splitlines()[-3:]
    assert (tmp_path / "curves.json").read_bytes() == figures
    assert [run.stat().st_mtime_ns for run in kept] == before
    assert "<polyline" in (tmp_path / "curves.svg").read_text()
    gone.write_text(json.dumps(json.loads(gone.read_text()) | {"start": "another model's"}))
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0 and "another SFT model" in refused.stderr
