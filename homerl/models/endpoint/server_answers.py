"""What servers answer: checked before other code reads it, and what they say of an error, in whatever form they say it.

Invariants:
- An answer that passes `check_completion` has the shape of its type in all choices.
- No text that passes contains half of a surrogate pair, which no file could hold.
- An error that a server sends as an answer counts like one with a status.
- The words of an error are one line of at most `LONGEST` characters, without control characters. No key stands in them, and
  a page of HTML gives its title at most.
"""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from openai import APIConnectionError, APIResponseValidationError, APIStatusError, APITimeoutError
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_message_function_tool_call import ChatCompletionMessageFunctionToolCall, Function

from homerl.envs.core.messages import replace_surrogates

LONGEST = 300  # characters of a reason
READ = 20_000  # characters of a text that are looked at
MOST, DEEPEST = 3, 6  # parts of a list that are told, and levels that are looked at
SHORTEST_KEY = 8  # characters; one that is shorter protects nothing, and stands in words
TELLING = ("message", "msg", "detail", "error", "errors", "reason", "title", "metadata", "raw")  # keys of words
NAMING = ("code", "type", "status", "status_code", "error_type")  # keys of the kind of an error
PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.I)  # a page of HTML, such as a proxy's
TITLE = re.compile(r"<title[^>]*>([^<]*)", re.I)
UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")  # and white space
# What may be a key: a value after a word such as `token`, a user in an address, or the form of some maker's keys
SECRET = re.compile(
    r"""((?<![a-z])(?:key|token(?!\ (?:count|limit|length))|secret|password|authorization)["']?(?:\ \w+)?\s*[=:]\s*
        ["']?(?:bearer\s+)?|\bbearer\s+)
        (?=\S*\d)[^\s"'&,;)}\]]{8,}
    | (?<=://)[^\s/@]+(?=@)
    | \b(?:sk|pk|rk|hf|gsk|xai|ghp|nvapi)[-_][\w*-]{6,} | \bAIza[\w-]{20,} | \beyJ[\w-]{10,}\.[\w.-]+""",
    re.I | re.X,
)
STATUS = re.compile(r"(?<!\S)[45]\d\d(?!\S)", re.A)  # a status among the names of an error
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


Kind = TypeVar("Kind")
PASSING = (408, 409, 425, 429)  # statuses below 500 after which a retry may help
BUSY = (429, 503)  # only time helps
SPENT = re.compile(r"insufficient.?(quota|balance|credit|fund)|billing|payment|hard.?limit", re.I)  # codes of 429: no money
REFUSING = (400, 413, 422)  # refuse this request; others refuse all requests: key, path, model name
TOO_LONG = re.compile(  # the words or codes of servers for a dialogue that is longer than the model takes
    r"""context.{0,3}(length|size|window|limit) | maximum\ (model|prompt)\ length | max_(seq|model)_len | model\ max\ length
    | (prompt|input)\ (is\ )?too\ long | the\ model\ takes | (prompt|too\ many)\ tokens.{0,60}(exceed|limit)
    | input\ (tokens?|token\ count|length).{0,40}exceed | range\ of\ input\ length | too\ large\ for\ model
    | inputs`?\ (tokens\ \+|must\ have\ less) | reduce\ (the\ length\ of\ |the\ |your\ )(message|prompt|input)""",
    re.I | re.X,
)
# Fields of a request without which it is answered too, by the name that newer models know instead ("" for none)
SPARED = {"max_tokens": "max_completion_tokens", "temperature": "", "seed": ""}
UNSUPPORTED = re.compile(  # the words of servers for a field that they do not take, or take one value of
    r"""unsupported | (not|n't)\ (be\ )?(support|permit|allow|accept) | unrecogni[sz]ed | unknown | unexpected
    | extra.?(forbidden|inputs|fields) | only\ the\ default""",
    re.I | re.X,
)
# A server may leave out any of these, so they are read one by one.
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
SPOKEN = ("text", "output_text", "refusal")  # types of the parts of a content that are speech; thoughts are not


class ErrorAnswer(ValueError):
    """An error that a server `said` as an answer, with the status 200. `status_code` is the one that fits it."""

    def __init__(self, said: Any) -> None:
        super().__init__("the answer is an error")
        self.said, self.status_code = said, read_error_status(said)


FAILED = (APIStatusError, ErrorAnswer)  # the errors that have a status


def check_completion(answer: Any, kind: type[Kind]) -> Kind:
    """Return the answer with its texts made plain, and its usage and calls filled up.

    Raises `ErrorAnswer` for an error, and `ValueError` if the answer's shape or its usage is not that of `kind`.
    """
    choices, usage = getattr(answer, "choices", None), getattr(answer, "usage", None)
    found = [*choices] if isinstance(choices, list) else []
    # An error may stand beside the choices, in one of them, or in place of them.
    errors = [(getattr(part, "model_extra", None) or {}).get("error") for part in (answer, *found)]
    errors += [] if found else [getattr(answer, "model_extra", answer)]
    for said in filter(read_error_reason, errors):
        raise ErrorAnswer(said)
    for choice in found:
        _fill_message(getattr(choice, "message", None))
    if not isinstance(answer, kind) or not found or not all(map(_is_readable, found)):
        raise ValueError("the answer is no completion")
    if usage is not None:  # a server may leave it out, or parts of it
        counts = [getattr(usage, name, None) for name in COUNTS]
        if not isinstance(usage, CompletionUsage) or not all(isinstance(count, (int, type(None))) for count in counts):
            raise ValueError("the answer's usage is no count")
        usage.prompt_tokens, usage.completion_tokens, total = (count or 0 for count in counts)
        usage.total_tokens = total or usage.prompt_tokens + usage.completion_tokens
    for message in (choice.message for choice in found if getattr(choice, "message", None)):
        message.content = message.content and replace_surrogates(message.content)
        for call in message.tool_calls or ():
            if call.type == "function":
                call.function.name = replace_surrogates(call.function.name)
                call.function.arguments = replace_surrogates(call.function.arguments)
    return answer


def _fill_message(message: Any) -> None:
    """Complete a message in place.

    A call in the older form, `function_call`, becomes one of its calls. Calls get an id and a type, and their arguments
    become JSON where a server gave an object or nothing. The parts of a content become one text, and a refusal becomes the
    words that it is.
    """
    calls, older = getattr(message, "tool_calls", None), getattr(message, "function_call", None)
    if older is not None and not calls and isinstance(message, ChatCompletionMessage):
        function = Function.model_construct(name=getattr(older, "name", None), arguments=getattr(older, "arguments", None))
        calls = message.tool_calls = [ChatCompletionMessageFunctionToolCall.model_construct(function=function)]
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(function := getattr(call, "function", None), Function):
            given = getattr(function, "arguments", None)
            if given is None or isinstance(given, dict):
                function.arguments = json.dumps(given or {})
            call.type = getattr(call, "type", None) or "function"
            call.id = getattr(call, "id", None) or f"call_{number}"
    if not isinstance(message, ChatCompletionMessage):
        return
    content: Any = message.content
    parts = [content] if isinstance(content, dict) else content
    if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
        texts = [part.get("refusal", part.get("text")) for part in parts if part.get("type", "text") in SPOKEN]
        message.content = "".join(texts) if all(isinstance(text, str) for text in texts) else content
    if not message.content and isinstance(message.refusal, str):
        message.content = message.refusal


class DeltaReader:
    """Reads the parts of a streamed message as servers mean them: some number all its calls 0, from 1, or not at all, repeat
    a call's id and name with each part of it, or write a content as parts."""

    def __init__(self) -> None:
        self._calls: list[dict[str, str]] = []  # the id, the name and the arguments of each so far
        self._newest: dict[int | None, int] = {}  # the place of the newest call of a number

    def tidy_delta(self, delta: Any) -> None:
        """Change a part, in place, to what the client's own reader understands."""
        content, calls = getattr(delta, "content", None), getattr(delta, "tool_calls", None)
        if isinstance(content, list):
            delta.content = "".join(part["text"] for part in content if isinstance(part, dict) and part.get("text"))
        for call in calls if isinstance(calls, list) else ():
            id, function = getattr(call, "id", None) or "", getattr(call, "function", None)
            name = getattr(function, "name", None) or ""
            told = getattr(call, "index", None)
            call.index = self._newest[told] = at = self._place_of_call(told, id, name)
            if at == len(self._calls):
                self._calls.append({"id": id, "name": name, "arguments": ""})
            else:
                known = self._calls[at]
                if id == known["id"]:
                    call.id = None  # the reader would write it twice
                if name == known["name"] and function is not None:
                    function.name = None
                known["id"], known["name"] = known["id"] or id, known["name"] or name
            self._calls[at]["arguments"] += getattr(function, "arguments", None) or ""

    def _place_of_call(self, told: int | None, id: str, name: str) -> int:
        """The place of a call: that of its number. If another call has begun there: that of its id, or a new one."""
        end, at = len(self._calls), self._newest.get(told)
        if at is None:  # a part that names nothing goes on with the last call
            return end if id or name or not end else end - 1
        known = self._calls[at]
        is_other_name = bool(name and known["name"] and known["arguments"] and name != known["name"])
        if (id and known["id"] and id != known["id"]) or is_other_name:
            return next((place for place, one in enumerate(self._calls) if id and one["id"] == id), end)
        return at


def _is_readable(choice: Any) -> bool:
    """Whether a choice has a message that can be read, or text."""
    message = getattr(choice, "message", None)
    if message is None:
        return isinstance(getattr(choice, "text", None), str)
    calls = getattr(message, "tool_calls", None) or ()
    return (
        isinstance(message, ChatCompletionMessage)
        and isinstance(message.content, (str, type(None)))
        and isinstance(calls, Sequence)
        and all(map(_is_readable_call, calls))
    )


def _is_readable_call(call: Any) -> bool:
    """Whether a tool call can be read; calls of a type other than `function` are ignored, so they pass."""
    function = getattr(call, "function", None)
    parts = (getattr(call, "id", None), getattr(function, "name", None), getattr(function, "arguments", None))
    return hasattr(call, "type") and (call.type != "function" or all(isinstance(part, str) for part in parts))


def is_too_long(error: BaseException) -> bool:
    """Whether a server says that a dialogue is longer than its model takes. Servers share no code or status for this, so its
    words and codes decide; but with a status of `BUSY` they are of a rate limit, and time helps."""
    if getattr(error, "status_code", None) in BUSY:
        return False
    said = _body_of_error(error)
    return said is not None and TOO_LONG.search(f"{read_error_reason(said)} {read_error_names(said)}") is not None


def find_refused_field(error: BaseException, fields: Iterable[str]) -> str | None:
    """Which of the `SPARED` fields of a request a server does not take; None if its refusal says no such thing."""
    said = _body_of_error(error)
    if getattr(error, "status_code", None) not in (400, 422) or is_too_long(error):
        return None
    text = f"{read_error_reason(said)} {read_error_names(said)}"
    named = said.get("param") if isinstance(said, Mapping) else None
    told = [field for field in SPARED if field in fields and re.search(rf"(?<!\w){field}(?!\w)", f"{named} {text}")]
    return told[0] if told and UNSUPPORTED.search(text) else None


def is_transient_error(error: BaseException) -> bool:
    """Whether a retry may help: no connection, timeout, garbled answer, status 408, 409, 425, 429 or 5xx. Time gives no
    quota back that has been spent.
    """
    if is_too_long(error) or _is_spent(error):
        return False
    if isinstance(error, FAILED):
        return error.status_code in PASSING or error.status_code >= 500
    return isinstance(error, (APIConnectionError, APIResponseValidationError, TimeoutError, ValueError))


def is_unavailable_error(error: BaseException) -> bool:
    """Whether the error says nothing about the request, and only time helps: no connection, status 429 or 503."""
    if isinstance(error, FAILED):
        return error.status_code in BUSY and not _is_spent(error)
    return isinstance(error, APIConnectionError) and not isinstance(error, APITimeoutError)


def is_broken_answer(error: BaseException) -> bool:
    """Whether a server has answered and had broken, which may be for the request: status 5xx but 503, or no completion."""
    if isinstance(error, FAILED):
        return error.status_code >= 500 and error.status_code not in BUSY
    return isinstance(error, (APIResponseValidationError, ValueError))


def _is_spent(error: BaseException) -> bool:
    """Whether a server says, by what it calls the error, that nobody pays any more. A limit of a minute is not meant."""
    return (
        isinstance(error, FAILED)
        and error.status_code == 429
        and SPENT.search(read_error_names(_body_of_error(error))) is not None
    )


def _body_of_error(error: BaseException) -> Any:
    """What a server sent as an error; None if it sent none."""
    if isinstance(error, ErrorAnswer):
        return error.said
    return error.body or error.message if isinstance(error, APIStatusError) else None


def retry_after(error: Exception) -> float | None:
    """The seconds of the header `Retry-After`, given as seconds or as a date; None if it is missing or not readable."""
    if not isinstance(error, APIStatusError):
        return None
    said = error.response.headers.get("retry-after", "")
    try:
        seconds = float(said)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass  # it may be a date
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):  # a year beyond all dates
        return None


def describe_error(error: BaseException, key: str = "") -> str:
    """The error as text for people, with the server's reason. The `key` with which it was asked is left out."""
    reason = read_error_reason(_body_of_error(error), key)
    if isinstance(error, ErrorAnswer):
        return f"the server says: {reason}"
    return f"{error_kind(error)}: {reason}" if reason else error_kind(error)


def error_kind(error: BaseException) -> str:
    """The error as text without the server's reason, for counting."""
    if isinstance(error, FAILED):
        return f"status {error.status_code}"
    if isinstance(error, (APITimeoutError, TimeoutError)):
        return "no answer in time"
    return f"{type(error).__name__}: {read_error_reason(str(error))}"
