"""The code of a lock or an alarm, which a person says to consent.

Invariants:
- A code goes to the real home alone. The sentence that gives it is in no log, and the model never reads it, neither then nor
  as a part of the dialogue later.
- What consists of a code is one if it answers the last question of the dialogue and this was ours for a code, so also where
  it comes too late, or again after it was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from homerl.envs.assistant.serving.consent import ASKED, is_code_frame
from homerl.envs.assistant.serving.hiding import HIDDEN
from homerl.envs.assistant.serving.live import CODE, TwinCall
from homerl.envs.assistant.serving.words import is_code_question
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.home import Home

SAID = re.compile(r"(\D*)(\d[\d\s-]{1,18}\d)(\D*)")


def parse_spoken_code(said: str, language: str = "en") -> str | None:
    """The code of which an answer consists, alone or beside a yes: `1234`, "yes, 12 34", "the code is 1234, please"."""
    found = SAID.fullmatch(said.strip())
    if found is None or not all(is_code_frame(found[at], language) for at in (1, 3)):
        return None
    return re.sub(r"[\s-]", "", found[2])


def find_spoken_codes(dialogue: Iterable[Message], language: str) -> list[str | None]:
    """The code that each message of a dialogue gives, or None."""
    codes, wanted = list[str | None](), False
    for message in dialogue:
        text, asks = message["content"], message["role"] == "assistant"
        if asks and (is_code_question(text) or text.endswith(ASKED)):
            wanted = is_code_question(text)
        codes.append(parse_spoken_code(text, language) if wanted and not asks else None)
    return codes


def hide_spoken_codes(dialogue: Sequence[Message], codes: Sequence[str | None]) -> list[Message]:
    """A dialogue with `***` in place of each message that gives a code."""
    return [message | {"content": HIDDEN} if code else message for message, code in zip(dialogue, codes)]


def fill_in_code(home: Home, made: Iterable[TwinCall], code: str) -> list[TwinCall]:
    """Calls with the code in those that want one."""
    return [replace(one, arguments={**one.arguments, CODE: code}) if one.needs_code(home) else one for one in made]
