"""The World contract, the facts of one step, and `check_world`, which checks the contract on any world.

Invariants of a world:
- `fork` returns an independent copy.
- `state_key` is an exact hash of everything that decides the future: the physical state, the clock and the rules that
  wait. It is the same in every process, and two worlds with equal keys behave alike from then on.
- A call that the world refuses changes nothing. A call that is too large (`why_action_too_large`) is refused.
- The reward of `step` is the gain in progress.
- A world can be pickled, for workers of Ray, joblib and Gymnasium. The copy is a fork in another process.
"""

from __future__ import annotations

import copy
import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, Self

from pydantic.json_schema import SkipJsonSchema

Action = Mapping[str, Any]
MOST_CHARACTERS, MOST_VALUES, MOST_LEVELS = 100_000, 5_000, 32  # of the arguments of one call
MOST_TEXT = 2 * MOST_CHARACTERS  # of the JSON of a call: what is longer holds more than a world takes, and is not read
SCALARS = (int, float, type(None))
OWN_NAME = "$name"  # in an action, the argument that is called `name`: `name` itself is the tool


def is_too_deep(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Whether a value of JSON has more than so many levels."""
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return not levels or any(is_too_deep(item, levels - 1) for item in inner)


def tool_call_to_action(tool: str, arguments: Mapping[str, Any], takes_name: bool) -> dict[str, Any]:
    """A tool call as an action. `takes_name` says whether the tool has an argument `name`; any other is ignored."""
    own = {OWN_NAME: arguments["name"]} if takes_name and "name" in arguments else {}
    return {**arguments, **own, "name": tool}


def action_arguments(action: Action) -> dict[str, Any]:
    """The arguments of an action."""
    own = {"name": action[OWN_NAME]} if OWN_NAME in action else {}
    return {key: value for key, value in action.items() if key not in ("name", OWN_NAME)} | own


def why_action_too_large(action: Action) -> str | None:
    """Why a call is larger than any that a world takes, or None. No more of it is read than decides this.

    For example, a text of 10 MB costs no more than a short one.
    """
    characters, values, level = 0, 0, [action]  # the values of one level of nesting after the other
    for _ in range(MOST_LEVELS + 1):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str):
                characters += len(value)
            elif isinstance(value, SCALARS):
                continue
            elif isinstance(value, (list, tuple)):
                inner += value
            elif isinstance(value, (dict, Mapping)):  # a `dict` first, since to ask for a `Mapping` takes long
                for key in value:
                    characters += len(key) if isinstance(key, str) else 0
                inner += value.values()
            if len(inner) > MOST_VALUES:
                break
        if characters > MOST_CHARACTERS or values + len(inner) > MOST_VALUES:
            return f"a call has at most {MOST_CHARACTERS} characters and {MOST_VALUES} values"
        if not inner:
            return None
        values, level = values + len(inner), inner
    return f"arguments are nested at most {MOST_LEVELS} levels deep"


@dataclass(frozen=True)
class ToolCall:
    """A call that an agent made, accepted or refused. It is read once, and then passed on up to the world.

    `arguments` is empty if the arguments could not be read; then `malformed` says why. `text` is what the message has as the
    arguments, and `id` is the name by which a tool's result refers to the call. Files keep the name and the arguments only,
    so the schema of a trajectory has no more.
    """

    name: str
    arguments: Mapping[str, Any]
    id: SkipJsonSchema[str] = field(default="", compare=False, repr=False)
    text: SkipJsonSchema[str] = field(default="", compare=False, repr=False)
    malformed: SkipJsonSchema[str | None] = field(default=None, compare=False, repr=False)


# What is wrong with the words that end a turn; empty if nothing is (`homerl/play/closings.py` says when each is given).
ClosingFlaw = Literal[
    "",
    "false claim",
    "hedged claim",
    "no admission",
    "empty",
    "vague question",
    "needless question",
    "wrong answer",
    "denial",
    "unjudged",
]


@dataclass(frozen=True)
class StepFacts:
    """What one message of an agent did: all that rewards need, so that these need no tokenizer and no world.

    - `turn` counts the user's messages from 1. `opens_turn` marks the first step of a turn, `last` the last of the
      episode.
    - `progress_before` and `progress_after` are the progress (0 to 1) before and after the step.
    - `calls` are all calls of the message, in any world. A file leaves them out if its message already has them.
    - `code` is the code in these calls, joined in order, and `code_tokens` its length.
    - `blocked` names the auditor's rules that refused a call, and `error` says what failed.
    - `changed` names the slots that differ after the step.
    - `side_effects_before` and `side_effects_after` count the devices that differ from the start and that no intent
      concerns. Files call them `strayed_before` and `strayed_after`.
    - `intent` is the intent of which the user last spoke.
    - `met` holds the indices of the goals of Φ that are met after the step.
    - `closes` tells whether the message ends the agent's turn: it is words, or a finish action.
    - `closing_flaw` is what is wrong with the words of a message that ends a turn. Files hold it
      beside rewards only, so that what is read from one without rewards equals what was written.
    """

    turn: int
    progress_before: float
    progress_after: float
    code: str | None = None
    code_tokens: int = 0
    blocked: tuple[str, ...] = ()
    error: str | None = None
    changed: tuple[str, ...] = ()
    side_effects_before: int = 0
    side_effects_after: int = 0
    opens_turn: bool = True
    last: bool = False
    intent: int | None = None
    met: tuple[int, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    closes: bool = True
    closing_flaw: ClosingFlaw = field(default="", compare=False, repr=False)


class World(ABC):
    """A simulator whose actions are tool calls, such as `{"name": "pyexec", "code": "..."}`.

    Its `step` is that of `gymnasium.Env`. A world that is registered with Gymnasium derives from both.

    A world overrides `tools`, `fork`, `state_key` and `step`. It may override `begin_message`. The base class owns no state:
    what it gives is the contract, which `check_world` checks.
    """

    # A world overrides these.

    @property
    @abstractmethod
    def tools(self) -> list[dict[str, Any]]:
        """The tools that an agent may call, as OpenAI function schemas."""

    @abstractmethod
    def fork(self) -> Self:
        """An independent copy: steps in one do not reach the other."""

    @abstractmethod
    def state_key(self) -> str:
        """An exact hash of everything that decides how the world goes on.

        Trajectories store state keys, so make the hash of texts of `envs/core/state_encoding.py`.
        """

    @abstractmethod
    def step(self, action: Action) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one tool call.

        Args:
            action: The name of the tool, under `name`, and the tool's arguments by name. An argument that is itself called
                `name` stands under `$name` (`tool_call_to_action`). The action is not changed.

        Returns:
            The five values of Gymnasium:

            - The observation: the text that the agent reads.
            - The reward, a float: the gain in progress.
            - `terminated`: whether the task is done.
            - `truncated`: whether the world ends the episode for another reason.
            - `info`, with the keys `progress` (0 to 1), `blocked` (the `rule` and `message` of a refused call, otherwise
              None), `error` (what failed in the agent's code, otherwise None) and `changed` (the names of what differs after
              the step; empty if the state key is the same). A world may add keys.

        Raises:
            WorldError: The world itself failed. A wrong action raises nothing: the world refuses it in `info["blocked"]`,
                and a refused call changes nothing.

        Example:
            >>> world.step({"name": "control_device", "did": "1001", "locator": "turn_on"})  # doctest: +SKIP
            ('ok', 0.5, False, False,
             {'progress': 0.5, 'blocked': None, 'error': None, 'changed': ('1001.state',)})
        """

    # A world may override this.

    def begin_message(self) -> None:  # noqa: B027, in many worlds no message takes time
        """A message of an agent begins. Its calls, the steps until the next message, share what a message may take of time.

        A world whose `begin_message` was never called takes each step as a message of its own.
        """


class WorldError(Exception):
    """The world itself failed, for example because its sandbox ended. Neither the agent nor the user is to blame."""


class ContractError(AssertionError):
    """A world, or another plug-in, breaks its contract. The message names the clause, and what it was tried with."""


def require_clause(holds: Any, clause: str, tried: Any = None, what: str = "tried with") -> None:
    """Raise `ContractError` with the clause, and with what it was tried with, unless the clause holds."""
    if not holds:
        raise ContractError(f"{clause} ({what}: {tried!r})")


@contextmanager
def name_example(function: Any, what: str, example: Any) -> Iterator[None]:
    """Let what a plug-in's function raises within the context be a `ContractError` that names file, line and example.

    A clause that is broken there names the function's first line.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code else (None, None)
    try:
        yield
    except ContractError as error:
        raise ContractError(f"{file}:{line}: {error}" if code else str(error)) from error
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if code is None or frame.filename == file]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else f"{file}:{line}"
        raise ContractError(f"{place}: it fails with {type(error).__name__}: {error} ({what}: {example!r})") from error


def check_world(world: World, actions: Iterable[Action]) -> None:
    """Play actions in a world and check every clause of the contract at each step.

    Args:
        world: The world, which plays the actions. Its tasks and its state go on from where they are.
        actions: The actions, right and wrong ones. One that names no tool is added.

    Raises:
        ContractError: The world breaks the contract. The message names the clause and the action.
    """
    _check_tools(world.tools)
    try:
        carried: World = pickle.loads(pickle.dumps(world))
    except Exception as error:
        raise ContractError(f"the world cannot be pickled: {error}") from error
    actions, last = list(actions), None
    for action in [*actions, {"name": "no such tool"}]:
        frozen = copy.deepcopy(dict(action))
        key, twin = world.state_key(), world.fork()
        _require_of_action(twin.state_key() == key, "a fork has another state key", action)
        with name_example(world.step, "action", action):
            here, there = world.step(action), twin.step(action)
        _require_of_action(dict(action) == frozen, "step changed its action", action)
        _check_step_result(here, action)
        _require_of_action(here == there, "equal keys behaved differently", action)
        _require_of_action(world.state_key() == twin.state_key(), "equal keys led to different keys", action)
        same = carried.step(copy.deepcopy(frozen)) == here and carried.state_key() == twin.state_key()
        _require_of_action(same, "a pickled copy behaved differently", action)
        info = here[4]
        gained = last is None or abs(here[1] - (info["progress"] - last)) < 1e-9
        _require_of_action(gained, "the reward is not the gain in progress", action)
        last = info["progress"]
        _require_of_action(
            bool(info["changed"]) == (world.state_key() != key), "`changed` and the state key disagree", action
        )
        if action.get("name") == "no such tool":
            _require_of_action(info["blocked"] is not None, "an unknown tool was not blocked", action)
            _require_of_action(world.state_key() == key, "a refused call changed something", action)
    key, twin = world.state_key(), world.fork()
    for action in actions:
        twin.step(action)
    _require_of_action(world.state_key() == key, "a fork's steps reached its parent", None)


def _require_of_action(holds: Any, clause: str, action: Any) -> None:
    require_clause(holds, clause, action, "action")


def _check_tools(tools: list[dict[str, Any]]) -> None:
    names = []
    for tool in tools:
        function = tool.get("function", {})
        _require_of_action(tool.get("type") == "function" and function.get("name"), "a tool is not an OpenAI function", tool)
        _require_of_action(function.get("parameters", {}).get("type") == "object", "a tool's parameters are no object", tool)
        names.append(function["name"])
    _require_of_action(names and len(set(names)) == len(names), "tool names are missing or repeated", names)


def _check_step_result(result: tuple[Any, ...], action: Action) -> None:
    observation, reward, terminated, truncated, info = result
    _require_of_action(isinstance(observation, str), "the observation is not text", action)
    _require_of_action(isinstance(reward, float), "the reward is not a float", action)
    _require_of_action(isinstance(terminated, bool) and isinstance(truncated, bool), "ends are not booleans", action)
    _require_of_action({"progress", "blocked", "error", "changed"} <= set(info), "info lacks a key", action)
    _require_of_action(0.0 <= info["progress"] <= 1.0, "progress is outside 0..1", action)


def register_environment(name: str, entry_point: str, **arguments: Any) -> None:
    """Register an environment so that `gymnasium.make` returns it without Gymnasium's default wrappers.

    `arguments` are passed to its constructor, unless `gymnasium.make` is given others.

    The papers' users read `env.engine` and step before the first reset, which the wrappers do not allow. Gymnasium's
    registry reads no entry points, so the package of an environment calls this when it is imported. Where Gymnasium is not
    installed, nobody can ask for the environment.
    """
    if find_spec("gymnasium") is None:
        return
    import gymnasium

    if name not in gymnasium.registry:
        gymnasium.register(id=name, entry_point=entry_point, order_enforce=False, disable_env_checker=True, kwargs=arguments)
