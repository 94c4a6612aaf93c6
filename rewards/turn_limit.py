"""TurnCheck: the dialogue stays within a number of turns (HomeFlow D.2)."""

from envs.world import StepFacts


def turn_limit(facts: StepFacts, limit: int = 3) -> float:
    """-1 at the step that opens turn `limit` + 1, else 0: once a trajectory, charged where it is earned."""
    return -float(facts.opens_turn and facts.turn == limit + 1)
