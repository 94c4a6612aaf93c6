"""`progress`: how many of a task's goals hold at the end."""

from homerl.play.metrics.contract import Mean, format_percent

METRIC = Mean(
    "progress", "progress", "The mean share of a task's goals that hold at the end.",
    format_percent, lambda played, world: played.progress, order=2, newer=False, type=float, most=1,
)  # fmt: skip
