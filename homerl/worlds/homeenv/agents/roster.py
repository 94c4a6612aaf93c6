"""The agents of HomeEnv that need no model, by name."""

from __future__ import annotations

from collections.abc import Callable

from homerl.play.loop import Agent
from homerl.play.tally import Tally
from homerl.worlds.homeenv.agents.baselines import Keywords, Nothing, RandomAction
from homerl.worlds.homeenv.agents.expert import Expert
from homerl.worlds.homeenv.agents.first import first


def _hassil() -> Agent:
    """Home Assistant's own sentences, whose package comes with an extra."""
    from homerl.worlds.homeenv.agents.hassil_agent import HomeAssistant

    return HomeAssistant()


def _hassil_first(agents: Callable[[], Agent], tally: Tally) -> Callable[[], Agent]:
    _hassil()  # which may lack its package
    return first(agents, tally=tally)


BASELINES: dict[str, Callable[[], Agent]] = {
    "expert": Expert,
    "nothing": Nothing,
    "random": RandomAction,
    "keywords": Keywords,
    "hassil": _hassil,
}
FIRST = {"hassil": _hassil_first}
