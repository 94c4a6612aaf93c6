"""Two patches of transformers by which sampling copies less.

The cache layer of transformers copies all keys and values for each token that is sampled: `DynamicLayer.update` joins what
it has with the new columns in a new tensor. Here a layer has room for what will be sampled.

Versions: transformers 5.17.
Upstream: no upstream issue known. To reproduce: look at `keys.data_ptr()` before and after `DynamicLayer.update`.

transformers also copies all keys and values for each query head of a group, for each token that it samples.
`sdpa_attention_forward` repeats the keys and values of grouped-query attention as soon as there is a mask, which a padded
batch always has. On a CPU this copy takes a third of the time of sampling. For one new token no copy is needed: the query
heads of a group are the rows of one attention over the keys that they share.

Versions: transformers 5.17.
Upstream: no upstream issue known. To reproduce: profile `generate` on a left-padded batch of a model whose
`num_key_value_heads` is below its `num_attention_heads`, and find `repeat_kv`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


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
