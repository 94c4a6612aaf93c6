"""Watches a trainer that runs inside a function: when its updates end, where their time goes, what memory each phase takes.

It adds a callback to whatever Hugging Face trainer starts within `watching`, so homerl's trainers and TRL's are measured by
the same clock.

Invariants: the profiled update is the last one, and is not timed; the time of rollouts is known apart; a run that lacks the
time for another update ends before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from transformers import Trainer, TrainerCallback

from gpu.breakdown import GROUPS, annotated, breakdown, events
from gpu.machine import Machine, seconds_left
from gpu.predicted import SAMPLING, TRAINING

MARGIN = 1.5  # a profiled update takes this many times as long as a timed one, and a bit


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
    groups: dict[str, float] | None = None
    rolls: bool = False  # profile from the end of the rollouts on, not from the begin of the update
    _rolled: float = 0.0
    _since: float = 0.0
    _profiling: ExitStack | None = None
    _profiler: Any = None

    @property
    def timed(self) -> slice:
        """The updates that are timed: neither warming up nor profiled."""
        return slice(self.warm, len(self.seconds) - (self.groups is not None))

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
        return (counts[last - 1] - counts[first - 1]) / (last - first)

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
        self._profiling = ExitStack()
        self._profiling.enter_context(annotated(model))
        if not self.rolls:
            self._start_profile()

    def end_update(self, vocabulary: int) -> bool:
        """An update has ended. Returns whether there is time for another."""
        self._wait()
        now = time.perf_counter()
        if self._profiling:
            self._profiling.close()
            busy = now - self._profile_began
            whole = busy if self.machine.tiny else self.training_seconds
            self.groups = breakdown(events(self._profiler), whole, vocabulary)
            self._profiling = None
        self.seconds.append(now - self._since)
        self.sampling.append(self._rolled)
        self._rolled = 0.0
        self.note_peak(TRAINING)
        self._since = time.perf_counter()
        return seconds_left() > MARGIN * self.seconds[-1] + 30

    def _start_profile(self) -> None:
        if self._profiling is None:
            return
        from torch.profiler import ProfilerActivity, profile

        self._wait()
        activities = [ProfilerActivity.CPU, *([] if self.machine.tiny else [ProfilerActivity.CUDA])]
        self._profiler = self._profiling.enter_context(profile(activities=activities, record_shapes=True))
        self._profile_began = time.perf_counter()

    def _wait(self) -> None:
        import torch

        if not self.machine.tiny:
            torch.cuda.synchronize()


class _Callback(TrainerCallback):
    def __init__(self, watch: Watch, trainer: Any) -> None:
        self.watch, self.trainer = watch, trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.watch.begin()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.watch.begin_update(self.trainer.model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        going_on = self.watch.end_update(self.trainer.model.config.vocab_size)
        if not going_on and len(self.watch.seconds) > self.watch.warm:
            control.should_training_stop = True


@contextmanager
def watching(machine: Machine, warm: int, total: int) -> Iterator[Watch]:
    """Watch the trainer that is started within the context, for `total` updates of which the last is profiled."""
    watch, train = Watch(machine, warm, total), Trainer.train

    def watched(trainer: Any, *arguments: Any, **named: Any) -> Any:
        trainer.add_callback(_Callback(watch, trainer))
        try:
            return train(trainer, *arguments, **named)
        finally:
            watch.logs = trainer.state.log_history

    Trainer.train = watched
    try:
        yield watch
    finally:
        Trainer.train = train


def as_figures(watch: Watch) -> dict[str, Any]:
    """The figures that all watched runs have in common."""
    groups = {"by_group": {group: watch.groups[group] for group in GROUPS}} if watch.groups else {}
    timed = {"seconds_per_update": watch.update_seconds, "updates": len(watch.seconds)}
    return timed | {"peak_gb": watch.peaks or None} | watch.packing() | groups
