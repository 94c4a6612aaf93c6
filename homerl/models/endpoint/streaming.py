"""A chat completion that is read as it is written.

Invariant: what was told is a beginning of the content of the completion that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

Told = Callable[[str], None]


class StreamListener:
    """Passes on what is told, and knows whether anything was."""

    def __init__(self, told: Told) -> None:
        self._told, self.anything = told, False

    def __call__(self, text: str) -> None:
        self.anything = True
        self._told(text)


async def stream_completion(client: AsyncOpenAI, path: str, body: Mapping[str, Any], told: Told) -> ChatCompletion:
    """The completion of a request, each part of whose content is `told` as it comes. Raises what openai's client raises.

    Raises `ValueError` if the server streams nothing that can be read.
    """
    from openai import AsyncStream
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    state = ChatCompletionStreamState()
    kind = AsyncStream[ChatCompletionChunk]
    stream = await client.post(path, body={**body, "stream": True}, cast_to=ChatCompletion, stream=True, stream_cls=kind)
    try:
        async for chunk in stream:
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                if choice.delta.content:
                    told(choice.delta.content)
        return state.get_final_completion()
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError("the answer is no stream") from error
    finally:
        await stream.close()
