"""A layer of a cache with room for the tokens that are to be sampled: transformers copies all it has for each token."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


class RoomyLayer(DynamicLayer):
    """Like transformers' layer, but `keys` and `values` are the filled columns of two buffers, with `room` for more."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def opened(self, rows: int, length: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Begin with `length` columns of `rows` rows, which the caller fills; returns them. `keys` and `values` are those of
        one row in such a layer, (heads, tokens, size).
        """
        self.lazy_initialization(keys, values)
        self._buffers = self._made(rows, keys, length + self.room), self._made(rows, values, length + self.room)
        return self._filled(length)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns, tensors of (batch, heads, new, size); return all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        filled, stop = self.get_seq_length(), self.get_seq_length() + key_states.shape[-2]
        if self._buffers is None or stop > self._buffers[0].shape[-2]:
            rows = len(key_states)
            grown = self._made(rows, key_states[0], stop + self.room), self._made(rows, value_states[0], stop + self.room)
            if filled:
                grown[0][:, :, :filled], grown[1][:, :, :filled] = self.keys, self.values
            self._buffers = grown
        keys, values = self._buffers
        keys[:, :, filled:stop], values[:, :, filled:stop] = key_states, value_states
        return self._filled(stop)

    def _filled(self, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Show so many columns as those that are there."""
        assert self._buffers is not None
        self.keys, self.values = (buffer[:, :, :columns] for buffer in self._buffers)
        return self.keys, self.values

    @staticmethod
    def _made(rows: int, like: torch.Tensor, columns: int) -> torch.Tensor:
        return like.new_empty(rows, like.shape[0], columns, like.shape[-1])
