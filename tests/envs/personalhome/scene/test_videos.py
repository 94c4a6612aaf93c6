"""Real clips: frames at times as images, tried with a clip of a square that moves."""

import base64
import io
import json
import os
import shutil
import sys

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.scene import video_clips as videos
from homerl.envs.personalhome.sim.scene.video_clips import ClipFolder, frame_handle, frame_handles_in, part_handle

pillow = pytest.importorskip("PIL.Image")
SIDE, STEP = 10, 0.5  # pixels of the square, seconds of a frame


def square(index):
    """A frame whose square has moved `index` sides to the right."""
    image = pillow.new("RGB", (8 * SIDE, SIDE), "black")
    image.paste("white", (index * SIDE, 0, (index + 1) * SIDE, SIDE))
    return image


def place(image):
    """How many sides the square of an image has moved."""
    grey = pillow.open(io.BytesIO(image.data)).convert("L")
    bright = [x for x in range(grey.width) if grey.getpixel((x, SIDE // 2)) > 128]
    return round(min(bright) / SIDE)


@pytest.fixture
def clips(tmp_path):
    """A folder with the clip `h1`: eight frames, one each half second."""
    (tmp_path / "h1").mkdir()
    for index in range(8):
        square(index).save(tmp_path / "h1" / f"{index * STEP:g}.png")
    return ClipFolder(tmp_path)


@pytest.mark.parametrize(("time", "moved"), [(0, 0), (0.4, 0), (0.5, 1), (2.2, 4), (3.9, 7), (60, 7)])
def test_a_frame_is_the_one_that_is_shown_at_its_time(clips, time, moved):
    (image,) = clips.images_of_handle(frame_handle("h1", time))
    assert place(image) == moved


def test_a_part_of_a_clip_is_a_frame_each_second(clips):
    assert [place(image) for image in clips.images_of_handle(part_handle("h1", 0.5, 3.5))] == [1, 3, 5, 7]


def test_an_image_becomes_a_part_of_a_message(clips):
    (part,) = clips.content_parts(frame_handle("h1", 1))
    kind, data = part["image_url"]["url"].split(";base64,")
    assert part["type"] == "image_url" and kind == "data:image/png"
    assert pillow.open(io.BytesIO(base64.b64decode(data))).size == (8 * SIDE, SIDE)


MANY = "9" * 400  # digits of no float
HANDLES = ["frame:h1", "frame:../h1@1.000", "video:h1@1.000", "", "h1@1.000", f"frame:h1@{MANY}.000"]


@pytest.mark.parametrize("handle", [*HANDLES, f"video:h1@0.000-{MANY}.000", f"video:h1@{MANY}.000-{MANY}9.000"])
def test_a_text_that_is_no_handle_is_refused(tmp_path, handle):
    (tmp_path / "h1").mkdir()
    square(0).save(tmp_path / "h1/0.png")
    with pytest.raises(InputError, match="no handle"):
        ClipFolder(tmp_path).images_of_handle(handle)
    assert frame_handles_in(json.dumps({"video": handle}), "h1") == []


def test_a_missing_folder_clip_or_image_is_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        ClipFolder(tmp_path / "gone")
    with pytest.raises(InputError, match=r"h2\.mp4"):
        ClipFolder(tmp_path).images_of_handle(frame_handle("h2", 0))
    (tmp_path / "h3").mkdir()
    with pytest.raises(InputError, match=r"0\.5\.png"):
        ClipFolder(tmp_path).images_of_handle(frame_handle("h3", 0))


def test_a_clip_is_found_by_its_name_alone(clips):
    assert clips.clip_path("h1") is not None
    assert clips.clip_path("h2") is None and clips.clip_path("../h1") is None and clips.clip_path("") is None


@pytest.mark.parametrize("name", ["h1/0.PNG", "h1/0.Jpg"])
def test_a_suffix_may_be_in_capitals(tmp_path, name):
    (tmp_path / "h1").mkdir()
    square(3).save(tmp_path / name)
    assert place(ClipFolder(tmp_path).images_of_handle(frame_handle("h1", 0))[0]) == 3


def test_an_image_is_what_its_first_bytes_say(tmp_path):
    (tmp_path / "h1").mkdir()
    square(0).save(tmp_path / "h1/0.png", "JPEG")
    (tmp_path / "h1/1.png").write_text("no image")
    clips = ClipFolder(tmp_path)
    assert clips.images_of_handle(frame_handle("h1", 0))[0].media_type == "image/jpeg"
    with pytest.raises(InputError, match=r"h1/1\.png: the file is neither a PNG nor a JPEG"):
        clips.images_of_handle(frame_handle("h1", 1))
    with pytest.raises(InputError, match=r"h1/1\.png"):
        clips.check_clip("h1")


def test_a_clip_that_was_changed_shows_its_new_frames(tmp_path):
    clips = ClipFolder(tmp_path)
    (tmp_path / "h1").mkdir()
    for moved in (1, 5):
        square(moved).save(tmp_path / "h1/0.png")
        assert place(clips.images_of_handle(frame_handle("h1", 0))[0]) == moved


def test_a_video_file_asks_for_ffmpeg_if_there_is_none(tmp_path, monkeypatch):
    (tmp_path / "h1.mp4").write_bytes(b"film")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"(?s)ffmpeg.*not on PATH.*folder of images"):
        ClipFolder(tmp_path).images_of_handle(frame_handle("h1", 0))


PRETENDER = """#!{python}
import sys, io
from PIL import Image
arguments = sys.argv[1:]
if "-sseof" in arguments:
    at = 7
else:
    at = int(float(arguments[arguments.index("-ss") + 1]) / 0.5)
if at > 7:
    sys.exit(0)
if not open(arguments[arguments.index("-i") + 1], "rb").read() == b"film":
    sys.exit("this is no film")
image = Image.new("RGB", (80, 10), "black")
image.paste("white", (at * 10, 0, at * 10 + 10, 10))
image.save(sys.stdout.buffer, "JPEG")
"""


def test_a_video_file_is_read_frame_by_frame_through_ffmpeg(tmp_path, monkeypatch):
    """A program in ffmpeg's place shows that times go in, images come out, and failures are told."""
    program = tmp_path / "ffmpeg"
    program.write_text(PRETENDER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "h1.MP4").write_bytes(b"film")
    (tmp_path / "h2.mp4").write_bytes(b"text")
    clips = ClipFolder(tmp_path)
    (image,) = clips.images_of_handle(frame_handle("h1", 1.5))
    assert image.media_type == "image/jpeg" and place(image) == 3
    assert place(clips.images_of_handle(frame_handle("h1", 99))[0]) == 7  # after the end: the last frame
    with pytest.raises(InputError, match="this is no film"):
        clips.images_of_handle(frame_handle("h2", 0))
    (tmp_path / "h1.MP4").write_bytes(b"no film")  # a file that was changed is read again
    with pytest.raises(InputError, match="this is no film"):
        clips.images_of_handle(frame_handle("h1", 1.5))


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not installed")
def test_a_real_video_file_gives_its_frames(tmp_path):
    import subprocess

    folder = tmp_path / "made"
    folder.mkdir()
    for index in range(8):
        square(index).save(folder / f"{index}.png")
    made = [
        "ffmpeg",
        "-v",
        "error",
        "-framerate",
        "2",
        "-i",
        f"{folder}/%d.png",
        "-pix_fmt",
        "yuv420p",
        str(tmp_path / "h1.mp4"),
    ]
    subprocess.run(made, check=True)
    assert [place(image_) for time in (0, 1.1, 60) for image_ in [videos.clip_image_at(tmp_path / "h1.mp4", time)]] == [
        0,
        2,
        7,
    ]
