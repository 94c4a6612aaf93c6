"""Tasks served by OpenEnv's protocol, by OpenEnv's own server: `homerl serve-env --openenv`. It stands on the tasks' public
interface (`task_env.py`) alone.

Invariants:
- A session is a client's own: its episode, its lock. What one client does or fails to do changes no other's episode.
- The requests of a session run one after the other, whatever channel they come by.
- MCP, which an agent gets, has the task's tools and nothing else. The trainer's WebSocket alone can begin an episode, and
  ask for its rewards. Goals, plans and progress stand in no answer of either.
- The same task, seed and actions give the same bytes in every process.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import RESERVED_TOOL_NAMES
from openenv.core.env_server.types import ConcurrencyConfig, EnvironmentMetadata
from openenv.core.utils import run_async_safely
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from homerl import __version__
from homerl.envs.core.documents import InputError
from homerl.host.terminal import print_error
from homerl.host.web_server import (
    BadRequest,
    ServerAddress,
    admit_request,
    is_loopback,
    open_listening_socket,
    read_key_variable,
    serve_until_stopped,
)
from homerl.tasks.load_tasks import load_splits
from homerl.tasks.openenv.forks import ForkMessages, ForkStore
from homerl.tasks.openenv.message_limits import LimitMessages
from homerl.tasks.openenv.messages import TaskAction, TaskObservation, TaskState
from homerl.tasks.task_env import AgentReply, Task, TaskEnv, TaskList, Turn

NAME = "homerl"  # in the addresses of OpenEnv's task API: /homerl/num_tasks
PREVIEW = 100  # tasks that `list_tasks` gives: to make each of a split of 10,000 takes minutes
IDLE = 3600.0  # seconds after which a session whose client says nothing is closed
KEPT = 256  # tasks that are kept, since the rollouts of a group begin the same one


class ServedTasks:
    """The tasks of a server: splits of them, made when they are asked for."""

    def __init__(self, splits: Mapping[str, TaskList]) -> None:
        self._splits = splits
        self._made = lru_cache(KEPT)(lambda split, index: splits[split][index])

    @property
    def splits(self) -> list[str]:
        """The names of the splits. The first is that of a `reset` which names none."""
        return [*self._splits]

    def find_split(self, split: str | None) -> str:
        """The split that was asked for. Raises `ValueError` if there is none of this name."""
        if split is None:
            return self.splits[0]
        if split not in self._splits:
            raise ValueError(f"there is no split {split!r}: take one of {', '.join(self._splits)}")
        return split

    def count(self, split: str) -> int:
        """The number of tasks of a split."""
        return len(self._splits[self.find_split(split)])

    def make_task(self, split: str | None, index: int) -> Task:
        """A task. Raises `IndexError` if the split has none of this index."""
        named = self.find_split(split)
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < self.count(named):
            raise IndexError(
                f"there is no task {index!r} in the split {named!r}: take an index from 0 to {self.count(named) - 1}"
            )
        return self._made(named, index)


@dataclass(frozen=True)
class EpisodeInPlay:
    """An episode of a session: the task in play, which task it is, and what each step earned."""

    env: TaskEnv
    about: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...] = ()

    def fork(self) -> EpisodeInPlay:
        """An exact and independent copy."""
        return replace(self, env=self.env.fork())


class TaskEnvironment(Environment[TaskAction, TaskObservation, TaskState]):
    """A session of a client. `reset` begins a task, and `step` takes the agent's messages until it is done."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: ServedTasks, forks: ForkStore[EpisodeInPlay] | None = None) -> None:
        super().__init__()
        self._tasks, self._forks = tasks, forks
        self._played: EpisodeInPlay | None = None
        self._episode_id: str | None = None
        self._closed = False
        self._shown: list[Mapping[str, Any]] = []
        self._turn = asyncio.Lock()
        self.mcp_client = ToolClient(self)

    # What OpenEnv's server calls

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> TaskObservation:
        """The same as `reset_async`, without an event loop."""
        return run_async_safely(self.reset_async(seed, episode_id, **options))  # type: ignore[no-any-return]

    def step(self, action: TaskAction, timeout_s: float | None = None, **options: Any) -> TaskObservation:
        """The same as `step_async`, without an event loop."""
        return run_async_safely(self.step_async(action, timeout_s))  # type: ignore[no-any-return]

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int = 0,
        **unknown: Any,
    ) -> TaskObservation:
        """Begin a task; the user has spoken.

        Args:
            seed: The seed of the episode, as `Task.start` takes it; None is 0.
            episode_id: A name that the state repeats.
            split: The split of the task; None is the server's first.
            index: The index of the task in its split.
            **unknown: None of these is known.
        """
        if unknown:
            what = ", ".join(map(repr, unknown))
            raise ValueError(f"`reset` knows no {what}: it takes seed, episode_id, split and index")
        number = 0 if seed is None else seed
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(f"the seed {seed!r} is no whole number from 0 on")
        async with self._turn:
            self._refuse_closed()
            task = await asyncio.to_thread(self._tasks.make_task, split, index)
            env = await asyncio.to_thread(task.start, number)
            about = {"split": self._tasks.find_split(split), "index": index, "task_id": task.id, "seed": number}
            if self._forks is not None:
                self._forks.drop_owned(self)
            self._played, self._episode_id = EpisodeInPlay(env, about | {"labels": dict(task.labels)}), episode_id
            return self._observe_all()

    async def step_async(self, action: TaskAction, timeout_s: float | None = None, **options: Any) -> TaskObservation:
        """Apply the agent's message, and let the user answer if it is the user's turn."""
        async with self._turn:
            turn = await self._apply({"role": "assistant", "content": action.content, "tool_calls": action.tool_calls})
            tools = self.offered_tools()
            return self._observe(turn.new_messages, tools if tools != self._shown else None, turn)

    @property
    def state(self) -> TaskState:
        """What the trainer may know of the episode."""
        if self._played is None:
            return TaskState(episode_id=self._episode_id)
        env, about = self._played.env, {name: it for name, it in self._played.about.items() if name != "labels"}
        steps = [dict(step) for step in self._played.steps]
        return TaskState(
            episode_id=self._episode_id, step_count=len(steps), outcome=env.outcome, counts=env.counts, steps=steps, **about
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """What the server says of itself."""
        return EnvironmentMetadata(
            name=NAME,
            description="Smart homes with people who want something: tools, a user, and a reward for each step.",
            version=__version__,
        )

    def close(self) -> None:
        """End the session."""
        self._played, self._closed = None, True
        if self._forks is not None:
            self._forks.drop_owned(self)

    # OpenEnv's task API

    def list_splits(self) -> list[dict[str, str]]:
        """The splits, each with its kind."""
        return [{"name": name, "type": "train" if name == "train" else "test"} for name in self._tasks.splits]

    def num_tasks(self, split: str) -> int:
        """The number of tasks of a split."""
        return self._tasks.count(split)

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        """The id and the labels of a task."""
        task = await asyncio.to_thread(self._tasks.make_task, split, index)
        return {"id": task.id, "index": index, "split": split, "labels": dict(task.labels)}

    async def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """The tasks of a range of indices, at most `PREVIEW`."""
        return await self._about_tasks(split, range(self.num_tasks(split))[start:stop])

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The first tasks of a split; `num_tasks` counts all."""
        return await self._about_tasks(split, range(self.num_tasks(split)))

    async def _about_tasks(self, split: str, indices: range) -> list[dict[str, Any]]:
        return [await self.get_task(split, index) for index in indices[:PREVIEW]]

    # MCP: what an agent gets

    def offered_tools(self) -> list[Mapping[str, Any]]:
        """The schemas of the tools that the agent may call now; before a reset, those of the first task."""
        return self._tasks.make_task(None, 0).tools if self._played is None else self._played.env.tools

    async def run_call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """The text of a call's result, and whether it was refused or failed."""
        async with self._turn:
            turn = await self._apply([{"name": name, "arguments": arguments}])
        texts = [str(message["content"]) for message in turn.new_messages if message["role"] == "tool"]
        failed = turn.facts is None or bool(turn.facts.blocked or turn.facts.error)
        return "\n".join(texts) or f"the episode is over ({turn.outcome})", failed

    # Forks: what `ForkMessages` calls

    async def keep_fork(self) -> dict[str, str]:
        """Keep a copy of the episode. Returns its id and its state key."""
        assert self._forks is not None
        async with self._turn:
            played = self._in_play()
            return {"fork_id": self._forks.keep(played.fork(), self), "state_key": played.env.state_key()}

    async def restore_fork(self, fork_id: str) -> TaskObservation:
        """Go on from a copy that was kept, by this session or another one. The copy stays."""
        assert self._forks is not None
        async with self._turn:
            self._refuse_closed()
            self._played = self._forks.find(fork_id).fork()
            return self._observe_all()

    async def read_state_key(self) -> dict[str, str]:
        """The hash of the episode's state."""
        async with self._turn:
            return {"state_key": self._in_play().env.state_key()}

    async def _apply(self, reply: AgentReply) -> Turn:
        played = self._in_play()
        turn = await played.env.step_async(reply)
        earned = {"reward": turn.reward, "rewards": dict(turn.rewards)}
        self._played = replace(played, steps=(*played.steps, earned))
        return turn

    def _in_play(self) -> EpisodeInPlay:
        self._refuse_closed()
        if self._played is None:
            raise ValueError("no task has begun in this session: call `reset` first")
        return self._played

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError(f"the session is closed, as by {IDLE:.0f} seconds without a request: connect again")

    def _observe_all(self) -> TaskObservation:
        """The prompt, or all that was said, and the tools."""
        return self._observe(self._in_play().env.messages, self.offered_tools(), None)

    def _observe(
        self, messages: Iterable[Mapping[str, Any]], tools: list[Mapping[str, Any]] | None, turn: Turn | None
    ) -> TaskObservation:
        played = self._in_play()
        if tools is not None:
            self._shown = tools
        about: dict[str, Any] = {"outcome": played.env.outcome, "counts": played.env.counts}
        about |= {"rewards": dict(turn.rewards), "changed": [*turn.changed]} if turn else played.about
        return TaskObservation(
            messages=[dict(message) for message in messages],
            tool_schemas=None if tools is None else [dict(tool) for tool in tools],
            done=played.env.done,
            reward=turn.reward if turn else None,
            metadata=about,
        )


class ToolClient(AbstractAsyncContextManager["ToolClient"]):
    """What OpenEnv's server asks of an MCP client: the tools of an episode, and calls of them."""

    def __init__(self, environment: TaskEnvironment) -> None:
        self._environment = environment

    async def __aexit__(self, *_: object) -> None:
        """There is no connection to close."""

    def is_connected(self) -> bool:
        """Always: the tools are in this process."""
        return True

    async def list_tools(self) -> list[dict[str, Any]]:
        """The tools in MCP's form."""
        listed = []
        for tool in await asyncio.to_thread(self._environment.offered_tools):
            function = tool["function"]
            if function["name"] in RESERVED_TOOL_NAMES:
                raise ValueError(f"OpenEnv reserves the name {function['name']!r}: take a toolset without such a tool")
            schema = function.get("parameters") or {"type": "object", "properties": {}}
            listed.append({"name": function["name"], "description": function.get("description", ""), "inputSchema": schema})
        return listed

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call in MCP's form; `data` is what OpenEnv's client gives its caller."""
        text, failed = await self._environment.run_call(name, arguments)
        return {"content": [{"type": "text", "text": text}], "isError": failed, "data": text}


class AdmitClients:
    """Passes on what comes from a program of this machine, or brings the key. No page in a browser is such a program."""

    def __init__(self, app: ASGIApp, address: ServerAddress) -> None:
        self._app, self._address = app, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it before anything reads it."""
        if scope["type"] in ("http", "websocket"):
            try:
                connection = HTTPConnection(scope)
                admit_request(connection, self._address)
                origin = connection.headers.get("origin")
                if self._address.key is None and origin and not is_loopback(urlsplit(origin).hostname or ""):
                    raise BadRequest(403, f"the page {origin} is not of this machine")
            except BadRequest as refused:
                if scope["type"] == "websocket":
                    await send({"type": "websocket.close", "code": 1008, "reason": str(refused)[:120]})
                else:
                    await JSONResponse({"detail": str(refused)}, refused.status, refused.headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def build_task_app(splits: Mapping[str, TaskList], sessions: int = 256, fork: bool = False) -> FastAPI:
    """The application that serves tasks by OpenEnv's protocol.

    Args:
        splits: Tasks by the name of their split, as `load_splits` gives them.
        sessions: The number of clients at once.
        fork: Whether a client may fork and restore episodes.

    Returns:
        The application, for any ASGI server.
    """
    tasks, forks = ServedTasks(splits), ForkStore[EpisodeInPlay]() if fork else None
    limits = ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=IDLE)
    server = SessionServer(partial(TaskEnvironment, tasks, forks), TaskAction, TaskObservation, limits)
    app = FastAPI(title="Smart homes by OpenEnv's protocol", version="1.0.0")  # the protocol's version, which is validated
    server.register_routes(app)
    for error in (ValueError, IndexError, TypeError):  # the last of a list as a session's name, which OpenEnv looks up
        app.add_exception_handler(error, _refuse_request)
    if fork:
        app.add_middleware(ForkMessages, server=server)
    app.add_middleware(LimitMessages)
    return app


class SessionServer(HTTPEnvServer):
    """OpenEnv's server, which tells the `ForkMessages` of a connection which session it has made."""

    def __init__(self, env: Any, action: Any, observation: Any, limits: ConcurrencyConfig) -> None:
        super().__init__(env, action, observation, concurrency_config=limits, env_name=NAME, state_cls=TaskState)

    async def _create_session(self) -> tuple[str, Environment[Any, Any, Any]]:
        session, environment = await super()._create_session()
        ForkMessages.connected.set(environment)
        return session, environment


async def _refuse_request(request: Request, error: Exception) -> JSONResponse:
    """The answer of OpenEnv's HTTP routes to what cannot be done."""
    return JSONResponse({"detail": str(error)}, 422)


def serve_tasks_over_openenv(
    source: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    key_variable: str | None = None,
    sessions: int = 256,
    fork: bool = False,
) -> None:
    """Serve the tasks of a source, as `load_splits` takes it, until the process gets SIGTERM or SIGINT.

    Raises `InputError` if there are no such tasks, the port cannot be opened, or others could reach it without a key.
    """
    address = ServerAddress(host, port, read_key_variable(key_variable))
    splits = load_splits(source)
    app = build_task_app(splits, sessions, fork)
    try:
        listener = open_listening_socket(address)
    except OverflowError as error:
        raise InputError(str(error), f"--port {port}", "choose another port, or 0 for any free one") from None
    app.add_middleware(AdmitClients, address=address)
    counts = ", ".join(f"{len(tasks)} of {name}" for name, tasks in splits.items())
    print_error(
        f"{source}: tasks by split: {counts}; OpenEnv at http://{address.bracketed_host}:{listener.getsockname()[1]}"
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn handles these signals, and raises them again when it has stopped
    asyncio.run(serve_until_stopped(app, listener))
