"""Commands in processes of their own that begin with homerl loaded, since to load it takes longer than most commands.

For each environment from which modules read something as they load, one process loads them and forks for each command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from weakref import finalize

READ_AT_LOADING = ("HOMERL_", "PYTHON", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")  # beginnings of names of variables
PROGRAM = """
import gc, json, os, sys
import homerl.cli.app, homerl.evaluate.suite, homerl.run.checks.rehearsal, homerl.manual.schema, homerl.run.stages
import homerl.view.bench_report
from homerl.worlds.registry import suites

suites()
gc.freeze()  # so that a child copies no page of what it only looks at
for line in sys.stdin:
    command = json.loads(line)
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(command["folder"])
os.environ.clear()
os.environ.update(command["environment"])
for number, path in enumerate((os.devnull, command["out"], command["err"])):
    os.dup2(os.open(path, os.O_RDWR), number)
sys.argv = ["homerl", *command["arguments"]]
homerl.cli.main()
"""


class Loaded:
    """A process that has loaded homerl in an environment. It ends with this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdin=pipe, stdout=pipe, text=True)
        finalize(self, self.process.communicate)

    def run(self, **command: object) -> int:
        """The exit code of a command."""
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())


@lru_cache(maxsize=3)
def _loaded(read: tuple[tuple[str, str], ...]) -> Loaded:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_LOADING)}
    return Loaded(kept | dict(read))


def homerl(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `homerl` with these arguments in a process, and with `more` in its environment."""
    environment = (dict(os.environ) if env is None else env) | more
    read = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ_AT_LOADING)))
    words = ["homerl", *map(str, arguments)]
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        files = {"folder": str(cwd or Path.cwd()), "out": out.name, "err": err.name}
        code = _loaded(read).run(arguments=words[1:], environment=environment, **files)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())
