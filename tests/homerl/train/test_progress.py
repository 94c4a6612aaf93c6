"""Progress in logs that are no terminal: real runs, whose lines say what is done, and what is left."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from homerl.envs.core.documents import InputError
from homerl.host.progress_bar import INTERVAL, progress_bar, progress_line

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"^(.+): ([\d,]+) of ([\d,]+) \((\d+) %\), (about \d+:\d\d:\d\d left|no estimate yet)(, .+)?$")
SYNTH = f"run {ROOT}/recipes/synth.yaml --synth.blueprints 40 --synth.shard 5 --synth.curriculum [] --processes 0"


def started(arguments: str, out: Path, **streams: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "homerl", *arguments.split(), "--out", str(out)]
    return subprocess.Popen(command, env={**os.environ, INTERVAL: "0.1"}, text=True, **streams)


def said_by(arguments: str, out: Path) -> list[re.Match[str]]:
    """The progress lines of a run, which ends well. Its output is a file, so they may not wait for its end."""
    log = out.with_suffix(".log")
    with log.open("w") as file:
        run = started(arguments, out, stdout=file, stderr=subprocess.STDOUT)
        while run.poll() is None and not any(map(LINE.match, log.read_text().splitlines())):
            time.sleep(0.05)
        assert run.poll() is None, "no line before the end"
        assert run.wait(timeout=200) == 0, log.read_text()
    return [found for text in log.read_text().splitlines() if (found := LINE.match(text))]


def of(lines: list[re.Match[str]]) -> tuple[set[str], list[int], set[str]]:
    """The stages that the lines name, what was done, and the totals."""
    assert all(round(100 * int(m[2]) / int(m[3].replace(",", ""))) == int(m[4]) for m in lines)
    return {m[1] for m in lines}, [int(m[2]) for m in lines], {m[3] for m in lines}


@pytest.mark.long
def test_a_synthesis_tells_a_log_what_is_done(tmp_path):
    lines = said_by(SYNTH, tmp_path / "out")
    stages, done, totals = of(lines)
    assert stages == {"synth"} and done == sorted(done) and totals == {"8"}
    assert any("left" in one[5] for one in lines)


def test_a_benchmark_tells_a_log_what_is_done(tmp_path):
    stages, done, totals = of(said_by("bench run smh-bench --model keywords --limit 25", tmp_path / "out"))
    assert all("smh-bench" in stage for stage in stages) and done == sorted(done) and totals == {"25"}


@pytest.mark.long
def test_training_tells_a_log_what_is_done(dialogues, tmp_path):
    sizes = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
    recipe = {
        "homerl": 1,
        "run": "sft",
        "cpu": True,
        "data": str(dialogues),
        "out": "x",
        "wandb": {"mode": "disabled"},
        "model": {"dtype": "float32", "from_scratch": sizes},
        "sft": {"max_steps": 40, "save_steps": None, "log_steps": 1, "dialogues_per_update": 4},
    }
    (tmp_path / "sft.yaml").write_text(json.dumps(recipe))
    lines = said_by(f"run {tmp_path}/sft.yaml", tmp_path / "out")
    stages, done, totals = of(lines)
    assert stages == {"out"} and done == sorted(done) and totals == {"40"}
    assert any("loss" in (one[6] or "") for one in lines)


@pytest.mark.long
def test_a_terminal_has_the_bar_alone(tmp_path):
    ours, theirs = pty.openpty()
    run = started(SYNTH.replace("40", "10"), tmp_path / "out", stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the other side was closed
        pass
    assert run.wait(timeout=100) == 0 and "━" in said.decode() and "% of" not in said.decode()
    assert not any(LINE.match(text) for text in said.decode().splitlines())


# One line


def task_of(total: int | None, completed: int, note: str = ""):
    bar = progress_bar(Console(file=io.StringIO()))
    bar.add_task("sft", total=total, completed=completed, note=note)
    return bar.tasks[0]


def test_the_estimate_counts_only_what_was_done_since_a_moment():
    """A resumed job began with 100 of 400; 20 in 10 seconds are 2 a second, and 280 are left."""
    assert progress_line(task_of(400, 120, "loss 0.4"), now=50.0, since=40.0, had=100) == (
        "sft: 120 of 400 (30 %), about 0:02:20 left, loss 0.4"
    )
    assert progress_line(task_of(4000, 100), now=50.0, since=40.0, had=100) == "sft: 100 of 4,000 (2 %), no estimate yet"
    assert progress_line(task_of(None, 0), now=5.0, since=5.0, had=0) == "sft: begun 0:00:00 ago"


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", ""])
def test_an_interval_that_is_none_is_refused(monkeypatch, seconds):
    monkeypatch.setenv(INTERVAL, seconds)
    with pytest.raises(InputError, match="no number of seconds"), progress_bar(Console(file=io.StringIO())):
        pass


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_shows_the_figures(width):
    console = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO())
    with progress_bar(console) as bar:
        bar.add_task("bench unseen-names", total=36_000, completed=1_200, note="a model with a long name")
    last = console.file.getvalue().split("\r")[-1]
    assert "bench unseen-names" in last and " 1200/36000 0:00:00 left -:--:-- a " in last
