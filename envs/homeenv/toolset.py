"""What a toolset is: its tools, the instruction to its agents, and how an agent that knows what to do writes it.

A toolset is one file of `toolsets/` that holds a `TOOLSET`. Its instruction stands in that file too, by language; a language
that came after the toolset gives the instruction in its own folder, as `toolsets:` of its `prompts.yaml`.

Invariants: a writer is a pure function of the home, the words and labels that it is given, and what it is to write; it
returns messages in OpenAI's form as plain dictionaries, and changes nothing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.tools import Tool
from envs.messages import Message, call_message, text_message

Reads = Sequence[tuple[str, str]]  # (did, attribute path) of what must be known


class Call(Protocol):
    """A service call that an agent wants to make. `code` is the call as Python."""

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


class Automation(Protocol):
    """An automation that an agent wants to make, in the terms of `create_automation`."""

    @property
    def conditions(self) -> Sequence[str]:
        """What must hold, and at most one `time_cron` line."""

    @property
    def delay_seconds(self) -> int | None:
        """Act once, so many seconds from now."""

    @property
    def hold_seconds(self) -> int:
        """How long the conditions must have held."""

    @property
    def actions(self) -> Sequence[Call]:
        """What to do, in order."""


class Writer(ABC):
    """Writes what an agent wants to do as messages of one toolset.

    `reads` says whether the toolset has tools that read; an agent without them acts at once. `done` are the words for "it
    is done", `label` gives a device as the prompt lists it.
    """

    reads = False

    def __init__(self, home: Home, done: str = "Done.", label: Callable[[Device], str] = lambda device: device.did) -> None:
        self.home, self.done, self.label = home, done, label

    @abstractmethod
    def act(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """Service calls, in order; `reply` is said with them where calls and words are one message."""

    @abstractmethod
    def garble(self, call: Call) -> Message:
        """A service call that cannot be read, as a model may write it."""

    @abstractmethod
    def made(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """Whether a service call is among those that the messages of a turn make."""

    def look(self, did: str) -> Message:
        """A request for the state of one device."""
        raise ValueError("the toolset has nothing to read with")

    def read(self, slots: Reads) -> Message:
        """A request for these attributes."""
        raise ValueError("the toolset has nothing to read with")

    def has_read(self, turn: Sequence[Message]) -> bool:
        """Whether the messages of a turn hold what a tool returned."""
        return not self.reads or any(message["role"] == "tool" for message in turn)

    def automate(self, wanted: Automation) -> Message:
        """A request for an automation."""
        raise ValueError("the toolset has no automations")

    def say(self, text: str) -> Message:
        """Words to the user."""
        return text_message(text)

    def ask(self, text: str) -> Message:
        """A question to the user."""
        return self.say(text)


class StructuredWriter(Writer):
    """Writes for toolsets in which a service call is one tool call."""

    @abstractmethod
    def call(self, call: Call) -> dict[str, Any]:
        """The tool call of a service call."""

    def act(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """A tool call for each service call."""
        return call_message(*map(self.call, calls))

    def garble(self, call: Call) -> Message:
        """A tool call whose arguments have no end."""
        written = self.call(call)
        cut = written["function"]["arguments"].rstrip("}")
        return call_message(written | {"function": written["function"] | {"arguments": cut}})

    def made(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """Whether a tool call of the same name and arguments was made."""
        calls = list(arguments_of(turn))
        return lambda call: next(arguments_of([call_message(self.call(call))])) in calls


def arguments_of(turn: Sequence[Message]) -> Iterator[tuple[str, Any]]:
    """(tool, arguments) of all calls whose arguments can be read."""
    for message in turn:
        for call in message.get("tool_calls") or ():
            try:
                yield call["function"]["name"], json.loads(call["function"]["arguments"])
            except ValueError:
                continue


@dataclass(frozen=True)
class Toolset:
    """The tools of an agent.

    Attributes:
        tools: what the agent may call.
        instruction: what an agent is told, by language, in the style `full`.
        writer: makes the `Writer` of a home from the home, the words for "it is done", and the label of a device.
        automations: whether the agent can make automations; it is told the hour.
        one_answer: whether the agent gives one JSON object in place of calls, which the one tool takes as its arguments;
            `response` in it is what the user hears, and `mode: clarify` says that this asks something back.
        shown: what such an agent is told of the home, since it cannot ask.
    """

    tools: tuple[Tool, ...]
    instruction: Mapping[str, str]
    writer: Callable[[Home, str, Callable[[Device], str]], Writer]
    automations: bool = False
    one_answer: bool = False
    shown: Callable[[Home], Any] | None = None

    def __post_init__(self) -> None:
        if self.one_answer and len(self.tools) != 1:
            raise ValueError("a toolset of one answer has one tool, which takes it")
