"""What pages take from worlds: the words of a world with their glossary page, and a trajectory's goals in words.

Invariant: the glossary page has every term of every glossary, and the error classes of each world's taxonomy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Template

from homerl.host.html_pages import HERE, Glossary, GlossaryTerm, glossary_sections, load_glossary, load_template
from homerl.play.bench_results import METRICS
from homerl.play.metrics.contract import format_percent
from homerl.play.trajectory import ShownDialogue, Trajectory, show_dialogue
from homerl.report.figures import Estimate, format_points, format_signed
from homerl.worlds.contract import WorldAdapter
from homerl.worlds.registry import known_worlds, world_of

HEAD = """# Glossary

The words of these pages and of the HTML reports, to look up. `scripts/regenerate` writes this page (`homerl glossary`) from
the metrics, and from `glossary.yaml` in `homerl/host` and in the folder of each world. Begin with
[your first hour](first_hour.md).
"""


def glossary_of_world(world: WorldAdapter) -> Glossary:
    """The terms that all share, those of a world, and its error classes."""
    found = load_glossary(folder_of_world(world)).terms
    return Glossary({**{key: GlossaryTerm("A class of errors.", name) for key, name in world.dimensions.items()}, **found})


@lru_cache(maxsize=32)
def load_report_template(name: str, world: WorldAdapter, **filters: Callable[..., Any]) -> Template:
    """The template of a report in this folder. Its filters write figures, and explain the words of a world."""
    words = glossary_of_world(world)
    known: dict[str, Callable[..., Any]] = {
        "percent": format_percent,
        "points": format_points,
        "signed": format_signed,
        "estimate": Estimate.of_score,
        "explained": words.explain_terms_as_html,
        "full": words.expand_abbreviations,
        "meaning": words.meaning_of_term,
    }
    return load_template(Path(__file__).with_name(name), **known | filters)


def folder_of_world(world: WorldAdapter) -> Path:
    """The folder that holds everything about a world."""
    return Path(inspect.getfile(type(world))).parent


def render_glossary_page() -> str:
    """The page in Markdown."""
    text = HEAD
    for title, terms in _list_glossary_sections():
        text += f"\n## {title}\n\n"
        for term, said in terms.items():
            name = f" ({said.name})" if said.name and said.means else ""
            text += f"- **{term}**{name}: {said.means or said.name}\n"
    return text


def _list_glossary_sections() -> Iterator[tuple[str, Mapping[str, GlossaryTerm]]]:
    yield from glossary_sections(HERE)
    yield "Metrics of reports", {metric.heading: GlossaryTerm(metric.words) for metric in METRICS.values()}
    for world in known_worlds().values():
        yield from glossary_sections(folder_of_world(world))
        if world.taxonomy != WorldAdapter.taxonomy:
            dimensions = {key: GlossaryTerm("", name) for key, name in world.dimensions.items()}
            yield f"Errors in {world.taxonomy}'s taxonomy", dimensions


def readable_dialogue(trajectory: Trajectory) -> ShownDialogue:
    """A trajectory for reading, with its goals in words."""
    return show_dialogue(trajectory, world_of(trajectory.blueprint).goals_in_words(trajectory.blueprint))
