"""What a run shows of itself: W&B's sections, the terminal, other reporters."""

from types import SimpleNamespace

import pytest
from rich.console import Console

from homerl.recipe import RLVERecipe, SFTRecipe
from homerl.train.common import reporters
from homerl.train.panels import SECTIONS, PanelsCallback, glance, sections, shares

LOGS = {
    "loss": 0.1, "success": 0.5, "reward": 1.25, "entropy": 0.7, "kl": 0.01, "num_tokens": 100, "eval/success": 0.6,
    "outcome/success": 0.5, "outcome/turn_limit": 0.25, "outcome/user_error": 0.0, "reward_by_step/progress/0": 0.5,
    "credit_by_step/mass/1": 0.2, "episode/turns": 2.0, "time/rollout": 0.5, "time/train": 0.25, "time/user": 0.25,
    "time/seconds": 40.0, "curriculum/flat": 0.1, "curriculum/passes": 0.3, "user/requests": 7.0,
    "sentinel/zero_advantage": 0.2, "rewards/progress/mean": 0.3,
}  # fmt: skip


def test_each_figure_is_in_the_section_that_it_is_looked_for_in():
    found = sections(LOGS)
    assert found["1 success/success"] == 0.5 and found["1 success/eval/success"] == 0.6
    assert found["1 success/curriculum/flat"] == 0.1 and found["7 user and blueprints/curriculum/passes"] == 0.3
    assert found["2 rewards by step/reward_by_step/progress/0"] == 0.5 and found["4 policy/kl"] == 0.01
    assert {name.split("/")[0] for name in found} == set(SECTIONS)
    assert len(found) == len(LOGS) - 2, "num_tokens and TRL's own sums of rewards have no section"


def test_they_go_to_the_open_run_at_the_trainers_step(monkeypatch):
    import wandb

    logged = []
    monkeypatch.setattr(wandb, "run", object())
    monkeypatch.setattr(wandb, "log", lambda row, **_: logged.append(row))
    state = SimpleNamespace(is_world_process_zero=True, global_step=3)
    PanelsCallback().on_log(None, state, None, logs=LOGS)
    PanelsCallback().on_log(None, state, None, logs={"train_runtime": 3.0})
    state.is_world_process_zero = False
    PanelsCallback().on_log(None, state, None, logs=LOGS)
    assert logged == [sections(LOGS) | {"train/global_step": 3}]


def test_one_look_at_the_terminal():
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(glance(LOGS))
    text = console.export_text()
    for words in ("success 0.5", "held out 0.6", "turn limit 25%", "entropy 0.7", "rollout 50%", "user 25%", "of 40 s"):
        assert words in text
    assert "user error" not in text and "sync" not in text
    assert glance({"loss": 1.0}) is None, "SFT has its bar alone"


def test_shares_fill_the_bar():
    assert shares(LOGS).plain.count("█") == 60


@pytest.mark.parametrize("kind", [SFTRecipe, RLVERecipe])
def test_reporters_by_recipe(kind):
    recipe = {"homerl": 1, "run": "x", "model": {"name": "m"}, "data": "d"}
    if kind is RLVERecipe:
        del recipe["data"]
    recipe["run"] = kind.model_fields["run"].annotation.__args__[0]
    assert reporters(kind.model_validate(recipe)) == ["wandb"]
    assert reporters(kind.model_validate(recipe | {"wandb": {"mode": "disabled"}})) == []
    three = recipe | {"report_to": ["wandb", "trackio", "tensorboard"], "wandb": {"mode": "disabled"}}
    assert reporters(kind.model_validate(three)) == ["trackio", "tensorboard"]


def test_a_reporter_that_is_not_installed_is_said_at_once(monkeypatch):
    import importlib.util

    from homerl.preflight import _packages

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trackio" else find(name))
    recipe = RLVERecipe.model_validate({"homerl": 1, "run": "rlve", "model": {"name": "m"}, "report_to": ["trackio"]})
    assert _packages(recipe) == ["the package trackio is not installed, and report_to names it (pip install trackio)"]
