"""Watches a trainer that runs inside a function: when its updates end, where their time goes, what memory each phase takes.

It adds a callback to whatever Hugging Face trainer starts within `watching`, so homerl's trainers and TRL's are measured by
the same clock.

Invariants: the profiled update is the last one for which there is time, and is not timed; the time of rollouts is known
apart; a run that lacks the time for another update ends before it; after each update the figures so far are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from transformers import Trainer, TrainerCallback

from gpu.breakdown import LINEAR, Breakdown, annotated, breakdown, events, needed_operations
from gpu.machine import Machine
from gpu.predicted import SAMPLING, TRAINING

MARGIN = 1.5  # a profiled update takes this many times as long as a timed one, and a bit
RESERVE = 30  # seconds in which a trainer saves its model


@dataclass
class Watch:
    """What was seen of a trainer: seconds of each update, those of rollouts in it, and peaks of memory in GB by phase."""

    machine: Machine
    warm: int
    total: int
    seconds: list[float] = field(default_factory=list)
    sampling: list[float] = field(default_factory=list)
    peaks: dict[str, float] = field(default_factory=dict)
    logs: list[dict[str, Any]] = field(default_factory=list)
    spent: Breakdown | None = None
    token_operations: int = 0  # of linear, that a token needs
    rolls: bool = False  # profile from the end of the rollouts on, not from the begin of the update
    _rolled: float = 0.0
    _since: float = 0.0
    _profiling: ExitStack | None = None
    _profiler: Any = None

    @property
    def timed(self) -> slice:
        """The updates that are timed: neither warming up nor profiled. Of a run that was cut before, its last one."""
        end = len(self.seconds) - (self.spent is not None)
        return slice(min(self.warm, end - 1), end)

    @property
    def training_seconds(self) -> float:
        """Mean seconds of an update without its rollouts."""
        pairs = list(zip(self.seconds[self.timed], self.sampling[self.timed], strict=True))
        return sum(update - rolled for update, rolled in pairs) / len(pairs)

    @property
    def update_seconds(self) -> float:
        """Mean seconds of an update."""
        timed = self.seconds[self.timed]
        return sum(timed) / len(timed)

    def tokens(self) -> float:
        """Tokens that the timed updates trained on, on average: TRL counts them in its log."""
        counts = [line["num_tokens"] for line in self.logs if "loss" in line]
        first, last = self.timed.start, self.timed.stop
        return (counts[last - 1] - (counts[first - 1] if first else 0)) / (last - first)

    def packing(self) -> dict[str, float]:
        """Tokens that a timed update forwarded, and the share of them that was new; empty if the trainer does not log it."""
        lines = [line for line in self.logs if "packing/tokens" in line][self.timed]
        if not lines:
            return {}
        forwarded = sum(line["packing/tokens"] for line in lines)
        unique = sum(line["packing/tokens"] * line["packing/unique"] for line in lines)
        return {"forwarded_tokens": forwarded / len(lines), "unique_share": unique / forwarded}

    def rolling(self, play: Callable[..., Any]) -> Callable[..., Any]:
        """The rollout function `play`, with its time and its peak of memory counted apart."""

        def watched(*arguments: Any, **named: Any) -> Any:
            self.note_peak(TRAINING)
            begin = time.perf_counter()
            try:
                return play(*arguments, **named)
            finally:
                self.note_peak(SAMPLING)
                self._rolled += time.perf_counter() - begin
                self._start_profile()

        self.rolls = True
        return watched

    def note_peak(self, phase: str) -> None:
        """Count the memory since the last call to a phase."""
        peak = self.machine.peak_gb()
        if peak is not None:
            self.peaks[phase] = max(peak, self.peaks.get(phase, 0.0))
            self.machine.reset_peak()

    def begin(self) -> None:
        """The first update begins."""
        self.machine.reset_peak()
        self._since = time.perf_counter()

    def begin_update(self, model: Any) -> None:
        """An update begins. The last one is profiled."""
        if len(self.seconds) + 1 < self.total:
            return
        self.token_operations = needed_operations(model)
        self._profiling = ExitStack()
        self._profiling.enter_context(annotated(model))
        if not self.rolls:
            self._start_profile()

    def end_update(self, vocabulary: int) -> bool:
        """An update has ended. Returns whether there is another, and time for it."""
        self.machine.wait()
        now = time.perf_counter()
        if self._profiling:
            self._profiling.close()
            busy = now - self._profile_began
            whole = busy if self.machine.tiny else self.training_seconds
            self.spent = breakdown(events(self._profiler), whole, vocabulary)
            if self.machine.trace:
                self._profiler.export_chrome_trace(str(self.machine.trace))
            self._profiling = None
        self.seconds.append(now - self._since)
        self.sampling.append(self._rolled)
        self._rolled = 0.0
        self.note_peak(TRAINING)
        self._since = time.perf_counter()
        spare = self.machine.seconds_left() - RESERVE
        if len(self.seconds) > self.warm:  # the first ones compile layers, so they tell nothing of the next
            spare -= MARGIN * self.seconds[-1]
        if len(self.seconds) > self.warm and spare < self.seconds[-1]:  # the next one is the last, so it is profiled
            self.total = min(self.total, len(self.seconds) + 1)
        return spare > 0 and len(self.seconds) < self.total

    def _start_profile(self) -> None:
        if self._profiling is None:
            return
        self.machine.wait()
        self._profiler = self._profiling.enter_context(self.machine.profiler())
        self._profile_began = time.perf_counter()


class _Callback(TrainerCallback):
    def __init__(self, watch: Watch, trainer: Any, keep: Callable[[Watch], None]) -> None:
        self.watch, self.trainer, self.keep = watch, trainer, keep

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.watch.logs = state.log_history
        self.watch.begin()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.watch.begin_update(self.trainer.model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.watch.end_update(self.trainer.model.config.vocab_size):
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "loss" in (logs or {}):  # of an update that has ended
            self.keep(self.watch)


@contextmanager
def watching(machine: Machine, warm: int, total: int, keep: Callable[[Watch], None] = lambda watch: None) -> Iterator[Watch]:
    """Watch the trainer that is started within the context, for `total` updates of which the last is profiled.

    `keep` is called after each update.
    """
    watch, train = Watch(machine, warm, total), Trainer.train

    def watched(trainer: Any, *arguments: Any, **named: Any) -> Any:
        trainer.add_callback(_Callback(watch, trainer, keep))
        return train(trainer, *arguments, **named)

    Trainer.train = watched
    try:
        yield watch
    finally:
        Trainer.train = train


def as_figures(watch: Watch) -> dict[str, Any]:
    """The figures that all watched runs have in common. `doubts` says why the table of an update cannot be right."""
    packing = watch.packing()
    figures = {
        "seconds_per_update": watch.update_seconds,
        "updates": len(watch.seconds),
        "peak_gb": watch.peaks or None,
    } | packing
    if watch.spent is None:
        return figures
    needed = watch.token_operations * packing.get("forwarded_tokens", 0.0)
    linear, doubts = watch.spent.groups[LINEAR], watch.spent.doubts(watch.machine.flops(), needed)
    return figures | {
        "by_group": watch.spent.groups,
        "busy_seconds": watch.spent.busy,
        "doubts": doubts,
        "linear_tflops": watch.spent.operations / linear / 1e12 if linear else None,
        "kernels": watch.spent.kernels,
    }
