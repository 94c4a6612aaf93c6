"""A training that goes on is the one that began: what may change between two starts, and what is refused."""

from pathlib import Path

import pytest
import yaml

from homerl.app.runs.launch import run_recipe
from homerl.app.runs.recipe import load_recipe
from homerl.app.runs.resume import refuse_another_training
from homerl.app.runs.run_folder import write_run_record
from homerl.envs.core.documents import InputError

RLVE = {
    "homerl": 1, "run": "rlve", "out": "run", "cpu": True, "wandb": {"mode": "disabled"}, "model": {"name": "org/name"},
    "blueprints": {"recipe": {"devices": [2, 2]}, "count": 4},
}  # fmt: skip


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A started RLVE with a checkpoint, and its recipe with overrides."""
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(yaml.safe_dump(RLVE))
    write_run_record(load_recipe("r.yaml"))
    Path("run/checkpoints/checkpoint-2").mkdir(parents=True)
    return lambda *overrides: load_recipe("r.yaml", overrides)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rlve.credit", "trajectory"),
        ("rewards.collateral", "0.5"),
        ("model.lora", "{r: 4}"),
        ("blueprints.count", "5"),
        ("seed", "2"),
    ],
)
def test_a_training_goes_on_by_its_own_recipe_only(begun, key, value):
    with pytest.raises(InputError) as refused:
        run_recipe(begun(f"--{key}", value))
    assert key in refused.value.what and "delete run/checkpoints to train anew" in refused.value.remedy
    assert load_recipe("run/recipe.yaml") == begun(), "the record is of the recipe that began"
    Path("run/checkpoints/checkpoint-2").rmdir()
    Path("run/checkpoints").rmdir()
    refuse_another_training(begun(f"--{key}", value))


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("--processes", "2", "--rlve.tokens_per_step", "4096", "--rlve.save_steps", "5", "--deadlines.rollout", "100"),
        ("--rlve.updates", "700", "--wandb.project", "other", "--user.url", "http://127.0.0.1:1/v1"),
    ],
)
def test_how_and_how_long_a_training_runs_may_change(begun, overrides):
    refuse_another_training(begun(*overrides))


def test_how_fast_it_learns_may_change_until_it_is_finished(begun):
    faster = begun("--rlve.learning_rate", "1e-3", "--rlve.warmup", "0.1")
    refuse_another_training(faster)
    Path("run/model").mkdir()
    with pytest.raises(InputError, match=r"rlve\.learning_rate, rlve\.warmup"):
        refuse_another_training(faster)
