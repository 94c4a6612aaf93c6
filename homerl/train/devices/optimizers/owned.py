"""Which optimizer a trainer has, and the number format of adapters.

Invariants: bfloat16 weights are never updated without float32 masters (DeepSpeed keeps its own); a float32 run has
transformers' own optimizer; a schedule and a checkpoint need not know which.
"""

from __future__ import annotations

import torch
from peft import PeftModel
from transformers import Trainer

from homerl.train.devices.optimizers.adamw import AdamW
from homerl.train.devices.optimizers.masters import has_master
from homerl.train.devices.optimizers.muon import MuonWithAdamW


class OptimizerChoice(Trainer):
    """A trainer that makes its optimizer when training begins. `muon` is Muon's learning rate; None is AdamW alone."""

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


def match_adapter_dtype(model: torch.nn.Module) -> None:
    """Store an adapter in its base's number format, if that is bfloat16. peft makes it in float32, for an autocast."""
    if not isinstance(model, PeftModel) or model.dtype != torch.bfloat16:
        return
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.to(torch.bfloat16)
