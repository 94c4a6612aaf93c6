"""The agents of HomeEnv that need no model, by name."""

from __future__ import annotations

from collections.abc import Callable

from homerl.envs.homeenv.agents.baselines import Keywords, Nothing, RandomAction
from homerl.envs.homeenv.agents.expert import Expert
from homerl.play.loop import Agent


def _hassil() -> Agent:
    """Home Assistant's own sentences, whose package comes with an extra."""
    from homerl.envs.homeenv.agents.hassil_agent import HomeAssistant

    return HomeAssistant()


BASELINES: dict[str, Callable[[], Agent]] = {
    "expert": Expert,
    "nothing": Nothing,
    "random": RandomAction,
    "keywords": Keywords,
    "hassil": _hassil,
}
