"""How a tokenizer's chat template writes a dialogue, in pieces: what others say, and what the assistant says.

Invariant: SFT and rollouts write a dialogue in the same pieces, so a rollout reads the tokens that SFT has taught.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from homerl.envs.core.messages import Message, text_message
from homerl.models.policy import controls
from homerl.models.policy.controls import encode_shielded, render_shielded
from homerl.play import speech
from homerl.play.messages import IM_END, MARK, THOUGHT, is_homerl_template

OWN = f"{{#- {MARK} is the model's own. -#}}"  # before a template that homerl did not write, and trains with
USER: Message = {"role": "user", "content": "Hello."}  # stands for all that was said before


@dataclass(frozen=True)
class ChatFormat:
    """What a chat template writes around the assistant's words.

    `opening` stands before them, and `end` is the token after them. `begin` is the control token with which a message
    begins; empty if there is none. `ends` is the number of `end` tokens in the dialogue of `USER` and one answer: some
    templates also end a user's message with it. A template that is the model's `own` takes arguments of calls as objects.
    """

    opening: str
    end: str
    begin: str
    ends: int
    own: bool

    def render_dialogue(
        self, tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any
    ) -> str:
        """A dialogue as text, for `encoded`. `options` are the template's."""
        return render_shielded(
            tokenizer, [*map(with_argument_objects, messages)] if self.own else messages, tools, **options
        )


def chat_format_of(tokenizer: Any) -> ChatFormat:
    """The format of a tokenizer, whose end of a turn is its `eos_token`. Raises `ValueError` for a template that cannot be
    trained with.
    """
    return _format(tokenizer, str(tokenizer.chat_template))


@lru_cache(maxsize=8)
def _format(tokenizer: Any, template: str) -> ChatFormat:
    heard, asked = (render_shielded(tokenizer, [USER], add_generation_prompt=add) for add in (False, True))
    opening = asked.removeprefix(heard)
    if not (
        is_homerl_template(template)
        and asked.startswith(heard)
        and speech.parse_speech(f"{opening}Yes").words.endswith("Yes")
    ):
        raise ValueError("the chat template is not homerl's training template; load the tokenizer with load_tokenizer")
    end, begin = tokenizer.eos_token, leading_control_token(tokenizer, opening)
    ends = render_shielded(tokenizer, [USER, text_message("Yes")]).count(end)
    return ChatFormat(opening, end, begin, ends, template.startswith(OWN))


def leading_control_token(tokenizer: Any, text: str) -> str:
    """The control token with which a text begins, without what another adds to it; empty if there is none."""
    return min(filter(text.startswith, tokenizer.get_added_vocab()), key=len, default="")


def render_new_messages(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any], first: bool) -> str:
    """The text that new messages add to a dialogue, up to where the assistant writes next.

    After the first time the messages begin with the assistant's last one, and the text begins right after the token that
    ends it. A template that was probed renders a message from its neighbours only, so nothing before that one is needed.
    Raises `ValueError` for any other chat template.
    """
    form = chat_format_of(tokenizer)
    if first:
        return form.render_dialogue(tokenizer, messages, tools, add_generation_prompt=True)
    text = form.render_dialogue(tokenizer, [USER, *messages], add_generation_prompt=True)
    return text.split(form.end, form.ends)[-1]


def is_from_assistant(message: Message) -> bool:
    """Whether the assistant said it."""
    return bool(message["role"] == "assistant")


def render_assistant_message(tokenizer: Any, message: Message) -> str:
    """The text that the assistant writes for a message, with its end."""
    form = chat_format_of(tokenizer)
    head = form.render_dialogue(tokenizer, [USER], add_generation_prompt=True)
    said, end, _ = _after(head, form.render_dialogue(tokenizer, [USER, message])).rpartition(form.end)
    return said + end


def render_turn_pieces(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """For each message of the assistant: what was added before it, and what the assistant writes."""
    first, start = True, 0
    for at, message in enumerate(messages):
        if is_from_assistant(message):
            yield (
                render_new_messages(tokenizer, messages[start:at], tools, first),
                render_assistant_message(tokenizer, message),
            )
            first, start = False, at


def encode_messages(tokenizer: Any, text: str, first: bool = True) -> list[int]:
    """The ids of rendered messages. Those of each message are kept, since the episodes of a group share their first ones.

    No token crosses the beginning of a message, since that is a control token. A text that is not the `first` is read as it
    is after the end of a message, since some tokenizers read the beginning of a text otherwise.
    """
    form = chat_format_of(tokenizer)
    head, *rest = re.split(f"(?={re.escape(form.begin)})", text) if form.begin else [text]
    begun = _ids(tokenizer, head) if first else _ids(tokenizer, form.end + head)[1:]
    return [*begun, *(token for message in rest for token in _ids(tokenizer, message))]


@lru_cache(maxsize=4096)
def _ids(tokenizer: Any, message: str) -> tuple[int, ...]:
    return tuple(encode_shielded(tokenizer, message))


def encode_with_mask(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The ids of a whole dialogue, and for each whether the assistant said it (1 or 0).

    Where the template speaks ChatML, it marks what the assistant said. Elsewhere the pieces tell, up to its last message.
    Raises `ValueError` for a dialogue that the template does not write in such pieces.
    """
    form = chat_format_of(tokenizer)
    if form.end == IM_END and not form.own:
        return controls.encode_with_template_mask(tokenizer, messages, tools)
    ids, mask, written = list[int](), list[int](), ""
    for context, said in render_turn_pieces(tokenizer, messages, tools):
        for text, one in (context, 0), (said, 1):
            new = encode_messages(tokenizer, text, first=not ids)
            ids, mask, written = [*ids, *new], [*mask, *[one] * len(new)], written + text
    _after(written, form.render_dialogue(tokenizer, messages, tools))
    return ids, mask


def with_argument_objects(message: Message) -> dict[str, Any]:
    """The message without its thought, and with its calls' arguments as objects: templates other than ours may write a
    text as a quoted text.
    """
    calls = [
        _known(call) | {"function": call["function"] | {"arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    said = {key: value for key, value in _known(message).items() if key not in (THOUGHT, "tool_calls")}
    return {"content": "", **said, **({"tool_calls": calls} if calls else {})}


def _known(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a row of data has: a column that other rows have is None in it."""
    return {key: value for key, value in data.items() if value is not None}


def _after(head: str, text: str) -> str:
    if not text.startswith(head):
        raise ValueError("the chat template writes a message otherwise when others follow")
    return text[len(head) :]
