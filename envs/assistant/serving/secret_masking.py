"""What an agent gave that nobody is to read: codes, and what it writes into a password field.

Invariants:
- The value of an argument that is named like a code, and every argument of a call on a password field, is a secret. So is
  the state of a password field. A text entity that does not say its mode counts as one.
- A secret of `LEAST` signs or more is nowhere in a masked text, in none of the ways in which programs write it. A shorter
  one is masked only where it is quoted or follows its name: elsewhere `1` is a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from homerl.envs.assistant.privacy import CODES, is_password
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value
from homerl.play.situation import Reply

HIDDEN = "***"
NOTHING = ("", "null", "None", "[]", "()", "{}")
LEAST = 4  # signs of a secret that is masked wherever it stands
NAMED = "|".join(sorted(CODES))
CODE = re.compile(  # where nothing can be parsed: after its name in JSON, in Python, or in a tag
    rf"""\b(?:{NAMED})\b["'\\]*\s*(?:[:=]+|>|</arg_key>\s*<arg_value>)\s*(?:<escape>|<\|"\|>)?[\["'\\]*([^"'\\,{{}})\]<]+)"""
)
CUT = re.compile(r" ?\.\.\.")  # what ends a text that a message does not quote in full


def find_password_fields(home: Home) -> frozenset[str]:
    """The devices of a home whose state nobody is to read."""
    return frozenset(one.did for one in home.plan.devices if is_password(one.did, home.state_of(one.did)))


def visible_arguments(made: TwinCall, fields: frozenset[str]) -> dict[str, Any]:
    """The arguments of a call as they may be told."""
    return dict.fromkeys(made.arguments, HIDDEN) if made.did in fields else mask_codes(dict(made.arguments))


def mask_codes(value: Any) -> Any:
    """JSON data with `***` in place of the values that are named like codes."""
    if isinstance(value, Mapping):
        return {key: HIDDEN if key in CODES else mask_codes(part) for key, part in value.items()}
    return [mask_codes(part) for part in value] if isinstance(value, list) else value


def secrets_in_reply(reply: Reply, fields: frozenset[str]) -> set[str]:
    """The secrets in the calls of an agent's message. Of its words only those count that stand for a call."""
    content = str(reply.message.get("content") or "")
    calls = [call["function"]["arguments"] for call in reply.message.get("tool_calls") or ()]
    return secrets_in_data([*calls, content] if reply.malformed or _parse_container(content) else calls, fields)


def secrets_in_calls(made: Iterable[TwinCall], fields: frozenset[str]) -> set[str]:
    """The secrets that calls give."""
    return secrets_in_data([{"did": one.did, "arguments": dict(one.arguments)} for one in made], fields)


def secrets_in_data(data: Any, fields: frozenset[str]) -> set[str]:
    """The secrets in JSON data. Texts in it are read too: as JSON, or by `CODE` if they are none."""
    return {text for text in map(str.strip, _find_secrets(data, fields)) if text not in NOTHING}


def _find_secrets(data: Any, fields: frozenset[str]) -> Iterator[str]:
    waiting = [(data, False)]  # no recursion: an agent may nest as deep as it likes
    while waiting:
        value, secret = waiting.pop()
        if isinstance(value, Mapping):
            on_field = isinstance(value.get("did"), str) and value["did"] in fields
            hidden = CODES | {"arguments"} if on_field else CODES
            waiting += [(part, secret or key in hidden) for key, part in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(part, secret) for part in value]
        elif isinstance(value, str):
            inner = _parse_container(value)
            waiting += [(inner, secret)] if inner else []
            yield from () if inner else CODE.findall(value)
        if secret and not isinstance(value, bool):
            yield value if isinstance(value, str) else quote_value(value)


def _parse_container(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that a text of JSON holds."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, (dict, list)) else None


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text with `***` in place of secrets."""
    for form in sorted({form for secret in secrets for form in _written_forms(secret)}, key=len, reverse=True):
        if len(form) >= LEAST:
            text = _mask_everywhere(text, form)
        else:
            quoted = re.escape(form)
            text = re.sub(rf"""(?<=["'`]){quoted}(?=\\?["'`])""", HIDDEN, text)
            text = re.sub(rf"\b((?:{NAMED}|value)\b(?: is)?\W{{0,3}}){quoted}(?!\w)", rf"\1{HIDDEN}", text)
    return text


def _written_forms(secret: str) -> set[str]:
    """The ways in which programs write a text: as it is, in JSON, as Python quotes it, and JSON within JSON."""
    inside = json.dumps(secret)[1:-1]
    return {secret, inside, json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1], json.dumps(inside)[1:-1]}


def _mask_everywhere(text: str, form: str) -> str:
    text = text.replace(form, HIDDEN)
    for cut in reversed([*CUT.finditer(text)]):
        most = min(len(form) - 1, cut.start())
        if size := next((size for size in range(most, LEAST - 1, -1) if text.endswith(form[:size], 0, cut.start())), 0):
            text = f"{text[: cut.start() - size]}{HIDDEN}{text[cut.start() :]}"
    return text
