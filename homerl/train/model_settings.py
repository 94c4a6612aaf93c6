"""Which model is trained or played, as a recipe names it. Invariant: nothing here imports torch.

What a model gets before it is trained: fused kernels, then an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.host.recipe_files import NUMBER_FORMAT
from homerl.train.tiny_model import TinyConfig

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PreTrainedModel


AUTO: Literal["auto"] = "auto"


class LoraSettings(Model):
    """Low-rank adapters (peft)."""

    r: int = Field(32, ge=1, description="Rank of the adapters.")
    alpha: int = Field(64, ge=1, description="Scale: adapters are multiplied by `alpha / r`.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout (0 to 1) within the adapters.")
    target_modules: str | tuple[str, ...] = Field("all-linear", description="Modules with an adapter, as peft names them.")


class ModelSettings(Model):
    """The model: a hub id or folder (`name`), or one made `from_scratch`."""

    name: str | None = Field(None, description="Hub id or folder of the model.")
    from_scratch: TinyConfig | None = Field(
        None, description="Sizes of a model made from the training data, in place of `name`."
    )
    tools: Literal["schemas", "names"] = Field(
        "schemas",
        description="What a prompt in ChatML shows of the tools: their `names` alone suit a model that is trained for few "
        "toolsets, and learns them by heart.",
    )
    dtype: Annotated[Literal["float32", "bfloat16", "float16"], *NUMBER_FORMAT] = Field(
        "bfloat16",
        description="Number format of weights: `auto` is bfloat16 where the machine multiplies it, else float32; `float16` "
        "is for benchmarks.",
    )
    attention: Literal[
        "auto", "sdpa", "varlen", "flash_attention_2", "flash_attention_3", "kernels-community/vllm-flash-attn3"
    ] = Field(AUTO, description="Attention in training: `auto` takes what is installed.")
    kernels: Literal["auto", "none", "liger"] = Field(
        AUTO,
        description="Liger's kernels: `auto` takes them if they are installed and layers are not compiled.",
    )
    compile: bool | Literal["auto"] = Field(
        AUTO,
        description="Whether torch.compile fuses the small operations of layers; `auto` does it on CUDA where it can.",
    )
    lora: LoraSettings | None = Field(None, description="Low-rank adapters to train; null trains all weights.")
    parameters: float | None = Field(None, description="Billions of parameters, where files and name do not tell.")

    @property
    def shows_tool_names_only(self) -> bool:
        """Whether prompts show the names of tools alone."""
        return self.tools == "names"

    @model_validator(mode="after")
    def _one_source(self) -> ModelSettings:
        if (self.name is None) == (self.from_scratch is None):
            raise ValueError("give either `name` (hub id or folder) or `from_scratch`")
        return self


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
