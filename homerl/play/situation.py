"""What an episode knows of the world behind it: a situation, which a world makes from a blueprint.

Invariants: an episode asks a situation and nothing else of its world; whether a goal is met is a function of the world's
state and of what was said; forks are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from envs.world import Action, World
from homerl.play.messages import Message


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

    With `preserve`, success also needs that nothing else was changed. `toolset` names the tools that the agent sees;
    one that is called `direct` asks for a single JSON answer in place of tool calls.
    """

    id: str
    seed: int
    language: str
    intents: tuple[Any, ...]
    preserve: bool
    toolset: str

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self: ...


class Situation(Protocol):
    """A blueprint's world and what is asked for there."""

    blueprint: Any
    world: World

    def opening(self) -> list[Message]:
        """The messages before the user first speaks: what an agent may know at the start."""

    def fork(self) -> Self:
        """An independent copy."""

    def met(self) -> tuple[bool, ...]:
        """Φ, goal by goal."""

    def open_intents(self) -> list[Any]:
        """Intents of which some goal is not met now, in the blueprint's order."""

    def strayed(self) -> int:
        """How much differs from the start that no intent asked for."""

    @property
    def ended(self) -> bool:
        """Whether the agent has ended the episode by what it did."""

    def stands_for(self, reply: Reply) -> Action | str | None:
        """The call that a message's words stand for, or why they are malformed; None where words are words."""

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """A call takes effect: what the agent sees of it, and the world's info."""

    def heed(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        """What an agent's message means beyond its calls; `refusals` are the rules that refused them."""

    def mark(self) -> Any:
        """Something to ask `changed_since` by."""

    def changed_since(self, mark: Any) -> tuple[str, ...]:
        """All that differs, as text."""

    def wait(self, seconds: int) -> None:
        """Let time pass."""

    def state_key(self) -> str:
        """An exact hash of physical state."""
