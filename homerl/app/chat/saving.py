"""Stores a talk as a trajectory.

Invariant: a file that is there is never replaced.
"""

from __future__ import annotations

from pathlib import Path

from homerl.app.chat.session import ChatSession
from homerl.envs.core.documents import InputError
from homerl.host.terminal.console import count_with_noun
from homerl.play.trajectory import trajectory_to_row, write_rows


def save_chat(session: ChatSession, file: Path) -> str:
    """Write the talk to a file of trajectories, and say so. Raises `InputError` if the file exists, or nothing was said."""
    if not session.turns:
        raise InputError("nothing was said yet")
    if file.exists():
        raise InputError("the file is there already", str(file), "name another one")
    write_rows(file, [trajectory_to_row(session.to_trajectory())])
    return f"{file}: {count_with_noun(len(session.turns), 'sentence')}; homerl reverify {file} replays them"
