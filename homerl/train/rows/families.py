"""Which models can share a packed row: those whose tokens meet in attention alone, and in none that a packed row lacks.

A layer with convolutions or a recurrent state mixes neighbouring tokens, so in a packed row it would mix dialogues. Such a
model is trained with one sequence a row, by its own attention, and shares no prompt. That is exact, and slower.

Invariant: no torch, since recipes are checked with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PACKED = {"full_attention", "sliding_attention", "attention"}  # layers, by transformers' names
MIXES = (
    "mamba_",
    "ssm_",
    "conv_",
    "linear_",
    "rwkv",
    "recurrent",
    "lru_width",
    "xlstm",
    "block_types",
)  # settings of others
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
