"""What an error of a pass means: that a compiled layer does not run.

Compiled decoder layers: torch.compile fuses norms, positions, activations, residuals and adapters' small operations.

Each layer is compiled by itself, so one compilation serves all layers of a kind. Attention stays as it is, between two
compiled pieces of the layer.

Invariants: weights keep their names; a row of another length or tree compiles nothing anew; only within `running` do layers
run compiled, so the same model can generate; a model whose rows are not packed is never compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException
from torch.nn import Module
from torch.utils.checkpoint import CheckpointError
from transformers.modeling_layers import GradientCheckpointingLayer

COMPILERS = ("torch._functorch.", "torch._inductor.", "triton.")  # what they raise in a backward pass is not wrapped


def is_compile_error(error: Exception) -> bool:
    """Whether torch.compile failed, forward or backward, a kernel of it, or checkpointing with it."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return isinstance(error, TorchDynamoException | CheckpointError) or any(name.startswith(COMPILERS) for name in modules)


VARIANTS = 32  # of a layer: with gradients or without, adapter on or off, training or not, by its attention


class CompiledLayers:
    """The layers of a model, each with its compiled forward pass. Nothing is compiled before a layer is first called."""

    def __init__(self, model: Module, backend: str = "inductor") -> None:
        torch._dynamo.config.recompile_limit = max(VARIANTS, torch._dynamo.config.recompile_limit)
        layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
        self.plain = [(layer, layer.forward) for layer in layers]
        self.fused = [(layer, _alike(torch.compile(layer.forward, dynamic=True, backend=backend))) for layer in layers]

    @contextmanager
    def run_compiled(self) -> Iterator[None]:
        """Within the context the layers run compiled, also where checkpointing runs them again. Their hooks stay outside."""
        _set(self.fused)
        try:
            yield
        finally:
            _set(self.plain)


def _alike(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The forward pass of a layer, in which the first layer is like the others: with adapters its input has no gradient, so
    that it would be compiled by itself.
    """

    def call(hidden: torch.Tensor, *others: Any, **named: Any) -> Any:
        if torch.is_grad_enabled() and not hidden.requires_grad:
            hidden.requires_grad_()
        return forward(hidden, *others, **named)

    return call


def _set(forwards: list[tuple[Module, Callable[..., Any]]]) -> None:
    for layer, forward in forwards:
        layer.forward = forward
