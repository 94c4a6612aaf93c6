"""Generating new episodes from a seed: homes, goals and requests of the 12 groups (SimuHome, section 4.2).

A group is one of the six query types, with requests that are feasible or infeasible.
"""

from homerl.envs.simuhome.sim.generate.episode import generate_episode
from homerl.envs.simuhome.sim.generate.furnish import ALL_KINDS, Scale

__all__ = ["ALL_KINDS", "Scale", "generate_episode"]
