"""Recipes before they are checked: found, extended, overridden; for any pydantic model.

Invariants:
- what `extends: other.yaml` names lies beneath: mappings merge deeply, all else (lists too) is replaced;
- a mapping that names a source (its `world`, or a `file`) which the one beneath does not name replaces that one whole,
  since keys of one source mean nothing to another; where the one beneath names no source at all, it is replaced too;
- command-line overrides (`--train.learning_rate 2e-6`) lie on top, their values read as YAML;
- every key of the result still knows where it stands: its file and line, or the command line;
- nothing here knows which keys there are, but for those that name a source: `envs.documents.validate` refuses the
  unknown ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import homerl_hook
from envs.documents import Document, InputError, KeyPath, read_yaml
from envs.explain import did_you_mean

COMMAND_LINE = "command line"
SOURCES = ("file", "world")  # keys that say of what the other keys of their mapping are


def load(path: str | Path, overrides: Sequence[str] = ()) -> tuple[dict, Document]:
    """The recipe at `path` as data, and the document that `validate` needs to say where a key stands."""
    document = _extended(find_recipe(path), ())
    for key, value in _sources_first(parse_overrides(overrides)):
        document = overlay(document, _as_document(document, key, value))
    return document.data, document


def shipped_recipes() -> Path:
    """The folder of the recipes that came with this installation."""
    return Path(homerl_hook.shipped_recipes())


def find_recipe(name: str | Path) -> Path:
    """The file as typed or, if missing, the shipped recipe of that name, with or without `recipes/` first."""
    return _first_file(Path(name), str(name), Path(name))


def _first_file(path: Path, where: str, name: Path) -> Path:
    """`path`, else the shipped recipe `name`; if neither is there, `where` says who asked for it."""
    shipped = shipped_recipes()
    inner = Path(*name.parts[1:]) if name.parts[:1] == ("recipes",) else name
    for candidate in (path, shipped / inner):
        if candidate.is_file():
            return candidate
    known = sorted(file.relative_to(shipped).as_posix() for file in shipped.rglob("*.y*ml"))
    raise InputError(
        f"there is no recipe {name}",
        where,
        did_you_mean(inner.as_posix(), known) if known else "check the path",
    )


def _extended(path: Path, above: tuple[Path, ...]) -> Document:
    """The file at `path` over the one it extends. `above` are the files that led here."""
    document = read_yaml(path)
    if not isinstance(document.data, dict):
        content = "is empty" if document.data is None else f"holds a {type(document.data).__name__}, not keys"
        remedy = "write `key: value` lines; `homerl: 1` comes first"
        raise InputError(f"the recipe {content}", str(path), remedy)
    if "extends" not in document.data:
        return document
    above = (*above, path.resolve())
    base = _base_of(document)
    if base.resolve() in above:
        chain = " -> ".join(file.name for file in (*above, base))
        where = document.where(("extends",))
        raise InputError(f"extends goes in a circle: {chain}", where, "remove one `extends`")
    data = {key: value for key, value in document.data.items() if key != "extends"}
    lines = {key: line for key, line in document.lines.items() if key[:1] != ("extends",)}
    return overlay(_extended(base, above), Document(document.path, data, lines))


def _base_of(document: Document) -> Path:
    """The file that `extends` names: beside the recipe, else shipped."""
    name, where = document.data["extends"], document.where(("extends",))
    if not isinstance(name, str):
        raise InputError(f"extends is {name!r}, not one file name", where, "write `extends: other.yaml`")
    return _first_file(Path(document.path).parent / name, where, Path(name))


# Merging


def overlay(base: Document, top: Document) -> Document:
    """`top` over `base`, with the places of what remains of each."""
    kept = {key: line for key, line in base.lines.items() if not _replaced(key, base.data, top.data)}
    origins = {key: base.origins.get(key, base.path) for key in kept} | {
        key: top.origins.get(key, top.path) for key in top.lines
    }
    return Document(top.path, _merge(base.data, top.data), {**kept, **top.lines}, origins)


def _merge(base: Any, top: Any) -> Any:
    if not _merges(base, top):
        return top
    return {**base, **{key: _merge(base[key], value) if key in base else value for key, value in top.items()}}


def _replaced(key: KeyPath, base: Any, top: Any) -> bool:
    """Whether what stands at `key` in `base` is hidden by a value of `top` at it or above it."""
    for part in key:
        if not _merges(base, top):
            return True
        if part not in top:
            return False
        base, top = base[part], top[part]
    return not _merges(base, top)


def _merges(base: Any, top: Any) -> bool:
    """Whether keys of `base` remain beneath `top`: both are mappings, and `top` names no source of its own."""
    if not (isinstance(base, Mapping) and isinstance(top, Mapping)):
        return False
    return _source(top) in (None, _source(base))


def _source(data: Mapping[Any, Any]) -> tuple[str, Any] | None:
    """The key that names a mapping's source, with its value."""
    return next(((key, data[key]) for key in SOURCES if key in data), None)


# The command line


def parse_overrides(arguments: Sequence[str]) -> list[tuple[tuple[str, ...], Any]]:
    """`--a.b 3` and `--a.b=3` as paths of keys and values."""
    overrides, rest = [], list(arguments)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--") or flag == "--":
            raise InputError(f"{flag!r} is no override", COMMAND_LINE, "write --some.key value")
        name, equals, value = flag[2:].partition("=")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise InputError(f"{flag} has no value", COMMAND_LINE, f"write {flag} value, or {flag}=value")
            value = rest.pop(0)
        key = tuple(name.split("."))
        if not all(key):
            raise InputError(f"{flag} names no key", COMMAND_LINE, "write --some.key value")
        overrides.append((key, _value(flag, value)))
    return overrides


def _sources_first(overrides: list[tuple[tuple[str, ...], Any]]) -> list[tuple[tuple[str, ...], Any]]:
    """In the order typed, but those first that name a source: none may drop what was typed before it."""
    return sorted(overrides, key=lambda override: override[0][-1] not in SOURCES)


def _value(flag: str, text: str) -> Any:
    try:
        return read_yaml(f"{text}\n").data
    except InputError as error:
        what = f"the value of {flag} is {error.what}"
        raise InputError(what, COMMAND_LINE, "put quotes around it") from None


def _as_document(base: Document, key: tuple[str, ...], value: Any) -> Document:
    """One override as a document; mappings of `base` that it does not replace keep their place there."""
    data = value
    for part in reversed(key):
        data = {part: data}
    inner = (key[:size] for size in range(1, len(key)))
    above = [part for part in inner if part not in base.lines or _replaced(part, base.data, data)]
    places = (*above, key)
    return Document(base.path, data, dict.fromkeys(places, 0), dict.fromkeys(places, COMMAND_LINE))
