"""Plays a new user in a fresh clone and a fresh environment: `scripts/new_user`.

Invariants: commands are read from the pages, and bad input from the tables of `test_bad_input.py`, so neither can
go stale; the clone knows nothing of the environment that this runs in; a command that cannot run here is listed with its
reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]


def tests_of(file: str) -> ModuleType:
    """A file of tests as a module, whose tables are shared."""
    spec = importlib.util.spec_from_file_location(f"of_{Path(file).stem}", ROOT / "tests" / file)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCS, BAD = tests_of("test_docs.py"), tests_of("homerl/app/test_bad_input.py")
PAGES = ("README.md", "docs/first_hour.md")
NAMED = re.compile(r"# ([\w./-]+\.(?:yaml|py))\n")  # the first line of a block that is to be saved
ALL_KINDS = ("missing", "empty", "cut", "bytes", "folder")
SHORTER = {  # what a short run adds to the long commands of pages
    "./scripts/quickstart": DOCS.SHORTER["accelerate launch recipes/quickstart.yaml"],
    **DOCS.SHORTER,
}
HOURS = 4
SAID = "switch on the floor fan in the living room\n/undo\n/home\n/quit\n"  # in a chat
SERVED = re.compile(r"http://\S+")
FOREIGN = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "HOMERL_")  # of the environment that this runs in


@dataclass(frozen=True)
class Row:
    """One thing that the user did; `code` is None for a command that was not run, for the reason `said`."""

    command: str
    code: int | None
    said: str
    seconds: float = 0.0
    right: bool = True

    def line(self) -> str:
        """The row for a terminal."""
        code = "-" if self.code is None else str(self.code)
        return f"{'ok ' if self.right else 'BAD'} {code:>3} {self.seconds:7.1f} s  {self.command}\n{'':>18}{self.said}"


@dataclass
class Shell:
    """The user's terminal. What is sourced or exported holds for all later commands."""

    folder: Path
    before: list[str] = field(default_factory=list)

    def run(self, command: str, said: str = "") -> tuple[int, str, float]:
        """(exit code, what was printed, seconds) of a command at which `said` is typed."""
        started = time.monotonic()
        with self._started(command) as process:
            printed, _ = process.communicate(said)
            return process.returncode, printed, time.monotonic() - started

    def visit(self, command: str) -> tuple[int, str, float]:
        """The same of a command that serves a page: the page is opened, then Ctrl-C is pressed."""
        started = time.monotonic()
        with self._started(command) as process:
            printed = ""
            while not (address := SERVED.search(printed)):
                if not (line := process.stdout.readline()):
                    return process.wait(), printed, time.monotonic() - started
                printed += line
            printed += opened(address[0])
            os.killpg(process.pid, signal.SIGINT)
            printed += process.stdout.read()
            return process.wait(), printed, time.monotonic() - started

    @contextmanager
    def _started(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """A process in a group of its own, which ends with the block."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        clean["PATH"] = ":".join(part for part in clean["PATH"].split(":") if Path(part) != Path(sys.prefix, "bin"))
        process = subprocess.Popen(
            ["bash", "-c", "\n".join([*self.before, command])],
            cwd=self.folder,
            text=True,
            start_new_session=True,
            env=clean | {"HF_HUB_OFFLINE": "1", "COLUMNS": "100"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        timer = threading.Timer(HOURS * 3600, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def opened(address: str) -> str:
    """What a visit of a page gives, in one line; a page that fails is a traceback, as of any command."""
    try:
        with urllib.request.urlopen(address, timeout=200) as page:
            return f"the page has {len(page.read()):,} bytes\n"
    except OSError as error:
        return f"Traceback: the page fails: {error}\n"


def main() -> int:
    """Play the user, print the rows as they come, and return the exit code."""
    asked = argparse.ArgumentParser(prog="scripts/new_user")
    shorter = asked.add_mutually_exclusive_group()
    shorter.add_argument("--quick", action="store_true", help="short trainings, one kind of bad input")
    shorter.add_argument("--short", action="store_true", help="short trainings, every kind of bad input")
    asked.add_argument("--folder", type=Path, help="keep clone and environment here, and use them again")
    asked.add_argument("--table", type=Path, help="write the rows to this file, as Markdown")
    options = asked.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="new_user_"))
    rows = []
    for row in played(folder.absolute(), options.quick or options.short, ALL_KINDS[2:3] if options.quick else ALL_KINDS):
        print(row.line(), flush=True)
        rows.append(row)
    bad = [row for row in rows if not row.right]
    print(
        f"\n{sum(row.code is not None for row in rows)} commands in {sum(row.seconds for row in rows) / 60:.0f} minutes, "
        f"{sum(row.code is None for row in rows)} not run, {len(bad)} not as they should be"
    )
    if options.table:
        options.table.write_text(table(rows))
    return bool(bad)


def played(folder: Path, short: bool, kinds: tuple[str, ...]) -> Iterator[Row]:
    """Everything that the user does, in order."""
    clone = folder / "homerl"
    yield cloned(clone)
    for page in PAGES:
        yield from page_rows(Shell(clone), page, short)
    yield from bad_rows(clone, kinds)


def cloned(clone: Path) -> Row:
    """The clone of the last commit; an earlier one is brought to it."""
    clone.parent.mkdir(parents=True, exist_ok=True)
    new = f"git clone --quiet {ROOT} {clone}"
    again = f"git fetch --quiet {ROOT} HEAD && git checkout --quiet FETCH_HEAD && git clean --quiet -fdx -e .venv"
    shell, command = (Shell(clone), again) if clone.exists() else (Shell(clone.parent), new)
    code, said, seconds = shell.run(command)
    return Row(command, code, first_line(said), seconds, code == 0)


# The pages


def page_rows(shell: Shell, page: str, short: bool) -> Iterator[Row]:
    """What the user does with a page: saves its files, and types its commands."""
    for block in DOCS.blocks(page):
        if saved := NAMED.match(block.text):
            path = shell.folder / saved[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        for line in typed(block):
            if line.startswith(("source ", "export ")):
                shell.before.append(line)
            elif why := not_run(page, line):
                yield Row(line, None, f"not run: {why}")
            else:
                yield typed_row(shell, line, short)


def typed(block: Any) -> list[str]:
    """The lines of a block that are typed into a terminal."""
    lines = [line.removeprefix("$ ") for line in block.lines] if not block.language else []
    return [line for line in lines if line.startswith(("source ", "export ")) or DOCS.program(line)]


def not_run(page: str, line: str) -> str | None:
    """Why a command of a page is not run here. What the tests of pages leave out is run, if only its length forbids it."""
    why = DOCS.of_table(DOCS.NOT_RUN.get(page, {}), line)
    return None if line.startswith(("./scripts/quickstart", "./scripts/homerl", "python ")) or why == DOCS.TRAINED else why


def typed_row(shell: Shell, line: str, short: bool) -> Row:
    """Run a command as it stands, or with what makes it short."""
    command = f"{line} {(short and DOCS.of_table(SHORTER, line)) or ''}".strip()
    chat, page = line.startswith("homerl chat"), "--page" in line.partition("#")[0]
    code, said, seconds = shell.visit(command) if page else shell.run(command, SAID if chat else "")
    wanted = (DOCS.of_table(DOCS.EXIT, line) or (0, ""))[0]
    return Row(line, code, first_line(said), seconds, code == wanted and "Traceback" not in said)


def first_line(said: str) -> str:
    """The first line that says something; of a traceback its last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (lines[-1] if "Traceback" in said else lines[0])[:110] if lines else ""


# Bad input


def bad_rows(clone: Path, kinds: tuple[str, ...]) -> Iterator[Row]:
    """Each command with a place that cannot be written, and with files that cannot be read."""
    folder = clone.parent / "bad"
    folder.mkdir(exist_ok=True)
    BAD.make_good(folder)
    (folder / "wall").touch()
    shell = Shell(folder, [f"source {clone}/.venv/bin/activate"])
    for command, arguments in BAD.WRITES.items():
        yield bad_row(shell, f"homerl {command} {arguments.format(out='wall/made')}")
    for kind in kinds:
        BAD.bad_file(folder, kind)
        for command, arguments in BAD.READS.items():
            if (command, kind) not in BAD.ALONE:
                yield bad_row(shell, f"homerl {command} {arguments.format(**{'in': kind})}")


def bad_row(shell: Shell, command: str) -> Row:
    """A refusal is one message with code 2."""
    code, said, seconds = shell.run(command)
    messages = sum(line.startswith("homerl: ") for line in said.splitlines())  # a remedy may name `homerl: 1`
    one = messages == 1 or command.startswith("homerl check-devices")
    right = code == 2 and one and "Traceback" not in said
    return Row(command.replace(f"{ROOT}/", ""), code, first_line(said), seconds, right)


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    head = "| what was typed | exit code | seconds | first line |\n|---|---:|---:|---|\n"

    def cells(row: Row) -> str:
        code = "" if row.code is None else row.code
        said = row.said.replace("|", "\\|")
        return f"| `{row.command}` | {code} | {row.seconds:.1f} | {'' if row.right else '**wrong** '}{said} |\n"

    return head + "".join(map(cells, rows))


if __name__ == "__main__":
    sys.exit(main())
