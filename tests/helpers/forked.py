"""Commands and scripts in processes of their own that begin with homerl loaded, which takes longer than most of them.

One process loads what they need and forks for each. Plug-ins are loaded with homerl, so commands with plug-ins begin in
forks of another, which has loaded only the libraries.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from weakref import finalize

from envs.plugins import ALL, VARIABLES

ROOT = Path(__file__).parents[2]

# Beginnings of names of variables that are read as modules load, and what they are for all commands that say nothing else.
READ_AT_LOADING = ("PYTHON", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM", "HF_", "CUDA_")
ALIKE = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
PLUGINS = {*VARIABLES.values(), ALL}
LIBRARIES = ("gymnasium", "jinja2", "jsonschema", "pydantic_monty", "trl.trainer.sft_trainer", "typer", "yaml")
OURS = (
    "homerl.cli.app", "homerl.evaluate.suite", "homerl.manual.schema", "homerl.run.checks.rehearsal", "homerl.run.stages",
    "homerl.train.rlve", "homerl.train.sft", "homerl.view.bench_report",
)  # fmt: skip
PROGRAM = """
import gc, importlib, json, os, runpy, signal, sys

for name in sys.argv[1:]:
    importlib.import_module(name)
if "homerl.worlds" in sys.modules:
    from homerl.worlds.registry import suites
    suites()
gc.freeze()  # so that a child copies no page of what it only looks at
for line in sys.stdin:
    command = json.loads(line)
    children = []
    for rank in range(command["ranks"]):
        if not (child := os.fork()):
            break
        children.append(child)
    else:
        codes = []
        while len(codes) < len(children):  # a rank that fails ends the others, which may wait for it
            child, status = os.wait()
            codes.append(os.waitstatus_to_exitcode(status))
            for other in set(children) - {child} if codes[-1] and not any(codes[:-1]) else ():
                os.kill(other, signal.SIGKILL)
        print(next((code for code in codes if code), 0), flush=True)
        continue
    break
else:
    sys.exit()
os.chdir(command["folder"])
os.environ.clear()
os.environ.update(command["environment"])
for number, path in enumerate((os.devnull, command["out"], command["err"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)
sys.argv = command["arguments"]
if sys.argv[0] == "homerl":
    from homerl.cli import main
    main()
else:
    if command["ranks"] > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Loaded:
    """A process that has loaded modules in an environment. It ends with this one."""

    def __init__(self, environment: dict[str, str], *modules: str) -> None:
        command = [sys.executable, "-c", PROGRAM, *modules]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)
        finalize(self, self.process.communicate)

    def run(self, **command: object) -> int:
        """The exit code of a command. Whatever ends the wait, such as a test's time limit, ends the command."""
        try:
            print(json.dumps(command), file=self.process.stdin, flush=True)
            return int(self.process.stdout.readline())
        except BaseException:
            os.killpg(self.process.pid, signal.SIGKILL)
            _loaded.cache_clear()
            raise


@lru_cache(maxsize=3)
def _loaded(read: tuple[tuple[str, str], ...], plugins: bool) -> Loaded:
    kept = {name: os.environ[name] for name in os.environ.keys() - PLUGINS if not name.startswith(READ_AT_LOADING)}
    return Loaded(kept | dict(read), *LIBRARIES if plugins else OURS)


def _run(
    words: list[str], cwd: Path | None, environment: dict[str, str], ranks: int = 1
) -> subprocess.CompletedProcess[str]:
    environment = environment | ALIKE
    read = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ_AT_LOADING)))
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        files = {"folder": str(cwd or Path.cwd()), "out": out.name, "err": err.name}
        loaded = _loaded(read, plugins=not PLUGINS.isdisjoint(environment))
        code = loaded.run(arguments=words, environment=environment, ranks=ranks, **files)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def homerl(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `homerl` with these arguments in a process of its own, with `more` in its environment."""
    return _run(["homerl", *map(str, arguments)], cwd, (dict(os.environ) if env is None else env) | more)


def script(*arguments: object, cwd: Path, ranks: int = 1, **more: str) -> str:
    """What a Python file prints, in as many ranks as torchrun would start. Fails if one does."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | more
    if ranks > 1:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        world = str(ranks)
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    done = _run([*map(str, arguments)], cwd, environment, ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
