"""The forms in which dialogues for SFT come, and how each is read as messages, tools and what is not learnt.

Forms: homerl's own rows (they have `steps`), OpenAI's, Hermes's, ShareGPT's, xLAM's and Toucan's. docs/sft_data.md lists
their keys.

Invariants:
- Nothing of a dialogue vanishes: a role, a key of a message or a call that no form has is refused by its message and key.
- The arguments of each call are the text of a JSON object; arguments that are empty are `{}`.
- A dialogue with tools begins with a system message, since chat templates write tools there.
- homerl's own rows stay as they are.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NoReturn

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message
from homerl.play.trajectory import find_unlearnt_messages, locate_row_errors

REMEDY = "correct the row, or leave it out; docs/sft_data.md says which forms are read"
ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant",
    "function_call": "call", "tool_call": "call", "tool": "tool", "function": "tool", "observation": "tool",
    "tool_response": "tool",
}  # fmt: skip
READ_KEYS = {"role", "from", "content", "value", "tool_calls", "function_call", "tool_call_id", "name", "weight"}
CALL_KEYS = {"id", "type", "function", "name", "arguments", "index"}
TURN_KEYS = ("messages", "conversations")
TOOL_KEYS = ("tools", "functions", "available_tools")
CALL, RESULT = re.compile(r"<tool_call>(.*?)</tool_call>", re.S), re.compile(r"<tool_response>(.*?)</tool_response>", re.S)
# the system message of Toucan
DECLARED = re.compile(r"<\|im_system\|>tool_declare<\|im_middle\|>(.*?)(?:<\|im_end\|>)?\s*", re.S)
# the words of xLAM for types
TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


class UnreadablePart(ValueError):
    """A part of a row that no form has. `key` names it."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key, self.what = key, what


def read_dialogue_row(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row with `messages`, `tools` (JSON text) and `unlearnt`, from a row of any form.

    Raises `InputError`, with the place, the message and the key, for a row that cannot be read as it was meant.
    """
    if row.get("steps"):
        return _read_own_row(row, where)
    try:
        return _DialogueReader(row).read()
    except UnreadablePart as error:
        raise InputError(f"{error.key}: {error.what}", where, REMEDY) from None


def _read_own_row(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    with locate_row_errors(where):
        listed = json.loads(row["tools"])
        if not isinstance(listed, list) or not all(isinstance(tool, dict) for tool in listed):
            raise TypeError("its tools are no list of schemas")
        weights = [message.get("weight") for message in row["messages"] if message["role"] == "assistant"]
        weighed = {number for number, weight in enumerate(weights) if weight == 0}
        told = [{**_uniform_message(), **_only_stored(message)} for message in row["messages"]]
        unlearnt = sorted({*find_unlearnt_messages(row), *weighed})
        return {"messages": told, "tools": row["tools"], "unlearnt": unlearnt}


def _uniform_message() -> Message:
    return {"role": "", "content": "", "tool_calls": [], "tool_call_id": ""}


def _only_stored(message: Mapping[str, Any]) -> Message:
    return {key: value for key, value in message.items() if key in _uniform_message() and value is not None}


class _DialogueReader:
    """Reads one row; it knows the calls so far, so that results find theirs."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row, self.messages, self.tools = row, list[Message](), list[dict[str, Any]]()
        self.unlearnt = list[int]()  # the numbers of the assistant's messages that are not learnt
        self.ids, self.waiting = count(1), list[dict[str, Any]]()  # calls whose results have not come
        self.said = 0  # messages of the assistant
        self.joins = False  # whether the next turn that only calls belongs to the message before it

    def read(self) -> dict[str, Any]:
        """The dialogue as a row of training data. Raises `UnreadablePart`."""
        key, turns = self._find_turns()
        self.tools = read_tools(self.row)
        if isinstance(system := self.row.get("system"), str) and system.strip():
            self.messages.append({**_uniform_message(), "role": "system", "content": system})
        for number, turn in enumerate(turns, 1):
            if not isinstance(turn, Mapping):
                raise UnreadablePart(f"{key}, message {number}", "it is no object")
            try:
                self._read_turn(turn)
            except UnreadablePart as error:
                raise UnreadablePart(f"{key}, message {number}, `{error.key}`", error.what) from None
        self._settle_system()
        return {"messages": self.messages, "tools": json.dumps(self.tools, ensure_ascii=False), "unlearnt": self.unlearnt}

    def _find_turns(self) -> tuple[str, list[Any]]:
        if all(self.row.get(key) for key in TURN_KEYS):
            raise UnreadablePart("`conversations`", "the row has `messages` too")
        for key in TURN_KEYS:
            if (turns := self.row.get(key)) is not None:
                turns = _parse_if_text(key, turns)
                if not isinstance(turns, list) or not turns:
                    raise UnreadablePart(f"`{key}`", "it is no list of messages")
                return f"`{key}`", turns
        if "query" in self.row and "answers" in self.row:
            calls = _parse_if_text("answers", self.row["answers"])
            return "`query` and `answers`", [
                {"role": "user", "content": self.row["query"]}, {"role": "assistant", "tool_calls": calls}
            ]  # fmt: skip
        found = ", ".join(f"`{key}`" for key in self.row) or "no key"
        raise UnreadablePart(
            "the row", f"it has no column `messages`, nor `conversations`, nor `query` and `answers` ({found})"
        )

    def _read_turn(self, turn: Mapping[str, Any]) -> None:
        for key, value in turn.items():
            if key not in READ_KEYS and value not in (None, "", [], {}):
                raise UnreadablePart(key, "no form has this key, so what it means is not known")
        role_key = "role" if turn.get("role") is not None else "from"
        role = ROLES.get(str(turn.get(role_key)))
        if role is None:
            raise UnreadablePart(role_key, f"the role {turn.get(role_key)!r} is not known (known: {', '.join(ROLES)})")
        content_key = "content" if "content" in turn else "value"
        content = _read_content(content_key, turn.get(content_key), role)
        weight = turn.get("weight")
        if weight is not None and (role not in ("assistant", "call") or weight not in (0, 1)):
            raise UnreadablePart("weight", f"it is {weight!r} of {role}; read are 0 and 1 of the assistant")
        if role not in ("assistant", "call") and (turn.get("tool_calls") or turn.get("function_call")):
            raise UnreadablePart(
                "tool_calls" if turn.get("tool_calls") else "function_call", "only the assistant calls tools"
            )
        readers: dict[str, Callable[[], None]] = {
            "call": lambda: self._add_calls_of_turn(content_key, content, weight),
            "assistant": lambda: self._add_assistant(turn, content_key, content, weight),
            "tool": lambda: self._add_results(turn, content),
        }
        readers.get(role, lambda: self._add_words(role, turn, content_key, content))()

    def _add_words(self, role: str, turn: Mapping[str, Any], key: str, content: str) -> None:
        if turn.get("name"):
            raise UnreadablePart("name", f"the name of a {role} is not read")
        if role == "system" and self.messages:
            raise UnreadablePart("role", "a system message stands after another message")
        if role == "user" and not content:
            raise UnreadablePart(key, "the user says nothing")
        self.joins = False
        self.messages.append({**_uniform_message(), "role": role, "content": content})

    def _add_assistant(self, turn: Mapping[str, Any], key: str, content: str, weight: Any) -> None:
        if turn.get("name"):
            raise UnreadablePart("name", "the name of an assistant is not read")
        words, calls = _split_calls(key, content)
        listed = turn.get("tool_calls")
        if listed is not None and not isinstance(listed, list):
            raise UnreadablePart("tool_calls", "it is no list of calls")
        calls += [self._read_call("tool_calls", call) for call in listed or ()]
        if turn.get("function_call"):
            calls.append(self._read_call("function_call", turn["function_call"]))
        self._append_said(words, calls, weight, key)
        self.joins = not calls

    def _add_calls_of_turn(self, key: str, content: str, weight: Any) -> None:
        words, calls = _split_calls(key, content)
        if not calls:
            parsed = parse_object(key, content, list)
            calls, words = [self._read_call(key, call) for call in (parsed if isinstance(parsed, list) else [parsed])], ""
        if words or not calls:
            raise UnreadablePart(key, "a turn of calls has other words, or no call")
        before = self.messages[-1] if self.joins else None
        if before is None or (weight == 0) != (self.said - 1 in self.unlearnt):
            self._append_said("", calls, weight, key)
        else:
            self.waiting = [*self.waiting, *self._numbered(calls)]
            before["tool_calls"] += calls
        self.joins = True

    def _append_said(self, words: str, calls: list[dict[str, Any]], weight: Any, key: str) -> None:
        if not words and not calls and weight != 0:
            raise UnreadablePart(key, "the assistant neither says nor calls anything, so silence would be learnt")
        if weight == 0:
            self.unlearnt.append(self.said)
        self.said += 1
        self.waiting = self._numbered(calls)
        self.messages.append({**_uniform_message(), "role": "assistant", "content": words, "tool_calls": calls})

    def _numbered(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for call in calls:
            call["id"] = call.get("id") or f"call_{next(self.ids)}"
        return [*calls]

    def _read_call(self, key: str, call: Any) -> dict[str, Any]:
        if isinstance(call, str):
            call = parse_object(key, call)
        if not isinstance(call, Mapping):
            raise UnreadablePart(key, "a call is no object")
        if call.get("type") not in (None, "function"):
            raise UnreadablePart(key, f"a call has the type {call['type']!r}, where only functions are read")
        inner = call.get("function")
        function = inner if isinstance(inner, Mapping) else call
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise UnreadablePart(key, "a call has no `name`")
        arguments = read_arguments(key, function)
        require_call_keys(key, call)
        require_call_keys(key, function)
        return {"id": str(call.get("id") or ""), "type": "function", "function": {"name": name, "arguments": arguments}}

    def _add_results(self, turn: Mapping[str, Any], content: str) -> None:
        found = RESULT.findall(content)
        results = [part.strip() for part in found] if found and not RESULT.sub("", content).strip() else [content]
        for result in results:
            call = self._find_call(turn)
            self.waiting.remove(call)
            message = {**_uniform_message(), "role": "tool", "content": result, "tool_call_id": call["id"]}
            self.messages.append(message)
        self.joins = False

    def _find_call(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """The call that a result answers: by its id, else by its name, else the first that has no result."""
        asked, name = turn.get("tool_call_id"), turn.get("name")
        named = [call for call in self.waiting if asked in (None, "", call["id"])]
        if not named:
            key, what = ("tool_call_id", f"no open call has the id {asked!r}") if asked else ("role", "no call waits for it")
            raise UnreadablePart(key, f"a result of a tool answers nothing: {what}")
        fitting = [call for call in named if name in (None, "", call["function"]["name"])]
        if not fitting:
            raise UnreadablePart("name", f"no open call is of {name!r}")
        return fitting[0]

    def _settle_system(self) -> None:
        """Bring the tools to one place: into `tools`, or where the system message itself writes them."""
        first = self.messages[0] if self.messages[0]["role"] == "system" else None
        if first and (declared := DECLARED.fullmatch(first["content"])):  # the tools alone, in marks of one model
            listed = _parse_if_text("system", declared[1])
            self.tools = self.tools or read_tools({"tools": listed})
            first["content"] = ""
        elif first and "<tools>" in first["content"]:
            self.tools = []  # the template would write them a second time
        elif self.tools and not first:
            self.messages.insert(0, {**_uniform_message(), "role": "system"})


def _read_content(key: str, content: Any, role: str) -> str:
    """The words of a message. Parts of text become one; what is no text is refused."""
    if isinstance(content, str):
        return content
    if content is None and role in ("assistant", "call"):
        return ""
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text") or "") for part in content)
    if role in ("tool", "call") and isinstance(content, (dict, list)):
        return json.dumps(content, ensure_ascii=False)
    what = "it is missing" if content is None else "it is no text (pictures and sound are not learnt)"
    raise UnreadablePart(key, what)


def _split_calls(key: str, content: str) -> tuple[str, list[dict[str, Any]]]:
    """The words of a message that come before its calls, and the calls that stand in it as text (Hermes's form)."""
    if "<tool_call>" not in content and "</tool_call>" not in content:
        return content, []
    words, _, rest = content.partition("<tool_call>")
    texts = CALL.findall(f"<tool_call>{rest}")
    if "</tool_call>" in words or not texts or CALL.sub("", f"<tool_call>{rest}").strip():
        raise UnreadablePart(key, "a `<tool_call>` has no end or no beginning, or words stand after it")
    calls = []
    for text in texts:
        call = parse_object(key, text)
        if not isinstance(call.get("name"), str):
            raise UnreadablePart(key, "a call has no `name`")
        function = {"name": call["name"], "arguments": read_arguments(key, call)}
        require_call_keys(key, call)
        calls.append({"id": "", "type": "function", "function": function})
    return words.rstrip(), calls


def require_call_keys(key: str, call: Mapping[str, Any]) -> None:
    """Raise `UnreadablePart` if a call has something that no form has, such as a thought."""
    for name, value in call.items():
        if name not in CALL_KEYS and value not in (None, "", [], {}):
            raise UnreadablePart(key, f"a call has `{name}`, and no form has this key, so what it means is not known")


def read_arguments(key: str, function: Mapping[str, Any]) -> str:
    """The arguments of a call as the text of a JSON object; `{}` for none."""
    given = function.get("arguments")
    if given is None and (other := sorted(set(function) & {"parameters", "args", "input"})):
        raise UnreadablePart(key, f"a call has `{other[0]}`, where `arguments` are read")
    if isinstance(given, Mapping):
        return json.dumps(given, ensure_ascii=False)
    if given is None or (isinstance(given, str) and not given.strip()):
        return "{}"
    if not isinstance(given, str):
        raise UnreadablePart(key, f"the arguments of {function.get('name')} are no object")
    try:
        parsed = json.loads(given, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        what = f"the arguments of {function.get('name')} are no JSON, perhaps cut off: {given[-60:]}"
        raise UnreadablePart(key, what) from None
    if not isinstance(parsed, dict):
        raise UnreadablePart(key, f"the arguments of {function.get('name')} are no object: {given[:60]}")
    return given


def parse_object(key: str, text: str, *others: type) -> Any:
    """The object of a text: JSON, or a literal of Python's, as some data sets write calls."""
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise UnreadablePart(key, f"a call is no JSON, perhaps cut off: {text.strip()[-60:]}") from None
    if not isinstance(found, (dict, *others)):
        raise UnreadablePart(key, f"a call is no object: {text.strip()[:60]}")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _parse_if_text(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise UnreadablePart(f"`{key}`", f"it is no JSON, perhaps cut off: {value[-60:]}") from None


def read_tools(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools of a row as OpenAI's schemas, whichever key names them; none if the row has none."""
    given = [key for key in TOOL_KEYS if row.get(key)]
    if len(given) > 1:
        raise UnreadablePart(f"`{given[1]}`", f"the row has `{given[0]}` too")
    if not given:
        return []
    listed = _parse_if_text(given[0], row[given[0]])
    if not isinstance(listed, list):
        raise UnreadablePart(f"`{given[0]}`", "it is no list of tools")
    return [*_read_tool_schemas(given[0], listed)]


def _read_tool_schemas(key: str, listed: list[Any]) -> Iterator[dict[str, Any]]:
    for number, tool in enumerate(listed, 1):
        place = f"`{key}`, tool {number}"
        tool = _parse_if_text(key, tool)
        if not isinstance(tool, Mapping) or tool.get("type") not in (None, "function"):
            raise UnreadablePart(place, "it is no tool of the type `function`")
        inner = tool.get("function")
        function = inner if isinstance(inner, Mapping) else tool
        if not isinstance(function.get("name"), str):
            raise UnreadablePart(place, "it has no `name`")
        told = {part: value for part, value in function.items() if part != "type" and value is not None}
        yield {"type": "function", "function": told | {"parameters": _read_parameters(place, function.get("parameters"))}}


def _read_parameters(place: str, given: Any) -> dict[str, Any]:
    """The JSON Schema of a tool's parameters. xLAM lists the parameters by name, with types of Python's."""
    if not given:
        return {"type": "object", "properties": {}}
    if not isinstance(given, Mapping):
        raise UnreadablePart(place, "its `parameters` are no object")
    if isinstance(given.get("properties"), Mapping) or not all(isinstance(one, Mapping) for one in given.values()):
        if given.get("type", "object") != "object":
            raise UnreadablePart(place, f"its `parameters` are of the type {given['type']!r}, not an object")
        return {"type": "object", **given, "properties": dict(given.get("properties") or {})}
    properties, required = dict[str, Any](), list[str]()
    for name, one in given.items():
        kind, _, optional = str(one.get("type", "")).partition(",")
        plain = kind.strip().partition("[")[0]
        typed = TYPES.get(plain.lower(), plain if plain in TYPES.values() else "")
        said = one.get("description") or ""
        if "[" in kind or not typed:  # JSON Schema has no such type in one word
            said = f"{said} ({kind.strip()})".strip() if kind.strip() else said
        properties[name] = {**({"type": typed} if typed else {}), **{k: v for k, v in one.items() if k != "type"}}
        if said:
            properties[name]["description"] = said
        if "optional" not in optional and "default" not in one:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}
