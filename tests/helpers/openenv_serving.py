"""A server of tasks by OpenEnv's protocol, as `homerl serve-env --openenv` starts it in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.tasks.task_env import Task
from homerl.worlds.contract import EXPERT
from homerl.worlds.registry import begin_episode, world_of
from homerl.worlds.users import ScriptedUser

PATIENT = {"connect_timeout_s": 120.0, "message_timeout_s": 240.0}  # clients on a busy machine
SIMPLE = {"toolset": "assist", "intents": [1, 1], "families": {"atomic": 1}, "home": {"devices": [3, 4]}}


def write_recipe(path: Path, recipe: dict[str, Any] = SIMPLE, **keys: Any) -> Path:
    """A recipe that makes such tasks."""
    path.write_text(json.dumps({"homerl": 1, "run": "rlve", "out": "runs/x", "blueprints": {"recipe": recipe}, **keys}))
    return path


@contextmanager
def openenv_server(source: object, *arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """(the process, its address), which it names on stderr."""
    command = [sys.executable, "-m", "homerl", "serve-env", "--openenv", str(source), "--port", "0", *arguments]
    served = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, env=os.environ | variables)
    try:
        assert served.stderr is not None
        line = served.stderr.readline()
        assert "http://" in line, line + served.stderr.read()
        yield served, line.split()[-1]
    finally:
        served.kill()
        served.communicate()


def open_socket(url: str, path: str = "/ws", **settings: Any) -> ClientConnection:
    """A plain WebSocket, for what no client of OpenEnv would send."""
    return connect(url.replace("http", "ws") + path, proxy=None, open_timeout=120, **settings)


def ask(socket: ClientConnection, message: Any) -> str:
    """The bytes of the answer to a message, which is sent as it is if it is text or bytes."""
    socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return str(socket.recv(timeout=240))


def expert_messages(task: Task, seed: int = 0) -> list[dict[str, Any]]:
    """What the scripted expert says in the task."""
    blueprint = task.blueprint.model_copy(update={"seed": task.blueprint.seed + seed})
    agent = world_of(blueprint).baselines[EXPERT]()
    played = asyncio.run(play(begin_episode(blueprint, task.limits), agent, ScriptedUser(blueprint.seed), blueprint.seed))
    return [Reply(step.message).message for step in played.steps]


def secrets_of_task(task: Task) -> list[str]:
    """What no agent may see: the goals, and what the user has yet to say."""
    first, *later = task.blueprint.intents
    unsaid = [sentence for intent in later for sentence in (*intent.queries, intent.clarification) if sentence]
    return [*first.conditions, *(text for intent in later for text in intent.conditions), *unsaid]


def step_message(message: dict[str, Any]) -> dict[str, Any]:
    """The step of an assistant's message, as it is on the wire."""
    return {"type": "step", "data": {name: message[name] for name in message if name != "role"}}
