"""The report of runs as one HTML file.

Invariants: the page needs no other file and no script; every text of a run is escaped; equal reports give equal bytes.
"""

from __future__ import annotations

from homerl.worlds.personalhome.bench.report import Report
from homerl.worlds.personalhome.pages.templates import template


def render_scores(report: Report) -> str:
    """The page as HTML."""
    return template("scores.html.jinja").render(report=report)
