"""Reads JSON that a language model wrote, and says what had to be mended.

Mended are: text around the JSON (thoughts included), code fences, trailing commas, single quotes and Python's constants.
Of several pieces of JSON in a text the last one that fits counts: a model may think aloud before it answers.

Invariants: all functions are pure and never raise on text; what was valid JSON as a whole, and no longer than a call may be,
is returned unmended; the time grows with the length of a text at most `MOST_STARTS` times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from homerl.play.call_forms import strip_code_fence
from homerl.play.messages import parse_model_json
from homerl.play.speech import strip_thoughts_and_controls

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
