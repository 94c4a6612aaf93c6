"""transformers copies all keys and values for each query head of a group, for each token that it samples.

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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

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
