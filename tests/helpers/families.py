"""Tiny configurations of many families of models: those whose sequences share a row, and those that train alone."""

from __future__ import annotations

from typing import Any

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1}
WINDOW = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
LINEAR = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
MAMBA = {
    "layer_types": ["mamba", "attention"],
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "num_local_experts": 0,
    "shared_intermediate_size": 48,
    "position_embedding_type": "rope",
}
PACKED: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "qwen3_moe": EXPERTS,
    "llama": {},
    "smollm3": {},
    "gemma3_text": WINDOW,
    "mistral": {"sliding_window": 6},
    "granite": {},
}
ALONE: dict[str, dict[str, Any]] = {
    "qwen3_5_text": LINEAR,
    "qwen3_next": LINEAR | EXPERTS | {"shared_expert_intermediate_size": 24},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "granitemoehybrid": MAMBA,
    "gemma2": {"sliding_window": 6},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6},
}
