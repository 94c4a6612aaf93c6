"""Python's parser for code that agents and authors write, without the parser's warnings, which would flood the log.

Invariants:
- The parser raises what `ast.parse` raises, and emits no warning.
- The process's warning filters change only while a text is parsed that could cause a warning. Each change of the filters
  makes Python repeat every other warning. They change for one thread at a time.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from typing import Any

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
