"""Commands and scripts in processes of their own that begin with libraries and homerl loaded, which takes longer than most.

One process loads the libraries. For each environment from which modules read something as they load, it forks a process that
loads homerl and forks for each command. One with plug-ins is forked when it is used a third time, since most are used once;
or at once if a test says that it is used often. All commands without plug-ins have the same such environment, and begin with
training loaded. Strings have other hashes there than in the process of the tests.
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
from functools import cache
from pathlib import Path
from weakref import finalize

from homerl.envs.core.plugins import ALL, VARIABLES

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("forking.py").read_text(encoding="utf-8")
# Beginnings of names of variables that are read as modules load, and some that are alike for every command.
PLUGINS = (*VARIABLES.values(), ALL)
READ_AT_LOADING = (*PLUGINS, "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")
ALIKE = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
HASHES = {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
TRAINING = ("homerl.train.update.sft", "homerl.train.update.rlve")  # what checks of recipes that train import


class Loaded:
    """A process that has loaded the libraries. It ends with this one."""

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


@cache
def _loaded() -> Loaded:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_LOADING)}
    return Loaded(kept | ALIKE | HASHES)


def _run(
    words: list[str],
    cwd: Path | None,
    environment: dict[str, str],
    loads: Sequence[str],
    ranks: int = 1,
    bare: bool = False,
    often: bool = False,
) -> subprocess.CompletedProcess[str]:
    environment = environment | ALIKE
    read = {name: environment[name] for name in sorted(environment) if name.startswith(READ_AT_LOADING)}
    plain = environment.keys().isdisjoint(PLUGINS)
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        code = _loaded().run(
            arguments=words,
            environment=environment,
            folder=str(cwd or Path.cwd()),
            out=out.name,
            err=err.name,
            read=read,
            often=plain or often,
            loads=[*(TRAINING if plain else loads)],
            ranks=ranks,
            bare=bare,
        )
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def homerl(
    *arguments: object,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    loads: Sequence[str] = (),
    often: bool = False,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run `homerl` with these arguments in a process that begins with `loads`, and with `more` in its environment.

    Plug-ins of an environment that is used `often` are named by absolute paths.
    """
    return _run(["homerl", *map(str, arguments)], cwd, (dict(os.environ) if env is None else env) | more, loads, often=often)


def python(
    text: str, *arguments: object, bare: bool = False, often: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -c` with this text and these arguments, and `more` in its environment; bare: without homerl."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | more
    return _run(["-c", text, *map(str, arguments)], ROOT, environment, (), bare=bare, often=often)


def script(*arguments: object, cwd: Path, ranks: int = 1, often: bool = False, **more: str) -> str:
    """What a Python file prints, in as many ranks as torchrun would start, with training loaded. Fails if one does."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | more
    if ranks > 1:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        world = str(ranks)
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    done = _run([*map(str, arguments)], cwd, environment, TRAINING, ranks, often=often)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
