"""`steps`: how long a task takes the agent."""

from homerl.play.metrics.contract import Mean

METRIC = Mean(
    "steps", "steps a task", "The mean number of steps of a task.",
    "{:.2f}".format, lambda played, world: len(played.steps), column=True,
)  # fmt: skip
