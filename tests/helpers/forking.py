"""The program of `forked`: it reads commands as lines of JSON, runs each in a process that it forks, and prints the code.

It loads libraries alone. The first command of an environment that is used often makes it fork a process that loads homerl
there and runs the commands of this environment in its turn. A command that is bare begins with the libraries alone.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

import gymnasium  # noqa: F401
import hassil.expression  # noqa: F401
import jinja2  # noqa: F401
import jsonschema  # noqa: F401
import typer.main
from trl import SFTTrainer  # noqa: F401

COMMANDS = (
    "homerl.app.cli.app",
    "homerl.app.play_suite",
    "homerl.app.runs.rehearsal",
    "homerl.app.recipe_reference",
    "homerl.app.runs.stages",
    "homerl.report.pages.bench_report",
)


def ended(children: list[int]) -> int:
    """The first code of these processes that is not 0. One that fails ends the others, which may wait for it."""
    codes: list[int] = []
    while len(codes) < len(children):
        child, status = os.wait()
        codes += [os.waitstatus_to_exitcode(status)] if child in children else []
        for other in set(children) - {child} if codes and codes[-1] and not any(codes[:-1]) else ():
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
    return next((code for code in codes if code), 0)


def load(read: dict[str, str]) -> None:
    """Load what commands load in this environment. What cannot be loaded is said by the command that needs it."""
    os.environ.update(read)
    with suppress(Exception):
        for name in COMMANDS:
            importlib.import_module(name)
        importlib.import_module("homerl.worlds.registry").suites()
        typer.main.get_command = cache(typer.main.get_command)
        typer.main.get_command(importlib.import_module("homerl.app.cli.app").app)


def become(command: dict, rank: int) -> None:
    """Do in this process what the command says."""
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    for number, path in enumerate((os.devnull, command["out"], command["err"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)
    sys.argv = command["arguments"]
    if sys.argv[0] == "homerl":
        importlib.import_module("homerl.app.cli").main()
    elif sys.argv[0] == "-c":
        exec(compile(sys.argv.pop(1), "<string>", "exec"), {"__name__": "__main__"})
    else:
        if command["ranks"] > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


def end(code: int | None) -> NoReturn:
    """End as Python does, but without taking apart all that is loaded, which takes longer than most commands."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def main() -> None:
    """Serve until the input ends, or become the process of a command."""
    lines, codes, base = sys.stdin, sys.stdout, True
    used, others = Counter(), {}
    while line := lines.readline():
        command = json.loads(line)
        key = json.dumps([command["read"], command["often"] or command["folder"]])  # plug-ins may be named from the folder
        used[key] += 1
        if base and not command["bare"] and (command["often"] or used[key] > 2):
            if key not in others:
                (there, to), (back, answers) = os.pipe(), os.pipe()
                ours, theirs = ((to, back), (there, answers)) if os.fork() else ((there, answers), (to, back))
                for file in theirs:  # each end is known to one process, so that the other's end is seen
                    os.close(file)
                if ours[0] == there:
                    os.chdir(command["folder"])
                    load(command["read"])
                    lines, codes, base = os.fdopen(there), os.fdopen(answers, "w"), False
                    continue
                others[key] = os.fdopen(to, "w"), os.fdopen(back)
            print(line, end="", file=others[key][0], flush=True)
            print(others[key][1].readline(), end="", file=codes, flush=True)
            continue
        for name in () if base else command["loads"]:
            importlib.import_module(name)
        gc.freeze()  # so that a child copies no page of what it only looks at
        children: list[int] = []
        for rank in range(command["ranks"]):
            if not (child := os.fork()):
                try:
                    become(command, rank)
                except SystemExit as ending:
                    end(ending.code) if isinstance(ending.code, int | None) else sys.exit(ending.code)
                end(0)
            children.append(child)
        print(ended(children), file=codes, flush=True)


main()
end(0)
