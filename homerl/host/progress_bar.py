"""The progress of every long job: a bar on a terminal, and plain lines in a log.

Invariants: a terminal gets the bar alone; what is no terminal gets a line of each job that is under way soon after it
began, and every minute (or every `HOMERL_PROGRESS_SECONDS`), and the bar once, at the end.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from threading import Event, Thread

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from homerl.envs.core.documents import InputError
from homerl.host.terminal import console as terminal

INTERVAL = "HOMERL_PROGRESS_SECONDS"
MINUTE = 60.0
FIRST = 5.0  # seconds until the first line, which says that the job has begun
RECENT = 10  # lines over which speed is measured


def progress_bar(console: Console | None = None) -> Progress:
    """A bar with name, count, elapsed time, remaining time and a note; tasks need the field `note`.

    In a narrow terminal the bar and the note get shorter, and the figures stay.
    """
    return _Bar(
        TextColumn("{task.description:<16}", style="bold", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("left"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        _Note(),
        console=console or terminal,
    )


def progress_updater(bar: Progress, task: TaskID) -> Callable[[float, int], None]:
    """A function that shows how much of a task is done, of how much in all. The bar never goes back."""
    most = 0.0

    def show(done: float, total: int) -> None:
        nonlocal most
        most = max(most, done)
        bar.update(task, completed=most, total=total)

    return show


class _Note(ProgressColumn):
    """The note of a task, on one line."""

    def render(self, task: Task) -> Text:
        """As much of the note as there is room for. (A `TextColumn` on one line would take the room of the figures.)"""
        return Text(str(task.fields["note"]), "dim", no_wrap=True, overflow="ellipsis")


class _Bar(Progress):
    """A bar that writes lines of its own while it is shown."""

    _lines = ExitStack()

    def start(self) -> None:
        """Show the bar."""
        self._lines = ExitStack()
        self._lines.enter_context(write_plain_lines(self))
        super().start()

    def stop(self) -> None:
        """Show the bar for the last time."""
        self._lines.close()
        super().stop()


@contextmanager
def write_plain_lines(bar: Progress) -> Iterator[None]:
    """Write the state of the bar's tasks every interval, if its console is no terminal."""
    if bar.console.is_terminal:
        yield
        return
    ended = Event()
    text = os.environ.get(INTERVAL, str(MINUTE))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"'{text}' is no number of seconds above 0", INTERVAL, "set it to 60, or leave it out")
    writer = Thread(target=_write_lines, args=(bar, seconds, ended), daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def _write_lines(bar: Progress, interval: float, ended: Event) -> None:
    """Look at the tasks every second, so that what a resumed job starts with counts as no work of this one."""
    seen: dict[TaskID, deque[tuple[float, float]]] = {}
    due = time.monotonic() + min(interval, FIRST)
    while not ended.wait(min(1.0, interval)):
        now = time.monotonic()
        for task in bar.tasks:
            if task.total is not None and task.id not in seen:
                seen[task.id] = deque([(now, task.completed)], maxlen=RECENT)
        if now < due:
            continue
        due += interval
        for task in (task for task in bar.tasks if not task.finished):
            said = progress_line(task, now, *seen.get(task.id, [(now, 0.0)])[0])
            bar.console.print(said, soft_wrap=True, markup=False, highlight=False)
            if task.id in seen:
                seen[task.id].append((now, task.completed))


def progress_line(task: Task, now: float, since: float, had: float) -> str:
    """`sft: 120 of 800 (15 %), about 0:21:30 left`: a task's state, with an estimate from its speed since a moment."""
    if task.total is None:
        return f"{task.description}: begun {timedelta(seconds=round(task.elapsed or 0))} ago"
    share = 100 * int(task.completed) / task.total if task.total else 100.0
    done = f"{task.description}: {int(task.completed):,} of {task.total:,.0f} ({share:.0f} %)"
    gained = task.completed - had
    left = round((task.total - task.completed) * (now - since) / gained) if gained > 0 else None
    note = f", {task.fields['note']}" if task.fields.get("note") else ""
    return f"{done}, {'no estimate yet' if left is None else f'about {timedelta(seconds=left)} left'}{note}"
