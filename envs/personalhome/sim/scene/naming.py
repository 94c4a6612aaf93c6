"""What a transcript calls the ids and the values of its facts, for questions and answers about it.

Invariant: a name is the one that the captions use.
"""

from __future__ import annotations

from collections.abc import Mapping

from homerl.envs.personalhome.sim.scene.playbook import load_caption_words
from homerl.envs.personalhome.sim.scene.transcript import Transcript

GROUPS = {
    "hair": "hair", "top": "tops", "bottom": "bottoms", "feet": "feet", "animal": "animals", "light": "lights",
    "position": "positions", "colour": "colours", "top_colour": "colours", "bottom_colour": "colours", "coat": "colours",
    "finish": "colours",
}  # fmt: skip


def transcript_nouns(transcript: Transcript) -> Mapping[str, str]:
    """The noun phrase of every id: `the red pot`, `the counter`, `the kitchen`. Who acts, and appliances, are their ids."""
    known, described = load_caption_words(transcript.language), transcript.video_description
    entities, layout, frames = described.entities, described.scene.layout, known.frames
    colours = {one.object: known.colours[one.value or ""] for one in transcript.facts if one.attribute == "colour"}
    found = {id: id for id in entities.entity_ids()}
    found |= {zone.zone_id: frames["zone"].format(name=zone.label) for zone in layout.zones}
    found |= {mark.landmark_id: frames["fixture"].format(kind=mark.type) for mark in layout.landmarks}
    for one in entities.objects:
        found[one.object_id] = frames["thing"].format(colour=colours[one.object_id], kind=one.label)
    return found
