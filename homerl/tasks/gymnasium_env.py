"""Tasks as a Gymnasium environment. `import homerl.tasks` registers an id for each suite, and one for tasks that are made.

    import gymnasium as gym
    env = gym.make("homerl.tasks:homerl/NAME-v0")                 # NAME is a suite
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("I cannot do that.")

Invariants:
- The same seed and replies give the same observations and rewards, whatever was played before.
- The arguments of `gym.make` are plain data, so `env.spec.to_json()` works, and a process of a vector environment can make
  its own.
- An observation shows what an agent may see (`TaskEnv`). `info` has no goals either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym

from homerl.envs.core.documents import InputError
from homerl.envs.core.spaces import AnyText, JsonObjects
from homerl.tasks.load_tasks import load_suite, load_tasks
from homerl.tasks.task_env import AgentReply, Task, TaskEnv, Turn, read_reward_weights

MOST_SEED = 1 << 31


class GymnasiumTaskEnv(gym.Env[dict[str, Any], AgentReply]):
    """Tasks in play: `reset` draws one, and `step` takes the agent's next message.

    An observation has the user's last `sentence`, the dialogue so far as `messages`, and the schemas of the `tools`, both in
    OpenAI's form. An action is a text as a model writes it; `step` also takes a message or a list of calls, as
    `TaskEnv.step` does.

    Attributes:
        task_env: The task in play, which can be forked and restored; None before the first reset.
        turn: What the last reply led to; None before the first step.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        suite: str | None = None,
        source: str | Mapping[str, Any] | None = None,
        setting: str | None = None,
        count: int | None = None,
        rewards: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """The tasks of a suite, or of a source.

        Args:
            suite: What `homerl.load_suite` takes: a name or a file. The ids of suites have theirs.
            source: What `homerl.load_tasks` takes, in place of a suite: a recipe, a world's name or plain data.
            setting: A setting of the suite.
            count: The number of tasks; None is all of a suite, and 10,000 of a source.
            rewards: Weights and settings, as a recipe has them under `rewards`; None is the tasks' own.
            render_mode: "ansi", or None.
        """
        if (suite is None) == (source is None) or (source is not None and setting is not None):
            raise InputError("give a suite, which may have a setting, or a source", "gym.make")
        if suite is not None:
            self._tasks = load_suite(suite, setting, count)
        elif source is not None:
            self._tasks = load_tasks(source) if count is None else load_tasks(source, count)
        self._weights = None if rewards is None else read_reward_weights(rewards)
        self.observation_space = gym.spaces.Dict(sentence=AnyText(), messages=JsonObjects(), tools=JsonObjects())
        self.action_space = AnyText()
        self.render_mode = render_mode
        self.task_env: TaskEnv | None = None
        self.turn: Turn | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin a task; the user has spoken.

        Args:
            seed: Decides on the tasks that this and the next resets draw, and on the user's words.
            options: `{"task": INDEX}` names the task, with `{"seed": K}` as `homerl.Task.start` takes it (by default 0).
        """
        super().reset(seed=seed)
        options = options or {}
        if unknown := options.keys() - {"task", "seed"}:
            raise InputError(f"there is no option '{min(unknown)}'", "reset", "it takes `task` and `seed`")
        drawn, drawn_seed = int(self.np_random.integers(len(self._tasks))), int(self.np_random.integers(MOST_SEED))
        index = options.get("task", drawn)
        if not isinstance(index, int) or not 0 <= index < len(self._tasks):
            raise InputError(f"there is no task {index!r}", "reset", f"give an index from 0 to {len(self._tasks) - 1}")
        task: Task = self._tasks[index]
        if self._weights is not None:
            task = replace(task, weights=self._weights)
        self.task_env = task.start(options.get("seed", 0 if "task" in options else drawn_seed))
        self.turn = None
        return self._observe(), {"task": index, "id": task.id}

    def step(self, action: AgentReply) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Apply the agent's next message, and let the user answer if it is the user's turn.

        `terminated` says that the task ended, done or not: limits are part of it. `truncated` says that a server, the user
        or the world failed: leave the episode out. `info` has the parts of the reward, how the episode ended, and what
        changed in the home.
        """
        turn = self.turn = self._started().step(action)
        info = {"rewards": dict(turn.rewards), "outcome": turn.outcome or "", "changed": turn.changed}
        return self._observe(), turn.reward, turn.done and turn.counts, turn.done and not turn.counts, info

    def render(self) -> str | None:
        """The dialogue so far as a text, in the mode "ansi"."""
        if self.render_mode != "ansi":
            return None
        return "\n".join(_message_as_line(message) for message in self._started().messages if message["role"] != "system")

    def _started(self) -> TaskEnv:
        if self.task_env is None:
            raise gym.error.ResetNeeded("call reset first")
        return self.task_env

    def _observe(self) -> dict[str, Any]:
        messages = self._started().messages
        sentence = next((str(message["content"]) for message in messages[::-1] if message["role"] == "user"), "")
        return {"sentence": sentence, "messages": messages, "tools": self._started().tools}


def _message_as_line(message: Mapping[str, Any]) -> str:
    """A message in one line: who says what, and the calls."""
    functions = (call["function"] for call in message.get("tool_calls") or ())
    calls = (f"{function['name']}({function['arguments']})" for function in functions)
    return f"{message['role']}: {' '.join(filter(None, [str(message.get('content') or ''), *calls]))}"
