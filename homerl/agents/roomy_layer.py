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

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns, tensors of (batch, heads, new, size); return all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        filled, stop = self.get_seq_length(), self.get_seq_length() + key_states.shape[-2]
        if self._buffers is None or stop > self._buffers[0].shape[-2]:
            self._buffers = self._grown(key_states, stop + self.room), self._grown(value_states, stop + self.room)
            if filled:
                self._buffers[0][:, :, :filled], self._buffers[1][:, :, :filled] = self.keys, self.values
        keys, values = self._buffers
        keys[:, :, filled:stop], values[:, :, filled:stop] = key_states, value_states
        self.keys, self.values = keys[:, :, :stop], values[:, :, :stop]
        return self.keys, self.values

    @staticmethod
    def _grown(states: torch.Tensor, columns: int) -> torch.Tensor:
        return states.new_empty(*states.shape[:2], columns, states.shape[-1])
