"""JSON Schemas of the files that homerl writes and reads, generated from the models that check them.

Invariants: a schema's `$id` names its kind and format version, and the schema of a released format never changes; what
homerl writes is valid under the schema of its kind. A trajectory is checked in its nested form: a dataset row holds the
parts named in `trajectory.JSON_COLUMNS`, and a fault, as JSON text, and the row's schema names the schemas of these texts.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from homerl.envs.core.documents import write_atomic
from homerl.play.trajectory import JSON_COLUMNS, STORED_AS, Outcome, Trajectory
from homerl.worlds.contract import FileFormat
from homerl.worlds.registry import known_worlds

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSIONS = {"trajectory": 3, "row": 1}  # formats that all worlds share


# What homerl writes. What a message must have to be read is less: `StoredMessage` in `envs/core/messages`. The names and
# docstrings of these classes are titles and descriptions of the schema, which never change.


class CallRow(TypedDict):
    """A tool call in OpenAI's form."""

    id: NotRequired[str]
    type: str
    function: dict[str, str]


class MessageRow(TypedDict):
    """A message in OpenAI's form, every key there."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: list[CallRow]
    tool_call_id: str


class Row(TypedDict):
    """A line of `trajectories.jsonl`: `trajectory.to_row`, and how hard its blueprint was. `fault` is there where some row
    of the file has one."""

    id: str
    messages: list[MessageRow]
    tools: str
    outcome: Outcome
    progress: float
    clean: bool
    agent: str
    user: str
    seed: int
    steps: str
    rewards: str
    weights: str
    limits: str
    blueprint: str
    fault: NotRequired[str]
    difficulty: float


def file_formats() -> dict[str, FileFormat]:
    """Every kind of file with its format."""
    own = {kind: FileFormat(VERSIONS[kind], model) for kind, model in (("trajectory", Trajectory), ("row", Row))}
    return {kind: found for world in known_worlds().values() for kind, found in world.formats().items()} | own


@cache
def build_json_schemas() -> dict[str, dict[str, Any]]:
    """All schemas by file name, such as `home.v2.json`; they refer to one another by these names."""
    made = {kind: TypeAdapter(found.model).json_schema() for kind, found in file_formats().items()}
    for kind, found in file_formats().items():
        for path, other in found.refs.items():
            *above, last = path
            schema = made[kind]
            for key in above:
                schema = schema[key]
            # Where a text (a digest) is allowed, it stays allowed.
            options = [option for option in schema[last].get("anyOf", ()) if option.get("type") == "string"]
            reference = {"$ref": schema_file_name(other)}
            schema[last] = {"anyOf": [{"type": "string"}, reference]} if options else reference
    facts = made["trajectory"]["$defs"]["StepFacts"]
    facts["properties"] = {STORED_AS.get(name, name): about for name, about in facts["properties"].items()}
    blueprints = [next(iter(world.formats())) for world in known_worlds().values()]
    made["trajectory"]["properties"]["blueprint"] = {"anyOf": [{"$ref": schema_file_name(kind)} for kind in blueprints]}
    for column in (*JSON_COLUMNS, "fault"):
        inner = {"$ref": f"{schema_file_name('trajectory')}#/properties/{column}"}
        made["row"]["properties"][column] |= {"contentMediaType": "application/json", "contentSchema": inner}
    files = {schema_file_name(kind): schema for kind, schema in made.items()}
    return {name: {"$schema": DRAFT, "$id": name, **schema} for name, schema in files.items()}


def schema_file_name(kind: str) -> str:
    """The file name of a kind's schema, with the version of its format."""
    return f"{kind}.v{file_formats()[kind].version}.json"


def write_json_schemas(folder: Path) -> list[Path]:
    """Write every schema to a folder, and return the paths."""
    for name, schema in build_json_schemas().items():
        write_atomic(folder / name, json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
    return [folder / name for name in build_json_schemas()]
