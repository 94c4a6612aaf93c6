"""Models with random weights in the shapes of `homerl/train/model_settings.py`, so nothing is downloaded.

They serve only to measure speed and memory.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

from gpu.machine import Machine


def random_model(machine: Machine, name: str) -> Path:
    """The folder of a model with random weights and the shape of model `name`, with a tokenizer made from dialogues.

    The dialogues are written to `trajectories.jsonl` in the machine's folder.
    """
    from homerl.play.trajectory import read_rows, write_rows
    from homerl.synth.recipe import SynthesisConfig
    from homerl.synth.shards import make_shard
    from homerl.train.tiny_model import TinyConfig, make_tokenizer

    out, folder = machine.folder / name, machine.folder
    if out.exists():
        return out
    count = machine.pick(400, 30)
    make_shard(SynthesisConfig(blueprints=count), range(count), folder)
    rows = list(read_rows(folder / "0000000.jsonl"))
    write_rows(folder / "trajectories.jsonl", rows)
    texts = (message["content"] for row in rows for message in row["messages"])
    making = out.with_suffix(".making")
    make_tokenizer(texts, json.loads(rows[0]["tools"]), TinyConfig(vocab_size=8192)).save_pretrained(making)
    save_random(machine, machine.shape(name), making)
    making.rename(out)
    return out


def made_at_random(machine: Machine, shape: Any) -> Any:
    """A Qwen3 model with random weights in half precision, made on the device."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=40960,
        tie_word_embeddings=shape.tied,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
        dtype="bfloat16",
    )
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(machine.device):
            return Qwen3ForCausalLM(config)
    finally:
        torch.set_default_dtype(usual)


def save_random(machine: Machine, shape: Any, out: Path) -> None:
    """Save a model with random weights, and free its memory."""
    import torch

    made_at_random(machine, shape).save_pretrained(out)
    gc.collect()
    if not machine.tiny:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
