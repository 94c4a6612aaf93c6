"""The corpus of attacks: each is refused by the rule it names, or prints what it should and no more.

After every one the host is as it was (a file, a variable, a port, processes, threads, names), and the very
next snippet gives its right answer.
"""

import builtins
import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from envs.homeenv import audit, sandbox
from envs.homeenv.audit import RULES
from envs.homeenv.sandbox import Limits, RunResult, run_code
from envs.homemaker.make import HomeSampler

HOME = HomeSampler.sample_test()
DEADLINE = 30  # seconds, for a snippet that may run for half a one
LIMITS = Limits(seconds=0.5)
REPEATED = re.compile(r"«([^«»]*)\*(\d+)»")
SECRET = "the secret of the host"
HOST_WORDS = (SECRET, "_Bridge", "_Part", "Traceback", "site-packages", "envs.", "/home", "/usr", "0x7f")
ATTACKS = [
    pytest.param(attack, id=f"{family}: {attack['name']}")
    for family, attacks in yaml.safe_load(Path(__file__).with_name("attacks.yaml").read_text(encoding="utf-8")).items()
    for attack in attacks
]


@pytest.fixture(scope="module")
def canaries(tmp_path_factory):
    """What attacks reach for: the words to put into their code, and a look at the state of the host."""
    folder = tmp_path_factory.mktemp("host")
    file = folder / "canary"
    file.write_text(SECRET)
    before = Path.cwd()
    os.environ["CANARY"] = SECRET
    os.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        words = {"CANARY_FILE": str(file), "CANARY_ENV": "CANARY", "CANARY_PORT": str(server.getsockname()[1])}
        run_code("pass", HOME.fork())  # the pool's first worker
        yield words, lambda: host_state(folder, server)
    os.chdir(before)
    del os.environ["CANARY"]


def host_state(folder: Path, server: socket.socket) -> dict:
    try:
        connection = server.accept()
    except BlockingIOError:
        connection = None
    return {
        "files": {path.name: path.read_text() for path in folder.iterdir()},
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "connection": connection,
        "threads": {thread.name for thread in threading.enumerate() if not thread.name.startswith("snippet")},
        "processes": {name for name in children(os.getpid()).values() if name != "monty"},
        "grandchildren": [pid for child in children(os.getpid()) for pid in children(child)],
        "names": [dict(vars(module)) for module in (builtins, sandbox, audit)],
    }


def children(parent: int) -> dict[int, str]:
    """The child processes of a process, by id, with their names (none where there is no /proc)."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # it has just ended
        if int(rest.split()[1]) == parent:
            found[int(stat.parent.name)] = name
    return found


def attempt(code: str) -> tuple[RunResult, list[str]]:
    """(result, the changed slots), or a `TimeoutError` where the sandbox hangs."""
    home = HOME.fork()
    runner = ThreadPoolExecutor(1, "snippet")
    try:
        result = runner.submit(run_code, code, home, LIMITS).result(DEADLINE)
    finally:
        runner.shutdown(wait=False)
    return result, [str(home.plan.slots[change.slot]) for change in HOME.diff(home)]


def test_the_corpus_is_large_and_well_formed():
    verdicts = {verdict for attack in ATTACKS for verdict in attack.values[0]["verdict"].split(" | ")}
    assert len(ATTACKS) >= 150 and verdicts <= {*RULES, "harmless"}
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_of_the_host_is_reached(attack, canaries):
    words, look = canaries
    code = REPEATED.sub(lambda found: found[1] * int(found[2]), attack["code"])
    for word, value in words.items():
        code = code.replace(word, value)
    before = look()
    result, changed = attempt(code)
    assert look() == before
    assert changed == attack.get("changes", [])
    if attack["verdict"] == "harmless":
        assert result.refusal is None and result.output == attack.get("prints", "")
        assert (result.error or "").startswith(attack.get("error", "")) and bool(result.error) == ("error" in attack)
    else:
        assert result.refusal is not None and result.refusal.rule in attack["verdict"].split(" | ")
        assert result.error is None and len(result.refusal.message) < 1000
    told = f"{result.output} {result.refusal} {result.error}".replace(words["CANARY_FILE"], "")
    assert len(told) < 10_000 and not [word for word in HOST_WORDS if word in told and word not in code]
    after, changed = attempt("device('1001').set_brightness(77)\nprint(device('1001').brightness, 6 * 7)")
    assert after == RunResult("77 42\n") and changed == ["1001.brightness"]
