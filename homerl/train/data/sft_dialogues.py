"""The dialogues that SFT learns: loaded, tokenized, labelled where they are learnt, and shared out to processes.

Invariants:
- Only what the assistant said in play is learnt (or all tokens, see `sft.loss_on`). What it is said to have said before is
  not learnt: an earlier "Done." stands without the calls that earned it. A message whose calls were refused is not learnt
  either, but what the assistant did next is.
- No dialogue is truncated: a longer one is refused by name.
- An epoch has every dialogue once, so its last update may be smaller. The order follows from seed and epoch alone.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from accelerate import PartialState
from torch.utils.data import Sampler

from homerl.envs.core.documents import InputError
from homerl.models.policy import chat_template
from homerl.models.policy.chat_template import encode_with_mask
from homerl.play.trajectory import find_unlearnt_messages, locate_row_errors, parse_json_line, read_rows
from homerl.train.data import dialogue_forms
from homerl.train.packing.packed_updates import IGNORE_INDEX
from homerl.train.recipe import world_size

if TYPE_CHECKING:
    from datasets import Dataset, Features
    from transformers import PreTrainedTokenizerBase


UNWRITTEN = "the chat template of the model cannot write this dialogue: correct the line, or leave it out"
FEW = 500  # dialogues that are tokenized sooner than another process starts


def load_dialogues(data: str) -> Dataset:
    """Rows with `messages`, `tools` and `unlearnt`, from a folder with `trajectories.jsonl`, a file of JSON Lines or of a
    JSON list, or a dataset on the hub, in any form that `dialogue_forms` reads.

    Raises `InputError` for data without dialogues, and for a row that cannot be read.
    """
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    path = trajectories_file(data)
    is_file = path.suffix in (".jsonl", ".json") or path.exists()
    rows = _load_lines(path) if is_file else load_dataset(data, split="train")
    rules = "".join(inspect.getsource(part) for part in (dialogue_forms, find_unlearnt_messages))
    return rows.map(
        read_stored_row,
        with_indices=True,
        fn_kwargs={"rule": rules, "data": str(path), "is_line": is_file},
        remove_columns=rows.column_names,
        features=_dialogue_features(),
        num_proc=count_map_processes(rows, world_size()),
    )


def _load_lines(path: Path) -> Dataset:
    """The lines of a file as texts, one a row: a table would give each object the keys of all others."""
    from datasets import Dataset, load_dataset

    listed = _read_json_list(path)
    if not (listed or (listed is None and next(read_rows(path), None) is not None)):
        raise InputError("there is no dialogue in it", str(path), "make some with `run: synth`")
    if listed:
        return Dataset.from_dict({"text": [json.dumps(row) for row in listed]})
    # one character a byte, so that a line that is no UTF-8 is refused by its number
    return load_dataset("text", data_files=str(path), split="train", encoding="latin-1")


def _read_json_list(path: Path) -> list[Any] | None:
    """The rows of a file that is one JSON list; None for any other file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(1) != b"[":
            return None
    try:
        rows: list[Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON list: {error}", str(path), dialogue_forms.REMEDY) from None
    return rows


def _dialogue_features() -> Features:
    """The columns of dialogues: else the first rows, of empty lists, would tell their types."""
    from datasets import Features, List, Value

    text = Value("string")
    calls = List({"id": text, "type": text, "function": {"name": text, "arguments": text}})
    message = {"role": text, "content": text, "tool_calls": calls, "tool_call_id": text}
    return Features({"messages": List(message), "tools": text, "unlearnt": List(Value("int64"))})


def list_system_prompts(rows: Any) -> list[str]:
    """The system prompt of each dialogue; empty where it has none."""
    first = (row["messages"][0] for row in rows.select_columns("messages"))
    return [message["content"] if message["role"] == "system" else "" for message in first]


def read_stored_row(row: dict[str, Any], index: int, rule: str, data: str, is_line: bool) -> dict[str, Any]:
    """The dialogue of a row, which is a line of a file, or a row of a table. The cache tells rules apart.

    Raises `InputError` for a row that is no dialogue.
    """
    where = f"{data}:{index + 1}"
    plain = parse_json_line(row["text"].encode("latin-1"), where) if is_line else without_nones(row)
    if not isinstance(plain, dict):
        raise InputError("the row is no object", where, dialogue_forms.REMEDY)
    return dialogue_forms.read_dialogue_row(plain, where)


def without_nones(value: Any) -> Any:
    """Plain data without the keys that a table gave to an object because others have them."""
    if isinstance(value, dict):
        return {key: without_nones(part) for key, part in value.items() if part is not None}
    return [without_nones(part) for part in value] if isinstance(value, list) else value


def trajectories_file(data: str) -> Path:
    """`trajectories.jsonl` in a folder of trajectories; any other name is returned as it is."""
    return Path(data) / "trajectories.jsonl" if Path(data).is_dir() else Path(data)


def count_map_processes(rows: Dataset, ranks: int = 1) -> int | None:
    """The number of processes with which each of so many ranks maps rows at the same time; None for the rank alone."""
    count = min((os.cpu_count() or 1) // ranks, len(rows) // FEW)
    return count if count > 1 else None


def tokenize_dialogues(rows: Dataset, tokenizer: PreTrainedTokenizerBase, loss_on: str, data: str) -> Dataset:
    """Each dialogue's `input_ids` and `labels` (the token where it is learnt, else `IGNORE_INDEX`), their number (`length`),
    and how many the assistant said. The first rank makes them with all cores, the others read them from its cache.

    Raises `InputError`, with its place in `data`, for a dialogue that the model's chat template cannot write.
    """

    def tokens(row: dict[str, Any], index: int, rule: str, where: str) -> dict[str, Any]:
        with locate_row_errors(f"{where}:{index + 1}", UNWRITTEN):
            ids, mask = encode_with_mask(tokenizer, row["messages"], json.loads(row["tools"]))
        said = np.asarray(mask, dtype=bool)
        labels = label_learnt_tokens(ids, said, row["unlearnt"], loss_on)
        return {"input_ids": ids, "labels": labels, "length": len(ids), "said": int(said.sum())}

    state = PartialState()
    # the cache knows functions of modules by their names alone
    rules = "".join(inspect.getsource(part) for part in (label_learnt_tokens, chat_template))
    rule = {"rule": rules, "where": str(trajectories_file(data))}
    with state.main_process_first(), state.local_main_process_first():  # nodes may have caches of their own
        return rows.map(tokens, True, fn_kwargs=rule, remove_columns=rows.column_names, num_proc=count_map_processes(rows))


def label_learnt_tokens(
    ids: Sequence[int], said: np.ndarray, unlearnt: Sequence[int], loss_on: str = "assistant"
) -> list[int]:
    """Labels, [tokens]: of what the assistant `said` (booleans, [tokens]) but its messages with the numbers `unlearnt`.

    Or of all tokens but these, up to the assistant's last.
    """
    # a message starts where the mask rises; its number is the count of starts so far
    starts = np.diff(said, prepend=False) & said
    passed = said & np.isin(np.cumsum(starts) - 1, unlearnt)
    last = np.flatnonzero(said & ~passed)[-1:]
    learnt = (np.arange(len(said)) <= last) & ~passed if loss_on == "all" and len(last) else said & ~passed
    labels: list[int] = np.where(learnt, ids, IGNORE_INDEX).tolist()
    return labels


def refuse_unfit_dialogues(dialogues: Dataset, limit: int, data: str) -> None:
    """Raise `InputError` for the first dialogue with more than `limit` tokens, or in which the assistant says nothing."""
    for number, (length, said) in enumerate(zip(dialogues["length"], dialogues["said"], strict=True), 1):
        where = f"{data}:{number}"
        if length > limit:
            what = f"dialogue {number} has {length} tokens, more than sft.max_length {limit}"
            raise InputError(what, where, "raise sft.max_length, or leave the dialogue out")
        if not said:
            what = f"in dialogue {number} the assistant says nothing, so there is nothing to learn"
            raise InputError(what, where, "leave the dialogue out")


T = TypeVar("T")
ALIKE = 0.5  # share of a prompt that another begins with, if both are of one home


@dataclass(frozen=True)
class RankBatches:
    """The dialogues of each process in each update: shuffled, or as in the dataset (`in_order`).

    `dialogues` is their number in one update. With `homes`, the home of each dialogue, up to `together` of one home are
    learnt by one process in one update.
    """

    lengths: Sequence[int]
    dialogues: int
    processes: int
    seed: int
    in_order: bool
    homes: Sequence[Hashable] = ()
    together: int = 1

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return -(-len(self.lengths) // self.dialogues)

    def epoch_batches(self, epoch: int) -> Iterator[list[list[int]]]:
        """Each update's dialogues, by process."""
        order, rng = list(range(len(self.lengths))), random.Random(f"dialogues {self.seed} {epoch}")
        if not self.in_order:
            rng.shuffle(order)
        home = self.homes.__getitem__ if self.together > 1 else lambda dialogue: dialogue
        if self.together > 1:
            order = gather_by_home(order, home, self.together, rng)
        for start in range(0, len(order), self.dialogues):
            parts = [list(part) for _, part in groupby(order[start : start + self.dialogues], home)]
            yield balance_over_ranks(parts, self.lengths, self.processes)


class RankBatchSampler(Sampler[list[int]]):
    """The dialogues that a rank learns in each update of the epoch that `updates_done()` has got to."""

    def __init__(self, rank_batches: RankBatches, rank: int, updates_done: Callable[[], int]) -> None:
        self.rank_batches, self.rank, self.updates_done = rank_batches, rank, updates_done

    def __len__(self) -> int:
        return len(self.rank_batches)

    def __iter__(self) -> Iterator[list[int]]:
        for update in self.rank_batches.epoch_batches(self.updates_done() // len(self.rank_batches)):
            yield update[self.rank]


def gather_by_home(order: Iterable[int], home: Callable[[int], Hashable], together: int, rng: random.Random) -> list[int]:
    """The order with up to `together` dialogues of a home one after the other, and such parts in random order."""
    by_home: dict[Hashable, list[int]] = {}
    for dialogue in order:
        by_home.setdefault(home(dialogue), []).append(dialogue)
    parts: list[Sequence[int]] = []
    for members in by_home.values():
        count = -(-len(members) // together)  # of parts; all but the last are as large: 7 and 6 for 13 of at most 8
        parts += split_into_runs(members, -(-len(members) // count))
    rng.shuffle(parts)
    return [*chain.from_iterable(parts)]


def split_into_runs(members: Sequence[T], most: int) -> list[Sequence[T]]:
    """The members in runs of at most so many."""
    return [members[start : start + most] for start in range(0, len(members), most)]


def number_homes(prompts: Sequence[str]) -> list[int]:
    """A number for each prompt, the same for those of one home: two neighbours in lexical order whose common beginning is
    half of the longer one.
    """
    numbers, before, number = [0] * len(prompts), "", 0
    for at in sorted(range(len(prompts)), key=prompts.__getitem__):
        half = math.ceil(ALIKE * max(len(before), len(prompts[at])))
        number += before[:half] != prompts[at][:half]
        numbers[at], before = number, prompts[at]
    return numbers


def balance_over_ranks(parts: Iterable[Sequence[int]], lengths: Sequence[int], processes: int) -> list[list[int]]:
    """The dialogues by process, with each part in one: each gets about as many parts, with about as many tokens."""
    batches: list[list[int]] = [[] for _ in range(processes)]
    tokens = [0] * processes
    # rounds of one part for each process: the process with the fewest tokens so far gets the longest part of a round
    longest_first = sorted(parts, key=lambda part: (-sum(lengths[i] for i in part), part))
    for round_ in split_into_runs(longest_first, processes):
        for batch, part in zip(sorted(range(processes), key=tokens.__getitem__), round_, strict=False):
            batches[batch] += part
            tokens[batch] += sum(lengths[i] for i in part)
    return batches
