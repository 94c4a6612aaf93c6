"""The report of runs as one HTML file.

Invariants: the page needs no other file and no script; every text of a run is escaped; equal reports give equal bytes.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from homerl.worlds.personalhome.bench.report import Report


def render_scores(report: Report) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=PackageLoader("homerl.worlds.personalhome", "pages"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("scores.html.jinja").render(report=report)
