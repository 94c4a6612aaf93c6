"""Real clips of the households of a suite, in a folder (`homerl bench run --videos`).

Invariant: each clip that was found can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from envs.documents import InputError
from envs.personalhome.generate.make import id_of
from envs.personalhome.scene.videos import Videos, frame_handle

Film = Mapping[str, str]  # its `video_path`, which is a name in the folder, and `video`, a hash of it


def films_of(households: Iterable[int], folder: Path) -> tuple[dict[int, Film], Videos]:
    """The film of each household, given by its seed, that has a clip in the folder, and the folder's clips.

    Raises `InputError` if no household has one, or if one cannot be read.
    """
    clips, seeds = Videos(folder), dict.fromkeys(households)
    paths = {seed: path for seed in seeds if (path := clips.path(id_of(seed)))}
    if not paths:
        remedy = f"name clips by their households, such as {id_of(next(iter(seeds)))}.mp4"
        raise InputError("no clip is of a household that is played", str(folder), remedy)
    for seed in paths:
        clips.images(frame_handle(id_of(seed), 0.0))
    return {seed: {"video_path": path.name, "video": _digest(path)} for seed, path in paths.items()}, clips


def _digest(clip: Path) -> str:
    """A hash of a clip's content, in hex."""
    files = sorted(filter(Path.is_file, clip.iterdir())) if clip.is_dir() else [clip]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as data:
            digest.update(file.name.encode() + hashlib.file_digest(data, "sha256").digest())
    return digest.hexdigest()
