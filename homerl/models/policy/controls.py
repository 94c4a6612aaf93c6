"""Keeps text from becoming control tokens.

A tokenizer reads `<|im_end|>` as the token that ends a message, wherever it stands. A device of that name would end the
message that names it, and what follows would speak as the assistant. So contents are rendered with a stand-in for each such
text, and the stand-in becomes the tokens of the text, spelt as any other words are.

What the assistant said may have the marks of its own calls and thoughts, which it wrote as tokens. Whatever others say has
none that a chat template writes: a device called `</tool_response>` ends no answer of a tool.

Invariants: a control token comes from a chat template, or was sampled; text without such marks is encoded as always.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from homerl.envs.core.messages import Message

MARK = re.compile(r"<[^<>\s]+>")
STAND_IN = "\ue0f0{}\ue0f1"  # characters of private use, which no text is written in
STANDS_IN = re.compile("\ue0f0([0-9]{1,6})\ue0f1")


@dataclass(frozen=True)
class ControlTokens:
    """The texts that a tokenizer reads as control tokens, and the ids of each when it is spelt.

    `special` finds those that tokenizers call so, and `marks` also those with a mark that the chat template writes.
    """

    numbers: Mapping[str, int]
    special: re.Pattern[str]
    marks: re.Pattern[str]
    spelt: Sequence[Sequence[int]]

    def shield_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Messages with a stand-in for each control token that one of their texts writes."""
        return [self._shielded(one, self.special if one["role"] == "assistant" else self.marks) for one in messages]

    def shield_tools(self, tools: Sequence[Any]) -> list[Any]:
        """The same of tools."""
        return [self._shielded(tool, self.marks) for tool in tools]

    def _shielded(self, value: Any, pattern: re.Pattern[str]) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: STAND_IN.format(self.numbers[found[0]]), value)
        if isinstance(value, Mapping):
            return {self._shielded(key, pattern): self._shielded(part, pattern) for key, part in value.items()}
        return [self._shielded(part, pattern) for part in value] if isinstance(value, (list, tuple)) else value

    def split_rendered(self, text: str) -> Iterator[tuple[int, str, Sequence[int]]]:
        """The parts of a rendered text: where each begins, and the part itself, or the ids that a stand-in is for."""
        end = 0
        for found in STANDS_IN.finditer(text):
            if int(found[1]) < len(self.spelt):
                yield end, text[end : found.start()], ()
                yield found.start(), found[0], self.spelt[int(found[1])]
                end = found.end()
        yield end, text[end:], ()


def control_tokens_of(tokenizer: Any) -> ControlTokens:
    """What a tokenizer reads as control tokens."""
    return _controls_of(tokenizer, str(tokenizer.chat_template), tokenizer.eos_token)


@lru_cache(maxsize=8)
def _controls_of(tokenizer: Any, template: str, end: str) -> ControlTokens:
    known = tokenizer.added_tokens_decoder.values()
    special = [str(token) for token in known if token.special or str(token) == end]
    other = [str(token) for token in known if str(token) not in special and _has_mark(str(token), template)]
    texts = [*special, *other]
    spelt = [_spelt(tokenizer, [text]) for text in special]
    spelt += [_spelt(tokenizer, filter(None, re.split(r"(?<=<)", text))) for text in other]  # they are split nowhere else
    return ControlTokens({text: i for i, text in enumerate(texts)}, _any_of(special), _any_of(texts), spelt)


def _has_mark(text: str, template: str) -> bool:
    return any(mark in template for mark in MARK.findall(text))


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")


def _spelt(tokenizer: Any, parts: Iterable[str]) -> list[int]:
    """The ids of the parts of a text, none of which is a special token."""
    return [token for part in parts for token in tokenizer.encode(part, add_special_tokens=False, split_special_tokens=True)]


def render_shielded(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any) -> str:
    """A dialogue in the tokenizer's chat template, for `encoded`. `options` are the template's."""
    controls = control_tokens_of(tokenizer)
    shown = None if tools is None else controls.shield_tools(tools)
    text: str = tokenizer.apply_chat_template(controls.shield_messages(messages), tools=shown, tokenize=False, **options)
    return text


def encode_shielded(tokenizer: Any, text: str) -> list[int]:
    """The ids of a rendered dialogue, or of a part of it."""
    if not STANDS_IN.search(text):
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids
    parts = control_tokens_of(tokenizer).split_rendered(text)
    return [token for _, part, spelt in parts for token in spelt or tokenizer.encode(part, add_special_tokens=False)]


def encode_with_template_mask(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]
) -> tuple[list[int], list[int]]:
    """The ids of a whole dialogue, and for each whether the assistant said it (1 or 0), as homerl's template marks it."""
    controls = control_tokens_of(tokenizer)
    messages, tools = controls.shield_messages(messages), controls.shield_tools(tools)
    text: str = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    found = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        return_dict=True,
        return_assistant_tokens_mask=True,
        tokenizer_kwargs={"return_offsets_mapping": True},
    )
    if not STANDS_IN.search(text):
        return found["input_ids"], found["assistant_masks"]
    said = bytearray(len(text) + 1)  # by character
    for (first, last), mask in zip(found["offset_mapping"], found["assistant_masks"], strict=True):
        said[first:last] = bytes([mask]) * (last - first)
    ids, masks = list[int](), list[int]()
    for begin, part, spelt in controls.split_rendered(text):
        if spelt:
            ids += spelt
            masks += [said[begin]] * len(spelt)
        else:
            read = tokenizer(part, add_special_tokens=False, return_offsets_mapping=True)
            ids += read["input_ids"]
            masks += [said[begin + first] for first, _ in read["offset_mapping"]]
    return ids, masks
