"""What passes between an episode and those who take part in it: utterances, observations and replies, and the situation.

A situation is made by the world from a blueprint. It also tells the course in which the user tells a wish, if not at once.

Invariants:
- An episode uses nothing of its world but the situation. Forks are independent.
- Whether a goal is met depends on the world's state and on what was said.
- An `Observation` is plain data that gives no access to the episode, the goals Φ, the plan, the blueprint or the world. It
  is a copy, so a policy may change it.
- A course is part of the blueprint, so all users of a blueprint follow the same one. Where a user stands in it
  (`Episode.course_position`) is counted in turns and not in words, so that an LLM user follows it in words of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self

from homerl.envs.core.messages import Message, copy_plain_data
from homerl.envs.core.world import Action, StepFacts, ToolCall, World

JSON_ANSWERS = "json_answers"  # in `Situation.protocol`: words may be JSON
# How a wish is told other than at once. `Behaviours` (`homerl/models/endpoint/endpoint_settings.py`) has their shares.
Behaviour = Literal["disclosure", "self_correction", "change_of_mind", "beside_the_point"]
BEHAVIOURS: tuple[Behaviour, ...] = ("disclosure", "self_correction", "change_of_mind", "beside_the_point")


@dataclass(frozen=True)
class Utterance:
    """What a user says, and the intent it is about. An empty text means that the user stops.

    `tokens` and `prompt_tokens` are what the utterance and its prompts took, `requests` the number of model requests.
    """

    text: str
    intent_id: int | None = None
    tokens: int = field(default=0, compare=False)
    prompt_tokens: int = field(default=0, compare=False)
    requests: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Reply:
    """An agent's message, which is what agents return.

    `malformed` says why it could not be parsed as a tool call, if so. `tokens` is its length, `prompt_tokens` that of
    its prompt, and `code_tokens` counts the tokens of code in it. `calls` are the calls of the message as its parser read
    them; None if they have not been read yet.
    """

    message: Message
    malformed: str | None = None
    tokens: int = 0
    code_tokens: Callable[[str], int] | None = None
    prompt_tokens: int = 0
    calls: tuple[ToolCall, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Observation:
    """All that a policy receives.

    `one_answer` asks for one JSON answer instead of tool calls. `protocol` tells how the world parses replies, if its
    agents need to know (`Situation.protocol`). `seed` is that of the episode: several plays of a task differ in it alone.
    """

    blueprint_id: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    one_answer: bool = False
    protocol: Mapping[str, bool | int | str] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        """Copy the messages and tools."""
        object.__setattr__(self, "messages", tuple(map(copy_plain_data, self.messages)))
        object.__setattr__(self, "tools", tuple(map(copy_plain_data, self.tools)))


class IntentProtocol(Protocol):
    """One thing that the user wants. `queries` are ways to say it; `clarification` is a plain wording for when the agent
    asks.
    """

    id: int
    family: str
    subcategory: str
    queries: tuple[str, ...]
    clarification: str


class BlueprintProtocol(Protocol):
    """A script for one episode (HomeFlow 3.3.1) in any world: plain data, complete in itself.

    With `preserve`, success also requires no side effects. With `one_answer`, the agent gives one JSON object instead of
    tool calls: the user hears its `response`, and `mode: clarify` marks a question.
    """

    id: str
    seed: int
    language: str
    intents: tuple[Any, ...]
    preserve: bool
    one_answer: bool

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The blueprint as plain data."""

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """A copy with some fields replaced."""


class CoursePart(Protocol):
    """One utterance of a course: its words, and the behaviour that it belongs to."""

    @property
    def behaviour(self) -> Behaviour: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Course:
    """What the user says of a wish before its usual wordings, one part a turn; and `aside`, the answer beside the point
    that the agent's first question gets.
    """

    parts: Sequence[CoursePart] = ()
    aside: str | None = None


@dataclass(frozen=True)
class AddedLimits:
    """What the courses of a blueprint take more than wishes told at once: turns of the user, and calls of the agent."""

    turns: int = 0
    calls: int = 0


NOTHING = AddedLimits()


Reading = Literal["right", "wrong", "undecided", "silent"]  # silent: the words make no claim that could be the answer


@dataclass(frozen=True)
class WishStanding:
    """How the wish that the user last spoke of stands when the agent ends its turn.

    Attributes:
        is_known: Whether anybody knows the wish.
        is_told: Whether the user has told it in full.
        is_open: Whether something of it is not done in the world. If nobody knows the wish: whether a call of the turn was
            refused or failed, and nothing changed in it.
        has_acted: Whether the turn changed something.
        reading: What the rules make of the agent's words as the answer that is wanted; None if none is.
        lacks_question: Whether the agent had to ask, and has not asked for what differs.
    """

    is_known: bool = True
    is_told: bool = True
    is_open: bool = False
    has_acted: bool = False
    reading: Reading | None = None
    lacks_question: bool = False


def standing_by_progress(facts: StepFacts, earlier: Sequence[StepFacts], claims: str) -> WishStanding:
    """How a wish stands where nothing but the progress tells it: open while any goal is unmet."""
    turn = [*(one for one in earlier if one.turn == facts.turn), facts]
    acted = any(one.changed for one in turn)
    if facts.intent is not None:
        return WishStanding(is_open=facts.progress_after < 1.0, has_acted=acted)
    failed = any(one.blocked or one.error for one in turn)
    return WishStanding(is_known=False, is_open=failed and not acted, has_acted=acted)


class Situation(ABC):
    """A blueprint's world with its goals.

    Override the abstract methods. The other ones have defaults for a world of tool calls in which words have no effect, and
    in which nothing but the goals can be changed. An episode calls these methods; a situation never calls the episode.

    Attributes:
        blueprint: The script of the episode (`BlueprintProtocol`).
        world: The simulator that calls act on.
        code_tools: Names of tools whose calls hold code, even where the world does not list them.

    Example:
        class LampSituation(Situation):
            def __init__(self, blueprint, world=None):
                self.blueprint, self.world = blueprint, world or LampWorld(blueprint.level)

            def opening(self):
                return [{"role": "system", "content": "You control a lamp."}]

            def fork(self):
                return LampSituation(self.blueprint, self.world.fork())

            def met(self):
                return tuple(self.world.level == intent.level for intent in self.blueprint.intents)

            def open_intents(self):
                return [intent for intent, met in zip(self.blueprint.intents, self.met()) if not met]

            def mark(self):
                return self.world.level

            def changed_since(self, mark):
                return ("lamp",) if self.world.level != mark else ()
    """

    blueprint: Any
    world: World
    code_tools: ClassVar[frozenset[str]] = frozenset()  # tools whose calls hold code, even where they are not listed

    @abstractmethod
    def opening(self) -> list[Message]:
        """What the agent knows at the start.

        Returns:
            The messages before the user first speaks, mostly one system message.
        """

    @abstractmethod
    def fork(self) -> Self:
        """A copy of the situation and of its world.

        Returns:
            A situation that behaves like this one from now on, and that shares nothing with it that can change.
        """

    @abstractmethod
    def met(self) -> tuple[bool, ...]:
        """Φ: the state of the goals.

        Returns:
            For each goal whether it is met now, always in the same order. The share of the met ones is the progress.
        """

    @abstractmethod
    def open_intents(self) -> list[Any]:
        """What the user still wants.

        Returns:
            The blueprint's intents with a goal that is not met now, in the blueprint's order.
        """

    @abstractmethod
    def mark(self) -> Any:
        """Remember the current state.

        Returns:
            Anything that `changed_since` takes. Later actions must not change it.
        """

    @abstractmethod
    def changed_since(self, mark: Any) -> tuple[str, ...]:
        """What differs now from a marked state.

        Args:
            mark: What `mark` returned, in this situation or in one that it was forked from.

        Returns:
            The names of everything that differs, in a fixed order.
        """

    def side_effects(self) -> int:
        """The number of things that differ from the start though no intent asked for it."""
        return 0

    @property
    def protocol(self) -> Mapping[str, bool | int | str]:
        """How replies are parsed, if agents need to know more than the toolset. Every policy sees these plain values."""
        return {}

    @property
    def turns_needed(self) -> int:
        """The number of turns that the user needs to say all wishes."""
        return len(self.blueprint.intents)

    @property
    def added(self) -> AddedLimits:
        """What the user's behaviours take beyond that; the limits of the episode grow by it."""
        return NOTHING

    def course_of(self, intent: int) -> Course:
        """The course in which the user tells the intent of this id; an empty one if all is said at once."""
        return Course()

    @property
    def ended(self) -> bool:
        """Whether an action of the agent has ended the episode."""
        return False

    def stands_for(self, reply: Reply) -> Action | str | None:
        """The call that a message's words stand for.

        Args:
            reply: The agent's message, of whatever form.

        Returns:
            The call as an action, or a text that says why the words are malformed. None if words are only words; then the
            tool calls of the message are made.
        """
        return None

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """Make a call.

        Args:
            action: The tool's name as `name`, and the arguments, such as `{"name": "set_level", "level": 3}`.

        Returns:
            The text that the agent observes, and the world's info: `blocked` holds the `rule` that refused the call, or is
            None, and `error` says what failed, or is None.

        Raises:
            AgentFault: The agent is to blame, and the episode ends. Any other error is blamed by the tools' schemas.
        """
        text, _, _, _, info = self.world.step(action)
        return text, info

    def takes_name(self, tool: str) -> bool:
        """Whether a tool has an argument that is called `name`, as the tool is in an action."""
        return False

    def code_of(self, action: Action) -> str | None:
        """The code in a call, or None: the text `code`, which a listed tool takes as an argument, or one of `code_tools`."""
        if not isinstance(code := action.get("code"), str):
            return None
        named = (tool["function"] for tool in self.world.tools if tool["function"]["name"] == action["name"])
        takes = (tool.get("parameters", {}).get("properties", {}) for tool in named)
        return code if action["name"] in self.code_tools or any("code" in taken for taken in takes) else None

    def note_reply(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:  # noqa: B027
        """Record what an agent's message means beyond its calls.

        Args:
            intent: The id of the intent that the user last spoke of.
            message: The agent's message.
            refusals: The rules that refused calls of the message.
            spoke: Whether the message was words and no calls.
        """

    def closing_message(self, message: Message) -> Message | None:
        """The message whose words end the agent's turn.

        Args:
            message: A message of the agent that ends its turn.

        Returns:
            By default this message. None if it ends the turn by a call and not by words.
        """
        return None if message.get("tool_calls") else message

    def standing_of_wish(self, facts: StepFacts, earlier: Sequence[StepFacts], claims: str) -> WishStanding:
        """How the wish stands that the user last spoke of, when a message ends the agent's turn.

        By it the message's words are judged (`homerl/play/closings.py`). What is told here must follow from the blueprint
        and the arguments alone, so that a stored trajectory tells it too.

        Args:
            facts: What the message did.
            earlier: The facts of the steps before it.
            claims: What the message says, without its questions.

        Returns:
            The standing. By default a wish is open while any goal is unmet.
        """
        return standing_by_progress(facts, earlier, claims)

    def wait(self, seconds: int) -> None:  # noqa: B027, in many worlds time changes nothing
        """Let virtual time pass."""

    def state_key(self) -> str:
        """An exact hash of the physical state."""
        return self.world.state_key()

    def concerns(self) -> Any:
        """The state of what the open intents concern, as JSON. A world that cannot tell gives its whole state."""
        return self.state_key()
