"""The page of one played episode, as its world draws it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from homerl.envs.core.documents import InputError, write_atomic
from homerl.play.trajectory import Trajectory, locate_row_errors, read_rows, read_trajectory_row
from homerl.worlds.registry import world_of

FILE = "trajectories.jsonl"
NEAR = 5  # ids that an error lists


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
    near = get_close_matches(wanted, ids, NEAR, cutoff=0)
    raise InputError(f"there is no episode '{wanted}'", str(path), f"most like it: {', '.join(near)}; there are {len(ids)}")
