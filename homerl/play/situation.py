"""What an episode knows of the world behind it: a situation, which a world makes from a blueprint.

Invariants: an episode asks a situation and nothing else of its world; whether a goal is met is a function of the world's
state and of what was said; forks are independent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from envs.messages import Message
from envs.world import Action, World


@dataclass(frozen=True)
class Reply:
    """An agent's message. `malformed` says why it could not be read as a tool call, if so; `tokens` its length, and
    `prompt_tokens` that of what it was made from."""

    message: Message
    malformed: str | None = None
    tokens: int = 0
    code_tokens: Callable[[str], int] | None = None
    prompt_tokens: int = 0


class Intent(Protocol):
    """One thing that the user wants. `queries` are ways to say it, `clarification` is the plain answer when asked."""

    id: int
    family: str
    subcategory: str
    queries: tuple[str, ...]
    clarification: str


class Blueprint(Protocol):
    """A script for one episode (HomeFlow 3.3.1), whatever its world: plain data, complete in itself.

    With `preserve`, success also needs that nothing else was changed. With `one_answer`, the agent gives a single JSON
    object in place of tool calls: `response` in it is what the user hears, and `mode: clarify` says that this asks back.
    """

    id: str
    seed: int
    language: str
    intents: tuple[Any, ...]
    preserve: bool
    one_answer: bool

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self: ...


class Situation(ABC):
    """A blueprint's world and what is asked for there. What is not abstract has the default of a world of tool calls, in
    which words mean nothing and nothing can be changed that no goal concerns."""

    blueprint: Any
    world: World

    @abstractmethod
    def opening(self) -> list[Message]:
        """The messages before the user first speaks: what an agent may know at the start."""

    @abstractmethod
    def fork(self) -> Self:
        """An independent copy."""

    @abstractmethod
    def met(self) -> tuple[bool, ...]:
        """Φ: whether each goal is met."""

    @abstractmethod
    def open_intents(self) -> list[Any]:
        """The intents of which some goal is not met now, in the blueprint's order."""

    @abstractmethod
    def mark(self) -> Any:
        """The present state, in a form for `changed_since`."""

    @abstractmethod
    def changed_since(self, mark: Any) -> tuple[str, ...]:
        """The names of everything that differs from a marked state."""

    def side_effects(self) -> int:
        """The number of things that differ from the start though no intent asked for it."""
        return 0

    @property
    def protocol(self) -> Mapping[str, bool | int | str]:
        """How replies are read, where agents have to know more than the toolset: plain values, public to every policy."""
        return {}

    @property
    def ended(self) -> bool:
        """Whether the agent has ended the episode by what it did."""
        return False

    def stands_for(self, reply: Reply) -> Action | str | None:
        """The call that a message's words stand for, or why they are malformed; None where words are words."""
        return None

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """Make a call: the text that the agent observes, and the world's info."""
        text, _, _, _, info = self.world.step(action)
        return text, info

    def note_reply(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:  # noqa: B027
        """Note what an agent's message means beyond its calls; `refusals` are the rules that refused these."""

    def wait(self, seconds: int) -> None:  # noqa: B027, in many worlds time changes nothing
        """Let virtual time pass."""

    def state_key(self) -> str:
        """An exact hash of the physical state."""
        return self.world.state_key()
