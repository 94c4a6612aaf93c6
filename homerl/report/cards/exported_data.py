"""Tasks and dialogues as a Hugging Face data set in a folder: Parquet, OpenAI's form as JSON Lines, and a card.

The source is a file of trajectories (or the folder of a run), a suite, or what makes tasks (a recipe, or a world's name).

Invariants:
- The folder appears as a whole or not at all. Only an earlier export is replaced.
- A source that cannot be read to its end is refused: nothing is written of it.
- The same source and options give the same bytes, and no path of the machine is among them.
- All dialogues of a task are in one split. What is held out from training (a suite, a home of the held-out split) is in
  `test`.
- A row keeps all that a stored trajectory has, so that it can be replayed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow

from homerl import __version__
from homerl.envs.core.documents import InputError, file_sha256, name_path_in_errors, write_atomic
from homerl.envs.core.messages import to_strict_openai_form
from homerl.play.trajectory import (
    find_unlearnt_messages,
    message_to_row,
    read_rows,
    read_trajectory_row,
    rows_to_json_lines,
    uniform_rows,
)
from homerl.report.cards.dataset_card import COLUMNS, ROWS, render_front_matter, two_column_table
from homerl.report.cards.whole_folder import refuse_other_content, write_whole_folder
from homerl.tasks.load_tasks import load_suite, load_tasks
from homerl.tasks.task_env import Task
from homerl.worlds.registry import known_suites, known_worlds

FACTS = "export.json"  # what an export says of itself
Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Row = dict[str, Any]
TOGETHER = 200  # rows that are written at once
TASKS = 1000  # tasks of a recipe, if their number is not given
OF_TASKS = {
    "prompt": "the messages up to the person's first sentence: what a policy answers",
    "tools": COLUMNS["tools"],
    "blueprint": COLUMNS["blueprint"] + ". Show it to no policy",
    "task": "its index in what `load_suite` or `load_tasks` gives for the source",
    "id, seed, limits, labels": "what names the task, and its limits",
}
OF_DIALOGUES = {
    **COLUMNS,
    "rewards, weights": "the reward of each step by part, and the weights of the parts; empty where nobody computed them",
    "unlearnt": "the numbers of the assistant's messages that homerl does not learn: calls that were refused, earlier talk",
}


DIALOGUES = (
    "Dialogues of agents with people in simulated homes. Each row has the tools, and the script by which homerl checks it."
)
TASKS_TO_PLAY = (
    "Tasks in simulated homes. Each row has a prompt, the tools, and the script by which homerl plays and checks it."
)
OF_USE = {
    "dialogues": """\
`messages` and `tools` are what TRL's `SFTTrainer` takes, also with `assistant_only_loss=True`. It learns all that the
assistant said. What is better not learnt (a call that was refused) is in `unlearnt`, by the number of the assistant's
message. The files in `openai/` give such a message the weight 0. They have the same rows in the same order, in the form of
OpenAI's fine-tuning, which `data:` in a recipe of `run: sft` reads, too.""",
    "tasks": """\
`prompt` is what TRL's trainers take as a conversation. `homerl.load_suite` and `homerl.load_tasks` start the tasks. The
files in `openai/` have the same rows in the same order as `messages` and `tools` of OpenAI's API.""",
}


@dataclass(frozen=True)
class DataExport:
    """What was written: its kind, and the number of rows of each split."""

    folder: Path
    kind: Literal["dialogues", "tasks"]
    rows: Mapping[Split, int]


@dataclass(frozen=True)
class _Source:
    """Rows that can be read again and again, each with its split."""

    kind: Literal["dialogues", "tasks"]
    name: str
    read: Callable[[], Iterator[tuple[Split, Row]]]


@dataclass(frozen=True)
class _Summary:
    """What a source holds: the type of each column, the number of rows of each split that has any, and the languages."""

    columns: Mapping[str, type]
    rows: Mapping[Split, int]
    languages: Sequence[str]


def write_data_export(
    source: str, to: Path, license: str = "apache-2.0", tasks: int | None = None, test_share: float = 0.1
) -> DataExport:
    """Write a source as a data set, and say what was written.

    Args:
        source: A file of trajectories or the folder of a run; the name or the file of a suite; a recipe; or a world's name.
        to: The folder, which is made with those above it. An earlier export in it is replaced, other content is refused.
        license: The license, as the hub names it.
        tasks: The number of tasks of a suite (evenly spread; None is all), or of a recipe (None is 1,000).
        test_share: The share of the dialogues' tasks that is in `test`; for a recipe, how many tasks are made for `test`
            beside the others. A suite is all `test`.

    Raises:
        InputError: The source is none of these, or cannot be read, or the folder has other content.
    """
    to = to.expanduser().absolute()
    refuse_other_content(to, FACTS)
    if not 0 <= test_share < 1:
        raise InputError(f"{test_share} is no share", "--test-share", "give a number from 0 to 1, such as 0.1")
    found = _find_source(source, tasks, test_share)
    summary = _summarise_source(found)
    with name_path_in_errors(to), write_whole_folder(to) as making:
        files = _write_rows(found, making, _schema_of(summary.columns))
        facts = {
            "homerl": __version__, "kind": found.kind, "source": found.name, "license": license,
            "rows": dict(summary.rows), "sha256": {name: file_sha256(making / name) for name in files},
        }  # fmt: skip
        write_atomic(making / "README.md", render_export_card(to.name, facts, summary.languages))
        write_atomic(making / FACTS, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    return DataExport(to, found.kind, summary.rows)


def task_to_row(task: Task, at: int) -> Row:
    """A task, by its index in its source, as a row: what a policy answers, and all that is needed to play it."""
    blueprint = task.blueprint.model_dump(mode="json")
    return {
        "id": task.id,
        "task": at,
        "prompt": [message_to_row(message) for message in task.messages],
        "tools": _to_json(task.tools),
        "seed": int(blueprint["seed"]),
        "limits": _to_json(asdict(task.limits)),
        "labels": _to_json(task.labels),
        "blueprint": _to_json(blueprint),
    }


def to_openai_form(row: Mapping[str, Any]) -> Row:
    """A row with `messages` and `tools`, as OpenAI's fine-tuning takes it.

    What is not to be learnt has the weight 0. Each call has an id, and each result names its call. Arguments that are no
    JSON object, which the home has refused, stand in one: `{"malformed": TEXT}`.
    """
    messages, said = list[Row](), 0
    stored = ({key: value for key, value in message.items() if value} for message in row.get("messages") or row["prompt"])
    for message in to_strict_openai_form(stored, keep_ids=False):
        plain: Row = {"role": message["role"], "content": message.get("content", "")}
        if message["role"] == "assistant":
            if calls := message.get("tool_calls"):
                plain |= {"content": plain["content"] or None, "tool_calls": calls}
            if said in row.get("unlearnt", ()):
                plain["weight"] = 0
            said += 1
        elif message["role"] == "tool":
            plain["tool_call_id"] = message["tool_call_id"]
        messages.append(plain)
    return {"messages": messages, "tools": json.loads(row["tools"])}


def render_export_card(name: str, facts: Mapping[str, Any], languages: Sequence[str]) -> str:
    """The card: YAML front matter and Markdown."""
    rows: Mapping[str, int] = facts["rows"]
    dialogues = facts["kind"] == "dialogues"
    files = [
        {"split": split, "path": next(file for file in facts["sha256"] if file.startswith(f"data/{split}-"))}
        for split in rows
    ]
    first = next(iter(rows), "train")
    what = DIALOGUES if dialogues else TASKS_TO_PLAY
    use = OF_USE[facts["kind"]]
    return "\n".join([
        render_front_matter(facts["license"], languages, name, sum(rows.values()), files),
        f"# {name}\n",
        f"{what}\n",
        f'```python\nfrom datasets import load_dataset\n\nrows = load_dataset("{name}", split="{first}")\n```\n',
        f"{use}\n",
        "## Splits\n",
        two_column_table("split", "rows", [(split, f"{count:,}") for split, count in rows.items()]),
        "## Columns\n",
        two_column_table("column", "what it holds", [*(OF_DIALOGUES if dialogues else OF_TASKS).items()]),
        "## Made by\n",
        f"homerl {facts['homerl']}, from `{facts['source']}`. `{FACTS}` has the SHA-256 of each file.\n",
    ])  # fmt: skip


def _find_source(source: str, tasks: int | None, test_share: float) -> _Source:
    path = Path(source)
    folders = (path, path / "synth") if path.is_dir() else ()
    stored = next((folder / ROWS for folder in folders if (folder / ROWS).is_file()), path)
    if path.is_dir() and stored == path:
        raise InputError(f"there is no {ROWS} here", source, "give the folder of a finished synthesis or benchmark")
    if stored.suffix == ".jsonl" and stored.is_file() and "messages" in next(read_rows(stored), {}):
        return _Source("dialogues", stored.name, lambda: _read_stored_rows(stored, test_share))
    if source in known_suites() or stored.suffix in (".jsonl", ".xz"):
        parts: list[tuple[Split, Sequence[Task]]] = [("test", load_suite(source, count=tasks))]
    else:
        named = [*known_suites(), *known_worlds()]
        near = [] if path.exists() or source in named else get_close_matches(source, named, 1)
        if near:
            remedy = f"did you mean {near[0]}? (known, beside recipes: {', '.join(named)})"
            raise InputError(f"there is no suite and no file '{source}'", "export-data", remedy)
        learnt = TASKS if tasks is None else tasks
        held_out = load_tasks(source, round(learnt * test_share), split="heldout")
        parts = [("train", load_tasks(source, learnt)), ("test", held_out)]
    return _Source(
        "tasks",
        path.name,
        lambda: ((split, task_to_row(task, at)) for split, part in parts for at, task in enumerate(part)),
    )


def _read_stored_rows(path: Path, test_share: float) -> Iterator[tuple[Split, Row]]:
    """The rows of a file of trajectories, each checked."""
    for number, row in enumerate(uniform_rows(lambda: read_rows(path)), 1):
        blueprint = read_trajectory_row(row, f"{path}:{number}").blueprint
        drawn = int.from_bytes(hashlib.sha256(blueprint["id"].encode()).digest()[:8]) / 2**64  # of the task alone
        in_test = blueprint.get("split") == "heldout" or drawn < test_share
        yield ("test" if in_test else "train"), {**row, "unlearnt": find_unlearnt_messages(row)}


def _summarise_source(source: _Source) -> _Summary:
    """Reads all rows, so that a broken one is found before anything is written."""
    columns, rows, languages = dict[str, type](), Counter[Split](), set[str]()
    for split, row in source.read():
        rows[split] += 1
        languages.add(str(json.loads(row["blueprint"]).get("language") or "en"))
        for key, value in row.items():
            if columns.setdefault(key, type(value)) is not type(value):
                columns[key] = float if {columns[key], type(value)} == {int, float} else str
    if not rows:
        raise InputError("there is no row in it", source.name, "give a source with trajectories or tasks")
    return _Summary(columns, {split: rows[split] for split in SPLITS if rows[split]}, sorted(languages))


def _schema_of(columns: Mapping[str, type]) -> pyarrow.Schema:
    text = pyarrow.string()
    function = pyarrow.struct([("name", text), ("arguments", text)])
    calls = pyarrow.list_(pyarrow.struct([("id", text), ("type", text), ("function", function)]))
    message = pyarrow.struct([("role", text), ("content", text), ("tool_calls", calls), ("tool_call_id", text)])
    dialogue = pyarrow.list_(message)
    known = {"messages": dialogue, "prompt": dialogue, "unlearnt": pyarrow.list_(pyarrow.int64())}
    plain = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    return pyarrow.schema([(name, known.get(name) or plain.get(type_, text)) for name, type_ in columns.items()])


def _write_rows(source: _Source, folder: Path, schema: pyarrow.Schema) -> list[str]:
    """Write `data/SPLIT-DIGEST.parquet` and `openai/SPLIT.jsonl`, and return their names.

    `datasets` keeps what it has read by the names of a folder and its files, so files of another content need another name.
    """
    from pyarrow import Table, string
    from pyarrow.parquet import ParquetWriter

    texts = {field.name for field in schema if field.type == string()}

    def to_columns(row: Row) -> Row:
        return {
            name: _to_json(value) if name in texts and not isinstance(value, str | None) else value
            for name, value in ((name, row.get(name)) for name in schema.names)
        }

    for name in ("data", "openai"):
        (folder / name).mkdir()
    with ExitStack() as opened:
        tables, lines = dict[Split, Any](), dict[Split, Any]()
        reader = source.read()
        while part := [*islice(reader, TOGETHER)]:
            for split in SPLITS:
                if not (rows := [row for of, row in part if of == split]):
                    continue
                if split not in tables:
                    table = ParquetWriter(folder / f"data/{split}.parquet", schema, compression="zstd")
                    tables[split] = opened.enter_context(table)
                    lines[split] = opened.enter_context((folder / f"openai/{split}.jsonl").open("w", encoding="utf-8"))
                tables[split].write_table(Table.from_pylist([to_columns(row) for row in rows], schema))
                lines[split].writelines(rows_to_json_lines(map(to_openai_form, rows)))
    for path in sorted(folder.glob("data/*.parquet")):
        path.rename(path.with_stem(f"{path.stem}-{file_sha256(path)[:12]}"))
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
