"""Where the time of an update goes: the events of torch.profiler, divided among a few groups.

Each event gets a group from what it is nested in: an operator of attention, an operator that touches the vocabulary (by its
shapes), the optimizer's step, a layer of the model (`LAYER`, written by `annotated`). A backward operator has the group of
the forward operator that it belongs to, by autograd's sequence numbers. On a GPU the time is that of kernels, each with the
group of the operator that started it; on a CPU it is the operators' own time.

Operators and calls of the CUDA runtime are numbered apart, so equal numbers mean nothing. A kernel belongs to the operator
that it links to, else to the one around the call that started it; a kernel that multiplies matrices is never in `rest`.

Invariants: each nanosecond of a kernel or operator is in exactly one group; the groups add up to the update's seconds, since
`idle` is what remains.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

LAYER = "homerl: layer"
ATTENTION, LINEAR, INSIDE, LOGITS = "attention", "linear", "norm, rope, activation", "logits"
OPTIMIZER, COMMUNICATION, REST, IDLE = "optimizer", "communication", "rest", "idle"
GROUPS = (ATTENTION, LINEAR, INSIDE, LOGITS, OPTIMIZER, COMMUNICATION, REST, IDLE)

COMMUNICATES = re.compile(r"nccl|gloo|c10d::|all_?reduce|all_?gather|reduce_scatter", re.I)
OPTIMIZES = re.compile(r"Optimizer\.(step|zero_grad)|_foreach_|_fused_adam|multi_tensor|clip_grad", re.I)
ATTENDS = re.compile(r"attention|flash|fmha|varlen|attn|triton_tem_fused(?!.*mm)", re.I)
PREDICTS = re.compile(r"log_softmax|cross_?entropy|nll_loss|logsumexp|log_?prob|lm_?head", re.I)
MULTIPLIES = re.compile(r"aten::(addmm|mm|bmm|baddbmm|matmul|linear)\b|gemm|cutlass|nvjet|cublas|xmma|triton_tem\w*mm", re.I)
# the last two: kernels that torch.compile writes, which are named after what they fuse
SHAPES = re.compile(r"rms_?norm|layer_?norm|rope|rotary|silu|swiglu|geglu|triton_(poi|red|per)_|graph_\d+_cpp_", re.I)
BACKWARD = "autograd::engine::evaluate_function"
RUNTIME = re.compile(r"cu(da)?[A-Z]")  # calls of the CUDA runtime and driver
FACTORS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}  # where the shapes of the factors begin
LONGEST = 30  # kernels that are named
SLACK = 0.8  # of the operations that an update's tokens need, these must be counted: its tokens are a mean


@dataclass(frozen=True)
class Event:
    """An operator, an annotation, a call of the CUDA runtime, or (`device`) a kernel. Times are in nanoseconds.

    `link` of a kernel or call is the operator's `id`, or 0. A kernel has the `id` of the call that started it. `sequence` is
    autograd's number, -1 for none; `thread` and `forward` number the threads of the operator and, for backward events, of
    its forward pass. `resource` is the thread as the operating system numbers it, calls of the runtime too.
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
    resource: int = 0


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
            event.is_user_annotation(), event.device_resource_id(),
        )  # fmt: skip


@dataclass(frozen=True)
class Breakdown:
    """Seconds of an update by group; those in which a kernel ran (None on a CPU); the operations of `linear`, counted; the
    kernels that took longest, as (group, name, seconds, times).
    """

    groups: dict[str, float]
    busy: float | None
    operations: int
    kernels: tuple[tuple[str, str, float, int], ...] = ()

    def doubts(self, rated: float | None, needed: float) -> list[str]:
        """Why the groups cannot be right, on a device of `rated` operations a second whose update needs `needed` of them."""
        doubts, linear = [], self.groups[LINEAR]
        if rated and self.operations > rated * linear:
            rate = f"{self.operations / linear / 1e12:,.0f}" if linear else "countless"
            doubts.append(f"linear would run at {rate} TFLOP/s, and {rated / 1e12:,.0f} are rated: kernels are missing")
        if self.operations < SLACK * needed:
            doubts.append(f"of the {needed:.3g} operations of linear {self.operations:.3g} were seen: a pass is missing")
        kernels = sum(spent for group, spent in self.groups.items() if group != IDLE)
        if self.busy is not None and abs(kernels - self.busy) > 0.05 * self.busy:
            doubts.append(f"kernels took {kernels:.3f} s, and the GPU was busy for {self.busy:.3f} s: some ran side by side")
        return doubts


def breakdown(found: Iterable[Event], seconds: float, vocabulary: int) -> Breakdown:
    """An update, which took `seconds`, by group. A dimension of size `vocabulary` marks logits."""
    host, kernels = [], []
    for event in found:
        (kernels if event.device else host).append(event)
    seen = _host_groups(host, vocabulary)
    spent: Counter[str] = Counter()
    each: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for kernel in kernels:
        linked = seen.operators.get(kernel.link) if kernel.link else None
        started_by = linked or seen.calls.get(kernel.id)
        named = _kernel_group(kernel.name, started_by), kernel.name
        spent[named[0]] += kernel.duration
        each[named] += kernel.duration
        times[named] += 1
    if not kernels:
        spent = seen.own
    taken = {group: spent[group] / 1e9 for group in GROUPS if group != IDLE}
    groups = taken | {IDLE: max(seconds - sum(taken.values()), 0.0)}
    longest = tuple((*named, took / 1e9, times[named]) for named, took in each.most_common(LONGEST))
    return Breakdown(groups, _busy(kernels) if kernels else None, seen.operations, longest)


def _busy(kernels: list[Event]) -> float:
    """Seconds in which a kernel ran."""
    busy = end = 0
    for kernel in sorted(kernels, key=lambda kernel: kernel.start):
        last = kernel.start + kernel.duration
        busy += max(last - max(end, kernel.start), 0)
        end = max(end, last)
    return busy / 1e9


def _kernel_group(name: str, started_by: str | None) -> str:
    if COMMUNICATES.search(name):
        return COMMUNICATION
    if ATTENDS.search(name):
        return ATTENTION
    if started_by in (None, REST, INSIDE) and MULTIPLIES.search(name):
        return LINEAR
    if started_by in (None, REST) and SHAPES.search(name):
        return INSIDE
    return started_by or REST


def multiplied(event: Event) -> int:
    """The floating-point operations of a matrix product, by the shapes of its factors; 0 for other events, and where the
    shapes are unknown, since a compiler looks at a product.
    """
    if event.name not in FACTORS:
        return 0
    factors = event.shapes[FACTORS[event.name] :][:2]
    return 2 * prod(factors[0]) * factors[1][-1] if len(factors) == 2 and all(factors) else 0


def needed_operations(model: Any) -> int:
    """Operations of linear that a token needs in a model's layers: forward, to its input, and to the weights if trained."""
    return sum(
        (6 if part.weight.requires_grad else 4) * part.weight.numel()
        for layer in decoder_layers(model)
        for part in layer.modules()
        if hasattr(part, "in_features") and hasattr(part, "weight") and not hasattr(part, "base_layer")
    )


@dataclass
class _Open:
    """An event that has not ended, with its group and the time of the events inside it."""

    event: Event
    group: str
    end: int
    inside: int = 0


@dataclass
class _Seen:
    """Of the host: the groups of operators and of calls by their ids, the operators' own time by group, and the operations
    of `linear`.
    """

    operators: dict[int, str] = field(default_factory=dict)
    calls: dict[int, str] = field(default_factory=dict)
    own: Counter[str] = field(default_factory=Counter)
    operations: int = 0


def _host_groups(host: list[Event], vocabulary: int) -> _Seen:
    seen = _Seen()
    forward: dict[tuple[int, int], str] = {}
    stacks: dict[int, list[_Open]] = {}

    def close(stack: list[_Open]) -> None:
        done = stack.pop()
        if not done.event.annotation:
            seen.own[done.group] += max(done.event.duration - done.inside, 0)
        if stack:
            stack[-1].inside += done.event.duration

    for event in sorted(host, key=lambda event: (event.start, -event.duration)):
        stack = stacks.setdefault(event.resource, [])
        while stack and stack[-1].end <= event.start:
            close(stack)
        outer = stack[-1].group if stack else None
        if RUNTIME.match(event.name):
            if outer:
                seen.calls[event.id] = outer
            continue
        group = _host_group(event, outer or REST, forward, vocabulary)
        if event.sequence >= 0 and not event.forward:
            forward[event.thread, event.sequence] = group  # the innermost operator made the node
        seen.operators[event.id] = group
        seen.operations += multiplied(event) if group == LINEAR else 0
        stack.append(_Open(event, group, event.start + event.duration))
    for stack in stacks.values():
        while stack:
            close(stack)
    return seen


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


def decoder_layers(model: Any) -> list[Any]:
    """The layers of a transformers model."""
    return [module for module in model.modules() if type(module).__name__.endswith("DecoderLayer")]


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

    layers = decoder_layers(model)
    hooks = [layer.register_forward_pre_hook(begin) for layer in layers]
    hooks += [layer.register_forward_hook(end, always_call=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
