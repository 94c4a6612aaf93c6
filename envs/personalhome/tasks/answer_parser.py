"""Reads JSON that a language model wrote, and says what had to be mended.

Mended are: text around the JSON (thoughts included), code fences, trailing commas, single quotes and Python's constants.
Of several pieces of JSON in a text the last one that fits counts: a model may think aloud before it answers.

Invariants: all functions are pure and never raise on text; what was valid JSON as a whole, and no longer than a call may be,
is returned unmended; the time grows with the length of a text at most `MOST_STARTS` times.

What an agent's last words answer: lenient reading, the exact match, and what rules decide before a judge.

Formats are those of PersonalHomeBench I.3: `answer` (IG, MC); `original`, `counterfactual_1` and `counterfactual_2` (CF);
`ranked_features` (FR). Plans are read in `plans.py`.

Invariants: all functions are pure and never raise on text; the value does not depend on what was mended; an answer that is
mended or unreadable has the error UPSTREAM_FORMAT_ERROR, an empty one EMPTY_OUTPUT.

Reads an agent's plan: programs of steps, the most important first (PersonalHomeBench I.2, Plan Generation).

The paper prints two shapes: programs that hold `steps`, and flat steps that share a `program_id`. Both give the same data:
`{"program_id": str, "steps": [{"step_id", "appliance", "feature", "category", "args", "rationale"}]}`.

Invariants: all functions are pure and never raise on text; every step that was written is there, so that a malformed one
counts as such: its missing names are empty, and its `args` are None if they are no object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from homerl.envs.personalhome.tasks.text_normal_form import UNITS, normal_form
from homerl.play.chat_messages import parse_model_json
from homerl.play.tool_call_parser import strip_code_fence, strip_thoughts_and_controls

MOST_STARTS = 32  # places at which JSON may begin in a text
PIECE = re.compile(
    r'(?P<double>"(?:[^"\\]|\\.)*")'
    r"|(?P<single>'(?:[^'\\]|\\.|'(?!\s*[:,}\]]))*'(?=\s*[:,}\]]))"
    r"|(?P<comma>,(?=\s*[}\]]))|(?P<constant>\b(?:True|False|None)\b)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<other>.)",
    re.S,
)
CONSTANTS = {"True": "true", "False": "false", "None": "null"}


@dataclass(frozen=True)
class MendedJson:
    """A value that was read from a text, and what had to be mended for it, in the order of mending."""

    value: Any
    mended: tuple[str, ...] = ()


def find_json(text: str, fits: Callable[[Any], bool]) -> MendedJson | None:
    """The text as JSON, or the last piece of JSON in it that `fits`. None if there is none."""
    whole = _parsed(text.strip())
    if whole is not None and fits(whole):
        return MendedJson(whole)
    bare = strip_thoughts_and_controls(text).strip()
    inside = strip_code_fence(bare)
    fence = ("code fence",) if inside != bare else ()
    thoughts = ("text around",) if bare != text.strip() else ()
    found = None
    for start, end, value, mended in _pieces(inside):
        if fits(value):
            around = ("text around",) if inside[:start].strip() or inside[end:].strip() else ()
            found = MendedJson(value, tuple(dict.fromkeys((*thoughts, *fence, *around, *mended))))
    return found


def _pieces(text: str) -> Iterator[tuple[int, int, Any, tuple[str, ...]]]:
    """(start, end, value, what was mended) of the outermost pieces of JSON in a text, in order."""
    end = 0
    for tried, match in enumerate(re.finditer(r"[{\[]", text)):
        if tried == MOST_STARTS:
            return
        if match.start() < end:
            continue
        cut = _cut(text, match.start())
        if cut and (value := _parsed(cut[0])) is not None:
            end = cut[1]
            yield match.start(), end, value, cut[2]


def _cut(text: str, start: int) -> tuple[str, int, tuple[str, ...]] | None:
    """(strict JSON, its end in the text, what was mended) of the brackets that open at `start`; None if they stay open."""
    out, mended, depth = [], dict[str, None](), 0
    for piece in PIECE.finditer(text, start):
        kind, said = piece.lastgroup, piece[0]
        depth += (kind == "open") - (kind == "close")
        match kind:
            case "single":
                mended["single quotes"] = None
                inner = re.sub(r"\\(.)", lambda found: found[1] if found[1] == "'" else found[0], said[1:-1], flags=re.S)
                said = '"' + re.sub(r'(?<!\\)"', r"\"", inner) + '"'
            case "comma":
                mended["trailing comma"] = None
                said = ""
            case "constant":
                mended["constant"] = None
                said = CONSTANTS[said]
        out.append(said)
        if depth == 0:
            return "".join(out), piece.end(), tuple(mended)
    return None


def _parsed(text: str) -> Any:
    """The value of JSON; None if it is none, and for `null`, which answers nothing."""
    try:
        value = parse_model_json(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value


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


WRAPPERS = ("programs", "plan", "plans")
NAMES = ("step_id", "appliance", "feature", "rationale")


def parse_plan(text: str) -> ReadAnswer:
    """The programs of a plan as a tuple, in the order in which they begin. An empty list is a plan of no program."""
    read = parse_answer_json(text, lambda found: bool(_listed(found)[0]))
    if read.value is None:
        read = parse_answer_json(
            text, lambda found: _listed(found)[0] is not None
        )  # of no program, if there is no other plan
    if read.value is None:
        return read
    listed, mended = _listed(read.value)
    found: dict[str, list[Any]] = {}
    for at, item in enumerate(listed or (), 1):
        name = str(item.get("program_id") or f"program_{at}") if isinstance(item, Mapping) else f"program_{at}"
        flat = not isinstance(item, Mapping) or "steps" not in item
        steps = [item] if flat else item["steps"]
        found.setdefault(name, []).extend(steps if isinstance(steps, list) else [steps])
    programs = tuple({"program_id": name, "steps": _steps(steps)} for name, steps in found.items())
    mended = (*read.mended, *mended, *_faults(listed or (), found))
    return ReadAnswer(programs, mended, FORMAT_ERROR if mended else None)


def _listed(found: Any) -> tuple[list[Any] | None, tuple[str, ...]]:
    """(the programs or flat steps of a JSON value, what was mended); (None, ()) if the value is no plan."""
    if isinstance(found, dict):
        for key in WRAPPERS:
            if isinstance(found.get(key), list):
                return found[key], (f"a list in {key}",)
        return ([found], ("no list",)) if _is_part(found) else (None, ())
    if isinstance(found, list) and (not found or any(map(_is_part, found))):
        return found, ()
    return None, ()


def _is_part(item: Any) -> bool:
    return isinstance(item, Mapping) and ("steps" in item or {"appliance", "feature"} <= set(item))


def _faults(listed: Any, programs: Mapping[str, list[Any]]) -> tuple[str, ...]:
    """What a plan lacks in form, beside its JSON."""
    faults = {
        "no program_id": any(not isinstance(item, Mapping) or not item.get("program_id") for item in listed),
        "a step that is no object": any(not isinstance(step, Mapping) for steps in programs.values() for step in steps),
        "args as text": any(
            isinstance(step, Mapping) and isinstance(step.get("args"), str) for steps in programs.values() for step in steps
        ),
    }
    return tuple(fault for fault, there in faults.items() if there)


def _steps(steps: list[Any]) -> list[dict[str, Any]]:
    return [_step(step if isinstance(step, Mapping) else {}, at) for at, step in enumerate(steps, 1)]


def _step(step: Mapping[str, Any], at: int) -> dict[str, Any]:
    names = {key: str(step.get(key) or "") for key in NAMES}
    category = step.get("category") or []
    listed = category if isinstance(category, list) else [category]
    return names | {
        "step_id": names["step_id"] or str(at),
        "category": [str(item) for item in listed],
        "args": _args(step.get("args", {})),
    }


def _args(said: Any) -> dict[str, Any] | None:
    """The arguments of a step; None if they are no object. JSON in a text is read."""
    if isinstance(said, str):
        found = find_json(said, lambda value: isinstance(value, dict))
        return found.value if found else None
    return dict(said) if isinstance(said, Mapping) else {} if said is None else None
