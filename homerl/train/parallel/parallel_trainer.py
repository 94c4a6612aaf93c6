"""Distributes training over devices by the recipe's `parallel`, through training arguments in the process itself.

Invariants:
- An accelerate configuration given on the command line takes precedence.
- With one process nothing changes, except that ZeRO keeps 32-bit weights there too.
- If sharding was asked for, the weights are sharded or the run is refused.
- A saved model is complete, has each weight once, and has the model's own dtype.
- bfloat16 weights are never updated without float32 masters (DeepSpeed keeps its own); a float32 run has transformers' own
  optimizer; a schedule and a checkpoint need not know which.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import DistributedType
from peft import PeftModel
from transformers import Trainer
from transformers.utils import CONFIG_NAME

from homerl.envs.core.documents import InputError, write_atomic
from homerl.train.model_settings import match_adapter_dtype
from homerl.train.parallel.adamw import AdamW, has_master
from homerl.train.parallel.muon import MuonWithAdamW
from homerl.train.parallel.sharding import gather_whole_weights, prepare_sharding
from homerl.train.recipe import TrainingRecipe, has_sharded_weights, parallel_mode, world_size
from homerl.train.watch.lost_signal import refuse_infinite_loss
from homerl.train.workarounds import (
    CompleteCheckpoints,
    allow_fsdp_on_cpus,
    connect_zero_on_cpus,
    forget_zero3_config,
    register_numbered_cpu,
    set_launcher_environment,
)


def parallel_arguments(recipe: TrainingRecipe) -> dict[str, Any]:
    """The training arguments for `parallel`. An accelerate configuration from outside is left as it is.

    `bf16` (mixed precision) is for those that keep 32-bit weights themselves: DeepSpeed, and FSDP2 on GPUs.
    """
    how, in_zero = parallel_mode(recipe), parallel_mode(recipe).startswith("zero")
    outside = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" or os.environ.get("ACCELERATE_USE_FSDP") == "true"
    arguments: dict[str, Any] = {"ddp_backend": "gloo"} if recipe.cpu and world_size() > 1 else {}
    if in_zero and not outside:
        arguments["deepspeed"] = deepspeed_config(int(how[-1]))
    if in_zero:
        set_launcher_environment()
    if in_zero and recipe.cpu:
        connect_zero_on_cpus(collective_timeout(recipe))
        arguments["accelerator_config"] = {"use_configured_state": True}
    if how == "fsdp2" and world_size() > 1 and not outside:
        arguments |= {"fsdp": True, "fsdp_config": FSDP2}
    # else our optimizers keep the 32-bit weights, and no autocast is needed
    masters = in_zero or (has_sharded_weights(recipe) and not recipe.cpu)
    return arguments | {"bf16": recipe.model.dtype == "bfloat16" and masters}


def collective_timeout(recipe: TrainingRecipe) -> timedelta:
    """How long a collective operation waits for a rank. It is longer than the deadlines, so that the watchdog reports
    first.
    """
    return timedelta(seconds=int(max(recipe.deadlines.collective, recipe.deadlines.step) + 600))


class ParallelTrainer(CompleteCheckpoints, Trainer):
    """A trainer that shards as configured, and saves complete models and complete checkpoints.

    It makes its optimizer when training begins. `muon` is Muon's learning rate; None is AdamW alone.
    """

    muon: float | None = None
    optimizer: torch.optim.Optimizer | None

    def create_optimizer(self, *model: torch.nn.Module) -> torch.optim.Optimizer:
        """Muon with AdamW if asked for; else transformers' AdamW, with masters if a trained weight is in bfloat16."""
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        if self.optimizer is None and self.muon is not None:
            args = self.args
            self.optimizer = MuonWithAdamW(self.model, self.muon, args.learning_rate, args.adam_beta2, args.weight_decay)
        elif not self.is_deepspeed_enabled and any(map(has_master, trained)):
            self.optimizer_cls_and_kwargs = AdamW, self.get_optimizer_cls_and_kwargs(self.args, self.model)[1]
        return super().create_optimizer(*model)

    def create_accelerator_and_postprocess(self) -> None:
        """Create the accelerator. Raises `InputError` if FSDP2 was asked for and accelerate does not shard."""
        self.stored_type: torch.dtype = self.model.dtype  # before FSDP2 casts its shards to 32 bits
        asked = self.args.fsdp_plugin_args is not None or os.environ.get("ACCELERATE_USE_FSDP") == "true"
        if asked:
            allow_fsdp_on_cpus()
        super().create_accelerator_and_postprocess()
        self._match_adapter_dtype()
        register_numbered_cpu()
        forget_zero3_config()  # else `generate` would wait for other ranks after each token
        if asked and world_size() > 1 and not self.accelerator.is_fsdp2:
            raise InputError("FSDP2 was asked for, and accelerate does not shard here", "parallel", "use `parallel: ddp`")

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; weights are sharded first, if they are to be."""
        prepare_sharding(self.model, self.accelerator)  # not in `__init__`: until now engines copy the whole weights
        return super().train(*args, **kwargs)

    def check_loss(self, loss: torch.Tensor) -> None:
        """Stop all ranks before their weights change if the loss of one is not finite. transformers would train on."""
        refuse_infinite_loss(self.accelerator.reduce(loss, reduction="mean").item())

    def _load_from_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_checkpoint(*args, **kwargs)
        self._match_adapter_dtype()  # peft loads adapters in float32

    def _match_adapter_dtype(self) -> None:
        if self.accelerator.mixed_precision == "no":
            match_adapter_dtype(self.model)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save a complete model with tied weights once.

        transformers alone would save nothing of shards, or would save tied weights twice.
        """
        state = self.accelerator
        if state.distributed_type != DistributedType.DEEPSPEED and (_internal_call or not state.is_fsdp2):
            super().save_model(output_dir, _internal_call)  # an FSDP2 checkpoint holds shards only
            return
        saved = {}
        policy = state.unwrap_model(self.model_wrapped)
        for name, weight in gather_whole_weights(policy, frozen=not isinstance(self.model, PeftModel)):
            if self.args.should_save:
                dtype = weight.dtype if isinstance(self.model, PeftModel) else self.stored_type  # an adapter's is its own
                saved[name] = weight.to("cpu", dtype, copy=True)
        if not self.args.should_save:
            return
        self._save(output_dir, state_dict=saved)
        config = Path(output_dir or self.args.output_dir) / CONFIG_NAME
        if config.exists():  # transformers writes the dtype of training, which may differ; an adapter has no config.json
            said = json.loads(config.read_text(encoding="utf-8"))
            write_atomic(config, json.dumps(said | {"dtype": str(self.stored_type).removeprefix("torch.")}, indent=2) + "\n")


FSDP2: dict[str, Any] = {
    "version": 2,
    "reshard_after_forward": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}


def deepspeed_config(stage: int) -> dict[str, Any]:
    """A DeepSpeed configuration for a ZeRO stage. Its batch sizes are those of the trainer."""
    return {
        "zero_optimization": {"stage": stage, "overlap_comm": True, "contiguous_gradients": True},
        "bf16": {"enabled": "auto"},
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }
