"""The glossary of a world, and the page of all of them.

Invariant: the page has every term of every glossary, and the error classes of each world's taxonomy, as the world says them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from homerl.host.pages.glossary import HERE, Glossary, GlossaryTerm, glossary_sections, load_glossary
from homerl.play.metrics.registry import METRICS
from homerl.worlds.contract import WorldAdapter
from homerl.worlds.registry import known_worlds

HEAD = """# Glossary

The words of these pages and of the HTML reports, to look up. `scripts/regenerate` writes this page (`homerl glossary`) from
the metrics, and from `glossary.yaml` in `homerl/host/pages` and in the folder of each world. Begin with
[your first hour](first_hour.md).
"""


def glossary_of_world(world: WorldAdapter) -> Glossary:
    """The terms that all share, those of a world, and its error classes."""
    found = load_glossary(folder_of_world(world)).terms
    return Glossary({**{key: GlossaryTerm("A class of errors.", name) for key, name in world.dimensions.items()}, **found})


def folder_of_world(world: WorldAdapter) -> Path:
    """The folder that holds everything about a world."""
    return Path(inspect.getfile(type(world))).parent


def render_glossary_page(known: Iterable[WorldAdapter] | None = None) -> str:
    """The page in Markdown."""
    known = known_worlds().values() if known is None else known
    return HEAD + "".join(f"\n## {title}\n\n{''.join(_lines(terms))}" for title, terms in _sections(known))


def _sections(known: Iterable[WorldAdapter]) -> Iterator[tuple[str, Mapping[str, GlossaryTerm]]]:
    yield from glossary_sections(HERE)
    yield "Metrics of reports", {metric.heading: GlossaryTerm(metric.words) for metric in METRICS.values()}
    for world in known:
        yield from glossary_sections(folder_of_world(world))
        if world.taxonomy != WorldAdapter.taxonomy:
            yield (
                f"Errors in {world.taxonomy}'s taxonomy",
                {key: GlossaryTerm("", name) for key, name in world.dimensions.items()},
            )


def _lines(terms: Mapping[str, GlossaryTerm]) -> Iterator[str]:
    for term, said in terms.items():
        yield f"- **{term}**{f' ({said.name})' if said.name and said.means else ''}: {said.means or said.name}\n"
