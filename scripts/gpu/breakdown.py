"""Where the time of an update goes: the events of torch.profiler, divided among a few groups.

Each event gets a group from what it is nested in: an operator of attention, an operator that touches the vocabulary (by its
shapes), the optimizer's step, a layer of the model (`LAYER`, written by `annotated`). A backward operator has the group of
the forward operator that it belongs to, by autograd's sequence numbers. On a GPU the time is that of kernels, each with the
group of the operator that started it; on a CPU it is the operators' own time.

Invariants: each nanosecond of a kernel or operator is in exactly one group; the groups add up to the update's seconds, since
`rest` is what no other group has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LAYER = "homerl: layer"
ATTENTION, LINEAR, INSIDE, LOGITS = "attention", "linear", "norm, rope, activation", "logits"
OPTIMIZER, COMMUNICATION, REST = "optimizer", "communication", "rest"
GROUPS = (ATTENTION, LINEAR, INSIDE, LOGITS, OPTIMIZER, COMMUNICATION, REST)

COMMUNICATES = re.compile(r"nccl|gloo|c10d::|all_?reduce|all_?gather|reduce_scatter", re.I)
OPTIMIZES = re.compile(r"Optimizer\.(step|zero_grad)|_foreach_|_fused_adam|multi_tensor|clip_grad", re.I)
ATTENDS = re.compile(r"attention|flash|fmha|varlen|attn|triton_tem_fused(?!.*mm)", re.I)
PREDICTS = re.compile(r"log_softmax|cross_?entropy|nll_loss|logsumexp|log_?prob|lm_?head", re.I)
MULTIPLIES = re.compile(r"aten::(addmm|mm|bmm|baddbmm|matmul|linear)\b|gemm|cutlass|nvjet|cublas|xmma", re.I)
SHAPES = re.compile(r"rms_?norm|layer_?norm|rope|rotary|silu|swiglu|geglu", re.I)
BACKWARD = "autograd::engine::evaluate_function"


@dataclass(frozen=True)
class Event:
    """An operator, an annotation, or (`device`) a kernel. Times are in nanoseconds. `link` of a kernel is the operator's
    `id`; `sequence` is autograd's number, -1 for none; `forward` is the thread of the forward pass, for backward events.
    """

    name: str
    start: int
    duration: int
    thread: int = 0
    id: int = 0
    link: int = 0
    sequence: int = -1
    forward: int = 0
    shapes: tuple[Any, ...] = ()
    device: bool = False
    annotation: bool = False


def events(profiler: Any) -> Iterator[Event]:
    """The events of a torch profiler that has stopped."""
    from torch.autograd import DeviceType

    for event in profiler.profiler.kineto_results.events():
        device = event.device_type() != DeviceType.CPU
        if device and event.is_user_annotation():  # the span of an annotation, whose kernels have events of their own
            continue
        yield Event(
            event.name(), event.start_ns(), event.duration_ns(), event.start_thread_id(), event.correlation_id(),
            event.linked_correlation_id(), event.sequence_nr(), event.fwd_thread_id(), tuple(event.shapes()), device,
            event.is_user_annotation(),
        )  # fmt: skip


def breakdown(found: Iterable[Event], seconds: float, vocabulary: int) -> dict[str, float]:
    """Seconds of an update by group. The update took `seconds`; a dimension of size `vocabulary` marks logits."""
    host, kernels = [], []
    for event in found:
        (kernels if event.device else host).append(event)
    groups, own = _host_groups(host, vocabulary)
    spent: Counter[str] = Counter()
    for kernel in kernels:
        spent[_kernel_group(kernel.name, groups.get(kernel.link) if kernel.link else None)] += kernel.duration
    if not kernels:
        spent = own
    taken = {group: spent[group] / 1e9 for group in GROUPS if group != REST}
    return taken | {REST: max(seconds - sum(taken.values()), 0.0)}


def _kernel_group(name: str, started_by: str | None) -> str:
    if COMMUNICATES.search(name):
        return COMMUNICATION
    if ATTENDS.search(name):
        return ATTENTION
    return started_by or (LINEAR if MULTIPLIES.search(name) else INSIDE if SHAPES.search(name) else REST)


@dataclass
class _Open:
    """An event that has not ended, with its group and the time of the events inside it."""

    event: Event
    group: str
    end: int
    inside: int = 0


def _host_groups(host: list[Event], vocabulary: int) -> tuple[dict[int, str], Counter[str]]:
    """The group of each operator by its id, and the operators' own time by group."""
    groups: dict[int, str] = {}
    own: Counter[str] = Counter()
    forward: dict[tuple[int, int], str] = {}
    stacks: dict[int, list[_Open]] = {}

    def close(stack: list[_Open]) -> None:
        done = stack.pop()
        if not done.event.annotation:
            own[done.group] += max(done.event.duration - done.inside, 0)
        if stack:
            stack[-1].inside += done.event.duration

    for event in sorted(host, key=lambda event: (event.start, -event.duration)):
        stack = stacks.setdefault(event.thread, [])
        while stack and stack[-1].end <= event.start:
            close(stack)
        group = _host_group(event, stack[-1].group if stack else REST, forward, vocabulary)
        if event.sequence >= 0 and not event.forward:
            forward[event.thread, event.sequence] = group  # the innermost operator made the node
        if not event.link:  # calls of the CUDA runtime count apart
            groups[event.id] = group
        stack.append(_Open(event, group, event.start + event.duration))
    for stack in stacks.values():
        while stack:
            close(stack)
    return groups, own


def _host_group(event: Event, outer: str, forward: dict[tuple[int, int], str], vocabulary: int) -> str:
    """The group of an operator or annotation inside one of group `outer`."""
    if event.name == LAYER:
        return INSIDE
    if COMMUNICATES.search(event.name):
        return COMMUNICATION
    if OPTIMIZES.search(event.name):
        return OPTIMIZER
    if event.name.startswith(BACKWARD) and (known := forward.get((event.forward, event.sequence))):
        return known
    if outer in (ATTENTION, LOGITS, OPTIMIZER, COMMUNICATION):
        return outer
    if ATTENDS.search(event.name):
        return ATTENTION
    if PREDICTS.search(event.name) or any(vocabulary in shape for shape in event.shapes if isinstance(shape, list)):
        return LOGITS
    if MULTIPLIES.search(event.name):
        return LINEAR
    return INSIDE if SHAPES.search(event.name) else outer


@contextmanager
def annotated(model: Any) -> Iterator[None]:
    """Mark each layer of the model in the profile, also where a backward pass computes it again."""
    import torch

    open_ranges: list[Any] = []

    def begin(*_: Any) -> None:
        open_ranges.append(torch.profiler.record_function(LAYER))
        open_ranges[-1].__enter__()

    def end(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    layers = [module for module in model.modules() if type(module).__name__.endswith("DecoderLayer")]
    hooks = [layer.register_forward_pre_hook(begin) for layer in layers]
    hooks += [layer.register_forward_hook(end, always_call=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
