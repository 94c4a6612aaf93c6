"""The dialogue that a world's expert makes of a blueprint: what can be begun within, and what can be shown to a teacher.

Invariants: the same blueprint, limits and seed give the same dialogue; only a dialogue that succeeds is shown.
"""

from __future__ import annotations

from homerl.play.episode import Episode
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import listen, replies_from, waits_for_user
from homerl.play.scripted_user import ScriptedUser
from homerl.play.trajectory import Outcome
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import world_of

FLAWLESS = ExpertConfig(mistakes=0.0)


async def demonstration(opening: Episode, seed: int, config: ExpertConfig = FLAWLESS) -> list[Episode]:
    """Copies of the expert's episode before each of its steps, and the episode at its end; none if it does not succeed."""
    episode, points = opening.fork(), list[Episode]()
    expert, user = world_of(opening.blueprint).expert(config, seed), ScriptedUser(seed)
    try:
        while episode.outcome is None:
            if waits_for_user(episode):
                await listen(episode, user)
                continue
            points.append(episode.fork())
            (reply,) = await replies_from(expert, episode)
            episode.act(reply)
    except EPISODE_ERRORS:
        return []
    return [*points, episode] if episode.outcome is Outcome.SUCCESS else []
