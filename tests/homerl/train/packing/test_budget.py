"""The budget of a pass: from the estimate, and from what a pass took."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from families import PACKED, SIZES
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.train.packing.packed_updates import PackedUpdates, TargetScores, TokenSequence
from homerl.train.packing.pass_budget import MemoryHeadroom, MemoryProfiler, TokenBudget, TokenBytes
from homerl.train.recipe import SFTSettings

MB = 10**6
TOKEN = TokenBytes(kept=5 * MB, recomputed=0.4 * MB, layer=0.1 * MB)


def headroom(cpu: bool = False, token: TokenBytes = TOKEN, free: float = 51_000 * MB, **settings: Any) -> MemoryHeadroom:
    return MemoryHeadroom(SFTSettings(**settings), token, free, cpu)


def test_a_budget_is_what_fits_in_nine_tenths_of_the_memory():
    assert headroom().make_budget() == TokenBudget(8960, 32_768, scored=65_536)
    assert headroom().cautious_budget() == TokenBudget(4480, 16_384, scored=32_768)
    assert headroom(gradient_checkpointing=True).make_budget() == TokenBudget(0, 32_768, scored=65_536)
    assert headroom(cpu=True).make_budget() == TokenBudget(4096, 4096)
    assert (
        headroom().expected_bytes(10, recomputed=False) == 51 * MB
        and headroom().expected_bytes(10, recomputed=True) == 5 * MB
    )


class Told(MemoryProfiler):
    """A profiler of a GPU that is told what passes take, in bytes."""

    def __init__(self, headroom: MemoryHeadroom, took: float) -> None:
        super().__init__(Accelerator(cpu=True), headroom)
        self.waits, self.took = headroom.needs_measurement, took
        self.budget = headroom.cautious_budget() if self.waits else headroom.make_budget()

    def allocated_bytes(self) -> int:
        return 7 * MB

    def peak_bytes(self) -> int:
        return 7 * MB + int(self.took)


def made(profiler: MemoryProfiler, *passes: tuple[int, int, bool]) -> str | None:
    for one in passes:
        with profiler.measure_pass(*one):
            pass
    return profiler.settle_budget()


def test_the_budget_follows_from_what_the_second_pass_took():
    profiler = Told(headroom(), took=2000 * 6.12 * MB)
    said = made(profiler, (0, 4000, False), (1, 2000, False), (2, 100, False))
    assert said == (
        "activations of a token: 6.12 MB measured, 5.1 MB estimated; tokens of a pass from now on: "
        "7424 with all activations kept, 32768 with checkpointing; 65536 without gradients"
    )
    assert (
        profiler.budget == TokenBudget(7424, 32_768, scored=65_536) == headroom(token=TOKEN.multiplied_by(1.2)).make_budget()
    )
    assert made(profiler, (1, 2000, False)) is None, "once"


def test_a_pass_with_checkpointing_is_compared_with_what_it_keeps():
    profiler = Told(headroom(gradient_checkpointing=True), took=2000 * 1 * MB)
    made(profiler, (0, 4000, True), (1, 2000, True))
    assert profiler.budget == TokenBudget(0, 32_768, scored=65_536) and profiler.headroom.token == TOKEN.multiplied_by(2)


def test_an_update_of_one_pass_measures_nothing():
    profiler = Told(headroom(), took=1)
    assert made(profiler, (0, 4000, False)) is None and profiler.budget == headroom().cautious_budget()
    assert made(profiler, (0, 4000, False), (1, 0, False)) is None, "nor an empty one, which others wait for"
    assert made(profiler, (0, 4000, False), (1, 10, False)) is not None


def test_neither_a_cpu_nor_a_number_in_the_recipe_is_measured():
    for given in (headroom(cpu=True), headroom(tokens_per_step=5000)):
        profiler = Told(given, took=1)
        assert profiler.budget == given.make_budget() and made(profiler, (0, 9, False), (1, 9, False)) is None
    profiler = MemoryProfiler(Accelerator(cpu=True), headroom())
    assert not profiler.waits and profiler.budget == headroom().make_budget(), "without CUDA"


def test_an_update_tells_the_profiler_and_takes_its_budget(caplog):
    caplog.set_level("INFO")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **(SIZES | PACKED["qwen3"])))
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    sequences = [TokenSequence.from_ids([3 + i] * 101, np.arange(50, 101)) for i in range(8)]
    profiler = Told(headroom(token=TokenBytes(100, 50), free=30_000, gradient_checkpointing=False), took=200 * 25)
    updates = PackedUpdates(profiler.accelerator, profiler.budget, "auto", profiler=profiler)

    def loss(members: list[int], scored: TargetScores) -> tuple[torch.Tensor, torch.Tensor]:
        return -scored.logps.sum(), torch.zeros(1)

    train = partial(updates.train_on_sequences, model, sequences, loss)
    first, _ = train()
    assert updates.counts["passes"] == 8, "one of 100 tokens each, of the 128 that are half of 256"
    second, _ = train()
    assert updates.counts["passes"] == 8 + 2
    assert updates.budget == profiler.budget == TokenBudget(512, 512, allowed=False, scored=1024)
    assert first.item() == pytest.approx(second.item(), rel=1e-5)
    assert caplog.text.count("activations of a token: 5e-05 MB measured, 0.0001 MB estimated") == 1
