"""The parts of scripts/gpu_report by name. A training part has a side for homerl and one for TRL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu import rlve
from gpu.generate import generate
from gpu.layers import layers
from gpu.machine import Machine
from gpu.scratch import scratch
from gpu.sft import SFT

Figures = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """How homerl's side is measured; how TRL's is (with checkpointing or not), and which figure the ratio is of.

    `needs` is a module without which the part is left out.
    """

    ours: Callable[[Machine], Figures]
    trl: Callable[[Machine, bool], Figures] | None = None
    ratio: Callable[[Figures, Figures], float] | None = None
    needs: str | None = None


def faster(ours: Figures, trl: Figures) -> float:
    """How many times as many tokens a second homerl trains on."""
    return ours["tokens_per_second"] / trl["tokens_per_second"]


def sooner(ours: Figures, trl: Figures) -> float:
    """How many times as long TRL trains on the same rollouts."""
    return trl["training_seconds"] / ours["training_seconds"]


def sft(name: str, size: str) -> Part:
    """The part of an SFT recipe."""
    both = SFT(name, size)
    return Part(both.ours, both.trl, faster)


def generation(kind: str, needs: str | None = None) -> Part:
    """The part of an engine."""
    return Part(lambda machine: generate(machine, kind), needs=needs)


PARTS = {
    "sft_8b_lora": sft("sft_8b_lora", "Qwen3-8B"),
    "rlve_8b_lora": Part(rlve.ours, rlve.trl, sooner),
    "sft_4b": sft("sft_4b", "Qwen3-4B"),
    "layers_8b": Part(layers),
    "generate_transformers": generation("transformers"),
    "generate_vllm": generation("vllm", needs="vllm"),
    "scratch_100m": Part(lambda machine: scratch(machine, "scratch_100m")),
    "long_100m": Part(lambda machine: scratch(machine, "long_100m", second=True), needs="vllm"),
}
SIDES = ("ours", "trl", "trl_checkpointing")


def measured(part: Part, side: str, machine: Machine) -> Figures:
    """The figures of one side of a part."""
    if side == "ours":
        return part.ours(machine)
    assert part.trl is not None
    return part.trl(machine, side == "trl_checkpointing")
