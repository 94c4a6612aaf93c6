"""A few synthesised dialogues, a tiny model made from them, once a session; a browser once a module."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_hub import TOKEN, hub_runs
from huggingface_hub import constants

from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.play.trajectory import Trajectory, read_rows, trajectory_from_row, write_rows
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import make_shard
from homerl.worlds.contract import ExpertConfig

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: tiny matrices lose by threads

HOME = {"devices": (2, 3), "did_range": (1001, 1060), "categories": ("light", "heater", "curtain", "fan", "plug")}
TASK = BlueprintRecipe.model_validate({"home": HOME, "intents": (1, 2), "phrasings": 2})
STYLES = {"snippet": 2, "stepwise": 1, "query_first": 1}


@pytest.fixture(scope="session")
def task() -> BlueprintRecipe:
    """The blueprints that all of this is about."""
    return TASK


@pytest.fixture(scope="session")
def dialogues(tmp_path_factory) -> Path:
    """A folder with `trajectories.jsonl`, as synthesis leaves it."""
    folder = tmp_path_factory.mktemp("dialogues")
    config = SynthesisConfig(blueprints=40, recipe=TASK, expert=ExpertConfig(mistakes=0.2, styles=STYLES))
    make_shard(config, range(40), folder)
    write_rows(folder / "trajectories.jsonl", read_rows(folder / "0000000.jsonl"))
    return folder


@pytest.fixture(scope="session")
def rows(dialogues: Path) -> list[dict[str, Any]]:
    return list(read_rows(dialogues / "trajectories.jsonl"))


@pytest.fixture(scope="session")
def trajectories(rows) -> list[Trajectory]:
    return [trajectory_from_row(row) for row in rows]


@pytest.fixture(scope="session")
def tiny(rows, tmp_path_factory) -> Path:
    """The folder of an untrained Qwen3 (0.1M parameters) with its tokenizer."""
    from homerl.train.tiny_model import TinyConfig, make_tiny_model

    sizes = TinyConfig(hidden_size=64, layers=2, heads=2, kv_heads=2, head_dim=32, intermediate_size=128)
    return make_tiny_model(rows, json.loads(rows[0]["tools"]), sizes, 0, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tokenizer(tiny: Path) -> Any:
    from homerl.train.training_setup import load_chat_tokenizer

    return load_chat_tokenizer(str(tiny))


@pytest.fixture(scope="session")
def model(tiny: Path) -> Any:
    """The tiny model, with weights spread enough that what it says depends on what it reads."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.15)
    return model


def find_chromium() -> str | None:
    """An installed one; None means the one that playwright brought, if it did."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")  # no longer: while it is open, an event loop runs, in which no test can start another
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        except playwright.Error as error:
            first = str(error).splitlines()[0]
            pytest.skip(f"no Chromium can be started here (playwright install chromium): {first}")
        yield opened
        opened.close()


@pytest.fixture
def hub():
    """A stand-in of the hub that runs, and what it holds."""
    with hub_runs() as store:
        yield store


@pytest.fixture
def here(hub, monkeypatch, tmp_path):
    """This process talks to the stand-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "ENDPOINT", hub["url"])
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return hub
