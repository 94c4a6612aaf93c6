"""`prompt_tokens`: how much the agent reads, as its player counts."""

from homerl.play.metrics.contract import Mean

METRIC = Mean(
    "prompt_tokens", "tokens read", "The mean number of tokens that the agent reads in a task.", "{:,.1f}".format, order=5
)
