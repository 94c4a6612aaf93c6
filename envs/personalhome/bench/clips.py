"""Real clips of the households of a suite, in a folder (`homerl bench run --videos`).

Invariants: each clip that was found has a first frame, and a folder's images are images; an agent is shown the clip of its
own household, and what a tool showed of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.generate.make import household_id_of_seed
from homerl.envs.personalhome.sim.scene.videos import ClipFolder, frame_handles_in

Film = Mapping[str, str]  # its `video_path`, which is a name in the folder, and `video`, a hash of it


@dataclass(frozen=True)
class TaskClips:
    """The clips of a folder, and the seed of the household of each task, by the task's id."""

    videos: ClipFolder
    households: Mapping[str, int]
    found: str  # as `2 of 100 households`

    def frames_in(self, task: str, result: str) -> list[str]:
        """The handles of the frames that a tool's result shows of the task's own clip."""
        return frame_handles_in(result, household_id_of_seed(self.households[task]))

    def image_parts(self, handle: str) -> list[dict[str, Any]]:
        """The images of a handle as content parts of a message in OpenAI's form."""
        return self.videos.content_parts(handle)


def find_household_clips(households: Mapping[str, int], folder: Path) -> tuple[dict[int, Film], TaskClips]:
    """The film of each household that has a clip in the folder, by its seed, and the clips of the tasks.

    `households` are the seeds of the tasks' households. Raises `InputError` if none of them has a clip, or if a clip cannot
    be read.
    """
    videos, seeds = ClipFolder(folder), dict.fromkeys(households.values())
    paths = {seed: path for seed in seeds if (path := videos.clip_path(household_id_of_seed(seed)))}
    if seeds and not paths:
        remedy = f"name clips by their households, such as {household_id_of_seed(next(iter(seeds)))}.mp4"
        raise InputError("no clip is of a household that is played", str(folder), remedy)
    for seed in paths:
        videos.check_clip(household_id_of_seed(seed))
    films: dict[int, Mapping[str, str]] = {
        seed: {"video_path": path.name, "video": _digest(path)} for seed, path in paths.items()
    }
    return films, TaskClips(videos, households, f"{len(paths)} of {len(seeds)} households")


def _digest(clip: Path) -> str:
    """A hash of a clip's content, in hex."""
    files = sorted(filter(Path.is_file, clip.iterdir())) if clip.is_dir() else [clip]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as data:
            digest.update(file.name.encode() + hashlib.file_digest(data, "sha256").digest())
    return digest.hexdigest()
