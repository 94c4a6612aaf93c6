"""The SkyPilot task: keys that SkyPilot documents, and a `run:` that goes on with what is in the bucket when its machine is
lost. SkyPilot itself is not started."""

import os
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml
from forked import homerl
from launches import ROOT, checkpoints, figures, kill, wait_for, written

from homerl.app.runs.recipe import load_recipe

TASK = yaml.safe_load((ROOT / "scripts/skypilot/run.yaml").read_text())
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}


def keys(**properties: Any) -> dict[str, Any]:
    """A mapping with these keys and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


SCHEMA = keys(  # https://docs.skypilot.co/en/latest/reference/yaml-spec.html, of which these are the keys that we use
    name=TEXT, workdir=TEXT, num_nodes=COUNT, setup=TEXT, run=TEXT,
    envs={"type": "object", "additionalProperties": TEXT},
    resources=keys(
        accelerators={"type": "object", "maxProperties": 1, "additionalProperties": COUNT}, use_spot={"type": "boolean"},
        disk_size=COUNT, job_recovery=keys(strategy=TEXT, max_restarts_on_errors={"type": "integer", "minimum": 0}),
    ),
    file_mounts={"type": "object", "additionalProperties": keys(
        name=TEXT, source=TEXT, store=TEXT, persistent={"type": "boolean"}, mode={"enum": ["MOUNT", "COPY", "MOUNT_CACHED"]},
        config=keys(mount_cached=keys(transfers=COUNT)),
    )},
)  # fmt: skip


def test_its_keys_are_skypilots():
    jsonschema.validate(TASK, SCHEMA)


def test_its_recipe_is_one_that_there_is():
    *_, launched = TASK["run"].splitlines()
    assert launched.startswith("accelerate launch ") and launched.endswith(" $RECIPE")
    name, *overrides = TASK["envs"]["RECIPE"].split()
    assert load_recipe(ROOT / name, overrides).run == "flywheel"


@pytest.mark.long
def test_its_recipe_is_one_that_check_takes():
    done = homerl("check", *TASK["envs"]["RECIPE"].split(), cwd=ROOT)
    assert "no GPU" in done.stderr if done.returncode else True, done.stderr


@pytest.fixture
def machine(tmp_path, dialogues):
    """Start the task's `run:` in the new folder of a machine, with the same bucket. The recipe is tiny."""
    sizes = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
    recipe = {
        "homerl": 1,
        "run": "sft",
        "cpu": True,
        "out": "runs/tiny",
        "data": str(dialogues),
        "wandb": {"mode": "disabled"},
        "model": {"dtype": "float32", "from_scratch": sizes},
        "sft": {"max_steps": 6, "save_steps": 1, "log_steps": 1, "max_length": 1024, "dialogues_per_update": 4},
    }
    path, bucket = written(recipe, tmp_path), tmp_path / "bucket"
    bucket.mkdir()

    def begin(name: str) -> subprocess.Popen:
        folder = tmp_path / name
        (folder / ".venv/bin").mkdir(parents=True)
        launch = f'accelerate() {{ "{sys.executable}" -m accelerate.commands.accelerate_cli "$@"; }}'
        (folder / ".venv/bin/activate").write_text(launch + "\n")
        own = {"SKYPILOT_NUM_GPUS_PER_NODE": "1", "RECIPE": str(path), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with (tmp_path / "log.txt").open("a") as log:
            command = ["bash", "-c", TASK["run"].replace("/bucket", str(bucket))]
            return subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=log, stderr=log)

    return begin


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_another_machine_goes_on_with_what_is_in_the_bucket(machine, tmp_path):
    out = tmp_path / "bucket/tiny"
    process = machine("one")
    wait_for(lambda: len(checkpoints(out)) > 1, process)
    kill(process)
    assert not (out / "model").exists(), "it was over before it was killed"
    assert machine("another").wait(280) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    assert [row["step"] for row in figures(out)] == [1, 2, 3, 4, 5, 6] and (out / "model").exists()
