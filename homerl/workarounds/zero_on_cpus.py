"""transformers leaves DeepSpeed out where `use_cpu` is asked for: its `TrainingArguments` look at that first.

DeepSpeed itself trains on CPUs. The way around is a state that was configured beforehand (`use_configured_state`), which
has to be made as accelerate would make it for GPUs, over plain gloo.

Versions: transformers 5.10 to 5.17, accelerate 1.10 to 1.15.
Upstream: no upstream issue known. To reproduce: `TrainingArguments(use_cpu=True, deepspeed={...})`, and
`distributed_state.distributed_type` is not DEEPSPEED.
"""

from __future__ import annotations

import os
from datetime import timedelta

from homerl.workarounds import shm_build


def apply(timeout: timedelta) -> None:
    """Connect DeepSpeed's processes on a CPU. Call it before the training arguments are created."""
    from accelerate import PartialState
    from accelerate.state import AcceleratorState

    shm_build.apply()
    AcceleratorState._reset_state(reset_partial_state=True)
    given = os.environ.get("ACCELERATE_USE_DEEPSPEED", "false")
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    PartialState(backend="gloo", timeout=timeout)
    os.environ["ACCELERATE_USE_DEEPSPEED"] = given
