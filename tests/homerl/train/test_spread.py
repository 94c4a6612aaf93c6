"""Weights in shards: FSDP2, ZeRO-2 and ZeRO-3 on two ranks of a CPU train, are killed, resume and export as whole weights
would. DeepSpeed's are skipped where it is not installed; `scripts/check_deepspeed` brings it."""

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import homerl
from launches import LAUNCHERS, ROOT, checkpoints, figures, finish, kill_at, same_run, written
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from homerl.app.runs import preflight
from homerl.envs.core.documents import InputError
from homerl.report.cards.export import export_model
from homerl.train.recipe import RLVERecipe, SFTRecipe, has_sharded_weights, parallel_mode, refuse_untrainable

SIZES = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
OPTIM = {"learning_rate": 1e-3, "warmup": 0.1, "log_steps": 1, "tokens_per_step": 400}  # several passes, unlike on each rank
NO_DEEPSPEED = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
ZERO = [pytest.param(how, marks=NO_DEEPSPEED) for how in ("zero2", "zero3")]
KINDS = ("sft", "lora", "rlve")
SPREAD = [
    *(("fsdp2", kind) for kind in (*KINDS, "muon")),
    *(pytest.param(how, kind, marks=NO_DEEPSPEED) for how in ("zero2", "zero3") for kind in KINDS),
]
SHARDS = {"fsdp2": "pytorch_model_fsdp_0/*.distcp", "zero2": "global_step*/*optim_states.pt"}  # a file a rank
TRAINER = Path(__file__).parents[2] / "helpers/sharded_logits.py"


@pytest.fixture
def base(tmp_path) -> dict[str, Any]:
    return {
        "homerl": 1,
        "cpu": True,
        "out": str(tmp_path / "run"),
        "wandb": {"mode": "disabled"},
    }


@pytest.fixture
def sft(base, dialogues) -> dict[str, Any]:
    settings = {"max_steps": 12, "save_steps": 2, "max_length": 1024, "dialogues_per_update": 8}
    model = {"dtype": "float32", "from_scratch": SIZES}
    return base | {"run": "sft", "data": str(dialogues), "model": model, "sft": OPTIM | settings}


@pytest.fixture
def lora(sft, model, tokenizer, tmp_path) -> dict[str, Any]:
    """An adapter on a model that a folder holds, its layers computed twice."""
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    settings = {"name": str(tmp_path / "start"), "dtype": "float32", "lora": {"r": 4, "alpha": 8, "dropout": 0.0}}
    return sft | {"model": settings, "sft": sft["sft"] | {"gradient_checkpointing": True}}


@pytest.fixture
def muon(sft) -> dict[str, Any]:
    return sft | {"sft": sft["sft"] | {"muon": 0.01}}


@pytest.fixture
def rlve(base, model, tokenizer, task, tmp_path) -> dict[str, Any]:
    """Several passes an update on each rank, a KL reference, and the policy's own copy to sample from."""
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    settings = {"updates": 6, "save_steps": 1, "blueprints_per_update": 2, "group": 4, "max_tokens": 24, "kl": 0.1}
    return base | {
        "run": "rlve",
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"},
        "limits": {"turns": 3, "steps": 4},
        "blueprints": {"recipe": task.model_dump(mode="json"), "count": 6},
        "rlve": OPTIM | settings | {"max_episode_tokens": 512},
    }


def by_accelerate(how: str) -> list[str | Path]:
    """Spread as accelerate's configuration says."""
    config = ["--config_file", ROOT / f"recipes/accelerate/{how}.yaml"]
    return [*LAUNCHERS["accelerate"], *config, "--num_processes", "2", "--mixed_precision", "no"]


def logits(folder: Path) -> torch.Tensor:
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder).eval()(torch.arange(3, 60)[None]).logits


def exports_what_was_trained(out: Path) -> None:
    """The trainer's own answer, from its shards, against that of the export."""
    exported = export_model(out, str(out / "exported"))
    trained = torch.load(out / "logits.pt")
    assert (logits(exported) - trained).abs().max() < 1e-5
    assert (torch.load(out / "shards.pt") < 0.6) and trained.std() > 0


def same_losses(one: Path, other: Path) -> None:
    for first, second in zip(figures(one), figures(other), strict=True):
        assert second["loss"] == pytest.approx(first["loss"], abs=1e-4, rel=1e-4)
        assert second["grad_norm"] == pytest.approx(first["grad_norm"], abs=1e-4, rel=1e-3)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("how", "kind"), SPREAD)
def test_a_run_in_shards_is_killed_resumes_and_exports(how, kind, request, tmp_path):
    """Spread as the recipe says, as accelerate's configuration says, and not at all: the same run."""
    recipe = request.getfixturevalue(kind)
    updates = 6 if kind == "rlve" else 12
    broken = written(recipe | {"parallel": how}, tmp_path)
    whole = written(recipe | {"parallel": how}, tmp_path, out=str(tmp_path / "whole"))
    plain = written(recipe | {"parallel": "ddp"}, tmp_path, out=str(tmp_path / "plain"))
    kill_at(4, tmp_path / "run", *by_accelerate(how), broken)
    saved = tmp_path / f"run/checkpoints/checkpoint-{checkpoints(tmp_path / 'run')[-1]}"
    assert len(list(saved.glob(SHARDS.get(how, SHARDS["zero2"])))) == 2, "a shard a rank"
    finish(*by_accelerate(how), broken)
    finish(*LAUNCHERS["two ranks"], TRAINER, whole)
    finish(*LAUNCHERS["two ranks"], plain)
    same_run(tmp_path / "whole", tmp_path / "run", updates)
    same_losses(tmp_path / "plain", tmp_path / "whole")
    exports_what_was_trained(tmp_path / "whole")


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("how", ["fsdp2", *ZERO])
def test_a_merged_adapter_is_the_reference_of_shards(how, rlve, model, tmp_path):
    adapter = get_peft_model(copy.deepcopy(model), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, weight in adapter.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(0, 0.1)
    adapter.base_model.model.name_or_path = adapter.peft_config["default"].base_model_name_or_path = rlve["model"]["name"]
    adapter.save_pretrained(tmp_path / "adapter")
    AutoTokenizer.from_pretrained(rlve["model"]["name"]).save_pretrained(tmp_path / "adapter")
    rlve["model"]["name"] = str(tmp_path / "adapter")
    rlve["rlve"] |= {"warmup": 0.0, "save_steps": None}
    finish(*LAUNCHERS["two ranks"], written(rlve | {"parallel": how}, tmp_path))
    first, *_, last = figures(tmp_path / "run")
    assert abs(first["kl"]) < 1e-6 < last["kl"] and first["sentinel/logp_gap"] < 1e-4


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("how", ["fsdp2", *ZERO])
def test_half_precision_begins_where_whole_weights_do(how, rlve, tmp_path):
    """Policy, reference and sampler are one model at first, positions included, and what is saved says its type."""
    rlve["model"]["dtype"] = "bfloat16"
    rlve["rlve"] |= {"updates": 2}
    recipes = [written(rlve | {"parallel": way}, tmp_path, out=str(tmp_path / way)) for way in ("ddp", how)]
    for recipe in recipes:
        finish(*LAUNCHERS["two ranks"], recipe)
    (plain, *_), (first, *_) = (figures(tmp_path / way) for way in ("ddp", how))
    assert first["kl"] == 0 and first["loss"] == plain["loss"] and first["sentinel/logp_gap"] == plain["sentinel/logp_gap"]
    assert json.loads((tmp_path / how / "model/config.json").read_text())["dtype"] == "bfloat16"
    assert {weight.dtype for weight in load_file(tmp_path / how / "model/model.safetensors").values()} == {torch.bfloat16}


# What is refused before any work

MUON = {"run": "sft", "data": "d", "parallel": "zero3", "sft": {"muon": 0.02}, "model": {"name": "m"}}
SHARDED = {"run": "rlve", "parallel": "fsdp2", "model": {"name": "m"}}
ADAPTER = SHARDED | {"model": {"name": "m", "lora": {}}, "rlve": {"engine": {"kind": "vllm"}}}
REFUSED = [
    (MUON, "Muon needs matrices"),
    (MUON | {"parallel": "zero2"}, "Muon needs matrices, and zero2"),
    (ADAPTER, "an adapter that fsdp2 shards cannot be merged for engine vllm"),
    (SHARDED | {"parallel": "ddp", "model": {"name": "m", "dtype": "float16"}}, "this one is to be float16"),
    (SHARDED | {"model": {"from_scratch": {}}}, "RLVE starts from a trained model"),
    (SHARDED | {"cpu": True, "rlve": {"engine": {"kind": "vllm"}}}, "engine vllm takes weights from a GPU"),
    (
        SHARDED | {"cpu": True, "rlve": {"engine": {"kind": "server", "url": "http://a:1"}}},
        "engine server takes weights from a GPU",
    ),
]
LET = [
    SHARDED,
    SHARDED | {"rlve": {"engine": {"kind": "vllm"}}},
    SHARDED | {"parallel": "zero2"},
    SHARDED | {"parallel": "zero3", "rlve": {"engine": {"kind": "vllm"}}},
    MUON | {"parallel": "ddp"},
    MUON | {"parallel": "fsdp2"},
    SHARDED | {"cpu": True, "parallel": "zero2"},
    SHARDED | {"cpu": True, "parallel": "zero3"},
]


def made(data: dict[str, Any]) -> SFTRecipe | RLVERecipe:
    return (SFTRecipe if data["run"] == "sft" else RLVERecipe).model_validate({"homerl": 1} | data)


@pytest.mark.parametrize(("data", "said"), REFUSED)
def test_what_cannot_be_spread_is_refused(data, said):
    with pytest.raises(InputError, match=said) as caught:
        refuse_untrainable(made(data))
    assert caught.value.remedy


@pytest.mark.parametrize("data", LET)
def test_what_can_be_is_not(data):
    refuse_untrainable(made(data))


def test_an_accelerate_configuration_given_outside_wins(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(InputError, match="zero2 flattens them"):
        refuse_untrainable(made(MUON | {"parallel": "ddp"}))


@pytest.mark.parametrize(("stage", "how"), [(3, "zero3"), (2, "zero2"), (1, "zero1")])
def test_the_stage_is_read_from_deepspeeds_own_configuration(stage, how, monkeypatch, tmp_path):
    """Where accelerate's configuration names one: there the stage of the environment is none of its business."""
    own = tmp_path / "deepspeed.json"
    own.write_text(json.dumps({"zero_optimization": {"stage": stage}}))
    outside = {"USE_DEEPSPEED": "true", "DEEPSPEED_CONFIG_FILE": str(own), "DEEPSPEED_ZERO_STAGE": "2"}
    for name, value in outside.items():
        monkeypatch.setenv(f"ACCELERATE_{name}", value)
    recipe = made(SHARDED)
    assert parallel_mode(recipe) == how and has_sharded_weights(recipe) == (stage == 3)
    missing = importlib.util.find_spec("deepspeed") is None
    assert any("deepspeed" in what for what in preflight._find_missing_packages(recipe)) == missing
    own.unlink()
    with pytest.raises(InputError, match="deepspeed.json"):
        parallel_mode(recipe)


@pytest.mark.long
def test_check_says_so_where_there_is_no_gpu_yet(tmp_path, base):
    path = written(base | ADAPTER | {"cpu": False}, tmp_path)
    done = homerl("check", path, cwd=ROOT)
    assert done.returncode == 2 and "cannot be merged for engine vllm" in " ".join(done.stderr.split())
