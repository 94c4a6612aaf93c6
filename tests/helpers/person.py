"""What a scripted server answers for a person: JSON as the LLM user asks for it, made of what the prompt says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

WISH = re.compile(r"^(\d+)\. (.+)$", re.M)


def content(**parts: Any) -> dict[str, str]:
    """An answer; nothing said and no stop unless told."""
    return {"content": json.dumps({"say": "", "about": None, "stop": False} | parts)}


def wishes(request: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The wishes that the request tells of, with their numbers."""
    return [(int(number), text) for number, text in WISH.findall(request["messages"][1]["content"])]


def obedient(request: Mapping[str, Any]) -> dict[str, str]:
    """Says the first wish as it is told, with a word more for each time that it was said."""
    number, wish = wishes(request)[0]
    return content(say=wish + " please" * request["messages"][1]["content"].count(": " + wish), about=number)
