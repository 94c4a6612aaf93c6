"""Counts the weights of a model, and what it keeps for its backward pass, from its configuration alone.

The model is made on device `meta`, with its adapter and its fused kernels, and forwards one row of fake tensors: these have
sizes and no values. So the count is of the code that trains, whatever the family. Kernels of Triton are not started.

Invariants: no weight is made and nothing is computed; the process is afterwards as it was before; a storage counts once and
as a whole, however many views of it are kept; weights and buffers are not counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.func import functional_call
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, masking_utils
from transformers.integrations import moe
from transformers.modeling_layers import GradientCheckpointingLayer

from homerl.envs.core.documents import InputError
from homerl.train.model_settings import (
    ModelSettings,
    find_packing_obstacle,
    fuse_liger_kernels,
    make_lora_config,
    match_adapter_dtype,
    refuse_hidden_decoder,
    sizes_from_config,
)
from homerl.train.packing.attention import (
    Kernel,
    attend_by_segment,
    attend_by_torch_varlen,
    choose_attention_kernel,
    use_packed_attention,
)
from homerl.train.packing.packed_updates import TokenSequence, list_attention_configs, pack_row
from homerl.train.packing.pass_budget import TokenBytes
from homerl.train.workarounds import load_unsharded

LONGEST = 2048  # tokens of a row that is counted; what grows with their square weighs little up to here
NOT_FORWARDED = ("shift_labels", "fused_lm_head")  # of the head, whose tiles are counted for themselves


@dataclass(frozen=True)
class ModelCount:
    """The numbers of a model's weights (without its adapter) and of those that are trained; a token's activations."""

    parameters: int
    trained: int
    token: TokenBytes


def count_model_memory(
    config: Mapping[str, Any], settings: ModelSettings, fused: bool, device: str, longest: int
) -> ModelCount:
    """The count of a model with this configuration (its `config.json`), trained as the settings say.

    It trains on a `device` ("cpu" or "cuda"), with sequences of at most `longest` tokens, and with Liger's kernels if
    `fused`. Raises `InputError` for a model that transformers does not know, and for adapters of modules that it lacks.
    """
    used = settings.model_copy(update={"name": None, "from_scratch": None, "parameters": None})
    return _count_once(json.dumps(config, sort_keys=True), used, fused, device, min(longest, LONGEST))


@cache
def _count_once(config: str, settings: ModelSettings, fused: bool, device: str, tokens: int) -> ModelCount:
    values = json.loads(config)
    with ExitStack() as undone, load_unsharded():
        model = _make_meta_model(values, settings, fused, undone)
        sizes = [(part.numel(), part.requires_grad) for part in model.parameters()]
        try:
            token = _forward_fake_row(model, _choose_kernel(model, settings, device), tokens)
        except (DataDependentOutputException, DynamicOutputShapeException):  # its code looks at values, which none has
            like = _make_meta_model(sizes_from_config(values).config, settings, fused, undone)
            token = _forward_fake_row(like, _choose_kernel(like, settings, device), tokens)
    trained = sum(size for size, trains in sizes if trains)
    return ModelCount(sum(size for size, _ in sizes) - (trained if settings.lora else 0), trained, token)


def _make_meta_model(values: Mapping[str, Any], settings: ModelSettings, fused: bool, undone: ExitStack) -> PreTrainedModel:
    """A model on device `meta`, as it is trained. What Liger changes in the model's own file lasts until `undone`."""
    try:
        with torch.device("meta"):
            made = AutoConfig.for_model(**values)
            model = AutoModelForCausalLM.from_config(made, dtype=getattr(torch, settings.dtype))
    except (TypeError, ValueError) as error:
        what = f"transformers makes no language model of its configuration: {str(error).splitlines()[0]}"
        raise InputError(what, "model.name", "name a model that transformers can load") from error
    refuse_hidden_decoder(model)
    if fused:
        from triton.runtime.jit import KernelInterface

        undone.enter_context(patch.dict(vars(sys.modules[type(model).__module__])))
        undone.enter_context(patch.object(KernelInterface, "__getitem__", lambda kernel, grid: lambda *args, **kwargs: None))
        fuse_liger_kernels(model)
    if settings.lora:
        from peft import get_peft_model  # which loads much that a model without adapters does not need

        try:
            with torch.device("meta"):
                model = get_peft_model(model, make_lora_config(settings, model))
        except ValueError as error:
            raise InputError(str(error), "model.lora.target_modules", "name modules that this model has") from error
        match_adapter_dtype(model)
    return model.train()


def _choose_kernel(model: PreTrainedModel, settings: ModelSettings, device: str) -> Kernel | None:
    """What attends to packed rows, or None. The kernels of packages keep what torch's own does."""
    if find_packing_obstacle(model.config.to_dict()):
        return None
    _, kernel = choose_attention_kernel(settings.attention, device, settings.dtype != "float32")
    return attend_by_segment if kernel is attend_by_segment else attend_by_torch_varlen


def _forward_fake_row(model: PreTrainedModel, kernel: Kernel | None, tokens: int) -> TokenBytes:
    """What a token of a row of one sequence keeps in the model's layers."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    decoder = base.get_decoder()
    attention = use_packed_attention(*list_attention_configs(model)) if kernel else nullcontext()
    with FakeTensorMode(), _allow_fake_tensors(), attention, ExitStack() as hooks:
        named = [*decoder.named_parameters(), *decoder.named_buffers()]
        fakes = {name: torch.empty(part.shape, dtype=part.dtype).requires_grad_(part.requires_grad) for name, part in named}
        row = pack_row([TokenSequence.from_ids(range(tokens + 1), np.array([tokens]))], kernel, "cpu")
        inputs = {name: value for name, value in row.inputs.items() if name not in NOT_FORWARDED}
        kept = _KeptStorages({part.untyped_storage()._cdata for part in fakes.values()})
        for layer in decoder.modules():
            if isinstance(layer, GradientCheckpointingLayer):
                hooks.callback(layer.register_forward_pre_hook(kept.enter_layer, with_kwargs=True).remove)
                hooks.callback(layer.register_forward_hook(kept.leave_layer).remove)
        with torch.autograd.graph.saved_tensors_hooks(kept.pack_saved_tensor, lambda packed: packed):
            output = functional_call(decoder, fakes, (), inputs | {"use_cache": False})
        kept.pack_saved_tensor(output.last_hidden_state)  # the head's input
        return kept.bytes_per_token(tokens)


@contextmanager
def _allow_fake_tensors() -> Iterator[None]:
    """Within the context transformers takes fake tensors as it takes real ones of a single sequence."""
    with (
        patch.object(moe, "_grouped_mm", lambda rows, weight, offs: rows.to(weight.dtype) @ weight[0]),  # keeps the same
        patch.object(masking_utils, "is_tracing", lambda *args: False),  # else it makes masks that a real row has not
        patch.object(masking_utils, "find_packed_sequence_indices", lambda *args: None),
    ):
        yield


@dataclass
class _KeptStorages:
    """The storages that a forward pass keeps, with their bytes: of each layer, of the layers' inputs, and others."""

    weights: set[int]
    others: dict[int, int] = field(default_factory=dict)
    inputs: dict[int, int] = field(default_factory=dict)
    layers: list[dict[int, int]] = field(default_factory=list)
    held: list[torch.UntypedStorage] = field(default_factory=list)  # so that no other storage gets the address of one
    within: bool = False

    def pack_saved_tensor(self, tensor: torch.Tensor) -> None:
        self._add_storage(tensor, self.layers[-1] if self.within else self.others)

    def enter_layer(self, layer: torch.nn.Module, args: object, kwargs: object) -> None:
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, torch.Tensor):
                self._add_storage(value, self.inputs)
        self.layers.append({})
        self.within = True

    def leave_layer(self, *_: object) -> None:
        self.within = False

    def _add_storage(self, tensor: torch.Tensor, to: dict[int, int]) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.weights:
            self.held.append(storage)
            to[storage._cdata] = storage.nbytes()

    def bytes_per_token(self, tokens: int) -> TokenBytes:
        # what all layers keep; and what is kept with checkpointing: the layers' inputs, and one layer that runs again
        every, once = dict(self.others), self.others | self.inputs
        for layer in self.layers:
            every |= layer
        # checkpointing keeps the layers' inputs, so these are no part of what the one layer keeps besides
        largest = max((sum(layer[key] for key in layer.keys() - once) for layer in self.layers), default=0)
        sizes = sum(every.values()), sum(once.values()) + largest, largest
        return TokenBytes(*(-(-size // tokens) for size in sizes))
