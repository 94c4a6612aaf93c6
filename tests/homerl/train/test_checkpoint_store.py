"""Checkpoints in another place: what is there as a whole is taken up, also after the process and its folder are gone."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from homerl.envs.core.documents import InputError
from homerl.train.checkpoint_store import CheckpointStore, store_of_run, take_up_stored_run
from homerl.train.recipe import SFTRecipe

SIZES = {"hidden_size": 32, "layers": 1, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 64}


def save(out: Path, step: int) -> None:
    """What a training leaves at a save."""
    folder = out / "checkpoints" / f"checkpoint-{step}"
    (folder / "inner").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes([step]) * 100)
    (folder / "inner" / "state.json").write_text(json.dumps({"step": step}))
    (out / "metrics.jsonl").write_text("{}\n" * step)
    (out / "wandb").mkdir(exist_ok=True)
    (out / "wandb" / "run_id.txt").write_text("abc\n")
    (out / "best" / "model").mkdir(parents=True, exist_ok=True)
    (out / "best" / "score.json").write_text(str(step))


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path) -> str:
    return f"file://{tmp_path}/far" if request.param == "file" else f"memory://bucket/{tmp_path.name}"


def test_the_newest_whole_checkpoint_is_taken_up_where_there_is_none(url, tmp_path):
    out = tmp_path / "here" / "mine"
    store = store_of_run(url, out)
    assert store.take_up_run() is None
    for step in (2, 4, 6):
        save(out, step)
        store.send_files(step)
        store.finish_checkpoint(step, keep=2)
    was = {name: (out / name).read_bytes() for name in ("checkpoints/checkpoint-6/inner/state.json", "wandb/run_id.txt")}
    save(out, 8)
    store.send_files(8)  # killed before it was whole
    assert store.list_whole_checkpoints() == [4, 6] and not store.files.exists(f"{store.root}/checkpoint-2")
    assert store.take_up_run() is None, "this machine has its own"
    shutil.rmtree(out)
    assert store_of_run(url, out).take_up_run() == "checkpoint-6"
    assert {name: (out / name).read_bytes() for name in was} == was
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["checkpoint-6"]
    assert (out / "best" / "score.json").read_text() == "6" and (out / "metrics.jsonl").read_text() == "{}\n" * 6
    assert store_of_run(url, tmp_path / "other").take_up_run() is None


def test_a_stage_of_a_flywheel_has_a_folder_of_its_own(tmp_path):
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel" / "run.json").write_text("{}")
    assert store_of_run("memory://a/", tmp_path / "wheel" / "sft").url == "memory://a/wheel/sft"
    assert store_of_run("memory://a", tmp_path / "alone" / "sft").url == "memory://a/sft"


def test_a_place_that_cannot_be_is_refused_by_its_key(tmp_path):
    with pytest.raises(InputError, match="checkpoint_to: nosuch://x"):
        CheckpointStore("nosuch://x", tmp_path)


@pytest.mark.long
def test_a_training_goes_on_after_its_machine_was_lost(dialogues, tmp_path):
    """The process is killed and its folder deleted; the same command ends as one that was never killed."""
    settings = {"max_steps": 8, "dialogues_per_update": 4, "save_steps": 2, "log_steps": 1, "learning_rate": 5e-3}
    recipe = {
        "homerl": 1, "run": "sft", "cpu": True, "parallel": "none", "data": str(dialogues), "wandb": {"mode": "disabled"},
        "model": {"dtype": "float32", "from_scratch": SIZES}, "sft": settings,
    }  # fmt: skip
    models = {}
    for name, far in (("whole", None), ("lost", f"file://{tmp_path}/far")):
        out, file = tmp_path / name, tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(recipe | {"out": str(out)} | ({"checkpoint_to": far} if far else {})))
        command = [sys.executable, "-m", "homerl", "run", str(file)]
        if far:
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not list((tmp_path / "far").glob("lost/checkpoint-*.json")) and started.poll() is None:
                time.sleep(0.02)
            assert started.poll() is None, "it ended before it could be killed"
            started.send_signal(signal.SIGKILL)
            started.wait()
            shutil.rmtree(out)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (f"taken from {far}: checkpoint-" in done.stdout) is bool(far)
        models[name] = (out / "model" / "model.safetensors").read_bytes()
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows if "loss" in row] == list(range(1, 9))
    assert models["whole"] == models["lost"]


def test_a_recipe_without_the_key_stores_nothing(tmp_path):
    recipe = SFTRecipe.model_validate(
        {"homerl": 1, "run": "sft", "data": "d", "out": tmp_path, "model": {"name": "m"}, "wandb": {"mode": "disabled"}}
    )
    assert take_up_stored_run(recipe) is None and "checkpoint_to" not in recipe.model_dump()
