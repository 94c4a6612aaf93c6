"""A checkpoint of shards gets its name when all of it is written, and training goes on meanwhile."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from launches import LAUNCHERS, ROOT, checkpoints, finish, kill, lines, same_run, start, wait_for, written

from homerl.train.common import last_checkpoint
from homerl.train.devices.background_saves import WRITING, name_complete

SLOWLY = ROOT / "tests/helpers/slow_checkpoints.py"
SIZES = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}


def saved(failure: Exception | None = None) -> Future:
    """A save that is done, or has failed."""
    future: Future = Future()
    future.set_exception(failure) if failure else future.set_result(None)
    return future


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two complete checkpoints and one that is being written."""
    for name in ("checkpoint-8", "checkpoint-9", f"{WRITING}/checkpoint-10"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "trainer_state.json").write_text("{}")
    return tmp_path / "checkpoints"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_complete_checkpoint_gets_its_name_and_the_oldest_goes(folder: Path) -> None:
    name_complete(folder / WRITING / "checkpoint-10", [saved()], keep=2)
    assert names(folder) == {"checkpoint-9", "checkpoint-10", WRITING} and not names(folder / WRITING)


def test_a_save_that_failed_names_nothing_and_deletes_nothing(folder: Path) -> None:
    with pytest.raises(OSError, match="disk"):
        name_complete(folder / WRITING / "checkpoint-10", [saved(), saved(OSError("disk full"))], keep=1)
    assert names(folder) == {"checkpoint-8", "checkpoint-9", WRITING} and names(folder / WRITING) == {"checkpoint-10"}


def test_a_start_deletes_what_was_being_written(folder: Path) -> None:
    assert last_checkpoint(folder.parent) == str(folder / "checkpoint-9")
    assert names(folder) == {"checkpoint-8", "checkpoint-9"}


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("settings", [{}, {"muon": 0.01}], ids=["adamw", "muon"])
def test_training_goes_on_while_a_checkpoint_is_written_and_a_kill_then_loses_that_one_alone(
    settings: dict, dialogues: Path, tmp_path: Path
) -> None:
    recipe = {
        "homerl": 1, "run": "sft", "cpu": True, "parallel": "fsdp2", "out": str(tmp_path / "run"), "data": str(dialogues),
        "model": {"dtype": "float32", "from_scratch": SIZES}, "wandb": {"mode": "disabled"},
        "sft": settings | {
            "learning_rate": 1e-3, "warmup": 0.1, "dialogues_per_update": 4, "log_steps": 1,
            "max_steps": 16, "save_steps": 5, "keep_checkpoints": 1, "max_length": 1024,
        },
    }  # fmt: skip
    out, broken, whole = tmp_path / "run", written(recipe, tmp_path), written(recipe, tmp_path, out=str(tmp_path / "whole"))
    process = start(*LAUNCHERS["two ranks"], SLOWLY, "8", broken)
    writing = out / "checkpoints" / WRITING / "checkpoint-10"
    wait_for(lambda: (writing / "trainer_state.json").exists() and len(lines(out)) > 12, process)
    assert writing.is_dir() and checkpoints(out) == [5], "the older one is kept until the newer one is complete"
    kill(process)
    assert checkpoints(out) == [5]
    finish(*LAUNCHERS["two ranks"], broken)
    assert checkpoints(out) == [16] and not list((out / "checkpoints" / WRITING).iterdir())
    finish(*LAUNCHERS["two ranks"], whole)
    same_run(tmp_path / "whole", out, 16)
