"""The code of a lock or an alarm, which a person says to consent.

Invariant: a code goes to the real home alone. The sentence that gives it is in no log, and the model never reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from envs.homeenv.home import Home
from homerl.worlds.homeenv.live import CODE, Made
from homerl.worlds.homeenv.serving.consent import assents

SAID = re.compile(r"(.*?)\W*\b(?:(?:the |my )?(?:code|pin)(?: is| ist| est)?\W+)?(\d[\d\s-]{1,18}\d)\W*", re.I | re.S)


def code_said(said: str, language: str = "en") -> str | None:
    """The code of which an answer consists, alone or after a yes: `1234`, "yes, 12 34", "the code is 1234"."""
    found = SAID.fullmatch(said.strip())
    if found is None or (found[1] and not assents(found[1], language)):
        return None
    return re.sub(r"[\s-]", "", found[2])


def with_code(home: Home, made: Iterable[Made], code: str) -> list[Made]:
    """Calls with the code in those that want one."""
    return [replace(one, arguments={**one.arguments, CODE: code}) if one.wants_code(home) else one for one in made]
