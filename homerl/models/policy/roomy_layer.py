"""The cache layer of transformers copies all keys and values for each token that is sampled.

`DynamicLayer.update` joins what it has with the new columns in a new tensor. Here a layer has room for what will be sampled.

Versions: transformers 5.17.
Upstream: no upstream issue known. To reproduce: look at `keys.data_ptr()` before and after `DynamicLayer.update`.
"""

from __future__ import annotations

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
