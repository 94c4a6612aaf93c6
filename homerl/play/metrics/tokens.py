"""`tokens`: how much the agent writes, as its player counts."""

from homerl.play.metrics.contract import Mean

METRIC = Mean(
    "tokens", "tokens", "The mean number of tokens that the agent writes in a task.",
    "{:,.1f}".format, order=4, column=True, newer=False,
)  # fmt: skip
