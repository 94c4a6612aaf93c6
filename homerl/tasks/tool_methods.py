"""A task's tools as methods with docstrings, for trainers that want them so: TRL's `environment_factory`.

Invariants:
- A class has one method for each tool, and no other public name but `reset`: a trainer takes every other one for a tool.
- A call is a step of its own. What a trainer cannot hand on is the agent's last words, so `score_tool_environments`, which
  is a reward function, says them.
- Such a trainer knows no second turn of the user, so a task ends with its first: take tasks of one wish.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

from homerl.tasks.task_env import Task, TaskEnv

PYTHON_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class ToolEnvironment:
    """A task in play whose tools are methods. `make_tool_environment` makes a class of them."""

    _tasks: Sequence[Task] = ()

    def __init__(self) -> None:
        self._env: TaskEnv | None = None
        self._reward = 0.0

    def reset(self, task: int, seed: int = 0, **_: Any) -> None:
        """Begin a task. `task` is its index, and `seed` that of the episode; other columns of a row are ignored."""
        self._env, self._reward = self._tasks[task].start(seed), 0.0

    def _run_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result of a call."""
        if self._env is None or self._env.done:
            return "refused: the episode is over"
        turn = self._env.step([{"name": name, "arguments": arguments}])
        self._reward += turn.reward
        return "\n".join(str(message["content"]) for message in turn.new_messages if message["role"] == "tool")

    def _say_last_words(self, words: str) -> float:
        """The rewards of all steps, after the agent's last words."""
        if self._env is not None and not self._env.done:
            self._reward += self._env.step(words).reward
        return self._reward


def make_tool_environment(tasks: Sequence[Task]) -> type[ToolEnvironment]:
    """A class whose instances play tasks, with a method for each tool.

    Args:
        tasks: The tasks. All are made now, since a home's tools depend on what it has: take a few hundred.

    Returns:
        The class, with the tools of all tasks. `reset(task=INDEX)` begins one; `score_tool_environments` is the reward
        function.

    Example:
        trainer = GRPOTrainer(model, score_tool_environments, args, Dataset.from_list(rows), tokenizer,
                              environment_factory=make_tool_environment(tasks))
    """
    known = [replace(task, limits=replace(task.limits, turns=1)) for task in tasks]
    tools = {tool["function"]["name"]: tool for task in known for tool in task.tools}
    return type(
        "HomeTools", (ToolEnvironment,), {name: _make_method(tool) for name, tool in tools.items()} | {"_tasks": known}
    )


def score_tool_environments(completions: Sequence[Any], environments: Sequence[ToolEnvironment], **_: Any) -> list[float]:
    """The return of each rollout: the sum of its steps' rewards. The last message of a completion is what the agent said."""
    last = (completion[-1] if isinstance(completion, list) else {"content": completion} for completion in completions)
    words = (message.get("content") or "" if message.get("role", "assistant") == "assistant" else "" for message in last)
    return [environment._say_last_words(said) for environment, said in zip(environments, words, strict=True)]


def _make_method(tool: Mapping[str, Any]) -> Callable[..., str]:
    """A method that makes a call of the tool, with a signature and a docstring from which its schema can be read."""
    function = tool["function"]
    schema = function.get("parameters") or {}
    required, parameters, lines = set(schema.get("required", ())), list[Parameter](), list[str]()
    for name, about in sorted((schema.get("properties") or {}).items(), key=lambda item: item[0] not in required):
        kind = about.get("type")
        type_ = PYTHON_TYPES.get(kind, str) if isinstance(kind, str) else str
        hint, default = (type_, Parameter.empty) if name in required else (type_ | None, None)
        parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint))
        choices = f" (choices: {json.dumps(about['enum'], ensure_ascii=False)})" if about.get("enum") else ""
        lines.append(f"    {name}: {' '.join(about.get('description', name).split())}{choices}")

    def call(self: ToolEnvironment, *given: Any, **named: Any) -> str:
        found = dict(zip((parameter.name for parameter in parameters), given)) | named
        return self._run_call(function["name"], {name: value for name, value in found.items() if value is not None})

    call.__name__ = call.__qualname__ = function["name"]
    call.__doc__ = "\n".join([" ".join(function.get("description", "").split()), "", *(["Args:", *lines] if lines else [])])
    itself = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    call.__signature__ = Signature([itself, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": str}
    return call
