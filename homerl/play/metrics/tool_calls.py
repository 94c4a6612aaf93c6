"""`tool_calls`: how many tools the agent calls."""

from homerl.play.metrics.contract import Mean

METRIC = Mean(
    "tool_calls", "tool calls", "The mean number of tool calls of a task.",
    "{:.2f}".format, lambda played, world: played.tool_calls, order=3, column=True, newer=False,
)  # fmt: skip
