"""transformers ignores DeepSpeed if `use_cpu` is set, because its `TrainingArguments` check that first.

DeepSpeed itself can train on CPUs. The patch configures the state beforehand (`use_configured_state`), as accelerate would
do for GPUs, but over gloo.

Versions: transformers 5.10 to 5.17, accelerate 1.10 to 1.15.
Upstream: no upstream issue known. To reproduce: `TrainingArguments(use_cpu=True, deepspeed={...})`, and
`distributed_state.distributed_type` is not DEEPSPEED.
"""

from __future__ import annotations

import os
from datetime import timedelta

from homerl.train.workarounds import deepspeed_shm_build as shm_build


def connect_zero_on_cpus(timeout: timedelta) -> None:
    """Connect DeepSpeed's processes on a CPU. Call it before the training arguments are created."""
    from accelerate import PartialState
    from accelerate.state import AcceleratorState

    shm_build.disable_deepspeed_shm()
    AcceleratorState._reset_state(reset_partial_state=True)
    given = os.environ.get("ACCELERATE_USE_DEEPSPEED", "false")
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    PartialState(backend="gloo", timeout=timeout)
    os.environ["ACCELERATE_USE_DEEPSPEED"] = given
