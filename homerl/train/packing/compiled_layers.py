"""Compiled decoder layers: torch.compile fuses norms, positions, activations, residuals and adapters' small operations.

Each layer is compiled by itself, so one compilation serves all layers of a kind. Attention stays as it is, between two
compiled pieces of the layer.

Invariants: weights keep their names; a row of another length or tree compiles nothing anew; layers run compiled only within
`run_compiled`, so the same model can generate; a model whose rows are not packed is never compiled.
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
        self.layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
        self.plain = [layer.forward for layer in self.layers]
        self.fused = [_require_gradients(torch.compile(run, dynamic=True, backend=backend)) for run in self.plain]

    @contextmanager
    def run_compiled(self) -> Iterator[None]:
        """Within the context the layers run compiled, also where checkpointing runs them again. Their hooks stay outside."""
        for layer, fused in zip(self.layers, self.fused, strict=True):
            layer.forward = fused
        try:
            yield
        finally:
            for layer, plain in zip(self.layers, self.plain, strict=True):
                layer.forward = plain


def _require_gradients(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The forward pass of a layer, with an input that has a gradient. With adapters that of the first layer has none, so
    that torch would compile this layer by itself.
    """

    def call(hidden: torch.Tensor, *others: Any, **named: Any) -> Any:
        if torch.is_grad_enabled() and not hidden.requires_grad:
            hidden.requires_grad_()
        return forward(hidden, *others, **named)

    return call
