"""Faster sampling with transformers: each token of a dialogue is read once, and keys and values are copied less.

The cache of dialogues. A prompt is the dialogue so far: an earlier prompt, what was sampled after it, and what was said
since. `transformers` would read all of it anew for every message. What is held of a dialogue replaces what was held of its
beginning, so a dialogue that forks from an earlier step is read anew; with `forks`, it is read from there on.

Two patches of transformers 5.17. No upstream issue is known of either:

- `DynamicLayer.update` copies all keys and values for each token that is sampled: it joins what it has with the new columns
  in a new tensor. A `RoomyLayer` has room for what will be sampled. To reproduce: see `keys.data_ptr()` before and after.
- `sdpa_attention_forward` copies all keys and values for each query head of a group, as soon as there is a mask, which a
  padded batch always has. On a CPU this takes a third of the time of sampling. For one new token no copy is needed: the
  query heads of a group are the rows of one attention over the keys that they share. To reproduce: profile `generate` on a
  left-padded batch of a model whose `num_key_value_heads` is below its `num_attention_heads`, and find `repeat_kv`.

Invariants:
- What is held belongs to one model and to its weights as they are: whoever changes these clears the cache.
- A prompt that is held in part gives the samples of one that is read anew, up to rounding.
- Equal prompts of a batch are read once.
- A row's tokens lie side by side, and so far from one another as in the dialogue.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import Cache

    Layers = tuple[tuple[torch.Tensor, torch.Tensor], ...]


def make_buffer(rows: int, like: torch.Tensor, columns: int) -> torch.Tensor:
    """An empty buffer for `columns` tokens of `rows` rows, each like a tensor of (heads, tokens, size)."""
    return like.new_empty(rows, like.shape[0], columns, like.shape[-1])


@lru_cache(1)
def roomy_layer_class() -> Any:
    """A class that extends the layer: `keys` and `values` are the filled columns of two buffers, with room for more."""
    from transformers.cache_utils import DynamicLayer

    class RoomyLayer(DynamicLayer):
        """The buffers grow by `room` columns when they are full."""

        def __init__(self, room: int) -> None:
            super().__init__()
            self.room = room
            self.buffers: tuple[torch.Tensor, torch.Tensor] | None = None

        def opened(
            self, rows: int, length: int, keys: torch.Tensor, values: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            """Begin with `length` columns of `rows` rows, which the caller fills; returns them. `keys` and `values` are one
            row's, (heads, tokens, size).
            """
            self.lazy_initialization(keys, values)
            self.buffers = make_buffer(rows, keys, length + self.room), make_buffer(rows, values, length + self.room)
            return self.filled(length)

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            """Append columns, tensors of (batch, heads, new, size); return all of them."""
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            before, stop = self.get_seq_length(), self.get_seq_length() + key_states.shape[-2]
            if self.buffers is None or stop > self.buffers[0].shape[-2]:
                grown = [make_buffer(len(key_states), states[0], stop + self.room) for states in (key_states, value_states)]
                if before:
                    grown[0][:, :, :before], grown[1][:, :, :before] = self.keys, self.values
                self.buffers = grown[0], grown[1]
            keys, values = self.buffers
            keys[:, :, before:stop], values[:, :, before:stop] = key_states, value_states
            return self.filled(stop)

        def batch_select_indices(self, indices: torch.Tensor) -> None:
            """Keep these rows."""
            if self.buffers is not None:
                columns = self.get_seq_length()
                keys, values = self.buffers
                self.buffers = keys[indices], values[indices]
                self.filled(columns)

        def filled(self, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
            """Show so many columns as those that are there."""
            assert self.buffers is not None
            self.keys, self.values = (buffer[:, :, :columns] for buffer in self.buffers)
            return self.keys, self.values

    return RoomyLayer


NAME = "homerl_grouped"  # as transformers knows this attention


@contextmanager
def grouped_attention(model: Any) -> Iterator[None]:
    """Within the context, a model that attends by `sdpa` decodes without these copies; values differ by rounding."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    config = model.config.get_text_config()
    before = config._attn_implementation
    if before == "sdpa":
        AttentionInterface.register(NAME, attend_grouped)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def attend_grouped(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls; tensors of shape (batch, heads, T, size), one of (batch, T, heads,
    size) back."""
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    batch, heads, length, size = query.shape
    shared = heads // key.shape[1]
    plain = attention_mask is None or attention_mask.shape[1] > 1 or options.get("position_bias") is not None
    if length > 1 or shared == 1 or plain:
        found: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return found
    rows = query.reshape(batch, heads // shared, shared, size)  # the query heads of a group follow one another
    attended = scaled_dot_product_attention(rows, key, value, attn_mask=attention_mask, scale=scaling)
    return attended.reshape(batch, 1, heads, size), None


ATTENTION = (NAME, "sdpa", "eager")  # they look at every column of the mask; others take padding to be on the left alone
LENGTH_DEPENDENT = ("dynamic", "longrope")  # kinds of RoPE whose keys change when the dialogue grows
TAKEN = {"past_key_values", "position_ids", "attention_mask"}  # by the forward pass of a model


@dataclass(frozen=True)
class CachedDialogue:
    """The keys and values of `ids` in each layer, two tensors of (heads, tokens, size)."""

    ids: tuple[int, ...]
    layers: Layers

    def __len__(self) -> int:
        return len(self.ids)

    def first_tokens(self, stop: int) -> CachedDialogue:
        """The first `stop` tokens."""
        return CachedDialogue(self.ids[:stop], tuple((keys[:, :stop], values[:, :stop]) for keys, values in self.layers))


class DialogueCache:
    """The dialogues that were held last, at most `entries` of them. With `forks`, a dialogue begins with what any of them
    begins with, and what several prompts of a batch begin with is read once: all that people say in one home has one prompt.
    Samples of training are not to depend on which were held."""

    def __init__(self, entries: int, forks: bool = False) -> None:
        self.entries, self.forks = entries, forks
        self._held: OrderedDict[tuple[int, ...], CachedDialogue] = OrderedDict()

    def find_prefix(self, prompt: Sequence[int], end: int) -> CachedDialogue | None:
        """What is held of the beginning of a prompt, without its last token; None is nothing. `end` ends a message: what is
        held ends before one, or one token earlier if the message was cut.
        """
        ids = tuple(prompt)
        for stop in (at for at in range(len(ids) - 1, 0, -1) if ids[at] == end):
            if found := self._held.get(ids[:stop]) or self._held.get(ids[: stop - 1]):
                return found
        shared = {key: count_shared_tokens(key, ids[:-1]) for key in self._held} if self.forks else {}
        nearest = max(shared, key=lambda key: shared[key], default=())
        return self._held[nearest].first_tokens(shared[nearest]) if shared.get(nearest) else None

    def keep_dialogue(self, held: CachedDialogue, instead: CachedDialogue | None, tokens: int) -> None:
        """Hold a dialogue, in place of its beginning. The oldest ones are dropped if all have more than `tokens` tokens."""
        if instead:
            self._held.pop(instead.ids, None)
        self._held[held.ids] = held
        self._held.move_to_end(held.ids)
        while len(self._held) > self.entries or sum(map(len, self._held.values())) > tokens:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Drop everything."""
        self._held.clear()


def count_shared_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """With how many equal tokens two dialogues begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def can_cache_dialogues(model: Any) -> bool:
    """Whether the keys and values of a model can be cut and joined: in all layers one for each token, whatever follows it.
    Models on a GPU are left out: there the engine `vllm` holds them.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    config = model.config.get_text_config()
    if model.device.type != "cpu" or config._attn_implementation not in ATTENTION:
        return False
    if (getattr(config, "rope_parameters", None) or {}).get("rope_type") in LENGTH_DEPENDENT:
        return False
    plain = all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
    return plain and _forward_arguments(model) >= TAKEN


def _forward_arguments(model: Any) -> set[str]:
    """The names that a model's forward pass takes, or that of the model within an adapter of peft."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return set(inspect.signature(inner.forward).parameters)


def prefill_caches(
    model: Any, prompts: Sequence[Sequence[int]], begun: Sequence[CachedDialogue | None], pad: int, most: int
) -> list[CachedDialogue]:
    """The keys and values of prompts without their last tokens. `begun` is what is held of each; a pass over what is not
    takes at most `most` tokens, or one of each prompt.
    """
    found: dict[int, CachedDialogue] = {}
    known = [held or CachedDialogue((), ()) for held in begun]
    left = sorted((len(prompt) - 1 - len(held), i) for i, (prompt, held) in enumerate(zip(prompts, known)))
    found |= {i: known[i] for new, i in left if not new}
    for members in group_by_length([(new, i) for new, i in left if new]):
        asked = [tuple(prompts[i][:-1]) for i in members]
        found |= dict(zip(members, _read_together(model, asked, [known[i] for i in members], pad, most)))
    return [found[i] for i in range(len(prompts))]


def group_by_length(left: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Groups of prompts, given as (tokens to read, number) in ascending order. In a group none has much more than another to
    read, since all are padded to the longest.
    """
    group: list[int] = []
    least = 0
    for new, number in left:
        if group and new > 2 * least + 16:
            yield group
            group = []
        least = least if group else new
        group.append(number)
    if group:
        yield group


def _read_together(
    model: Any, prompts: Sequence[tuple[int, ...]], begun: Sequence[CachedDialogue], pad: int, most: int
) -> list[CachedDialogue]:
    """Read what is not held of some prompts, in passes over columns: what is held, padded on the left, then the rest, padded
    on the right.
    """
    import torch

    rests = [prompt[len(held) :] for prompt, held in zip(prompts, begun)]
    before, width = max(map(len, begun)), max(map(len, rests))
    ids = torch.tensor([[*rest, *[pad] * (width - len(rest))] for rest in rests])
    gaps = [(before - len(held), len(prompt), width - len(rest)) for prompt, held, rest in zip(prompts, begun, rests)]
    mask = torch.tensor([[0] * left + [1] * own + [0] * right for left, own, right in gaps])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = join_caches(model, begun, before, width)
    chunk = max(1, most // len(prompts))
    last = {"logits_to_keep": 1} if "logits_to_keep" in _forward_arguments(model) else {}
    for start in range(0, width, chunk):
        stop = min(width, start + chunk)
        model(
            input_ids=ids[:, start:stop],
            attention_mask=mask[:, : before + stop],
            position_ids=positions[:, before + start : before + stop],
            past_key_values=cache,
            use_cache=True,
            **last,
        )
    return [cut_cache_row(cache, row, prompt, before + len(rest)) for row, (prompt, rest) in enumerate(zip(prompts, rests))]


def join_caches(model: Any, rows: Sequence[CachedDialogue], length: int, room: int) -> Cache:
    """A cache of one batch, padded on the left to `length` tokens, with room for `room` more."""
    from transformers import Cache

    cache = Cache(layers=[roomy_layer_class()(room) for _ in range(model.config.get_text_config().num_hidden_layers)])
    shapes = next((held.layers for held in rows if held.layers), None)
    if not length or shapes is None:
        return cache
    for number, layer in enumerate(cache.layers):
        columns = layer.opened(len(rows), length, *shapes[number])
        for row, held in enumerate(rows):
            start = length - len(held)
            for part, own in zip(columns, held.layers[number] if held.layers else ()):
                part[row, :, start:] = own
            for part in columns:
                part[row, :, :start] = 0  # what was in memory may be no number
    return cache


def cut_cache_row(cache: Cache, row: int, ids: tuple[int, ...], stop: int) -> CachedDialogue:
    """What a cache has of a row: `ids` are the tokens before column `stop`."""
    columns = slice(stop - len(ids), stop)
    return CachedDialogue(
        ids, tuple((one.keys[row, :, columns].clone(), one.values[row, :, columns].clone()) for one in cache.layers)
    )
