"""How a run is spread over devices: the recipe's `parallel`, applied in process through training arguments.

Invariants: an accelerate configuration given on the command line wins; nothing here touches one process, but for ZeRO,
which keeps 32-bit weights there too; weights that are asked to be in shards are, or the run is refused; what is saved as
a model is whole, each weight once, and in the model's own type.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import DistributedType
from peft import PeftModel
from torch.distributed.tensor import DTensor
from transformers.utils import CONFIG_NAME

from envs.documents import InputError, write_atomic
from homerl.recipe.base import Base
from homerl.train.refusals import parallel_mode, world_size
from homerl.workarounds import fsdp_on_cpus, numbered_cpu, whole_at_first, zero_alone, zero_on_cpus
from homerl.workarounds.complete_checkpoints import CompleteCheckpoints


def parallel_arguments(recipe: Base) -> dict[str, Any]:
    """Training arguments for `parallel`, or none where accelerate was configured from outside."""
    how, in_zero = parallel_mode(recipe), parallel_mode(recipe).startswith("zero")
    outside = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" or os.environ.get("ACCELERATE_USE_FSDP") == "true"
    arguments: dict[str, Any] = {"ddp_backend": "gloo"} if recipe.cpu and world_size() > 1 else {}
    if in_zero and not outside:
        arguments["deepspeed"] = deepspeed_config(int(how[-1]))
    if in_zero:
        zero_alone.apply()
    if in_zero and recipe.cpu:
        zero_on_cpus.apply(collective_timeout(recipe))
        arguments["accelerator_config"] = {"use_configured_state": True}
        arguments["bf16"] = recipe.model.dtype == "bfloat16"  # as on GPUs: half weights, and whole ones in the optimizer
    if how == "fsdp2" and world_size() > 1 and not outside:
        arguments |= {"fsdp": True, "fsdp_config": FSDP2}
    return arguments


def collective_timeout(recipe: Base) -> timedelta:
    """How long a collective waits for a rank: the watchdog speaks first."""
    return timedelta(seconds=int(max(recipe.deadlines.collective, recipe.deadlines.step) + 600))


class ParallelTrainerMixin(CompleteCheckpoints):
    """A trainer's mixin: it shards where it is asked to, and saves whole models and complete checkpoints."""

    def create_accelerator_and_postprocess(self) -> None:
        self.stored_type: torch.dtype = self.model.dtype  # before shards are trained in 32 bits, and saves write that down
        asked = self.args.fsdp_plugin_args is not None or os.environ.get("ACCELERATE_USE_FSDP") == "true"
        if asked:
            fsdp_on_cpus.apply()
        super().create_accelerator_and_postprocess()
        numbered_cpu.apply()
        whole_at_first.forget()  # or TRL, still to make its reference, would load that in shards
        if asked and world_size() > 1 and not self.accelerator.is_fsdp2:
            raise InputError("FSDP2 was asked for, and accelerate does not shard here", "parallel", "use `parallel: ddp`")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Whole, and tied weights once, where transformers would save nothing of shards, or tied weights twice."""
        state = self.accelerator
        if state.distributed_type != DistributedType.DEEPSPEED and (_internal_call or not state.is_fsdp2):
            super().save_model(output_dir, _internal_call)  # a checkpoint of FSDP2 has its shards, and nothing else
            return
        saved = {}
        for name, weight in whole_weights(self, frozen=not isinstance(self.model, PeftModel)):
            if self.args.should_save:
                own = (
                    weight.dtype if isinstance(self.model, PeftModel) else self.stored_type
                )  # adapters are trained in their own
                saved[name] = weight.to("cpu", own, copy=True)
        if self.args.should_save:
            self._save(output_dir, state_dict=saved)
            self._say_type(Path(output_dir or self.args.output_dir) / CONFIG_NAME)

    def _say_type(self, config: Path) -> None:
        """transformers writes the type that is trained in, which is not that of the weights beside it."""
        if config.exists():  # of a model, not of an adapter
            said = json.loads(config.read_text(encoding="utf-8"))
            write_atomic(config, json.dumps(said | {"dtype": str(self.stored_type).removeprefix("torch.")}, indent=2) + "\n")


def whole_weights(trainer: Any, frozen: bool = True) -> Iterator[tuple[str, torch.Tensor]]:
    """The policy's weights by name, one after the other and each once, whole until the next is asked for; all ranks ask
    together."""
    policy, seen = trainer.accelerator.unwrap_model(trainer.model_wrapped), set()
    for name, weight in policy.state_dict(keep_vars=True).items():
        if id(weight) in seen or not (frozen or weight.requires_grad):
            continue
        seen.add(id(weight))
        with gathered([weight]):
            whole = weight.detach().full_tensor() if isinstance(weight, DTensor) else weight.detach()
            yield name.replace("_checkpoint_wrapped_module.", ""), whole


def gathered(weights: Sequence[torch.Tensor]) -> Any:
    """ZeRO-3's weights are empty but in here."""
    if not any(hasattr(weight, "ds_id") for weight in weights):
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(list(weights))


FSDP2: dict[str, Any] = {
    "version": 2,
    "reshard_after_forward": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}


def deepspeed_config(stage: int) -> dict[str, Any]:
    """A DeepSpeed configuration whose sizes follow the trainer's."""
    return {
        "zero_optimization": {"stage": stage, "overlap_comm": True, "contiguous_gradients": True},
        "bf16": {"enabled": "auto"},
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }
