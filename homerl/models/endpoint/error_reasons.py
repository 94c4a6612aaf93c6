"""What a server says of an error, in whatever form it says it: its words, and the HTTP status that fits them.

Invariants: words are one line of at most `LONGEST` characters, without control characters; no key stands in them; a page of
HTML gives its title at most.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from homerl.envs.core.messages import replace_surrogates

LONGEST = 300  # characters of a reason
READ = 20_000  # characters of a text that are looked at
MOST, DEEPEST = 3, 6  # parts of a list that are told, and levels that are looked at
SHORTEST_KEY = 8  # characters; one that is shorter protects nothing, and stands in words
TELLING = ("message", "msg", "detail", "error", "errors", "reason", "title", "metadata", "raw")  # keys of words
NAMING = ("code", "type", "status", "status_code", "error_type")  # keys of the kind of an error
PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.I)
TITLE = re.compile(r"<title[^>]*>([^<]*)", re.I)
UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")  # and white space
SECRET = re.compile(
    r"""((?<![a-z])(?:key|token(?!\ (?:count|limit|length))|secret|password|authorization)["']?(?:\ \w+)?\s*[=:]\s*
        ["']?(?:bearer\s+)?|\bbearer\s+)
        (?=\S*\d)[^\s"'&,;)}\]]{8,}
    | (?<=://)[^\s/@]+(?=@)
    | \b(?:sk|pk|rk|hf|gsk|xai|ghp|nvapi)[-_][\w*-]{6,} | \bAIza[\w-]{20,} | \beyJ[\w-]{10,}\.[\w.-]+""",
    re.I | re.X,
)
STATUS = re.compile(r"(?<!\S)[45]\d\d(?!\S)", re.A)
STATUSES = {  # by what a server calls an error for which it names no status
    401: re.compile(r"authenti|unauthori|api.?key", re.I),
    402: re.compile(r"quota|billing|payment|insufficient", re.I),
    403: re.compile(r"permission|forbidden", re.I),
    404: re.compile(r"not.?found", re.I),
    429: re.compile(r"rate.?limit|too.?many|exhausted", re.I),
    400: re.compile(r"invalid|bad.?request|validation|unsupported|context|too.?large", re.I),
}


def read_error_reason(said: Any, key: str = "") -> str:
    """The words of a server's error, or what it calls the error; empty if it says nothing. Its `key` is left out."""
    told: list[str] = []
    for text in _error_texts(said, DEEPEST):
        if not any(text in earlier for earlier in told):
            told.append(text)
    words = UNSEEN.sub(" ", replace_surrogates(": ".join(told) or read_error_names(said))).strip()
    words = SECRET.sub(r"\1***", words.replace(key, "***") if len(key) >= SHORTEST_KEY else words)
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def read_error_names(said: Any) -> str:
    """What a server calls an error: its codes and types."""
    return " ".join(str(name) for name in _error_names(said, DEEPEST))


def read_error_status(said: Any) -> int:
    """The HTTP status of an error that came without one: the status that it names, or the one of its kind, or 500."""
    names = read_error_names(said)
    if named := STATUS.search(names):
        return int(named[0])
    return next((status for status, kind in STATUSES.items() if kind.search(names)), 500)


def _error_texts(said: Any, levels: int) -> Iterator[str]:
    """The words of an error, outermost first. A text may itself be a page or JSON."""
    if not levels:
        return
    if isinstance(said, Mapping):
        where, what = said.get("loc"), said.get("msg")
        if isinstance(where, list) and isinstance(what, str):  # the form of pydantic, which FastAPI sends
            yield f"{'.'.join(map(str, where))}: {what}"
            return
        for key in TELLING:
            yield from _error_texts(said.get(key), levels - 1)
    elif isinstance(said, list):
        for part in said[:MOST]:
            yield from _error_texts(part, levels - 1)
    elif isinstance(said, str):
        text, inner = said[:READ].strip(), None
        if PAGE.match(text):
            title = TITLE.search(text)
            text = html.unescape(title[1]).strip() if title else ""
        elif text.startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                inner = json.loads(text)
        if isinstance(inner, (dict, list)):
            yield from _error_texts(inner, levels - 1)
        elif text:
            yield text


def _error_names(said: Any, levels: int) -> Iterator[Any]:
    if isinstance(said, Mapping) and levels:
        for key in NAMING:
            if isinstance(said.get(key), (str, int)):
                yield said[key]
        for key in TELLING:
            yield from _error_names(said.get(key), levels - 1)
    elif isinstance(said, list) and levels:
        for part in said[:MOST]:
            yield from _error_names(part, levels - 1)
