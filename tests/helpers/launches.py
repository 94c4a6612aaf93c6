"""Starts runs in real processes, kills them as a failing machine would, resumes them and compares the results."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
TIMES = ("train_", "time/", "perf/", "step_time", "profiling", "epoch")  # metrics of time, or since the last start
LAUNCHERS = {
    "accelerate": [sys.executable, "-m", "accelerate.commands.launch"],
    "two ranks": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"],
}


def written(recipe: dict[str, Any], folder: Path, **changes: Any) -> Path:
    """The path of a recipe file in `folder`, written with `changes` of its keys."""
    path = folder / f"{Path(changes.get('out', recipe['out'])).name}.yaml"
    path.write_text("homerl: 1\n" + yaml.safe_dump({k: v for k, v in (recipe | changes).items() if k != "homerl"}))
    return path


def start(*command: str | Path) -> subprocess.Popen:
    """Start a command in a process group of its own. Its output goes to `log.txt` beside its last argument."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (Path(command[-1]).parent / "log.txt").open("a") as log:
        return subprocess.Popen(
            list(map(str, command)), env=environment, stdout=log, stderr=log, start_new_session=True, cwd=ROOT
        )


def finish(*command: str | Path) -> None:
    """Run a command to its end. Fails with the end of its log if it fails. The test's own time limit is the only one."""
    process = start(*command)
    with killed_on_error(process):
        code = process.wait()
    assert code == 0, (Path(command[-1]).parent / "log.txt").read_text()[-3000:]


def wait_for(holds: Callable[[], bool], process: subprocess.Popen) -> None:
    """Wait until `holds()` is true. Fails if the process ends before."""
    with killed_on_error(process):
        while not holds():
            assert process.poll() is None, f"ended too soon, with code {process.returncode}"
            time.sleep(0.005)


@contextlib.contextmanager
def killed_on_error(process: subprocess.Popen) -> Iterator[None]:
    """Kill a process with its descendants if the context fails, as it does when the test's time is over."""
    try:
        yield
    except BaseException:
        if process.poll() is None:
            kill(process)
        raise


def lines(out: Path) -> list[dict[str, Any]]:
    """The rows of updates in metrics.jsonl. A line that is still being written is left out."""
    text = (out / "metrics.jsonl").read_text() if (out / "metrics.jsonl").exists() else ""
    rows = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [row for row in rows if "loss" in row]


def figures(out: Path) -> list[dict[str, float]]:
    """The metrics of each update without those of `TIMES`."""
    return [{key: value for key, value in row.items() if not key.startswith(TIMES)} for row in lines(out)]


def descendants(pid: int) -> Iterator[int]:
    """The ids of all processes that descend from `pid`."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        parents.setdefault(parent, []).append(int(entry.name))
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        yield from children
        todo += children


def kill(process: subprocess.Popen) -> None:
    """Kill a process and all its descendants at once. The workers of torchrun are in process groups of their own."""
    for pid in (process.pid, *descendants(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def kill_at(update: int, out: Path, *command: str | Path) -> None:
    """Start a command, and kill it with its descendants once `update` updates are logged and a checkpoint is written."""
    process = start(*command)
    wait_for(lambda: len(lines(out)) >= update and bool(checkpoints(out)), process)
    kill(process)
    assert not (out / "model").exists(), "it was over before it was killed"


def checkpoints(out: Path) -> list[int]:
    """The updates of the complete checkpoints, in order."""
    return sorted(int(path.parent.name.split("-")[1]) for path in out.glob("checkpoints/*/trainer_state.json"))


def same_run(unbroken: Path, resumed: Path, updates: int) -> None:
    """Assert that a resumed run has the metrics, the totals and the weights of one that was not interrupted."""
    first, second = figures(unbroken), figures(resumed)
    assert [row["step"] for row in first] == [row["step"] for row in second] == list(range(1, updates + 1))
    for one, other in zip(first, second, strict=True):
        assert other == pytest.approx(one, abs=1e-5, rel=1e-5)
    totals = [json.loads(line) for line in (resumed / "metrics.jsonl").read_text().splitlines() if "train_runtime" in line]
    assert len(totals) == 1 and totals[0]["step"] == updates
    weights, others = (load_file(next(out.glob("model/*.safetensors"))) for out in (unbroken, resumed))
    assert weights.keys() == others.keys()
    assert all((others[name] - tensor).abs().max() < 1e-5 for name, tensor in weights.items())
