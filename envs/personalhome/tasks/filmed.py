"""Videos of households, in words: which situation is filmed, and which facts of the video show it.

Invariant: a transcript is a pure function of household, domain and seed.
"""

from __future__ import annotations

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.playbook import situation_domain
from homerl.envs.personalhome.sim.scene.script import write_transcript
from homerl.envs.personalhome.sim.scene.transcript import Domain, Transcript
from homerl.envs.personalhome.sim.situations import load_situations
from homerl.envs.personalhome.tasks.reference import situation_room


def film_household(household: Household, seed: int, domain: Domain | None = None) -> Household | None:
    """The household with a video of its most urgent situation that can be played; None if there is none of the domain."""
    for key in household.context.situations:
        if domain in (None, situation_domain(key)) and (transcript := _transcript(household, key, seed)) is not None:
            return household.model_copy(update={"transcript": transcript})
    return None


def _transcript(household: Household, key: str, seed: int) -> Transcript | None:
    """The transcript of a situation, in the room where it happens; None if the household lacks what its scripts need."""
    try:
        return write_transcript(household, key, seed, situation_room(household, load_situations()[key]))
    except InputError:
        return None


def scene_signs(household: Household) -> tuple[str, ...]:
    """The ids of the facts that let one conclude what situation a video shows; none if there is no video."""
    seen = household.transcript.inferred if household.transcript else ()
    return tuple(dict.fromkeys(f"scene:{id}" for one in seen for id in one.because))
