"""Synthesis: the bytes depend on the recipe alone, not on processes, kills or order; workers end with their run."""

import asyncio
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from homerl.app.runs.stages import why_nothing_synthesised
from homerl.envs.core.world import WorldError
from homerl.play.faults import AgentFault
from homerl.play.trajectory import Outcome, read_rows, trajectory_from_row
from homerl.report.pages.flywheel_report import list_synthesis_drops
from homerl.synth.blueprint_synthesis import BlueprintSynthesiser
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import _work_in_process, assign_shards, make_shard, synthesise_dataset
from homerl.worlds.contract import ExpertConfig

ROOT = Path(__file__).parents[3]
CONFIG = SynthesisConfig(blueprints=16, shard=2, expert=ExpertConfig(mistakes=0.4))
COMMAND = (
    "import sys\nfrom pathlib import Path\nfrom homerl.synth.shards import SynthesisConfig, synthesise_dataset\n"
    "if __name__ == '__main__':\n"
    "    config = SynthesisConfig.model_validate_json(sys.argv[1])\n"
    "    said = lambda done, total: print(done, total, flush=True)\n"
    "    synthesise_dataset(config, Path(sys.argv[2]), int(sys.argv[3]), said)\n"
)
FILES = ("trajectories.jsonl", "blueprints.jsonl", "stats.json")


@pytest.mark.parametrize(
    "settings",
    [
        {"search": {"k_agent": 0}},
        {"search": {"k_user": 0}},
        {"search": {"rollouts": 0}},
        {"search": {"c_ucb": -1}},
        {"limits": {"turns": 0}},
        {"limits": {"steps": 0}},
        {"limits": {"steps_per_turn": 0}},
        {"limits": {"seconds_per_step": -1}},
        {"limits": {"calls": 0}},
        {"expert": {"mistakes": 1.5}},
        {"expert": {"styles": {"stepwize": 1}}},
        {"expert": {"styles": {"snippet": 0}}},
        {"expert": {"styles": {"snippet": -1, "stepwise": 2}}},
    ],
)
def test_what_nobody_can_play_is_refused(settings):
    with pytest.raises(ValidationError):
        SynthesisConfig.model_validate(settings)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("unbroken")
    synthesise_dataset(CONFIG, out, 1, lambda done, total: None)
    return out


def contents(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in FILES]


def start(out: Path, script: Path, processes: int) -> subprocess.Popen:
    script.write_text(COMMAND)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(script), CONFIG.model_dump_json(), str(out), str(processes)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def workers_of(pid: int) -> list[int]:
    """Child processes that make shards."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and "spawn_main" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds, seconds: float = 250) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_rows_are_verified_trajectories_ordered_by_blueprint(unbroken):
    rows = list(read_rows(unbroken / "trajectories.jsonl"))
    blueprints = list(read_rows(unbroken / "blueprints.jsonl"))
    stats = json.loads((unbroken / "stats.json").read_text())
    assert [row["id"] for row in blueprints] == [f"train-{i}" for i in range(CONFIG.blueprints)]
    assert [row["seed"] for row in rows] == sorted(row["seed"] for row in rows)
    difficulty = {row["id"]: row["difficulty"] for row in blueprints}
    for row in rows:
        trajectory = trajectory_from_row(row)
        assert trajectory.outcome is Outcome.SUCCESS and trajectory.is_valid and trajectory.progress == 1.0
        assert row["difficulty"] == difficulty[row["id"]] < 1
    counts = {row["id"]: sum(other["id"] == row["id"] for other in rows) for row in rows}
    assert max(counts.values()) == CONFIG.per_blueprint
    assert stats["blueprints"] == CONFIG.blueprints and stats["successes"] >= len(rows)
    assert stats["generation_success"] == pytest.approx(len(counts) / CONFIG.blueprints)
    assert 0 < stats["rollout_success"] <= stats["generation_success"] <= 1 and 0 <= stats["steps_saved"] < 1


@pytest.mark.long
def test_bytes_do_not_depend_on_the_number_of_processes(unbroken, tmp_path):
    synthesise_dataset(CONFIG, tmp_path, 2, lambda done, total: None)
    assert contents(tmp_path) == contents(unbroken)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (pip install 'homerl[ray]')")
def test_bytes_are_the_same_over_ray(unbroken, tmp_path):
    told = []
    synthesise_dataset(CONFIG, tmp_path, 2, lambda done, total: told.append(done), ray="local")
    assert contents(tmp_path) == contents(unbroken) and told == list(range(CONFIG.blueprints // CONFIG.shard + 1))


def test_every_worker_has_an_equal_part_of_shards_and_of_blueprints_in_play():
    shards = [range(i, i + 4) for i in range(0, 36, 4)]
    parts = assign_shards(CONFIG.model_copy(update={"in_flight": 5}), shards, 3)
    assert sorted((s for part, _ in parts for s in part), key=min) == shards
    assert [at_once for _, at_once in parts] == [1, 2, 2] and [len(part) for part, _ in parts] == [3, 3, 3]
    assert len(assign_shards(CONFIG.model_copy(update={"in_flight": 1}), shards, 3)) == 1


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the workers in /proc")
@pytest.mark.parametrize("victim", [pytest.param("a worker", marks=pytest.mark.long), "the run itself"])
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(unbroken, tmp_path, victim):
    out, script = tmp_path / "out", tmp_path / "run.py"
    run = start(out, script, 2)
    for line in run.stdout:
        if int(line.split()[0]) >= 2:
            break
    workers = workers_of(run.pid)
    assert workers
    os.kill(workers[0] if victim == "a worker" else run.pid, signal.SIGKILL)
    assert run.wait(200) != 0
    run.stdout.close()
    wait_until(lambda: not any(map(alive, workers)))
    assert not (out / "trajectories.jsonl").exists()
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("*.stats.json")}
    assert 2 <= len(kept) < CONFIG.blueprints // CONFIG.shard

    told: list[int] = []
    synthesise_dataset(CONFIG, out, 1, lambda done, total: told.append(done))
    assert told[0] == len(kept), "what was done is not done again"
    assert contents(out) == contents(unbroken)
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())


@pytest.mark.long
def test_a_worker_whose_run_has_ended_says_nothing(capfd):
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    worker = context.Process(target=_work_in_process, args=(writer, CONFIG, [range(4)], 1, os.getpid()))
    worker.start()
    for end in (reader, writer):
        end.close()
    worker.join(120)
    assert worker.exitcode == 0 and "Traceback" not in capfd.readouterr().err


def test_shards_of_another_recipe_are_not_taken_over(unbroken, tmp_path):
    out = shutil.copytree(unbroken, tmp_path / "out")
    faultless = CONFIG.model_copy(update={"blueprints": 4, "expert": ExpertConfig(mistakes=0.0)})
    synthesise_dataset(faultless, out, 1, lambda done, total: None)
    stats = json.loads((out / "stats.json").read_text())
    assert stats["rollout_success"] == 1.0 > json.loads((unbroken / "stats.json").read_text())["rollout_success"]


def test_a_shard_is_a_pure_function_of_recipe_and_range(tmp_path):
    for name in ("one", "other"):
        make_shard(CONFIG, range(4, 8), tmp_path / name)
    one, other = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert one == other and len(one) == 2


@pytest.mark.parametrize(
    ("error", "outcome"), [(AgentFault("it loops"), "agent_failure"), (WorldError("it loops"), "world_error")]
)
def test_a_fault_ends_a_blueprint_and_not_the_synthesis(monkeypatch, error, outcome):
    class Broken:
        name = "broken"

        async def consult(self, episode, n=1):
            raise error

    monkeypatch.setattr(BlueprintSynthesiser, "_make_agent", lambda *_: Broken())
    made = [asyncio.run(BlueprintSynthesiser(CONFIG).synthesise_blueprint(index)) for index in range(2)]
    assert all(part.stats["outcome"] == outcome and part.stats["fault"] == "it loops" for part in made)


def test_a_curriculum_deals_out_blueprints_in_equal_shares_in_order():
    easy = CONFIG.recipe.model_copy(update={"intents": (1, 1)})
    config = CONFIG.model_copy(update={"curriculum": (easy, easy), "blueprints": 9})
    assert [config.blueprint_recipe_at(i) is config.recipe for i in range(9)] == [False] * 6 + [True] * 3


def test_what_was_written_is_no_drop_and_no_reason(tmp_path):
    stats = {"outcomes": {"agent_failure": 20}, "dropped": {"tasks: written": 120, "consistent: x": 2}}
    assert list_synthesis_drops(stats) == [("consistent", "x", 2)]
    (tmp_path / "blueprints.jsonl").touch()
    assert why_nothing_synthesised(stats, tmp_path).startswith("agent failure: so 20 blueprints gave no trajectory")
    none = stats | {"outcomes": {"no_blueprint": 20}}
    assert why_nothing_synthesised(none, tmp_path).startswith("dropped: consistent: x: so 20 blueprints")
