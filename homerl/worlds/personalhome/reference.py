"""The reference plan of a household: a program for each situation, from the plan that `situations.yaml` gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envs.personalhome.household import Household
from envs.personalhome.situations import NOTIFIERS, Situation, situations
from envs.personalhome.state import HouseholdState

if TYPE_CHECKING:
    from homerl.worlds.personalhome.blueprint import PersonalHomeBlueprint


def reference_plan(blueprint: PersonalHomeBlueprint) -> list[dict[str, Any]]:
    """The plan that settles all situations of a task, the most urgent first."""
    return [program_for(blueprint.household, key) for key in blueprint.task.situations]  # type: ignore[union-attr]


def room_of(household: Household, situation: Situation) -> str | None:
    """The room where a situation happens: that of the last event that shows it."""
    signs = {(sign.kind, sign.what) for sign in situation.events}
    shown = [event.fact.room for event in household.context.events if (event.fact.kind, event.fact.what) in signs]
    return shown[-1] if shown else None


def program_for(household: Household, key: str) -> dict[str, Any]:
    """The program that settles a situation: each step on every owned appliance of its kind, in the room if it counts.

    Several appliances can tell people something; one is enough.
    """
    situation, steps = situations()[key], list[dict[str, Any]]()
    room = room_of(household, situation)
    here = [part.kind for part in situation.parts() if part.which == "here"]
    rooms = {kind: (room,) for kind in here if kind and room}
    owned = list(HouseholdState(household).appliances)
    for step in situation.plan:
        fit = [one for one in owned if one.spec.category == step.appliance]
        fit = [one for one in fit if one.room.id in rooms.get(step.appliance, (one.room.id,))]
        for device in fit[:1] if step.appliance in NOTIFIERS else fit:
            steps.append(
                    {
                        "step_id": str(len(steps) + 1), "appliance": device.did, "feature": step.feature,
                        "category": [situation.category], "args": dict(step.args), "rationale": key,
                    }
                )  # fmt: skip
    return {"program_id": key, "steps": steps}
