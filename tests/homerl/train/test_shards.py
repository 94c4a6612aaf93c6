"""Weights in shards: the first rank reads them and the others get theirs from it, so no other rank ever holds them whole."""

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from crossed import crossed
from launches import LAUNCHERS, ROOT
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from homerl.train.parallel.sharding import copy_model, make_empty_model

HELPER = ROOT / "tests/helpers/sharded_memory.py"
NO_DEEPSPEED = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BIG = TINY | {
    "vocab_size": 4096,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 64,
}


def stored(family: str, folder: Path, dtype: str = "float32", **sizes: Any) -> str:
    """A model with random weights in a folder."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes), dtype=getattr(torch, dtype))
    model.generation_config = GenerationConfig(eos_token_id=7, max_new_tokens=5)
    model.save_pretrained(folder)
    return str(folder)


@crossed(family=["qwen3", "llama", "gemma3_text", "smollm3", "granite"], dtype=["float32", "bfloat16"], tied=[True, False])
def test_an_empty_model_lacks_weights_alone(family, dtype, tied, tmp_path):
    """Its buffers, such as the frequencies of positions, are those of a loaded model to the bit."""
    folder = stored(family, tmp_path / family, dtype, tie_word_embeddings=tied, **TINY)
    options = {"dtype": getattr(torch, dtype), "attn_implementation": "sdpa"}
    loaded, empty = AutoModelForCausalLM.from_pretrained(folder, **options), make_empty_model(folder, **options)
    for one in (empty, copy_model(empty, empty=True)):
        shapes, wanted = ([(n, w.shape, w.dtype, w.requires_grad) for n, w in m.named_parameters()] for m in (one, loaded))
        assert shapes == wanted and (one.lm_head.weight is one.get_input_embeddings().weight) == tied
        assert dict(one.named_buffers()).keys() == dict(loaded.named_buffers()).keys()
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(one.buffers(), loaded.buffers(), strict=True))
        assert one.generation_config.to_dict() == loaded.generation_config.to_dict()
        assert one.name_or_path == loaded.name_or_path and one.config.to_dict() == loaded.config.to_dict()
    copied = copy_model(loaded, empty=False)
    assert all(torch.equal(a, b) and a is not b for a, b in zip(copied.parameters(), loaded.parameters(), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("way", ["fsdp2", pytest.param("zero3", marks=NO_DEEPSPEED)])
def test_only_the_first_rank_holds_whole_weights(way, tmp_path):
    """Policy and reference of 210 MB on two ranks: in shards both take as much as one model."""
    folder = stored("qwen3", tmp_path / "big", tie_word_embeddings=True, **BIG)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT}:{HELPER.parent}",
        "MALLOC_MMAP_THRESHOLD_": "65536",  # what is freed is the system's again
    }
    command = [*LAUNCHERS["two ranks"], HELPER, way, folder, "float32"]
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = sorted(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("rank "))
    assert first[2] == second[2] == "True", "the weights of the folder, and its buffers"
    assert float(second[1]) < 1.5 < float(first[1]), (first, second)
