"""What is written about recipes for people and editors: a page with every key, and a JSON Schema, by which editors complete
and explain keys. Both are made from the models that check recipes.

Invariants:
- The page lists every key of every kind of recipe once, in the section of its model, or in a section of keys that several
  models have alike. It says nothing that the schema of the models does not say, except what each credit mode, loss and
  engine does.
- The schema accepts every recipe that loads, if its values have the types in the reference. A recipe that extends another
  may leave out required keys. Errors that only the complete recipe shows are left to `homerl check`.
- The schema's version is that of the format (`homerl: 1`), within which keys may be added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from homerl.app.runs.recipe import KINDS
from homerl.envs.core.documents import write_atomic
from homerl.host.recipe_files import BaseRecipe, shipped_recipe_folder
from homerl.report.cards.json_schemas import DRAFT
from homerl.train.credit.contract import CreditMode, list_credit_modes
from homerl.train.engines.contract import EngineKind, list_engines
from homerl.train.losses.contract import Loss, list_losses
from homerl.worlds.registry import known_worlds
from homerl.worlds.sources import BlueprintFile, Mixture

# The schema

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
    """The name in `schema_definitions` of a kind of run or of a source of blueprints."""
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
    """Write the shipped recipes to a folder, with what lies beside them and the schema that they refer to."""
    shipped = shipped_recipe_folder()
    write_recipe_schema(folder)
    for path in sorted(shipped.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            text = path.read_text(encoding="utf-8").replace(SHIPPED, MODELINE + FILE)
            write_atomic(folder / path.relative_to(shipped), text)


# The page

HEAD = """# Reference of recipes

Every key of [recipes](recipes.md), to look up, with its default. `scripts/regenerate` writes this page (`homerl reference`)
and a [JSON Schema](schemas/recipe.v1.json) for editors. Words: [glossary](glossary.md).

A file writes a key within its sections, the command line by its whole path: `--rlve.kl 0.01`. `[]` in a path is any item of
a list; the command line replaces lists whole, but `--every.intents` sets a key in their items too. `NAME` is a name of your
own. A key is followed by its default, which is null where none is shown, and by its type where the default does not show it.
A share is from 0 to 1.
"""
ITEM = {"array": "[]", "object": ".NAME"}  # what stands in a path for an item of a list, or of a mapping by names
LEAST = {"minimum": "≥", "exclusiveMinimum": ">"}
MOST = {"maximum": "≤", "exclusiveMaximum": "<"}
SHARE = " (0 to 1)"
SOURCES = "Recipes of blueprints"
FEWEST = 3  # keys that are alike before they get a section of their own
Place = tuple[str | None, str]  # the model that has the key (None: a recipe), and the key


@dataclass(frozen=True)
class RecipeSection:
    """A model below the recipes' own, and the keys at which it stands."""

    model: str
    places: dict[Place, None] = field(default_factory=dict)

    @property
    def key_path(self) -> str:
        """The path under which its keys are listed; empty for a source of blueprints."""
        return "" if self.model in blueprint_source_titles() else min(self.key_paths, key=lambda path: path.count("."))

    @property
    def key_paths(self) -> list[str]:
        """All paths at which it stands, each by the path of the section above."""
        return [f"{key_prefix(model)}{key}" for model, key in self.places]

    @property
    def heading_text(self) -> str:
        """Its path, or which source of blueprints it is."""
        return blueprint_source_titles().get(self.model) or f"`{self.key_path}`"


def render_reference() -> str:
    """The page in Markdown."""
    sections = find_sections().values()
    alternatives = [
        _describe_choices("Credit modes", "rlve.credit", list_credit_modes()),
        _describe_choices("Losses", "rlve.loss", list_losses()),
        _describe_choices("Engines", "rlve.engine.kind", list_engines()),
    ]
    alike = []
    for models, keys in find_shared_keys().items():
        properties = schema_definitions()[models[0]]["properties"]
        alike.append(f"### {_title_of_shared_keys(models)}\n\n{_list_keys('', {key: properties[key] for key in keys}, ())}")
    # What a `recipe:` of blueprints may be, and where each stands.
    places: dict[str, list[str]] = {}
    for model, title in blueprint_source_titles().items():
        paths = _join_words(f"`{path}`" for path in find_sections()[model].key_paths)
        places.setdefault(paths, []).append(_link_title(title))
    rows = "".join(f"- {_join_words(titles, 'or')}: at {paths}\n" for paths, titles in places.items())
    sources = f"## {SOURCES}\n\nTheir keys are listed without the path to them.\n\n{rows}"
    first = schema_definitions()[definition_name(next(iter(KINDS.values())))]
    shared_by_all = {key: schema for key, schema in first["properties"].items() if key in BaseRecipe.model_fields}
    every = _list_keys("", {"extends": EXTENDS, "run": RUN} | shared_by_all, ("homerl", "run"))
    parts = [HEAD, "## Every recipe\n", every, "## Kinds of run\n", _describe_kinds(), *alternatives]
    parts += [sources, "## Sections\n", *map(_describe_section, sections), "## Keys of several sections\n", *alike]
    return "\n".join(parts)


@cache
def blueprint_source_titles() -> Mapping[str, str]:
    """What a `recipe:` of blueprints may be: the model's name -> the title of its section."""
    found = {definition_name(world.recipe): f"World {world.name}" for world in known_worlds().values()}
    return found | {definition_name(Mixture): "A mixture of worlds", definition_name(BlueprintFile): "A file of blueprints"}


@cache
def find_sections() -> Mapping[str, RecipeSection]:
    """Every model below the recipes' own by name, in the order of the recipes' keys."""
    sections: dict[str, RecipeSection] = {}

    def visit(model: str, parent: str | None) -> None:
        for key, schema in schema_definitions()[model]["properties"].items():
            item = ITEM.get(schema.get("type", ""), "") if referenced_models(schema) else ""
            for inner in models_at_key(schema):
                known = inner in sections
                sections.setdefault(inner, RecipeSection(inner)).places[parent, f"{key}{item}"] = None
                if not known:
                    visit(inner, inner)

    for model in KINDS.values():
        visit(definition_name(model), None)
    return sections


def key_prefix(model: str | None) -> str:
    """What stands before a key of a section."""
    path = find_sections()[model].key_path if model else ""
    return f"{path}." if path else ""


@cache
def find_shared_keys() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Sections -> the keys that they have alike, except for defaults."""
    having: dict[str, list[str]] = {}
    for model in find_sections():
        for key, schema in schema_definitions()[model]["properties"].items():
            same = {name: part for name, part in schema.items() if name not in ("default", "title")}
            having.setdefault(f"{key} {json.dumps(same, sort_keys=True)}", []).append(model)
    groups: dict[tuple[str, ...], list[str]] = {}
    for key, models in having.items():
        if len(models) > 1:
            groups.setdefault(tuple(models), []).append(key.partition(" ")[0])
    return {models: tuple(keys) for models, keys in groups.items() if len(keys) >= FEWEST}


def models_at_key(schema: Schema) -> list[str]:
    """The models that may stand at a key, in the order of its schema."""
    text = json.dumps(schema)
    return sorted(referenced_models(schema), key=lambda name: text.index(f'"{REF}{name}"'))


# Parts of the page


def _describe_kinds() -> str:
    """Each kind with its sections, then the keys of kinds that are no sections."""
    texts: list[str] = []
    keys: dict[tuple[str, str], Schema] = {}  # by name and type: a name may mean two things, as `agent` does
    needed: set[tuple[str, str]] = set()
    for kind, model in KINDS.items():
        schema = schema_definitions()[definition_name(model)]
        own = {key: part for key, part in schema["properties"].items() if key not in (*BaseRecipe.model_fields, "run")}
        typed = {(key, describe_type(part)): part for key, part in own.items()}
        keys |= typed
        needed |= {name for name in typed if name[0] in schema.get("required", ())}
        texts.append(f"- `{kind}`: {describe_schema(schema)} Its keys: {', '.join(f'`{key}`' for key in own)}.\n")
    others = {name: part for name, part in keys.items() if name in needed or not _is_section(part)}
    lines = [f"- {_describe_key(name[0], part, name in needed)}\n" for name, part in others.items()]
    return f"{''.join(texts)}\n{''.join(lines)}"


def _describe_section(section: RecipeSection) -> str:
    schema = schema_definitions()[section.model]
    groups = {models: keys for models, keys in find_shared_keys().items() if section.model in models}
    listed = {key for keys in groups.values() for key in keys}
    own = {key: part for key, part in schema["properties"].items() if key not in listed}
    several = len(section.key_paths) > 1 and section.model not in blueprint_source_titles()
    places = f"At {_join_words(f'`{path}`' for path in section.key_paths)}." if several else ""
    more = [_link_shared_keys(section.model, models, keys) for models, keys in groups.items()]
    text = "\n".join(filter(None, (describe_schema(schema), places, *more)))
    keys_text = _list_keys(key_prefix(section.model), own, schema.get("required", ()))
    return f"### {section.heading_text}\n\n{text}\n\n{keys_text}"


def _link_shared_keys(model: str, models: tuple[str, ...], keys: tuple[str, ...]) -> str:
    """The sentence that leads from a section to keys that it shares, with defaults of its own."""
    title = _title_of_shared_keys(models)
    first, mine = (schema_definitions()[name]["properties"] for name in (models[0], model))
    other = [f"`{key}: {_to_yaml(mine[key].get('default'))}`" for key in keys if mine[key] != first[key]]
    beside = f", with {_join_words(other)}" if other else ""
    return f"It has the [{title[0].lower()}{title[1:]}](#{heading_anchor(title)}){beside}."


def _title_of_shared_keys(models: tuple[str, ...]) -> str:
    return f"Keys of {_join_words(find_sections()[model].heading_text for model in models)}"


Plugin = CreditMode[Any] | EngineKind | Loss[Any]


def _describe_choices(title: str, key: str, plugins: Mapping[str, Plugin]) -> str:
    """The values of a key, each with the sentence of its plug-in."""
    rows = "".join(f"- `{name}`: {plugin.sentence}\n" for name, plugin in plugins.items())
    return f"## {title}\n\nThe values of `{key}`.\n\n{rows}"


def describe_schema(schema: Schema) -> str:
    """The description of a model or key on one line. A section without one has that of its model."""
    models = models_at_key(schema) if "properties" not in schema else []
    text = schema.get("description") or (schema_definitions()[models[0]].get("description", "") if len(models) == 1 else "")
    return " ".join(text.split())


def _list_keys(above: str, keys: Mapping[str, Schema], needed: Iterable[str]) -> str:
    return "".join(f"- {_describe_key(f'{above}{key}', schema, key in needed)}\n" for key, schema in keys.items())


def _describe_key(path: str, schema: Schema, needed: bool) -> str:
    """A key with its default, its type as far as the default does not show it, and its description."""
    if _is_section(schema) and not needed:
        return f"`{path}`: {describe_type(schema)}"  # its section has the rest
    default = _default_as_yaml(schema)
    head = f"`{path}`" if needed or default in ("", "null") else f"`{path}: {default}`"
    values = ", ".join(filter(None, ("needed" if needed else "", _describe_values(schema, default))))
    return f"{head}{f' ({values})' if values else ''}: {describe_schema(schema).replace(SHARE, '')}"


def _is_section(schema: Schema) -> bool:
    """Whether a key holds one section, by default that with the defaults of its keys."""
    return len(referenced_models(schema)) == 1 and _default_as_yaml(schema) in ("", "{}")


def _describe_values(schema: Schema, default: str) -> str:
    """What a value may be, unless the default and the description show it."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    if len(options) > 1 or referenced_models(schema) or default in ("", "null", "[]", "{}"):
        return describe_type({"anyOf": [option for option in options if not _names_all_choices(option, schema)]})
    (only,) = options
    return "" if _names_all_choices(only, schema) else describe_type(only) if "enum" in only else _describe_bounds(only)


def _names_all_choices(option: Schema, schema: Schema) -> bool:
    """Whether a description names all choices."""
    choices = option.get("enum", ())
    return bool(choices) and all(f"`{_to_yaml(choice)}`" in describe_schema(schema) for choice in choices)


# Types and defaults in words


def describe_type(schema: Schema) -> str:
    """The type of a value in words."""
    if "$ref" in schema:
        return _link_title(find_sections()[schema["$ref"].removeprefix(REF)].heading_text)
    if "const" in schema or "enum" in schema:
        return _join_words((f"`{_to_yaml(choice)}`" for choice in schema.get("enum", [schema.get("const")])), "or")
    for union in ("anyOf", "oneOf"):
        if union in schema and len(referenced_models(schema)) > 1:
            return f"[one of these](#{heading_anchor(SOURCES)})"
        if union in schema:
            return _join_words(dict.fromkeys(describe_type(option) for option in schema[union]), "or")
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(describe_type, schema['prefixItems']))}]"
        least = f" ({schema['minItems']} or more)" if schema.get("minItems") else ""
        return f"list of {describe_type(schema['items'])}{least}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties", True)
        keys = f" from {describe_type(schema['propertyNames'])}" if "propertyNames" in schema else ""
        return f"mapping{keys} to {describe_type({} if inner is True else inner)}"
    name = {"null": "`null`", "boolean": "`true` or `false`", None: "anything"}.get(schema.get("type"), schema.get("type"))
    return " ".join(filter(None, (schema.get("format", name), _describe_bounds(schema))))


def _describe_bounds(schema: Schema) -> str:
    """The bounds of a number but for the usual ones: from 0 or 1 up, or from 0 to 1."""
    least, most = (next((schema[bound] for bound in pair if bound in schema), None) for pair in (LEAST, MOST))
    if least in (None, 0, 1) and most in (None, 1):
        return ""
    return " and ".join(f"{sign}{schema[bound]:g}" for bound, sign in (*LEAST.items(), *MOST.items()) if bound in schema)


def _link_title(title: str) -> str:
    return f"[{title}](#{heading_anchor(title)})"


def _join_words(parts: Iterable[str], word: str = "and") -> str:
    *most, last = [*parts] or [""]
    return f"{', '.join(most)} {word} {last}" if most else last


def _default_as_yaml(schema: Schema) -> str:
    """The default as YAML, empty if there is none; of a section, the values that differ from its keys' own defaults."""
    models = models_at_key(schema)
    if "default" not in schema:
        return ""
    own = schema_definitions()[models[0]]["properties"] if len(models) == 1 else {}
    return _to_yaml(_drop_own_defaults(schema["default"], own))


def _drop_own_defaults(default: Any, own: Mapping[str, Schema]) -> Any:
    if isinstance(default, list):
        return [_drop_own_defaults(item, own) for item in default]
    if isinstance(default, dict) and own:
        return {key: value for key, value in default.items() if "default" in own[key] and value != own[key]["default"]}
    return default


def _to_yaml(value: Any) -> str:
    """A value on one line, as YAML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_to_yaml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_yaml, value))}]"
    return value if isinstance(value, str) and value else json.dumps(value)


def heading_anchor(title: str) -> str:
    """The link to a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
