"""Finds a stored episode in a file or in a run's folder."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from envs.documents import InputError
from homerl.play.trajectory import Trajectory, read_rows, trajectory_at

FILE = "trajectories.jsonl"
NEAR = 5  # ids that an error lists


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
            return f"{path}:{at}", trajectory_at(row, f"{path}:{at}")
    if number is not None:
        raise InputError(f"there is no episode {number}", str(path), f"there are {len(ids)}, counted from 1")
    near = get_close_matches(wanted, ids, NEAR, cutoff=0)
    raise InputError(f"there is no episode '{wanted}'", str(path), f"most like it: {', '.join(near)}; there are {len(ids)}")
