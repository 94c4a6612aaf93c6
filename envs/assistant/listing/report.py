"""What an import gave, and what was not understood: a table for the terminal, and a file for whoever looks closer.

Invariants: the file has every note; the table counts what it does not show. What matters to a person comes first, and what
is minor is folded.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from rich.table import Table

from homerl.envs.assistant.importing import ImportedHome
from homerl.envs.assistant.listing.fixtures import PRIVATE
from homerl.envs.assistant.listing.generic import ImportNote
from homerl.envs.core.documents import write_atomic
from homerl.envs.homeenv.sim.home_file import REPORT

MOST = 20  # rows of the table
SHOWN = 3  # entities, or minor parts, that a row names
WEIGHT = {"automation": 1, "attribute": 2, "service": 3}  # of a part, by its first word; the rest comes first


def import_report_path(home: Path) -> Path:
    """The file beside a home file: `home.import.json` of `home.json`."""
    return home.with_suffix(REPORT)


def write_import_report(imported: ImportedHome, path: Path) -> None:
    """Write everything that was not understood, with what was imported in numbers."""
    write_atomic(path, json.dumps(build_import_report(imported), indent=1, ensure_ascii=False) + "\n", PRIVATE)


def build_import_report(imported: ImportedHome) -> dict[str, Any]:
    """The figures of an import, and every note."""
    plan = imported.home.plan
    domains = Counter(device.did.partition(".")[0] for device in plan.devices)
    return {
        "homeassistant": imported.listing.version,
        "rooms": len(plan.rooms),
        "devices": dict(sorted(domains.items())),
        "automations": len(imported.home.rules),
        "automations_for_the_guard_alone": len(plan.origin.hidden) if plan.origin else 0,
        "not_understood": [_written(note) for note in sorted(imported.notes, key=_weight) if not note.minor],
        "minor": [_written(note) for note in imported.notes if note.minor],
    }


def _written(note: ImportNote) -> dict[str, str]:
    return {"entity": note.entity, "part": note.part, "why": note.why}


def _weight(note: ImportNote) -> int:
    """How late a note is told: what matters most to a person is told first."""
    return WEIGHT.get(note.part.partition(" ")[0], 0)


def import_notes_table(imported: ImportedHome) -> Table:
    """The notes, those of the same part and reason in one row, and all that is minor in one."""
    alike: dict[tuple[str, str], list[ImportNote]] = defaultdict(list)
    for note in imported.notes:
        if not note.minor:
            alike[note.part, note.why].append(note)
    made = Table("what", "why", "entities", title="not understood")
    rows = sorted(alike.items(), key=lambda item: (_weight(item[1][0]), -len(item[1])))
    for (part, why), notes in rows[:MOST]:
        made.add_row(part, why, _some([note.entity for note in notes]))
    if len(rows) > MOST:
        made.add_row("...", f"{len(rows) - MOST} more rows are in the file", "")
    minor = [note for note in imported.notes if note.minor]
    if minor:
        parts = [f"{part.partition(' ')[2]} {count}" for part, count in Counter(note.part for note in minor).most_common()]
        what = f"{len(minor)} details, such as values that are not told now"
        made.add_row("minor", what, _some(parts))
    return made


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
