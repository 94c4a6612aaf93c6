"""The memory that a policy and its KL reference take on each rank until both are sharded, as multiples of one whole model.

`python sharded_memory.py WAY FOLDER DTYPE` prints a line a rank: the peak, and whether both have the
weights of the folder.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import torch
from accelerate import PartialState
from spread_updates import arguments
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from homerl.train.parallel.parallel_trainer import ParallelTrainer
from homerl.train.parallel.sharding import gather_weights
from homerl.train.recipe import RLVERecipe, starts_without_weights
from homerl.train.training_setup import load_policy
from homerl.train.update.policy_and_reference import ReferenceModel
from homerl.train.workarounds import load_unsharded


def peak() -> int:
    """The most memory in bytes that this process had since its peak was forgotten."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


class Sharded(ParallelTrainer):
    """A trainer that ends when its weights are sharded. ZeRO-3's are before there is an optimizer, FSDP2's after that."""

    peak = 0

    def create_optimizer(self, *model):
        """Note the peak of ZeRO-3, whose optimizer copies its shards."""
        self.peak = peak() if self.is_deepspeed_enabled else 0
        return super().create_optimizer(*model)

    def get_train_dataloader(self):
        """Nothing to train on."""
        return [{}]

    def training_step(self, *args):
        """No update."""
        self.peak = self.peak or peak()
        raise StopIteration


def whole(weight: torch.Tensor) -> torch.Tensor:
    """A weight of which this rank may have a shard."""
    return weight.full_tensor() if isinstance(weight, DTensor) else weight.detach().clone()


def main(way: str, folder: str, dtype: str) -> None:
    """Measure, and compare the weights with those of the folder."""
    given = arguments(way, Path(folder).parent)
    recipe = RLVERecipe.model_validate(
        {
            "homerl": 1,
            "run": "rlve",
            "cpu": True,
            "parallel": way,
            "model": {"name": folder, "dtype": dtype},
            "blueprints": {"recipe": {}, "count": 1},
            "rlve": {"kl": 0.1},
        }
    )
    Path("/proc/self/clear_refs").write_text("5")
    begun = psutil.Process().memory_info().rss
    with load_unsharded():
        model = load_policy(recipe.model, folder, starts_without_weights(recipe))
        reference = ReferenceModel(recipe, model)
        trainer = Sharded(model, given, train_dataset=[0])
        reference.place_on_device(trainer.accelerator)
    with suppress(StopIteration):
        trainer.train()
    size = sum(getattr(w, "ds_numel", w.numel()) * w.element_size() for w in model.parameters())
    most = (trainer.peak - begun) / size
    with load_unsharded():
        plain = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    same = True
    for found in (trainer.model, reference.model):
        policy = trainer.accelerator.unwrap_model(found)
        for name, weight in policy.named_parameters():
            with gather_weights([weight]):
                same &= torch.equal(whole(weight), plain.get_parameter(name))
        same &= all(torch.equal(one, other) for one, other in zip(policy.buffers(), plain.buffers(), strict=True))
    line = f"rank {PartialState().process_index} {most:.2f} {same}\n"
    print(line, end="", flush=True)  # in one write, since ranks share the pipe
    PartialState().wait_for_everyone()


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
