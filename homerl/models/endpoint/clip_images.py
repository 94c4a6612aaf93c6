"""Images for a chat model that sees: what a tool's result names by a handle is sent as images.

Invariants:
- Messages in the dialogue keep their handles, and only what is sent has images.
- A message that calls tools is followed by all their results, and then by one message with the images.
- A request has at most `MOST` images, the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Protocol

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message
from homerl.play.faults import InfraError

MOST = 16  # images of a request, since many servers take few


class Clips(Protocol):
    """Clips whose frames tools name."""

    @property
    def found(self) -> str:
        """What has clips, of all that is played, in words."""

    def frames_in(self, task: str, result: str) -> Sequence[str]:
        """The handles of the frames that a tool's result shows of the clip of a task, given by its id, in its order."""

    def image_parts(self, handle: str) -> Sequence[dict[str, Any]]:
        """The images of a handle as content parts of a message in OpenAI's form.

        Raises `InputError` if they cannot be had.
        """


def add_frame_images(messages: Iterable[Message], clips: Clips, task: str) -> list[Message]:
    """The messages as they are sent: after results of tools that show frames comes a user's message with these.

    Once the later messages have `MOST` images, frames before them stay handles.
    """
    sent: list[Message] = []
    left = MOST
    groups = [list(run) for _, run in groupby(messages, key=_is_result)]
    for group in reversed(groups):
        named = [frame for one in group if _is_result(one) for frame in clips.frames_in(task, one["content"])]
        frames = _spread(list(dict.fromkeys(named)), left)
        left -= len(frames)
        sent = [*group, *([_showing(frames, len(set(named)), clips)] if frames else ()), *sent]
    return sent


def _is_result(message: Message) -> bool:
    return bool(message["role"] == "tool")


def _spread(frames: Sequence[str], most: int) -> list[str]:
    """At most so many of the frames, at equal distances."""
    count = min(most, len(frames))
    return [frames[at * len(frames) // count] for at in range(count)]


def _showing(frames: Sequence[str], named: int, clips: Clips) -> Message:
    """A message with frames, of so many that were named."""
    text = f"frames of the video ({len(frames)} of {named}): {', '.join(frames)}"
    return {"role": "user", "content": [{"type": "text", "text": text}, *_parts(frames, clips)]}


def _parts(frames: Iterable[str], clips: Clips) -> list[dict[str, Any]]:
    try:
        return [part for frame in frames for part in clips.image_parts(frame)]
    except InputError as error:  # a clip that broke during the run is not the agent's fault
        raise InfraError(f"{error.where}: {error.what}") from error
