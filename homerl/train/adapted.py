"""What a model gets before it is trained: fused kernels, then an adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homerl.train.model import ModelSettings

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PreTrainedModel


def fuse_liger_kernels(model: PreTrainedModel) -> None:
    """Give a model Liger's kernels, where Liger knows its family."""
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    _apply_liger_kernel_to_instance(model, cross_entropy=False, fused_linear_cross_entropy=False)  # TRL has a head


def make_lora_config(settings: ModelSettings) -> LoraConfig | None:
    """The configuration of the adapter, or None if all weights are trained."""
    if settings.lora is None:
        return None
    from peft import LoraConfig

    lora = settings.lora
    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    return LoraConfig(
        r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=modules, task_type="CAUSAL_LM"
    )
