"""A run of homerl is one run of Weights & Biases, however often it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

START = """
import os, sys
from homerl.host.monitoring import keep_wandb_run, set_monitoring_variables
from homerl.host.recipe_files import BaseRecipe

recipe = BaseRecipe(homerl=1, out=sys.argv[1], wandb={"mode": sys.argv[2]})
set_monitoring_variables(recipe)
keep_wandb_run(recipe)
print(os.environ["WANDB_RUN_ID"], os.environ.get("WANDB_RESUME"))
"""


def plain_environment() -> dict[str, str]:
    """The environment without what W&B has left there: a run of this process names its service to its children."""
    return {name: value for name, value in os.environ.items() if "WANDB" not in name}


def start_run(out: Path, mode: str = "offline", **variables: str) -> list[str]:
    """The id that a start of a run has, and what W&B does with a run of this id."""
    known = plain_environment()
    command = [sys.executable, "-c", START, str(out), mode]
    done = subprocess.run(command, env=known | variables, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_run_goes_on_as_the_same_run_and_another_folder_is_another_run(tmp_path):
    first, again, other = (start_run(tmp_path / name) for name in ("a", "a", "b"))
    assert first == again and first[1] == "allow" and other[0] != first[0]
    below = {"WANDB_RUN_ID": first[0], "HOMERL_WANDB_RUN_ID": first[0]}  # as a flywheel's stage inherits them
    assert start_run(tmp_path / "c", **below)[0] not in (first[0], other[0])


def test_two_starts_write_two_files_of_one_run_of_wandb(tmp_path):
    """As transformers' callback begins it, with what the environment says alone."""
    begins = START + "import wandb; wandb.init(project='x').log({'loss': 1.0})"
    known = plain_environment()
    for _ in range(2):
        command = [sys.executable, "-c", begins, str(tmp_path / "a"), "offline"]
        slow = {"WANDB__SERVICE_WAIT": "300"}  # seconds that W&B's own process may take to begin
        done = subprocess.run(command, env=known | slow, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    files = [path.name for path in tmp_path.rglob("run-*.wandb")]
    assert len(files) == 2 and len(set(files)) == 1


def test_an_id_that_a_sweep_gives_is_taken_and_not_kept(tmp_path):
    assert start_run(tmp_path / "a", WANDB_RUN_ID="sweep1")[0] == "sweep1"
    assert not (tmp_path / "a").exists()


def test_a_run_that_sends_nothing_keeps_no_id(tmp_path):
    start_run(tmp_path / "a", "disabled")
    assert not (tmp_path / "a").exists()
