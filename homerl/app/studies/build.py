"""Builds suites: on request, and for a run of a suite that is not shipped.

Invariant: a file of a suite is complete, or it is not there. What a killed build left is removed by the next.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from homerl.bench.suites import SEED, find_suite, is_shipped_suite, write_suite
from homerl.envs.core.documents import remove_unfinished_writes
from homerl.host.terminal.console import console, count_with_noun
from homerl.host.terminal.progress import progress_bar
from homerl.worlds.contract import Suite


def build_suite(suite: Suite, folder: Path, seed: int = SEED, language: str = "en") -> Path:
    """Make a suite in a folder, and print what came of it. Returns its file."""
    dropped: Counter[str] = Counter()
    path = folder / f"{suite.name}.jsonl"
    remove_unfinished_writes(path)
    with progress_bar() as bar:
        task = bar.add_task(f"build {suite.name}", total=None, note=str(path))
        count, instances = suite.build(
            seed, language, dropped, lambda done, total: bar.update(task, completed=done, total=total)
        )
        digest = write_suite(instances, path)
    console.print(f"{path}: {count_with_noun(count, 'instance')}, sha256 {digest}")
    for reason, number in dropped.most_common():
        console.print(f"  dropped {number}: {reason}", highlight=False)
    return path


def find_or_build_suite(suite: str, folder: Path) -> str:
    """What to read a suite from: its file, its name if it is shipped, else what is built in a folder, unless it is there."""
    if Path(suite).is_file() or is_shipped_suite(find_suite(suite)):
        return suite
    path = folder / f"{find_suite(suite).name}.jsonl"
    return str(path if path.exists() else build_suite(find_suite(suite), folder))
