"""Logs dialogues as a Weights & Biases table, with the reward of each step."""

from __future__ import annotations

from collections.abc import Sequence

from homerl.play.trajectory import Trajectory
from homerl.train.recipe import RLVERecipe
from homerl.train.training_setup import metric_reporters

SHOWN = 8
COLUMNS = ("update", "blueprint", "outcome", "return", "rewards by step", "dialogue")


def log_transcripts(recipe: RLVERecipe, trajectories: Sequence[Trajectory], update: int) -> None:
    """Log the first few trajectories of an update, if the recipe allows it and a W&B run is open."""
    if "wandb" not in metric_reporters(recipe) or not recipe.wandb.transcripts:
        return
    import wandb

    if wandb.run is None:
        return
    table = wandb.Table(columns=list(COLUMNS))
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


def format_transcript(trajectory: Trajectory) -> str:
    """The dialogue after the system message, as one line for each message."""
    lines = []
    for message in trajectory.messages[1:]:
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
        lines.append(f"{message['role']}: {' '.join([message['content'], *calls]).strip()}")
    return "\n".join(lines)
