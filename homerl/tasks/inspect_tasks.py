"""Suites as tasks of Inspect (the package `inspect-ai`): `inspect eval homerl/NAME --model ...`, with `_` for `-` in NAME.

Inspect finds this module by the entry point in pyproject.toml; nothing else imports it.

Invariants:
- There is one task for each suite that homerl ships or knows of. Its scores are those of `homerl bench run` on the same
  replies, and epoch k of a sample is run k - 1.
- A sample is scored by the state of its home. An episode that a server or the user spoiled is an error, and no score.
- Goals are in no sample: what its log shows of them was shown to the agent, or was measured after its last message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall, ToolInfo, ToolParams

from homerl.tasks.load_tasks import load_suite
from homerl.worlds.registry import known_suites


def make_inspect_task(suite: str, setting: str | None = None, count: int | None = None, seed: int = 0) -> Task:
    """A suite as a task of Inspect.

    Args:
        suite: The name of a suite, or a file that `homerl bench build` wrote.
        setting: One of the suite's settings, which decides on tools and prompt; None is the suite's first.
        count: The number of tasks, evenly spread over the suite; None is all.
        seed: The seed of the first epoch; the others follow it.

    Returns:
        The task, with the solver `play_home` and the scorer `score_home`.

    Example:
        inspect_ai.eval(make_inspect_task(name, count=20), model="openai/gpt-5")
    """
    samples = [
        Sample(task.sentence, id=task.id, metadata={"at": at, **task.labels})
        for at, task in enumerate(load_suite(suite, setting, count))
    ]
    return Task(samples, solver=play_home(suite, setting, count, seed), scorer=score_home(), name=suite.replace("-", "_"))


@solver
def play_home(suite: str, setting: str | None = None, count: int | None = None, seed: int = 0) -> Solver:
    """Lets the model act in the home until the episode is over. The person's answers are part of it."""
    tasks = load_suite(suite, setting, count)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        env = await tasks[state.metadata["at"]].start_async(seed + state.epoch - 1)
        state.messages = [*map(to_inspect_message, env.messages)]
        rewards: list[float] = []
        counts, outcome = True, None
        while not env.done:
            state.output = await get_model().generate(state.messages, tools=[*map(to_tool_info, env.tools)])
            state.messages.append(state.output.message)
            turn = await env.step_async(to_reply(state.output.message))
            state.messages += map(to_inspect_message, turn.new_messages[1:])
            rewards.append(turn.reward)
            counts, outcome = turn.counts, turn.outcome
            parts = {name: value for name, value in turn.rewards.items() if value}
            transcript().info({"reward": turn.reward, "parts": parts, "changed": list(turn.changed)}, source="home")
        if not counts:
            raise RuntimeError(f"the episode says nothing about the agent ({outcome}): play it again")
        state.metadata |= {"outcome": outcome, "progress": env.progress, "rewards": rewards}
        state.completed = True
        return state

    return solve


@scorer(
    metrics={
        "success": [mean(), stderr()], "progress": [mean(), stderr()], "reward": [mean(), stderr()], "steps": [mean()],
    }
)  # fmt: skip
def score_home() -> Scorer:
    """What the home is like in the end: `success` is the score of `homerl bench run`, `progress` the share of the goals."""

    async def score(state: TaskState, target: Target) -> Score:
        ended = state.metadata
        value = {
            "success": float(ended["outcome"] == "success"),
            "progress": ended["progress"],
            "reward": sum(ended["rewards"]),
            "steps": float(len(ended["rewards"])),
        }
        return Score(value=value, answer=state.output.completion, explanation=f"The episode ended with {ended['outcome']}.")

    return score


def to_inspect_message(message: Mapping[str, Any]) -> ChatMessage:
    """A message in OpenAI's form as Inspect has it."""
    role, content = message["role"], message.get("content") or ""
    if role == "tool":
        return ChatMessageTool(content=content, tool_call_id=message.get("tool_call_id"))
    if role == "assistant":
        calls = [
            ToolCall(call.get("id") or f"call_{at}", call["function"]["name"], json.loads(call["function"]["arguments"]))
            for at, call in enumerate(message.get("tool_calls") or ())
        ]
        return ChatMessageAssistant(content=content, tool_calls=calls or None)
    return ChatMessageSystem(content=content) if role == "system" else ChatMessageUser(content=content)


def to_tool_info(tool: Mapping[str, Any]) -> ToolInfo:
    """A tool's schema in OpenAI's form as Inspect has it."""
    function = tool["function"]
    parameters = ToolParams.model_validate(function.get("parameters") or {})
    return ToolInfo(name=function["name"], description=function.get("description", ""), parameters=parameters)


def to_reply(message: ChatMessageAssistant) -> dict[str, Any]:
    """The model's message in OpenAI's form."""
    calls = [
        {"id": call.id, "function": {"name": call.function, "arguments": json.dumps(call.arguments, ensure_ascii=False)}}
        for call in message.tool_calls or ()
    ]
    return {"role": "assistant", "content": message.text, "tool_calls": calls}


def _register_suites(names: Iterable[str]) -> dict[str, Callable[..., Task]]:
    """A task of Inspect for each suite, by its name there."""

    def register(suite: str) -> Callable[..., Task]:
        @task(name=suite.replace("-", "_"))
        def suite_task(setting: str | None = None, count: int | None = None, seed: int = 0) -> Task:
            return make_inspect_task(suite, setting, count, seed)

        registered: Callable[..., Task] = suite_task
        return registered

    return {name: register(name) for name in names}


SUITE_TASKS = _register_suites(known_suites())
