"""What servers answer, checked before anybody reads it, and the faults of servers in words.

Invariants: what passes `checked` has the shape that its type promises, in all choices; no text that passes holds half of a
surrogate pair, which no file could take.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from openai import APIConnectionError, APIResponseValidationError, APIStatusError, APITimeoutError
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessage

from homerl.play.messages import plain_text

Kind = TypeVar("Kind")
PASSING = (408, 409, 425, 429)
REFUSING = (400, 413, 422)  # this request; other statuses are of all requests: the key, the path, the model's name
LONGEST_REASON = 160  # characters of what a server says


def checked(answer: Any, kind: type[Kind]) -> Kind:
    """The answer, its texts plain, or `ValueError`."""
    choices, usage = getattr(answer, "choices", None), getattr(answer, "usage", None)
    if not isinstance(answer, kind) or not isinstance(choices, list) or not choices or not all(map(_whole, choices)):
        raise ValueError("the answer is no completion")
    if not _counts(usage):
        raise ValueError("the answer's usage is no count")
    for message in (choice.message for choice in choices if getattr(choice, "message", None)):
        message.content = message.content and plain_text(message.content)
        for call in message.tool_calls or ():
            if call.type == "function":
                call.function.name = plain_text(call.function.name)
                call.function.arguments = plain_text(call.function.arguments)
    return answer


def _counts(usage: Any) -> bool:
    """Whether usage can be added up; a server may leave it out, or parts of it."""
    if usage is None:
        return True
    parts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    return isinstance(usage, CompletionUsage) and all(isinstance(part, (int, type(None))) for part in parts)


def _whole(choice: Any) -> bool:
    """Whether a choice has what it is there for: a message, or text."""
    message = getattr(choice, "message", None)
    if message is None:
        return isinstance(getattr(choice, "text", None), str)
    calls = getattr(message, "tool_calls", None) or ()
    return (
        isinstance(message, ChatCompletionMessage)
        and isinstance(message.content, (str, type(None)))
        and isinstance(calls, Sequence)
        and all(map(_called, calls))
    )


def _called(call: Any) -> bool:
    """Whether a call can be read; those of another type than functions are passed over."""
    function = getattr(call, "function", None)
    parts = (getattr(call, "id", None), getattr(function, "name", None), getattr(function, "arguments", None))
    return hasattr(call, "type") and (call.type != "function" or all(isinstance(part, str) for part in parts))


def is_passing(error: BaseException) -> bool:
    """Faults worth another try: no connection, time-outs, garbled answers, 408, 409, 425, 429 and 5xx."""
    if isinstance(error, APIStatusError):
        return error.status_code in PASSING or error.status_code >= 500
    return isinstance(error, (APIConnectionError, APIResponseValidationError, TimeoutError, ValueError))


def is_away(error: BaseException) -> bool:
    """Faults that only time mends, which say nothing about the request: nobody there, or too much to do."""
    if isinstance(error, APIStatusError):
        return error.status_code in (429, 503)
    return isinstance(error, APIConnectionError) and not isinstance(error, APITimeoutError)


def retry_after(error: Exception) -> float | None:
    """Seconds that the server asks to wait, if it does, in either of the header's forms."""
    if not isinstance(error, APIStatusError):
        return None
    said = error.response.headers.get("retry-after", "")
    try:
        seconds = float(said)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass  # then it is a date
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None


def in_words(error: BaseException) -> str:
    """A fault, for people; what the server says of it where it says that it is the request's."""
    if isinstance(error, APIStatusError):
        reason = f": {str(error.message)[:LONGEST_REASON]}" if error.status_code in REFUSING else ""
        return f"status {error.status_code}{reason}"
    return {"APITimeoutError": "no answer in time", "TimeoutError": "no answer in time"}.get(
        type(error).__name__, f"{type(error).__name__}: {str(error)[:LONGEST_REASON]}"
    )
