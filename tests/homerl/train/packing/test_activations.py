"""What the count says that a model keeps for its backward pass, against the memory that a real forward pass allocates."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from families import ALONE, PACKED, SIZES
from peft import get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM

from homerl.envs.core.documents import InputError
from homerl.train.activation_memory import count_model_memory
from homerl.train.model_settings import (
    KNOWN,
    LoraSettings,
    ModelSettings,
    find_packing_obstacle,
    make_lora_config,
    match_adapter_dtype,
    sizes_from_config,
)
from homerl.train.packing.attention import attend_by_segment, use_packed_attention
from homerl.train.packing.packed_updates import TokenSequence, list_attention_configs, pack_row

TOKENS = 256
QWEN3_8B = KNOWN["Qwen3-8B"].config
FULL, LORA = (ModelSettings(name="some", lora=lora) for lora in (None, LoraSettings(r=32)))
FAMILIES = {**PACKED, **ALONE}


def config_of(family: str) -> dict[str, Any]:
    return {"model_type": family, **SIZES, **FAMILIES[family], "max_position_embeddings": 4096}


def real(config: dict[str, Any], settings: ModelSettings) -> Any:
    made = AutoConfig.for_model(**config)
    model = AutoModelForCausalLM.from_config(made, dtype=getattr(torch, settings.dtype))
    if settings.lora:
        model = get_peft_model(model, make_lora_config(settings, model))
        match_adapter_dtype(model)
    return model.train()


def held(model: Any) -> float:
    """Bytes of a token that a forward pass has allocated and not freed, of a row of one sequence, without the head."""
    decoder = (model.get_base_model() if hasattr(model, "get_base_model") else model).get_decoder()
    packs = find_packing_obstacle(model.config.to_dict()) is None
    row = pack_row(
        [TokenSequence.from_ids([3] * (TOKENS + 1), np.array([TOKENS]))], attend_by_segment if packs else None, "cpu"
    )
    inputs = {name: value for name, value in row.inputs.items() if name not in ("shift_labels", "fused_lm_head")}
    attention = use_packed_attention(*list_attention_configs(model)) if packs else nullcontext()
    with attention, profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        output = decoder(**inputs, use_cache=False).last_hidden_state
    assert output.requires_grad
    return sum(event.self_cpu_memory_usage for event in seen.key_averages()) / TOKENS


SETTINGS = {
    "all": ModelSettings(name="some", dtype="float32"),
    "all, bfloat16": ModelSettings(name="some", dtype="bfloat16"),
    "lora": ModelSettings(name="some", dtype="float32", lora=LoraSettings(r=4)),
    "lora, bfloat16": ModelSettings(name="some", dtype="bfloat16", lora=LoraSettings(r=4)),
}


def pairs() -> Iterator[Any]:
    """Each setting with one family by default; the other combinations are long."""
    for at, family in enumerate(FAMILIES):
        for number, settings in enumerate(SETTINGS):
            yield pytest.param(family, settings, marks=[] if at == 3 * number else [pytest.mark.long])


@pytest.mark.parametrize(("family", "settings"), pairs())
def test_the_count_is_what_a_forward_pass_keeps(family, settings):
    config, model = config_of(family), real(config_of(family), SETTINGS[settings])
    found = count_model_memory(config, SETTINGS[settings], False, "cpu", TOKENS)
    assert held(model) == pytest.approx(found.token.kept, rel=0.05)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.disable_input_require_grads()  # else peft keeps the embeddings, once more
    assert held(model) + found.token.layer == pytest.approx(found.token.recomputed, rel=0.05)


def megabytes(settings: ModelSettings, fused: bool) -> float:
    return round(count_model_memory(QWEN3_8B, settings, fused, "cuda", 8192).token.kept / 1e6, 2)


def test_an_8b_model_keeps_so_much_of_a_token():
    assert (megabytes(FULL, False), megabytes(LORA, False)) == (7.79, 6.82)
    found = count_model_memory(QWEN3_8B, LORA, False, "cuda", 8192)
    assert (found.trained, found.parameters) == (87_293_952, 8_190_735_360)


def test_fused_kernels_keep_less_and_are_gone_after_the_count():
    pytest.importorskip("liger_kernel")
    from transformers.models.qwen3 import modeling_qwen3
    from triton.runtime.jit import KernelInterface

    before = {**vars(modeling_qwen3)}, KernelInterface.__getitem__
    assert (megabytes(FULL, True), megabytes(LORA, True)) == (4.97, 4.98)
    assert ({**vars(modeling_qwen3)}, KernelInterface.__getitem__) == before


@pytest.mark.parametrize("family", FAMILIES)
def test_fused_kernels_are_counted_in_every_family(family):
    pytest.importorskip("liger_kernel")
    fused, plain = (
        count_model_memory(config_of(family), SETTINGS["lora, bfloat16"], how, "cuda", TOKENS) for how in (True, False)
    )
    assert fused.token.kept < plain.token.kept or family in {"lfm2", "granitemoehybrid"}, "Liger knows no such family"


def test_a_model_whose_code_looks_at_values_is_counted_as_a_qwen3_of_its_sizes():
    config = config_of("llama") | {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}
    found, like = (
        count_model_memory(one, SETTINGS["lora"], False, "cpu", TOKENS) for one in (config, sizes_from_config(config).config)
    )
    assert found.token == like.token and found.parameters < like.parameters, "norms of queries and keys are Qwen3's"


def test_what_cannot_be_made_is_refused():
    with pytest.raises(InputError, match=r"model\.name: transformers makes no language model of its configuration"):
        count_model_memory({"model_type": "perhaps"}, SETTINGS["all"], False, "cpu", TOKENS)
    adapter = ModelSettings(name="some", lora=LoraSettings(target_modules=("no_such",)))
    with pytest.raises(InputError, match=r"model\.lora\.target_modules: .*no_such"):
        count_model_memory(config_of("llama"), adapter, False, "cpu", TOKENS)
