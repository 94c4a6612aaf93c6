"""Messages in OpenAI's form, as plain dictionaries.

Invariant: the arguments of a tool call are one JSON text, in which no character is escaped that need not be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Message = dict[str, Any]


class StoredFunction(TypedDict):
    """The function of a call: its name, and its arguments as JSON text."""

    name: str
    arguments: str


class StoredCall(TypedDict):
    """A tool call in a stored message."""

    function: StoredFunction


class StoredMessage(TypedDict):
    """A stored message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[list[StoredCall]]
    tool_call_id: NotRequired[str]


def tool_call(name: str, arguments: Mapping[str, Any], call_id: str = "") -> dict[str, Any]:
    """A tool call in OpenAI form."""
    text = json.dumps(arguments, ensure_ascii=False)
    call = {"type": "function", "function": {"name": name, "arguments": text}}
    return {"id": call_id} | call if call_id else call


def call_message(*calls: Mapping[str, Any]) -> Message:
    """An assistant message that makes tool calls and says nothing."""
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def text_message(text: str) -> Message:
    """An assistant message of words alone."""
    return {"role": "assistant", "content": text}


def to_strict_openai_form(messages: Iterable[Mapping[str, Any]], keep_ids: bool = True) -> Iterator[Message]:
    """Copies of a dialogue's messages as a strict endpoint of OpenAI's form takes them; stored ones are less strict.

    Each call has an id of its own in the dialogue, and each `tool` message names the call before it that it answers. With
    `keep_ids` an id that a call has stays, unless an earlier call has it. Arguments that are no JSON object stand in one:
    `{"malformed": TEXT}`. What answers a text that could not be read as a call has the role `user`. A message depends on
    those before it alone.
    """
    used, numbers, waiting = set[str](), (f"call_{number}" for number in count(1)), list[tuple[str, str]]()
    for message in messages:
        made: Message = copy_plain_data(dict(message))
        if made["role"] == "assistant":
            waiting, calls = [], list[dict[str, Any]]()
            for call in made.get("tool_calls") or ():
                own = call.get("id") or ""
                id = own if own and keep_ids and own not in used else next(id for id in numbers if id not in used)
                used.add(id)
                waiting.append((own, id))
                arguments = call["function"]["arguments"]
                if not is_json_object(arguments):
                    arguments = json.dumps({"malformed": arguments}, ensure_ascii=False, separators=(",", ":"))
                function = {"name": call["function"]["name"], "arguments": arguments}
                written = {"id": id, "type": "function", "function": function}
                calls.append(written | call | written)  # in this order of keys, then what else the call has
            if calls:
                made["tool_calls"] = calls
        elif made["role"] == "tool" and waiting:
            own = made.get("tool_call_id")
            answered = next((at for at, (id, _) in enumerate(waiting) if id and id == own), 0)
            made["tool_call_id"] = waiting.pop(answered)[1]
        elif made["role"] == "tool":
            made["role"] = "user"
            made.pop("tool_call_id", None)
        yield made


def is_json_object(text: str) -> bool:
    """Whether a text is a JSON object, as the arguments of a call must be."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def copy_plain_data(data: Any) -> Any:
    """A copy of plain data that shares nothing that can be changed. It is faster than `copy.deepcopy`."""
    if isinstance(data, dict):
        return {key: value if isinstance(value, str) else copy_plain_data(value) for key, value in data.items()}
    return [copy_plain_data(value) for value in data] if isinstance(data, list) else data


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate replaced."""
    return text if can_be_encoded(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def copy_plain_message(message: Any) -> Any:
    """A copy of a message that shares nothing with it, and has no lone surrogate anywhere: no file could hold one."""
    if isinstance(message, str):
        return replace_surrogates(message)
    if isinstance(message, dict):
        return {copy_plain_message(key): copy_plain_message(value) for key, value in message.items()}
    return [copy_plain_message(part) for part in message] if isinstance(message, list) else message


def can_be_encoded(text: str) -> bool:
    """Whether there is no half of a surrogate pair. A search for one by a pattern takes a hundred times as long."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
