"""The quick Python of tests is a Python: words, folder, environment, streams, signals and exit codes pass as through one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from forked import ROOT, homerl, python

TELL = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ.get('A'), sys.stdin.read(), 'torch' in sys.modules)"


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python(), *words], capture_output=True, text=True, **options)


def test_a_program_gets_what_a_python_would_give_it(tmp_path: Path) -> None:
    done = run("-c", TELL, "é", "2", cwd=tmp_path, env=os.environ | {"A": "b"}, input="in")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"['é', '2'] {tmp_path} b in True\n", "")
    (tmp_path / "beside.py").write_text("word = 'beside'")
    (tmp_path / "script.py").write_text("import beside, sys; print(beside.word, sys.argv)")
    assert run("script.py", "x", cwd=tmp_path).stdout == "beside ['script.py', 'x']\n"


@pytest.mark.parametrize(
    ("code", "ends", "says"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import atexit, sys; atexit.register(print, 'late', file=sys.stderr)", 0, "late\n"),
    ],
)
def test_it_ends_as_the_program_ends(code: str, ends: int, says: str) -> None:
    done = run("-c", code)
    assert done.returncode == ends and done.stderr.endswith(says) and bool(done.stderr) == bool(says)


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, 7), (signal.SIGTERM, -signal.SIGTERM)])
def test_signals_are_passed_on(number: signal.Signals, ends: int) -> None:
    code = "import time\ntry:\n    print('begun', flush=True)\n    time.sleep(250)\nexcept KeyboardInterrupt:\n    exit(7)"
    with subprocess.Popen([python(), "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout and program.stdout.readline() == "begun\n"
        program.send_signal(number)
        assert program.wait(250) == ends


def test_a_program_is_killed_with_its_client() -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(250)"
    with subprocess.Popen([python(), "-c", code], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout
        program = int(client.stdout.readline())
        client.kill()
    until = time.monotonic() + 200
    while psutil.pid_exists(program):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_python_reads_as_it_starts_is_read_by_a_real_one(tmp_path: Path) -> None:
    done = run(
        "-c", "import sys; print(sys.executable, sys.flags.hash_randomization)", env=os.environ | {"PYTHONHASHSEED": "0"}
    )
    assert done.stdout == f"{sys.executable} 0\n"
    (tmp_path / "homerl").mkdir()
    (tmp_path / "homerl/__init__.py").write_text("print('another')")
    assert run("-c", "import homerl", cwd=tmp_path).stdout == "another\n"


def test_plug_ins_of_the_environment_are_loaded(tmp_path: Path) -> None:
    shown = "import sys; from homerl.worlds.registry import worlds; print('lamp' in worlds())"
    for folder, has in ((ROOT / "tests/worlds", "True\n"), (tmp_path, "False\n")):
        assert run("-c", shown, env=os.environ | {"HOMERL_WORLDS": str(folder)}).stdout == has
    assert homerl("check", "missing.yaml", COLUMNS="30", FORCE_COLOR="1").stderr.count("\n") > 5
