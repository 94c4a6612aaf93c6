"""Who waits for whom: time by share, ranks' phases, deadlines, and what a run says when it stops."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launches import LAUNCHERS, written

from homerl.host.exit_codes import TOLD, read_exit_code
from homerl.train.data.rollout import EpisodeTimer, WaitTimes
from homerl.train.watch.phase_deadlines import SHARES, PhaseTimer, Watchdog

ROOT = Path(__file__).parents[3]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_every_second_is_in_one_share(tmp_path, clock):
    phases = PhaseTimer(tmp_path, clock=clock)
    clock.now += 2  # vLLM begins
    with phases.enter_phase("rollout"):
        clock.now += 4
        with phases.enter_phase("collective", "idle", waits=True):
            clock.now += 1
        with phases.enter_phase("sync"):
            clock.now += 1
    phases.move_seconds("rollout", "user", 1.0)
    phases.move_seconds("rollout", "world", 99.0)
    phases.begin_training(0)
    clock.now += 2  # the trainer's own
    found = phases.take_time_shares()
    assert found.pop("time/seconds") == 10 and found == {
        "time/rollout": 0.0,
        "time/user": 0.1,
        "time/world": 0.3,
        "time/reward": 0.0,
        "time/train": 0.2,
        "time/sync": 0.1,
        "time/idle": 0.1,
        "time/start": 0.2,
    }
    assert {name.removeprefix("time/") for name in found} == set(SHARES)
    assert phases.take_time_shares()["time/seconds"] == 0


def test_a_phase_that_fails_is_over(tmp_path, clock):
    phases = PhaseTimer(tmp_path, clock=clock)
    with pytest.raises(KeyError), phases.enter_phase("sync"):
        raise KeyError
    assert [doing.phase for doing, _ in phases.stack] == ["start"]


def test_waiting_counts_the_policy_before_users(clock):
    waiting = WaitTimes(clock)
    with waiting.measure_wait("user"):
        clock.now += 1
        with waiting.measure_wait("policy"), waiting.measure_wait("policy"):
            clock.now += 2
            assert str(waiting) == "2 of its episodes wait for the policy, 1 of its episodes wait for the user"
        clock.now += 4
    clock.now += 8
    assert waiting.take_wait_seconds() == {"policy": 2.0, "user": 5.0, "world": 0.0, "reward": 0.0}
    assert waiting.take_wait_seconds() == {"policy": 0.0, "user": 0.0, "world": 0.0, "reward": 0.0}
    assert str(waiting) == "no episode waits for anybody"


def test_what_an_episode_does_between_waits_is_our_own_work(clock):
    waiting = WaitTimes(clock)
    first, second = EpisodeTimer(waiting), EpisodeTimer(waiting)
    with first.measure_wait("user"):
        clock.now += 3
    clock.now += 1
    with first.measure_wait("policy"):
        clock.now += 5
    clock.now += 2
    first.count_own_work()
    assert waiting.take_wait_seconds() == {"policy": 5.0, "user": 3.0, "world": 3.0, "reward": 0.0}
    with second.measure_wait("user"):
        pass
    assert waiting.own == 11.0, "who never yields, works"


def test_a_rank_that_waits_says_for_whom(tmp_path, clock):
    first, second, third = (PhaseTimer(tmp_path, rank, clock) for rank in range(3))
    for phases in (first, second, third):
        phases.update = 7
    third.detail = lambda: "2 of its episodes wait for the user"
    dogs = [Watchdog(phases, {"collective": 30, "rollout": 60}) for phases in (first, second, third)]
    with third.enter_phase("rollout"):
        clock.now += 20
        with first.enter_phase("collective", waits=True), second.enter_phase("collective", waits=True):
            clock.now += 30
            assert [dog.deadline_report() for dog in dogs] == [None] * 3
            clock.now += 1
            assert dogs[0].deadline_report() == (
                "rank 0 has been in `collective` of update 7 for 31 s (allowed: 30 s); it waits for rank 2, which has "
                "been in `rollout` of update 7 for 51 s"
            )
            clock.now += 10
            said = dogs[2].deadline_report()
            assert said.startswith("rank 2 has been in `rollout` of update 7 for 61 s (allowed: 60 s); 2 of its episodes")
    assert [dog.deadline_report() for dog in dogs] == [None] * 3


def test_a_rank_of_an_earlier_start_with_more_of_them_is_not_named(tmp_path, clock):
    PhaseTimer(tmp_path, 2, clock)
    waiting, other = (PhaseTimer(tmp_path, rank, clock, ranks=2) for rank in range(2))
    with waiting.enter_phase("collective", waits=True), other.enter_phase("rollout"):
        clock.now += 31
        said = Watchdog(waiting, {"collective": 30}).deadline_report()
    assert "it waits for rank 1" in said and "rank 2" not in said


def test_what_is_done_inside_a_phase_does_not_count_against_it(tmp_path, clock):
    phases = PhaseTimer(tmp_path, clock=clock)
    dog = Watchdog(phases, {"rollout": 60, "collective": 60})
    with phases.enter_phase("rollout"):
        clock.now += 50
        with phases.enter_phase("collective", waits=True):
            clock.now += 50
        clock.now += 50
        assert dog.deadline_report() is None
        clock.now += 11
        assert "`rollout` of update 0 for 61 s" in dog.deadline_report()


def test_phases_without_a_deadline_take_as_long_as_they_like(tmp_path, clock):
    phases = PhaseTimer(tmp_path, clock=clock)
    clock.now += 1e6
    assert Watchdog(phases, {"sync": 1}).deadline_report() is None


def test_a_rank_that_is_written_half_is_passed_over(tmp_path, clock):
    phases = PhaseTimer(tmp_path, clock=clock)
    (tmp_path / "rank_1.json").write_text('{"rank": 1, "ph')
    assert phases.read_other_ranks() == []
    (tmp_path / "rank_1.json").write_text(json.dumps({"rank": 1, "phase": "train", "since": 0.0}))
    assert [other.phase for other in phases.read_other_ranks()] == ["train"]


@pytest.mark.parametrize(
    "phase", ["sync", "rollout", "train", *(pytest.param(name, marks=pytest.mark.long) for name in ("collective", "step"))]
)
def test_every_phase_with_a_deadline_stops_the_run_when_it_hangs(tmp_path, phase):
    """Real time, a real thread: what the run would do is caught in place of the process's end."""
    from homerl.train.recipe import DeadlineSettings

    deadlines = dict(DeadlineSettings(**{phase: 0.05}))
    said: list[str] = []
    phases = PhaseTimer(tmp_path)
    with Watchdog(phases, deadlines, said.append, poll=0.01):
        if phase == "train":
            phases.begin_training(3)
            time.sleep(0.3)
        else:
            with phases.enter_phase(phase):
                time.sleep(0.3)
    assert len(said) == 1 and f"in `{phase}`" in said[0] and "allowed: 0.05 s" in said[0]


def test_the_process_ends_with_code_4_even_where_it_hangs_outside_python(tmp_path):
    """The main thread sleeps in C, as in a collective that never returns; another rank says that it still plays."""
    (tmp_path / "rank_1.json").write_text(json.dumps({"rank": 1, "phase": "rollout", "since": time.time() - 9, "update": 0}))
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from homerl.train.watch.phase_deadlines import PhaseTimer, Watchdog\n"
        "phases = PhaseTimer(Path(sys.argv[1]))\n"
        "with Watchdog(phases, {'collective': 0.2}, poll=0.05), phases.enter_phase('collective', waits=True):\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", TOLD: str(tmp_path / "code")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 4 and read_exit_code(tmp_path / "code", 1) == 4, "a flywheel learns it, even from torchrun"
    assert done.stderr.startswith("homerl: the watchdog stopped the run: rank 0 has been in `collective`")
    assert "it waits for rank 1, which has been in `rollout` of update 0 for" in done.stderr


SIZES = {"hidden_size": 16, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 16, "intermediate_size": 16}


@pytest.fixture
def sft(dialogues, tmp_path) -> dict:
    settings = {
        "max_steps": 4,
        "dialogues_per_update": 2,
        "log_steps": 1,
        "save_steps": 9,
    }
    return {
        "run": "sft",
        "cpu": True,
        "out": str(tmp_path / "run"),
        "data": str(dialogues),
        "wandb": {"mode": "disabled"},
        "model": {"dtype": "float32", "from_scratch": SIZES},
        "sft": settings,
        "deadlines": {"step": 4, "train": 600},
    }


def test_an_sft_step_that_hangs_is_noticed(sft, monkeypatch):
    """In this process: its end is caught."""
    from homerl.train.packing.packed_updates import PackedUpdates
    from homerl.train.recipe import SFTRecipe
    from homerl.train.update.sft import train_sft
    from homerl.train.watch import phase_deadlines

    said: list[str] = []
    monkeypatch.setattr(phase_deadlines, "_stop_process", said.append)

    train = PackedUpdates.train_on_sequences

    def slow(self, *args, **kwargs):
        time.sleep(1)
        return train(self, *args, **kwargs)

    monkeypatch.setattr(PackedUpdates, "train_on_sequences", slow)
    train_sft(
        SFTRecipe.model_validate(
            {"homerl": 1, "parallel": "none"} | sft | {"sft": sft["sft"] | {"max_steps": 1}, "deadlines": {"step": 0.3}}
        )
    )
    assert len(said) == 1 and said[0].startswith("rank 0 has been in `step` of update 0 for ")


@pytest.mark.long
def test_a_rank_of_sft_whose_data_hang_is_named_by_the_one_that_waits(sft, tmp_path):
    """Two real ranks: one never gets its batch, the other is in a collective of gloo, outside Python."""
    recipe = written(sft, tmp_path)
    hanging = Path(__file__).parents[2] / "helpers/hanging_rank.py"
    done = subprocess.run(
        [*LAUNCHERS["two ranks"], hanging, recipe],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "homerl: the watchdog stopped the run: rank 0 has been in `step` of update 2 for" in done.stderr
    assert "it waits for rank 1, which has been in `train` of update 2 for" in done.stderr
    assert "exitcode  : 4" in done.stderr and done.returncode == 1, "torchrun's own code"


def test_a_policy_that_nobody_serves_ends_a_run_with_code_4(monkeypatch, capsys, tmp_path):
    from homerl.app.runs import launch
    from homerl.train.watch.phase_deadlines import RunStalled

    def stalls(*_):
        raise RunStalled("the policy server at http://x gave no answer")

    monkeypatch.setattr(launch, "run_recipe", stalls)
    monkeypatch.setattr("homerl.app.runs.preflight.check_machine", lambda *_: None)
    monkeypatch.setattr(launch, "die_with_parent", lambda: None)
    assert launch.main(str(ROOT / "recipes/smoke.yaml"), []) == 4
    assert "the watchdog stopped the run: the policy server at http://x" in capsys.readouterr().err
