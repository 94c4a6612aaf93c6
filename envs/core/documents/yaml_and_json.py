"""Reading YAML and JSON, with the line of every key. A source is a file, an open stream, or the text itself.

Invariants:
- A file that is missing or unreadable raises `InputError`.
- Data that could not be written back as UTF-8 JSON is refused: half of a surrogate pair, numbers of too many digits, or
  nesting that is too deep. A key that stands twice in one mapping is refused.
- Scalars of YAML follow the core schema of YAML 1.2. So `on`, `off`, `yes`, `no`, `22:30` and `2026-01-01` are strings, and
  `1e-6` is a number.
- The cost of reading YAML is proportional to the length of the text. Aliases that would multiply it are refused.
- Line numbers of JSON are computed only when an error needs them.
"""

from __future__ import annotations

import json
import re
from collections import UserDict
from collections.abc import Callable, Hashable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TextIO

import yaml

from homerl.envs.core.documents.files_and_errors import Document, InputError, KeyPath, suggest_near_path

_HALF_ESCAPED = re.compile(r"\\[uU]0*[dD][89a-fA-F]")


def read_source(source: str | Path | TextIO) -> tuple[str, str | bytes]:
    """(name, content) of a source. A string with a line break is the text itself; any other string is a path.

    A file gives bytes, because PyYAML detects their encoding. Raises `InputError` if the source cannot be read.
    """
    if isinstance(source, str) and "\n" in source:
        return "<text>", source
    if isinstance(source, (str, Path)):
        return str(source), read_file_bytes(Path(source))
    name = str(getattr(source, "name", "<stream>"))
    try:
        return name, source.read()
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None


def read_file_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises `InputError` if it is missing or unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), suggest_near_path(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), "give a readable file") from None


def refuse_half_characters(data: Any, name: str, text: str | bytes) -> None:
    r"""Raise `InputError` if `text` escapes half of a surrogate pair, such as `\ud800`, and `data` holds it."""
    if _HALF_ESCAPED.search(text if isinstance(text, str) else text.decode("latin-1")):
        refuse_unwritable(data, name)


def refuse_unwritable(data: Any, name: str) -> None:
    """Raise `InputError` if `data` could not be written back as UTF-8 JSON."""
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError("holds half a character (one surrogate of a pair)", name, "write the character itself") from None
    except (ValueError, RecursionError):
        raise InputError("holds a number of too many digits, or is nested too deeply", name, "write less") from None


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
            seen: dict[Hashable, int] = {}
            for key_node, _ in node.value:
                if key_node.tag.endswith(":merge"):
                    continue  # keys that `<<` merges in may be overridden
                key, line = _read_key(self, key_node), key_node.start_mark.line + 1
                if key in seen:
                    remedy = f"keep one: the other is on line {seen[key]}"
                    raise InputError(f"the key {key!r} is given twice", f"{self.source}:{line}", remedy)
                seen[key] = line
            super().flatten_mapping(node)
            node.value = list({(key.tag, key.value): (key, value) for key, value in node.value}.values())


def _make_constructor(kind: str) -> Callable[[_Loader, yaml.ScalarNode], Any]:
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
    _Loader.add_constructor(_CORE + _kind, _make_constructor(_kind))
_Loader.add_implicit_resolver(_CORE + "merge", re.compile(r"^(?:<<)$"), ["<"])


# A loader on libyaml's parser, if it is installed. It resolves the same scalars.
_FastLoader: Any = type(
    "_FastLoader",
    (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),
    {"yaml_implicit_resolvers": _Loader.yaml_implicit_resolvers},
)


def _parse_fast(text: str | bytes) -> yaml.Node | None:
    """The document's root node as libyaml parses it, which is ten times faster than PyYAML's own parser.

    None if libyaml finds an error, because PyYAML's parser reports errors better, or if the text might nest too deeply.
    """
    marks: Any = (b"[", b"{", b"- ") if isinstance(text, bytes) else ("[", "{", "- ")
    if sum(map(text.count, marks)) > MAX_MARKS:
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
        node = _parse_fast(text) or loader.get_single_node()
        data = None if node is None else _build_value(loader, node, (), lines, ())
        refuse_half_characters(data, name, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        context = f" ({error.context})" if error.context else ""
        what = f"not valid YAML: {error.problem}{context}"
        raise InputError(what, where, "correct the line or the one above it") from None
    except yaml.YAMLError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None
    except RecursionError:
        raise InputError("is nested too deeply", name, "write it with fewer levels") from None
    return Document(name, data, lines)


def _build_value(
    loader: _Loader, node: yaml.Node, key: KeyPath, lines: dict[KeyPath, int], above: tuple[yaml.Node, ...]
) -> Any:
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
        return [_build_value(loader, item, (*key, i), lines, above) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode) or node.tag != loader.DEFAULT_MAPPING_TAG:
        return loader.construct_object(node, deep=True)  # this refuses unknown tags
    loader.flatten_mapping(node)
    data = {}
    for key_node, value_node in node.value:
        part = _read_key(loader, key_node)
        lines[(*key, part)] = key_node.start_mark.line + 1
        data[part] = _build_value(loader, value_node, (*key, part), lines, above)
    return data


def _read_key(loader: _Loader, node: yaml.Node) -> Hashable:
    if not isinstance(node, yaml.ScalarNode):
        where = f"{loader.source}:{node.start_mark.line + 1}"
        raise InputError("a key must be a word or a number", where, "put quotes around the key")
    key: Hashable = loader.construct_object(node)
    return key


def read_json(path: str | Path) -> Document:
    """The document of one JSON file. Raises `InputError` with file and line if it cannot be read."""
    name, content = str(path), read_file_bytes(Path(path))
    try:
        text = content.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=lambda pairs: _refuse_double_keys(pairs, name))
        refuse_half_characters(data, name, text)
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise _describe_json_error(name, text, error) from None
    except InputError:
        raise
    except ValueError:
        raise InputError("holds a number of too many digits", name, "write it with fewer") from None
    except RecursionError:
        raise InputError("is nested too deeply", name, "write it with fewer levels") from None
    return Document(name, data, _LazyLines(text))


def _refuse_double_keys(pairs: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"the key {twice!r} is given twice in one object", name, "keep one of them")
    return data


def _describe_json_error(name: str, text: str, error: json.JSONDecodeError) -> InputError:
    where = f"{name}:{error.lineno}:{error.colno}"
    if not text.strip():
        return InputError("the file is empty", name, "write it again or take it from its source")
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        what = f"the file breaks off ({error.msg})"
        return InputError(what, where, "it was cut short: write or copy it again")
    return InputError(f"not valid JSON: {error.msg}", where, "correct the line or the one above it")


class _LazyLines(UserDict[KeyPath, int]):
    """A mapping of lines that is computed at the first look-up, so only if an error needs it."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def data(self) -> dict[KeyPath, int]:  # type: ignore[override]
        """The lines, as `UserDict` asks for them."""
        return json_key_lines(self.text)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')


def json_key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key and list item of a JSON text, by key path. The text must be valid JSON."""
    lines: dict[KeyPath, int] = {(): 1}
    path: list[Any] = []  # the present key or index within each open object or array
    objects: list[bool] = []  # for each of these, whether it is an object
    line, key_next = 1, False
    for token in _JSON_TOKEN.findall(text):
        if token == "\n":
            line += 1
            continue
        if token in "}]":
            path.pop()
            objects.pop()
        elif token == ",":
            key_next = objects[-1]
            if not key_next:
                path[-1] += 1
        elif key_next:
            path[-1], key_next = json.loads(token), False
            lines[tuple(path)] = line
        elif token != ":":
            lines.setdefault(tuple(path), line)
            if token in "{[":
                key_next = token == "{"
                objects.append(key_next)
                path.append(None if key_next else 0)
    return lines
