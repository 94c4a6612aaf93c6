"""A synthesis as a dataset: its description (`dataset.json`), the schemas of its rows, and its card.

Invariants: everything is made from the files of a finished run, and the same files give the same bytes; no host,
address or path of the machine is included; a version names its content, whose checksum is stored beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from homerl import __version__
from homerl.envs.core.documents import InputError, file_sha256, read_json, write_atomic
from homerl.play.trajectory import Outcome
from homerl.report.cards.json_schemas import build_json_schemas, file_formats, schema_file_name
from homerl.report.cards.push_to_hub import check_hub_token, strip_private_data, upload_to_hub
from homerl.report.figures import FigureColumn, FigureTable
from homerl.synth.recipe import STRATEGIES, SynthesisConfig
from homerl.worlds.registry import source_parts, world_of

ROWS, STATS, FACTS, CARD = "trajectories.jsonl", "stats.json", "dataset.json", "README.md"
FILES = (CARD, FACTS, ROWS, "blueprints.jsonl", STATS)  # uploaded, with the schemas
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
COLUMNS = {
    "messages": "the dialogue in OpenAI's form: system, user, assistant (with `tool_calls`), tool",
    "tools": "JSON text: the tools' schemas",
    "blueprint": "JSON text: the script of the dialogue, complete in itself: the home, and the intents with their goals Φ",
    "steps": "JSON text: of every assistant message, what it did: observations, progress, refusals, state key",
    "outcome, progress, clean": "how the dialogue ended, the share of Φ that holds, whether nothing else was changed",
    "difficulty": "share of the blueprint's dialogues that failed",
    "agent, user, seed, limits, rewards, weights": "who played, and under which limits",
}


def write_dataset_description(out: Path, config: SynthesisConfig, stats: dict[str, Any]) -> None:
    """Write `dataset.json`, schemas and card to the folder of a synthesis."""
    with (out / ROWS).open("rb") as file:
        rows = sum(1 for _ in file)
    facts = {
        "version": config.version,
        "row": file_formats()["row"].version,
        "rows": rows,
        "sha256": file_sha256(out / ROWS),
        "homerl": __version__,
        "synthesis": strip_private_data(config.identity),
    }
    for kind in file_formats():
        schema = build_json_schemas()[schema_file_name(kind)]
        write_atomic(out / "schemas" / schema_file_name(kind), json.dumps(schema, indent=1) + "\n")
    _write_card(out, facts, render_dataset_card(facts, stats))


def push_dataset(run: Path, repo: str, private: bool = True, license: str = "apache-2.0") -> str:
    """Upload a finished synthesis (or a flywheel's) as a dataset, tagged by its version; return its address.

    Raises `InputError` without a finished dataset or a token, if the rows differ from their checksum, or if servers
    failed for some blueprints.
    """
    out = next((folder for folder in (run, run / "synth") if (folder / FACTS).is_file()), None)
    if out is None:
        raise InputError("there is no finished dataset here", str(run), "give the folder of a finished synthesis")
    check_hub_token(repo)
    facts = strip_private_data(read_json(out / FACTS).data)  # earlier versions wrote paths
    if file_sha256(out / ROWS) != facts["sha256"]:
        raise InputError("the rows are not those that were described", str(out / ROWS), "start the synthesis again")
    stats = read_json(out / STATS).data
    if lost := stats["outcomes"].get(Outcome.INFRA_ERROR):
        remedy = "start the synthesis again, which makes them, before its version is out for good"
        raise InputError(f"servers failed for {lost:,} blueprints, which are missing", str(out / STATS), remedy)
    _write_card(out, facts, render_dataset_card(facts, stats, repo, license))
    files = [*FILES, *(f"schemas/{schema_file_name(kind)}" for kind in file_formats())]
    version = facts["version"]
    upload_to_hub(out, repo, private, f"Version {version}, by homerl {__version__}", "dataset", files, tag=f"v{version}")
    return f"datasets/{repo}, version {version}"


def render_dataset_card(
    facts: dict[str, Any], stats: dict[str, Any], repo: str | None = None, license: str = "apache-2.0"
) -> str:
    """The dataset card: YAML front matter and Markdown."""
    made = facts["synthesis"]
    languages = [*dict.fromkeys(world_of(part).language_of(part) for part in source_parts(made["recipe"]))]
    name, strategy = (repo or "smart-home dialogues").split("/")[-1], f"strategy-{made['strategy']}"
    source = f'"{repo}", revision="v{facts["version"]}"' if repo else f'"json", data_files="{ROWS}"'
    parts = [
        render_front_matter(license, languages, name, facts["rows"], ROWS, strategy),
        f"# Smart-home dialogues, version {facts['version']}\n",
        f"{STRATEGIES[made['strategy']]} {_describe_players(made)}\n",
        f"```python\nfrom datasets import load_dataset\nrows = load_dataset({source})\n```\n",
        "Fine-tune on it: `data:` in a recipe of `run: sft`. Check it: `homerl reverify` replays every row.\n",
        "## What is in it\n",
        two_column_table("figure", "value", _list_figures(facts, stats)),
        "## Rows\n",
        two_column_table("column", "what it holds", [*COLUMNS.items()]),
        f"Their schema is `schemas/{schema_file_name('row')}` (format {facts['row']}); `blueprints.jsonl` has a line for "
        "every blueprint that was tried, with what it cost and how it ended.\n",
        "## Made by\n",
        f"homerl {facts['homerl']}; sha256 of the rows `{facts['sha256']}`; the same recipe gives the same bytes, as far as "
        f"its models do:\n\n```yaml\n{yaml.safe_dump({'synth': made}, sort_keys=False, allow_unicode=True)}```",
    ]
    return "\n".join(parts) + "\n"


def render_front_matter(license: str, languages: Sequence[str], name: str, rows: int, files: Any, *tags: str) -> str:
    """The YAML by which the hub files the card of a data set of `rows` rows in these `files`."""
    front = {
        "license": license,
        "language": [*languages],
        "pretty_name": name,
        "task_categories": ["text-generation"],
        "tags": ["smart-home", "agents", "tool-use", "homerl", *tags],
        "size_categories": [next((size for most, size in SIZES if rows < most), "n>1M")],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n"


def _describe_players(made: dict[str, Any]) -> str:
    """A sentence on who wrote the tasks and who played."""
    named = {part: made[part]["model"] if isinstance(made.get(part), dict) else None for part in ("author", "user", "agent")}
    scripted = {"author": "the scripted author", "user": "the scripted user", "agent": "the scripted expert"}
    author, user, agent = (f"`{named[part]}`" if named[part] else scripted[part] for part in ("author", "user", "agent"))
    return f"Tasks are by {author}; the person is played by {user}, the assistant by {agent}."


def _list_figures(facts: dict[str, Any], stats: dict[str, Any]) -> list[tuple[str, str]]:
    said = stats["diversity"]["utterances"]
    return [
        ("dialogues", f"{facts['rows']:,}"),
        ("blueprints tried", f"{stats['blueprints']:,}"),
        ("generation success", f"{stats['generation_success']:.2%}"),
        ("successful rollouts a blueprint", f"{stats['trajectories_per_blueprint']:.2f}"),
        ("share of successful rollouts that a simulated home confirms", f"{stats['grounded_share']:.1%}"),
        ("tokens a blueprint", f"{stats['tokens_per_blueprint']:,.0f}"),
        ("blueprints by difficulty, from 0 to 1 in tenths", ", ".join(map(str, stats["difficulty"]))),
        ("utterances; different ones; self-BLEU", f"{said['utterances']:,}; {said['distinct']:,}; {said['self_bleu']:.3f}"),
    ]


def two_column_table(first: str, second: str, rows: list[tuple[str, str]]) -> str:
    columns = (FigureColumn(heading, right=False) for heading in (first, second))
    return FigureTable(tuple(columns), [rows]).to_markdown() + "\n"


def _write_card(out: Path, facts: dict[str, Any], text: str) -> None:
    write_atomic(out / FACTS, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    write_atomic(out / CARD, text)
