"""The progress bar of every long job."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar(console: Console | None = None) -> Progress:
    """A bar with name, count, elapsed time, remaining time and a note; tasks need the field `note`."""
    return Progress(
        TextColumn("{task.description:<16}", style="bold", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
        console=console,
    )
