"""Python's own parser for what agents and authors write, without what it finds odd in it: that would flood the log.

Invariants: raises what `ast.parse` raises, and says nothing else; the process's warning filters are touched only while a
text is parsed that could be found odd (touching them makes every other warning be said once more).
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

ODD = re.compile(
    r"""\\(?:[^\n\r\\'"abfnrtvx0-7]|[4-7][0-7]{2})"""  # an escape that is none
    r"""|\b[0-9][0-9a-zA-Z_.]*(?:and|else|for|if|in|is|not|or)\b"""  # a number that runs into a keyword
)


def parse(text: str, mode: str = "exec") -> Any:
    """The syntax tree of a text: what `ast.parse` gives in that mode."""
    if not ODD.search(text):
        return ast.parse(text, mode=mode)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="<unknown>")  # the name that the parser gives to what is no file
        return ast.parse(text, mode=mode)
