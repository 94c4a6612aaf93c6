"""Reading YAML, with the line of every key.

Invariants:
- Scalars follow the core schema of YAML 1.2. So `on`, `off`, `yes`, `no`, `22:30` and `2026-01-01` are strings, and
  `1e-6` is a number.
- A key that stands twice in one mapping is refused.
- The cost of reading is proportional to the length of the text. Aliases that would multiply it are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, ClassVar, TextIO

import yaml

from homerl.envs.core.documents.document import Document, InputError, KeyPath
from homerl.envs.core.documents.sources import read_source, refuse_half_characters

_CORE = "tag:yaml.org,2002:"
_DIGITS = "0123456789"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_BASES = {"0o": 8, "0x": 16}
# For each kind of scalar: its pattern, the characters that it may start with, and the function that gives its value.
_SCALARS: dict[str, tuple[str, list[str], Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", [*"~nN", ""], lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", [*"tTfF"], lambda text: text.lower() == "true"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", [*"-+", *_DIGITS], lambda text: int(text, _BASES.get(text[:2], 10))),
    "float": (_FLOAT, [*"-+.", *_DIGITS], lambda text: float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))),
}
MAX_DIGITS = 1000  # of an integer; Python refuses to print one of more than 4,300
MAX_MARKS = 5000  # brackets and dashes that may open a level; nesting deeper than the C stack would crash libyaml
MAX_NODES = 100_000  # values that a short text may have once its aliases are expanded


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, restricted to the scalars of YAML 1.2's core schema. It knows no other tags."""

    # The inherited resolvers would read `on` as true and `22:30` as 1350.
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    yaml_constructors: ClassVar[dict[str | None, Callable[[Any, Any], Any]]] = {
        None: yaml.SafeLoader.construct_undefined,
        _CORE + "str": yaml.SafeLoader.construct_yaml_str,
    }

    def __init__(self, name: str, text: str | bytes) -> None:
        super().__init__(text)
        self.source = name
        self.nodes_left = max(MAX_NODES, len(text))
        self.flattened: set[yaml.Node] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace `<<` by the keys that it merges in, once for each mapping.

        Keys that are overridden are removed here. Otherwise repeated merges would multiply them.
        """
        if node not in self.flattened:
            self.flattened.add(node)
            _refuse_duplicates(self, node)
            super().flatten_mapping(node)
            node.value = list({(key.tag, key.value): (key, value) for key, value in node.value}.values())


def _constructor(kind: str) -> Callable[[_Loader, yaml.ScalarNode], Any]:
    """The function that turns a scalar node into a value of this kind.

    It raises a YAML error if the text does not fit, which an explicit tag can cause: `!!int abc`.
    """
    pattern, _, value = _SCALARS[kind]
    whole = re.compile(pattern)

    def construct(loader: _Loader, node: yaml.ScalarNode) -> Any:
        text = loader.construct_scalar(node)
        if whole.fullmatch(text) is None or (kind == "int" and len(text) > MAX_DIGITS):
            short = text if len(text) < 40 else f"{text[:40]}..."
            raise yaml.constructor.ConstructorError(None, None, f"{short!r} is no {kind}", node.start_mark)
        return value(text)

    return construct


for _kind, (_pattern, _starts, _) in _SCALARS.items():
    _Loader.add_implicit_resolver(_CORE + _kind, re.compile(rf"^(?:{_pattern})$"), _starts)
    _Loader.add_constructor(_CORE + _kind, _constructor(_kind))
_Loader.add_implicit_resolver(_CORE + "merge", re.compile(r"^(?:<<)$"), ["<"])


# A loader on libyaml's parser, if it is installed. It resolves the same scalars.
_FastLoader: Any = type(
    "_FastLoader",
    (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),
    {"yaml_implicit_resolvers": _Loader.yaml_implicit_resolvers},
)


def _fast_node(text: str | bytes) -> yaml.Node | None:
    """The document's root node as libyaml parses it, which is ten times faster than PyYAML's own parser.

    None if libyaml finds an error, because PyYAML's parser reports errors better, or if the text might nest too deeply.
    """
    if isinstance(text, bytes):
        marks = sum(text.count(mark) for mark in (b"[", b"{", b"- "))
    else:
        marks = sum(text.count(mark) for mark in ("[", "{", "- "))
    if marks > MAX_MARKS:
        return None
    try:
        node: yaml.Node | None = _FastLoader(text).get_single_node()
    except (yaml.YAMLError, UnicodeError):
        return None
    return node


def read_yaml(source: str | Path | TextIO) -> Document:
    """The one YAML document of a source: an open file, a path, or, if the string has a line break, the text itself.

    Raises `InputError` with file and line if it cannot be read.
    """
    name, text = read_source(source)
    lines: dict[KeyPath, int] = {}
    try:
        loader = _Loader(name, text)
        node = _fast_node(text) or loader.get_single_node()
        data = None if node is None else _build(loader, node, (), lines, ())
        refuse_half_characters(data, name, text)
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(name, error) from None
    except yaml.YAMLError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None
    except RecursionError:
        raise InputError("is nested too deeply", name, "write it with fewer levels") from None
    return Document(name, data, lines)


def _yaml_error(name: str, error: yaml.MarkedYAMLError) -> InputError:
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    context = f" ({error.context})" if error.context else ""
    what = f"not valid YAML: {error.problem}{context}"
    return InputError(what, where, "correct the line or the one above it")


def _build(loader: _Loader, node: yaml.Node, key: KeyPath, lines: dict[KeyPath, int], above: tuple[yaml.Node, ...]) -> Any:
    """The value of a node. The line of the node and of everything in it is added to `lines`.

    `above` are the nodes that contain this one; an alias to one of them is refused.
    """
    lines.setdefault(key, node.start_mark.line + 1)
    loader.nodes_left -= 1
    if node in above or loader.nodes_left < 0:
        what = "an anchor holds an alias of itself" if node in above else "the aliases multiply beyond measure"
        raise InputError(what, f"{loader.source}:{node.start_mark.line + 1}", "write the value out")
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode) and node.tag == loader.DEFAULT_SEQUENCE_TAG:
        return [_build(loader, item, (*key, i), lines, above) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode) or node.tag != loader.DEFAULT_MAPPING_TAG:
        return loader.construct_object(node, deep=True)  # this refuses unknown tags
    loader.flatten_mapping(node)
    data = {}
    for key_node, value_node in node.value:
        part = _key(loader, key_node)
        lines[(*key, part)] = key_node.start_mark.line + 1
        data[part] = _build(loader, value_node, (*key, part), lines, above)
    return data


def _key(loader: _Loader, node: yaml.Node) -> Hashable:
    if not isinstance(node, yaml.ScalarNode):
        where = f"{loader.source}:{node.start_mark.line + 1}"
        raise InputError("a key must be a word or a number", where, "put quotes around the key")
    key: Hashable = loader.construct_object(node)
    return key


def _refuse_duplicates(loader: _Loader, node: yaml.MappingNode) -> None:
    seen: dict[Hashable, int] = {}
    for key_node, _ in node.value:
        if key_node.tag.endswith(":merge"):
            continue  # keys that `<<` merges in may be overridden
        key, line = _key(loader, key_node), key_node.start_mark.line + 1
        if key in seen:
            remedy = f"keep one: the other is on line {seen[key]}"
            raise InputError(f"the key {key!r} is given twice", f"{loader.source}:{line}", remedy)
        seen[key] = line
