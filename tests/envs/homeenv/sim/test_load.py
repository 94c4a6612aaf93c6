"""The sandbox under load: many threads and processes, one snippet in ten hostile. Limits hold, nothing leaks."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim import sandbox
from homerl.envs.homeenv.sim.sandbox import SandboxWorkers, make_worker_pool, run_code
from homerl.envs.homeenv.sim.toolset import Limits

HOME = HomeSampler.sample_test()
LIMITS = Limits(seconds=0.5)
WORKERS = 8
ROOM = 32 << 20  # bytes that a process may hold after the load beyond what it held before
SHARED = "x = 'a'\nfor i in range(60):\n  x = [x, x]\n"
HOSTILE = {
    "while True:\n  pass": {"time_limit"},
    "import math\nwhile True:\n  math.factorial(3000)": {"time_limit"},
    f"{SHARED}x == [[]] or x < x": {"time_limit", "RecursionError"},
    "x = [0]\nwhile True:\n  x += x": {"memory_limit", "time_limit"},
    "x = 'a' * 10 ** 10": {"memory_limit"},
    f"{SHARED}repr(x)": {"memory_limit", "time_limit"},  # the worker ends itself, or is ended
    "while True:\n  print('x' * 1000)": {"output_limit"},
    "while True:\n  device('1001').state": {"call_limit"},
    "while True:\n  try:\n    device('1001').set_hs_color([1] * 10 ** 5)\n  except Exception:\n    pass": {"out_of_range"},
    f"{SHARED}device(x)": {"time_limit", "memory_limit"},
    "x = ('a',)\nfor i in range(60):\n  x = (x, x)\ndevice('1001').set_hs_color({x: 1})": {"wrong_type"},
    "device({i * (2 ** 61 - 1) for i in range(1, 5000)})": {"unknown_device"},
    "x = 'a' * 10 ** 6\ndevice('1001').explode(x)": {"unknown_service", "time_limit"},  # much to carry for a busy machine
    "def f():\n  f()\nf()": {"RecursionError"},
    "raise SystemExit": {"RuntimeError", "SystemExit"},
}

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts processes in /proc")


def snippet(number: int) -> str | None:
    """Run the snippet of this number; what is wrong with its result, if anything."""
    home = HOME.fork()
    if number % 10:
        level = number % 100 + 1
        result = run_code(f"device('1001').set_brightness({level})\nprint(device('1001').brightness * 2)", home, LIMITS)
        right = result == sandbox.RunResult(f"{2 * level}\n") and home.read_value("1001", "brightness") == level
        return None if right else f"{number}: {result}"
    code, expected = list(HOSTILE.items())[number // 10 % len(HOSTILE)]
    result = run_code(code, home, LIMITS)
    met = result.refusal.rule if result.refusal else str(result.error)
    right = any(name in met for name in expected)
    return None if right and home.state_key() == HOME.state_key() else f"{code}: {result}"


def processes(parent: int) -> dict[int, str]:
    """The child processes of a process, by id, with their states (Z: a zombie)."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, owner = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has just ended
        if int(owner) == parent:
            found[int(stat.parent.name)] = state
    return found


def resident(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def play(numbers: range) -> list[str]:
    with ThreadPoolExecutor(WORKERS) as threads:
        return [wrong for wrong in threads.map(snippet, numbers) if wrong]


@pytest.mark.parametrize("snippets", [pytest.param(60, id="few"), pytest.param(10_000, id="many", marks=pytest.mark.long)])
@pytest.mark.timeout(1500)
def test_threads(monkeypatch, snippets):
    with make_worker_pool() as pool, pool.checkout() as session:
        session.feed_run("1")  # the first pool opens what all later ones share
    others, open_before = set(processes(os.getpid())), descriptors()
    with make_worker_pool() as pool:
        monkeypatch.setattr(sandbox, "_started_pool", lambda: pool)
        warm = max(20 * len(HOSTILE), snippets // 4)
        assert play(range(warm)) == [], "each attack twice at least: the allocator has had its fill"
        held = resident()
        assert play(range(warm, snippets + warm)) == []
        workers = {pid: state for pid, state in processes(os.getpid()).items() if pid not in others}
        assert 1 <= len(workers) <= max(4, os.cpu_count()) and "Z" not in workers.values()
        assert all(resident(pid) < LIMITS.memory + ROOM for pid in workers)
        assert resident() < held + ROOM
    assert set(processes(os.getpid())) <= others, "no worker outlives its pool"
    assert descriptors() <= open_before


def play_in_child(numbers: range) -> tuple[list[str], list[int]]:
    return play(numbers), list(processes(os.getpid()))


@pytest.mark.long
@pytest.mark.parametrize(("children", "snippets"), [pytest.param(2, 60, id="few"), pytest.param(8, 10_000, id="many")])
@pytest.mark.timeout(1500)
def test_processes(children, snippets):
    share = snippets // children
    parts = [range(i * share, (i + 1) * share) for i in range(children)]
    with ProcessPoolExecutor(children, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(play_in_child, parts))
    assert [wrong for wrongs, _ in found for wrong in wrongs] == []
    workers = [pid for _, pids in found for pid in pids]
    assert len(workers) >= children and ended(workers), "workers end with the process that made them"


def ended(pids: list[int], deadline: float = 20) -> bool:
    """Whether all the processes end in time."""
    latest = time.monotonic() + deadline
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > latest:
            return False
        time.sleep(0.05)
    return True


FORKS = """
import os, sys
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.core.world import WorldError

home = HomeSampler.sample_test()
run_code("print(1)", home)
child = os.fork()
if not child:
    try:
        run_code("print(2)", home)
    except WorldError as error:
        sys.exit(7 if "forked" in str(error) else 8)  # exit functions run, and everything is taken down
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(run_code("print(3)", home).output)
"""


def test_a_forked_child_is_told_so_and_spares_the_parents_workers():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=250)
    assert done.stdout == "3\n\n", done.stderr


def test_threads_that_start_together_share_one_pool(monkeypatch):
    made: Counter = Counter()

    def slowly():
        made["pools"] += 1
        time.sleep(0.1)
        return make_worker_pool()

    workers = SandboxWorkers(slowly)
    monkeypatch.setattr(sandbox, "_started_pool", workers.started_pool)
    assert play(range(1, 10)) == [] and made["pools"] == 1
    workers.stop_pool()
