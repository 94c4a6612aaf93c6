"""Audit: the firewall blocked something (HomeFlow eq. 6, third term).

Eq. 6 charges each action a_t that is blocked, and an action is one script or one API call (HomeFlow 3.1). Where a message
makes several calls, it takes several actions, and each refused one is charged: twenty cost twenty times what one costs.
"""

from typing import Annotated

from pydantic import Field

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward

EachCall = Annotated[
    bool, Field(description="Whether `audit` is lost for every refused call; false: once for a step, however many it has.")
]


def audit(facts: StepFacts, audit_each_call: EachCall = True) -> float:
    """-1 for each refused call of a step; without `audit_each_call`, -1 for a step with one or more of them."""
    return -float(len(facts.blocked) if audit_each_call else bool(facts.blocked))


REWARD = Reward(audit, weight=0.2, card="lost for a call that the home refused", order=3, older={"audit_each_call": False})
