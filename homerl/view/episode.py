"""The page of one played episode, as its world draws it."""

from __future__ import annotations

from pathlib import Path

from envs.documents import InputError, write_atomic
from homerl.play.finding import find_episode
from homerl.play.trajectory import Trajectory, at_row
from homerl.worlds.registry import world_of


def write_episode(source: Path, wanted: str, out: Path | None = None) -> tuple[Path, Trajectory]:
    """Write the page of an episode, given by id or number, to `out` or beside its file. The result is (page, trajectory).

    Raises `InputError` if there is no such episode, or if its world draws none.
    """
    where, trajectory = find_episode(source, wanted)
    with at_row(where):
        world = world_of(trajectory.blueprint)
        page = world.episode_page(trajectory, where)
    if page is None:
        remedy = "the report of any run shows its dialogues (report.html)"
        raise InputError(f"the world '{world.name}' draws no episodes", where, remedy)
    path = out or (source / "episode.html" if source.is_dir() else source.with_suffix(".html"))
    write_atomic(path, page.encode("utf-8", "replace"))
    return path, trajectory
