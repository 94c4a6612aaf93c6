"""A lazy policy earns nothing: each trick, played for real, has a mean return of at most 0; the expert earns 2."""

import asyncio
from collections.abc import Callable
from functools import cache
from statistics import fmean

import pytest

from homerl.envs.core.messages import Message
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.episode import Episode
from homerl.play.loop import play
from homerl.play.situation import Reply, Utterance
from homerl.rewards.composite import RewardWeights, step_rewards
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

WEIGHTS = RewardWeights(collateral=0.2)  # the recipe's
COUNT = 48


@cache
def blueprints(preserve: bool = True) -> tuple[Blueprint, ...]:
    recipe = BlueprintRecipe(preserve=preserve)
    return tuple(make_home_blueprint(recipe, "train", seed) for seed in range(COUNT))


class Trick:
    """An oracle whose message is a function of the dialogue, its device list and how often it has spoken."""

    name = "trick"

    def __init__(self, act: Callable[[Episode, list[str], int], Message]) -> None:
        self.act = act

    async def consult(self, episode: Episode, n: int = 1) -> list[Reply]:
        spoken = sum(message["role"] == "assistant" for message in episode.messages)
        dids = [device.did for device in episode.situation.home.plan.devices]
        return [Reply(self.act(episode, dids, spoken))]


def say(text: str) -> Message:
    return {"role": "assistant", "content": text}


def switch(episode: Episode, did: str, on: bool = True) -> str:
    """Switch a device on (or off), in the way that it has."""
    ways = ("turn_on", "open", "start", "unlock") if on else ("turn_off", "close", "stop", "lock")
    services = episode.situation.home.plan.devices_by_did[did].spec.service_index
    return "\n".join(f'device("{did}").{path}()' for path in services if path.split(".")[-1] in ways) or "pass"


def changes(episode: Episode, code: str) -> bool:
    home = episode.situation.home.fork()
    run_code(code, home)
    return home.state_key() != episode.situation.home.state_key()


TRICKS: dict[str, Callable[[Episode, list[str], int], Message]] = {
    "nothing": lambda episode, dids, t: say(""),
    "asking": lambda episode, dids, t: say("Which device do you mean?"),
    "claiming": lambda episode, dids, t: say("Done, all is as you wished."),
    "looking": lambda episode, dids, t: pyexec_message(f'print(device("{dids[t % len(dids)]}"))'),
    "repeating": lambda episode, dids, t: pyexec_message(
        next((switch(episode, did) for did in dids if not changes(episode, switch(episode, did))), "pass")
    ),
    "toggling": lambda episode, dids, t: pyexec_message(switch(episode, dids[0], on=t % 2 == 0)),
    "toggling the last": lambda episode, dids, t: pyexec_message(switch(episode, dids[-1], on=t % 2 == 1)),
    "all on in one snippet": lambda episode, dids, t: pyexec_message("\n".join(switch(episode, did) for did in dids)),
    "all off in one snippet": lambda episode, dids, t: pyexec_message(
        "\n".join(switch(episode, did, False) for did in dids)
    ),
    "all on, a device a step": lambda episode, dids, t: pyexec_message(switch(episode, dids[t % len(dids)])),
    "all off, a device a step": lambda episode, dids, t: pyexec_message(switch(episode, dids[t % len(dids)], False)),
    "all on, then a claim": lambda episode, dids, t: (
        pyexec_message("\n".join(switch(episode, did) for did in dids)) if t == 0 else say("Done.")
    ),
}


def mean_return(
    make_agent: Callable[[], object],
    preserve: bool = True,
    weights: RewardWeights = WEIGHTS,
    user: type[ScriptedUser] = ScriptedUser,
) -> float:
    async def one(blueprint: Blueprint) -> float:
        trajectory = await play(begin_episode(blueprint), make_agent(), user(blueprint.seed))
        return sum(sum(step_rewards(step.facts, weights).values()) for step in trajectory.steps)

    return fmean(asyncio.run(one(blueprint)) for blueprint in blueprints(preserve))


# Of tricks that toggle the first device, or switch all on.
TWINS = ("toggling the last", "all off in one snippet", "all off, a device a step")


@pytest.mark.parametrize("trick", [pytest.param(name, marks=[pytest.mark.long] * (name in TWINS)) for name in TRICKS])
def test_a_trick_earns_nothing(trick):
    assert mean_return(lambda: Trick(TRICKS[trick])) <= 0


@pytest.mark.parametrize("trick", ["all on in one snippet", "all on, a device a step"])
def test_it_earns_nothing_either_where_success_does_not_ask_to_preserve(trick):
    assert mean_return(lambda: Trick(TRICKS[trick]), preserve=False) <= 0


def test_without_collateral_switching_everything_on_would_pay():
    """Why the term is there: by progress and success alone this trick farms progress."""
    weights = RewardWeights(turn_limit=0)
    assert mean_return(lambda: Trick(TRICKS["all on in one snippet"]), preserve=False, weights=weights) > 0


@pytest.mark.parametrize("weights", [pytest.param(RewardWeights(), marks=pytest.mark.long), WEIGHTS])
def test_giving_up_at_once_pays_no_more_than_trying_on(weights):
    """Six times `print(1)` in the first turn, or words that end the user's patience, against words until the turn limit."""

    class GivesUp(ScriptedUser):
        async def speak(self, episode: Episode) -> Utterance:
            return await super().speak(episode) if episode.turn == 0 else Utterance("")

    stalls = mean_return(lambda: Trick(lambda episode, dids, t: pyexec_message("print(1)")), weights=weights)
    leaves = mean_return(lambda: Trick(TRICKS["nothing"]), weights=weights, user=GivesUp)
    tries_on = mean_return(lambda: Trick(TRICKS["nothing"]), weights=weights)
    assert [stalls, leaves, tries_on] == pytest.approx([-0.2, -0.2, -0.2])


def test_the_expert_earns_two():
    assert mean_return(Expert) == pytest.approx(2)
