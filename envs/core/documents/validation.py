"""Checking a document against a pydantic model. Pydantic's errors become problems in words: which key, why, what to do.

Invariants:
- Data that the model refuses raises `InputError` with file, line and remedy.
- A reported key leads to its place in the data. Pydantic also puts the names of union members into an error's place;
  these are removed.
"""

from __future__ import annotations

import difflib
import re
import types
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, overload

from pydantic import BaseModel, TypeAdapter, ValidationError

from homerl.envs.core.documents.files_and_errors import Document, InputError

SHOWN = 80  # the most characters of a refused value that a message shows
TEXT = "it should be text: write it in quotes"
KeyedError = tuple[tuple[Hashable, ...], Mapping[str, Any]]  # the key in the data, and pydantic's error there


class SeveralProblems(ValueError):
    """Raised by our own validators to report several problems at once.

    Each entry is a pair of the key, relative to the model that was checked, and what is wrong with it.
    """

    def __init__(self, entries: Sequence[tuple[tuple[Hashable, ...], str]]) -> None:
        self.entries = entries
        super().__init__("; ".join(what for _, what in entries))


def _flat_errors(data: Any, error: ValidationError) -> list[KeyedError]:
    """(key, pydantic's error) for each problem; a `SeveralProblems` error becomes one item for each of its entries."""
    raws = []
    for raw in error.errors(include_url=False):
        parts = raw["ctx"]["error"].entries if _is_ours(raw) else [((), raw["msg"])]
        raws += [{**raw, "loc": (*raw["loc"], *key), "msg": what} for key, what in parts]
    return [(key_in_data(data, raw), raw) for raw in raws]


def _is_ours(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw.get("ctx", {}).get("error"), SeveralProblems)


def _choose_likeliest(errors: Sequence[KeyedError], misfits: Mapping[tuple[Hashable, ...], int]) -> KeyedError:
    """The error of the union member that the writer most likely meant: the deepest key, then the fewest misfits."""
    return max(errors, key=lambda it: (len(it[0]), -misfits[it[1]["loc"][:-1]], it[1]["type"] == "extra_forbidden"))


def key_in_data(data: Any, raw: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """The keys and indices that lead to an error's place in `data`.

    If a key is missing, it is the last part of the result although `data` does not have it.
    """
    key: list[Hashable] = []
    loc = raw["loc"]
    for i, part in enumerate(loc):
        is_item = isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data)
        if is_item or (isinstance(data, Mapping) and part in data):
            data = data[part]
        elif raw["type"] != "missing" or i < len(loc) - 1:
            continue  # the label of a union member, which is no key of the data
        key.append(part)
    return tuple(key)


def _explain_error(model_type: Any, raw: Mapping[str, Any], key: tuple[Hashable, ...]) -> tuple[str, str]:
    """What is wrong with a key, and what to do about it, in words that need no knowledge of pydantic."""
    kind, value, context = raw["type"], raw["input"], raw.get("ctx", {})
    if kind == "extra_forbidden":
        return "is not a known key", did_you_mean(key[-1], _fields_at(model_type, raw["loc"][:-1]))
    if kind == "missing":
        return "is missing", f"add the key {key[-1]!r}"
    if kind in ("literal_error", "enum"):
        return f"is {_shorten_value(value)}, which is not allowed", did_you_mean(value, _split_listing(context["expected"]))
    if kind == "union_tag_invalid":
        what = f"has {context['discriminator'][1:-1]} {context['tag']!r}, which is not known"
        return what, did_you_mean(context["tag"], _split_listing(context["expected_tags"]))
    if kind == "union_tag_not_found":
        return f"lacks the key {context['discriminator']}", f"add the key {context['discriminator']}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        what = f"is {_shorten_value(value)}, where keys with values are expected"
        return what, "indent `key: value` lines under it"
    if kind in ("list_type", "tuple_type"):
        return f"is {_shorten_value(value)}", "it should be a list, which is written whole, as [1, 2]"
    if kind in ("string_type", "path_type"):
        quoted = f'"{_shorten_value(value)}"' if isinstance(value, (int, float)) else '"text"'
        return f"is {_shorten_value(value)}", f"{TEXT}, as {quoted}"
    message = raw["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in ("value_error", "assertion_error"):
        return f"cannot be used: {message}", "correct the value"
    return f"is {_shorten_value(value)}", message.replace("Input should", "it should", 1)


def did_you_mean(word: Hashable, known: Sequence[str]) -> str:
    """A remedy for an unknown name: the known name that is most like it, if one is, and the list of known names."""
    near = difflib.get_close_matches(word if isinstance(word, str) else _shorten_value(word), known, n=1)
    listing = f"known: {', '.join(known)}" if known else "nothing may stand here"
    return f"did you mean {near[0]}? ({listing})" if near else listing


def _shorten_value(value: Any) -> str:
    try:
        text = "empty" if value is None else repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, or nesting that is too deep
        return "too large to show"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _split_listing(listing: str) -> list[str]:
    """The values in pydantic's text "'a', 'b' or 'c'"."""
    return re.findall(r"'((?:[^'\\]|\\.)*)'", listing) or re.split(r", | or ", listing)


# The keys that a model accepts at a place


def _fields_at(model_type: Any, loc: Sequence[Hashable]) -> list[str]:
    """The keys that the models at `loc` accept. `loc` is pydantic's place, with the labels of union members."""
    here = _union_members(model_type)
    for part in loc:
        inner = [member for kind in here for member in _types_at_key(kind, part)]
        here = inner or [kind for kind in here if _is_union_label(kind, part)] or here
    return list(dict.fromkeys(name for kind in here if _is_model(kind) for name in _field_types(kind)))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _field_types(model: type[BaseModel]) -> dict[str, Any]:
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _union_members(annotation: Any) -> list[Any]:
    """The plain types that an annotation allows. Unions and `Annotated` are taken apart."""
    if get_origin(annotation) is Annotated:
        return _union_members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for option in get_args(annotation) for member in _union_members(option)]
    return [annotation]


def _types_at_key(kind: Any, part: Hashable) -> list[Any]:
    """The types that `kind` allows under the key or index `part`; an empty list if it has no such place."""
    if _is_model(kind):
        fields = _field_types(kind)
        return _union_members(fields[part]) if part in fields else []
    origin, options = get_origin(kind), [option for option in get_args(kind) if option is not Ellipsis]
    if not options or not isinstance(origin, type):
        return []
    if issubclass(origin, Mapping):
        return _union_members(options[-1])
    if isinstance(part, int):
        return _union_members(options[part] if origin is tuple and part < len(options) else options[0])
    return []


def _is_union_label(kind: Any, label: Hashable) -> bool:
    """Whether pydantic uses `label` for the union member `kind`: the class's name, or its discriminator's value."""
    if not _is_model(kind):
        return False
    annotations = [info.annotation for info in kind.model_fields.values()]
    return label == kind.__name__ or any(
        label in get_args(annotation) for annotation in annotations if get_origin(annotation) is Literal
    )


T = TypeVar("T")
COMMAND_LINE = "command line"  # the origin of what is no file's


@overload
def validate_document(model_type: type[T], document: Document, data: Any = None) -> T: ...
@overload
def validate_document(model_type: Any, document: Document, data: Any = None) -> Any: ...
def validate_document(model_type: Any, document: Document, data: Any = None) -> Any:
    """The document's data as an instance of `model_type`: a pydantic model, or any type that pydantic understands.

    If `data` is given, it is checked in place of the document's data; lines are still looked up in the document. Raises
    `InputError` for the first problem. The message names its file and line, and says how many problems follow.
    """
    data = document.data if data is None else data
    try:
        if isinstance(model_type, type) and issubclass(model_type, BaseModel):
            return model_type.model_validate(data)
        return TypeAdapter(model_type).validate_python(data)
    except ValidationError as error:
        # If the data fits no member of a union, pydantic reports the problems of every member. The writer most likely meant
        # the member in which the data fits most deeply, or, among equals, the one with the fewest problems.
        errors = _flat_errors(data, error)
        misfits = Counter(raw["loc"][:-1] for key, raw in errors if len(key) < len(raw["loc"]))
        key, raw = _choose_likeliest(errors, misfits)
        certain = {other for other, one in errors if len(other) == len(one["loc"])}  # keys outside of any union
        raise _input_error(model_type, document, key, raw, len(certain - {key})) from None


def list_problems(model_type: Any, document: Document) -> list[InputError]:
    """All problems that keep the document's data from being a `model_type`; an empty list if there are none."""
    try:
        TypeAdapter(model_type).validate_python(document.data)
    except ValidationError as error:
        # Each wrong key has one problem, in pydantic's order. A validator that reports several (`SeveralProblems`) has
        # one for each entry.
        by_key: dict[tuple[tuple[Hashable, ...], str], list[KeyedError]] = {}
        for key, raw in _flat_errors(document.data, error):
            by_key.setdefault((key, raw["msg"] if _is_ours(raw) else ""), []).append((key, raw))
        chosen = (_choose_likeliest(errors, Counter()) for errors in by_key.values())
        return [_input_error(model_type, document, key, raw) for key, raw in chosen]
    return []


def _input_error(
    model_type: Any, document: Document, key: tuple[Hashable, ...], raw: Mapping[str, Any], others: int = 0
) -> InputError:
    """The error for people: the key, what is wrong with it, and how many `others` are certainly wrong."""
    what, remedy = _explain_error(model_type, raw, key)
    where, cause = document.locate_key(key), raw.get("ctx", {}).get("error")
    if where == COMMAND_LINE and remedy.startswith(TEXT):  # the shell takes one pair of quotes
        remedy = remedy.replace(", as ", ", on the command line in two kinds: '") + "'"
    if isinstance(cause, InputError):  # one of our own validators has already worded the problem
        what, remedy = (f"{cause.where}: {cause.what}" if cause.where else cause.what), cause.remedy
    more = f" ({others} more to correct)" if others else ""
    return InputError(f"{'.'.join(map(str, key))} {what}{more}".strip(), where, remedy)
