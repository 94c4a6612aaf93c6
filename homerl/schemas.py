"""JSON Schemas of the files that homerl writes and reads, generated from the models that check them.

Invariants: a schema's `$id` names its kind and format version, and a format's schema never changes once released;
whatever homerl writes is valid under the schema of its kind (a trajectory in its nested form: a row of a dataset
holds the parts named in `trajectory.JSON_COLUMNS` as JSON text).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from envs.documents import write_atomic
from envs.homeenv.home_file import FORMAT as HOME
from envs.homeenv.home_file import HomeRecord
from envs.homeenv.spec import DeviceSpec
from homerl.blueprints.blueprint import FORMAT as BLUEPRINT
from homerl.blueprints.blueprint import Blueprint
from homerl.trajectory import Trajectory
from homerl.worlds.simuhome.blueprint import SimuHomeBlueprint

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSIONS = {"home": HOME, "device": 1, "blueprint": BLUEPRINT, "simuhome-blueprint": 1, "trajectory": 3}


def schemas() -> dict[str, dict[str, Any]]:
    """Schema by file name: `home.v1.json` and so on. They refer to one another by these names."""
    models = {
        "home": HomeRecord, "device": DeviceSpec, "blueprint": Blueprint, "simuhome-blueprint": SimuHomeBlueprint,
        "trajectory": Trajectory,
    }  # fmt: skip
    made = {kind: TypeAdapter(model).json_schema() for kind, model in models.items()}
    made["blueprint"]["properties"]["home"] = {"$ref": file_name("home")}
    either = [{"$ref": file_name(kind)} for kind in ("blueprint", "simuhome-blueprint")]
    made["trajectory"]["properties"]["blueprint"] = {"anyOf": either}
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
