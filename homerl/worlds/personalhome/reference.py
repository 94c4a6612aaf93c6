"""The reference plan of a household: a program for each situation, from the plan that `situations.yaml` gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envs.personalhome.household import Household
from envs.personalhome.situations import situations
from envs.personalhome.state import HouseholdState

if TYPE_CHECKING:
    from homerl.worlds.personalhome.blueprint import PersonalHomeBlueprint


def reference_plan(blueprint: PersonalHomeBlueprint) -> list[dict[str, Any]]:
    """The plan that settles all situations of a task, the most urgent first."""
    return [program_for(blueprint.household, key) for key in blueprint.task.situations]  # type: ignore[union-attr]


def program_for(household: Household, key: str) -> dict[str, Any]:
    """The program that settles a situation: each step on every owned appliance of its kind."""
    situation, steps = situations()[key], []
    owned = list(HouseholdState(household).appliances)
    for step in situation.plan:
        for device in owned:
            if device.spec.category == step.kind:
                steps.append(
                    {
                        "step_id": str(len(steps) + 1), "appliance": device.did, "feature": step.feature,
                        "category": [situation.category], "args": dict(step.args), "rationale": key,
                    }
                )  # fmt: skip
    return {"program_id": key, "steps": steps}
