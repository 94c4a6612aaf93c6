"""The policy of RLVE beside what transformers loads: its adapter, its head, and the reference of its KL divergence.

Invariants: the reference has the weights that training starts from, to the bit; the head's log-probabilities are those that
the sampler draws from, at the recipe's temperature.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import torch
from accelerate import Accelerator, DistributedType
from peft import PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from torch.nn import Module
from torch.nn.functional import linear
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import add_fused_lm_head

from homerl.envs.core.documents import InputError
from homerl.train.model_settings import make_lora_config
from homerl.train.parallel.sharding import copy_model, shard_frozen_model
from homerl.train.recipe import LossSettings, RLVERecipe, parallel_mode, starts_without_weights


def prepare_policy(
    model: PreTrainedModel, recipe: RLVERecipe, tokenizer: PreTrainedTokenizerBase
) -> PreTrainedModel | PeftModel:
    """The model as it is trained: with the recipe's adapter, and with the tokenizer's padding.

    Raises `InputError` for an adapter of the head, which the fused head would not train.
    """
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model.config.get_text_config().pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    if recipe.rlve.head == "float32":
        if recipe.model.dtype != "float32":  # TF32 multiplies 16-bit numbers exactly
            torch.backends.cuda.matmul.allow_tf32 = True
        head = model.get_output_embeddings()
        head.forward = MethodType(_forward_in_float32, head)
    if (config := make_lora_config(recipe.model, model)) is None:
        return model
    # ZeRO-3 gathers weights of one number format together, so adapters have the base's
    policy = get_peft_model(model, config, autocast_adapter_dtype=parallel_mode(recipe) != "zero3")
    if isinstance(policy.get_output_embeddings(), BaseTunerLayer):
        what = "an adapter of the model's head would not be trained"
        raise InputError(what, "model.lora.target_modules", "leave the head out")
    return policy


def _forward_in_float32(head: torch.nn.Linear, hidden: torch.Tensor) -> torch.Tensor:
    """The logits, computed in float32; the weights stay as they are."""
    return linear(hidden.float(), head.weight.float(), None if head.bias is None else head.bias.float())


def add_scoring_head(model: PreTrainedModel | PeftModel, settings: LossSettings, *outputs: str) -> None:
    """Give a model TRL's fused head, which scores targets without complete logits. A copy of the model would have the
    original's.
    """
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    add_fused_lm_head(base, settings.temperature, settings.head == "float32", ("log_probs", *outputs))


def place_frozen_model(model: PreTrainedModel, accelerator: Accelerator) -> Module:
    """A model that is not trained, on the accelerator's device, in shards if the policy is."""
    if accelerator.distributed_type in (DistributedType.DEEPSPEED, DistributedType.FSDP):
        return shard_frozen_model(model, accelerator)
    return accelerator.prepare_model(model, evaluation_mode=True)


class ReferenceModel:
    """The model that training starts from: the policy without its adapter, or a copy of it that is not trained."""

    def __init__(self, recipe: RLVERecipe, model: PreTrainedModel) -> None:
        """Copy the model before it is changed, if the recipe needs a copy."""
        self.settings, self.model = recipe.rlve, None
        if recipe.rlve.kl and recipe.model.lora is None:
            self.model = copy_model(model, starts_without_weights(recipe)).eval()

    def place_on_device(self, accelerator: Accelerator) -> None:
        """Bring the copy to the device, in shards if the policy is."""
        if self.model is None:
            return
        add_scoring_head(self.model, self.settings)
        self.model = place_frozen_model(self.model, accelerator)

    @contextmanager
    def use_reference(self, policy: Module, accelerator: Accelerator) -> Iterator[Module]:
        """The model to score with in the context: the copy, or the policy, which has no adapter there."""
        if self.model is not None:
            yield self.model
            return
        with accelerator.unwrap_model(policy).disable_adapter():
            yield policy
