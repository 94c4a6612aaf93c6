"""Tiny mixtures of experts through SFT, RLVE and export: trainer, sampler and merged model have equal log-probabilities."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from crossed import crossed
from families import EXPERTS, SIZES
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.envs.core.documents import InputError
from homerl.report.cards.export import export_model
from homerl.train.activation_memory import count_model_memory
from homerl.train.engines import weight_sync as synced
from homerl.train.engines.transformers import InPlace
from homerl.train.engines.weight_sync import merge_adapter_weights, name_as_saved
from homerl.train.model_settings import ModelSettings, make_lora_config
from homerl.train.packing.draws import list_random_settings
from homerl.train.packing.packed_updates import PackedUpdates, TargetScores, TokenSequence
from homerl.train.packing.pass_budget import TokenBudget
from homerl.train.packing.router_balance import RouterBalance
from homerl.train.recipe import RLVERecipe, SFTRecipe
from homerl.train.training_setup import describe_differences, load_trainable_model
from homerl.train.update import rlve
from homerl.train.update.rlve import RLVETrainer, train_rlve
from homerl.train.update.sft import train_sft
from homerl.train.watch.lost_signal import SignalLost

LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True}
FAMILIES = {
    "qwen3_moe": EXPERTS | {"output_router_logits": True},
    "mixtral": LOCAL | {"router_jitter_noise": 0.1},
    "phimoe": LOCAL | {"router_jitter_noise": 0.1, "input_jitter_noise": 0.1},
}
PRUDENT = 1e-4  # nats, of any token
LORA = {"r": 4, "alpha": 64}
each_family = pytest.mark.parametrize("family", FAMILIES)


def made(family: str, **sizes: Any) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(family, **(SIZES | FAMILIES.get(family, {}) | sizes))
    ).float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
    return model


def shuffled(policy: Any) -> Any:
    """A policy whose adapter says something."""
    torch.manual_seed(1)
    for name, weight in policy.named_parameters():
        if "lora_" in name:
            weight.data.normal_(0, 0.2)
    return policy


def logps(model: Any, one: TokenSequence) -> torch.Tensor:
    """By the model's own logits."""
    with torch.no_grad():
        every = model.eval()(input_ids=torch.tensor(one.ids)[None], use_cache=False).logits[0].log_softmax(-1)
    return every[one.targets - 1].gather(1, torch.tensor(one.ids[one.targets])[:, None])[:, 0]


def served(start: Path, named: dict[str, torch.Tensor], folder: Path) -> Any:
    """The model that a server makes of the names and weights that it is sent; none may be missing or unknown."""
    assert named.keys() == load_file(start / "model.safetensors").keys()
    AutoConfig.from_pretrained(start).save_pretrained(folder)
    save_file({name: weight.contiguous() for name, weight in named.items()}, folder / "model.safetensors", {"format": "pt"})
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.fixture
def sent(monkeypatch):
    """What TRL's own object, without the vLLM that it drives, names and sends to a server."""
    from trl.generation.vllm_generation import VLLMGeneration

    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: None)

    def iterate(model: Any) -> dict[str, torch.Tensor]:
        trainer = SimpleNamespace(model=model, accelerator=Accelerator(cpu=True), processing_class=None)
        generation = synced.make_vllm_generation(
            trainer, mode="server", server_base_url="http://a:1", group_port=1, server_timeout=1.0
        )
        generation._dist = SimpleNamespace(is_fsdp=False, gather_params=lambda weights: torch.no_grad())
        return dict(generation._iter_named_params())

    return iterate


@pytest.fixture
def start(tokenizer, tmp_path):
    def save(family: str) -> Path:
        folder = tmp_path / "start"
        made(family, vocab_size=len(tokenizer)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


@pytest.fixture
def recipes(dialogues, task, tmp_path):
    """One of SFT from a folder, and one of RLVE from what SFT leaves."""
    common = {"homerl": 1, "cpu": True, "parallel": "none", "wandb": {"mode": "disabled"}}

    def make(folder: Path) -> tuple[SFTRecipe, RLVERecipe]:
        model = {"dtype": "float32", "lora": LORA}
        sft = {"run": "sft", "out": tmp_path / "sft", "data": str(dialogues), "model": model | {"name": str(folder)},
               "sft": {"dialogues_per_update": 4, "max_steps": 2, "save_steps": None, "learning_rate": 1e-2}}  # fmt: skip
        settings = {"learning_rate": 1e-2, "lr_scheduler": "constant", "warmup": 0.0, "updates": 1, "save_steps": None,
                    "blueprints_per_update": 2, "group": 2, "max_tokens": 16, "max_episode_tokens": 512}  # fmt: skip
        played = {"run": "rlve", "out": tmp_path / "rlve", "model": model | {"name": str(tmp_path / "sft/model")},
                  "blueprints": {"recipe": task.model_dump(), "count": 4}, "rlve": settings,
                  "limits": {"turns": 2, "steps": 2, "steps_per_turn": 1}}  # fmt: skip
        return SFTRecipe.model_validate(common | sft), RLVERecipe.model_validate(common | played)

    return make


@pytest.mark.parametrize(  # the routers of all have a test of their own
    "family", [pytest.param(one, marks=pytest.mark.long) if one != "qwen3_moe" else one for one in FAMILIES]
)
def test_trainer_sampler_and_merged_model_agree_after_sft_rlve_and_export(
    family, start, recipes, sent, monkeypatch, tmp_path
):
    seen: list[RLVETrainer] = []

    class Watched(RLVETrainer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            seen.append(self)

    monkeypatch.setattr(rlve, "RLVETrainer", Watched)
    folder = start(family)
    first, second = recipes(folder)
    train_sft(first)
    train_rlve(second)
    [trainer] = seen
    policy, tokens = trainer.model, trainer.objective.tokens
    one = next(part for part in tokens.sequences if len(part.targets))
    assert trainer.compared
    trained = trainer.updates.score_sequences(policy, [one])
    weights = sent(policy)
    sampler = served(folder, weights, tmp_path / "served")
    exported = export_model(tmp_path / "rlve", str(tmp_path / "exported"))
    merged = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32)
    torch.testing.assert_close(logps(sampler, one), trained, atol=PRUDENT, rtol=0)
    torch.testing.assert_close(logps(merged, one), trained, atol=PRUDENT, rtol=0)
    if policy.active_peft_config.target_parameters:
        with pytest.raises(InputError, match="without --adapter"):
            export_model(tmp_path / "rlve", str(tmp_path / "adapter"), adapter=True)
    before = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert (logps(before, one) - trained).abs().mean() > 100 * PRUDENT


@each_family
def test_a_sampler_is_sent_the_experts_with_their_adapters_each_by_its_own_name(family, sent, tmp_path):
    """As the model's files name them; whole models, too."""
    made(family).save_pretrained(tmp_path / "start")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "start", dtype=torch.float32)
    one = TokenSequence.from_ids([3 + i for i in range(20)], np.arange(4, 20))
    whole = sent(model)
    assert not [name for name in whole if "gate_up_proj" in name]
    torch.testing.assert_close(logps(served(tmp_path / "start", whole, tmp_path / "whole"), one), logps(model, one))
    settings = ModelSettings.model_validate({"name": "m", "lora": LORA})
    policy = shuffled(get_peft_model(model, make_lora_config(settings, model)))
    expected = logps(policy, one)
    found = served(tmp_path / "start", sent(policy), tmp_path / "adapted")
    torch.testing.assert_close(logps(found, one), expected, atol=PRUDENT, rtol=0)
    with policy.disable_adapter():
        assert (logps(policy, one) - expected).abs().mean() > 0.01


def test_an_adapter_that_no_weight_takes_is_refused(monkeypatch):
    policy = get_peft_model(made("qwen3_moe"), LoraConfig(r=2, target_modules="all-linear"))
    known = synced.find_adapted_weights
    monkeypatch.setattr(synced, "find_adapted_weights", lambda model: dict([*known(model).items()][1:]))
    with pytest.raises(InputError, match=r"model\.lora\.target_modules: the adapter of .*lora_A.* cannot be merged"):
        list(merge_adapter_weights(policy))


def test_a_dense_model_is_sent_by_the_names_that_it_has():
    model = made("qwen3")
    own = [(name, weight.data) for name, weight in model.named_parameters()]
    assert all(sent is kept for (_, sent), (_, kept) in zip(name_as_saved(model, own), own, strict=True))


SEQUENCES = [TokenSequence.from_ids([3 + (7 * i + k) % 50 for i in range(24)], np.arange(6, 24)) for k in range(2)]
RANDOM: dict[str, dict[str, Any]] = {
    "phimoe": FAMILIES["phimoe"] | {"output_router_logits": False},
    "mixtral": FAMILIES["mixtral"] | {"output_router_logits": False, "attention_dropout": 0.3},
    "seed_oss": {"attention_dropout": 0.3, "residual_dropout": 0.3},
    "opt": {"dropout": 0.4, "layerdrop": 0.3, "ffn_dim": 48, "word_embed_proj_dim": 32},
}


@pytest.mark.parametrize("budget", [TokenBudget(1000, 1000), TokenBudget(0, 1000)], ids=["kept", "recomputed"])
@pytest.mark.parametrize("family", RANDOM)
def test_rlve_draws_nothing_at_random_that_the_sampler_does_not(family, budget):
    """The log-probabilities of an update are those of evaluation, and stay so where layers are computed again."""
    model = made(family, **RANDOM[family])
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    assert list_random_settings(model.config.to_dict())
    expected = torch.cat([logps(model, one) for one in SEQUENCES])

    def trained(draws: bool) -> tuple[torch.Tensor, bool]:
        found: dict[int, torch.Tensor] = {}
        asked = []

        def objective(members: list[int], scored: TargetScores) -> tuple[torch.Tensor, torch.Tensor]:
            for i, part in zip(members, scored.logps.detach().split([18] * len(members)), strict=True):
                found[i] = part
            asked.append(model.is_gradient_checkpointing)
            return -scored.logps.sum(), torch.zeros(1)

        model.zero_grad()
        updates = PackedUpdates(Accelerator(cpu=True), budget, "auto", unpackable="each alone", draws=draws)
        updates.train_on_sequences(model, SEQUENCES, objective)
        return torch.cat([found[i] for i in sorted(found)]), asked[0]

    same, recomputed = trained(draws=False)
    torch.testing.assert_close(same, expected, atol=1e-4, rtol=1e-4)
    assert recomputed == (budget.plain == 0)
    assert all(weight.grad is not None for weight in model.parameters() if weight.dim() == 2)
    model = made(family, **RANDOM[family])  # a model is trained in one way: what switches its draws off stays on it
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    assert (trained(draws=True)[0] - expected).abs().mean() > 1e-3


@crossed(family=list(FAMILIES), lora=[False, True], budget=[TokenBudget(1000, 1000), TokenBudget(0, 1000)])
def test_the_routers_loss_has_the_gradients_of_transformers(family, lora, budget):
    """Passes of equal lengths count alike, and so do the mean losses that transformers gives for each sequence."""
    settings = ModelSettings.model_validate({"name": "m", "lora": LORA if lora else None})
    still = {"router_jitter_noise": 0.0, "input_jitter_noise": 0.0}

    def start(fused: bool) -> Any:
        model = made(family, output_router_logits=False, **still)
        if fused:
            add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
        return shuffled(get_peft_model(model, make_lora_config(settings, model))) if lora else model

    theirs = start(fused=False).eval()
    for one in SEQUENCES:
        with torch.enable_grad():
            forwarded = torch.tensor(one.ids[:-1])[None]  # nothing is predicted at the last token
            theirs(input_ids=forwarded, output_router_logits=True).aux_loss.backward()
    expected = {name: weight.grad / len(SEQUENCES) for name, weight in theirs.named_parameters() if weight.grad is not None}
    assert any("gate" in name or "router" in name for name in expected) or lora
    ours = start(fused=True)
    balance = RouterBalance(ours, 2.0)
    updates = PackedUpdates(Accelerator(cpu=True), budget, "auto", unpackable="each alone", draws=False, balance=balance)
    updates.train_on_sequences(ours, SEQUENCES, lambda _, scored: (0.0 * scored.logps.sum(), torch.zeros(1)))
    found = dict(ours.named_parameters())
    assert len(expected) > 4
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name].grad, 2.0 * gradient, atol=1e-5, rtol=1e-3, msg=name)


def test_sft_makes_the_load_of_experts_even(start, recipes):
    """All weights are trained, by the routers' loss far more than by the dialogues."""
    plain, _ = recipes(start("qwen3_moe"))
    found = {}
    for factor in (None, 100.0):
        data = plain.model_dump(mode="json", exclude_unset=True)
        data["model"].pop("lora")
        data["sft"] |= {"router_aux_loss": factor, "max_steps": 6}
        recipe = SFTRecipe.model_validate(data | {"out": str(plain.out.with_name(f"sft-{factor}"))})
        train_sft(recipe)
        model = AutoModelForCausalLM.from_pretrained(recipe.out / "model", dtype=torch.float32).eval()
        ids = torch.tensor(SEQUENCES[0].ids)[None]
        found[factor] = model(input_ids=ids, output_router_logits=True).aux_loss.item() - model.config.num_experts_per_tok
    assert 0 <= found[100.0] < 0.7 * found[None]


def test_a_model_without_routers_that_are_known_has_no_such_loss():
    for family in ("qwen3", "llama4_text"):
        sizes = {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 48, "attention_chunk_size": 64}
        with pytest.raises(InputError, match=r"sft\.router_aux_loss: transformers does not say"):
            RouterBalance(made(family, **(sizes if family == "llama4_text" else {})), 0.1)


def test_what_is_trained_otherwise_than_a_configuration_says_is_said():
    model = made("phimoe")
    settings = ModelSettings.model_validate({"name": "m", "lora": LORA})
    said = " ".join(describe_differences(get_peft_model(model, make_lora_config(settings, model)), draws=False))
    assert "router_jitter_noise: 0.1" in said and "is no part of this training" in said and "no adapters" in said
    assert not [*describe_differences(made("qwen3"), draws=False)]
    assert "is no part" not in " ".join(describe_differences(model, draws=True, balanced=True))


def test_dropout_in_the_adapters_of_experts_is_refused():
    settings = ModelSettings.model_validate({"name": "m", "lora": LORA | {"dropout": 0.1}})
    with pytest.raises(InputError, match=r"model\.lora\.dropout: adapters of experts have no dropout"):
        make_lora_config(settings, made("qwen3_moe"))
    assert make_lora_config(settings, made("qwen3")).exclude_modules is None


def test_llama_4_is_refused_by_name(tmp_path):
    sizes = {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 48, "attention_chunk_size": 64}
    made("llama4_text", **sizes).save_pretrained(tmp_path)
    recipe = SimpleNamespace(
        model=ModelSettings.model_validate({"name": str(tmp_path), "dtype": "float32"}), parallel="none", cpu=True
    )
    with pytest.raises(InputError, match=r"model\.name: Llama4ForCausalLM"):
        load_trainable_model(recipe, str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    with pytest.raises(InputError, match=r"model\.name: Llama4ForCausalLM"):  # and by `homerl check`, without weights
        count_model_memory(config, recipe.model, fused=False, device="cpu", longest=16)


def test_a_sampler_with_other_weights_ends_the_run_at_its_first_episode(start, recipes, monkeypatch):
    """Before its first update."""
    whole = InPlace._generate

    def off(self, prompts):
        return [type(one)(one.ids, tuple(logp - 0.01 for logp in one.logprobs), one.version) for one in whole(self, prompts)]

    monkeypatch.setattr(InPlace, "_generate", off)
    _, played = recipes(start("qwen3_moe"))
    played = played.model_copy(update={"model": played.model.model_copy(update={"name": str(start("qwen3_moe"))})})
    with pytest.raises(SignalLost, match=r"first episode differ from the trainer's by 0\.01 nats .* explains 0\.001"):
        train_rlve(played)
