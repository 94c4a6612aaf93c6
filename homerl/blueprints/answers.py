"""Whether words answer a question: rules for typed answers (SMH-Bench TC7)."""

from __future__ import annotations

import re

from homerl.blueprints.blueprint import Answer

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def answers(expected: Answer, text: str) -> bool:
    """Whether the text gives the expected answer and no other."""
    match expected.type:
        case "number":
            found = {float(number) for number in NUMBER.findall(text)}
            return len(found) == 1 and abs(found.pop() - expected.value) <= expected.tolerance
        case _:
            lowered = text.lower()
            wanted = all(any(way.lower() in lowered for way in ways) for ways in expected.accepted)
            return bool(expected.accepted) and wanted and not any(other.lower() in lowered for other in expected.distractors)
