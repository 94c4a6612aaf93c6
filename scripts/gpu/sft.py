"""SFT on rows packed to 8k tokens: by homerl, and by TRL's SFTTrainer on the same dialogues and the same model."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cache
from statistics import mean
from typing import Any

from gpu.machine import Machine
from gpu.predicted import gpu_memory, predicted_gb
from gpu.shipped import recipe
from gpu.weights import random_model

WARM = 2  # first updates, which are not timed


@dataclass(frozen=True)
class SFT:
    """The SFT of a shipped recipe, with random weights of a known model."""

    name: str
    size: str

    def row(self, machine: Machine) -> int:
        """Tokens of a packed row."""
        return machine.pick(8192, 512)

    def updates(self, machine: Machine) -> int:
        """Updates in all; the last one is profiled."""
        return machine.pick(13, 5)

    def asked(self, machine: Machine) -> Any:
        """The recipe that is measured."""
        source = random_model(machine, self.size)
        dialogues = max(1, round(self.row(machine) / mean(lengths(machine, source))))
        settings = {
            "dialogues_per_update": dialogues,
            "tokens_per_step": self.row(machine),
            "max_length": self.row(machine),
            "max_steps": self.updates(machine),
            "save_steps": None,
            "log_steps": 1,
        }
        return recipe(
            machine, self.name, source, machine.folder / f"out_{self.name}", data=str(machine.folder), sft=settings
        )

    def ours(self, machine: Machine) -> dict[str, Any]:
        """homerl's trainer."""
        from gpu.watch import watching
        from homerl.train.update.sft import train_sft

        asked = self.asked(machine)
        predicted = {"predicted_gb": predicted_gb(asked, gpu_memory(machine.tiny))}

        def figures(watch: Any) -> dict[str, Any]:
            return self.figures(machine, asked, watch) | predicted

        with watching(machine, WARM, self.updates(machine), lambda watch: machine.keep(self.name, figures(watch))) as watch:
            train_sft(asked)
        shutil.rmtree(asked.out)  # the next part needs the disk
        return figures(watch)

    def trl(self, machine: Machine, checkpointing: bool) -> dict[str, Any]:
        """TRL's trainer with best-fit packing, which needs no padding, and its fused loss."""
        from trl import SFTConfig, SFTTrainer

        from gpu.trl_settings import common, load, named
        from gpu.watch import watching
        from homerl.train.data.sft_dialogues import load_dialogues
        from homerl.train.model_settings import make_lora_config
        from homerl.train.training_setup import load_chat_tokenizer

        asked = self.asked(machine)
        arguments = SFTConfig(
            **common(machine, machine.folder / "out_trl", checkpointing, self.updates(machine)),
            per_device_train_batch_size=1,
            max_length=self.row(machine),
            packing=True,
            packing_strategy="bfd",
            shuffle_dataset=True,
            assistant_only_loss=True,
        )
        model = load(machine, random_model(machine, self.size))
        trainer = SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=load_dialogues(asked.data),
            processing_class=load_chat_tokenizer(asked.model.name),
            peft_config=make_lora_config(asked.model, model),
        )
        with watching(machine, WARM, self.updates(machine)) as watch:
            trainer.train()
        return self.figures(machine, asked, watch) | {"settings": named(machine, arguments)}

    def figures(self, machine: Machine, asked: Any, watch: Any) -> dict[str, Any]:
        """Tokens a second and MFU, with what all runs have."""
        from gpu.watch import as_figures

        rate, flops, packing = watch.tokens() / watch.update_seconds, machine.flops(), watch.packing()
        needed = rate  # tokens a second that have to be forwarded: what dialogues begin with in common counts once
        if packing:
            needed = packing["forwarded_tokens"] * packing["unique_share"] / watch.update_seconds
        shape, trained = machine.shape(self.size), 4 if asked.model.lora else 6
        own = lengths(machine, random_model(machine, self.size))
        reach = {"mfu": sum(n * n for n in own) / sum(own), "mfu_whole_rows": self.row(machine)}
        return {
            "tokens_per_second": rate,
            "tokens_per_update": watch.tokens(),
            **{name: needed * operations(shape, trained, seen) / flops if flops else None for name, seen in reach.items()},
            **as_figures(watch),
        }


def operations(shape: Any, per_parameter: int, seen: float) -> float:
    """Floating-point operations of a trained token that lies in a text of `seen` tokens, of which it sees half.

    The input embedding multiplies nothing; tied weights do so as the head.
    """
    multiplied = shape.parameters - (0 if shape.tied else shape.vocab * shape.hidden)
    return per_parameter * multiplied + 6 * shape.layers * shape.heads * shape.head_dim * seen


@cache
def lengths(machine: Machine, source: Any) -> list[int]:
    """Tokens of each dialogue."""
    from homerl.play.trajectory import read_rows
    from homerl.train.training_setup import load_chat_tokenizer

    tokenizer = load_chat_tokenizer(str(source))
    texts = [
        tokenizer.apply_chat_template(row["messages"], tools=json.loads(row["tools"]), tokenize=False)
        for row in read_rows(machine.folder / "trajectories.jsonl")
    ]
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
