"""Agents' code: nothing of the host is reachable, limits hold, refusals have rules and cannot be swallowed."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pydantic_monty import Monty

from homerl.envs.core.world import WorldError
from homerl.envs.homeenv.maker.make import HomeRecipe, HomeSampler, make_home
from homerl.envs.homeenv.sim import sandbox
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolset import Limits, RunResult
from homerl.envs.homeenv.sim.values.auditor import RULES

HOME = HomeSampler.sample_test()
QUICK = Limits(seconds=0.2)


def run(code: str, limits: Limits = QUICK):
    """(result, the changed slots) on a fresh copy of the home."""
    home = HOME.fork()
    result = run_code(code, home, limits)
    return result, [str(home.plan.slots[change.slot]) for change in HOME.diff(home)]


RESTRICTED = [
    "import os", "import os.path as p", "from os import environ", "import sys", "import subprocess", "import random",
    "import builtins", "from . import x", "import homerl.envs.homeenv", "import time", "open('/etc/passwd')", "f = open",
    "eval('1')", "exec('1')", "compile('1', '', 'eval')", "__import__('os')", "getattr(device('1001'), 'state')",
    "setattr(device('1001'), 'state', 'off')", "delattr(device('1001'), 'state')", "hasattr(1, 'x')", "vars()", "dir()",
    "globals()", "locals()", "input()", "breakpoint()", "type(device('1001'))", "object()", "__builtins__",
    "device('1001').__class__", "().__class__.__mro__[1].__subclasses__()", "device.__globals__", "device('1001')._bridge",
    "device('1001')._did", "(lambda: 0).__code__", "class A: pass", "global x", "async def f(): pass",
]  # fmt: skip


@pytest.mark.parametrize("code", RESTRICTED)
def test_introspection_files_and_imports_are_refused_before_anything_runs(code):
    result, changed = run(f"device('1001').turn_off()\n{code}")
    assert result.refusal.rule == "restricted_code" and not changed and not result.output


@pytest.mark.parametrize(
    "code",
    [
        "device('1001').brightness = 80",
        "device('1001').brightness += 1",
        "del device('1001').state",
        "device('1001').turn_on = None",
        "for device('1001').brightness in [5]: pass",
        "x, device('1001').state = 1, 'off'",
        "d = device('1001')\nd.state: str = 'off'",
    ],
)
def test_attributes_cannot_be_written(code):
    result, changed = run(code)
    assert result.refusal.rule == "read_only" and not changed


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("device('9')", "unknown_device"),
        ("device(1001).turn_on()", "unknown_device"),
        ("device()", "unknown_device"),
        ("device(None)", "unknown_device"),
        ("device('x' * 100000)", "unknown_device"),
        ("device('1001').explode()", "unknown_service"),
        ("device('1001').state()", "unknown_service"),
        ("device('1001').volume", "unknown_attribute"),
        ("device('1001').turn_on", "unknown_attribute"),
        ("device('1001').light.turn_on()", "unknown_attribute"),
        ("device('1001').set_brightness()", "missing_argument"),
        ("device('1001').set_brightness(1, 2)", "unknown_argument"),
        ("device('1001').set_brightness(level=2)", "unknown_argument"),
        ("device('1001').set_brightness('2')", "wrong_type"),
        ("device('1001').set_brightness(True)", "wrong_type"),
        ("device('1001').set_brightness(device('1003'))", "wrong_type"),
        ("device('1001').set_brightness(lambda: 1)", "wrong_type"),
        ("device('1001').set_brightness(print)", "wrong_type"),
        ("device('1001').set_hs_color((1, float('nan')))", "wrong_type"),
        ("x = 1\nfor i in range(2000): x = [x]\ndevice('1001').set_hs_color(x)", "wrong_type"),
        ("device('1001').set_brightness(101)", "out_of_range"),
        ("device('1001').set_brightness(10 ** 400)", "out_of_range"),
        ("device('1001').set_brightness(10 ** 5000)", "out_of_range"),
        ("device('1001').set_hs_color((10 ** 400, 1))", "out_of_range"),
        ("device('1002').set_ac_mode('x' * 100000)", "out_of_range"),
        ("device('1003').set_brightness(5)", "precondition"),
        ("print(", "syntax"),
        ("(" * 3000, "syntax"),
        ("x = " + "-" * 5000 + "1", "syntax"),
        ("\x00", "syntax"),
        ("\ud800", "syntax"),
    ],
)
def test_each_wrong_call_is_refused_by_its_rule(code, rule):
    result, changed = run(code)
    assert result.refusal.rule == rule and rule in RULES and not changed and result.error is None
    assert len(str(result.refusal)) < 400 and " at 0x7" not in str(result.refusal)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("while True: pass", "time_limit"),
        ("while True:\n  try:\n    while True: pass\n  except BaseException:\n    pass", "time_limit"),
        ("x = [0]\nwhile True: x += x", "memory_limit"),
        ("x = 'a' * 10 ** 10", "memory_limit"),
        ("x = 10 ** 10 ** 9", "memory_limit"),
        (
            "x = []\nwhile True:\n  try:\n    x.append('a' * 10 ** 6)\n  except MemoryError:\n    pass",
            "memory_limit",
        ),
        ("while True: device('1001').state", "call_limit"),
        (
            "for i in range(400):\n  try:\n    device('1001').turn_on()\n  except Exception:\n    pass",
            "call_limit",
        ),
        ("print('x' * 5000)", "output_limit"),
        ("print('x' * 50000)", "output_limit"),
        ("while True: print('x' * 1000)", "output_limit"),
    ],
)
def test_loops_bombs_and_floods_are_stopped(code, rule):
    result, changed = run(code, Limits(seconds=20) if rule == "memory_limit" else QUICK)  # seconds are of the clock
    assert result.refusal.rule == rule and not changed
    assert len(result.output) < 4100


def test_the_pool_works_after_a_bomb():
    for _ in range(3):
        run("x = [0]\nwhile True: x += x")
        result, changed = run("device('1001').turn_off()")
        assert result.refusal is None and changed == ["1001.state"]


@pytest.mark.parametrize("caught", ["Exception", "BaseException", ""])
def test_a_refusal_cannot_be_swallowed(caught):
    result, changed = run(
        "device('1001').set_brightness(60)\n"
        f"try:\n  device('1001').set_brightness(1000)\nexcept {caught}:\n  print('caught')\n"
        f"try:\n  device('1003').turn_on()\nexcept {caught}:\n  pass\n"
        f"try:\n  print(device('1003').brightness)\nexcept {caught}:\n  pass\n"
        "device('1004').close()"
    )
    assert result.refusal.rule == "out_of_range", "the first refusal is the one that is told"
    assert changed == ["1001.brightness"], "what came before stands, what came after did not happen"


@pytest.mark.parametrize("code", ["device('1001').set_hs_color([1] * 1000)", "device('9')", "import os", "device('1001').x"])
def test_a_refusal_that_is_kept_keeps_no_frames(code):
    refusal = run(code)[0].refusal
    assert refusal.__traceback__ is None and refusal.__context__ is None


def test_a_refused_snippet_is_left_at_its_next_call():
    result, changed = run("while True:\n  try:\n    device('9')\n  except Exception:\n    print(50)")
    assert result.refusal.rule == "unknown_device" and result.output == "50\n" and not changed


def test_code_that_is_too_long_is_not_even_parsed(monkeypatch):
    monkeypatch.setattr(sandbox, "audit_code", None)
    result, _ = run("#" * 101, Limits(code=100))
    assert result.refusal.rule == "code_limit"


def test_finally_does_not_run_on():
    result, changed = run("try:\n  device('9').x()\nfinally:\n  device('1001').turn_off()")
    assert result.refusal.rule == "unknown_device" and not changed


def test_calls_before_an_error_stand_and_the_error_is_short():
    result, changed = run("device('1001').turn_off()\n1 / 0")
    assert changed == ["1001.state"] and result.refusal is None
    assert result.error == "line 2: ZeroDivisionError: division by zero"
    result, _ = run("raise Exception('x' * 100000)")
    assert len(result.error) < 4100


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the worker in /proc")
def test_a_worker_that_is_killed_is_not_the_agents_fault(monkeypatch):
    others = running_workers()  # of this process's own pool, which later tests use
    with Monty(max_processes=1) as pool:
        monkeypatch.setattr(sandbox, "_started_pool", lambda: pool)
        run("pass")
        workers = running_workers() - others
        assert len(workers) == 1
        killer = threading.Timer(0.2, lambda: [os.kill(pid, signal.SIGKILL) for pid in workers])
        killer.start()
        with pytest.raises(WorldError):
            run("while True: pass", Limits(seconds=2))
        killer.join()
        assert run("print(1)")[0].output == "1\n", "the pool has made a new one"


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the worker in /proc")
def test_code_that_crashes_the_sandbox_each_time_is_refused(monkeypatch):
    others, over = running_workers(), threading.Event()

    def kill() -> None:
        while not over.wait(0.2):
            for pid in running_workers() - others:
                os.kill(pid, signal.SIGKILL)

    with Monty(max_processes=1) as pool:
        monkeypatch.setattr(sandbox, "_started_pool", lambda: pool)
        killer = threading.Thread(target=kill)
        killer.start()
        result, changed = run("device('1001').turn_off()\nwhile True: pass", Limits(seconds=20))
        over.set()
        killer.join()
    assert result.refusal.rule == "restricted_code" and changed == ["1001.state"], "what came before stands"


def running_workers() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_worker(entry)}


def is_worker(entry: Path) -> bool:
    """Whether a process is a child of ours that is no Python."""
    try:
        parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and "monty" in (entry / "cmdline").read_text()
    except (OSError, IndexError):
        return False


ALIKE = [
    "device({}).turn_off()", "device(did={}).turn_off()", "device({}).nothing()", "device({}).brightness", "device({}).x",
    "device('1001').set_brightness({})", "device('1001').set_brightness(brightness={})", "device('1001').turn_on({})",
    "device('1001').set_brightness(5, {})", "device('1001').set_brightness(5, level={})", "device('1001').set_hs_color({})",
    "device('1001').set_hs_color(({}, 5))", "device('1001').set_hs_color([5, {}])", "device('1002').set_ac_mode({})",
    "print(f\"\"\"{{device('1001').set_brightness({})}}\"\"\")", "print(f\"\"\"{{device({}).state}}\"\"\")",
]  # fmt: skip
VALUES = [
    "'1001'", "'9'", "1001", "5", "5.5", "-5", "0", "-0.0", "101", "1e400", "True", "None", "...", "1j", "'5'", "b'5'", "''",
    "'é\\n\\'\\\\'", "'🏠'", "()", "[]", "(1, 2)", "[1, 2.5]", "(1, (2,))", "['x', None]", "'cool'", "'COOL'", "0x10",
    "99999999999999999999", "'x' 'y'",
]  # fmt: skip


@pytest.mark.parametrize("call", ALIKE)
def test_a_value_by_name_does_what_its_literal_does(call):
    """However arguments cross. Only what a message shows of them may differ: a sequence is a list by then."""
    for value in VALUES if '"""' not in call else [value for value in VALUES if "\\" not in value]:  # Python 3.11
        literal, changed = run(call.format(value))
        named, changed_too = run(f"x = {value}\n{call.format('x')}")
        assert changed == changed_too and literal.output == named.output, value
        assert (literal.refusal and literal.refusal.rule) == (named.refusal and named.refusal.rule), value
        assert (literal.error or "").replace("line 1", "line 2") == (named.error or ""), value


def test_services_of_components_take_values_by_name():
    home = make_home(1, HomeRecipe(devices=(1, 1), categories=("ac_gateway",)))
    did = home.plan.devices[0].did
    code = f"d = device('{did}')\nd.ac.turn_on()\nfor mode in ('cool', 'heat'):\n  d.ac.set_ac_mode(mode)\n"
    result = run_code(code + "print(d.ac.ac_mode, d.ac.state)", home)
    assert result == RunResult("heat on\n") and home.read_value(did, "ac.ac_mode") == "heat"
    refused = run_code(code + "d.ac.set_ac_mode(mode + '!')", home)
    assert refused.refusal.rule == "out_of_range"
    assert run_code(code + "d.set_ac_mode(mode)", home).refusal.rule == "unknown_service"


def test_lines_are_those_of_the_snippet():
    for code in ("device('1001')", "x = '1001'; device(x)", "x = 5; device('1001').set_brightness(x)"):
        assert run(f"\n{code}\n\n1 / 0")[0].error == "line 4: ZeroDivisionError: division by zero"
        within = run(f"def f():\n  {code}; 1 / 0\n\nf()")[0].error
        assert within == "line 2: ZeroDivisionError: division by zero"


def test_what_python_finds_odd_is_not_logged():
    code = "from homerl.envs.homeenv.sim.sandbox import audit_code; audit_code('x = (1or 2)\\n' * 900)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0 and done.stdout + done.stderr == ""


def test_a_refusal_crosses_to_other_processes():
    refusal = pickle.loads(pickle.dumps(run("device('9')")[0])).refusal
    assert refusal.rule == "unknown_device" and str(refusal) == "unknown_device: there is no device '9'"


def test_what_code_may_do():
    result, changed = run(
        "import math\nfrom json import dumps\n"
        "lamp = device('1001')\nlamp.set_hs_color([120, 50])\n"
        "def dim(d, by):\n  d.set_brightness(d.brightness - by)\n"
        "dim(lamp, 10)\n[d.turn_on() for d in (lamp, device('1003'))]\n"
        "print(f'{lamp.brightness} {dumps(lamp.hs_color)} {math.floor(2.5)}')"
    )
    assert result.output == "30 [120.0, 50.0] 2\n" and result.refusal is None and result.error is None
    assert changed == ["1001.brightness", "1001.hs_color", "1003.state"]


def test_a_name_of_ones_own_may_hide_device():
    result, changed = run("def device(did):\n  return did + '!'\nprint(device('1001'))")
    assert result.output == "1001!\n" and result.refusal is None and not changed


def test_what_code_sees_is_the_home_and_the_same_each_time():
    code = (
        "import datetime\nprint(datetime.datetime.now(), hash('a'), id(device), {'b', 'a', 'c'}, lambda: 1)\n"
        "print(device('1001'), '{0.__class__}'.format(3))"
    )
    first, _ = run(code)
    assert first.output.startswith("2025-06-01 20:30:00") and "/" not in first.output and "envs" not in first.output
    assert all(run(code)[0] == first for _ in range(3))


def test_format_reaches_nothing():
    for text in (
        "'{0._bridge}'",
        "'{0.__init__.__globals__}'",
        "'{0.call_method}'",
        "'{0.lookup_lazy_attrs}'",
    ):
        result, changed = run(f"print({text}.format(device('1001')))")
        assert "Bridge" not in result.output and "function" not in result.output and not changed
        assert result.refusal or result.error or not result.output.strip()
