"""What an error of a pass means: that a compiled layer does not run."""

from __future__ import annotations

from traceback import walk_tb

from torch._dynamo.exc import TorchDynamoException
from torch.utils.checkpoint import CheckpointError

COMPILERS = ("torch._functorch.", "torch._inductor.", "triton.")  # what they raise in a backward pass is not wrapped


def is_compile_error(error: Exception) -> bool:
    """Whether torch.compile failed, forward or backward, a kernel of it, or checkpointing with it."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return isinstance(error, TorchDynamoException | CheckpointError) or any(name.startswith(COMPILERS) for name in modules)
