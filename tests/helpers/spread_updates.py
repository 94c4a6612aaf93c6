"""Two updates of each kind on one rank or on several, spread in some way: their losses, gradients and weights.

`python spread_updates.py WAY FOLDER` writes `WAY.pt` there. torchrun starts it on several ranks. Every update has three
groups of 5, 1 and 3 rollouts, each group with a prompt of its own; the first rank of two has the first group.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from accelerate import PartialState
from peft import LoraConfig, get_peft_model
from torch.distributed.tensor import DTensor
from transformers import Qwen3Config, Qwen3ForCausalLM, TrainingArguments
from trl.trainer.utils import add_fused_lm_head

from homerl.train.packing.packed_updates import PackedUpdates, TokenSequence
from homerl.train.packing.pass_budget import TokenBudget
from homerl.train.parallel.parallel_trainer import ParallelTrainer, deepspeed_config, parallel_arguments
from homerl.train.parallel.sharding import copy_model, gather_whole_weights
from homerl.train.recipe import RLVESettings, SFTRecipe
from homerl.train.update.objective import RolloutObjective, SampledTokens

WORDS, UPDATES = 40, 2
KINDS = [(model, loss) for model in ("full", "lora") for loss in ("sft", "rlve")]


def tiny(kind: str) -> torch.nn.Module:
    """A float32 Qwen3 with tied embeddings, or an adapter on it that already changes its answers."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "head_dim": 16, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen3Config(
        vocab_size=WORDS, num_hidden_layers=2, tie_word_embeddings=True, attn_implementation="sdpa", **sizes
    )
    model = Qwen3ForCausalLM(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if kind == "lora":
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.2)
    return model


def groups() -> list[list[TokenSequence]]:
    """Groups of 5, 1 and 3 rollouts of 4 to 30 sampled tokens."""
    draw = np.random.default_rng(1)
    found = []
    for size in (5, 1, 3):
        prompt = draw.integers(0, WORDS, 20).tolist()
        lengths = draw.integers(4, 30, size)
        found.append(
            [TokenSequence.from_ids(prompt + draw.integers(0, WORDS, n).tolist(), np.arange(20, 20 + n)) for n in lengths]
        )
    return found


def sampled(rank: int, ranks: int) -> tuple[SampledTokens, dict[str, torch.Tensor], int]:
    """The rollouts of a rank, what is known of their tokens, and the number of all; the same however they are dealt."""
    every, draw = groups(), np.random.default_rng(2)
    count = sum(len(one.targets) for group in every for one in group)
    drawn = draw.normal([[0.0], [-3.5], [-3.5], [-3.5]], [[1.0], [0.3], [0.3], [0.3]], (4, count))
    numbers = np.split(drawn, np.cumsum([sum(len(one.targets) for one in group) for group in every])[:-1], axis=1)
    mine = range(3) if ranks == 1 else ([0], [1, 2])[rank]
    advantages, logps, old, reference = np.concatenate([numbers[i] for i in mine], axis=1)
    sequences = tuple(one for i in mine for one in every[i])
    starts, zeros = np.cumsum([0, *(len(one.targets) for one in sequences)]), np.zeros(len(logps), int)
    known = {"old_logps": torch.tensor(old).float(), "reference_logps": torch.tensor(reference).float()}
    return SampledTokens(sequences, starts, advantages, logps, zeros), known, count


class Updates(ParallelTrainer):
    """The given rollouts, in packed passes, in each update."""

    def given(self, loss: str) -> "Updates":
        """Learn them by this loss."""
        state = self.accelerator
        self.updates = PackedUpdates(state, TokenBudget(60, 120), "sdpa")  # several passes a rank, some checkpointed
        self.tokens, known, count = sampled(state.process_index, state.num_processes)
        self.losses, self.gradients, weight = [], [], state.num_processes / count
        settings = RLVESettings(loss="dapo", kl=0.1, async_rollouts=1)
        of_rollouts = RolloutObjective(self.tokens, settings, 0, count, state.num_processes, **known)

        def of_dialogues(members, scored):
            return -weight * scored.logps.sum(), scored.logps.sum()[None]

        self.objective = of_rollouts if loss == "rlve" else of_dialogues
        return self

    def training_step(self, model, inputs, num_items_in_batch=None):
        """An update. DeepSpeed makes its optimizer step within."""
        if hasattr(model, "optimizer"):
            step = model.step
            model.step = lambda **rest: (self.note(), step(**rest))
        loss, _ = self.updates.train_on_sequences(model, self.tokens.sequences, self.objective)
        if hasattr(model, "optimizer"):
            del model.step
        else:
            self.note()
        self.losses.append(self.accelerator.reduce(loss, "mean").item())
        return loss

    def note(self):
        """Keep the whole gradients."""
        found = {}
        for name, weight in self.accelerator.unwrap_model(self.model_wrapped).named_parameters():
            if weight.requires_grad:
                found[name.replace("_checkpoint_wrapped_module.", "")] = gradient(weight).cpu().clone()
        self.gradients.append(found)


def gradient(weight: torch.Tensor) -> torch.Tensor:
    """The whole gradient of a weight, wherever its parts are."""
    if hasattr(weight, "_hp_mapping") or hasattr(weight, "ds_id"):
        from deepspeed.utils import safe_get_full_grad

        return safe_get_full_grad(weight)
    return weight.grad.full_tensor() if isinstance(weight.grad, DTensor) else weight.grad


def arguments(way: str, folder: Path) -> TrainingArguments:
    """The arguments of a trainer, spread as a recipe would be."""
    model = {"from_scratch": {}, "dtype": "float32"}
    how = {"zero1": "zero2"}.get(way, way)  # no recipe can ask for ZeRO-1, only a configuration of DeepSpeed's own
    recipe = SFTRecipe.model_validate(
        {"homerl": 1, "run": "sft", "data": "none", "cpu": True, "parallel": how, "model": model}
    )
    spread = parallel_arguments(recipe) | ({"deepspeed": deepspeed_config(1)} if way == "zero1" else {})
    return TrainingArguments(
        output_dir=str(folder / way), max_steps=UPDATES, per_device_train_batch_size=1, use_cpu=True, report_to=[],
        learning_rate=1e-2, lr_scheduler_type="constant", adam_epsilon=1e-3, save_strategy="no", disable_tqdm=True,
        max_grad_norm=0.5, gradient_checkpointing=False, ddp_find_unused_parameters=False, **spread,
    )  # fmt: skip


def main(way: str, folder: Path) -> None:
    """Write what this way of spreading gives, by kind."""
    found, given = {}, arguments(way, folder)
    for model, loss in KINDS:
        if found and way.startswith("zero"):
            given = arguments(way, folder)  # DeepSpeed's state is that of one trainer
        policy = copy_model(tiny(model), empty=way in ("fsdp2", "zero3") and not PartialState().is_main_process)
        trainer = Updates(policy, given, train_dataset=[{"x": 0}] * 8, data_collator=list).given(loss)
        trainer.train()
        trained = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        weights = {name: weight.cpu().clone() for name, weight in gather_whole_weights(trained, frozen=False)}
        passes = trainer.updates.counts["passes"]
        found[model, loss] = {"losses": trainer.losses, "gradients": trainer.gradients, "weights": weights, "passes": passes}
    if PartialState().is_main_process:
        torch.save(found, folder / f"{way}.pt")
    PartialState().wait_for_everyone()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # gloo may abort a process that ends in the usual way, when its work is done
