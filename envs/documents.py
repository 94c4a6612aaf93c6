"""Files that people write: read with line numbers, checked by pydantic, refused in one clear message.

Invariants:
- whatever is wrong with a file raises `InputError`: what, where and the remedy, in three lines at most;
- YAML is read by the YAML 1.2 core schema: `on`, `off`, `yes`, `no`, `22:30` and `2026-01-01` stay strings
  and `1e-6` is a number; a key given twice is refused, in YAML and in JSON, and so is half a character;
- reading costs what the text is long, not what its aliases multiply to;
- `Document.lines` knows the line of every key and list item, by its path of keys: `("rooms", 0, "name")`;
- a file is replaced whole or not at all (`write_atomic`).
"""

import difflib
import json
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TextIO

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from envs import explain

KeyPath = tuple[Hashable, ...]


class InputError(ValueError):
    """Something a person gave cannot be used: what is wrong, where it stands, and what to do about it."""

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = (" ".join(str(part).split()) for part in (what, where, remedy))
        first = f"{self.where}: {self.what}" if self.where else self.what
        super().__init__(f"{first}\n{self.remedy}" if self.remedy else first)

    def __reduce__(self) -> tuple:
        return type(self), (self.what, self.where, self.remedy)  # so that it survives a worker process


@dataclass(frozen=True)
class Document:
    """Data and where each of its keys stands; `origins` names the source of keys that are not from `path`."""

    path: str
    data: Any
    lines: Mapping[KeyPath, int]
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def where(self, key: KeyPath = ()) -> str:
        """`file:line` of `key` or, if it is absent, of what would hold it; line 0 stands for no line."""
        known = next((key[:size] for size in range(len(key), -1, -1) if key[:size] in self.lines), ())
        line = self.lines.get(known, 0)
        source = self.origins.get(known, self.path)
        return f"{source}:{line}" if line else source


# Reading YAML


_CORE = "tag:yaml.org,2002:"
_DIGITS = "0123456789"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_BASES = {"0o": 8, "0x": 16}
# Kind of scalar: its pattern, the characters it may start with, its value.
_SCALARS: dict[str, tuple[str, list[str], Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", [*"~nN", ""], lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", [*"tTfF"], lambda text: text.lower() == "true"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", [*"-+", *_DIGITS], lambda text: int(text, _BASES.get(text[:2], 10))),
    "float": (_FLOAT, [*"-+.", *_DIGITS], lambda text: float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))),
}
MOST_DIGITS = 1000  # of a whole number: Python writes none of more than 4,300
MOST_MARKS = 5000  # opening marks of a document: libyaml, nested deeper than the stack, would take the process with it
MOST_NODES = 100_000  # values that aliases may make of a short text


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2's core schema; it knows no other tags."""

    yaml_implicit_resolvers: ClassVar[dict] = {}  # the inherited ones read `on` as true and `22:30` as 1350
    yaml_constructors: ClassVar[dict] = {
        None: yaml.SafeLoader.construct_undefined,
        _CORE + "str": yaml.SafeLoader.construct_yaml_str,
    }

    def __init__(self, name: str, text: str | bytes) -> None:
        super().__init__(text)
        self.source = name
        self.nodes_left = max(MOST_NODES, len(text))
        self.flattened: set[yaml.Node] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put what `<<` brings in in its place, once a mapping; what is overridden goes, or it would multiply."""
        if node not in self.flattened:
            self.flattened.add(node)
            _refuse_duplicates(self, node)
            super().flatten_mapping(node)
            node.value = list({(key.tag, key.value): (key, value) for key, value in node.value}.values())


def _constructor(kind: str) -> Callable[[_Loader, yaml.Node], Any]:
    """What makes a value of a scalar; a tag that somebody wrote may not fit it."""
    pattern, _, value = _SCALARS[kind]
    whole = re.compile(pattern)

    def construct(loader: _Loader, node: yaml.Node) -> Any:
        text = loader.construct_scalar(node)
        if whole.fullmatch(text) is None or (kind == "int" and len(text) > MOST_DIGITS):
            short = text if len(text) < 40 else f"{text[:40]}..."
            raise yaml.constructor.ConstructorError(None, None, f"{short!r} is no {kind}", node.start_mark)
        return value(text)

    return construct


for _kind, (_pattern, _starts, _) in _SCALARS.items():
    _Loader.add_implicit_resolver(_CORE + _kind, re.compile(rf"^(?:{_pattern})$"), _starts)
    _Loader.add_constructor(_CORE + _kind, _constructor(_kind))
_Loader.add_implicit_resolver(_CORE + "merge", re.compile(r"^(?:<<)$"), ["<"])


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """libyaml's parser, where it is installed, with the same scalars."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def _fast_node(text: str | bytes) -> yaml.Node | None:
    """The document's node as libyaml sees it, ten times faster; where it finds fault, the slow parser says it better."""
    marks = (b"[", b"{", b"- ") if isinstance(text, bytes) else ("[", "{", "- ")
    if sum(map(text.count, marks)) > MOST_MARKS:
        return None
    try:
        return _FastLoader(text).get_single_node()
    except (yaml.YAMLError, UnicodeError):
        return None


def read_yaml(source: str | Path | TextIO) -> Document:
    """Reads one YAML document: an open file, a path or, if the string has a line break, the text itself."""
    name, text = _read(source)
    lines: dict[KeyPath, int] = {}
    try:
        loader = _Loader(name, text)
        node = _fast_node(text) or loader.get_single_node()
        data = None if node is None else _build(loader, node, (), lines, ())
        _refuse_half_characters(data, name, text)
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(name, error) from None
    except yaml.YAMLError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None
    except RecursionError:
        raise InputError("is nested too deeply", name, "write it with fewer levels") from None
    return Document(name, data, lines)


def _read(source: str | Path | TextIO) -> tuple[str, str | bytes]:
    """The name and content of a source; bytes if there is a choice, since YAML detects their encoding."""
    if isinstance(source, str) and "\n" in source:
        return "<text>", source
    if isinstance(source, (str, Path)):
        return str(source), _file_bytes(Path(source))
    name = str(getattr(source, "name", "<stream>"))
    try:
        return name, source.read()
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None


def _file_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), _near_names(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), "give a readable file") from None


def _near_names(path: Path) -> str:
    """A remedy for a missing file: a file of nearly that name beside it."""
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f"did you mean {path.with_name(near[0])}?" if near else "check the path"


def _yaml_error(name: str, error: yaml.MarkedYAMLError) -> InputError:
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    context = f" ({error.context})" if error.context else ""
    what = f"not valid YAML: {error.problem}{context}"
    return InputError(what, where, "correct the line or the one above it")


def _build(loader: _Loader, node: yaml.Node, key: KeyPath, lines: dict[KeyPath, int], above: tuple) -> Any:
    """The value of a node; notes the line of everything in it. `above` are the nodes that hold this one."""
    lines.setdefault(key, node.start_mark.line + 1)
    loader.nodes_left -= 1
    if node in above or loader.nodes_left < 0:
        what = "an anchor holds an alias of itself" if node in above else "the aliases multiply beyond measure"
        raise InputError(what, f"{loader.source}:{node.start_mark.line + 1}", "write the value out")
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode) and node.tag == loader.DEFAULT_SEQUENCE_TAG:
        return [_build(loader, item, (*key, i), lines, above) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode) or node.tag != loader.DEFAULT_MAPPING_TAG:
        return loader.construct_object(node, deep=True)  # refuses the tags that it does not know
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
    return loader.construct_object(node)


def _refuse_duplicates(loader: _Loader, node: yaml.MappingNode) -> None:
    seen: dict[Hashable, int] = {}
    for key_node, _ in node.value:
        if key_node.tag.endswith(":merge"):
            continue  # what `<<` brings in may be overridden: that is its use
        key, line = _key(loader, key_node), key_node.start_mark.line + 1
        if key in seen:
            remedy = f"keep one: the other is on line {seen[key]}"
            raise InputError(f"the key {key!r} is given twice", f"{loader.source}:{line}", remedy)
        seen[key] = line


# Reading JSON


def read_json(path: str | Path) -> Document:
    """Reads one JSON file. Lines are found when first asked for: only an error needs them."""
    name, content = str(path), _file_bytes(Path(path))
    try:
        text = content.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, name))
        _refuse_half_characters(data, name, text)
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise _json_error(name, text, error) from None
    except InputError:
        raise
    except ValueError:
        raise InputError("holds a number of too many digits", name, "write it with fewer") from None
    except RecursionError:
        raise InputError("is nested too deeply", name, "write it with fewer levels") from None
    return Document(name, data, _LazyLines(lambda: json_lines(text)))


_HALF_ESCAPED = re.compile(r"\\[uU]0*[dD][89a-fA-F]")


def _refuse_half_characters(data: Any, name: str, text: str | bytes) -> None:
    """An escape may say half of a surrogate pair."""
    if _HALF_ESCAPED.search(text if isinstance(text, str) else text.decode("latin-1")):
        refuse_unwritable(data, name)


def refuse_unwritable(data: Any, name: str) -> None:
    """Refuse JSON data that could not be written down again, wherever it is from."""
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError("holds half a character (one surrogate of a pair)", name, "write the character itself") from None
    except (ValueError, RecursionError):
        raise InputError("holds a number of too many digits, or is nested too deeply", name, "write less") from None


def _unique(pairs: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"the key {twice!r} is given twice in one object", name, "keep one of them")
    return data


def _json_error(name: str, text: str, error: json.JSONDecodeError) -> InputError:
    where = f"{name}:{error.lineno}:{error.colno}"
    if not text.strip():
        return InputError("the file is empty", name, "write it again or take it from its source")
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        what = f"the file breaks off ({error.msg})"
        return InputError(what, where, "it was cut short: write or copy it again")
    return InputError(f"not valid JSON: {error.msg}", where, "correct the line or the one above it")


class _LazyLines(Mapping[KeyPath, int]):
    """A mapping that is computed when first used."""

    def __init__(self, compute: Callable[[], dict[KeyPath, int]]) -> None:
        self._compute = compute

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return self._compute()

    def __getitem__(self, key: KeyPath) -> int:
        return self._lines[key]

    def __iter__(self) -> Iterator[KeyPath]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')


def json_lines(text: str) -> dict[KeyPath, int]:
    """The line of every key and item of a JSON text that is known to parse."""
    lines: dict[KeyPath, int] = {(): 1}
    path: list[Hashable] = []  # the key or index we are at, one for each open object or array
    objects: list[bool] = []  # whether each of those is an object
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


# Checking


def validate(model_type: Any, document: Document, data: Any = None) -> Any:
    """`document` (or `data` in its place) as a pydantic model or any other type that pydantic understands."""
    data = document.data if data is None else data
    try:
        if isinstance(model_type, type) and issubclass(model_type, BaseModel):
            return model_type.model_validate(data)
        return TypeAdapter(model_type).validate_python(data)
    except ValidationError as error:
        raise _input_error(document, explain.explain(model_type, data, error)) from None


def problems(model_type: Any, document: Document) -> list[InputError]:
    """Everything that keeps `document` from being of this type; nothing if it is."""
    try:
        TypeAdapter(model_type).validate_python(document.data)
    except ValidationError as error:
        return [_input_error(document, problem) for problem in explain.explain_all(model_type, document.data, error)]
    return []


def _input_error(document: Document, problem: explain.Problem) -> InputError:
    where, dotted = document.where(problem.key), ".".join(map(str, problem.key))
    what, remedy = problem.what, problem.remedy
    if isinstance(problem.cause, InputError):  # a validator of ours already said it well
        inner = problem.cause
        what, remedy = (f"{inner.where}: {inner.what}" if inner.where else inner.what), inner.remedy
    more = f" ({problem.others} more to correct)" if problem.others else ""
    return InputError(f"{dotted} {what}{more}".strip(), where, remedy)


# Writing


def write_atomic(path: str | Path, content: str | bytes | Iterable[str]) -> None:
    """Replaces the file at `path`; readers, and runs after a crash, see the old content or the new.

    Content that comes in parts is written as it comes.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = f"{os.getpid()}.{threading.get_ident()}"  # two writers must not share a temporary file
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        with temporary.open("wb") as file:
            parts = [content] if isinstance(content, (str, bytes)) else content
            file.writelines(part.encode() if isinstance(part, str) else part for part in parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
