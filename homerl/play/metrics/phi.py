"""`phi`: whether all goals of a task are met, whatever else happened."""

from homerl.play.metrics.contract import Mean, format_percent

METRIC = Mean(
    "phi", "Φ alone", "The share of tasks whose goals are all met, even if something else was changed too.",
    format_percent, lambda played, world: played.progress == 1.0, order=1, column=True, newer=False, type=bool,
)  # fmt: skip
