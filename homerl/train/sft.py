"""Supervised fine-tuning on verified trajectories (HomeFlow 3.4.1), with TRL's SFTTrainer.

Invariants: only assistant tokens have a loss; no dialogue is truncated (a longer one is refused by name); a killed run
resumes from its last checkpoint and ends as an uninterrupted one does. Difference from eq. 5: the policy does not see
the goals Φ, since these would leak the answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.documents import InputError
from homerl.train.common import (
    common_arguments,
    fit,
    load_policy,
    load_tokenizer,
    peft_config,
    prepare_scratch,
)  # fmt: skip
from homerl.train.parallel import ParallelTrainerMixin
from homerl.train.phases import TRAIN, Phases
from homerl.train.recipe import SFTRecipe
from homerl.train.refusals import refuse_untrainable, world_size
from homerl.train.watchdog import Watchdog
from homerl.workarounds.whole_at_first import unsharded


def train_sft(recipe: SFTRecipe) -> Path:
    """Train as the recipe says; return the folder of the final model. Raises `InputError` for data that is too long."""
    from trl import SFTConfig, SFTTrainer

    refuse_untrainable(recipe)
    out = recipe.out
    rows = load_dialogues(recipe.data)
    source = prepare_scratch(recipe, rows)
    tokenizer = load_tokenizer(source)
    settings = recipe.sft
    lengths = refuse_long(rows, tokenizer, settings.max_length, str(data_file(recipe.data)))
    if settings.in_order:
        rows = rows.select(bucketed(lengths, settings.batch * world_size(), recipe.seed))
    arguments = SFTConfig(
        **common_arguments(recipe, settings),
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps,
        max_length=settings.max_length,
        packing=settings.packing,
        shuffle_dataset=settings.packing and not settings.in_order,
        assistant_only_loss=True,
        train_sampling_strategy="sequential" if settings.in_order else "random",
        dataset_num_proc=None,
    )

    class Trainer(PhaseReportingMixin, SFTTrainer):
        pass

    with unsharded():
        trainer = Trainer(
            model=load_policy(recipe.model, source),
            args=arguments,
            train_dataset=rows,
            processing_class=tokenizer,
            peft_config=peft_config(recipe.model),
        )
    trainer.muon = settings.muon
    trainer.phases = Phases(out / "ranks", trainer.accelerator.process_index)
    with Watchdog(trainer.phases, dict(recipe.deadlines)):
        return fit(trainer, tokenizer, out, settings.seconds)


class PhaseReportingMixin(ParallelTrainerMixin):
    """A trainer mixin that reports each rank's phase: `train` while it fetches data, `step` while ranks wait for each
    other.

    So the watchdog can name the rank that the others wait for.
    """

    phases: Phases

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Fetch data in the phase `train`."""
        self.phases.training(self.state.global_step)
        return super().get_batch_samples(*args, **kwargs)

    def _get_num_items_in_batch(self, *args: Any, **kwargs: Any) -> Any:
        with self.phases.phase("step", TRAIN, waits=True):  # it gathers a count over all ranks
            return super()._get_num_items_in_batch(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Make a step in the phase `step`."""
        with self.phases.phase("step", TRAIN, waits=True):
            return super().training_step(*args, **kwargs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the seconds since the last log."""
        if "loss" in logs:
            logs["time/seconds"] = self.phases.take()["time/seconds"]
        super().log(logs, start_time)


def bucketed(lengths: Sequence[int], batch: int, seed: int, window: int = 512) -> list[int]:
    """Row indices in dataset order, except that within each window of rows those of similar length share a batch.

    Windows stay in order, so a curriculum is kept, and there is little padding. The batches of a window are shuffled.
    """
    rng, order = random.Random(seed), []
    for start in range(0, len(lengths), window):
        rows = sorted(range(start, min(start + window, len(lengths))), key=lambda i: (lengths[i], i))
        batches = [rows[i : i + batch] for i in range(0, len(rows), batch)]
        rng.shuffle(batches)
        order += [i for rows in batches for i in rows]
    return order


def refuse_long(rows: Any, tokenizer: Any, limit: int, data: str) -> list[int]:
    """The lengths of all dialogues in tokens. Raises `InputError` for the first one over `limit`, since TRL would truncate
    it.
    """
    lengths: list[int] = []
    for start in range(0, len(rows), 1000):
        part = rows[start : start + 1000]
        texts = [
            tokenizer.apply_chat_template(messages, tools=json.loads(tools), tokenize=False)
            for messages, tools in zip(part["messages"], part["tools"], strict=True)
        ]
        for number, ids in enumerate(tokenizer(texts, add_special_tokens=False)["input_ids"], start + 1):
            if len(ids) > limit:
                raise InputError(
                    f"dialogue {number} has {len(ids)} tokens, more than sft.max_length {limit}",
                    where=f"{data}:{number}", remedy="raise sft.max_length, or leave the dialogue out",
                )  # fmt: skip
            lengths.append(len(ids))
    return lengths


def data_file(data: str) -> Path:
    """`trajectories.jsonl` in a folder of trajectories; any other name is returned as it is."""
    return Path(data) / "trajectories.jsonl" if Path(data).is_dir() else Path(data)


def load_dialogues(data: str) -> Any:
    """Rows with `messages` and `tools`, from a folder with `trajectories.jsonl`, a JSON Lines file, or a dataset on the
    hub.
    """
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    path = data_file(data)
    rows = (
        load_dataset("json", data_files=str(path), split="train")
        if path.suffix in (".jsonl", ".json") or path.exists()
        else load_dataset(data, split="train")
    )
    return rows.select_columns(["messages", "tools"])
