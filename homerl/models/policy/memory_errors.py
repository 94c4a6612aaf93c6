"""accelerate knows the errors of torch's own allocator, and not all others that mean a lack of memory.

`should_reduce_batch_size` does not know those of the CUDA driver, of Triton when it loads a kernel, and of cuBLAS.

Versions: accelerate 1.10 to 1.15.
Upstream: no upstream issue known. To reproduce: `should_reduce_batch_size(RuntimeError("CUDA error: out of memory"))`.
"""

from __future__ import annotations

UNKNOWN = ("CUDA error: out of memory", "Triton Error [CUDA]: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory lacks, also while a layer is compiled: torch quotes that error in its own."""
    from accelerate.utils.memory import should_reduce_batch_size

    unknown = isinstance(error, RuntimeError) and any(said in str(error) for said in UNKNOWN)
    return unknown or should_reduce_batch_size(error)
