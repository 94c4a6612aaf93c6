"""JSON Schemas of the files that homerl writes and reads, generated from the models that check them.

Invariants: a schema's `$id` names its kind and format version, and a format's schema never changes once released;
whatever homerl writes is valid under the schema of its kind (a trajectory in its nested form: a row of a dataset
holds the parts named in `trajectory.JSON_COLUMNS` as JSON text, whose own schemas its schema names).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import (
    Any,
    Literal,
    NotRequired,  # pydantic wants these before Python 3.12
)

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from envs.documents import write_atomic
from envs.homeenv.home_file import FORMAT as HOME
from envs.homeenv.home_file import HomeRecord
from envs.homeenv.spec import DeviceSpec
from homerl.blueprints.blueprint import FORMAT as BLUEPRINT
from homerl.blueprints.blueprint import Blueprint
from homerl.trajectory import JSON_COLUMNS, Outcome, Trajectory
from homerl.worlds.simuhome.blueprint import SimuHomeBlueprint

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSIONS = {"home": HOME, "device": 1, "blueprint": BLUEPRINT, "simuhome-blueprint": 1, "trajectory": 3, "row": 1}


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
    """A line of `trajectories.jsonl`: `trajectory.to_row`, and how hard its blueprint was."""

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
    difficulty: float


def schemas() -> dict[str, dict[str, Any]]:
    """Schema by file name: `home.v1.json` and so on. They refer to one another by these names."""
    models = {
        "home": HomeRecord, "device": DeviceSpec, "blueprint": Blueprint, "simuhome-blueprint": SimuHomeBlueprint,
        "trajectory": Trajectory, "row": Row,
    }  # fmt: skip
    made = {kind: TypeAdapter(model).json_schema() for kind, model in models.items()}
    made["blueprint"]["properties"]["home"] = {"$ref": file_name("home")}
    either = [{"$ref": file_name(kind)} for kind in ("blueprint", "simuhome-blueprint")]
    made["trajectory"]["properties"]["blueprint"] = {"anyOf": either}
    for column in JSON_COLUMNS:
        inner = {"$ref": f"{file_name('trajectory')}#/properties/{column}"}
        made["row"]["properties"][column] |= {"contentMediaType": "application/json", "contentSchema": inner}
    embedded = {"anyOf": [{"type": "string"}, {"$ref": file_name("device")}]}  # a digest, or the product whole
    made["home"]["properties"]["specs"]["additionalProperties"] = embedded
    return {file_name(kind): {"$schema": DRAFT, "$id": file_name(kind), **schema} for kind, schema in made.items()}


def file_name(kind: str) -> str:
    """What a kind's schema is called, with the version of its format."""
    return f"{kind}.v{VERSIONS[kind]}.json"


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema to a folder."""
    paths = []
    for name, schema in schemas().items():
        write_atomic(folder / name, json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
        paths.append(folder / name)
    return paths
