"""Steps, turns and trajectories, their files, and how they are prepared for pages.

Invariants: a trajectory has its complete blueprint, so it can be replayed and every reward recomputed from it alone; all
rows of a file have the same shape, so `datasets.load_dataset` can read it (see `uniform_rows`); writing is atomic. What is
prepared for reading is neither shortened nor recomputed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from homerl.envs.core.documents import InputError, refuse_unwritable, suggest_near_path, write_atomic
from homerl.envs.core.messages import Message, StoredMessage
from homerl.envs.core.world import StepFacts, ToolCall
from homerl.play.faults import Boundary, Fault
from homerl.play.tool_call_parser import read_tool_calls, tool_calls_of


class Outcome(StrEnum):
    """Why a trajectory ended."""

    SUCCESS = "success"
    AGENT_FAILURE = "agent_failure"
    TURN_LIMIT = "turn_limit"
    STEP_LIMIT = "step_limit"
    USER_ERROR = "user_error"
    WORLD_ERROR = "world_error"
    INFRA_ERROR = "infra_error"
    CUT = "cut"  # left on purpose before its end

    @property
    def is_counted(self) -> bool:
        """Whether the outcome says something about the agent. Episodes with other outcomes are retried, then dropped.

        No agent can choose such an end: what fails a world by a call that its schemas do not allow is an `AGENT_FAILURE`.
        """
        return self in (Outcome.SUCCESS, Outcome.AGENT_FAILURE, Outcome.TURN_LIMIT, Outcome.STEP_LIMIT, Outcome.CUT)


FAULT_OUTCOMES = {  # how an episode that a fault ended is recorded, by who failed
    Boundary.AGENT: Outcome.AGENT_FAILURE,
    Boundary.USER: Outcome.USER_ERROR,
    Boundary.WORLD: Outcome.WORLD_ERROR,
    Boundary.SERVER: Outcome.INFRA_ERROR,
    Boundary.JUDGE: Outcome.INFRA_ERROR,
}


@dataclass(frozen=True)
class Step:
    """One agent message and what came of it. `decision` is a hash of what was still to be done
    before it, by which credit modes compare steps."""

    message: Message
    observations: tuple[str, ...]
    facts: StepFacts
    state_key: str
    decision: str

    @property
    def has_failed(self) -> bool:
        """Whether a call was refused, or code raised an error."""
        return bool(self.facts.blocked or self.facts.error)


def count_earlier_messages(messages: Iterable[Message], steps: int) -> int:
    """How many of the assistant's messages are of an earlier dialogue: all but the last `steps`."""
    return max(0, len([message for message in messages if message["role"] == "assistant"]) - steps)


def find_unlearnt_messages(row: Mapping[str, Any]) -> list[int]:
    """Which of the assistant's messages, by number, are not to be learnt from a row of data.

    These are those that it is said to have sent before it played, and those whose calls were refused or failed, if the
    dialogue says so. All messages of a row without steps are the assistant's own.
    """
    steps = json.loads(row["steps"]) if row.get("steps") else []
    given = count_earlier_messages(row["messages"], len(steps)) if steps else 0
    told = _observations_by_message(row["messages"])[given:]
    mistakes = (
        number
        for number, (step, heard) in enumerate(zip(steps, told), given)
        if (step["facts"]["blocked"] or step["facts"]["error"]) and heard == step["observations"]
    )
    return [*range(given), *mistakes]


def _observations_by_message(messages: Iterable[Message]) -> list[list[str]]:
    """What the tools answered to each of the assistant's messages."""
    told: list[list[str]] = []
    for message in messages:
        if message["role"] == "assistant":
            told.append([])
        elif message["role"] == "tool" and told:
            told[-1].append(message["content"])
    return told


def are_steps_valid(steps: Iterable[Step]) -> bool:
    """Whether no step had an execution error or a refused call (HomeFlow eq. 4)."""
    return not any(step.has_failed for step in steps)


@dataclass(frozen=True)
class Turn:
    """A user utterance with the steps that answer it."""

    utterance: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Trajectory:
    """A played blueprint. `blueprint` is plain data; `tools` are OpenAI schemas; `fault` is None unless an error ended the
    episode. Reaching a limit or missing a goal is not a fault."""

    blueprint: Mapping[str, Any]
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    steps: tuple[Step, ...]
    outcome: Outcome
    progress: float
    clean: bool
    agent: str
    user: str
    rewards: tuple[Mapping[str, float], ...] = ()
    weights: Mapping[str, float | bool] = field(default_factory=dict)
    seed: int = 0
    limits: Mapping[str, int | None] = field(default_factory=dict)
    fault: Fault | None = None

    @property
    def success(self) -> bool:
        """Whether all goals were met, with no side effects if the blueprint forbids them."""
        return self.outcome is Outcome.SUCCESS

    @property
    def is_valid(self) -> bool:
        """valid(h) of HomeFlow eq. 4, see `are_steps_valid`."""
        return are_steps_valid(self.steps)

    @property
    def tool_calls(self) -> int:
        """The number of tool calls."""
        return sum(len(step.message.get("tool_calls") or ()) for step in self.steps)

    @property
    def opening_messages(self) -> tuple[Message, ...]:
        """The messages before the user first spoke: what the agent was told, and any earlier dialogue."""
        said = [at for at, message in enumerate(self.messages) if message["role"] == "assistant"]
        earlier = count_earlier_messages(self.messages, len(self.steps))
        first = next(iter(said[earlier:]), len(self.messages))  # the message of the first step
        heard = first > 0 and self.messages[first - 1]["role"] == "user"
        return self.messages[: first - heard]

    @property
    def answer_tool(self) -> str | None:
        """The tool that ran each message's one JSON answer; None if the agent made tool calls.

        Only where messages are answers is every message run, though the agent is told no result.
        """
        run = all(step.observations for step in self.steps) and all(message["role"] != "tool" for message in self.messages)
        return self.tools[0]["function"]["name"] if run and len(self.tools) == 1 else None

    def turns(self) -> list[Turn]:
        """The steps, grouped by the utterance that they answer."""
        played = self.messages[len(self.opening_messages) :]
        spoken = [message["content"] for message in played if message["role"] == "user"]
        return [
            Turn(text, tuple(step for step in self.steps if step.facts.turn == number))
            for number, text in enumerate(spoken, 1)
        ]


FACTS = frozenset(fact.name for fact in fields(StepFacts))
STORED_AS = {"side_effects_before": "strayed_before", "side_effects_after": "strayed_after"}  # older names, which files keep
READ_AS = {stored: name for name, stored in STORED_AS.items()}  # the same the other way round
EDITED = "name a file that homerl wrote; this line may have been cut or edited"
PLAIN_COLUMNS = ("progress", "clean", "agent", "user", "seed")  # of a row, as the trajectory has them
JSON_COLUMNS = ("blueprint", "tools", "steps", "rewards", "weights", "limits")


def trajectory_to_row(trajectory: Trajectory) -> dict[str, Any]:
    """A flat row: `messages` in OpenAI format, nested records as JSON strings, and `fault` only if there is one."""
    blueprint, answer_tool = trajectory.blueprint, trajectory.answer_tool
    return {
        "id": blueprint["id"],
        "messages": [message_to_row(message) for message in trajectory.messages],
        "tools": _to_json(trajectory.tools),
        "outcome": str(trajectory.outcome),
        **{name: getattr(trajectory, name) for name in PLAIN_COLUMNS},
        "steps": _to_json([_step_to_row(step, answer_tool, bool(trajectory.rewards)) for step in trajectory.steps]),
        **{name: _to_json(getattr(trajectory, name)) for name in ("rewards", "weights", "limits")},
        "blueprint": _to_json(blueprint),
    } | ({"fault": _to_json(asdict(trajectory.fault))} if trajectory.fault else {})


def uniform_rows(rows: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    """The rows of a file, all with a `fault` (JSON text, `null` for none) if any row has one.

    A reader that takes the columns from the first rows would refuse a file with other rows. `rows` is called twice, so
    that the rows need not fit in memory.
    """
    faulty = any("fault" in row for row in rows())
    return (row if not faulty or "fault" in row else {**row, "fault": "null"} for row in rows())


@cache
def _row_validator() -> TypeAdapter[tuple[Trajectory, tuple[StoredMessage, ...]]]:
    """What a stored trajectory and its messages must be, to the last type: a file may come from anywhere."""
    config = ConfigDict(strict=True, revalidate_instances="always", allow_inf_nan=False)
    return TypeAdapter(tuple[Trajectory, tuple[StoredMessage, ...]], config=config)


def trajectory_from_row(row: Mapping[str, Any]) -> Trajectory:
    """The trajectory of a row that `trajectory_to_row` made.

    Any other row raises any error, of which `locate_row_errors` makes an `InputError`.
    """
    nested = {}
    for name in JSON_COLUMNS:
        nested[name] = json.loads(row[name])
        if "\\ud" in row[name].lower():  # a lone surrogate could not be written back
            refuse_unwritable(nested[name], name)
    if not isinstance(nested["blueprint"]["id"], str):
        raise TypeError("the id of its blueprint is no text")
    fault = json.loads(row.get("fault") or "null")
    read = Trajectory(
        blueprint=nested["blueprint"],
        messages=tuple(_message_from_row(message) for message in row["messages"]),
        tools=tuple(nested["tools"]),
        steps=tuple(map(_step_from_row, nested["steps"])),
        outcome=Outcome(row["outcome"]),
        **{name: row[name] for name in PLAIN_COLUMNS},
        rewards=tuple(nested["rewards"]),
        weights=nested["weights"],
        limits=nested["limits"],
        fault=Fault(Boundary(fault["boundary"]), fault["reason"]) if fault is not None else None,
    )
    _row_validator().validate_python((read, (*read.messages, *(step.message for step in read.steps))))
    answer_tool, steps = read.answer_tool, list[Step]()
    for step, told in zip(read.steps, (step["facts"].get("calls") for step in nested["steps"])):
        calls = tool_calls_of(step.message, answer_tool) if told is None else tuple(ToolCall(**call) for call in told)
        steps.append(replace(step, facts=replace(step.facts, calls=calls)))
    return replace(read, steps=tuple(steps))


def read_trajectory_row(row: Mapping[str, Any], where: str) -> Trajectory:
    """The trajectory of a row of a file. Raises `InputError` with the place if the row is none."""
    with locate_row_errors(where):
        return trajectory_from_row(row)


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """The trajectories of a file. Raises `InputError` with the place of a row that is none."""
    return (read_trajectory_row(row, f"{path}:{number}") for number, row in enumerate(read_rows(path), 1))


@contextmanager
def locate_row_errors(where: str, remedy: str = EDITED) -> Iterator[None]:
    """What fails while a stored row is read, replayed or drawn is the row's fault: an `InputError` with its place.

    Disks and memory are not. HOMERL_TRACEBACK shows the cause.
    """
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, InputError) and error.where.startswith(where):
            raise
        why = f"{error.where}: {error.what}" if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(f"not a trajectory that can be replayed ({' '.join(why.split())[:200]})", where, remedy) from error


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON Lines atomically."""
    write_atomic(path, rows_to_json_lines(rows))


def rows_to_json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as JSON Lines."""
    return (_to_json(row) + "\n" for row in rows)


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Read JSON Lines. Raises `InputError` with the line number for a broken line."""
    path = Path(path)
    if not path.is_file():
        if path.is_dir():
            raise InputError("it is a folder, where a file is expected", str(path), "name the file in it")
        raise InputError("there is no such file", where=str(path), remedy=suggest_near_path(path))
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            yield parse_json_line(line, f"{path}:{number}")


def read_first_row(file: Path) -> dict[str, Any]:
    """The first row of a file; empty if there is no file, or no row."""
    return next(read_rows(file), {}) if file.is_file() else {}


def parse_json_line(line: bytes, where: str) -> dict[str, Any]:
    """The object of a line. Raises `InputError` with the place for a broken line."""
    try:
        row = json.loads(line.decode())
        if b"\\ud" in line.lower():
            refuse_unwritable(row, where)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or too long or too deep
        raise InputError(
            f"not a JSON line: {getattr(error, 'msg', error)}",
            where,
            "the file was cut or edited; make it again, or remove the line",
        ) from None
    if not isinstance(row, dict):
        raise InputError("not a JSON object", where, "a row is one object with its keys")
    return row


def message_to_row(message: Message) -> dict[str, Any]:
    """A message with all keys, so that all rows have the same columns."""
    return {
        "role": message["role"],
        "content": message.get("content") or "",
        "tool_calls": message.get("tool_calls") or [],
        "tool_call_id": message.get("tool_call_id") or "",
    }


def _message_from_row(row: Mapping[str, Any]) -> Message:
    message: Message = {"role": row["role"], "content": row["content"]}
    return message | {key: row[key] for key in ("tool_calls", "tool_call_id") if row.get(key)}


def _step_to_row(step: Step, answer_tool: str | None, rewarded: bool) -> dict[str, Any]:
    """A step as plain data. Left out are calls that are those of its message, `closes` where it is true, and `closing_flaw`
    where it is empty, or where no reward needs it.
    """
    row = asdict(replace(step, facts=replace(step.facts, calls=())))
    row["facts"] = {STORED_AS.get(name, name): value for name, value in row["facts"].items() if name != "calls"}
    if step.facts.closes:
        del row["facts"]["closes"]
    if not (rewarded and step.facts.closing_flaw):
        del row["facts"]["closing_flaw"]
    if step.facts.calls != tool_calls_of(step.message, answer_tool):
        row["facts"]["calls"] = [{"name": call.name, "arguments": call.arguments} for call in step.facts.calls]
    return row


def _step_from_row(data: Mapping[str, Any]) -> Step:
    """A step, still without its calls."""
    if unknown := [key for key in data["facts"] if READ_AS.get(key, key) not in FACTS or key in STORED_AS]:
        raise ValueError(f"no fact of a step is called '{min(unknown)}'")
    facts: dict[str, Any] = {
        READ_AS.get(key, key): tuple(value) if isinstance(value, list) else value for key, value in data["facts"].items()
    }
    known = StepFacts(**facts | {"calls": ()})
    return Step(data["message"], tuple(data["observations"]), known, data["state_key"], data["decision"])


def absent_facts(row: Mapping[str, Any]) -> tuple[frozenset[str], ...]:
    """For each step, the facts that a row does not hold: they are newer than its file, or can be derived."""
    return tuple(FACTS - {READ_AS.get(key, key) for key in step["facts"]} for step in json.loads(row["steps"]))


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class ShownStep:
    """One agent message: its text and calls, observations, refusals, changes, met goals and rewards."""

    said: str
    calls: tuple[str, ...]
    observations: tuple[str, ...]
    blocked: tuple[str, ...]
    before: float
    after: float
    rewards: tuple[tuple[str, float], ...]
    changed: tuple[str, ...]
    met: tuple[int, ...]


@dataclass(frozen=True)
class ShownDialogue:
    """A trajectory for reading: turns with the utterance and its steps."""

    id: str
    scene: str
    outcome: str
    success: bool
    progress: float
    side_effects: bool
    goals: tuple[str, ...]
    past: tuple[tuple[str, str], ...]
    prompt: str
    turns: tuple[tuple[str, tuple[ShownStep, ...]], ...]


def show_dialogue(trajectory: Trajectory, goals: Iterable[str]) -> ShownDialogue:
    """Prepare a trajectory for reading. `goals` are its goals Φ in words, as its world says them."""
    blueprint, rewards = trajectory.blueprint, iter(trajectory.rewards)
    turns = tuple(
        (turn.utterance, tuple(show_step(step, next(rewards, {})) for step in turn.steps)) for turn in trajectory.turns()
    )
    return ShownDialogue(
        id=blueprint["id"],
        scene=blueprint.get("scene", ""),
        outcome=str(trajectory.outcome),
        success=trajectory.success,
        progress=trajectory.progress,
        side_effects=not trajectory.clean,
        goals=tuple(goals),
        past=tuple((said["role"], said["content"]) for said in trajectory.opening_messages if said["role"] != "system"),
        prompt=trajectory.messages[0]["content"] if trajectory.messages[0]["role"] == "system" else "",
        turns=turns,
    )


def show_step(step: Step, rewards: Mapping[str, float] = {}) -> ShownStep:
    """Prepare a step for reading."""
    facts = step.facts
    return ShownStep(
        said=step.message.get("content") or "",
        calls=tuple(map(format_tool_call, read_tool_calls(step.message))),
        observations=step.observations,
        blocked=(*facts.blocked, *(["error"] if facts.error else [])),
        before=facts.progress_before,
        after=facts.progress_after,
        rewards=tuple((name, value) for name, value in rewards.items() if value),
        changed=facts.changed,
        met=facts.met,
    )


def format_tool_call(call: ToolCall) -> str:
    """A tool call as text: the code if code is its only argument, else name and arguments."""
    if call.malformed:
        return f"{call.name}({call.text})"
    if list(call.arguments) == ["code"] and isinstance(call.arguments["code"], str):
        return call.arguments["code"]
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
