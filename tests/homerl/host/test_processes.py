"""Processes end with the one that started them, however that one ended."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

FOLLOWER = (
    "import os, sys, time; from homerl.host.processes import die_with_process; die_with_process(int(sys.argv[1])); "
    "print(os.getpid(), flush=True); time.sleep(60)"
)
STARTER = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {FOLLOWER!r}, str(os.getpid())])
time.sleep(60)
"""


@pytest.fixture
def started():
    """A process, and one that it started and that is to end with it."""
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
    follower = psutil.Process(int(starter.stdout.readline()))
    yield starter, follower
    starter.kill()
    starter.wait()
    if follower.is_running():
        follower.kill()
    starter.stdout.close()


@pytest.mark.parametrize("reaped", [True, False])
def test_a_process_ends_with_its_starter(started, reaped: bool) -> None:
    starter, follower = started
    with pytest.raises(psutil.TimeoutExpired):
        follower.wait(0.3)  # as long as the starter lives, so does it
    starter.kill()
    if reaped:
        starter.wait()
    ended(follower)


def test_a_process_whose_starter_is_gone_ends_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    follower = subprocess.run([sys.executable, "-c", FOLLOWER, str(gone.pid)], timeout=250, check=False)
    assert follower.returncode == 1


def ended(process: psutil.Process) -> None:
    """Wait until it has ended, though nobody may reap it."""
    assert not psutil.wait_procs([process], timeout=100)[1] or process.status() == psutil.STATUS_ZOMBIE
