"""The search of one tree, as tests ask for it."""

from __future__ import annotations

from collections.abc import Sequence

from homerl.play.episode import EpisodeLimits
from homerl.play.loop import Agent, User
from homerl.play.situation import BlueprintProtocol
from homerl.play.trajectory import Trajectory
from homerl.synth.mcts import Participants, SearchConfig, search_forest
from homerl.worlds.contract import TreeStats


async def search_tree(
    blueprint: BlueprintProtocol,
    agent: Agent,
    users: Sequence[User],
    config: SearchConfig = SearchConfig(),
    limits: EpisodeLimits = EpisodeLimits(),
) -> tuple[list[Trajectory], TreeStats]:
    """The verified trajectories of a blueprint's tree, and the statistics."""
    return await search_forest(blueprint, [Participants(agent, users)], config, limits)
