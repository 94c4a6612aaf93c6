"""What an error of a pass means: that memory lacks, or that a compiled layer does not run."""

from __future__ import annotations

from traceback import walk_tb

from accelerate.utils.memory import should_reduce_batch_size
from torch._dynamo.exc import TorchDynamoException
from torch.utils.checkpoint import CheckpointError

# of the driver, of Triton when it loads a kernel, and of cuBLAS; accelerate knows torch's own allocator
UNKNOWN_TO_ACCELERATE = ("CUDA error: out of memory", "Triton Error [CUDA]: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
COMPILERS = ("torch._functorch.", "torch._inductor.", "triton.")  # what they raise in a backward pass is not wrapped


def out_of_memory(error: Exception) -> bool:
    """Whether memory lacks, also while a layer is compiled: torch quotes that error in its own."""
    return should_reduce_batch_size(error) or (
        isinstance(error, RuntimeError) and any(said in str(error) for said in UNKNOWN_TO_ACCELERATE)
    )


def uncompilable(error: Exception) -> bool:
    """Whether torch.compile failed, forward or backward, a kernel of it, or checkpointing with it."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return isinstance(error, TorchDynamoException | CheckpointError) or any(name.startswith(COMPILERS) for name in modules)
