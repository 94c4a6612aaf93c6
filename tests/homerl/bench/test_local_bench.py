"""A benchmark of a model that this process loads: what it cannot take is refused, and what it played is kept."""

import asyncio
import json
import shutil
import signal
from pathlib import Path

import forked
import pytest

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.app.runs.stages import run_bench
from homerl.bench.recipe import BenchRecipe
from homerl.bench.runner import NothingScored
from homerl.bench.stored_scores import rescore_run
from homerl.bench.suites import write_suite
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.bench.suite import SUITES, make_home_instance, suite_slots
from homerl.models.policy.policy_agent import GuestAgent, PolicyAgent
from homerl.play.faults import AgentFault
from homerl.play.situation import Observation
from homerl.play.trajectory import read_rows


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory) -> Path:
    """More tasks than a tiny model plays before it is interrupted."""
    path, made = tmp_path_factory.mktemp("suite") / "smh-bench.jsonl", SUITES["smh-bench"]
    tasks = [make_home_instance(made, slot, 7) for slot in list(suite_slots(made))[:5]]
    write_suite((task.model_copy(update={"id": f"{task.id}-{n}"}) for n in range(40) for task in tasks), path)
    return path


@pytest.fixture
def short(tmp_path, tiny) -> Path:
    """A model that takes 64 tokens."""
    folder = shutil.copytree(tiny, tmp_path / "short")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 64}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_prompts_that_a_model_cannot_take_are_refused_before_play(suite_file, tmp_path, short):
    with pytest.raises(InputError, match="the model takes 64 tokens, and the prompts of the tasks have"):
        run_benchmark(BenchRun(str(suite_file), str(short), tmp_path / "out", cpu=True))
    assert not (tmp_path / "out").exists()


def test_a_recipes_benchmark_says_what_the_model_cannot_take(tmp_path, short, task):
    suite = {"name": "own", "count": 4, "recipe": task.model_dump(mode="json")}
    recipe = {"homerl": 1, "run": "bench", "out": tmp_path / "out", "cpu": True, "wandb": {"mode": "disabled"}}
    recipe |= {"model": {"name": str(short), "dtype": "float32"}, "bench": {"suites": [suite], "max_tokens": 8}}
    with pytest.raises(NothingScored, match="of all 4 tasks, the dialogue is longer than the model takes"):
        run_bench(BenchRecipe.model_validate(recipe))


def test_a_dialogue_that_outgrows_a_model_is_the_agents_failure_and_samples_nothing(tiny, tokenizer):
    for agent in (PolicyAgent(None, tokenizer, longest=4), GuestAgent(None, tokenizer, longest=4)):
        with pytest.raises(AgentFault, match="and the model takes 4"):
            asyncio.run(agent.propose(Observation("live", ({"role": "user", "content": "light please"},), ())))


INTERRUPTED = """
import os, sys, threading, time
from pathlib import Path
from homerl.app.cli import main

def interrupt(out, number):  # once a task is played
    while not any(path.stat().st_size for path in out.glob("journal/*.jsonl")):
        time.sleep(0.05)
    os.kill(os.getpid(), number)

threading.Thread(target=interrupt, args=(Path(sys.argv.pop(1)), int(sys.argv.pop(1))), daemon=True).start()
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_run_keeps_each_task_that_is_played(suite_file, tmp_path, tiny, number):
    out = tmp_path / "out"
    given = ["bench", "run", suite_file, "--model", tiny, "--cpu", "--out", out, "--at-once", 2, "--max-tokens", 32]
    run = forked.python(INTERRUPTED, out, int(number), *given)
    assert run.returncode == 130, run.stderr
    assert "tasks of about 2 messages each: up to" in run.stdout.replace("\n", " ")
    played = len(list(read_rows(out / "results.jsonl")))
    assert run.stderr.startswith(f"homerl: {played} of 200 episodes are played") and len(run.stderr.splitlines()) == 2
    assert 0 < played < 200 and "the same results" in rescore_run(out)
