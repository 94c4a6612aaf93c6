"""Keeps text from becoming control tokens.

A tokenizer reads `<|im_end|>` as the token that ends a message, wherever it stands. A device of that name would end the
message that names it, and what follows would speak as the assistant. So contents are rendered with a stand-in for each such
text, and the stand-in becomes the tokens of the text, spelt as any other words are.

Invariants: a control token comes from a chat template, or was sampled; text without such marks is encoded as always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from envs.messages import Message

STAND_IN = "\ue0f0{}\ue0f1"  # characters of private use, which no text is written in


@dataclass(frozen=True)
class Controls:
    """The texts that a tokenizer reads as control tokens, and the ids of each when it is spelt.

    `reader` is the tokenizer with a token for each stand-in, and `spelt` has the ids of its text by the stand-in's id.
    """

    numbers: Mapping[str, int]
    pattern: re.Pattern[str]
    reader: Any
    spelt: Mapping[int, Sequence[int]]

    def shielded(self, value: Any) -> Any:
        """A value of JSON with a stand-in for each control token that one of its texts writes."""
        if isinstance(value, str):
            return self.pattern.sub(lambda found: STAND_IN.format(self.numbers[found[0]]), value)
        if isinstance(value, Mapping):
            return {self.shielded(key): self.shielded(part) for key, part in value.items()}
        return [self.shielded(part) for part in value] if isinstance(value, (list, tuple)) else value

    def spell(self, ids: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """For each id of the reader, where it stood and the tokenizer's ids: one, or those of a stand-in's text."""
        for at, token in enumerate(ids):
            yield at, self.spelt.get(token, (token,))


@lru_cache(maxsize=8)
def controls_of(tokenizer: Any) -> Controls:
    """What a tokenizer reads as control tokens."""
    from tokenizers import AddedToken

    texts = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    pattern = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")
    reader = deepcopy(tokenizer)
    stand_ins = [STAND_IN.format(number) for number in range(len(texts))]
    reader.add_tokens([AddedToken(text, normalized=False) for text in stand_ins])
    ids = reader.convert_tokens_to_ids(stand_ins)  # told, since those of a tokenizer may have gaps
    spelt = [tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True) for text in texts]
    return Controls({text: i for i, text in enumerate(texts)}, pattern, reader, dict(zip(ids, spelt, strict=True)))


def rendered(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any) -> str:
    """A dialogue in the tokenizer's chat template, for `encoded`. `options` are the template's."""
    shielded = controls_of(tokenizer).shielded
    text: str = tokenizer.apply_chat_template(
        shielded(list(messages)), tools=shielded(tools) if tools is not None else None, tokenize=False, **options
    )
    return text


def encoded(tokenizer: Any, text: str) -> list[int]:
    """The ids of a rendered dialogue, or of a part of it."""
    if "\ue0f0" not in text:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids
    controls = controls_of(tokenizer)
    read = controls.reader.encode(text, add_special_tokens=False)
    return [token for _, spelt in controls.spell(read) for token in spelt]


def with_mask(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The ids of a whole dialogue, and for each whether the assistant said it (1 or 0), as the template marks it."""
    controls = controls_of(tokenizer)
    found = controls.reader.apply_chat_template(
        controls.shielded(list(messages)), tools=controls.shielded(tools), return_dict=True,
        return_assistant_tokens_mask=True,
    )  # fmt: skip
    ids, said = found["input_ids"], found["assistant_masks"]
    places = [(said[at], token) for at, spelt in controls.spell(ids) for token in spelt]
    return [token for _, token in places], [mask for mask, _ in places]
