"""How a run is spread over devices: the recipe's `parallel`, applied in process through training arguments.

Invariants: an accelerate configuration given on the command line wins; nothing here touches one process; weights that
are asked to be in shards are, or the run is refused; what is saved as a model is whole, and in the model's own type.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import DistributedType, PartialState
from torch.distributed.tensor import DTensor
from transformers.utils import CONFIG_NAME

from envs.documents import InputError, write_atomic
from homerl.recipe import Base
from homerl.train.refusals import spread_by, world_size


def parallel_arguments(recipe: Base) -> dict[str, Any]:
    """Training arguments for `parallel`, or none where accelerate was configured from outside."""
    backend = {"ddp_backend": "gloo"} if recipe.cpu and world_size() > 1 else {}
    how = spread_by(recipe)
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" or os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return backend
    if how == "fsdp2" and world_size() > 1:
        return backend | {"fsdp": True, "fsdp_config": FSDP2}
    if how in ("zero2", "zero3"):
        return {"deepspeed": zero(int(how[-1]))}
    return backend


class Spread:
    """A trainer's mixin: it shards where it is asked to, and saves whole models and complete checkpoints."""

    def create_accelerator_and_postprocess(self) -> None:
        self.stored_type: torch.dtype = self.model.dtype  # before shards are trained in 32 bits, and saves write that down
        asked = self.args.fsdp_plugin_args is not None or os.environ.get("ACCELERATE_USE_FSDP") == "true"
        if asked:
            _shard_on_cpus_too()
        super().create_accelerator_and_postprocess()
        if asked and world_size() > 1 and not self.accelerator.is_fsdp2:
            raise InputError("FSDP2 was asked for, and accelerate does not shard here", "parallel", "use `parallel: ddp`")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Whole, where transformers would save nothing of weights in shards; a checkpoint has them as shards besides."""
        if _internal_call or not self.accelerator.is_fsdp2:
            super().save_model(output_dir, _internal_call)
            return
        weights = {name: weight.cpu() for name, weight in whole_weights(self) if self.args.should_save}
        if self.args.should_save:
            self._save(output_dir, state_dict=weights)
            self._say_type(Path(output_dir or self.args.output_dir) / CONFIG_NAME)

    def _say_type(self, config: Path) -> None:
        """transformers writes the type that is trained in, which is not that of the weights beside it."""
        if config.exists():  # of a model, not of an adapter
            said = json.loads(config.read_text(encoding="utf-8"))
            write_atomic(config, json.dumps(said | {"dtype": str(self.stored_type).removeprefix("torch.")}, indent=2) + "\n")

    def _save_rng_state(self, output_dir: str) -> None:
        """A checkpoint's last file, by which it is known to be complete, waits for every rank's."""
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()


def whole_weights(trainer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The policy's weights by name, one after the other, whole and in the model's own type; all ranks ask together."""
    policy = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    for name, weight in policy.state_dict().items():
        if isinstance(weight, DTensor):  # of FSDP2, which trains half precision's weights in 32 bits
            weight = weight.full_tensor().to(trainer.stored_type)
        yield name.replace("_checkpoint_wrapped_module.", ""), weight


def _shard_on_cpus_too() -> None:
    """accelerate leaves FSDP out where several processes are on a CPU: there they pass for GPUs, on their own device."""
    shared = PartialState._shared_state
    if shared.get("distributed_type") == DistributedType.MULTI_CPU:
        shared["distributed_type"] = DistributedType.MULTI_GPU


def numbered_cpu(storage: Any, location: str) -> Any:
    """Where accelerate has several processes on a CPU, their checkpoints load to `cpu:0`, which torch does not know."""
    return storage if location.startswith("cpu:") else None


torch.serialization.register_package(0, lambda storage: None, numbered_cpu)


FSDP2: dict[str, Any] = {
    "version": 2,
    "reshard_after_forward": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}


def zero(stage: int) -> dict[str, Any]:
    """A DeepSpeed configuration whose sizes follow the trainer's."""
    optimization: dict[str, Any] = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
    if stage == 3:
        optimization |= {"stage3_gather_16bit_weights_on_model_save": True}
    return {
        "zero_optimization": optimization,
        "bf16": {"enabled": "auto"},
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }
