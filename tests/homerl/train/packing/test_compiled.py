"""Compiled layers: losses and gradients are those of plain layers, and a row of another length compiles nothing anew."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from functorch.compile import make_boxed_func
from peft import LoraConfig, get_peft_model
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.envs.core.documents import InputError
from homerl.train import activation_memory as activations
from homerl.train import memory_estimate as memory
from homerl.train.packing.compiled_layers import CompiledLayers
from homerl.train.packing.packed_updates import PackedUpdates, TargetScores, TokenSequence
from homerl.train.packing.pass_budget import TokenBudget
from homerl.train.recipe import SFTRecipe, refuse_untrainable
from homerl.train.training_setup import make_compiled_layers

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PLAIN, RECOMPUTED = TokenBudget(1000, 1000), TokenBudget(0, 1000)


def made(family: str = "qwen3", lora: bool = False, **sizes: Any) -> Any:
    """A tiny float32 model with TRL's fused head, and with an adapter that is not zero."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(family, **(SIZES | sizes)), attn_implementation="sdpa"
    ).float()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if lora:
        model = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0, 0.2)
    return model


def group(seed: int) -> list[TokenSequence]:
    """Some rollouts with a common prompt; their lengths and their number depend on the seed."""
    rng = random.Random(seed)
    prompt = [rng.randrange(40) for _ in range(5 + 7 * seed)]
    rollouts = [prompt + [rng.randrange(40) for _ in range(rng.randrange(3, 30))] for _ in range(1 + seed)]
    return [TokenSequence.from_ids(ids, np.arange(len(prompt), len(ids))) for ids in rollouts]


def objective(members: list[int], scored: TargetScores) -> tuple[torch.Tensor, torch.Tensor]:
    return -(scored.logps + 0.1 * scored.entropy).sum(), torch.zeros(1)


def updated(model: Any, seed: int, updates: PackedUpdates) -> list[torch.Tensor]:
    """The loss of an update, and its gradients."""
    model.zero_grad()
    loss, _ = updates.train_on_sequences(model, group(seed), objective)
    return [loss, *(part.grad.clone() for part in model.parameters() if part.grad is not None)]


def packed(budget: TokenBudget, compiled: CompiledLayers | None = None) -> PackedUpdates:
    return PackedUpdates(Accelerator(cpu=True), budget, "auto", compiled=compiled)


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def equal_without_recompiling(model: Any, backend: str, off: float = 1e-5) -> None:
    plain = [updated(model, seed, packed(PLAIN)) for seed in range(3)]
    compiled = CompiledLayers(model, backend)
    updated(model, 1, packed(PLAIN, compiled))
    graphs = counters["stats"]["unique_graphs"]
    assert graphs
    for budget in (PLAIN, RECOMPUTED):
        for seed, expected in enumerate(plain):
            updates = packed(budget, compiled)
            updates.checked = True
            for found, wanted in zip(updated(model, seed, updates), expected, strict=True):
                torch.testing.assert_close(found, wanted, atol=off, rtol=off)
    assert counters["stats"]["unique_graphs"] == graphs


@pytest.mark.long
@pytest.mark.parametrize(
    ("lora", "backend"),
    [pytest.param(False, "aot_eager", id="full"), pytest.param(True, "eager", id="lora")],
)
def test_an_update_is_that_of_plain_layers_and_no_length_compiles_anew(lora, backend):
    equal_without_recompiling(made(lora=lora), backend)


@pytest.mark.long
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_fused_layers_too(lora):
    equal_without_recompiling(made(lora=lora), "inductor", 1e-4)


@pytest.mark.long
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_moe"])
def test_other_families_too(family):
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1}
    window = {"sliding_window": 6, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
    equal_without_recompiling(made(family, **{"gemma3_text": window, "qwen3_moe": experts}.get(family, {})), "eager")


def test_weights_keep_their_names_and_a_model_generates_as_before():
    model = made(num_hidden_layers=2)
    names, compiled, entered = list(model.state_dict()), CompiledLayers(model, "eager"), []
    updated(model, 1, packed(PLAIN, compiled))
    graphs = counters["stats"]["unique_graphs"]
    hook = model.model.layers[1].register_forward_pre_hook(lambda *_: entered.append(1))  # as a profiler's
    updated(model, 1, packed(PLAIN, compiled))
    hook.remove()
    assert entered
    with compiled.run_compiled():
        assert list(model.state_dict()) == names
    assert model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=3).shape == (1, 6)
    assert counters["stats"]["unique_graphs"] == graphs


def failing(error: Exception, backward: bool, times: int = 1000) -> Any:
    """A backend that raises so many times, for graphs of the forward or of the backward pass."""
    left = [error] * times

    def fail(graph: Any, inputs: Any) -> Any:
        if left:
            raise left.pop()
        return make_boxed_func(graph.forward)

    def work(graph: Any, inputs: Any) -> Any:
        return make_boxed_func(graph.forward)

    return aot_autograd(fw_compiler=work if backward else fail, bw_compiler=fail if backward else work)


@pytest.mark.parametrize(
    ("backward", "budget"),
    [pytest.param(False, PLAIN, id="forward"), pytest.param(True, RECOMPUTED, marks=pytest.mark.long, id="backward")],
)
def test_layers_that_cannot_be_compiled_run_as_they_are(backward, budget, caplog):
    model = made(num_hidden_layers=1)
    expected = updated(model, 2, packed(PLAIN))
    updates = packed(budget, CompiledLayers(model, failing(NotImplementedError("no such kernel"), backward)))
    for _ in range(2):
        for found, wanted in zip(updated(model, 2, updates), expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    said = [line for line in caplog.messages if "layers run as they are" in line]
    assert len(said) == 1 and "no such kernel" in said[0] and updates.budget == budget
    assert updates.score_sequences(model, group(1)).shape == (sum(len(one.targets) for one in group(1)),)


@pytest.mark.long
def test_memory_that_lacks_while_a_layer_is_compiled_halves_the_passes_and_layers_stay_compiled():
    model = made(num_hidden_layers=1)
    expected = updated(model, 2, packed(PLAIN))
    lacks = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    updates = packed(PLAIN, CompiledLayers(model, failing(lacks, backward=False, times=1)))
    updates.checked = True
    for found, wanted in zip(updated(model, 2, updates), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert updates.compiled and updates.budget == PLAIN.halved_budget()


def test_another_error_of_a_pass_is_raised():
    model = made(num_hidden_layers=1)
    updates = packed(PLAIN, CompiledLayers(model, "eager"))
    with pytest.raises(ZeroDivisionError):
        updates.train_on_sequences(model, group(1), lambda members, scored: 1 // 0)
    assert updates.compiled


def recipe(model: dict[str, Any] | None = None, **keys: Any) -> SFTRecipe:
    data = {"homerl": 1, "run": "sft", "out": "out", "data": "data", "model": {"name": "some/model"} | (model or {})}
    return SFTRecipe.model_validate(data | keys)


def test_layers_are_compiled_by_default_where_a_gpu_trains_whole_layers(monkeypatch):
    monkeypatch.setattr(memory, "find_spec", lambda name: name)
    for keys, expected in (({}, True), ({"cpu": True}, False), ({"parallel": "ddp"}, True), ({"parallel": "zero2"}, False)):
        found = recipe(**keys)
        assert (
            memory.uses_compiled_layers(found) is expected and (make_compiled_layers(made(), found) is not None) is expected
        )
        assert memory.uses_liger_kernels(found) is not (
            expected or keys == {"cpu": True}
        )  # which a compiler makes superfluous
    monkeypatch.setattr(memory, "which", lambda name: None)
    assert not memory.uses_compiled_layers(recipe())
    assert make_compiled_layers(made(), recipe(model={"compile": False})) is None
    with pytest.raises(InputError, match=r"model\.compile: there is no C compiler"):
        make_compiled_layers(made(), recipe(model={"compile": True}))


def test_compiled_layers_are_counted_as_fused_ones_where_these_can_be(monkeypatch):
    monkeypatch.setattr(activations, "count_model_memory", lambda config, settings, fused, *_: fused)
    monkeypatch.setattr(memory, "find_model_config", lambda model: {})
    monkeypatch.setattr(memory, "find_spec", lambda name: name)
    found = [memory.count_recipe_model(recipe(**keys), 100) for keys in ({}, {"parallel": "zero2"}, {"cpu": True})]
    assert found == [True, True, False]
    monkeypatch.setattr(memory, "find_spec", lambda name: name != "liger_kernel" or None)
    assert not memory.count_recipe_model(recipe(), 100)


def test_layers_in_shards_are_refused():
    with pytest.raises(InputError, match=r"model\.compile: zero3 hooks into the parts of a layer"):
        refuse_untrainable(recipe(model={"compile": True}, parallel="zero3"))
