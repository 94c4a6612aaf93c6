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
    for is_result, run in reversed(
        [(key, list(run)) for key, run in groupby(messages, key=lambda one: one["role"] == "tool")]
    ):
        named = [frame for one in run if is_result for frame in clips.frames_in(task, one["content"])]
        frames = list(dict.fromkeys(named))
        count, total = min(left, len(frames)), len(frames)
        frames = [frames[at * total // count] for at in range(count)]  # at equal distances
        left -= count
        if frames:
            try:
                images = [part for frame in frames for part in clips.image_parts(frame)]
            except InputError as error:  # a clip that broke during the run is not the agent's fault
                raise InfraError(f"{error.where}: {error.what}") from error
            text = f"frames of the video ({count} of {total}): {', '.join(frames)}"
            run.append({"role": "user", "content": [{"type": "text", "text": text}, *images]})
        sent = [*run, *sent]
    return sent
