"""The composite verifiable reward of one step (HomeFlow eq. 6 and D.2): the weighted sum of all rewards.

Invariants: a reward is discovered by its file (see `rewards`), and nothing here knows one by name; recipes and stored
trajectories list the weights first, then the settings, each in the order of the rewards.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from pydantic import Field, create_model, model_validator

import homerl.rewards
from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward, RewardSetting

NO_REWARDS = ("composite", "reward")  # files of this folder that define no reward


class Weights(Model):
    """Weights and limits; those of progress, success and audit are ours where the paper is silent."""

    @model_validator(mode="after")
    def _usable(self) -> Weights:
        for name, reward in REWARDS.items():
            if (weight := getattr(self, name)) < 0:
                raise ValueError(f"reward weight '{name}' is {weight}; weights are at least 0, penalties subtract")
            reward.check({key: getattr(self, key) for key in reward.recipe_settings})
        return self


def discover_rewards() -> dict[str, Reward]:
    """Every reward by name, sorted by `order`, then by name. Raises `InputError` for a file that cannot be used."""
    return sort_plugins(discover(homerl.rewards, "REWARD", Reward, NO_REWARDS))


def collect_reward_settings(rewards_by_name: Mapping[str, Reward]) -> dict[str, RewardSetting]:
    """The settings of all rewards.

    Args:
        rewards_by_name: The rewards, in their order.

    Returns:
        The settings by name. They stand beside the weights in a recipe, so no two names may be equal.

    Raises:
        InputError: A name is invalid or taken, or a reward depends on one that does not exist.
    """
    settings: dict[str, RewardSetting] = {}
    owners = {name: name for name in rewards_by_name}  # a reward's name is the key of its weight
    for name, reward in rewards_by_name.items():
        try:
            own = reward.recipe_settings
        except ValueError as error:
            raise InputError(str(error), _reward_file(reward), "see docs/recipes.md, Rewards") from None
        if unknown := set(reward.switches.values()) - rewards_by_name.keys():
            raise InputError(f"there is no reward '{min(unknown)}'", _reward_file(reward), "correct its `switches`")
        for key in (name, *own):
            if hasattr(Weights, key):
                raise InputError(f"a key of `rewards` cannot be named '{key}'", _reward_file(reward), "choose another name")
            if (owner := owners.setdefault(key, name)) != name:
                taken = f"the rewards '{owner}' and '{name}' both define the key '{key}'"
                where = f"{_reward_file(rewards_by_name[owner])} and {_reward_file(reward)}"
                raise InputError(taken, where, "rename it in one of them")
        settings |= own
    return settings


def _reward_file(reward: Reward) -> str:
    return str(sys.modules[reward.earn.__module__].__file__)


REWARDS: Mapping[str, Reward] = discover_rewards()
SETTINGS: Mapping[str, RewardSetting] = collect_reward_settings(REWARDS)
# The values of settings that trajectories do not store because the settings are younger.
OLDER_SETTINGS: Mapping[str, Any] = {name: value for reward in REWARDS.values() for name, value in reward.older.items()}
PARTS = tuple(REWARDS)
_fields: dict[str, Any] = {
    name: (float, Field(reward.weight, description=f"Weight of a reward that is {reward.card}."))
    for name, reward in REWARDS.items()
}
_fields |= {name: (setting.type, setting.default) for name, setting in SETTINGS.items()}
# The model of `rewards:` in a recipe.
RewardWeights = create_model("RewardWeights", __base__=Weights, __module__=__name__, __doc__=Weights.__doc__, **_fields)


def step_rewards(facts: StepFacts, weights: RewardWeights = RewardWeights()) -> dict[str, float]:
    """The reward of a step, in parts. Their sum is r_t of HomeFlow's eq. 6.

    Args:
        facts: What the step did. Nothing else is read, so the rewards of a stored trajectory can be recomputed.
        weights: The weights and settings of a recipe; by default those of the rewards' files.

    Returns:
        The weighted reward of each part by name, in the order of `PARTS`.

    Example:
        sum(step_rewards(step.facts, RewardWeights(audit=0.5)).values())
    """
    rewards = {}
    for name, reward in REWARDS.items():
        settings = {key: getattr(weights, key) for key in reward.recipe_settings}
        switches = {key: getattr(weights, other) > 0 for key, other in reward.switches.items()}
        rewards[name] = getattr(weights, name) * reward.earn(facts, **settings, **switches)
    return rewards
