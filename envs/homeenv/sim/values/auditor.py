"""The auditor, a firewall between agents and homes: its refusals. Python's parser for code that agents and authors write.

The parser emits no warnings, which would flood the log.

Invariants:
- A refused call has changed nothing by the time `Refused` is raised.
- Every rule that a refusal names is a key of `RULES`.
- `parse_python` raises what `ast.parse` raises. The process's warning filters change only while a text is parsed that could
  cause a warning, and for one thread at a time: each change makes Python repeat every other warning.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

ODD = re.compile(
    r"""\\(?:[^\n\r\\'"abfnrtvx0-7]|[4-7][0-7]{2})"""  # an invalid escape sequence
    r"""|\b[0-9][0-9a-zA-Z_.]*(?:and|else|for|if|in|is|not|or)"""  # a number that runs into what begins like a keyword
)
_FILTERS = threading.Lock()


def parse_python(text: str, mode: str = "exec") -> Any:
    """The syntax tree of a text, as `ast.parse` gives it in that mode. Raises what `ast.parse` raises."""
    if not ODD.search(text):
        return ast.parse(text, mode=mode)
    with _FILTERS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="<unknown>")  # the parser's file name for text
        return ast.parse(text, mode=mode)


RULES: dict[str, str] = {
    "unknown_tool": "the tool is not in the agent's toolset",
    "unknown_device": "no device has this id",
    "unknown_room": "no room has this name",
    "unknown_attribute": "the device has no such attribute",
    "unknown_service": "the device has no such service",
    "unknown_automation": "no automation has this id",
    "missing_argument": "a required argument is missing",
    "unknown_argument": "the tool or service takes no such argument",
    "wrong_type": "a value has another type than the specification says",
    "out_of_range": "a value is outside its range or options",
    "precondition": "the device refuses this in its present state",
    "unavailable": "the device cannot be reached",
    "read_only": "attributes change through services alone",
    "restricted_code": "the code uses a construct that agents may not use",
    "syntax": "the code or the call cannot be parsed",
    "time_limit": "the code ran longer than it may",
    "memory_limit": "the code used more memory than it may",
    "call_limit": "the code, or the agent, made more calls than it may",
    "output_limit": "the code printed more than it may",
    "code_limit": "the code is longer than it may be",
    "size_limit": "the call is longer, or nested more deeply, than it may be",
}


class Refused(Exception):
    """The refusal of a call. `rule` is a key of `rules` (any other is a `KeyError`); `message` is for the agent.

    A simulator with more rules has a subclass with `rules` of its own.
    """

    rules: ClassVar[Mapping[str, str]] = RULES

    def __init__(self, rule: str, message: str) -> None:
        if rule not in self.rules:
            raise KeyError(f"{rule} is not a rule of the auditor")
        self.rule, self.message = rule, message
        super().__init__(f"{rule}: {message}")

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        return type(self), (self.rule, self.message)  # for pickling between processes
