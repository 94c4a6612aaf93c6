"""Keys and values of dialogues that go on, so that the model reads each token of a dialogue once.

A prompt is the dialogue so far: an earlier prompt, what was sampled after it, and what was said since. `transformers` would
read all of it anew for every message.

Invariants:
- What is held belongs to one model and to its weights as they are: whoever changes these clears the cache.
- A prompt that is held in part gives the samples of one that is read anew, up to rounding.
- Equal prompts of a batch are read once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from homerl.workarounds.grouped_decoding import NAME

if TYPE_CHECKING:
    import torch
    from transformers import Cache

    Layers = tuple[tuple[torch.Tensor, torch.Tensor], ...]

ATTENTION = (NAME, "sdpa", "eager")  # they look at every column of the mask; others take padding to be on the left alone


@dataclass(frozen=True)
class Held:
    """The keys and values of `ids` in each layer, two tensors of (heads, tokens, size)."""

    ids: tuple[int, ...]
    layers: Layers

    def __len__(self) -> int:
        return len(self.ids)


class DialogueCache:
    """The dialogues that were held last: at most `entries` of them, and of `tokens` tokens."""

    def __init__(self, end: int, entries: int, tokens: int) -> None:
        """`end` is the id with which a message ends, and before which a dialogue is held."""
        self.end, self.entries, self.tokens = end, entries, tokens
        self._held: OrderedDict[tuple[int, ...], Held] = OrderedDict()

    def find(self, prompt: Sequence[int]) -> Held | None:
        """What is held of the beginning of a prompt, without its last token; None is nothing."""
        ids = tuple(prompt)
        for stop in range(len(ids) - 1, 0, -1):
            if ids[stop] == self.end and (found := self._held.get(ids[:stop])):
                return found
        return None

    def keep(self, held: Held, instead: Held | None = None) -> None:
        """Hold a dialogue, in place of its beginning. The oldest ones are dropped if there is no room."""
        if instead:
            self._held.pop(instead.ids, None)
        self._held[held.ids] = held
        self._held.move_to_end(held.ids)
        while len(self._held) > self.entries or sum(map(len, self._held.values())) > self.tokens:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Drop everything."""
        self._held.clear()


def can_hold(model: Any) -> bool:
    """Whether the keys and values of a model can be cut and joined: in all layers one for each token, on a CPU.

    On a GPU they would need memory that `check` does not count; the engines `vllm` and `continuous` hold them there.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    config = model.config.get_text_config()
    plain = all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
    return plain and model.device.type == "cpu" and config._attn_implementation in ATTENTION


def read(model: Any, prompts: Sequence[Sequence[int]], begun: Sequence[Held | None], pad: int, most: int) -> list[Held]:
    """The keys and values of prompts without their last tokens. `begun` is what is held of each; a pass over what is not
    takes at most `most` tokens, or one of each prompt.
    """
    found: dict[int, Held] = {}
    known = [held or Held((), ()) for held in begun]
    left = sorted((len(prompt) - 1 - len(held), i) for i, (prompt, held) in enumerate(zip(prompts, known)))
    found |= {i: known[i] for new, i in left if not new}
    for members in alike([(new, i) for new, i in left if new]):
        asked = [tuple(prompts[i][:-1]) for i in members]
        found |= dict(zip(members, _read_together(model, asked, [known[i] for i in members], pad, most)))
    return [found[i] for i in range(len(prompts))]


def alike(left: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
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


def _read_together(model: Any, prompts: Sequence[tuple[int, ...]], begun: Sequence[Held], pad: int, most: int) -> list[Held]:
    """Read what is not held of some prompts, in passes over columns: what is held, the rest, each padded on the left."""
    import torch

    rests = [prompt[len(held) :] for prompt, held in zip(prompts, begun)]
    before, width = max(map(len, begun)), max(map(len, rests))
    ids = torch.tensor([[pad] * (width - len(rest)) + list(rest) for rest in rests])
    rows = zip(begun, rests)
    mask = torch.tensor([[0] * (before - len(h)) + [1] * len(h) + [0] * (width - len(r)) + [1] * len(r) for h, r in rows])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = joined(model, begun, before, width)
    chunk = max(1, most // len(prompts))
    for start in range(0, width, chunk):
        stop = min(width, start + chunk)
        model(
            input_ids=ids[:, start:stop],
            attention_mask=mask[:, : before + stop],
            position_ids=positions[:, before + start : before + stop],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
    return [
        Held(prompt, tuple(_after(held, layer, row, len(rest), number) for number, layer in enumerate(cache.layers)))
        for row, (prompt, held, rest) in enumerate(zip(prompts, begun, rests))
    ]


def _after(held: Held, layer: Any, row: int, new: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and values of a row in one layer: what was held, and the `new` last columns."""
    import torch

    read_now = (layer.keys[row, :, -new:], layer.values[row, :, -new:])
    if not held.layers:
        return read_now[0].clone(), read_now[1].clone()
    return torch.cat([held.layers[number][0], read_now[0]], 1), torch.cat([held.layers[number][1], read_now[1]], 1)


def joined(model: Any, rows: Sequence[Held], length: int, room: int) -> Cache:
    """A cache of one batch, padded on the left to `length` tokens, with room for `room` more."""
    from transformers import Cache

    from homerl.agents.roomy_layer import RoomyLayer

    cache = Cache(layers=[RoomyLayer(room) for _ in range(model.config.get_text_config().num_hidden_layers)])
    shapes = next((held.layers for held in rows if held.layers), None)
    if not length or shapes is None:
        return cache
    for number, layer in enumerate(cache.layers):
        keys, values = (part.new_zeros(len(rows), part.shape[0], length, part.shape[2]) for part in shapes[number])
        for row, held in enumerate(rows):
            if held.layers:
                keys[row, :, length - len(held) :], values[row, :, length - len(held) :] = held.layers[number]
        layer.update(keys, values)
    return cache


def row_of(cache: Cache, row: int, ids: tuple[int, ...], stop: int) -> Held:
    """What a cache has of a row: `ids` are the tokens before column `stop`."""
    columns = slice(stop - len(ids), stop)
    return Held(ids, tuple((one.keys[row, :, columns].clone(), one.values[row, :, columns].clone()) for one in cache.layers))
