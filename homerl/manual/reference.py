"""The reference of recipes: one page with every key, made from the models that check recipes.

Invariants: every key of every kind of recipe is listed once for each model that has it, under the shortest path to it;
the page says nothing that the schema of the models does not say, except what each credit mode, loss and engine does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from homerl.manual.schema import EXTENDS, REF, RUN, Schema, definitions, name_of, refs
from homerl.recipe.base import Base
from homerl.run.recipe import KINDS
from homerl.train.credit.contract import CreditMode
from homerl.train.credit.registry import modes
from homerl.train.engines.contract import EngineKind
from homerl.train.engines.registry import engines
from homerl.train.losses.contract import Loss
from homerl.train.losses.registry import losses
from homerl.worlds.registry import worlds
from homerl.worlds.sources import BlueprintFile, Mixture

HEAD = """# Reference of recipes

Every key of every kind of [recipe](recipes.md). `scripts/regenerate` writes this page (`homerl reference`), and the
[JSON Schema](schemas/recipe.v1.json) of the same for editors (`homerl schemas`).

A file writes a key within its sections, the command line by its whole path: `--rlve.kl 0.01`. `[]` in a path is any item of
a list; the command line replaces lists whole, but `--every.intents` sets a key in their items too. `NAME` in a path is a
name of your own. A default of `{}` is a section with the defaults of its own keys. A section that stands at several places
is listed once. The [glossary](glossary.md) has the words.
"""
ITEM = {"array": "[]", "object": ".NAME"}  # what stands in a path for an item of a list, or of a mapping by names
COLUMNS = ("key", "type", "default", "")
BOUNDS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))


@dataclass(frozen=True)
class Section:
    """A model, and its places in recipes: path -> kinds of recipe."""

    model: str
    places: dict[str, list[str]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path under which its keys are listed."""
        return min(self.places, key=lambda path: path.count("."))

    @property
    def title(self) -> str:
        """The path and, if several models may stand there, which one this is."""
        world = next((world.name for world in worlds().values() if name_of(world.recipe) == self.model), None)
        others = {name_of(BlueprintFile): ", a file", name_of(Mixture): ", a mixture"}
        return f"`{self.path}`{f', world {world}' if world else others.get(self.model, '')}"


def reference() -> str:
    """The page in Markdown."""
    sections = find_sections()
    kinds = [_kind(kind, model, sections) for kind, model in KINDS.items()]
    nested = [_section(section, sections) for section in sections.values()]
    named = [
        _choices("Credit modes", "rlve.credit", "advantage of the steps", modes()),
        _choices("Losses", "rlve.loss", "what an update minimises", losses()),
        _choices("Engines", "rlve.engine.kind", "what samples the policy", engines()),
    ]
    parts = [HEAD, "## Every recipe\n", _every(sections), "## Kinds of run\n", *kinds, *named, "## Sections\n", *nested]
    return "\n".join(parts)


def find_sections() -> dict[str, Section]:
    """Every model below the recipes' own by name, in the order of the recipes' keys."""
    sections: dict[str, Section] = {}

    def visit(model: str, above: str, kind: str) -> None:
        for key, schema in definitions()[model]["properties"].items():
            path = f"{above}{key}{ITEM.get(schema.get('type', ''), '') if refs(schema) else ''}"
            for inner in ordered_refs(schema):
                sections.setdefault(inner, Section(inner)).places.setdefault(path, []).append(kind)
                visit(inner, f"{path}.", kind)

    for kind, model in KINDS.items():
        visit(name_of(model), "", kind)
    return sections


def ordered_refs(schema: Schema) -> list[str]:
    """The models that may stand at a key, in the order of its schema."""
    text = json.dumps(schema)
    return sorted(refs(schema), key=lambda name: text.index(f'"{REF}{name}"'))


# Parts of the page


def _every(sections: Mapping[str, Section]) -> str:
    first = definitions()[name_of(next(iter(KINDS.values())))]
    shared = {key: schema for key, schema in first["properties"].items() if key in Base.model_fields}
    return _table("", {"extends": EXTENDS, "run": RUN} | shared, ("homerl", "run"), sections)


def _kind(kind: str, model: type[Base], sections: Mapping[str, Section]) -> str:
    schema = definitions()[name_of(model)]
    own = {key: part for key, part in schema["properties"].items() if key not in Base.model_fields and key != "run"}
    return f"### run: {kind}\n\n{said(schema)}\n\n{_table('', own, schema.get('required', ()), sections)}"


def _section(section: Section, sections: Mapping[str, Section]) -> str:
    schema = definitions()[section.model]
    places = "; ".join(f"`{path}` ({', '.join(dict.fromkeys(kinds))})" for path, kinds in section.places.items())
    table = _table(f"{section.path}.", schema["properties"], schema.get("required", ()), sections)
    return f"### {section.title}\n\n{said(schema)}\n\nStands at {places}.\n\n{table}"


Plugin = CreditMode | EngineKind | Loss[Any]


def _choices(title: str, key: str, column: str, plugins: Mapping[str, Plugin]) -> str:
    """The values of a key, each with the sentence of its plug-in."""
    rows = [(f"`{name}`", plugin.sentence) for name, plugin in plugins.items()]
    return f"## {title}\n\nThe values of `{key}`.\n\n{_lines([('value', column), ('---', '---'), *rows])}"


def said(schema: Schema) -> str:
    """The description of a model or key on one line. A section without one has that of its model."""
    models = ordered_refs(schema) if "properties" not in schema else []
    text = schema.get("description") or (definitions()[models[0]].get("description", "") if len(models) == 1 else "")
    return " ".join(text.split())


def _table(above: str, keys: Mapping[str, Schema], needed: Iterable[str], sections: Mapping[str, Section]) -> str:
    rows: list[tuple[str, ...]] = [COLUMNS, ("---",) * len(COLUMNS)]
    for key, schema in keys.items():
        default = "needed" if key in needed else _default(schema)
        rows.append((f"`{above}{key}`", type_in_words(schema, sections), default, said(schema)))
    return _lines(rows)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(_cell(cell) for cell in row)} |\n" for row in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# Types and defaults in words


def type_in_words(schema: Schema, sections: Mapping[str, Section]) -> str:
    """The type of a value in words."""
    if "$ref" in schema:
        title = sections[schema["$ref"].removeprefix(REF)].title
        return f"[{title}](#{anchor(title)})"
    if "const" in schema or "enum" in schema:
        return _either(f"`{_yaml(choice)}`" for choice in schema.get("enum", [schema.get("const")]))
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _either(dict.fromkeys(type_in_words(option, sections) for option in schema[union]))
    if schema.get("type") == "array":
        return _list(schema, sections)
    if schema.get("type") == "object":
        return _mapping(schema, sections)
    bounds = " and ".join(f"{sign} {schema[bound]:g}" for bound, sign in BOUNDS if bound in schema)
    name = {"null": "`null`", "boolean": "`true` or `false`", None: "anything"}.get(schema.get("type"), schema.get("type"))
    return " ".join(filter(None, (schema.get("format", name), bounds)))


def _list(schema: Schema, sections: Mapping[str, Section]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(type_in_words(item, sections) for item in schema['prefixItems'])}]"
    least = f" ({schema['minItems']} or more)" if schema.get("minItems") else ""
    return f"list of {type_in_words(schema['items'], sections)}{least}"


def _mapping(schema: Schema, sections: Mapping[str, Section]) -> str:
    inner = schema.get("additionalProperties", True)
    keys = f" from {type_in_words(schema['propertyNames'], sections)}" if "propertyNames" in schema else ""
    return f"mapping{keys} to {type_in_words({} if inner is True else inner, sections)}"


def _either(options: Iterable[str]) -> str:
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last


def _default(schema: Schema) -> str:
    """The default as YAML. For a section, only the values that differ from its keys' own defaults."""
    models = ordered_refs(schema)
    if "default" not in schema:
        return "`{}`" if models else ""
    own = definitions()[models[0]]["properties"] if len(models) == 1 else {}
    return f"`{_yaml(_beyond(schema['default'], own))}`"


def _beyond(default: Any, own: Mapping[str, Schema]) -> Any:
    if isinstance(default, list):
        return [_beyond(item, own) for item in default]
    if isinstance(default, dict) and own:
        return {key: value for key, value in default.items() if "default" in own[key] and value != own[key]["default"]}
    return default


def _yaml(value: Any) -> str:
    """A value on one line, as YAML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_yaml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    return value if isinstance(value, str) and value else json.dumps(value)


def anchor(title: str) -> str:
    """The link to a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
