"""What a toolset is: its tools, the instruction to the agent, and a writer of messages for scripted agents.

A tool is an OpenAI function schema, and the function that a call of it runs on a home. A toolset is one file of `toolsets/`
that defines a `TOOLSET`. The file also holds the instruction, by language. A language that was added after the toolset gives
its instruction under `toolsets:` in the `prompts.yaml` of the language's folder.

Invariants:
- A tool validates its arguments against its own schema before it acts. Queries change nothing.
- An observation holds only what the call returned.
- A writer is a pure function of the home, the words and labels that it was made with, and the calls that it has to write.
  It returns messages in OpenAI's format as plain dictionaries, and changes nothing.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, Protocol

from jsonschema import Draft202012Validator

from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import clip_text

# The auditor's rule for each keyword of a JSON Schema that arguments violate. Any other keyword means `wrong_type`.
RULE_OF = {
    "required": "missing_argument",
    "additionalProperties": "unknown_argument",
    "enum": "out_of_range",
    "minimum": "out_of_range",
}


@dataclass(frozen=True)
class Limits:
    """The limits of one snippet.

    `seconds` of execution, `memory` in bytes, `calls` to the host, `output` in printed characters, and `code` in characters.
    All snippets of one message may take `message` seconds, and none comes after one that has used its own up.
    """

    seconds: float = 1.0
    message: float = 3.0
    memory: int = 64 << 20
    calls: int = 300
    output: int = 4000
    code: int = 20_000


@dataclass(frozen=True)
class RunResult:
    """The result of a tool call: its text, and the refusal or the error (as text) that stopped it, if any.

    The text of a snippet is what it printed. `worded` says that the text tells of the refusal already. `seconds` are those
    of the clock that code took.
    """

    output: str
    refusal: Refused | None = None
    error: str | None = None
    worded: bool = False
    seconds: float = field(default=0.0, compare=False, repr=False)  # no part of what the code did


@dataclass(frozen=True)
class ToolHints:
    """How a tool behaves, in the terms of MCP. What says nothing may change and destroy things, as there."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = False


READS = ToolHints(read_only=True, destructive=False, idempotent=True)


@dataclass(frozen=True)
class Tool:
    """A tool: the parts of its schema, and `act(home, arguments, limits)`, which runs it. Clients of MCP read the `hints`.

    `parameters` maps each name to a JSON schema, or to a description, which stands for a string parameter.
    """

    name: str
    description: str
    parameters: Mapping[str, str | Mapping[str, Any]]
    required: tuple[str, ...]
    act: Callable[[Home, Mapping[str, Any], Limits], RunResult]
    hints: ToolHints = ToolHints()

    def function_schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters_schema()}
        return {"type": "function", "function": told}

    def parameters_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        properties = {name: parameter_schema(given) for name, given in self.parameters.items()}
        return {"type": "object", "properties": properties, "required": list(self.required)}

    @cached_property  # to make a validator takes longer than most calls
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.parameters_schema() | {"additionalProperties": False})

    def run(self, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        """Validate the arguments and act on `home`. A refusal is returned in the result, not raised."""
        try:
            self._refuse_invalid(arguments)
            return self.act(home, arguments, limits)
        except Refused as refusal:
            return RunResult("", refusal)

    def _refuse_invalid(self, arguments: Mapping[str, Any]) -> None:
        try:
            wrong = next(self._validator.iter_errors(arguments), None)
        except (ValueError, RecursionError):  # a number too large or data nested too deeply to be quoted in the message
            raise Refused("wrong_type", f"{self.name}: an argument is too large") from None
        if wrong:
            place = "".join(f" '{part}'" for part in wrong.absolute_path)
            raise Refused(RULE_OF.get(wrong.validator, "wrong_type"), f"{self.name}{place}: {clip_text(wrong.message)}")


def parameter_schema(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a parameter. A text is the description of a string parameter."""
    return {"type": "string", "description": given} if isinstance(given, str) else dict(given)


def to_json_line(value: Any) -> str:
    """A value as agents see it: one line of JSON."""
    return json.dumps(value, ensure_ascii=False)


# How scripted agents write

Reads = Sequence[tuple[str, str]]  # (did, attribute path) pairs that an agent wants to read
NOW = ("", "clock")  # such a pair, for the time


class Call(Protocol):
    """A service call that an agent wants to make."""

    @property
    def did(self) -> str:
        """The device's id."""

    @property
    def service(self) -> str:
        """The service's path within the device."""

    @property
    def args(self) -> Sequence[Any]:
        """The arguments by position."""

    @property
    def code(self) -> str:
        """The call as Python: `device("1001").light.set_brightness(80)`."""


class WantedAutomation(Protocol):
    """An automation that an agent wants to make, in the terms of `create_automation`."""

    @property
    def conditions(self) -> Sequence[str]:
        """Conditions that must all hold, and at most one `time_cron` line."""

    @property
    def delay_seconds(self) -> int | None:
        """If given, the automation acts once, this many seconds from now."""

    @property
    def hold_seconds(self) -> int:
        """For how many seconds the conditions must have held."""

    @property
    def actions(self) -> Sequence[Call]:
        """The service calls to make, in order."""


class ToolsetWriter(ABC):
    """Writes the actions of an agent as assistant messages of one toolset.

    `reads` says whether the toolset has tools that read the home. An agent without such tools acts at once. `done` is the
    reply that says that the request is done. `label` names a device as the prompt lists it.
    """

    reads = False

    def __init__(self, home: Home, done: str = "Done.", label: Callable[[Device], str] = lambda device: device.did) -> None:
        self.home, self.done, self.label = home, done, label

    @abstractmethod
    def write_calls(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """A message that makes service calls, in order.

        `reply` is used only by toolsets in which one message holds both the calls and the words to the user.
        """

    def write_calls_on_all(self, calls: Sequence[Call], placed: bool, reply: str | None = None) -> Message:
        """A message that makes calls on devices of a kind, such as all lights; if `placed`, of rooms that are named."""
        return self.write_calls(calls, reply)

    def write_misnamed_call(self, call: Call, rng: random.Random) -> Message:
        """A message that makes a call on a device by a name that nothing has."""
        taken, names = self.home.plan.devices_by_did, (f"{call.did}_{number}" for number in count(rng.randint(2, 9)))
        return rename_in_tool_calls(self.write_calls([call]), call.did, next(name for name in names if name not in taken))

    @abstractmethod
    def write_garbled_call(self, call: Call) -> Message:
        """A message with a malformed service call that cannot be parsed, as a model may write it."""

    @abstractmethod
    def was_made_in(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """A predicate that says whether the messages of a turn make a given service call."""

    def look(self, did: str) -> Message:
        """A message that queries the state of one device. Raises `ValueError` if the toolset has no tool for that."""
        raise ValueError("the toolset has nothing to read with")

    def read(self, slots: Reads) -> Message:
        """A message that queries these attributes. Raises `ValueError` if the toolset has no tool for that."""
        raise ValueError("the toolset has nothing to read with")

    def read_all(self, slots: Reads, placed: bool) -> Message:
        """A message that queries these attributes of devices of a kind; if `placed`, of rooms that are named."""
        return self.read(slots)

    def has_read_in(self, turn: Sequence[Message]) -> bool:
        """Whether the messages of a turn hold a tool's result. It is always true for toolsets that cannot read."""
        return not self.reads or any(message["role"] == "tool" for message in turn)

    def automate(self, wanted: WantedAutomation) -> Message:
        """A message that makes an automation. Raises `ValueError` if the toolset has no automations."""
        raise ValueError("the toolset has no automations")

    def unfit(self, calls: Sequence[Call], reads: Reads) -> str | None:
        """Why the tools cannot make these calls or show these attributes, or None if they can."""
        return None

    def write_reply(self, text: str) -> Message:
        """A message to the user."""
        return text_message(text)

    def write_question(self, text: str) -> Message:
        """A message that asks the user a question."""
        return self.write_reply(text)


class StructuredWriter(ToolsetWriter):
    """A writer for toolsets in which each service call is one tool call."""

    @abstractmethod
    def call(self, call: Call) -> dict[str, Any]:
        """The tool call that makes a service call."""

    def write_calls(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """A message with one tool call for each service call."""
        return call_message(*map(self.call, calls))

    def write_garbled_call(self, call: Call) -> Message:
        """A tool call whose JSON arguments lack their closing braces."""
        written = self.call(call)
        cut = written["function"]["arguments"].rstrip("}")
        return call_message(written | {"function": written["function"] | {"arguments": cut}})

    def was_made_in(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """A call was made if the turn has a tool call of the same name and arguments."""
        calls = list(parse_turn_tool_calls(turn))
        return lambda call: next(parse_turn_tool_calls([call_message(self.call(call))])) in calls


def rename_in_tool_calls(message: Message, name: str, other: str) -> Message:
    """A message of tool calls with another name in their arguments."""
    calls = (call["function"] for call in message["tool_calls"])
    return call_message(*(tool_call(f["name"], json.loads(f["arguments"].replace(name, other))) for f in calls))


def parse_turn_tool_calls(turn: Sequence[Message]) -> Iterator[tuple[str, Any]]:
    """The (tool name, arguments) pairs of all tool calls whose arguments are valid JSON."""
    for message in turn:
        for call in message.get("tool_calls") or ():
            try:
                yield call["function"]["name"], json.loads(call["function"]["arguments"])
            except (ValueError, RecursionError):
                continue


@dataclass(frozen=True)
class Toolset:
    """The tools of an agent. Raises `ValueError` if `one_answer` is set and there is not exactly one tool.

    Attributes:
        tools: the tools that the agent may call.
        instruction: the system instruction by language, for the prompt style `full`.
        writer: makes the `Writer` for a home. Its arguments are the home, the reply for "it is done", and a function that
            labels a device.
        automations: whether the agent can make automations. Such an agent is told the time.
        aliases: whether the agent is told the aliases of rooms and devices.
        one_answer: whether the agent gives one JSON object and no tool calls. The object is the arguments of the only
            tool. Its `response` is said to the user, and `mode: clarify` marks the response as a question.
        shown: the description of the home in the prompt of such an agent, which cannot query anything.
        offer: the tools of one home; all of them if left out.
        told: the whole system prompt of a home for the prompt style `full`, in place of the instruction, the devices, the
            time and the rooms.
        listed: how the prompt lists the devices of a home; one a line if left out.
        missing: the result of a call of a tool that is not there.
        beyond: whether no tool reaches a product that has services.
        clock: whether a tool tells the time (`NOW`), which the agent is not told otherwise.
    """

    tools: tuple[Tool, ...]
    instruction: Mapping[str, str]
    writer: Callable[[Home, str, Callable[[Device], str]], ToolsetWriter]
    automations: bool = False
    aliases: bool = False
    one_answer: bool = False
    shown: Callable[[Home], Any] | None = None
    offer: Callable[[Home], tuple[Tool, ...]] | None = None
    told: Callable[[Home], str] | None = None
    listed: Callable[[Home], str] | None = None
    missing: Callable[[str], RunResult] | None = None
    beyond: Callable[[DeviceSpec], bool] | None = None
    clock: bool = False

    def tools_of_home(self, home: Home) -> tuple[Tool, ...]:
        """The tools of an agent in a home."""
        return self.tools if self.offer is None else self.offer(home)

    def __post_init__(self) -> None:
        if self.one_answer and len(self.tools) != 1:
            raise ValueError("a toolset of one answer has one tool, which takes it")
