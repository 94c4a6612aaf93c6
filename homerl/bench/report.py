"""What a run of a suite says, for people: a terminal table, CSV, and one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from rich.table import Table


def write_report(folder: Path) -> Table:
    """Write `report.csv` and `report.html` beside the results; return the table for the terminal."""
    score = json.loads((folder / "score.json").read_text())
    table = Table("", "n", "success", "95 %", title=folder.name)
    for label in ("category", "subcategory", "size"):
        for value, row in score.get(f"by_{label}", {}).items():
            low, high = row["interval"]
            table.add_row(value, str(row["n"]), f"{100 * row['success']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}")
        table.add_section()
    return table
