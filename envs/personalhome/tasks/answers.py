"""What an agent's last words answer: lenient reading, the exact match, and what rules decide before a judge.

Formats are those of PersonalHomeBench I.3: `answer` (IG, MC); `original`, `counterfactual_1` and `counterfactual_2` (CF);
`ranked_features` (FR). Plans are read in `plans.py`.

Invariants: all functions are pure and never raise on text; the value does not depend on what was mended; an answer that is
mended or unreadable has the error UPSTREAM_FORMAT_ERROR, an empty one EMPTY_OUTPUT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from homerl.envs.personalhome.tasks.mending import find_json
from homerl.envs.personalhome.tasks.normal import UNITS, normal_form
from homerl.play.speech import strip_thoughts_and_controls

FORMAT_ERROR, EMPTY = "UPSTREAM_FORMAT_ERROR", "EMPTY_OUTPUT"
THREE = ("original", "counterfactual_1", "counterfactual_2")
Verdict = Literal["right", "wrong", "undecided"]
Variant = str | Sequence[str]  # a sequence is a set of answers, all of which must be named

SEPARATOR = re.compile(r"\s*(?:,\s*and\b|，|,|、|;|；|\n|/|&|\band\b|以及|和|与|及)\s*")
LETTER = re.compile(r"(?:option |choice |选项 ?|选)?[(（\[]?([A-Za-z])(?:([)）\].:：、]+)\s*|\s+|$)(.*)", re.S | re.I)
UNKNOWN = {
    "unknown",
    normal_form("n/a"),
    "not known",
    "i dont know",
    "unclear",
    "none given",
    "null",
    "不知道",
    "未知",
    "不清楚",
}
CONVERTED = {name for name, factor, _ in UNITS if factor != 1}  # a number in them may have been said without its unit
TYPED = re.compile(
    r"(?P<yesno>yes|no)|(?P<date>(?:\d{4}|-)-\d\d-\d\d)|(?P<time>\d\d:\d\d(?::\d\d)?)"
    r"|(?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?)|(?P<number>-?\d+(?:\.\d+)?)(?P<unit> [a-z][a-z ]*)?"
)


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as it was read. `value` is None if nothing could be read; `mended` says what had to be mended."""

    value: Any
    mended: tuple[str, ...] = ()
    error: str | None = None


def parse_final_answer(text: str) -> ReadAnswer:
    """The value at `answer`: text, number, boolean or list. Words without JSON are the answer as they stand, mended."""
    read = parse_answer_json(text, lambda found: isinstance(found, dict) and "answer" in found)
    if read.value is None:
        return (
            read
            if read.error == EMPTY
            else ReadAnswer(strip_thoughts_and_controls(text).strip(), ("no JSON",), FORMAT_ERROR)
        )
    said = read.value["answer"]
    return ReadAnswer(None, read.mended, EMPTY) if said in (None, "", []) else ReadAnswer(said, read.mended, read.error)


def parse_counterfactual_answers(text: str) -> ReadAnswer:
    """The answers to an original question and its two counterfactuals, by key; None where one is missing (CF)."""
    read = parse_answer_json(text, lambda found: isinstance(found, dict) and bool(set(THREE) & set(found)))
    if read.value is None:
        return read
    said = {key: _inner(read.value.get(key)) for key in THREE}
    missing = tuple(f"no {key}" for key in THREE if said[key] is None)
    mended = (*read.mended, *missing)
    return ReadAnswer(said, mended, FORMAT_ERROR if mended else None)


def parse_ranking(text: str) -> ReadAnswer:
    """The features in the order of `ranked_features`, each once and as text (FR). A bare list is mended."""
    read = parse_answer_json(text, lambda found: _ranked(found) is not None)
    if read.value is None:
        return read
    listed = _ranked(read.value) or ()
    ranked = tuple(dict.fromkeys(item for item in map(_feature, listed) if item))
    mended = read.mended + ((("no key ranked_features",)) if isinstance(read.value, list) else ())
    mended += ("repeated or unreadable features",) if len(ranked) != len(listed) else ()
    return ReadAnswer(ranked, mended, FORMAT_ERROR if mended else None)


def parse_answer_json(text: str, fits: Callable[[Any], bool]) -> ReadAnswer:
    """The JSON in a text that `fits`. Its value is None, with an error and nothing mended, if there is none."""
    if not strip_thoughts_and_controls(text).strip():
        return ReadAnswer(None, (), EMPTY)
    found = find_json(text, fits)
    if found is None:
        return ReadAnswer(None, (), FORMAT_ERROR)
    return ReadAnswer(found.value, found.mended, FORMAT_ERROR if found.mended else None)


def _inner(said: Any) -> Any:
    return said.get("answer") if isinstance(said, Mapping) else said


def _ranked(found: Any) -> list[Any] | None:
    listed = found.get("ranked_features") if isinstance(found, dict) else found
    return listed if isinstance(listed, list) and any(map(_feature, listed)) else None


def _feature(item: Any) -> str | None:
    """The id of a feature: a text, or an object that names it."""
    if isinstance(item, Mapping):
        item = item.get("feature_id", item.get("feature"))
    return item.strip() or None if isinstance(item, str) else None


# Right and wrong


def matches_variant(said: Any, variants: Sequence[Variant]) -> bool:
    """Whether an answer is one of the variants in normal form (eq. 1). A variant of several texts is a set.

    A set is matched by a list, or by a text that lists the same. A list of one is as good as its item.
    """
    return any(_equal(said, variant) for variant in variants)


def _equal(said: Any, variant: Variant) -> bool:
    if isinstance(variant, str):
        items = said if isinstance(said, (list, tuple)) else [said]
        return len(items) == 1 and normal_form(_text(items[0])) == normal_form(variant)
    if isinstance(said, (list, tuple)) and {normal_form(_text(item)) for item in said} == set(map(normal_form, variant)):
        return True
    return _split(said) == _split(variant)


def _split(said: Any) -> set[str]:
    """The normal forms of all that an answer lists."""
    items = said if isinstance(said, (list, tuple)) else [said]
    parts = (part for item in items for part in SEPARATOR.split(_text(item)))
    return {normal_form(part) for part in parts if part.strip()}


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def decide_by_rules(said: Any, variants: Sequence[Variant]) -> Verdict:
    """What rules decide of an answer to IG or CF; a judge gets only what is `undecided`.

    Wrong without a judge: no answer, "unknown", and a date, time, yes or no, or number that differs from all variants of
    its kind. A number that differs by rounding or lacks a unit is undecided.
    """
    if matches_variant(said, variants):
        return "right"
    if said in (None, "", [], {}) or normal_form(_text(said)) in UNKNOWN:
        return "wrong"
    if isinstance(said, (list, tuple, Mapping)) or not all(isinstance(variant, str) for variant in variants):
        return "undecided"
    apart = [_apart(normal_form(_text(said)), normal_form(str(variant))) for variant in variants]
    return "wrong" if apart and all(apart) else "undecided"


def _apart(said: str, wanted: str) -> bool:
    """Whether two normal forms are values of one kind that differ."""
    ours, theirs = TYPED.fullmatch(said), TYPED.fullmatch(wanted)
    if not ours or not theirs:
        return False
    if ours["number"] and theirs["number"]:
        units = {(found["unit"] or "").strip() for found in (ours, theirs)}
        if len(units) > 1 and ("" not in units or units & CONVERTED):
            return False  # "2 hours" may be said as 2, and has become 120 minutes
        return not _rounds(float(ours["number"]), float(theirs["number"]))
    return said != wanted and any(ours[kind] and theirs[kind] for kind in ("yesno", "date", "time", "moment"))


def _rounds(a: float, b: float) -> bool:
    """Whether one of two numbers is the other, rounded to its own decimals."""
    return any(round(x, len(_decimals(y))) == y for x, y in ((a, b), (b, a)))


def _decimals(value: float) -> str:
    return "" if value.is_integer() else repr(value).partition(".")[2]


def parse_choice(said: Any, options: Sequence[str]) -> int | None:
    """The index of the option that an answer to MC names by its letter, its text or both (eq. 6); None if it names none.

    A letter beside the text of another option names none.
    """
    text = _text(said[0] if isinstance(said, (list, tuple)) and len(said) == 1 else said).strip()
    lettered = LETTER.fullmatch(text)
    at = ord(lettered[1].upper()) - ord("A") if lettered else len(options)
    if lettered and at < len(options):
        if not lettered[3] or normal_form(lettered[3]) == normal_form(options[at]):
            return at
        if lettered[2]:
            return None
    named = [at for at, option in enumerate(options) if normal_form(option) == normal_form(text)]
    return named[0] if len(named) == 1 else None
