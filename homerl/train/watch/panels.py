"""Arranges the metrics of a run in sections of W&B, trackio and TensorBoard, and in a panel in the terminal.

Invariants: it computes nothing but the arrangement of what was logged; a metric that a run does not have is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from homerl.train.credit.registry import list_credit_modes
from homerl.train.watch.phases import SHARES

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

SECTIONS = {  # section -> names, or prefixes that end in a slash; the first match decides
    "1 success": (
        "success", "reward", "outcome/", "fault/", "eval/", "curriculum/zero_variance", "curriculum/left_zero_variance",
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
    "6 time": ("time/",),
    "7 user and blueprints": ("user/", "curriculum/", "sentinel/dropped_groups"),
}  # fmt: skip
COLOURS = dict(zip(SHARES, ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_black", "white"), strict=True))
WIDTH = 60  # characters of the time bar


def sort_into_sections(logs: Mapping[str, Any]) -> dict[str, float]:
    """The logged numbers as `<section>/<name>`. Metrics of no section are left where the trainer logs them."""
    by_section = {}
    for name, value in logs.items():
        section = next((title for title, names in SECTIONS.items() if _is_one_of(name, names)), None)
        if section and isinstance(value, (int, float)):
            by_section[f"{section}/{name}"] = value
    return by_section


def _is_one_of(name: str, names: tuple[str, ...]) -> bool:
    return any(name == known or (known.endswith("/") and name.startswith(known)) for known in names)


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
        for name in self.reporters:
            getattr(self, f"_to_{name}")(sort_into_sections(logs), state.global_step)

    def _to_wandb(self, by_section: dict[str, float], step: int) -> None:
        import wandb

        if wandb.run is not None:
            wandb.log(by_section | {"train/global_step": step})

    def _to_trackio(self, by_section: dict[str, float], step: int) -> None:
        import trackio

        trackio.log(by_section | {"train/global_step": step})

    def _to_tensorboard(self, by_section: dict[str, float], step: int) -> None:
        for name, value in by_section.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    @cached_property
    def _writer(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.out / "tensorboard"), filename_suffix=".panels")


def make_terminal_panel(logs: Mapping[str, Any]) -> Group | None:
    """The metrics for the terminal: success, learning, and where the time went. None if no rollouts were played."""
    if "success" not in logs:
        return None
    table = Table.grid(padding=(0, 2))
    for title, names in ROWS.items():
        cells = [f"{label} {logs[name]:.3g}" for label, name in names.items() if isinstance(logs.get(name), (int, float))]
        cells += list_failed_outcomes(logs) if title == "play" else []
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


def list_failed_outcomes(logs: Mapping[str, Any]) -> list[str]:
    """The shares of failed episodes by outcome, for outcomes that occurred."""
    names = (name for name in logs if name.startswith("outcome/") and name != "outcome/success")
    return [f"{name.removeprefix('outcome/').replace('_', ' ')} {logs[name]:.0%}" for name in sorted(names) if logs[name]]


def draw_time_shares(logs: Mapping[str, Any]) -> Text:
    """A bar of the shares of time, with a legend of those that are one percent or more."""
    bar, legend = Text(), Text()
    for name in SHARES:
        share = logs.get(f"time/{name}", 0.0)
        bar.append("█" * round(share * WIDTH), style=COLOURS[name])
        if share >= 0.01:
            legend.append(f"  {name} {share:.0%}", style=COLOURS[name])
    return bar + legend + Text(f"  of {logs.get('time/seconds', 0.0):.0f} s")
