"""Commands and scripts in processes of their own that begin with homerl loaded, which takes longer than most of them.

For each environment from which modules read something as they load, one process loads them and forks for each command. All
commands without plug-ins have the same such environment, and begin with training loaded.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from weakref import finalize

from envs.plugins import ALL, VARIABLES

ROOT = Path(__file__).parents[2]
# Beginnings of names of variables that are read as modules load, and some that are alike for every command.
PLUGINS = (*VARIABLES.values(), ALL)
READ_AT_LOADING = (*PLUGINS, "PYTHON", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")
ALIKE = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
TRAINING = ("homerl.train.sft", "homerl.train.rlve")  # what takes seconds to load; checks of recipes that train do so
PROGRAM = """
import gc, importlib, json, os, runpy, signal, sys
import homerl.cli.app, homerl.evaluate.suite, homerl.run.checks.rehearsal, homerl.manual.schema, homerl.run.stages
import homerl.view.bench_report
from homerl.worlds.registry import suites

suites()
for line in sys.stdin:
    command = json.loads(line)
    for name in command["loads"]:
        importlib.import_module(name)
    gc.freeze()  # so that a child copies no page of what it only looks at
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
    homerl.cli.main()
else:
    if command["ranks"] > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Loaded:
    """A process that has loaded homerl in an environment. It ends with this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )
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
def _loaded(read: tuple[tuple[str, str], ...]) -> Loaded:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_LOADING)}
    return Loaded(kept | ALIKE | dict(read))


def _run(
    words: list[str], cwd: Path | None, environment: dict[str, str], loads: Sequence[str], ranks: int = 1
) -> subprocess.CompletedProcess[str]:
    environment = environment | ALIKE
    read = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ_AT_LOADING)))
    loads = TRAINING if environment.keys().isdisjoint(PLUGINS) else loads
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        files = {"folder": str(cwd or Path.cwd()), "out": out.name, "err": err.name}
        code = _loaded(read).run(arguments=words, environment=environment, loads=[*loads], ranks=ranks, **files)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def homerl(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, loads: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `homerl` with these arguments in a process that begins with `loads`, and with `more` in its environment."""
    return _run(["homerl", *map(str, arguments)], cwd, (dict(os.environ) if env is None else env) | more, loads)


def script(*arguments: object, cwd: Path, ranks: int = 1, **more: str) -> str:
    """What a Python file prints, in as many ranks as torchrun would start, with training loaded. Fails if one does."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | more
    if ranks > 1:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        world = str(ranks)
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    done = _run([*map(str, arguments)], cwd, environment, TRAINING, ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
