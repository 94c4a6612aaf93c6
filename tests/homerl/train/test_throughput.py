"""Tokens and samples a second are of the time between two lines; MFU is told only where it is measured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from homerl.train.watch.throughput import PEAK, ThroughputMeter, count_operations_per_token, rated_operations

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}


def make(**more: object) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=50, intermediate_size=32, **SIZES, **more))


def test_each_weight_that_is_multiplied_costs_six_operations_a_token_and_a_frozen_one_four():
    tied, apart = make(tie_word_embeddings=True), make(tie_word_embeddings=False)
    matrices = sum(weight.numel() for weight in tied.parameters())  # the tied one is the head
    assert count_operations_per_token(tied) == 6 * matrices == count_operations_per_token(apart)
    adapted = get_peft_model(tied, LoraConfig(r=2, target_modules=["q_proj"]))
    trained = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    assert count_operations_per_token(adapted) == 4 * (matrices + trained) + 2 * trained


def test_figures_are_of_the_time_since_the_last_line(monkeypatch):
    now = iter([0.0, 10.0, 14.0, 14.0, 20.0, 20.0])
    meter = ThroughputMeter(make(), samples=8, processes=2, clock=lambda: next(now))
    state = SimpleNamespace(num_input_tokens_seen=1000, global_step=5)
    meter.on_train_begin(None, state, None)  # at 10 s, of a run that goes on
    state.num_input_tokens_seen, state.global_step = 1400, 7
    assert meter.measure(state, torch.device("cpu")) == {"perf/tokens_per_second": 100, "perf/samples_per_second": 4}
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3e9)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    state.num_input_tokens_seen, state.global_step = 2000, 8
    found = meter.measure(state, torch.device("cuda", 0), training=0.5)
    assert found[PEAK] == 3 and found["perf/tokens_per_second"] == 100
    assert found["perf/mfu"] == pytest.approx(meter.operations * 600 / (6 * 0.5 * 2 * 989e12))
    assert rated_operations("Some other GPU") is None
