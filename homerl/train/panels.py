"""A run's figures, arranged so that one look tells its health: in sections of W&B, trackio and TensorBoard, and in the
terminal.

Invariants: pure functions of what was logged; a figure that a run does not have is left out, never made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text
from transformers import TrainerCallback

from homerl.train.credit.registry import modes
from homerl.train.phases import SHARES

SECTIONS = {  # section: names, or prefixes that end in a slash; the first that matches has it
    "1 success": ("success", "reward", "outcome/", "fault/", "eval/", "curriculum/flat", "curriculum/left_flat"),
    "2 rewards by step": ("reward_by_step/",),
    "3 credit by step": (
        "credit_by_step/", "sentinel/zero_advantage", "sentinel/group_std", *(f"{mode}/" for mode in modes()),
    ),
    "4 policy": (
        "entropy", "kl", "loss", "grad_norm", "learning_rate", "sentinel/logp_gap", "policy/", "clip_ratio/region_mean",
    ),
    "5 lengths": ("episode/", "completions/mean_length", "completions/max_length"),
    "6 time": ("time/",),
    "7 user and blueprints": ("user/", "curriculum/", "sentinel/dropped_groups"),
}  # fmt: skip
COLOURS = dict(zip(SHARES, ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_black"), strict=True))
WIDTH = 60  # of the bar of shares


def sections(logs: Mapping[str, Any]) -> dict[str, float]:
    """What was logged, by section; what belongs to none is left where TRL puts it."""
    by_section = {}
    for name, value in logs.items():
        section = next((title for title, names in SECTIONS.items() if _is_one_of(name, names)), None)
        if section and isinstance(value, (int, float)):
            by_section[f"{section}/{name}"] = value
    return by_section


def _is_one_of(name: str, names: tuple[str, ...]) -> bool:
    return any(name == known or (known.endswith("/") and name.startswith(known)) for known in names)


class PanelsCallback(TrainerCallback):
    """Adds the sections to what the reporters named show of the run that is open, at the trainer's own step."""

    def __init__(self, reporters: Sequence[str] = ("wandb",), out: Path = Path()) -> None:
        self.reporters, self.out = reporters, out

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or not logs or "success" not in logs:
            return
        for name in self.reporters:
            getattr(self, f"_to_{name}")(sections(logs), state.global_step)

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
    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.out / "tensorboard"), filename_suffix=".panels")


def terminal_panel(logs: Mapping[str, Any]) -> Group | None:
    """The same in the terminal: how well, how it learns, where the time goes; None where nothing was played."""
    if "success" not in logs:
        return None
    table = Table.grid(padding=(0, 2))
    for title, names in ROWS.items():
        cells = [f"{label} {logs[name]:.3g}" for label, name in names.items() if isinstance(logs.get(name), (int, float))]
        cells += outcomes(logs) if title == "play" else []
        table.add_row(Text(title, style="bold"), "   ".join(cells))
    if "time/seconds" in logs:  # not in the totals of the end
        table.add_row(Text("time", style="bold"), shares(logs))
    return Group(table)


ROWS = {
    "play": {"success": "success", "held out": "eval/success", "reward": "reward", "turns": "episode/turns"},
    "learn": {
        "loss": "loss", "entropy": "entropy", "kl": "kl", "no advantage": "sentinel/zero_advantage",
        "gap": "sentinel/logp_gap", "stale": "policy/staleness",
    },
}  # fmt: skip


def outcomes(logs: Mapping[str, Any]) -> list[str]:
    """Failures and faults by kind, where there are any."""
    names = (name for name in logs if name.startswith("outcome/") and name != "outcome/success")
    return [f"{name.removeprefix('outcome/').replace('_', ' ')} {logs[name]:.0%}" for name in sorted(names) if logs[name]]


def shares(logs: Mapping[str, Any]) -> Text:
    """One bar, each share in its colour, with its name and percentage where it has one percent or more."""
    bar, legend = Text(), Text()
    for name in SHARES:
        share = logs.get(f"time/{name}", 0.0)
        bar.append("█" * round(share * WIDTH), style=COLOURS[name])
        if share >= 0.01:
            legend.append(f"  {name} {share:.0%}", style=COLOURS[name])
    return bar + legend + Text(f"  of {logs.get('time/seconds', 0.0):.0f} s")
