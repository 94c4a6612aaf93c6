"""The reference plan of a household: a program for each situation, from the plan that `situations.yaml` gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.reference import settling_calls
from homerl.envs.personalhome.sim.situations import HouseholdSituation, load_situations
from homerl.envs.personalhome.sim.state import HouseholdState

if TYPE_CHECKING:
    from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint


def reference_plan(blueprint: PersonalHomeBlueprint) -> list[dict[str, Any]]:
    """The plan that settles all situations of a task, the most urgent first."""
    return [settling_program(blueprint.household, key) for key in blueprint.task.situations]  # type: ignore[union-attr]


def situation_room(household: Household, situation: HouseholdSituation) -> str | None:
    """The room where a situation happens: that of the last event that shows it."""
    signs = {(sign.kind, sign.what) for sign in situation.events}
    shown = [event.fact.room for event in household.context.events if (event.fact.kind, event.fact.what) in signs]
    return shown[-1] if shown else None


def settling_program(household: Household, key: str) -> dict[str, Any]:
    """The program that settles a situation, with every device that counts."""
    situation = load_situations()[key]
    calls = settling_calls(situation, HouseholdState(household).home, situation_room(household, situation))
    steps = [
        {
            "step_id": str(number),
            "appliance": did,
            "feature": step.feature,
            "category": [situation.category],
            "args": dict(step.args),
            "rationale": key,
        }
        for number, (did, step) in enumerate(calls, 1)
    ]
    return {"program_id": key, "steps": steps}
