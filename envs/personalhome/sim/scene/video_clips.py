"""Real clips of scenes: a folder of them, and frames as images for an endpoint that sees.

A clip is named by its household's id: a video file (`h1.mp4`), or a folder `h1/` of images, each named by the second from
which on it is shown (`0.png`, `2.5.png`). Suffixes may be in capitals. Video files need the program `ffmpeg`.

A tool's result holds handles, which are plain text: `frame:h1@12.500` is a frame, `video:h1@3.000-10.000` a part of a clip.
`Videos` turns a handle into images, which are as large as the clip.

Invariants: a name cannot lead out of the folder; the same handle gives the same images until the clip's file changes; what
is served as an image begins like one.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError

FILMS = (".mp4", ".mkv", ".mov", ".webm", ".avi")
IMAGES = (".png", ".jpg", ".jpeg")
BEGINNINGS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
PART_FPS = 1.0  # frames a second that stand for a part of a clip
MOST = 300  # frames of a part
SECONDS = 60  # that ffmpeg may take for a frame
_TIME = r"\d{1,6}\.\d{3}"  # more digits are no time of a clip, and may be no number
_HANDLE = re.compile(rf"(?:frame:(?P<frame>[\w-]+)@|video:(?P<part>[\w-]+)@(?P<from>{_TIME})-)(?P<to>{_TIME})")


def frame_handle(name: str, time: float) -> str:
    """The handle of the frame at a time in seconds."""
    return f"frame:{name}@{time:.3f}"


def part_handle(name: str, start: float, end: float) -> str:
    """The handle of a part of a clip, in seconds."""
    return f"video:{name}@{start:.3f}-{end:.3f}"


@dataclass(frozen=True)
class EncodedImage:
    """An encoded image."""

    media_type: str
    data: bytes


@dataclass(frozen=True)
class ClipFolder:
    """The clips in a folder. Raises `InputError` if there is no such folder."""

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise InputError("there is no such folder", str(self.folder), "name the folder that holds the clips")

    def clip_path(self, name: str) -> Path | None:
        """The clip of a name; None if there is none."""
        if re.fullmatch(r"[\w-]+", name) is None:
            return None
        there = sorted(place for place in self.folder.glob(f"{name}*") if place.stem == name)
        return next((place for kind in ("", *FILMS) for place in there if place.suffix.lower() == kind), None)

    def check_clip(self, name: str) -> None:
        """Raise `InputError` if a clip's first frame, or any image of a clip that is a folder, cannot be read."""
        self.images_of_handle(frame_handle(name, 0.0))
        path = self.clip_path(name)
        for image in _images_in(path) if path and path.is_dir() else ():
            _read_image(image)

    def images_of_handle(self, handle: str) -> list[EncodedImage]:
        """The images of a handle: one of a frame, one a second of a part. Raises `InputError` if they cannot be had."""
        match = _HANDLE.fullmatch(handle)
        if match is None:
            raise InputError(f"'{handle}' is no handle of a clip", remedy="write it as a tool returned it")
        name = match["frame"] or match["part"]
        path = self.clip_path(name)
        if path is None:
            raise InputError(f"there is no clip '{name}'", str(self.folder), f"add {name}.mp4, or play without clips")
        try:
            return [clip_image_at(path, time) for time in _frame_times(match)]
        except OSError as error:
            raise InputError(f"cannot be read: {error}", str(path), "save the clip again") from None

    def content_parts(self, handle: str) -> list[dict[str, Any]]:
        """The images of a handle as content parts of a message in OpenAI's form."""
        parts = []
        for image in self.images_of_handle(handle):
            url = f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return parts


def frame_handles_in(result: str, name: str) -> list[str]:
    """The handles of the frames that a tool's result shows of a clip, in its order. A part of the clip has one a second.

    Handles elsewhere, as in a refusal that repeats an argument, show nothing.
    """
    try:
        data = json.loads(result)
    except ValueError:  # a refusal, which is no JSON
        return []
    found = (_HANDLE.fullmatch(handle) for handle in _find_handles(data))
    own = [match for match in found if match and name in (match["frame"], match["part"])]
    return [frame_handle(name, time) for match in own for time in _frame_times(match)]


def _find_handles(data: Any) -> Iterator[str]:
    """The handles where the tools that show a clip write them."""
    match data:
        case {"video": str(handle)} | {"image": str(handle)}:
            yield handle
        case {"frames": [*frames]}:
            for frame in frames:
                yield from _find_handles(frame)


def clip_image_at(path: Path, time: float) -> EncodedImage:
    """The frame of a clip at a time in seconds, or its last one. Raises `InputError` if it cannot be read."""
    if not path.is_dir():
        version = path.stat()
        return _read_film_frame(path, time, version.st_mtime_ns, version.st_size)
    images = _images_in(path)
    if not images:
        raise InputError("the folder holds no image that is named by a second", str(path), "name them 0.png, 0.5.png, 1.png")
    # The image with the largest second that is not after `time`.
    before = [one for one in images if float(one.stem) <= time]
    chosen = max(before, key=lambda one: float(one.stem)) if before else min(images, key=lambda one: float(one.stem))
    return _read_image(chosen)


def _frame_times(handle: re.Match[str]) -> Iterator[float]:
    end = float(handle["to"])
    start = float(handle["from"] or end)
    count = min(int((end - start) * PART_FPS) + 1, MOST)
    return (start + index / PART_FPS for index in range(count))


def _images_in(folder: Path) -> list[Path]:
    """The images of a clip that is a folder."""
    named = (one for one in folder.iterdir() if re.fullmatch(r"\d+(\.\d+)?", one.stem))
    return sorted(one for one in named if one.suffix.lower() in IMAGES)


def _read_image(path: Path) -> EncodedImage:
    """The image in a file."""
    data = path.read_bytes()
    kind = next((kind for beginning, kind in BEGINNINGS.items() if data.startswith(beginning)), None)
    if kind is None:
        raise InputError("the file is neither a PNG nor a JPEG image", str(path), "save the image again")
    return EncodedImage(kind, data)


@lru_cache(maxsize=256)  # each message of an agent shows the frames of the ones before again
def _read_film_frame(path: Path, time: float, changed: int, size: int) -> EncodedImage:
    """The frame of a video file at `time`, as JPEG, through ffmpeg. After its end it is the last one.

    `changed` and `size` tell the file's versions apart.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        remedy = "install ffmpeg, or give the clip as a folder of images"
        raise InputError("video files need the program ffmpeg, which is not on PATH", str(path), remedy)
    for seek in (["-ss", f"{time:.3f}"], ["-sseof", "-1"]):
        output = ["-frames:v", "1", "-f", "image2pipe", "-c:v", "mjpeg", "-"]
        command = [program, "-v", "error", "-nostdin", *seek, "-i", str(path), *output]
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise InputError(f"ffmpeg took more than {SECONDS} s for a frame", str(path), "save the clip again") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace")[-300:]
            raise InputError(f"ffmpeg cannot read it: {said}", str(path), "save the clip again")
        if done.stdout:
            return EncodedImage("image/jpeg", done.stdout)
    raise InputError(f"there is no frame at {time:g} s", str(path), "save the clip again")
