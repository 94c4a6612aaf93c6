"""The JSON Schema of recipes, made from the models that check them, so that editors complete and explain keys.

Invariants:
- It accepts every recipe that loads, if its values have the types in the reference.
- A recipe that extends another may leave out required keys.
- Errors that only the complete recipe shows are left to `homerl check`. Its version is that of the format (`homerl: 1`),
  within which keys may be added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from homerl.app.runs.recipe import KINDS
from homerl.envs.core.documents import write_atomic
from homerl.host.recipe_loading import shipped_recipe_folder
from homerl.report.cards.json_schemas import DRAFT
from homerl.worlds.registry import known_worlds
from homerl.worlds.sources import BlueprintFile, Mixture

FILE = "recipe.v1.json"
REF = "#/$defs/"
PARTIAL = "Extending"  # prefix of the name of a model without required keys
MODELINE = "# yaml-language-server: $schema="
SHIPPED = f"{MODELINE}../docs/schemas/{FILE}"  # first line of the shipped recipes
Schema = dict[str, Any]
EXTENDS: Schema = {
    "type": "string",
    "description": "A recipe that this one lies over: a file beside it, or a shipped one.",
}
RUN: Schema = {"enum": [*KINDS], "description": "Kind of the run."}


def schema_definitions() -> Mapping[str, Schema]:
    """The schema of every model of recipes, by the model's name here: that of its class, longer if two classes share it."""
    return _generate_schemas()[1]


def definition_name(model: type[BaseModel]) -> str:
    """The name in `definitions` of a kind of run or of a source of blueprints."""
    return _generate_schemas()[0][model]


@cache
def _generate_schemas() -> tuple[Mapping[type[BaseModel], str], Mapping[str, Schema]]:
    sources = (world.recipe for world in known_worlds().values())
    models: list[type[BaseModel]] = [*KINDS.values(), *sources, BlueprintFile, Mixture]
    named, schema = models_json_schema([(model, "validation") for model in models])
    names = {cast(type[BaseModel], model): found["$ref"].removeprefix(REF) for (model, _), found in named.items()}
    return names, schema["$defs"]


def build_recipe_schema() -> Schema:
    """The complete schema. Which keys are allowed depends on `run`, and on whether there is `extends`."""
    whole = {name: _drop_titles_and_defaults(schema) for name, schema in schema_definitions().items()}
    partial = _find_incomplete_models()
    twins = {name: _without_required_keys(schema) for name, schema in whole.items() if name in partial}
    kinds = {kind: definition_name(model) for kind, model in KINDS.items()}
    for name in kinds.values():
        twins[name]["properties"] |= {"extends": EXTENDS}
    parts = {kind: PARTIAL + name for kind, name in kinds.items()}
    unsaid = {"if": {"not": {"required": ["run"]}}, "then": {"anyOf": [{"$ref": REF + name} for name in parts.values()]}}
    return {
        "$schema": DRAFT,
        "$id": FILE,
        "title": "Recipe of homerl",
        "type": "object",
        "properties": {"homerl": whole[kinds["sft"]]["properties"]["homerl"], "extends": EXTENDS, "run": RUN},
        "if": {"required": ["extends"]},
        "then": {"allOf": [*_refer_by_kind(parts), unsaid]},
        "else": {"required": ["homerl", "run"], "allOf": _refer_by_kind(kinds)},
        "$defs": whole | {PARTIAL + name: schema for name, schema in twins.items()},
    }


def _refer_by_kind(names: Mapping[str, str]) -> list[Schema]:
    return [
        {"if": {"properties": {"run": {"const": kind}}, "required": ["run"]}, "then": {"$ref": REF + name}}
        for kind, name in names.items()
    ]


def _drop_titles_and_defaults(schema: Any) -> Any:
    """The schema without titles that repeat the key, and without defaults that repeat those of nested keys."""
    if isinstance(schema, list):
        return [_drop_titles_and_defaults(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    section = isinstance(schema.get("default"), (dict, list)) and referenced_models(schema)
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return {key: _drop_titles_and_defaults(value) for key, value in kept.items() if not (key == "default" and section)}


@cache
def _find_incomplete_models() -> frozenset[str]:
    """The names of models with a required key, or with such a model below them. A recipe with `extends` may hold parts of
    these.
    """
    schemas = schema_definitions()
    incomplete = {name for name, schema in schemas.items() if "required" in schema}
    while more := {name for name in schemas.keys() - incomplete if referenced_models(schemas[name]) & incomplete}:
        incomplete |= more
    return frozenset(incomplete)


def _without_required_keys(schema: Any) -> Any:
    """The schema without required keys. A part of a blueprint recipe may be of several worlds."""
    if isinstance(schema, list):
        return [_without_required_keys(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return schema | ({"$ref": REF + PARTIAL + name} if name in _find_incomplete_models() else {})
    kept = {key: _without_required_keys(value) for key, value in schema.items() if key != "required"}
    return {"anyOf" if key == "oneOf" else key: value for key, value in kept.items()}


def referenced_models(schema: Any) -> set[str]:
    """The names of the models that a schema refers to."""
    if isinstance(schema, dict):
        named = {schema["$ref"].removeprefix(REF)} if "$ref" in schema else set()
        return named.union(*map(referenced_models, schema.values()))
    return set().union(*map(referenced_models, schema)) if isinstance(schema, list) else set()


def write_recipe_schema(folder: Path) -> Path:
    """Write the schema to a folder; return its path."""
    path = folder / FILE
    write_atomic(path, json.dumps(build_recipe_schema(), indent=1, ensure_ascii=False) + "\n")
    return path


def write_recipes(folder: Path) -> None:
    """Write the shipped recipes to a folder, with the schema that they refer to."""
    shipped = shipped_recipe_folder()
    write_recipe_schema(folder)
    for path in sorted(shipped.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8").replace(SHIPPED, MODELINE + FILE)
        write_atomic(folder / path.relative_to(shipped), text)
