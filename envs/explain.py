"""What pydantic entries wrong, as problems in plain words: which key, what is wrong with it, and what to do.

Invariants: the functions are pure, and know models and data but no files; keys are those of the data, without the labels
that pydantic adds to a place for the members of a union.
"""

import difflib
import re
import types
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

SHOWN = 80  # characters of a refused value
Raw = tuple[tuple[Hashable, ...], Mapping[str, Any]]  # a real key, and pydantic's error there


class Problems(ValueError):
    """What a validator of ours entries: what is wrong, each with its key below the model that was checked."""

    def __init__(self, entries: Sequence[tuple[tuple[Hashable, ...], str]]) -> None:
        self.entries = entries
        super().__init__("; ".join(what for _, what in entries))


@dataclass(frozen=True)
class Problem:
    """One thing to correct; `others` counts the further ones, `cause` is the error of a validator of ours."""

    key: tuple[Hashable, ...]
    what: str
    remedy: str
    cause: Exception | None = None
    others: int = 0


def explain(model_type: Any, data: Any, error: ValidationError) -> Problem:
    """The problem to name first.

    A union reports the problems of all its members. The member that was meant is the one that fits deepest, then best.
    """
    entries = _found(data, error)
    misfits = Counter(raw["loc"][:-1] for key, raw in entries if len(key) < len(raw["loc"]))
    key, raw = _likeliest(entries, misfits)
    certain = {other for other, one in entries if len(other) == len(one["loc"])}  # those that no union doubts
    what, remedy = _in_words(model_type, raw, key)
    return Problem(key, what, remedy, raw.get("ctx", {}).get("error"), len(certain - {key}))


def explain_all(model_type: Any, data: Any, error: ValidationError) -> list[Problem]:
    """One problem for every key that is wrong, in the order in which pydantic entries them."""
    by_key: dict[tuple[tuple[Hashable, ...], str], list[Raw]] = {}
    for key, raw in _found(data, error):
        by_key.setdefault((key, raw["msg"] if _is_ours(raw) else ""), []).append((key, raw))
    chosen = [_likeliest(entries, Counter()) for entries in by_key.values()]
    return [Problem(key, *_in_words(model_type, raw, key), raw.get("ctx", {}).get("error")) for key, raw in chosen]


def _found(data: Any, error: ValidationError) -> list[Raw]:
    """(key, pydantic's error), the lists of our own validators taken apart."""
    raws = []
    for raw in error.errors(include_url=False):
        parts = raw["ctx"]["error"].entries if _is_ours(raw) else [((), raw["msg"])]
        raws += [{**raw, "loc": (*raw["loc"], *key), "msg": what} for key, what in parts]
    return [(real_key(data, raw), raw) for raw in raws]


def _is_ours(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw.get("ctx", {}).get("error"), Problems)


def _likeliest(entries: Sequence[Raw], misfits: Mapping[tuple[Hashable, ...], int]) -> Raw:
    """Of what the members of a union entries: the member meant fits deepest, then best."""
    return max(entries, key=lambda it: (len(it[0]), -misfits[it[1]["loc"][:-1]], it[1]["type"] == "extra_forbidden"))


def real_key(data: Any, raw: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """A problem's place as keys and indices that lead there in `data`; a missing key is named too."""
    key: list[Hashable] = []
    loc = raw["loc"]
    for i, part in enumerate(loc):
        if _holds(data, part):
            data = data[part]
        elif raw["type"] != "missing" or i < len(loc) - 1:
            continue  # a union's label: the data has no such key
        key.append(part)
    return tuple(key)


def _holds(data: Any, part: Hashable) -> bool:
    if isinstance(data, Mapping):
        return part in data
    return isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data)


def _in_words(model_type: Any, raw: Mapping[str, Any], key: tuple[Hashable, ...]) -> tuple[str, str]:
    """What is wrong with a key and what to do, in words that need no pydantic."""
    kind, value, context = raw["type"], raw["input"], raw.get("ctx", {})
    if kind == "extra_forbidden":
        return "is not a known key", did_you_mean(key[-1], _fields_at(model_type, raw["loc"][:-1]))
    if kind == "missing":
        return "is missing", f"add the key {key[-1]!r}"
    if kind in ("literal_error", "enum"):
        return f"is {_short(value)}, which is not allowed", did_you_mean(value, _listed(context["expected"]))
    if kind == "union_tag_invalid":
        what = f"has {context['discriminator'][1:-1]} {context['tag']!r}, which is not known"
        return what, did_you_mean(context["tag"], _listed(context["expected_tags"]))
    if kind == "union_tag_not_found":
        return f"lacks the key {context['discriminator']}", f"add the key {context['discriminator']}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        what = f"is {_short(value)}, where keys with values are expected"
        return what, "indent `key: value` lines under it"
    message = raw["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in ("value_error", "assertion_error"):
        return f"cannot be used: {message}", "correct the value"
    return f"is {_short(value)}", message.replace("Input should", "it should", 1)


def did_you_mean(word: Hashable, known: Sequence[str]) -> str:
    """A remedy for a name that is not among those known."""
    near = difflib.get_close_matches(word if isinstance(word, str) else _short(word), known, n=1, cutoff=0.5)
    listing = f"known: {', '.join(known)}" if known else "nothing may stand here"
    return f"did you mean {near[0]}? ({listing})" if near else listing


def _short(value: Any) -> str:
    try:
        text = "empty" if value is None else repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, a nest of too many levels
        return "too large to show"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _listed(listing: str) -> list[str]:
    """The values in pydantic's "'a', 'b' or 'c'"."""
    return re.findall(r"'((?:[^'\\]|\\.)*)'", listing) or re.split(r", | or ", listing)


# Which keys a model accepts at a place


def _fields_at(model_type: Any, loc: Sequence[Hashable]) -> list[str]:
    """The keys that the models at `loc` (pydantic's, labels included) accept."""
    here = _members(model_type)
    for part in loc:
        inner = [member for kind in here for member in _inside(kind, part)]
        here = inner or [kind for kind in here if _labelled(kind, part)] or here
    return list(dict.fromkeys(name for kind in here if _is_model(kind) for name in _field_types(kind)))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _field_types(model: type[BaseModel]) -> dict[str, Any]:
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _members(annotation: Any) -> list[Any]:
    """The plain types that an annotation allows: unions and `Annotated` taken apart."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for option in get_args(annotation) for member in _members(option)]
    return [annotation]


def _inside(kind: Any, part: Hashable) -> list[Any]:
    """What `kind` holds under the key or index `part`; nothing if it has no such place."""
    if _is_model(kind):
        fields = _field_types(kind)
        return _members(fields[part]) if part in fields else []
    origin, options = get_origin(kind), [option for option in get_args(kind) if option is not Ellipsis]
    if not options or not isinstance(origin, type):
        return []
    if issubclass(origin, Mapping):
        return _members(options[-1])
    if isinstance(part, int):
        return _members(options[part] if origin is tuple and part < len(options) else options[0])
    return []


def _labelled(kind: Any, label: Hashable) -> bool:
    """Whether pydantic calls the union member `kind` by `label`: its name or its discriminator's value."""
    if not _is_model(kind):
        return False
    annotations = [info.annotation for info in kind.model_fields.values()]
    return label == kind.__name__ or any(
        label in get_args(annotation) for annotation in annotations if get_origin(annotation) is Literal
    )
