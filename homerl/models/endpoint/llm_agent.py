"""Any OpenAI-compatible endpoint as an agent, also of a model that sees: what a tool's result names is sent as images.

Invariants:
- It is sent the dialogue, the tools and the images that tools name, and nothing else, none of its thoughts.
- Messages in the dialogue keep the handles of images, and only what is sent has images. A message that calls tools is
  followed by all their results, and then by one message with the images, at most the latest `MOST`.
- Its answer is not corrected, so malformed calls reach the world, which says what is wrong with them.
- Errors of servers are `InfraError`s, never faults of the model.
- As many candidates come as were asked for, also from a server that gives one a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, is_json_object
from homerl.models.endpoint.endpoint import Endpoint, Told, request_seed, tokens_of
from homerl.play.faults import InfraError
from homerl.play.situation import Observation, Reply
from homerl.play.spoken_words import spoken_words_of
from homerl.play.tool_call_parser import THOUGHT, parse_observed_reply

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessage


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


THOUGHTS = (THOUGHT, "reasoning")  # the fields in which servers tell what a model thought


class LLMAgent:
    """Asks an endpoint for the next message. `n` candidates come from one request."""

    def __init__(
        self,
        endpoint: Endpoint,
        temperature: float = 0.0,
        max_tokens: int = 2048,
        seed: int | None = None,
        clips: Clips | None = None,
        **options: Any,
    ) -> None:
        """With a `seed`, every request has a seed derived from it (`request_seed`).

        With `clips`, the model is shown the frames that results of tools name, the latest of them.
        """
        self.name, self.endpoint, self.seed, self.clips = endpoint.speaker_name, endpoint, seed, clips
        self.options = {"temperature": temperature, "max_tokens": max_tokens} | options
        self.told: Told | None = None  # who hears a message as it is written

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        """The endpoint's candidate messages. Raises `InfraError` if the server fails."""
        # servers refuse an empty list
        tools = {"tools": list(observation.tools)} if observation.tools and not observation.one_answer else {}
        sent = messages_to_send(observation.messages)
        if self.clips is not None:
            # in a thread, since to read a film takes long
            sent = await asyncio.to_thread(add_frame_images, sent, self.clips, observation.blueprint_id)
        options = {"told": self.told, **tools, **self.options}
        said = await request_candidates(self.endpoint, observation, sent, n, self.seed, **options)
        return [reply_from_completion(one.message, observation, one.tokens, one.prompt_tokens) for one in said]


@dataclass(frozen=True)
class EndpointCandidate:
    """One of a model's candidate messages, its tokens (the mean of its request's), and those of its prompt."""

    message: ChatCompletionMessage
    tokens: int
    prompt_tokens: int


async def request_candidates(
    endpoint: Endpoint, observation: Observation, sent: Sequence[Message], n: int, seed: int | None, **options: Any
) -> list[EndpointCandidate]:
    """`n` candidates for the next message of an observed dialogue, which is sent as `sent`. Raises `InfraError`.

    A server may give fewer than it is asked for. It is then asked for the rest, with another seed. Words are `told` as they
    are written, if `options` have that.
    """
    found: list[EndpointCandidate] = []
    while len(found) < n:
        fields = {"n": n - len(found), **request_seed(observation, seed, len(found)), **options}
        answer = await endpoint.chat(sent, **fields)
        prompt, completion = tokens_of(answer)
        tokens = completion // len(answer.choices)
        found += [EndpointCandidate(choice.message, tokens, prompt) for choice in answer.choices]
    return found[:n]


def messages_to_send(messages: Iterable[Message]) -> list[Message]:
    """Messages as the chat API expects them: without thoughts and empty fields, except for the content.

    Some servers refuse a result without a call, as of a call that could not be read: it is sent as the user's. Some refuse
    arguments that are no JSON object: they are sent as an empty one, and the result says what was wrong with them.
    """
    sent: list[Message] = []
    called = False  # whether the agent's last message has calls
    for message in messages:
        kept = {key: value for key, value in message.items() if value not in ([], None) and key != THOUGHT}
        if kept["role"] == "assistant":
            called = "tool_calls" in kept
        if called and kept["role"] == "assistant":
            kept["tool_calls"] = [
                call
                if is_json_object(call["function"]["arguments"])
                else {**call, "function": {**call["function"], "arguments": "{}"}}
                for call in kept["tool_calls"]
            ]
        sent.append(kept if called or kept["role"] != "tool" else kept | {"role": "user"})
    return sent


def reply_from_completion(
    message: ChatCompletionMessage, observation: Observation, tokens: int = 0, prompt_tokens: int = 0
) -> Reply:
    """An endpoint's message as a reply. Calls that the model wrote as text are read from there, unless the server did."""
    reply = parse_observed_reply(message.content or "", observation)
    if made := [call for call in message.tool_calls or () if call.type == "function"]:
        said = spoken_words_of(reply.message).text if reply.malformed else reply.message["content"]
        functions = [{"name": call.function.name, "arguments": call.function.arguments} for call in made]
        calls = [{"id": c.id, "type": "function", "function": function} for c, function in zip(made, functions)]
        reply = Reply({**reply.message, "content": said, "tool_calls": calls})
    elif reply.calls:  # a tool's result refers to its call by an id, which text does not have
        for i, call in enumerate(reply.message["tool_calls"]):
            call["id"] = f"call_{i}"
        reply = replace(reply, calls=tuple(replace(call, id=f"call_{i}") for i, call in enumerate(reply.calls)))
    thought = next((said for key in THOUGHTS if isinstance(said := getattr(message, key, None), str) and said), None)
    whole = reply.message | ({THOUGHT: thought} if thought else {})
    return replace(reply, message=whole, tokens=tokens, prompt_tokens=prompt_tokens)
