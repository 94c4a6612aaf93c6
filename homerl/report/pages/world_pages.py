"""What pages take from worlds: the words of a world with their glossary page, and the page of a played episode.

Invariant: the glossary page has every term of every glossary, and the error classes of each world's taxonomy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jinja2 import Template

from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.html_pages import HERE, Glossary, GlossaryTerm, glossary_sections, load_glossary, load_template
from homerl.play.bench_results import METRICS
from homerl.play.metrics.contract import format_percent
from homerl.play.trajectory import Trajectory, locate_row_errors, read_rows, read_trajectory_row
from homerl.report.figures import Estimate, format_points
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


def load_report_template(name: str, world: WorldAdapter, **filters: Callable[..., Any]) -> Template:
    """The template of a report in this folder. Its filters write figures, and explain the words of a world."""
    words = glossary_of_world(world)
    known: dict[str, Callable[..., Any]] = {
        "percent": format_percent,
        "points": format_points,
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


FILE = "trajectories.jsonl"


def write_episode_page(source: Path, wanted: str, out: Path | None = None) -> tuple[Path, Trajectory]:
    """Write the page of an episode, given by id or number, to `out` or beside its file. The result is (page, trajectory).

    Raises `InputError` if there is no such episode, or if its world draws none.
    """
    where, trajectory = find_episode(source, wanted)
    with locate_row_errors(where):
        world = world_of(trajectory.blueprint)
        page = world.episode_page(trajectory, where)
    if page is None:
        remedy = "the report of any run shows its dialogues (report.html)"
        raise InputError(f"the world '{world.name}' draws no episodes", where, remedy)
    path = out or (source / "episode.html" if source.is_dir() else source.with_suffix(".html"))
    write_atomic(path, page.encode("utf-8", "replace"))
    return path, trajectory


def find_episode(source: Path, wanted: str) -> tuple[str, Trajectory]:
    """(where it stands, the trajectory) of the episode with a number (from 1) or an id, in a file or a run's folder.

    Raises `InputError` if there is none.
    """
    path = source / FILE if source.is_dir() else source
    number = int(wanted) if wanted.isdecimal() else None
    ids: list[str] = []
    for at, row in enumerate(read_rows(path), 1):
        ids.append(str(row.get("id")))
        if at == number or ids[-1] == wanted:
            return f"{path}:{at}", read_trajectory_row(row, f"{path}:{at}")
    if number is not None:
        raise InputError(f"there is no episode {number}", str(path), f"there are {len(ids)}, counted from 1")
    near = get_close_matches(wanted, ids, 5, cutoff=0)
    raise InputError(f"there is no episode '{wanted}'", str(path), f"most like it: {', '.join(near)}; there are {len(ids)}")
