"""Generation with Qwen3-8B by one of homerl's engines: sampled tokens a second."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpu.machine import Machine
from gpu.weights import random_model


def generate(machine: Machine, kind: str) -> dict[str, Any]:
    """The rate for 256 concurrent prompts of 512 tokens, 256 tokens each."""
    from homerl.train.training_setup import load_chat_tokenizer

    source = random_model(machine, "Qwen3-8B")
    tokenizer, rng = load_chat_tokenizer(str(source)), random.Random(0)
    length, count = machine.pick((512, 256), (32, 4))
    prompts = [[rng.randrange(10, 500) for _ in range(length)] for _ in range(count)]
    asked = sampler(machine, kind, source, tokenizer, machine.pick(256, 8))

    async def of(some: list[list[int]]) -> list[Any]:
        return await asyncio.gather(*map(asked.sample, some))

    with getattr(asked, "awake", nullcontext)():
        asyncio.run(of(prompts[:1]))
        begin = time.perf_counter()
        samples = asyncio.run(of(prompts))
        seconds = time.perf_counter() - begin
    tokens = sum(len(sample.ids) for sample in samples)
    return {"tokens_per_second": tokens / seconds, "tokens": tokens, "peak_gb": machine.peak_gb()}


def sampler(machine: Machine, kind: str, source: Path, tokenizer: Any, most: int) -> Any:
    """An engine without a trainer, with the attributes that a trainer would set."""
    import torch
    from transformers import AutoModelForCausalLM

    from homerl.models.policy.transformers_engine import TransformersEngine

    if kind == "vllm":
        from vllm import LLM

        from homerl.train.engines.vllm import ColocatedVLLM

        engine = ColocatedVLLM(tokenizer, most, 1.0, sleep=False)
        engine.generation = SimpleNamespace(llm=LLM(str(source), logprobs_mode="processed_logprobs", max_model_len=2048))
        return engine
    dtype = machine.pick(torch.bfloat16, torch.float32)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype).to(machine.device).eval()
    return TransformersEngine(model, tokenizer, most, batch=256)
