"""What the tests of intent families share: blueprints of a family, agents that err in a known way."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from functools import cache

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.intents import Ask, Draft, intent_families
from homerl.envs.homeenv.tasks.situation import answer_message
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Observation, Reply
from homerl.play.trajectory import Outcome
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

TOOLSETS = ("homeflow", "smh", "direct")
HOME = HomeRecipe(devices=(5, 14))
PATIENT = EpisodeLimits(turns=8)


def recipe(family: str, subcategory: str, toolset: str = "homeflow") -> BlueprintRecipe:
    return BlueprintRecipe(families={f"{family}/{subcategory}": 1}, intents=(1, 1), home=HOME, toolset=toolset)


@cache
def blueprints(family: str, subcategory: str, toolset: str = "homeflow", count: int = 12) -> tuple[Blueprint, ...]:
    return tuple(make_home_blueprint(recipe(family, subcategory, toolset), "train", seed) for seed in range(count))


@cache
def drafts(family: str, subcategory: str, count: int = 50) -> tuple[tuple[Home, Draft], ...]:
    """(home, draft) as the family proposes them, before they are put into words."""
    return tuple(_drafts(family, subcategory, count))


@cache
def made(seed: int) -> Home:
    return make_home(seed, HOME)


def _drafts(family: str, subcategory: str, count: int) -> Iterator[tuple[Home, Draft]]:
    for seed in range(count):
        home = made(seed).fork()
        if draft := intent_families()[family][subcategory](home, random.Random(seed), Ask("clear")):
            yield home, draft


def solves(home: Home, draft: Draft, calls: Sequence[Call]) -> bool:
    """Whether these calls meet the draft's conditions, given what was done before."""
    end = home_after_calls(home, (*draft.before, *calls))
    return all(compile_condition(text, home.plan).holds_in(end) for text in draft.conditions)


def expert_plays(blueprint: Blueprint) -> Outcome:
    return asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(0), ScriptedUser(0))).outcome


class Idle:
    """Says that all is done, and does nothing."""

    name = "idle"

    def __init__(self, text: str = "Done.") -> None:
        self.text = text

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        return [Reply(answer_message(self.text, observation.one_answer))]


def idle_plays(blueprint: Blueprint, text: str = "Done.") -> Outcome:
    return asyncio.run(play(begin_episode(blueprint, PATIENT), Idle(text), ScriptedUser(0))).outcome
