"""Runs Python programs in forks of processes that have loaded what takes longer to load than most programs to run.

`python preloaded.py FOLDER PID` listens at the socket `FOLDER/libraries`, with the libraries loaded, and at `FOLDER/homerl`,
with homerl loaded too, as it loads in an environment without plug-ins. For another environment a process of its own loads
homerl once a second program asks. A client (`quick_python.py`) hands over its words, folder, environment and standard
streams; what it then writes are signals for the program. If it goes away, the program is killed. All ends after process PID.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

QUIET = {
    "TRANSFORMERS_VERBOSITY": "error", "DATASETS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_OFFLINE": "1",
}  # fmt: skip
LIBRARIES = (
    "torch", "transformers.trainer", "transformers.models.auto.modeling_auto", "transformers.models.qwen3.modeling_qwen3",
    "trl.trainer.sft_trainer", "trl.trainer.utils", "peft", "accelerate", "accelerate.commands.launch", "datasets",
    "torch.distributed.run", "openai", "uvicorn", "starlette.applications", "starlette.routing", "pydantic", "typer",
    "rich.table", "rich.status", "jinja2", "jsonschema", "numpy", "hassil", "croniter", "pydantic_monty", "gymnasium",
)  # fmt: skip
HOMERL = (
    "homerl.cli.app", "homerl.evaluate.suite", "homerl.run.checks.rehearsal", "homerl.manual.schema", "homerl.run.stages",
    "homerl.run.launch", "homerl.view.bench_report", "homerl.train.sft", "homerl.train.rlve", "homerl.worlds.registry",
)  # fmt: skip
Program = tuple[dict[str, Any], list[int]]  # what a client sends: a program, and its standard streams


def main(folder: Path, watched: int) -> Program:
    """Serve until process `watched` has ended. Returns in each process that is to be a program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(QUIET)
    listener = listening(folder / "libraries")
    load(LIBRARIES)
    if os.fork():
        return serve(listener, folder, watched)
    listener.close()
    return serve_loaded(folder / "homerl", watched)


def serve_loaded(path: Path, watched: int) -> Program:
    """Load homerl and serve at a path."""
    load(HOMERL)
    sys.modules["homerl.worlds.registry"].suites()
    typer = sys.modules["typer.main"]
    typer.get_command = cache(typer.get_command)
    typer.get_command(sys.modules["homerl.cli.app"].app)
    gc.freeze()
    return serve(listening(path), path.parent, watched)


def listening(path: Path) -> socket.socket:
    """A socket at a path, which is there only when it can be connected to."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(100)
    Path(f"{path}.new").rename(path)
    return listener


def load(modules: Sequence[str]) -> None:
    gc.disable()
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # so that a child copies no page of what it only looks at
    gc.enable()


def serve(listener: socket.socket, folder: Path, watched: int) -> Program:
    """Fork for each client, until process `watched` has ended. Returns in the processes that are to be programs."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that look after programs
    while True:
        if select.select([listener], [], [], 1)[0]:
            client = listener.accept()[0]
            if not os.fork():
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return look_after(client, folder, watched)
            client.close()
        elif not is_alive(watched):
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def look_after(client: socket.socket, folder: Path, watched: int) -> Program:
    """Run the program of a client and tell how it ended. Returns in the process that is to be the program."""
    head, streams, *_ = socket.recv_fds(client, 4, 3)
    with client.makefile("rb") as sent:
        program = json.loads(sent.read(struct.unpack("!I", head)[0]))
    if not (child := os.fork()):
        client.close()
        os.setpgid(0, 0)
        return program, streams
    for stream in streams:
        os.close(stream)
    if is_second(folder / program["server"]) and not os.fork():
        client.close()
        os.environ.update(program["read"])
        return serve_loaded(folder / program["server"], watched)
    threading.Thread(target=pass_on, args=(client, child), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        client.sendall(str(code).encode())
    os._exit(0)


def is_second(path: Path) -> bool:
    """Whether a program is the second that wants a server at a path where none is."""
    for number in ("first", "second"):
        with suppress(FileExistsError):
            Path(f"{path}.{number}").mkdir()
            return number == "second" and not path.exists()
    return False


def pass_on(client: socket.socket, child: int) -> None:
    """Pass on what signals a client gets. Where it goes away, its program is killed with all that is in its group."""
    while number := client.recv(1):
        os.kill(child, number[0])
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def become(program: dict[str, Any], streams: list[int]) -> None:
    """Make this process as Python would begin the program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(program["folder"])
    own = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ.clear()
    os.environ.update(program["environment"])
    given = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = given + [entry for entry in sys.path[1:] if entry not in own]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1 if os.isatty(1) else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.executable = program["python"]
    sys.orig_argv = [program["python"], *program["words"]]


def leave(code: Any) -> None:
    """End this process as Python would, but for the destruction of all that was loaded, which takes most of a second."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # wait for threads
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def run(words: list[str]) -> None:
    """Run `-c CODE ...`, `-m MODULE ...` or `FILE ...`."""
    if words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})
    elif words[0] == "-m":
        if "accelerate" in words[1]:
            importlib.import_module("homerl_hook").quieten(sys.orig_argv)  # as its .pth does when Python starts
        sys.path.insert(0, str(Path.cwd()))
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        if not words[0].endswith((".yaml", ".yml")):  # a recipe's hook puts nothing there
            sys.path.insert(0, str(Path(words[0]).absolute().parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    begun, handed = main(Path(sys.argv[1]), int(sys.argv[2]))
    become(begun, handed)
    try:
        run(begun["words"])
    except SystemExit as ended:
        leave(ended.code)
    leave(None)
