"""What a run shows of itself: W&B's sections, the terminal, other reporters."""

from types import SimpleNamespace

import pytest
from rich.console import Console

from homerl.train.recipe import RLVERecipe, SFTRecipe
from homerl.train.watch.metrics_log import (
    SECTIONS,
    PanelsCallback,
    ProgressCallback,
    draw_time_shares,
    make_terminal_panel,
    metric_reporters,
    sort_into_sections,
)

LOGS = {
    "loss": 0.1, "success": 0.5, "reward": 1.25, "entropy": 0.7, "kl": 0.01, "num_tokens": 100, "eval/success": 0.6,
    "outcome/success": 0.5, "outcome/turn_limit": 0.25, "outcome/user_error": 0.0, "reward_by_step/progress/0": 0.5,
    "credit_by_step/mass/1": 0.2, "episode/turns": 2.0, "time/rollout": 0.5, "time/train": 0.25, "time/user": 0.25,
    "time/seconds": 40.0, "curriculum/zero_variance": 0.1, "curriculum/passes": 0.3, "user/requests": 7.0,
    "sentinel/zero_advantage": 0.2, "rewards/progress/mean": 0.3,
}  # fmt: skip


def test_each_figure_is_in_the_section_that_it_is_looked_for_in():
    found = sort_into_sections(LOGS)
    assert found["1 success/success"] == 0.5 and found["1 success/eval/success"] == 0.6
    assert found["1 success/curriculum/zero_variance"] == 0.1 and found["7 user and blueprints/curriculum/passes"] == 0.3
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
    (row,) = logged
    table = row.pop("by step")
    assert row == {name: value for name, value in sort_into_sections(LOGS).items() if "_by_step/" not in name} | {
        "train/global_step": 3
    }
    assert table.columns == ["step", "credit_by_step/mass", "reward_by_step/progress"]
    assert table.data == [[0, None, 0.5], [1, 0.2, None]]


def test_they_are_in_tensorboards_files_beside_its_own(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    panels = PanelsCallback(["tensorboard"], tmp_path)
    for step in (1, 2):
        state = SimpleNamespace(is_world_process_zero=True, global_step=step)
        panels.on_log(None, state, None, logs=LOGS | {"success": step / 4})
    read = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(read.Tags()["scalars"]) == {name for name in sort_into_sections(LOGS) if "_by_step/" not in name}
    assert [(event.step, event.value) for event in read.Scalars("1 success/success")] == [(1, 0.25), (2, 0.5)]


@pytest.mark.long
@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_a_real_run_reports(name, model, tokenizer, task, tmp_path, monkeypatch):
    """Two updates; what arrives is read back by the reporter's own reader."""
    pytest.importorskip(name, reason=f"{name} is not installed")
    from homerl.train.update.rlve import train_rlve

    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    settings = {"updates": 2, "blueprints_per_update": 2, "group": 4, "max_tokens": 16, "log_steps": 1}
    recipe = {
        "homerl": 1,
        "run": "rlve",
        "cpu": True,
        "parallel": "none",
        "out": tmp_path / "run",
        "report_to": [name],
        "wandb": {"mode": "disabled", "project": "reported"},
        "blueprints": {"recipe": task.model_dump(), "count": 4},
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"},
        "limits": {"turns": 2, "steps": 3},
        "evaluation": {"every": 2, "count": 2},  # the last of which is logged when training has ended
        "rlve": settings | {"max_episode_tokens": 512},
    }
    train_rlve(RLVERecipe.model_validate(recipe))
    found = of_tensorboard(tmp_path / "run") if name == "tensorboard" else of_trackio("reported", "run")
    assert {"1 success/success", "6 time/time/rollout", "4 policy/loss", "train/loss", "train/eval/success"} <= found


def of_tensorboard(out) -> set[str]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return set(EventAccumulator(str(out / "tensorboard")).Reload().Tags()["scalars"])


def of_trackio(project: str, run: str) -> set[str]:
    from trackio.sqlite_storage import SQLiteStorage

    return set(SQLiteStorage.get_all_metrics_for_run(project, run))


def test_one_look_at_the_terminal():
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(make_terminal_panel(LOGS))
    text = console.export_text()
    for words in ("success 0.5", "held out 0.6", "turn limit 25%", "entropy 0.7", "rollout 50%", "user 25%", "of 40 s"):
        assert words in text
    assert "user error" not in text and "sync" not in text
    assert make_terminal_panel({"loss": 1.0}) is None, "SFT has its bar alone"


def test_shares_fill_the_bar():
    assert draw_time_shares(LOGS).plain.count("█") == 60


@pytest.mark.parametrize("kind", [SFTRecipe, RLVERecipe])
def test_reporters_by_recipe(kind):
    recipe = {"homerl": 1, "run": "x", "model": {"name": "m"}, "data": "d"}
    if kind is RLVERecipe:
        del recipe["data"]
    recipe["run"] = kind.model_fields["run"].annotation.__args__[0]
    assert metric_reporters(kind.model_validate(recipe)) == ["wandb"]
    assert metric_reporters(kind.model_validate(recipe | {"wandb": {"mode": "disabled"}})) == []
    three = recipe | {"report_to": ["wandb", "trackio", "tensorboard"], "wandb": {"mode": "disabled"}}
    assert metric_reporters(kind.model_validate(three)) == ["trackio", "tensorboard"]


def test_a_reporter_that_is_not_installed_is_said_at_once(monkeypatch):
    import importlib.util

    from homerl.app.runs.preflight import _find_missing_packages

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trackio" else find(name))
    recipe = RLVERecipe.model_validate({"homerl": 1, "run": "rlve", "model": {"name": "m"}, "report_to": ["trackio"]})
    assert _find_missing_packages(recipe) == [
        "the package trackio is not installed, and report_to names it (pip install trackio)"
    ]


def test_a_log_file_gets_the_bar_on_a_line_of_its_own(tmp_path, capsys):
    shown = ProgressCallback(tmp_path)
    shown.on_train_begin(None, SimpleNamespace(is_world_process_zero=True, max_steps=2, global_step=0), None)
    shown.release_terminal()
    said = capsys.readouterr().out
    assert tmp_path.name[:16] in said and said.endswith("\n")
