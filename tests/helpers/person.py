"""Answers of a scripted server in the role of the user: JSON in the form of the LLM user, made from the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

WISH = re.compile(r"^(\d+)\. (.+)$", re.M)


def content(**parts: Any) -> dict[str, str]:
    """An answer. By default it says nothing and does not end the dialogue."""
    return {"content": json.dumps({"say": "", "about": None, "stop": False} | parts)}


def wishes(request: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The (number, text) pairs of the wishes in the request's prompt."""
    return [(int(number), text) for number, text in WISH.findall(request["messages"][1]["content"])]


def obedient(request: Mapping[str, Any]) -> dict[str, str]:
    """An answer that says the first wish literally, with one more "please" for each time that it was said before."""
    number, wish = wishes(request)[0]
    return content(say=wish + " please" * request["messages"][1]["content"].count(": " + wish), about=number)
