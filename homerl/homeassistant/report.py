"""What an import gave, and what was not understood: a table for the terminal, and a file for whoever looks closer.

Invariant: the file has every note; the table counts what it does not show.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from rich.table import Table

from envs.documents import write_atomic
from envs.homeenv.home_file import REPORT
from homerl.homeassistant.fixtures import PRIVATE
from homerl.homeassistant.importing import Imported

MOST = 20  # rows of the table
SHOWN = 3  # entities that a row names


def report_path(home: Path) -> Path:
    """The file beside a home file: `home.import.json` of `home.json`."""
    return home.with_suffix(REPORT)


def write_report(imported: Imported, path: Path) -> None:
    """Write everything that was not understood, with what was imported in numbers."""
    write_atomic(path, json.dumps(report(imported), indent=1, ensure_ascii=False) + "\n", PRIVATE)


def report(imported: Imported) -> dict[str, Any]:
    """The figures of an import, and every note."""
    plan = imported.home.plan
    domains = Counter(device.did.partition(".")[0] for device in plan.devices)
    return {
        "homeassistant": imported.listing.version,
        "rooms": len(plan.rooms),
        "devices": dict(sorted(domains.items())),
        "automations": len(imported.home.rules),
        "automations_for_the_guard_alone": len(plan.origin.hidden) if plan.origin else 0,
        "not_understood": [note._asdict() for note in imported.notes],
    }


def table(imported: Imported) -> Table:
    """The notes, those of the same part and reason in one row."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for note in imported.notes:
        alike[note.part, note.why].append(note.entity)
    made = Table("what", "why", "entities", title="not understood")
    rows = sorted(alike.items(), key=lambda item: -len(item[1]))
    for (part, why), entities in rows[:MOST]:
        more = f" and {len(entities) - SHOWN} more" if len(entities) > SHOWN else ""
        made.add_row(part, why, ", ".join(entities[:SHOWN]) + more)
    if len(rows) > MOST:
        made.add_row("...", f"{len(rows) - MOST} more rows are in the file", "")
    return made
