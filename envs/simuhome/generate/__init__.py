"""Episodes made anew: homes, goals and wording for the 12 query types (SimuHome 4.2), from a seed."""

from envs.simuhome.generate.episode import generate_episode
from envs.simuhome.generate.furnish import ALL, Scale

__all__ = ["ALL", "Scale", "generate_episode"]
