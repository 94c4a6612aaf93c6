"""The dialogues that SFT learns: loaded, tokenized, and labelled where they are learnt.

Invariants: only what the assistant said in play is learnt (or all tokens, see `sft.loss_on`), never what it is said to have
said before: an earlier "Done." stands without the calls that earned it. Nor is a message whose calls were refused; what it
did then, is. No dialogue is truncated: a longer one is refused by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState

from envs.documents import InputError
from homerl.play.trajectory import read_rows, unlearnt_in
from homerl.train.packing.rows import IGNORED
from homerl.train.teacher import with_notes

FEW = 500  # dialogues that are tokenized sooner than another process starts


def load_dialogues(data: str, noted: float = 0.0, seed: int = 0) -> Any:
    """Rows with `messages`, `tools` and `unlearnt`, from a folder with `trajectories.jsonl`, a JSON Lines file, or a dataset
    on the hub. Without a column `steps`, all messages of the assistant are its own. A share `noted` of the rows has a note
    for teachers in its instructions.

    Raises `InputError` for data without dialogues, and if notes need blueprints that it lacks.
    """
    from datasets import Features, List, Value, disable_progress_bars, load_dataset

    disable_progress_bars()
    path = data_file(data)
    if path.suffix == ".jsonl" and next(read_rows(path), None) is None:
        raise InputError("there is no dialogue in it", str(path), "make some with `run: synth`")
    rows = (
        load_dataset("json", data_files=str(path), split="train")
        if path.suffix in (".jsonl", ".json") or path.exists()
        else load_dataset(data, split="train")
    )
    if noted and "blueprint" not in rows.column_names:
        raise InputError("the data has no column `blueprint`, which notes are made from", data, "set sft.noted to 0")
    if missing := [name for name in ("messages", "tools") if name not in rows.column_names]:
        raise InputError(f"the data has no column `{missing[0]}`", data, "train on trajectories that `run: synth` wrote")
    rows = with_notes(rows, noted, seed) if noted else rows
    kept = {name: feature for name, feature in rows.features.items() if name in ("messages", "tools")}
    features = Features(kept | {"unlearnt": List(Value("int64"))})  # else the first rows, of empty lists, tell the type
    unused = [column for column in rows.column_names if column not in kept]
    return rows.map(with_unlearnt, remove_columns=unused, features=features, num_proc=processes_for(rows))


def with_unlearnt(row: dict[str, Any]) -> dict[str, Any]:
    """The row with `unlearnt`, the numbers of the assistant's messages that are not learnt."""
    return {"unlearnt": unlearnt_in(row)}


def data_file(data: str) -> Path:
    """`trajectories.jsonl` in a folder of trajectories; any other name is returned as it is."""
    return Path(data) / "trajectories.jsonl" if Path(data).is_dir() else Path(data)


def processes_for(rows: Any) -> int | None:
    """The number of processes that map rows, None for this one alone: the other ranks wait for the first one meanwhile."""
    count = min(os.cpu_count() or 1, len(rows) // FEW)
    return count if count > 1 else None


def tokenized(rows: Any, tokenizer: Any, loss_on: str) -> Any:
    """Each dialogue's `input_ids` and `labels` (the token where it is learnt, else `IGNORED`), and their `length`."""

    def tokens(row: dict[str, Any]) -> dict[str, Any]:
        found = tokenizer.apply_chat_template(
            row["messages"], tools=json.loads(row["tools"]), return_dict=True, return_assistant_tokens_mask=True
        )
        ids = found["input_ids"]
        labels = np.where(np.asarray(found["assistant_masks"], dtype=bool), ids, IGNORED)
        return {"input_ids": ids, "labels": learnt_labels(ids, labels, row["unlearnt"], loss_on), "length": len(ids)}

    with PartialState().main_process_first():
        return rows.map(tokens, remove_columns=rows.column_names, num_proc=processes_for(rows))


def learnt_labels(
    ids: Sequence[int], labels: Sequence[int], unlearnt: Sequence[int], loss_on: str = "assistant"
) -> list[int]:
    """Labels, [tokens]: of the assistant's messages (`labels`) but those with the numbers `unlearnt`; or all tokens but
    these, up to the assistant's last.
    """
    said = np.asarray(labels) != IGNORED
    starts = np.diff(said, prepend=False) & said
    passed = said & np.isin(np.cumsum(starts) - 1, unlearnt)
    last = np.flatnonzero(said & ~passed)[-1:]
    learnt = (np.arange(len(said)) <= last) & ~passed if loss_on == "all" and len(last) else said & ~passed
    return np.where(learnt, ids, IGNORED).tolist()


def refuse_long(lengths: Sequence[int], limit: int, data: str) -> None:
    """Raise `InputError` for the first dialogue that has more than `limit` tokens."""
    for number, length in enumerate(lengths, 1):
        if length > limit:
            raise InputError(
                f"dialogue {number} has {length} tokens, more than sft.max_length {limit}",
                where=f"{data}:{number}", remedy="raise sft.max_length, or leave the dialogue out",
            )  # fmt: skip
