"""A run of homerl is one run of Weights & Biases, however often it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from homerl.app.runs.recipe import load_recipe
from homerl.envs.core.documents import InputError
from homerl.host.monitoring import monitored_group, monitored_name, set_monitoring_variables
from homerl.host.recipe_files import BaseRecipe, shipped_recipe_folder
from homerl.train.recipe import SFTRecipe

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


@pytest.mark.long
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


def recipe_in(out: Path, **wandb: object) -> BaseRecipe:
    return BaseRecipe.model_validate({"homerl": 1, "out": out, "wandb": wandb})


def test_stages_and_seeds_are_one_group_with_names_of_their_own(tmp_path):
    for name in ("mine", "mine-seed1", "seed2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    outs = ("mine/sft", "mine/rlve", "mine-seed1/rlve", "mine", "alone/sft")
    named = [(monitored_name(recipe), monitored_group(recipe)) for recipe in (recipe_in(tmp_path / out) for out in outs)]
    assert named == [
        ("mine-sft", "mine"), ("mine-rlve", "mine"), ("mine-seed1-rlve", "mine"), ("mine", "mine"), ("sft", "sft"),
    ]  # fmt: skip
    assert monitored_group(recipe_in(tmp_path / "seed2/sft")) == tmp_path.name
    told = recipe_in(tmp_path / "mine/sft", name="try 3", group="study")
    assert (monitored_name(told), monitored_group(told)) == ("try 3-sft", "study")


def test_wandb_reads_group_tags_and_notes(tmp_path, monkeypatch):
    """What W&B itself makes of the variables, of which a group that somebody else has set stays."""
    from wandb import Settings

    monkeypatch.setattr(os, "environ", plain_environment())
    data = {"homerl": 1, "run": "sft", "data": "d", "model": {"name": "m"}, "out": tmp_path / "mine-seed4"}
    recipe = SFTRecipe.model_validate(data | {"wandb": {"mode": "offline", "tags": ["a", "b"], "notes": "why"}})
    set_monitoring_variables(recipe)
    told = Settings()
    told.update_from_env_vars(os.environ)
    assert (told.run_group, told.run_tags, told.run_notes, told.run_job_type) == ("mine", ("a", "b"), "why", "sft")
    os.environ["WANDB_RUN_GROUP"] = "sweep"
    set_monitoring_variables(recipe)
    assert os.environ["WANDB_RUN_GROUP"] == "sweep"


def test_a_resolved_recipe_is_as_before_unless_the_new_keys_are_used(tmp_path):
    assert set(recipe_in(tmp_path).model_dump()["wandb"]) == {"mode", "project", "entity", "transcripts"}
    assert recipe_in(tmp_path, tags=["a"]).model_dump(mode="json")["wandb"]["tags"] == ["a"]


def test_each_trial_of_the_shipped_sweep_has_a_folder_of_its_own(tmp_path, monkeypatch):
    """The command as W&B's own agent makes it: it sets the trial's id after that."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    sweep = yaml.safe_load((shipped_recipe_folder() / "wandb/sweep.yaml").read_text())
    drawn = {"rlve.learning_rate": {"value": 1e-5}, "rlve.kl": {"value": 0.001}}
    assert drawn.keys() == sweep["parameters"].keys()
    words = create_sweep_command(sweep["command"])
    at = words.index("${args}")
    program, kind, name, *overrides = [*words[:at], *create_sweep_command_args({"args": drawn})["args"], *words[at + 1 :]]
    assert (program, kind) == ("homerl", "run")
    monkeypatch.delenv("WANDB_RUN_ID", raising=False)
    with pytest.raises(InputError, match="WANDB_RUN_ID is not set"):
        load_recipe(name, overrides)
    for trial in ("abc", "xyz"):
        monkeypatch.setenv("WANDB_RUN_ID", trial)
        recipe = load_recipe(name, overrides)
        assert (recipe.out, recipe.rlve.learning_rate, recipe.rlve.kl) == (Path("runs/sweep", trial), 1e-5, 0.001)
