"""The reference plan of a situation, in a home: which calls settle it, and which situations can be settled together.

Invariant: a plan is carried out on a copy of the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.personalhome.sim.situations import (
    HouseholdSituation,
    SituationPlanStep,
    condition_verdicts,
    is_situation_settled,
)

Call = tuple[str, SituationPlanStep]  # the did of an appliance, and what it is told


def settling_calls(situation: HouseholdSituation, home: Home, room: str | None = None) -> tuple[Call, ...]:
    """The calls that settle a situation, in order.

    A step is repeated for every appliance that the conditions concern. `room` is the id of the room where it happens.
    """
    return tuple(
        (device.did, step) for step in situation.plan for device in _concerned(situation, home, step.appliance, room)
    )


def _concerned(situation: HouseholdSituation, home: Home, kind: str, room: str | None) -> Sequence[Device]:
    """The devices of a kind that a plan must reach: all that a condition asks about, else the first."""
    for part in situation.parts():
        if part.kind == kind and part.which != "some":
            return part.counted_devices(home, room)
    return list(home.find_devices(category=kind))[:1]


def apply_calls_to_home(home: Home, calls: Sequence[Call]) -> Home:
    """A copy of the home after some calls. Raises `Refused` at the first that is refused."""
    copy = home.fork()
    for did, step in calls:
        copy.call(did, step.feature, kwargs=step.args)
    return copy


def can_happen_together(chosen: Mapping[str, str | None], known: Mapping[str, HouseholdSituation], home: Home) -> bool:
    """Whether some situations can go on in a home at once: no condition holds yet, and their plans settle them all.

    `chosen` are their keys, the most urgent first, with the ids of the rooms where they happen. Situations whose plans get
    in each other's way do not go together: one undoes the other, or leaves it nothing to do.
    """
    if any(any(condition_verdicts(known[key], home, room)) for key, room in chosen.items()):
        return False
    end = home
    try:
        for key, room in chosen.items():
            end = apply_calls_to_home(end, settling_calls(known[key], end, room))
    except Refused:
        return False
    return all(is_situation_settled(known[key], end, room) for key, room in chosen.items())
