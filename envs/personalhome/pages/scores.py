"""The report of runs as one HTML file.

Invariants: the page needs no other file and no script; every text of a run is escaped; equal reports give equal bytes.
"""

from __future__ import annotations

from pathlib import Path

from homerl.envs.personalhome.bench.report import Report
from homerl.host.pages.glossary import glossary
from homerl.host.pages.templates import template


def render_scores(report: Report) -> str:
    """The page as HTML."""
    words = glossary(Path(__file__).parents[1])
    return template(Path(__file__).with_name("scores.html.jinja"), explained=words.explained).render(report=report)
