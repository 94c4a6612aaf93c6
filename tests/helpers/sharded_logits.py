"""Run a recipe. At its end, save the logits of its sharded model for fixed token ids, and the share of weights on a rank."""

import sys

import torch

from homerl.app.runs.launch import main
from homerl.train.parallel import parallel_trainer

save_model = parallel_trainer.ParallelTrainer.save_model


def held(trainer):
    """The share of the trained weights whose 32-bit copies, which the optimizer updates, are on this rank."""
    inside = getattr(trainer.model_wrapped, "optimizer", None)
    parts = getattr(inside, "fp32_partitioned_groups_flat", None) or getattr(inside, "single_partition_of_fp32_groups", None)
    kept = trainer.accelerator.unwrap_model(trainer.model_wrapped).state_dict(keep_vars=True)
    weights = list({id(weight): weight for weight in kept.values() if weight.requires_grad}.values())
    if parts is None:
        parts = [weight.to_local() for weight in weights]
    return sum(part.numel() for part in parts) / sum(getattr(w, "ds_numel", w.numel()) for w in weights)


def and_logits(self, output_dir=None, _internal_call=False):
    """Save the model as usual; after the last update also `logits.pt` and `shards.pt`."""
    save_model(self, output_dir, _internal_call)
    if not _internal_call:
        self.model_wrapped.eval()
        with torch.no_grad():
            logits = self.model_wrapped(torch.arange(3, 60)[None]).logits
        if self.accelerator.is_main_process:
            folder = self.args.output_dir + "/.."
            torch.save(logits, f"{folder}/logits.pt")
            torch.save(torch.tensor(held(self)), f"{folder}/shards.pt")


parallel_trainer.ParallelTrainer.save_model = and_logits
sys.exit(main(sys.argv[1], sys.argv[2:]))
