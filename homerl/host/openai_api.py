"""The forms in which OpenAI's API answers: a list of models, and a completion, whole or streamed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response, StreamingResponse

Said = Mapping[str, Any]  # an assistant's message


def models_response(name: str) -> Response:
    """The list of the one model that a server has."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "homerl"}
    return JSONResponse({"object": "list", "data": [model]})


def completion_response(
    model: str, message: Said, stream: bool, tokens: tuple[int, int] = (0, 0), cut: bool = False
) -> Response:
    """A message as a completion. `tokens` are those of prompt and message; a message is `cut` if it was longer."""
    reason = "tool_calls" if message.get("tool_calls") else "length" if cut else "stop"
    if stream:
        return StreamingResponse(_stream_message(model, message, reason), media_type="text/event-stream")
    prompt, written = tokens
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return JSONResponse(_completion_head("chat.completion", model) | {"choices": [choice], "usage": usage})


def streamed_completion(model: str, texts: AsyncIterator[str]) -> Response:
    """A completion whose words come one part after the other."""
    return StreamingResponse(
        _stream_deltas(model, ({"content": text} async for text in texts), "stop"), media_type="text/event-stream"
    )


async def _stream_message(model: str, message: Said, reason: str) -> AsyncIterator[str]:
    """The message as events: a role, the words and calls, the end."""
    calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls") or ())]
    written = {"content": message["content"]} | ({"tool_calls": calls} if calls else {})

    async def whole() -> AsyncIterator[dict[str, Any]]:
        yield written

    async for event in _stream_deltas(model, whole(), reason):
        yield event


async def _stream_deltas(model: str, parts: AsyncIterator[dict[str, Any]], reason: str) -> AsyncIterator[str]:
    head = _completion_head("chat.completion.chunk", model)

    def event(delta: dict[str, Any], end: str | None = None) -> str:
        return f"data: {json.dumps(head | {'choices': [{'index': 0, 'delta': delta, 'finish_reason': end}]})}\n\n"

    yield event({"role": "assistant", "content": ""})
    async for part in parts:
        yield event(part)
    yield event({}, reason)
    yield "data: [DONE]\n\n"


def _completion_head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}
