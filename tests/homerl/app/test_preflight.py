"""What a machine lacks: the login of Weights & Biases is asked for by who sends metrics, a GPU by who has a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import wandb

from homerl.app.runs.preflight import check_machine, find_other_limits, refuse_other_process_count, summarise_recipe
from homerl.app.runs.recipe import load_recipe
from homerl.envs.core.documents import InputError
from homerl.train.offline_bases import BASES
from homerl.train.recipe import RLVERecipe

TOLD = ("WANDB_MODE", "WANDB_DIR", "WANDB_ENTITY", "WANDB_PROJECT")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str | None]]]:
    """The environment of each question for the login; nobody is logged in."""
    for name in (*TOLD, "TENSORBOARD_LOGGING_DIR"):
        monkeypatch.setenv(name, "before")
    found: list[dict[str, str | None]] = []

    def login(prompt: bool) -> bool:
        assert not prompt
        found.append({name: os.environ.get(name) for name in TOLD})
        return False

    monkeypatch.setattr(wandb, "login", login)
    yield found


def recipe(tmp_path, **changes) -> RLVERecipe:
    (tmp_path / "model").mkdir(exist_ok=True)
    (tmp_path / "model/config.json").touch()
    data = {
        "homerl": 1,
        "run": "rlve",
        "cpu": True,
        "out": str(tmp_path / "run"),
        "model": {"name": str(tmp_path / "model")},
    }
    return RLVERecipe.model_validate(data | {"wandb": {"mode": "online", "entity": "lab", "project": "homes"}} | changes)


def test_the_service_knows_folder_and_owner_when_it_is_first_asked(tmp_path, asked):
    with pytest.raises(InputError, match="nobody is logged in"):
        check_machine(recipe(tmp_path), "r.yaml")
    assert asked == [dict(zip(TOLD, ("online", str(tmp_path / "run"), "lab", "homes"), strict=True))]


@pytest.mark.parametrize("base", BASES.values(), ids=lambda base: base.name)
def test_a_base_that_is_missing_is_told_with_the_command_that_makes_it(tmp_path, monkeypatch, base):
    monkeypatch.setenv("HOMERL_BASES", str(tmp_path))
    monkeypatch.setattr("homerl.app.runs.preflight.is_on_hub", lambda name: False)
    wanted = recipe(tmp_path, model={"name": base.hub}, wandb={"mode": "disabled"})
    with pytest.raises(InputError) as caught:
        check_machine(wanted, "r.yaml")
    assert f"the weights of {base.hub} are neither" in str(caught.value) and base.build_command in str(caught.value)
    base.base_folder.mkdir()
    (base.base_folder / "config.json").touch()
    check_machine(wanted, "r.yaml")


@pytest.mark.parametrize("changes", [{"wandb": {"mode": "offline"}}, {"wandb": {"mode": "disabled"}}, {"report_to": []}])
def test_who_sends_nothing_is_not_asked(tmp_path, asked, changes):
    check_machine(recipe(tmp_path, **changes), "r.yaml")
    assert not asked


def test_only_the_first_process_is_asked(tmp_path, asked, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_machine(recipe(tmp_path), "r.yaml")
    assert not asked


def test_a_service_that_cannot_be_reached_is_said(tmp_path, asked, monkeypatch):
    def login(prompt: bool) -> bool:
        raise wandb.errors.CommError("no way\nto it")

    monkeypatch.setattr(wandb, "login", login)
    with pytest.raises(InputError, match=r"takes no metrics: no way \(`--wandb.mode offline`"):
        check_machine(recipe(tmp_path), "r.yaml")


@pytest.mark.parametrize(("player", "lacks"), [("agent: expert", False), ("model: {name: model}", True)])
def test_only_a_model_needs_a_gpu(tmp_path, monkeypatch, player, lacks):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").touch()
    (tmp_path / "bench.yaml").write_text(f"homerl: 1\nrun: bench\n{player}\n")
    with pytest.raises(InputError, match="no GPU is visible") if lacks else nullcontext():
        check_machine(load_recipe("bench.yaml"), "bench.yaml")


@pytest.mark.parametrize(("wanted", "started", "says"), [(2, 1, True), (1, 4, True), (2, 2, False), (None, 4, False)])
def test_a_training_of_other_processes_than_the_recipe_names_is_refused(tmp_path, monkeypatch, wanted, started, says):
    monkeypatch.setenv("WORLD_SIZE", str(started))
    with pytest.raises(InputError, match=f"torchrun --nproc_per_node {wanted} r.yaml") if says else nullcontext():
        refuse_other_process_count(recipe(tmp_path, processes=wanted), "r.yaml")


def test_a_flywheel_starts_the_processes_of_its_stages_itself():
    refuse_other_process_count(load_recipe("recipes/smoke.yaml", ["--processes", "7"]), "smoke.yaml")


RECIPES = Path(__file__).parents[3] / "recipes"


def test_other_limits_than_those_of_the_suites_are_warned_of():
    narrow = load_recipe(RECIPES / "smollm2_home.yaml", ["--limits.steps_per_turn", "2", "--limits.calls", "9"])
    told = list(find_other_limits(narrow))
    assert [line.partition(";")[0] for line in told] == [
        "limits.steps_per_turn and bench.limits.steps_per_turn are 2 and 6",
        "limits.calls and bench.limits.calls are 9 and null",
    ]


def test_a_benchmark_has_limits_of_its_own():
    fixed = load_recipe(RECIPES / "smoke.yaml", ["--limits.steps", "1", "--bench.suites", "[{benchmark: smh-bench}]"])
    assert not list(find_other_limits(fixed)) and list(find_other_limits(load_recipe(RECIPES / "smoke.yaml"))) == []


def test_check_says_it(tmp_path):
    narrow = load_recipe(RECIPES / "smoke.yaml", ["--limits.steps", "1", "--out", str(tmp_path)])
    lines = list(summarise_recipe(narrow, "smoke.yaml", None, None, False))
    assert lines[-1] == "the recipe: good, and this machine can run it"
    told = [line for line in lines if line.startswith("limits: ")]
    assert told and "warning: limits.steps and bench.limits.steps are 1 and 3" in told[0]


def test_a_plan_says_apart_what_the_recipe_needs_and_what_this_machine_lacks(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    small = ["--blueprints.recipe", "{intents: [1, 1], home: {devices: [2, 3]}}", "--evaluation.every", "null"]
    planned = load_recipe(RECIPES / "rlve_aligned.yaml", [*small, "--out", str(tmp_path), "--report_to", "[]"])
    lines = list(summarise_recipe(planned, "r.yaml", 4, None, False))
    assert "the recipe: good, and it fits the machine that you plan for" in lines
    lacks = [line for line in lines if line.startswith("on this machine: ")]
    assert len(lacks) > 1 and "no GPU is visible" in lacks[0] and not any(";" in line for line in lacks)
    assert any("4 more GPUs, which do not train: a node of 8 has 4 that do" in line for line in lines)
    assert any(line.startswith("prompts: not measured, since there is no model folder") for line in lines)
    assert "rehearsing an episode of each source of tasks ..." in capsys.readouterr().err
    with pytest.raises(InputError, match="rlve does not fit the machine that you plan for"):
        list(summarise_recipe(planned, "r.yaml", 4, 24.0, False))
    with pytest.raises(InputError, match="this machine cannot run the recipe: no GPU is visible"):
        list(summarise_recipe(planned, "r.yaml", None, None, False))


@pytest.mark.parametrize("file", sorted(RECIPES.glob("*.yaml")), ids=lambda file: file.stem)
def test_no_recipe_of_ours_trains_within_other_limits(file):
    assert not list(find_other_limits(load_recipe(file)))
