"""Commands, recipes and scripts in processes of their own that begin with homerl loaded, which takes longer than most do.

One server, which all processes of a test session share, forks for each (`preloaded.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from uuid import uuid4

from envs.plugins import ALL, VARIABLES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BEFORE = dict(os.environ)  # before any test changes it
OURS = (*VARIABLES.values(), ALL, "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")  # variables that are read as homerl loads


@cache
def python() -> str:
    """A Python for programs of homerl, which runs them in forks. It stands wherever a path of a Python can stand."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = Path(tempfile.gettempdir(), f"homerl-{run or uuid4().hex}")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass  # another process of the session starts it
    else:
        (folder / "settings.json").write_text(json.dumps([sys.executable, str(ROOT), BEFORE, OURS]))
        program = folder / "python"
        program.write_text(f"#!{sys.executable} -IS\n{(HERE / 'quick_python.py').read_text()}")
        program.chmod(0o755)
        command = [sys.executable, HERE / "preloaded.py", folder, str(os.getppid() if run else os.getpid())]
        with (folder / "log").open("w") as log:
            environment = BEFORE | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
            subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
    until = time.monotonic() + 250
    while not (folder / "homerl").exists():
        assert time.monotonic() < until, (folder / "log").read_text()
        time.sleep(0.01)
    return str(folder / "python")


def homerl(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `homerl` with these arguments, and with `more` in its environment."""
    environment = (dict(os.environ) if env is None else env) | more
    command = [python(), "-m", "homerl.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def script(*arguments: object, cwd: Path, ranks: int = 1, **more: str) -> str:
    """What a Python file prints, in as many ranks as are asked for. Fails if one does."""
    several = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | more
    command = [python(), *several, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
