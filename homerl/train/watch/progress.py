"""Shows training progress as a bar with metrics below it, and writes the metrics as JSON Lines to the run's folder.

Invariants: only the first process draws and writes; `metrics.jsonl` has one line for each logged update and each evaluation,
and a last one with totals; on resume, lines after the checkpoint are dropped, so no update appears twice.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from rich.console import Group
from rich.live import Live
from rich.progress import Progress
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from homerl.envs.core.documents import write_atomic
from homerl.host.terminal.progress import progress_bar, write_plain_lines
from homerl.train.watch.panels import make_terminal_panel


class ProgressCallback(TrainerCallback):
    """Draws the bar and writes `metrics.jsonl`."""

    def __init__(self, out: Path) -> None:
        self.path = out / "metrics.jsonl"
        self.name = out.name
        self.bar: Progress | None = None
        self.held_out: dict[str, Any] = {}  # the last evaluation

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Drop metrics after the checkpoint, and start the bar."""
        if not state.is_world_process_zero:
            return
        kept = [line for line in self._lines() if _is_update(line, state.global_step)]
        write_atomic(self.path, "".join(kept))
        self.bar = progress_bar()
        total = max(state.max_steps, state.global_step)  # the step count of a finished run may exceed max_steps
        self.task = self.bar.add_task(self.name, total=total, completed=state.global_step, note="")
        self.live = Live(self.bar, console=self.bar.console, refresh_per_second=4)
        self.live.start()
        self.lines = ExitStack()
        self.lines.enter_context(write_plain_lines(self.bar))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Advance the bar."""
        if self.bar:
            self.bar.update(self.task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append a line to `metrics.jsonl` and redraw the figures."""
        if not self.bar or not logs:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": state.global_step} | logs) + "\n")
        self.held_out |= {name: value for name, value in logs.items() if name.startswith("eval/")}
        note = " ".join(f"{key} {logs[key]:.3f}" for key in ("loss", "reward", "success") if key in logs)
        self.bar.update(self.task, note=note)
        if (figures := make_terminal_panel(self.held_out | logs)) is not None:
            self.live.update(Group(self.bar, figures))

    def release_terminal(self) -> None:
        """Release the terminal. It is called however training ended."""
        if self.bar:
            self.lines.close()
            self.live.stop()
            if not self.live.console.is_terminal:  # where rich ends no line
                self.live.console.line()

    def _lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []


class TimeLimit(TrainerCallback):
    """Stops training after the first update that ends more than `seconds` after the start, and saves a checkpoint.

    An update has `iterations` of the trainer's steps. The clock of the first rank decides. A resumed run gets the full time
    again.
    """

    def __init__(self, seconds: float, iterations: int = 1) -> None:
        self.seconds, self.iterations = seconds, iterations

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Start the clock."""
        self.begun = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop all ranks together if the time is over."""
        if state.global_step % self.iterations:
            return
        over = torch.tensor(time.monotonic() - self.begun > self.seconds, dtype=torch.int, device=args.device)
        stop = bool(broadcast(over).item())
        control.should_training_stop |= stop
        control.should_save |= stop and args.save_strategy != "no"


def _is_update(line: str, last: int) -> bool:
    """Whether a line is a logged update with a step up to `last`, or an evaluation before it. Totals and truncated lines are
    not; and a run that goes on evaluates again where it stopped.
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return False
    return row["step"] <= last if "loss" in row else row["step"] < last and "eval/counted" in row
