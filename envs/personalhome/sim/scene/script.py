"""Writes transcripts: a script of a situation is cast with a household, played, dressed and put into words.

Invariants:
- A transcript is a pure function of household, situation and seed.
- Every caption is made of events, and every event of facts; every description is made of facts.
- What follows from the facts, but is not seen, stands in `inferred` alone.
"""

from __future__ import annotations

import random

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.casting import SceneCast, build_household_home, cast_script
from homerl.envs.personalhome.sim.scene.describe import describe_play
from homerl.envs.personalhome.sim.scene.looks import draw_looks, setting_facts
from homerl.envs.personalhome.sim.scene.play import SceneMove, ScenePlay, play_script
from homerl.envs.personalhome.sim.scene.playbook import SceneScript, load_scene_scripts
from homerl.envs.personalhome.sim.scene.transcript import Domain, Inference, SceneFact, Transcript
from homerl.envs.personalhome.sim.scene.wording import SceneWording, make_scene_wording

NIGHT, MORNING, EVENING = 22, 7, 18  # hours at which the light changes


def playable_situations(household: Household, domain: Domain | None = None) -> tuple[str, ...]:
    """The situations that can be played in a household, in the order of the scripts; of one domain, if it is given."""
    home = build_household_home(household)
    rng = random.Random("playable")
    known = [script for of, found in load_scene_scripts().items() if domain in (None, of) for script in found]
    return tuple(dict.fromkeys(one.situation for one in known if cast_script(one, household, home, rng)))


def write_transcript(household: Household, situation: str, seed: int, room: str | None = None) -> Transcript:
    """The transcript of a situation in a household, in the household's language.

    `room` is the id of the room where it should happen, such as that of the events that tell of it. It happens elsewhere if
    the home has no such cast.

    Raises `KeyError` for a situation without a script, and `InputError` if the household cannot play it.
    """
    rng = random.Random(f"scene {household.household_id} {situation} {seed}")
    domain, script, cast = _chosen(household, situation, rng, room)
    play = play_script(script, cast, rng)
    looks = draw_looks(cast, script.light or light_at_hour(household.now.hour), rng)
    said = make_scene_wording(cast, looks.colours, household.language)
    facts = _numbered([*setting_facts(play, looks), *play.event_facts()])
    conclusion = _inference(play, said, situation, facts)
    return Transcript(
        datapoint_id=f"{household.household_id}_{situation}_{seed}",
        language=household.language,
        domain=domain,
        situation=situation,
        length=play.length,
        video_description=describe_play(play, looks, said),
        facts=facts,
        inferred=(conclusion,),
    )


def light_at_hour(hour: int) -> str:
    """The light at an hour of the day: a key of `light` in `stage.yaml`."""
    if hour >= NIGHT or hour < MORNING:
        return "night"
    return "day" if hour < EVENING else "evening"


def _chosen(
    household: Household, situation: str, rng: random.Random, room: str | None
) -> tuple[Domain, SceneScript, SceneCast]:
    """One of the situation's scripts that can be cast, its domain and its cast."""
    found = [(domain, one) for domain, known in load_scene_scripts().items() for one in known if one.situation == situation]
    if not found:
        raise KeyError(situation)
    home = build_household_home(household)
    for domain, script in rng.sample(found, len(found)):
        for here in dict.fromkeys((room, None)):
            if cast := cast_script(script, household, home, rng, here):
                return domain, script, cast
    remedy = f"play one of {', '.join(playable_situations(household))}"
    raise InputError(f"lacks a room, a person or an appliance for '{situation}'", household.household_id, remedy)


def _numbered(facts: list[SceneFact]) -> tuple[SceneFact, ...]:
    return tuple(fact.model_copy(update={"id": f"f{number}"}) for number, fact in enumerate(facts, 1))


def _inference(play: ScenePlay, said: SceneWording, situation: str, facts: tuple[SceneFact, ...]) -> Inference:
    """What the key events let one conclude."""
    keys: list[SceneMove] = [move for move in play.moves if move.key]
    subjects = tuple(dict.fromkeys(move.who for move in keys if move.who))
    because = tuple(fact.id for fact in facts if fact.event_id in {move.id for move in keys})
    text = said.words.inferred[situation].format(who=subjects[-1] if subjects else "")
    return Inference(kind=situation, text=text, subjects=subjects, because=because)
