"""The composite verifiable reward of one step (HomeFlow eq. 6 and D.2): the weighted sum of all rewards.

Invariants: a reward is discovered by its file (see `rewards`), and nothing here knows one by name; recipes and stored
trajectories list the weights first, then the settings, each in the order of the rewards.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, create_model, model_validator

import rewards
from envs.documents import InputError
from envs.model import Model
from envs.world import StepFacts
from rewards.reward import Reward, Setting

NO_REWARDS = ("composite", "reward")  # files of this folder that define no reward


class Weights(Model):
    """Weights and limits. λ_prog, λ_succ and c_audit are ours where the paper is silent; the rest are D.2's."""

    @model_validator(mode="after")
    def _usable(self) -> Weights:
        for name, reward in REWARDS.items():
            if (weight := getattr(self, name)) < 0:
                raise ValueError(f"reward weight '{name}' is {weight}; weights are at least 0, penalties subtract")
            reward.check({key: getattr(self, key) for key in reward.settings})
        return self


def discover_rewards() -> dict[str, Reward]:
    """Every reward by name, in order. Raises `InputError` for a file without a `REWARD`, or a name that occurs twice."""
    rewards_by_name: dict[str, Reward] = {}
    for name, path in _files():
        reward = getattr(importlib.import_module(f"rewards.{name}"), "REWARD", None)
        if name in rewards_by_name:
            raise InputError(f"there is a reward '{name}' already", str(path), "give the file another name")
        if not isinstance(reward, Reward):
            raise InputError("the file defines no REWARD", str(path), "see docs/recipes.md, Rewards")
        rewards_by_name[name] = reward
    return dict(sorted(rewards_by_name.items(), key=lambda item: (item[1].order, item[0])))


def _files() -> Iterator[tuple[str, Path]]:
    """Name and path of each file that must define a reward. A name that begins with an underscore is that of a helper."""
    for folder in dict.fromkeys(Path(folder).resolve() for folder in rewards.__path__):
        if not folder.is_dir():
            raise InputError("there is no such folder", str(folder), "correct the environment variable HOMERL_REWARDS")
        for module in pkgutil.iter_modules([str(folder)]):
            if module.name not in NO_REWARDS and not module.name.startswith("_"):
                yield module.name, folder / f"{module.name}.py"


def collect_settings(rewards_by_name: Mapping[str, Reward]) -> dict[str, Setting]:
    """The settings of all rewards. Raises `InputError` for a name that is invalid or taken."""
    settings: dict[str, Setting] = {}
    for name, reward in rewards_by_name.items():
        try:
            own = reward.settings
        except ValueError as error:
            raise InputError(str(error), f"reward '{name}'", "see docs/recipes.md, Rewards") from None
        for key in (name, *own):
            if (
                not key.isidentifier()
                or hasattr(Weights, key)
                or key in settings
                or (key != name and key in rewards_by_name)
            ):
                raise InputError(f"'{key}' cannot be used or is taken", f"reward '{name}'", "choose another name")
        if unknown := set(reward.switches.values()) - rewards_by_name.keys():
            raise InputError(f"there is no reward '{min(unknown)}'", f"reward '{name}'", "correct its `switches`")
        settings |= own
    return settings


REWARDS: Mapping[str, Reward] = discover_rewards()
SETTINGS: Mapping[str, Setting] = collect_settings(REWARDS)
PARTS = tuple(REWARDS)
_fields: dict[str, Any] = {
    name: (float, Field(reward.weight, description=f"Weight of a reward that is {reward.card}."))
    for name, reward in REWARDS.items()
}
_fields |= {name: (setting.type, setting.default) for name, setting in SETTINGS.items()}
# The model of `rewards:` in a recipe.
RewardWeights = create_model("RewardWeights", __base__=Weights, __module__=__name__, __doc__=Weights.__doc__, **_fields)


def step_rewards(facts: StepFacts, weights: RewardWeights = RewardWeights()) -> dict[str, float]:
    """The weighted reward parts of a step by name, in the order of `PARTS`. Their sum is r_t."""
    return {name: getattr(weights, name) * _earned(reward, facts, weights) for name, reward in REWARDS.items()}


def _earned(reward: Reward, facts: StepFacts, weights: Any) -> float:
    """A reward of a step, at weight 1."""
    settings = {name: getattr(weights, name) for name in reward.settings}
    switches = {name: getattr(weights, other) > 0 for name, other in reward.switches.items()}
    return reward.earn(facts, **settings, **switches)
