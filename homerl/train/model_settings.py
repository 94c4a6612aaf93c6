"""Which model is trained or played, as a recipe names it; its configuration and sizes; and what it gets before training.

Whether its sequences can share a packed row: they can if their tokens meet in attention alone, and in no kind of it that a
packed row lacks. A layer with convolutions or a recurrent state mixes neighbouring tokens, so in a packed row it would mix
dialogues. Such a model is trained with one sequence a row, by its own attention, and shares no prompt. That is exact, and
slower.

Invariant: no torch and no network, since recipes are checked with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from homerl.envs.core.documents import InputError, read_json
from homerl.envs.core.model import Model
from homerl.host.recipe_files import NUMBER_FORMAT
from homerl.train.model_sources import find_cached_config, is_adapter, read_adapter_base, resolve_model_source
from homerl.train.tiny_model import TinyConfig

if TYPE_CHECKING:
    from peft import LoraConfig
    from torch.nn import Module, Parameter
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
        AUTO, description="Liger's kernels: `auto` takes them if they are installed and layers are not compiled."
    )
    compile: bool | Literal["auto"] = Field(
        AUTO, description="Whether torch.compile fuses the small operations of layers; `auto` does it on CUDA where it can."
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


def refuse_hidden_decoder(model: PreTrainedModel) -> None:
    """Raise `InputError` for a model that does not tell which part of it is the decoder, as Llama 4: TRL's head, which needs
    no complete logits, calls that part.
    """
    if model.base_model is model:
        what = f"{type(model).__name__} does not tell which part of it is the decoder, so that its head cannot be trained"
        raise InputError(what, "model.name", "train a model of another family")


def list_expert_weights(model: Module) -> list[tuple[str, Parameter]]:
    """The weights by name that hold all experts of a layer: stacks of matrices, and no filters of a convolution."""
    from torch.nn.modules.conv import _ConvNd

    return [
        (f"{where}.{name}", weight)
        for where, part in model.named_modules()
        if not isinstance(part, _ConvNd)
        for name, weight in part.named_parameters(recurse=False)
        if weight.dim() == 3 and "lora_" not in where
    ]


def make_lora_config(settings: ModelSettings, model: Module) -> LoraConfig | None:
    """The configuration of a model's adapter, or None if all weights are trained.

    Routers that are linear layers with more than one result (PhiMoE's, Llama 4's) have no adapter: peft takes any linear
    layer's result for one matrix. Raises `InputError` for dropout in the adapters of experts, which peft does not have.
    """
    if settings.lora is None:
        return None
    from peft import LoraConfig
    from torch.nn import Linear

    lora = settings.lora
    if lora.dropout and list_expert_weights(model):
        raise InputError("adapters of experts have no dropout", "model.lora.dropout", "set it to 0")
    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    routers = [
        name
        for name, part in model.named_modules()
        if isinstance(part, Linear) and type(part) is not Linear and type(part).forward is not Linear.forward
    ]
    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=modules,
        exclude_modules=routers or None,
        task_type="CAUSAL_LM",
    )


def match_adapter_dtype(model: Module) -> None:
    """Store an adapter in its base's number format, if that is bfloat16. peft makes it in float32, for an autocast."""
    import torch
    from peft import PeftModel

    if not isinstance(model, PeftModel) or model.dtype != torch.bfloat16:
        return
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.to(torch.bfloat16)


PACKED = {"full_attention", "sliding_attention", "attention"}  # layers, by transformers' names
MIXES = (  # settings of other layers, by how their names begin
    "mamba_", "ssm_", "conv_", "linear_", "rwkv", "recurrent", "lru_width", "xlstm", "block_types",
)  # fmt: skip
# settings of attention that the kernels for packed rows lack: caps of scores, chunks, an index of keys; then their families
LACKS = ("attn_logit_softcapping", "attention_chunk_size", "index_topk")
SINKS = ("gpt_oss",)  # what attention falls to when no key is worth it


def find_packing_obstacle(config: Mapping[str, Any]) -> str | None:
    """Why the sequences of a model with this configuration cannot share a row; None if they can."""
    text = config.get("text_config") or config
    kinds = {*(text.get("layer_types") or ())} - PACKED
    if kinds:
        return f"its layers are not all attention ({', '.join(sorted(kinds))})"
    if mixing := next((name for name in text if name.startswith(MIXES) and text[name] is not None), None):
        return f"its layers are not all attention (`{mixing}`)"
    if lacking := next((name for name in LACKS if text.get(name)), None):
        return f"packed rows know no `{lacking}`"
    if text.get("attention_dropout"):
        return "packed rows know no dropout of attention"
    return "packed rows know no sinks of attention" if text.get("model_type") in SINKS else None


GB = 1e9
HEAD = (4096, 32_768, 10)  # tokens and words whose logits exist at a time in TRL's fused head, and bytes of each


@dataclass(frozen=True)
class DecoderSizes:
    """The sizes of a dense decoder. The names are Qwen3's. `unpackable` says why its sequences share no row, if so."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    head_dim: int = 128
    vocab: int = 151_936
    tied: bool = False
    unpackable: str | None = None
    family: str = "qwen3"

    @property
    def parameters(self) -> float:
        """The number of parameters of the model, without its norms."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate
        return self.layers * layer + self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of a model of these sizes, as in its `config.json`."""
        return {
            "model_type": self.family,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.intermediate,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "tie_word_embeddings": self.tied,
        }

    def logits_bytes(self) -> int:
        """Bytes of the fused head's tiles."""
        tokens, words, each = HEAD
        return tokens * min(self.vocab, words) * each


KNOWN = {
    "Qwen3-0.6B": DecoderSizes(1024, 28, 16, 8, 3072, tied=True),
    "Qwen3-1.7B": DecoderSizes(2048, 28, 16, 8, 6144, tied=True),
    "Qwen3-4B": DecoderSizes(2560, 36, 32, 8, 9728, tied=True),
    "Qwen3-8B": DecoderSizes(4096, 36, 32, 8, 12288),
    "Qwen3-14B": DecoderSizes(5120, 40, 40, 8, 17408),
    "Qwen3-32B": DecoderSizes(5120, 64, 64, 8, 25600),
    "SmolLM2-135M-Instruct": DecoderSizes(576, 30, 9, 3, 1536, 64, 49_152, tied=True, family="llama"),
    "Qwen2.5-Coder-0.5B-Instruct": DecoderSizes(896, 24, 14, 2, 4864, 64, tied=True, family="qwen2"),
}


def estimate_decoder_sizes(model: ModelSettings) -> DecoderSizes:
    """The sizes of a model."""
    return sizes_from_config(find_model_config(model))


def find_model_config(model: ModelSettings) -> Mapping[str, Any]:
    """The configuration of a model: from its files, else by its name, else from the hub if it is cached, else that of the
    known model of similar size.
    """
    if model.from_scratch is not None:
        own = model.from_scratch
        hidden, inner, vocab = own.hidden_size, own.intermediate_size, own.vocab_size
        return DecoderSizes(hidden, own.layers, own.heads, own.kv_heads, inner, own.head_dim, vocab, tied=True).config
    if model.name and (known := _read_known_config(model.name)):
        return known
    size = (model.parameters or 8.2) * GB  # parameters; of an unknown model those of Qwen3-8B
    return min(KNOWN.values(), key=lambda shape: abs(shape.parameters - size)).config


def _read_known_config(name: str) -> Mapping[str, Any] | None:
    """The configuration of a folder, a known model, or a hub model whose configuration is cached."""
    folder = Path(resolve_model_source(name))
    if is_adapter(folder):
        return _read_known_config(read_adapter_base(folder))
    if (folder / "config.json").is_file():
        config: Mapping[str, Any] = read_json(folder / "config.json").data
        return config
    if folder.name in KNOWN:
        return KNOWN[folder.name].config
    return read_json(cached).data if (cached := find_cached_config(name)) else None


def sizes_from_config(config: Mapping[str, Any]) -> DecoderSizes:
    """The sizes in a model's configuration, where null stands for what follows from the other sizes. A model that also sees
    has those of its decoder in `text_config`.
    """
    text = config.get("text_config") or config
    heads = text["num_attention_heads"]
    return DecoderSizes(
        text["hidden_size"],
        text["num_hidden_layers"],
        heads,
        text.get("num_key_value_heads") or heads,
        text["intermediate_size"],
        text.get("head_dim") or text["hidden_size"] // heads,
        text["vocab_size"],
        config.get("tie_word_embeddings", False),
        find_packing_obstacle(config),
    )
