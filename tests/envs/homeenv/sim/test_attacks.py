"""The corpus of attacks: each is refused by the rule it names, or prints what it should and no more.

After every one the host is as it was (a file, a variable, a port, processes, threads, names), it has spent little time and
memory of its own, and the very next snippet gives its right answer. The host is a process of its own here: where an
attack stalls it, and with it every thread that could say so, it is ended, and the test has failed.
"""

import builtins
import multiprocessing
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim import sandbox
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolset import Limits, RunResult
from homerl.envs.homeenv.sim.values import auditor as audit
from homerl.envs.homeenv.sim.values.auditor import RULES

HOME = HomeSampler.sample_test()
DEADLINE = 120  # seconds, for a snippet that may run for two
LIMITS = Limits(seconds=2)
SOON = {"time_limit": Limits(seconds=0.1), "output_limit": Limits(seconds=0.5)}  # for attacks that may run until then
MOST_SECONDS = 3  # of the host's own processor time
MOST_BYTES = 2 * LIMITS.memory  # by which the host may grow meanwhile
STALL = "stall"
REPEATED = re.compile(r"«([^«»]*)\*(\d+)»")
SECRET = "the secret of the host"
HOST_WORDS = (SECRET, "_Run", "_Part", "Traceback", "site-packages", "envs.", "/home", "/usr", "0x7f", "_unread")


def read_attacks() -> Iterator[Any]:
    """All attacks. Of those that run until a limit, which take longest, every third is tried by default."""
    limited = 0
    for family, attacks in yaml.safe_load(Path(__file__).with_name("attacks.yaml").read_text(encoding="utf-8")).items():
        for attack in attacks:
            runs_long = "time_limit" in attack["verdict"] or "memory_limit" in attack["verdict"]
            marks = [pytest.mark.long] if runs_long and limited % 3 else []
            limited += runs_long
            yield pytest.param(attack, id=f"{family}: {attack['name']}", marks=marks)


ATTACKS = [*read_attacks()]


class Host:
    """A process that runs attacks, and another where one of them has stalled it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.line, self.process = self._started()

    def _started(self) -> tuple[Connection, Any]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.folder), daemon=True)
        process.start()
        theirs.close()
        return ours, process

    def suffers(self, code: str, deadline: float = DEADLINE, limits: Limits = LIMITS) -> dict[str, Any]:
        """What comes of an attack, or a `TimeoutError` where the host hangs."""
        self.line.send((code, limits))
        if self.line.poll(deadline):
            return self.line.recv()
        self.end()
        self.line, self.process = self._started()
        raise TimeoutError(f"the host has stalled: {code}")

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("host"))
    yield host
    host.end()


def serve(line: Connection, folder: Path) -> None:
    """The host: runs what it is sent, and tells what came of it and whether it is unharmed itself."""
    with canaries(folder) as (words, look):
        before = look()
        while True:
            code, limits = line.recv()
            if code == STALL:
                hash(shared(60))  # in C, to the end of days, and no other thread's turn
            code = REPEATED.sub(lambda found: found[1] * int(found[2]), code)
            for word, value in words.items():
                code = code.replace(word, value)
            began, held = time.process_time(), resident(afresh=True)
            result, changed = attempt(code, limits)
            spent, grown, after = time.process_time() - began, resident() - held, look()
            reply = {
                "result": result,
                "changed": changed,
                "told": f"{result.output} {result.refusal} {result.error}".replace(words["CANARY_FILE"], ""),
                "code": code,
                "spent": spent,
                "grown": grown,
                "harmed": [part for part, state in after.items() if state != before[part]],
                "next": attempt("device('1001').set_brightness(77)\nprint(device('1001').brightness, 6 * 7)"),
            }
            before = after
            line.send(reply)


@contextmanager
def canaries(folder: Path) -> Iterator[tuple[dict, Any]]:
    """What attacks reach for: the words to put into their code, and a look at the state of the host."""
    file = folder / "canary"
    file.write_text(SECRET)
    os.environ["CANARY"] = SECRET
    os.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        words = {"CANARY_FILE": str(file), "CANARY_ENV": "CANARY", "CANARY_PORT": str(server.getsockname()[1])}
        attempt("pass")  # the pool's first worker
        yield words, lambda: host_state(folder, server)


def host_state(folder: Path, server: socket.socket) -> dict:
    try:
        connection = server.accept()
    except BlockingIOError:
        connection = None
    children, others = descendants()
    return {
        "files": {path.name: path.read_text() for path in folder.iterdir()},
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "connection": connection,
        "threads": {thread.name for thread in threading.enumerate()},
        "processes": children,
        "grandchildren": others,
        "names": [dict(vars(module)) for module in (builtins, sandbox, audit)],
    }


def descendants() -> tuple[set[str], list[int]]:
    """The names of this process's children, less the sandbox's workers, and the ids of what those have started."""
    names, others = set(), []
    for parent, child in started_below(os.getpid()):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if parent == os.getpid():
                names.add(psutil.Process(child).name())
            else:
                others.append(child)
    return names - {"monty"}, others


def started_below(pid: int) -> Iterator[tuple[int, int]]:
    """(parent, child), down from a process. psutil would look at all processes of the machine."""
    listed = [*Path(f"/proc/{pid}/task").glob("*/children")]
    if not listed:  # another system, or it has just ended
        with suppress(psutil.NoSuchProcess):
            yield from ((one.ppid(), one.pid) for one in psutil.Process(pid).children(recursive=True))
    for file in listed:
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, file.read_text().split()):
                yield pid, child
                yield from started_below(child)


def shared(levels: int) -> tuple:
    """A tuple that is small in memory and has two to the power of `levels` leaves."""
    whole: tuple = ()
    for _ in range(levels):
        whole = (whole, whole)
    return whole


def resident(afresh: bool = False) -> int:
    """The most bytes that this process has held, if asked from now on (none where there is no /proc)."""
    if not Path("/proc/self/clear_refs").exists():
        return 0
    if afresh:
        Path("/proc/self/clear_refs").write_text("5")
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10


def attempt(code: str, limits: Limits = LIMITS) -> tuple[RunResult, list[str]]:
    """(result, the changed slots)."""
    home = HOME.fork()
    result = run_code(code, home, limits)
    return result, [str(home.plan.slots[change.slot]) for change in HOME.diff(home)]


def test_the_corpus_is_large_and_well_formed():
    verdicts = {verdict for attack in ATTACKS for verdict in attack.values[0]["verdict"].split(" | ")}
    assert len(ATTACKS) >= 800 and verdicts <= {*RULES, "harmless"}
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_of_the_host_is_reached(attack, host):
    limits = next((limits for rule, limits in SOON.items() if rule in attack["verdict"]), LIMITS)
    found = host.suffers(attack["code"], limits=limits)
    result = found["result"]
    assert not found["harmed"] and found["changed"] == attack.get("changes", [])
    assert found["spent"] < MOST_SECONDS and found["grown"] < MOST_BYTES
    if attack["verdict"] == "harmless":
        assert result.refusal is None and result.output == attack.get("prints", "")
        assert (result.error or "").startswith(attack.get("error", "")) and bool(result.error) == ("error" in attack)
    else:
        assert result.refusal is not None and result.refusal.rule in attack["verdict"].split(" | ")
        assert result.error is None and len(result.refusal.message) < 1000
    assert len(found["told"]) < 10_000
    assert not [word for word in HOST_WORDS if word in found["told"] and word not in found["code"]]
    assert found["next"] == (RunResult("77 42\n"), ["1001.brightness"])


def test_a_host_that_stalls_is_found_out(tmp_path):
    host = Host(tmp_path)
    assert host.suffers("print(1)")["result"] == RunResult("1\n")
    with pytest.raises(TimeoutError):
        host.suffers(STALL, deadline=1)
    assert host.suffers("print(1)")["result"] == RunResult("1\n")
    host.end()
