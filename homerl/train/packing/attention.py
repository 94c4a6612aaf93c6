"""Attention over a packed row: each token sees the tokens of its own sequence up to itself, and nothing else.

The queries of a segment attend to the keys of its path (all segments before it, then itself). So keys are looked up
several times, while queries, and all other layers, work on each token once. The mask is causal and ends with the path:
the last query of a segment sees all of its keys. Flash attention has this mask for rows of different lengths
(`flash_attn_varlen_func`, `torch.nn.attention.varlen`), so no block mask is compiled.

Positions rise by one along a path, so a sliding window looks back over the same tokens as in the sequence alone.

Invariants: a row of padded sequences gives the same values; without segments the model attends as it did before, so that
the same model can generate.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedConfig

from homerl.train.packing.prefix_tree import PrefixTree

NAME = "homerl_packed"  # as transformers knows this attention
Device: TypeAlias = torch.device | str
UNKNOWN = ("softcap", "s_aux", "position_bias", "dropout")  # arguments of other attention, which change its values
# takes queries, keys and values of shape (T, heads, size), the segments, the scale, and the tokens of a sliding window
Kernel = Callable[[Tensor, Tensor, Tensor, "AttentionSegments", float, int | None], Tensor]


def copy_to_device(values: np.ndarray, device: Device) -> Tensor:
    """The values as a tensor on a device. A GPU copies them from pinned memory, so that nobody waits for its other work."""
    tensor = torch.from_numpy(values)
    return (tensor.pin_memory() if torch.device(device).type == "cuda" else tensor).to(device, non_blocking=True)


@dataclass  # torch before 2.13 compiles anew for each value in the fields of a frozen one
class AttentionSegments:
    """The segments of a row, for attention.

    `lengths` are their numbers of queries, `paths` the segments whose keys they see. `key_rows` are the rows of the keys of
    all paths, one path after the other, or None if each segment sees itself only. `query_ends` and `key_ends` are
    cumulative, of shape (segments + 1,), and start with 0.
    """

    lengths: list[int]
    paths: list[list[int]]
    key_rows: Tensor | None
    query_ends: Tensor
    key_ends: Tensor
    most_queries: int
    most_keys: int
    recomputed: bool = False


def make_attention_segments(tree: PrefixTree, device: Device, recomputed: bool = False) -> AttentionSegments:
    """The segments of a tree, with tensors on a device. `recomputed` tells whether checkpointing attends again."""
    lengths = [segment.end - segment.start for segment in tree.segments]
    paths = tree.segment_paths()
    key_lengths = [sum(lengths[number] for number in path) for path in paths]
    ranges = [np.arange(segment.start, segment.end) for segment in tree.segments]
    key_rows = None
    if any(len(path) > 1 for path in paths):
        key_rows = copy_to_device(np.concatenate([ranges[number] for path in paths for number in path]), device)

    def ends(sizes: list[int]) -> Tensor:
        return copy_to_device(np.cumsum([0, *sizes], dtype=np.int32), device)

    return AttentionSegments(
        lengths, paths, key_rows, ends(lengths), ends(key_lengths), max(lengths), max(key_lengths), recomputed
    )


def attend_packed_row(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    segments: AttentionSegments,
    kernel: Kernel,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers calls; tensors of shape (1, heads, T, size).

    Raises `ValueError` for a layer whose attention is of another kind (`find_packing_obstacle` knows them beforehand).
    """
    for name in UNKNOWN:
        if others.get(name) not in (None, 0.0):
            raise ValueError(f"packed rows know no `{name}` of attention")
    queries, keys, values = (part.squeeze(0).transpose(0, 1) for part in (query, key, value))
    return kernel(queries, keys, values, segments, scaling, sliding_window).unsqueeze(0), None


uncompiled = torch.compiler.disable(attend_packed_row)  # it depends on the row, so that a compiled layer would not last


def attend_by_segment(
    query: Tensor, key: Tensor, value: Tensor, segments: AttentionSegments, scale: float, window: int | None = None
) -> Tensor:
    """torch's scaled_dot_product_attention on each segment: for every device. Tensors of shape (T, heads, size)."""
    queries = query.transpose(0, 1).split(segments.lengths, dim=1)
    keys = key.transpose(0, 1).split(segments.lengths, dim=1)
    values = value.transpose(0, 1).split(segments.lengths, dim=1)
    grouped = query.shape[1] != key.shape[1]
    parts = []
    for own, path in zip(queries, segments.paths, strict=True):
        seen = [torch.cat([part[number] for number in path], dim=1) for part in (keys, values)]
        known = seen[0].shape[1] - own.shape[1]
        mask = None  # the causal one, unless keys of earlier segments or a window change it
        if known or window:  # a query sees all `known` keys, and its own segment up to itself; of these the last `window`
            mask = torch.ones(own.shape[1], seen[0].shape[1], dtype=torch.bool, device=own.device).tril(known)
            mask = mask.triu(known - window + 1) if window else mask
        attended = scaled_dot_product_attention(
            own[None], seen[0][None], seen[1][None], attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=grouped
        )
        parts.append(attended[0])
    return torch.cat(parts, dim=1).transpose(0, 1)


def attend_by_torch_varlen(
    query: Tensor, key: Tensor, value: Tensor, segments: AttentionSegments, scale: float, window: int | None = None
) -> Tensor:
    """torch's own flash attention for rows of different lengths (CUDA)."""
    from torch.nn.attention.varlen import varlen_attn

    back = window - 1 if window else -1  # how many tokens before itself a query sees; -1 is all of them
    options: dict[str, Any] = {"window_size": (back, 0), "scale": scale}
    shared = query.shape[1] // key.shape[1]
    if shared > 1 and "enable_gqa" in inspect.signature(varlen_attn).parameters:
        options["enable_gqa"] = True
    elif shared > 1:  # torch 2.11
        key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
    with look_up_keys(key.contiguous(), value.contiguous(), segments) as (keys, values):
        return varlen_attn(query.contiguous(), keys, values, *_bounds_of(segments), **options)


def attend_by_flash(
    query: Tensor, key: Tensor, value: Tensor, segments: AttentionSegments, scale: float, window: int | None, *, package: str
) -> Tensor:
    """`flash_attn_varlen_func` of an installed package, or of a kernel from the hub."""
    from transformers.modeling_flash_attention_utils import lazy_import_flash_attention

    (_, varlen, *_), _ = lazy_import_flash_attention(package)
    with look_up_keys(key, value, segments) as (keys, values):
        sizes = {"window_size": (window - 1, 0)} if window else {}
        attended = varlen(query, keys, values, *_bounds_of(segments), softmax_scale=scale, causal=True, **sizes)
    return attended[0] if isinstance(attended, tuple) else attended


def _bounds_of(segments: AttentionSegments) -> tuple[Tensor, Tensor, int, int]:
    return segments.query_ends, segments.key_ends, segments.most_queries, segments.most_keys


@contextmanager
def look_up_keys(key: Tensor, value: Tensor, segments: AttentionSegments) -> Iterator[tuple[Tensor, Tensor]]:
    """The keys and values of all paths, of shape (sum of paths, heads, size).

    What is computed within the context looks them up again in its backward pass. Otherwise a prompt's keys would be kept
    once for each rollout. Checkpointing keeps nothing of it anyway, by hooks of its own, which these would replace.
    """
    if segments.key_rows is None:
        yield key, value
        return
    at = segments.key_rows
    found = [part.index_select(0, at) for part in (key, value)]
    if segments.recomputed:
        yield found[0], found[1]
        return
    size = found[0].shape
    sources = {copy.data_ptr(): part.detach() for copy, part in zip(found, (key, value), strict=True)}

    def pack(saved: Tensor) -> tuple[Tensor, bool]:
        again = saved.data_ptr() in sources and saved.shape == size
        # detached, since an output that is kept as it is keeps its own graph: a pass that fails would never be freed
        return (sources[saved.data_ptr()], True) if again else (saved.detach(), False)

    def unpack(kept: tuple[Tensor, bool]) -> Tensor:
        saved, again = kept
        return saved.index_select(0, at) if again else saved

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield found[0], found[1]


def choose_attention_kernel(attention: str, device_type: str, half: bool = True) -> tuple[str, Kernel]:
    """The kernel for the recipe's `model.attention`, and its name for people. `half` tells of a 16-bit number format.

    `auto` takes on CUDA what is installed: flash-attn 3, flash-attn 2, else torch's own. These know 16-bit formats only, so
    for others, and elsewhere, it takes torch's scaled_dot_product_attention.
    """
    if attention == "auto":
        attention = _best_installed_kernel() if device_type == "cuda" and half else "sdpa"
    if attention == "sdpa":
        return "torch's scaled_dot_product_attention, segment by segment", attend_by_segment
    if attention == "varlen":
        return "torch's varlen attention", attend_by_torch_varlen
    return attention, partial(attend_by_flash, package=attention)


@cache
def _best_installed_kernel() -> str:
    from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

    if is_flash_attn_3_available():
        return "flash_attention_3"
    if is_flash_attn_2_available():
        return "flash_attention_2"
    return "varlen"


@contextmanager
def use_packed_attention(*configs: PreTrainedConfig) -> Iterator[None]:
    """Within the context, models of these configurations attend to packed rows. The backward pass belongs in it, since
    checkpointing attends again.
    """
    AttentionInterface.register(NAME, uncompiled)
    before = [config._attn_implementation for config in configs]
    for config in configs:
        config._attn_implementation = NAME
    try:
        yield
    finally:
        for config, name in zip(configs, before, strict=True):
            config._attn_implementation = name
