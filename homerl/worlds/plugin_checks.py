"""The contracts of worlds and of users, checked by playing.

Invariants: what a check plays is the same each time; it changes nothing of what it is given; it raises `ContractError` with
the first clause that is broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from homerl.envs.core.world import check_world, name_example, require_clause, tool_call_to_action
from homerl.play.episode import Episode
from homerl.play.loop import User, play
from homerl.play.replay import first_difference
from homerl.play.situation import Utterance
from homerl.play.trajectory import Trajectory, trajectory_from_row, trajectory_to_row
from homerl.worlds.contract import EXPERT, WorldAdapter
from homerl.worlds.registry import begin_episode, default_world, restore_situation
from homerl.worlds.users import ScriptedUser

SEEDS = range(3)


def check_world_adapter(world: WorldAdapter) -> None:
    """Check a world from its recipe to the replay of what its expert played.

    Raises:
        ContractError: The world breaks its contract. The message names the clause and the seed or action.
    """
    recipe = world.recipe.model_validate({"world": world.name})
    for seed in SEEDS:
        with name_example(world.make_blueprint, "seed", seed):
            blueprint, again = (world.make_blueprint(recipe, "train", seed) for _ in range(2))
        require_clause(blueprint == again, "the same seed makes another blueprint", seed, "seed")
        data = blueprint.model_dump(mode="json")
        require_clause(data.get("world", world.name) == world.name, "a blueprint names another world", seed, "seed")
        require_clause(world.blueprint.model_validate(data) == blueprint, "a blueprint is not read as written", seed, "seed")
        with name_example(world.begin, "seed", seed):
            start, other = world.begin(blueprint), world.begin(blueprint)
        require_clause(start.state_key() == other.state_key(), "the same blueprint begins in another state", seed, "seed")
        require_clause(not all(start.met()), "all goals are met before anybody acts", seed, "seed")
        played = _play_once(Episode.from_situation(start.fork()), world, ScriptedUser(blueprint.seed))
        require_clause(start.state_key() == other.state_key(), "what a fork did reached its original", seed, "seed")
        ended = f"the expert does not succeed: {played.outcome}{f', {played.fault.reason}' if played.fault else ''}"
        require_clause(played.success, ended, seed, "seed")
        require_clause(
            trajectory_from_row(trajectory_to_row(played)).steps == played.steps, "a trajectory is not read as stored"
        )
        difference = first_difference(played, restore_situation)
        require_clause(difference is None, f"a replay differs: {difference}", seed, "seed")
        calls = [call for step in played.steps for call in step.facts.calls]
        check_world(
            start.world, [tool_call_to_action(call.name, call.arguments, start.takes_name(call.name)) for call in calls]
        )


def check_user(make_user: Callable[[int], User], blueprints: Sequence[Any] = ()) -> None:
    """Check a user on the blueprints, by default on three of the default world.

    Args:
        make_user: Makes a user from a seed, as the class `ScriptedUser` does.
        blueprints: What is played, with the world's expert as the agent.

    Raises:
        ContractError: The user breaks its contract. The message names the clause and the utterance.
    """
    world = default_world()
    recipe = world.recipe.model_validate({})
    for blueprint in blueprints or [world.make_blueprint(recipe, "train", seed) for seed in SEEDS]:
        first, again = (_WatchedUser(make_user(7)) for _ in range(2))
        for user in (first, again):
            played = _play_once(begin_episode(blueprint), world, user)
            ended = f"an episode ended as {played.outcome}: {played.fault.reason if played.fault else ''}"
            require_clause(played.outcome.is_counted, ended, [said.text for said in user.said], "said")
        require_clause(first.said, "it never speaks", blueprint.id, "blueprint")
        require_clause(first.said == again.said, "the same seed says something else", [first.said, again.said], "said")


class _WatchedUser:
    """A user of whom each utterance is checked."""

    def __init__(self, user: User) -> None:
        require_clause(isinstance(getattr(user, "name", None), str), "it has no `name`, a text", type(user).__name__, "user")
        self.user, self.name, self.said = user, user.name, list[Utterance]()

    async def speak(self, episode: Episode) -> Utterance:
        before = (episode.situation.state_key(), [*episode.messages], len(episode.steps), episode.turn)
        spoke = f"turn {episode.turn}, after it said"
        with name_example(self.user.speak, spoke, [said.text for said in self.said]):
            utterance = await self.user.speak(episode)
        require_clause(isinstance(utterance, Utterance), "`speak` gives no `Utterance`", utterance, "given")
        require_clause(isinstance(utterance.text, str), "an utterance's text is no text", utterance, "said")
        after = (episode.situation.state_key(), episode.messages, len(episode.steps), episode.turn)
        require_clause(before == after, "`speak` changed the episode", utterance, "said")
        intents = [intent.id for intent in episode.blueprint.intents]
        known = utterance.intent_id is None or utterance.intent_id in intents
        require_clause(known, f"`intent_id` is none of the intents {intents}", utterance, "said")
        goals = default_world().goals_in_words(episode.blueprint.model_dump(mode="json"))
        told = next((goal for goal in goals if goal in utterance.text), None)
        require_clause(told is None, f"it tells a goal of the task: {told}", utterance, "said")
        self.said.append(utterance)
        return utterance


def _play_once(episode: Episode, world: WorldAdapter, user: User) -> Trajectory:
    seed = episode.blueprint.seed
    return asyncio.run(play(episode, world.baselines[EXPERT](), user, seed))
