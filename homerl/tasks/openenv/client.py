"""A client of `homerl serve-env --openenv`, with types. It needs the package `openenv`, and of homerl the base alone.
OpenEnv's own `GenericEnvClient` does the same with plain data.

    with TaskClient("http://127.0.0.1:8000") as client:
        result = client.reset(index=3, seed=1)
        while not result.done:
            result = client.step(my_model(result.observation.messages))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from homerl.tasks.openenv.messages import TaskAction, TaskObservation, TaskState


class TaskClient(EnvClient[TaskAction | Mapping[str, Any] | str, TaskObservation, TaskState]):
    """A session on a server of tasks. Its methods wait for their result; in a coroutine they are awaited.

    `reset` takes `split`, `index`, `seed` and `episode_id`. `step` takes a model's text, an assistant's message in OpenAI's
    form, or a `TaskAction`.
    """

    def _step_payload(self, action: TaskAction | Mapping[str, Any] | str) -> dict[str, Any]:
        if isinstance(action, str):
            return {"content": action}
        if isinstance(action, Mapping):
            return {name: action[name] for name in ("content", "tool_calls") if action.get(name) is not None}
        return dict(action.model_dump())

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TaskObservation]:
        seen = {name: payload.get(name) for name in ("reward", "done")}
        metadata = payload.get("metadata") or {}
        observation = TaskObservation(**payload["observation"], **seen, metadata=metadata)
        return StepResult(observation, payload.get("reward"), payload["done"], metadata)

    def _parse_state(self, payload: dict[str, Any]) -> TaskState:
        return TaskState(**payload)

    def fork(self) -> Any:
        """Keep the state of the episode on the server, which was started with `--fork`. Returns the id of the fork."""
        return self._dispatch(self._fork_async)

    def restore(self, fork_id: str) -> Any:
        """Go on from a fork, of this session or of another one of the server. Returns a result as `reset` does."""
        return self._dispatch(lambda: self._restore_async(fork_id))

    def state_key(self) -> Any:
        """The hash of the episode's state: equal states have equal keys."""
        return self._dispatch(self._state_key_async)

    async def _fork_async(self) -> str:
        return str((await self._send_and_receive({"type": "fork"}))["data"]["fork_id"])

    async def _restore_async(self, fork_id: str) -> StepResult[TaskObservation]:
        return self._parse_result((await self._send_and_receive({"type": "restore", "data": {"fork_id": fork_id}}))["data"])

    async def _state_key_async(self) -> str:
        return str((await self._send_and_receive({"type": "state_key"}))["data"]["state_key"])
