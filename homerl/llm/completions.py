"""Checks a server's answers before other code reads them, and classifies the errors of servers.

Invariants: an answer that passes `checked` has the shape of its type in all choices; no text that passes contains half
of a surrogate pair, which no file could hold.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from openai import APIConnectionError, APIResponseValidationError, APIStatusError, APITimeoutError
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_message_function_tool_call import Function

from homerl.play.messages import plain_text

Kind = TypeVar("Kind")
PASSING = (408, 409, 425, 429)
REFUSING = (400, 413, 422)  # refuse this request; others refuse all requests: key, path, model name
TOO_LONG = re.compile(r"context.{0,3}(length|size|window)|maximum model length|prompt is too long|the model takes", re.I)
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
LONGEST_REASON = 160  # characters of a server's message


def checked(answer: Any, kind: type[Kind]) -> Kind:
    """Return the answer with its texts made plain, and its usage and calls filled up; raise `ValueError` if its shape or its
    usage is not that of `kind`.
    """
    choices, usage = getattr(answer, "choices", None), getattr(answer, "usage", None)
    for choice in choices if isinstance(choices, list) else ():
        _fill_calls(getattr(getattr(choice, "message", None), "tool_calls", None))
    if not isinstance(answer, kind) or not isinstance(choices, list) or not choices or not all(map(_whole, choices)):
        raise ValueError("the answer is no completion")
    if not _counts(usage):
        raise ValueError("the answer's usage is no count")
    if usage is not None:
        _fill(usage)
    for message in (choice.message for choice in choices if getattr(choice, "message", None)):
        message.content = message.content and plain_text(message.content)
        for call in message.tool_calls or ():
            if call.type == "function":
                call.function.name = plain_text(call.function.name)
                call.function.arguments = plain_text(call.function.arguments)
    return answer


def _counts(usage: Any) -> bool:
    """Whether the usage can be summed; a server may leave it out, or parts of it."""
    if usage is None:
        return True
    parts = (getattr(usage, name, None) for name in COUNTS)
    return isinstance(usage, CompletionUsage) and all(isinstance(part, (int, type(None))) for part in parts)


def _fill(usage: CompletionUsage) -> None:
    usage.prompt_tokens, usage.completion_tokens, total = (getattr(usage, name, None) or 0 for name in COUNTS)
    usage.total_tokens = total or usage.prompt_tokens + usage.completion_tokens


def _fill_calls(calls: Any) -> None:
    """Number calls without an id, name their type, and write arguments as JSON where a server gave an object or nothing."""
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        function = getattr(call, "function", None)
        if not isinstance(function, Function):
            continue
        given = getattr(function, "arguments", None)
        if given is None or isinstance(given, dict):
            function.arguments = json.dumps(given or {})
        call.type = getattr(call, "type", None) or "function"
        call.id = getattr(call, "id", None) or f"call_{number}"


def _whole(choice: Any) -> bool:
    """Whether a choice has a message that can be read, or text."""
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
    """Whether a tool call can be read; calls of a type other than `function` are ignored, so they pass."""
    function = getattr(call, "function", None)
    parts = (getattr(call, "id", None), getattr(function, "name", None), getattr(function, "arguments", None))
    return hasattr(call, "type") and (call.type != "function" or all(isinstance(part, str) for part in parts))


def is_too_long(error: BaseException) -> bool:
    """Whether a server says that a dialogue is longer than its model takes. Servers share no code or status for this, so its
    words decide."""
    return isinstance(error, APIStatusError) and TOO_LONG.search(f"{error.message} {error.body}") is not None


def is_passing(error: BaseException) -> bool:
    """Whether a retry may help: no connection, timeout, garbled answer, status 408, 409, 425, 429 or 5xx."""
    if is_too_long(error):
        return False
    if isinstance(error, APIStatusError):
        return error.status_code in PASSING or error.status_code >= 500
    return isinstance(error, (APIConnectionError, APIResponseValidationError, TimeoutError, ValueError))


def is_away(error: BaseException) -> bool:
    """Whether the error says nothing about the request, and only time helps: no connection, status 429 or 503."""
    if isinstance(error, APIStatusError):
        return error.status_code in (429, 503)
    return isinstance(error, APIConnectionError) and not isinstance(error, APITimeoutError)


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


def in_words(error: BaseException) -> str:
    """The error as text for people. If the server refused this request, the text holds the server's reason."""
    if isinstance(error, APIStatusError):
        reason = f": {str(error.message)[:LONGEST_REASON]}" if error.status_code in REFUSING else ""
        return f"status {error.status_code}{reason}"
    return {"APITimeoutError": "no answer in time", "TimeoutError": "no answer in time"}.get(
        type(error).__name__, f"{type(error).__name__}: {str(error)[:LONGEST_REASON]}"
    )
