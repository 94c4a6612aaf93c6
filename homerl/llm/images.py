"""Images for a chat model that sees: what a tool's result names by a handle is sent as images.

Invariants: messages in the dialogue keep their handles, and only what is sent has images; a message that calls tools is
followed by all their results, and then by one message with the images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from envs.documents import InputError
from envs.messages import Message
from homerl.play.faults import InfraError

MOST = 16  # images of a message, since many servers take few


class Clips(Protocol):
    """Clips whose frames tools name."""

    def frames_in(self, text: str) -> Sequence[str]:
        """The handles of the frames that a tool's result names, in its order."""

    def parts(self, handle: str) -> Sequence[dict[str, Any]]:
        """The images of a handle as content parts of a message in OpenAI's form.

        Raises `InputError` if they cannot be had.
        """


def with_images(messages: Iterable[Message], clips: Clips) -> list[Message]:
    """The messages as they are sent: after results of tools that name frames comes a user's message that shows them."""
    sent: list[Message] = []
    for is_result, run in groupby(messages, key=lambda message: message["role"] == "tool"):
        group = list(run)
        sent += [*group, *(_shown(group, clips) if is_result else ())]
    return sent


def _shown(results: Sequence[Message], clips: Clips) -> Iterator[Message]:
    """A message with the frames that results name, evenly spread if they are more than `MOST`; none if they name none."""
    named = list(dict.fromkeys(frame for result in results for frame in clips.frames_in(result["content"])))
    count = min(MOST, len(named))
    frames = [named[at * len(named) // count] for at in range(count)]
    if frames:
        text = f"frames of the video ({count} of {len(named)}): {', '.join(frames)}"
        yield {"role": "user", "content": [{"type": "text", "text": text}, *_parts(frames, clips)]}


def _parts(frames: Iterable[str], clips: Clips) -> list[dict[str, Any]]:
    try:
        return [part for frame in frames for part in clips.parts(frame)]
    except InputError as error:  # a clip that broke during the run is not the agent's fault
        raise InfraError(f"{error.where}: {error.what}") from error
