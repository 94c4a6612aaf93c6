"""Shows and keeps the metrics of a training: a panel in the terminal, sections of W&B, trackio and TensorBoard, and
`metrics.jsonl` in the run's folder. Dialogues of an update become a table of W&B, with the reward of each step.

Invariants:
- It computes nothing but the arrangement of what was logged. A metric that a run does not have is left out.
- Only the first process draws and writes.
- `metrics.jsonl` has one line for each logged update and each evaluation, and a last one with totals. On resume, lines after
  the checkpoint are dropped, so no update appears twice.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast
from rich.console import Group
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import WandbCallback

from homerl.envs.core.documents import write_atomic
from homerl.host.monitoring import monitored_name
from homerl.host.progress_bar import progress_bar, write_plain_lines
from homerl.host.recipe_files import BaseRecipe
from homerl.play.trajectory import Trajectory, read_trajectories
from homerl.train.credit.contract import list_credit_modes
from homerl.train.recipe import RLVERecipe, TrainingRecipe
from homerl.train.watch.phase_deadlines import SHARES

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


SECTIONS = {  # section -> names, or prefixes that end in a slash; the first match decides
    "1 success": (
        "success", "reward", "outcome/", "closings/", "fault/", "eval/", "curriculum/zero_variance",
        "curriculum/left_zero_variance",
    ),
    "2 rewards by step": ("reward_by_step/",),
    "3 credit by step": (
        "credit_by_step/", "sentinel/zero_advantage", "sentinel/group_std", *(f"{mode}/" for mode in list_credit_modes()),
    ),
    "4 policy": (
        "entropy", "kl", "loss", "grad_norm", "learning_rate", "sentinel/logp_gap", "policy/", "clip_ratio/region_mean",
        "distill/",
    ),
    "5 lengths": ("episode/", "completions/mean_length", "completions/max_length", "completions/clipped_ratio"),
    "6 time": ("time/", "perf/"),
    "7 user and blueprints": ("user/", "curriculum/", "sentinel/dropped_groups"),
}  # fmt: skip
BY_STEP = re.compile(r"((?:reward|credit)_by_step/.+)/(\d+)$")
COLOURS = dict(zip(SHARES, ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_black", "white"), strict=True))
WIDTH = 60  # characters of the time bar


def sort_into_sections(logs: Mapping[str, Any]) -> dict[str, float]:
    """The logged numbers as `<section>/<name>`. Metrics of no section are left where the trainer logs them."""
    by_section = {}
    for name, value in logs.items():
        known_sections = (
            title
            for title, names in SECTIONS.items()
            if any(name == known or (known.endswith("/") and name.startswith(known)) for known in names)
        )
        section = next(known_sections, None)
        if section and isinstance(value, (int, float)):
            by_section[f"{section}/{name}"] = value
    return by_section


def metric_reporters(recipe: BaseRecipe) -> list[str]:
    """The names of the services that get metrics besides `metrics.jsonl`."""
    return [name for name in recipe.report_to if name != "wandb" or recipe.wandb.mode != "disabled"]


def tabulate_by_step(logs: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """The columns and rows of a table of what is logged by step of the episode, such as `reward_by_step/progress/0`."""
    found = {match.group(1, 2): value for name, value in logs.items() if (match := BY_STEP.match(name))}
    columns = sorted({name for name, _ in found})
    steps = sorted({int(step) for _, step in found})
    return ["step", *columns], [[step, *(found.get((name, str(step))) for name in columns)] for step in steps]


class WandbScalars(WandbCallback):
    """transformers' own reporter, without what is logged by step: that is one table, and not dozens of curves."""

    def on_log(self, *args: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Log what is no figure of a step."""
        super().on_log(
            *args, logs={name: value for name, value in (logs or {}).items() if not BY_STEP.match(name)}, **kwargs
        )


class PanelsCallback(TrainerCallback):
    """Logs the sections to the named reporters, at the trainer's step."""

    def __init__(self, reporters: Sequence[str] = ("wandb",), out: Path = Path()) -> None:
        self.reporters, self.out = reporters, out

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log the sections of an update, from the first process."""
        if not state.is_world_process_zero or not logs or "success" not in logs:
            return
        sections, step = sort_into_sections(logs), {"train/global_step": state.global_step}
        # A curve for each step would be sixty. W&B gets one table; the others get none, since the report draws them.
        by_section = {name: value for name, value in sections.items() if "_by_step/" not in name}
        if "wandb" in self.reporters:
            import wandb

            if wandb.run is not None:
                columns, rows = tabulate_by_step(logs)
                table = {"by step": wandb.Table(columns=columns, data=rows)} if rows else {}
                wandb.log(by_section | table | step)
        if "trackio" in self.reporters:
            import trackio

            trackio.log(by_section | step)
        if "tensorboard" in self.reporters:
            for name, value in by_section.items():
                self._tensorboard.add_scalar(name, value, state.global_step)
            self._tensorboard.flush()

    @cached_property
    def _tensorboard(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.out / "tensorboard"), filename_suffix=".panels")


def make_terminal_panel(logs: Mapping[str, Any]) -> Group | None:
    """The metrics for the terminal: success, learning, and where the time went. None if no rollouts were played."""
    if "success" not in logs:
        return None
    table = Table.grid(padding=(0, 2))
    for title, names in ROWS.items():
        cells = [f"{label} {logs[name]:.3g}" for label, name in names.items() if isinstance(logs.get(name), (int, float))]
        if title == "play":  # the shares of failed episodes by outcome
            outcomes = (name.removeprefix("outcome/") for name in sorted(logs) if name.startswith("outcome/"))
            failed = {name: logs[f"outcome/{name}"] for name in outcomes if name != "success"}
            cells += [f"{name.replace('_', ' ')} {share:.0%}" for name, share in failed.items() if share]
        table.add_row(Text(title, style="bold"), "   ".join(cells))
    if "time/seconds" in logs:  # the totals at the end of a run have none
        table.add_row(Text("time", style="bold"), draw_time_shares(logs))
    return Group(table)


ROWS = {
    "play": {"success": "success", "held out": "eval/success", "reward": "reward", "turns": "episode/turns"},
    "learn": {
        "loss": "loss",
        "entropy": "entropy",
        "kl": "kl",
        "no advantage": "sentinel/zero_advantage",
        "gap": "sentinel/logp_gap",
        "stale": "policy/staleness",
    },
}


def draw_time_shares(logs: Mapping[str, Any]) -> Text:
    """A bar of the shares of time, with a legend of those that are one percent or more."""
    bar, legend = Text(), Text()
    for name in SHARES:
        share = logs.get(f"time/{name}", 0.0)
        bar.append("█" * round(share * WIDTH), style=COLOURS[name])
        if share >= 0.01:
            legend.append(f"  {name} {share:.0%}", style=COLOURS[name])
    return bar + legend + Text(f"  of {logs.get('time/seconds', 0.0):.0f} s")


SHOWN = 8


def log_transcripts(recipe: RLVERecipe, trajectories: Sequence[Trajectory], update: int) -> None:
    """Log the first few trajectories of an update, if the recipe allows it and a W&B run is open."""
    if "wandb" not in metric_reporters(recipe) or not recipe.wandb.transcripts:
        return
    import wandb

    if wandb.run is None:
        return
    table = wandb.Table(columns=["update", "blueprint", "outcome", "return", "rewards by step", "dialogue"])
    for trajectory in trajectories[:SHOWN]:
        rewards = [sum(parts.values()) for parts in trajectory.rewards]
        table.add_data(
            update,
            trajectory.blueprint["id"],
            str(trajectory.outcome),
            sum(rewards),
            " ".join(f"{r:+.2f}" for r in rewards),
            format_transcript(trajectory),
        )
    wandb.log({"transcripts": table}, commit=False)


def log_artifacts(recipe: TrainingRecipe) -> None:
    """Upload the best model, else the last, and a table of all stored rollouts, if the recipe asks for it.

    The rollouts are with their dialogues if these may be logged. The first process calls this while the run is open.
    """
    if "wandb" not in metric_reporters(recipe) or not recipe.wandb.artifacts:
        return
    import wandb

    if wandb.run is None:
        return
    best, score = recipe.out / "best" / "model", recipe.out / "best" / "score.json"
    facts = json.loads(score.read_text(encoding="utf-8")) if score.is_file() else {}
    artifact = wandb.Artifact(f"{monitored_name(recipe)}-model", "model", metadata=facts)
    artifact.add_dir(str(best if best.is_dir() else recipe.out / "model"))
    wandb.run.log_artifact(artifact, aliases=["best" if best.is_dir() else "last"])
    updates = sorted((recipe.out / "rollouts").glob("update_*.jsonl"))
    if not updates:
        return
    shown = ("dialogue",) if recipe.wandb.transcripts else ()
    table = wandb.Table(columns=["update", "blueprint", "outcome", "success", "reward", "steps", *shown])
    for path in updates:
        for trajectory in read_trajectories(path):
            earned = sum(sum(parts.values()) for parts in trajectory.rewards)
            row = trajectory.blueprint["id"], str(trajectory.outcome), trajectory.success, earned, len(trajectory.steps)
            said = [format_transcript(trajectory)] if shown else []
            table.add_data(int(path.stem.removeprefix("update_")), *row, *said)
    wandb.log({"rollouts": table})


def format_transcript(trajectory: Trajectory) -> str:
    """The dialogue after the system message, as one line for each message."""
    lines = []
    for message in trajectory.messages[1:]:
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
        lines.append(f"{message['role']}: {' '.join([message['content'], *calls]).strip()}")
    return "\n".join(lines)


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
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        write_atomic(self.path, "".join(line for line in lines if _is_kept_line(line, state.global_step)))
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


def _is_kept_line(line: str, last: int) -> bool:
    """Whether a line is a logged update with a step up to `last`, or an evaluation before it.

    Totals and truncated lines are dropped. So are rollouts that were evaluated at `last`, since a run that goes on evaluates
    again there.
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return False
    step = int(row["step"])
    return step <= last if "loss" in row or "eval/loss" in row else step < last and "eval/counted" in row
