"""Reads the last words of an agent: questions, rankings and plans, and what rules decide before a judge is asked.

Formats are those of PersonalHomeBench I.3: `answer` (IG, MC); `original`, `counterfactual_1` and `counterfactual_2` (CF);
`ranked_features` (FR). The paper prints two shapes of plans (I.2): programs that hold `steps`, and flat steps that share a
`program_id`. Both give the same data:
`{"program_id": str, "steps": [{"step_id", "appliance", "feature", "category", "args", "rationale"}]}`.

JSON is mended where a language model commonly breaks it: text around the JSON (thoughts included), code fences, trailing
commas, single quotes and Python's constants. If a text has several pieces of JSON, the last one that fits counts, because
a model may think aloud before it answers.

Invariants:
- All functions are pure and never raise on text.
- A text that is valid JSON as a whole, and no longer than a call may be, is returned unmended.
- The time grows with the length of a text at most `MOST_STARTS` times.
- The value does not depend on what was mended. A mended or unreadable answer has the error UPSTREAM_FORMAT_ERROR, and an
  empty one has EMPTY_OUTPUT.
- A plan keeps every step that was written, so that a malformed one counts: its missing names are empty, and its `args` are
  None if they are no object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from homerl.envs.personalhome.tasks.text_normal_form import UNITS, normal_form
from homerl.play.tool_call_parser import parse_model_json, strip_code_fence, strip_thoughts_and_controls

MOST_STARTS = 32  # places at which JSON may begin in a text
PIECE = re.compile(
    r'(?P<double>"(?:[^"\\]|\\.)*")'
    r"|(?P<single>'(?:[^'\\]|\\.|'(?!\s*[:,}\]]))*'(?=\s*[:,}\]]))"
    r"|(?P<comma>,(?=\s*[}\]]))|(?P<constant>\b(?:True|False|None)\b)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<other>.)",
    re.S,
)


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as it was read. `value` is None if nothing could be read, and `error` if nothing had to be mended."""

    value: Any
    error: str | None = None


def find_json(text: str, fits: Callable[[Any], bool]) -> ReadAnswer | None:
    """The text as JSON, or the last piece of JSON in it that `fits`. None if there is none."""
    # First as it stands: thoughts and fences inside of a string of valid JSON are not cut away.
    whole = _parse_strict_json(text.strip())
    if whole is not None and fits(whole):
        return ReadAnswer(whole)
    inside = strip_code_fence(strip_thoughts_and_controls(text).strip())
    found, end = None, 0
    for match in islice(re.finditer(r"[{\[]", inside), MOST_STARTS):
        start = match.start()
        if start < end or (cut := _mend_brackets(inside, start)) is None:
            continue
        value = _parse_strict_json(cut[0])
        if value is None:
            continue
        end = cut[1]  # what begins inside of this piece is a part of it
        if fits(value):
            found = ReadAnswer(value, FORMAT_ERROR)
    return found


def _mend_brackets(text: str, start: int) -> tuple[str, int] | None:
    """(strict JSON, its end in the text) of the brackets that open at `start`; None if they stay open."""
    out, depth = [], 0
    for piece in PIECE.finditer(text, start):
        kind, said = piece.lastgroup, piece[0]
        depth += (kind == "open") - (kind == "close")
        match kind:
            case "single":
                # In double quotes, \' needs no backslash any more, and " needs one.
                inner = re.sub(r"\\(.)", lambda found: found[1] if found[1] == "'" else found[0], said[1:-1], flags=re.S)
                said = '"' + re.sub(r'(?<!\\)"', r"\"", inner) + '"'
            case "comma":
                said = ""
            case "constant":
                said = {"True": "true", "False": "false", "None": "null"}[said]
        out.append(said)
        if depth == 0:
            return "".join(out), piece.end()
    return None


def _parse_strict_json(text: str) -> Any:
    """The value of JSON. None if the text is no JSON, and for `null`, which answers nothing."""
    try:
        value = parse_model_json(text)
        json.dumps(value, allow_nan=False)  # `NaN` and `Infinity` are no JSON, though Python reads them
    except (ValueError, RecursionError):
        return None
    return value


FORMAT_ERROR, EMPTY = "UPSTREAM_FORMAT_ERROR", "EMPTY_OUTPUT"
THREE = ("original", "counterfactual_1", "counterfactual_2")
Verdict = Literal["right", "wrong", "undecided"]
Variant = str | Sequence[str]  # a sequence is a set of answers, all of which must be named

SEPARATOR = re.compile(r"\s*(?:,\s*and\b|，|,|、|;|；|\n|/|&|\band\b|以及|和|与|及)\s*")
LETTER = re.compile(r"(?:option |choice |选项 ?|选)?[(（\[]?([A-Za-z])(?:([)）\].:：、]+)\s*|\s+|$)(.*)", re.S | re.I)
# in normal form, which "n/a" is not
UNKNOWN = {*"unknown|not known|i dont know|unclear|none given|null|不知道|未知|不清楚".split("|"), normal_form("n/a")}
CONVERTED = {name for name, factor, _ in UNITS if factor != 1}  # a number in them may have been said without its unit
TYPED = re.compile(
    r"(?P<yesno>yes|no)|(?P<date>(?:\d{4}|-)-\d\d-\d\d)|(?P<time>\d\d:\d\d(?::\d\d)?)"
    r"|(?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?)|(?P<number>-?\d+(?:\.\d+)?)(?P<unit> [a-z][a-z ]*)?"
)


def parse_final_answer(text: str) -> ReadAnswer:
    """The value at `answer`: text, number, boolean or list. Words without JSON are the answer as they stand, mended."""
    read = parse_answer_json(text, lambda found: isinstance(found, dict) and "answer" in found)
    if read.error == EMPTY:
        return read
    if read.value is None:
        return ReadAnswer(strip_thoughts_and_controls(text).strip(), FORMAT_ERROR)
    said = read.value["answer"]
    return ReadAnswer(None, EMPTY) if said in (None, "", []) else ReadAnswer(said, read.error)


def parse_counterfactual_answers(text: str) -> ReadAnswer:
    """The answers to an original question and its two counterfactuals, by key; None where one is missing (CF)."""
    read = parse_answer_json(text, lambda found: isinstance(found, dict) and bool(set(THREE) & set(found)))
    if read.value is None:
        return read
    given = {key: read.value.get(key) for key in THREE}
    said = {key: one.get("answer") if isinstance(one, Mapping) else one for key, one in given.items()}
    return ReadAnswer(said, FORMAT_ERROR if None in said.values() else read.error)


def parse_ranking(text: str) -> ReadAnswer:
    """The features in the order of `ranked_features`, each once and as text (FR). A bare list is mended."""

    def listed_in(found: Any) -> list[Any]:
        listed = found.get("ranked_features") if isinstance(found, dict) else found
        return listed if isinstance(listed, list) and any(map(_feature_id, listed)) else []

    read = parse_answer_json(text, lambda found: bool(listed_in(found)))
    if read.value is None:
        return read
    listed = listed_in(read.value)
    ranked = tuple(dict.fromkeys(filter(None, map(_feature_id, listed))))
    is_whole = isinstance(read.value, dict) and len(ranked) == len(listed)
    return ReadAnswer(ranked, read.error if is_whole else FORMAT_ERROR)


def parse_answer_json(text: str, fits: Callable[[Any], bool]) -> ReadAnswer:
    """The JSON in a text that `fits`. Its value is None, with an error, if there is none."""
    if not strip_thoughts_and_controls(text).strip():
        return ReadAnswer(None, EMPTY)
    return find_json(text, fits) or ReadAnswer(None, FORMAT_ERROR)


def _feature_id(item: Any) -> str | None:
    """The id of a feature: a text, or an object that names it."""
    if isinstance(item, Mapping):
        item = item.get("feature_id", item.get("feature"))
    return item.strip() or None if isinstance(item, str) else None


# Right and wrong


def matches_variant(said: Any, variants: Sequence[Variant]) -> bool:
    """Whether an answer is one of the variants in normal form (eq. 1). A variant of several texts is a set.

    A set is matched by a list, or by a text that lists the same. A list of one is as good as its item.
    """
    items = list(said) if isinstance(said, (list, tuple)) else [said]
    forms = [normal_form(_value_as_text(item)) for item in items]
    for variant in variants:
        if isinstance(variant, str):
            if forms == [normal_form(variant)]:
                return True
        elif (isinstance(said, (list, tuple)) and {*forms} == set(map(normal_form, variant))) or _listed_forms(
            items
        ) == _listed_forms(variant):
            return True
    return False


def _listed_forms(items: Iterable[Any]) -> set[str]:
    """The normal forms of all that some texts list."""
    parts = (part for item in items for part in SEPARATOR.split(_value_as_text(item)))
    return {normal_form(part) for part in parts if part.strip()}


def _value_as_text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def decide_by_rules(said: Any, variants: Sequence[Variant]) -> Verdict:
    """What rules decide of an answer to IG or CF; a judge gets only what is `undecided`.

    Wrong without a judge: no answer, "unknown", and a date, time, yes or no, or number that differs from all variants of
    its kind. A number that differs by rounding or lacks a unit is undecided.
    """
    if matches_variant(said, variants):
        return "right"
    form = normal_form(_value_as_text(said))
    if said in (None, "", [], {}) or form in UNKNOWN:
        return "wrong"
    if isinstance(said, (list, tuple, Mapping)) or not all(isinstance(variant, str) for variant in variants):
        return "undecided"
    differ = variants and all(_are_values_apart(form, normal_form(str(variant))) for variant in variants)
    return "wrong" if differ else "undecided"


def _are_values_apart(said: str, wanted: str) -> bool:
    """Whether two normal forms are values of one kind that differ."""
    ours, theirs = TYPED.fullmatch(said), TYPED.fullmatch(wanted)
    if not ours or not theirs:
        return False
    if ours["number"] and theirs["number"]:
        units = {(found["unit"] or "").strip() for found in (ours, theirs)}
        if len(units) > 1 and ("" not in units or units & CONVERTED):
            return False  # "2 hours" may be said as 2, and its normal form is 120 minutes
        a, b = float(ours["number"]), float(theirs["number"])
        # One may be the other, rounded to its own decimals.
        return all(round(x, 0 if y.is_integer() else len(repr(y).partition(".")[2])) != y for x, y in ((a, b), (b, a)))
    return said != wanted and any(ours[kind] and theirs[kind] for kind in ("yesno", "date", "time", "moment"))


def parse_choice(said: Any, options: Sequence[str]) -> int | None:
    """The index of the option that an answer to MC names by its letter, its text or both (eq. 6); None if it names none.

    A letter beside the text of another option names none.
    """
    text = _value_as_text(said[0] if isinstance(said, (list, tuple)) and len(said) == 1 else said).strip()
    # "B", "B) text" and "B text" name a letter. Without a mark behind it, "A red" may also be a text.
    lettered = LETTER.fullmatch(text)
    at = ord(lettered[1].upper()) - ord("A") if lettered else len(options)
    if lettered and at < len(options):
        if not lettered[3] or normal_form(lettered[3]) == normal_form(options[at]):
            return at
        if lettered[2]:
            return None
    named = [at for at, option in enumerate(options) if normal_form(option) == normal_form(text)]
    return named[0] if len(named) == 1 else None


def parse_plan(text: str) -> ReadAnswer:
    """The programs of a plan as a tuple, in the order in which they begin. An empty list is a plan of no program."""
    read = parse_answer_json(text, lambda found: bool(_find_plan_items(found)[0]))
    if read.value is None:  # a plan of no program counts only if there is no other plan
        read = parse_answer_json(text, lambda found: _find_plan_items(found)[0] is not None)
    if read.value is None:
        return read
    listed, is_whole = _find_plan_items(read.value)
    items = [item if isinstance(item, Mapping) else {"steps": [item]} for item in listed or ()]
    found: dict[str, list[Any]] = {}
    for at, item in enumerate(items, 1):
        steps = item.get("steps", [item])  # an item without steps is a flat step
        name = str(item.get("program_id") or f"program_{at}")
        found.setdefault(name, []).extend(steps if isinstance(steps, list) else [steps])
    written = [step for steps in found.values() for step in steps]
    is_whole = is_whole and all(item.get("program_id") for item in items)
    is_whole = is_whole and all(isinstance(step, Mapping) and not isinstance(step.get("args"), str) for step in written)
    programs = tuple(
        {"program_id": name, "steps": [_complete_step(step, at) for at, step in enumerate(steps, 1)]}
        for name, steps in found.items()
    )
    return ReadAnswer(programs, read.error if is_whole else FORMAT_ERROR)


def _find_plan_items(found: Any) -> tuple[list[Any] | None, bool]:
    """(the programs or flat steps of a JSON value, whether it is the list that is asked for); (None, ...) for no plan."""
    for key in ("programs", "plan", "plans") if isinstance(found, dict) else ():
        if isinstance(found.get(key), list):
            return found[key], False
    items = found if isinstance(found, list) else [found]
    parts = (isinstance(item, Mapping) and ("steps" in item or {"appliance", "feature"} <= set(item)) for item in items)
    return items if not items or any(parts) else None, isinstance(found, list)


def _complete_step(step: Any, at: int) -> dict[str, Any]:
    """The step with all its keys. `args` is None if the arguments are no object; JSON in a text is read."""
    step = step if isinstance(step, Mapping) else {}
    category, args = step.get("category") or [], step.get("args")
    if isinstance(args, str):
        read = find_json(args, lambda value: isinstance(value, dict))
        args = read.value if read else None
    elif args is None or isinstance(args, Mapping):
        args = dict(args or {})
    else:
        args = None
    names = {key: str(step.get(key) or "") for key in ("step_id", "appliance", "feature", "rationale")}
    return names | {
        "step_id": names["step_id"] or str(at),
        "category": list(map(str, category if isinstance(category, list) else [category])),
        "args": args,
    }
