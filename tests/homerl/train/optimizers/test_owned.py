"""Runs in bfloat16 learn what runs in float32 learn, adapters included; with AdamW on bfloat16 alone they would not."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from homerl.train.engines.transformers import InPlace
from homerl.train.parallel import parallel_trainer as owned
from homerl.train.recipe import RLVERecipe, SFTRecipe
from homerl.train.update.rlve import train_rlve
from homerl.train.update.sft import PackedSFTTrainer, train_sft

OPTIM = {"save_steps": None, "log_steps": 1, "warmup": 0.0}
CONSTANT = OPTIM | {"lr_scheduler": "constant"}
LORA = {"r": 8, "alpha": 16, "dropout": 0.0}


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes later runs train in bfloat16 with transformers' AdamW, as without this package."""
    return lambda: monkeypatch.setattr(owned, "has_master", lambda weight: False)


def learned(out: Path, dialogues: Path, model: dict[str, Any], **settings: Any) -> Path:
    """The folder `out`, in which a model has learned from the dialogues."""
    torch.manual_seed(0)  # adapters begin alike
    data = {
        "homerl": 1,
        "run": "sft",
        "cpu": True,
        "parallel": "none",
        "out": out,
        "data": str(dialogues),
        "model": model,
        "wandb": {"mode": "disabled"},
        "sft": CONSTANT | {"max_length": 1024, "dialogues_per_update": 4, "in_order": True} | settings,
    }
    train_sft(SFTRecipe.model_validate(data))
    return out


@pytest.fixture
def sft(dialogues: Path, tmp_path: Path) -> Callable[..., Path]:
    return lambda name, model, **settings: learned(tmp_path / name, dialogues, model, **settings)


@pytest.fixture(scope="module")
def started(dialogues: Path, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that has learned a little, as those that are trained further have."""
    model = {"name": str(tiny), "dtype": "float32"}
    return str(learned(tmp_path_factory.mktemp("start"), dialogues, model, learning_rate=3e-3, max_steps=20) / "model")


def losses(out: Path) -> torch.Tensor:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return torch.tensor([row["loss"] for row in rows if "loss" in row])


def adapter(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model/adapter_model.safetensors")


def off(run: Path, wanted: Path, begun: Path, part: str) -> float:
    """How far a run ended from where it was to end, as a share of the way there, over the adapters' `part`."""
    ends, goals, starts = (adapter(out) for out in (run, wanted, begun))
    names = [name for name in goals if part in name]
    gaps = torch.cat([(ends[name].float() - goals[name]).flatten() for name in names])
    ways = torch.cat([(starts[name].float() - goals[name]).flatten() for name in names])
    return (gaps.norm() / ways.norm()).item()


@pytest.mark.long
def test_all_weights_in_bfloat16_learn_as_in_float32(sft, started, plain) -> None:
    """At a rate at which weights of 0.02 do not move by themselves. Forward passes in bfloat16 change the loss by 0.2 %."""
    settings = {"learning_rate": 2e-5, "max_steps": 40}
    whole, half = (sft(dtype, {"name": started, "dtype": dtype}, **settings) for dtype in ("float32", "bfloat16"))
    plain()
    lost = sft("plain", {"name": started, "dtype": "bfloat16"}, **settings)
    curve = losses(whole)
    gaps = [(losses(out) - curve).abs().max() / curve[0] for out in (half, lost)]
    assert gaps[0] < 0.005 < 0.01 < gaps[1]


@pytest.mark.long
def test_an_adapter_in_bfloat16_learns_as_in_float32(sft, started, plain) -> None:
    """Its loss and its weights. Without masters its matrices `A` stay where they began."""
    settings = {"learning_rate": 1e-4, "max_steps": 40}
    models = {dtype: {"name": started, "dtype": dtype, "lora": LORA} for dtype in ("float32", "bfloat16")}
    begun = sft("begun", models["float32"], learning_rate=1e-12, max_steps=1)
    whole, half = (sft(dtype, model, **settings) for dtype, model in models.items())
    assert {weight.dtype for weight in adapter(half).values()} == {torch.bfloat16}
    assert (losses(half) - losses(whole)).abs().max() < 0.005 * losses(whole)[0]
    plain()
    lost = sft("plain", models["bfloat16"], **settings)
    assert off(half, whole, begun, "lora_A") < 0.3 < 0.7 < off(lost, whole, begun, "lora_A")
    assert off(half, whole, begun, "lora_B") < 0.3


@pytest.mark.long
@pytest.mark.parametrize(
    ("lora", "settings"),
    [
        pytest.param(None, {}, id="all weights, adamw"),
        pytest.param(None, {"muon": 1e-4}, id="all weights, muon"),
        pytest.param(LORA, {}, id="lora, adamw"),
        pytest.param(LORA, {"muon": 1e-4}, id="lora, muon"),
    ],
)
def test_a_run_in_bfloat16_that_is_broken_off_goes_on_to_the_bit(sft, started, monkeypatch, lora, settings) -> None:
    model = {"name": started, "dtype": "bfloat16", "lora": lora}
    settings = settings | {"learning_rate": 1e-5, "max_steps": 6, "save_steps": 2}
    whole, step, left = sft("whole", model, **settings), PackedSFTTrainer.training_step, iter(range(5))

    def breaks(self: Any, *args: Any, **keywords: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return step(self, *args, **keywords)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PackedSFTTrainer, "training_step", breaks)
        sft("broken", model, **settings)
    broken = sft("broken", model, **settings)
    states = [torch.load(out / "checkpoints/checkpoint-6/optimizer.pt")["state"] for out in (whole, broken)]
    assert states[0].keys() == states[1].keys() and all("residual" in state for state in states[0].values())
    for index, state in states[0].items():
        assert all(torch.equal(value, states[1][index][name]) for name, value in state.items())
    weights, others = (load_file(next(out.glob("model/*.safetensors"))) for out in (whole, broken))
    assert all(torch.equal(others[name], weight) for name, weight in weights.items())


@pytest.mark.long
def test_an_adapter_in_bfloat16_learns_from_rollouts_as_in_float32(
    model, tokenizer, task, tmp_path, monkeypatch, plain
) -> None:
    """On the rollouts that the float32 run sampled: the others read them from its record, prompt by prompt.

    A weight of `A` is rounded to 0.0002 when it is stored, which is 0.4 of its way here.
    """
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    sample, record = InPlace._generate, defaultdict(list)

    def records(self: InPlace, prompts: list) -> list:
        samples = sample(self, prompts)
        for prompt, found in zip(prompts, samples, strict=True):
            record[tuple(prompt)].append(found)
        return samples

    def run(name: str, dtype: str, updates: int = 14, lr: float = 1e-4) -> Path:
        torch.manual_seed(0)
        left = {prompt: iter(samples) for prompt, samples in record.items()}
        replayed = lambda self, prompts: [next(left[tuple(prompt)]) for prompt in prompts]  # noqa: E731
        monkeypatch.setattr(InPlace, "_generate", replayed if record else records)
        settings = {
            "learning_rate": lr,
            "updates": updates,
            "blueprints_per_update": 2,
            "group": 4,
            "max_tokens": 24,
            "max_episode_tokens": 512,
        }
        data = {
            "homerl": 1,
            "run": "rlve",
            "cpu": True,
            "seed": 6,
            "out": tmp_path / name,
            "parallel": "none",
            "model": {"name": str(tmp_path / "start"), "dtype": dtype, "lora": LORA},
            "wandb": {"mode": "disabled"},
            "blueprints": {"recipe": task.model_dump(), "count": 16},
            "limits": {"turns": 3, "steps": 4},
            "rewards": {"audit": 0.5, "collateral": 0.2, "turn_limit": 0.3, "max_turns": 1},
            "rlve": CONSTANT | settings,
        }
        train_rlve(RLVERecipe.model_validate(data))
        return tmp_path / name

    whole = run("whole", "float32")
    begun, half = run("begun", "float32", updates=1, lr=1e-12), run("half", "bfloat16")
    plain()
    lost = run("lost", "bfloat16")
    assert off(half, whole, begun, "lora_A") < 0.5 < 0.7 < off(lost, whole, begun, "lora_A")
    assert off(half, whole, begun, "lora_B") < 0.3
