"""How a command ends: errors become a message and an exit code here.

Invariants:
- What a person, a disk, a network or a server caused ends with one message, and never with a traceback: `InputError`,
  `OSError`, errors of libraries that read files and ask servers, a missing package of an extra, Ctrl-C, and `RunStopped`.
- Any other error is a mistake in the code: it keeps its traceback, and Python ends with code 1.
- HOMERL_TRACEBACK=1 shows every traceback.
- torchrun reports code 1 for any failure, so a run that a launcher started writes its exit code to a file. The first process
  that ends for a reason of its own writes it. A process that ends later may only have lost the others.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

from homerl.envs.core.documents import InputError, find_os_error, os_error_to_input_error
from homerl.host.terminal import PlainLogRecord, print_error

TRACEBACK = "HOMERL_TRACEBACK"
BAD_INPUT, INTERRUPTED = 2, 130
LIBRARIES = {  # by the package that defines the error: what it could not do
    "safetensors": "a file of weights cannot be read or written",
    "huggingface_hub": "the hub refused, or the name is none of the hub",
    "datasets": "a data set cannot be read or written",
    "pyarrow": "a data set cannot be read or written",
    "openai": "the server did not answer as it should",
    "httpx": "the server did not answer as it should",
    "requests": "the server did not answer as it should",
    "wandb": "Weights & Biases took nothing",
    "_lzma": "a packed file cannot be read",
}


class RunStopped(RuntimeError):
    """Work that stopped itself, or was stopped by a part of it (`by`), for a reason that people have to know.

    `code` is the exit code. With `by_all`, each process of a run says it, since only one may know.
    """

    by, code, by_all = "", 1, False

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = self.code if code is None else code


@dataclass(frozen=True)
class CommandEnding:
    """What is said at the end, the exit code, and whether each process of a run says it."""

    message: str
    code: int = BAD_INPUT
    by_all: bool = False


def run_to_end(work: Callable[[], int | None], speaks: Callable[[CommandEnding], bool] = lambda end: True) -> int:
    """Do the work and return its exit code. What `ending_for_error` makes of an error is said, if this process `speaks`."""
    logging.setLogRecordFactory(PlainLogRecord)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of another encoding than UTF-8 gets escapes
            stream.reconfigure(errors="backslashreplace")
    try:
        code = work() or 0
        sys.stdout.flush()  # here, so that a full disk has its message
        return code
    except BaseException as error:
        found = ending_for_error(error)
        if found is None or os.environ.get(TRACEBACK) == "1":
            raise
    if speaks(found):
        if found.code == INTERRUPTED and sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal has written ^C on the line
        print_error(found.message)
    # Drop what standard output could not write. Else Python would try again as it ends, and complain.
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return found.code


def ending_for_error(error: BaseException) -> CommandEnding | None:
    """How a command ends with this error; None for a mistake in the code. Of a group of errors the first counts."""
    if isinstance(error, BaseExceptionGroup):
        ends = [ending_for_error(one) for one in error.exceptions]
        return ends[0] if all(ends) else None
    if isinstance(error, RunStopped):
        message = f"the {error.by} stopped the run: {error}" if error.by else str(error)
        return CommandEnding(message, error.code, error.by_all)
    if isinstance(error, InputError):
        return CommandEnding(str(error))
    if isinstance(error, KeyboardInterrupt):
        return CommandEnding("stopped; start the same command again to go on", INTERRUPTED)
    if isinstance(error, ModuleNotFoundError) and error.name and (extra := extra_with_module(error.name)):
        what = "the package is not installed, and this command needs it"
        return CommandEnding(str(InputError(what, error.name, f"pip install 'homerl[{extra}]'")))
    if found := find_os_error(error):  # also one that a library has wrapped in an error of its own
        return CommandEnding(str(os_error_to_input_error(found)))
    package = type(error).__module__.partition(".")[0]
    if package not in LIBRARIES:
        return None
    text = str(error).strip() or type(error).__name__
    return CommandEnding(f"{LIBRARIES[package]} ({text.splitlines()[0]})")


# Modules that we import, and the package of an extra that brings them.
BROUGHT_BY = {"anyio": "mcp", "h11": "uvicorn", "httpx": "openai", "pyarrow": "datasets", "tokenizers": "transformers"}


def extra_with_module(module: str) -> str | None:
    """The smallest of homerl's extras that brings a package with this module; None if none does."""
    module = BROUGHT_BY.get(module, module)
    try:
        lines = requires("homerl") or ()
    except PackageNotFoundError:  # it is read from a folder
        return None
    wanted = [found.groups() for line in lines if (found := re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)", line))]
    size = Counter(extra for _, extra in wanted)
    extras = [extra for name, extra in wanted if name.replace("-", "_").lower() == module]
    return min(extras, key=size.__getitem__, default=None)


def refuse_missing_packages(*modules: str) -> None:
    """Raise `InputError` for packages that a command surely needs and that are not installed, all at once.

    Without this, each import would name its own extra, and the next one another. The remedy names the extras that bring all.
    """
    missing = [module for module in modules if find_spec(module) is None]
    extras = sorted({extra for module in missing if (extra := extra_with_module(module))})
    if extras:
        remedy = f"pip install 'homerl[{','.join(extras)}]'"
        raise InputError("what this command needs is not installed", ", ".join(missing), remedy)


TOLD = "HOMERL_EXIT_CODE"  # names the file, which does not exist yet


def write_exit_code(code: int) -> None:
    """Write an exit code into the file that the starter named, unless another process has written one."""
    if code and (path := os.environ.get(TOLD)):
        with suppress(OSError), Path(path).open("x", encoding="utf-8") as file:
            file.write(str(code))


def read_exit_code(path: Path, code: int) -> int:
    """The code that a run wrote into the file, else `code`. The file is removed."""
    try:
        return int(path.read_text(encoding="utf-8") or code)
    except FileNotFoundError:
        return code
    finally:
        path.unlink(missing_ok=True)
