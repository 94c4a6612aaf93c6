"""The agents of HomeEnv that need no language model, by name."""

from __future__ import annotations

from collections.abc import Callable

from homerl.envs.homeenv.agents.baselines import DoNothingAgent, KeywordAgent, RandomActionAgent
from homerl.envs.homeenv.agents.expert import Expert
from homerl.play.loop import Agent


def _make_hassil_agent() -> Agent:
    """Home Assistant's own sentences, whose package comes with an extra."""
    from homerl.envs.homeenv.agents.matcher_agent import HassilAgent

    return HassilAgent()


BASELINES: dict[str, Callable[[], Agent]] = {
    "expert": Expert,
    "nothing": DoNothingAgent,
    "random": RandomActionAgent,
    "keywords": KeywordAgent,
    "hassil": _make_hassil_agent,
}
