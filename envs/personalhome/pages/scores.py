"""The report of runs as one HTML file.

Invariants: the page needs no other file and no script; every text of a run is escaped; equal reports give equal bytes.
"""

from __future__ import annotations

from pathlib import Path

from homerl.envs.personalhome.bench.report import ScoresReport
from homerl.host.pages.glossary import load_glossary
from homerl.host.pages.templates import load_template


def render_scores(report: ScoresReport) -> str:
    """The page as HTML."""
    words = load_glossary(Path(__file__).parents[1])
    return load_template(Path(__file__).with_name("scores.html.jinja"), explained=words.explain_terms_as_html).render(
        report=report
    )
