"""Commands in a language that the home does not speak, in sentences of Home Assistant's users there.

Invariants: nothing may change, and the answer is that the language is not understood. None of `people_languages` is drawn.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.sim.assist.entities_of_home import AssistEntity, entities_of_plan
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft, statement_reply
from homerl.envs.homeenv.tasks.intents.unmet import CANNOT
from homerl.play.words.grammar import NoSentence

LANGUAGES = ("de", "fr", "es", "nl", "it", "pl", "pt", "sv", "zh", "en")
INTENTS = ("HassTurnOn", "HassTurnOff", "HassLightSet", "HassSetPosition", "HassClimateSetTemperature", "HassSetVolume")
VALUES = {
    "brightness": (20, 50, 80),
    "position": (30, 60),
    "temperature": (19, 21, 23),
    "volume_level": (20, 40),
    "color": ("red", "blue", "green"),
}
TRIES = 60


@dataclass(frozen=True)
class ForeignCommand:
    """A command about an entity in another language."""

    language: str
    entity: AssistEntity

    def words(self, speaker: Speaker) -> str:
        """A sentence of a template that fits the entity. Raises `NoSentence` if none is found."""
        from homerl.envs.homeenv.tasks.sentences import templates as known  # its package comes with an extra

        names = {"name": self.entity.name} | ({"area": self.entity.area.name} if self.entity.area else {})
        found = [
            template
            for intent in INTENTS
            for template in known.templates_of_intent(self.language, intent, speaker.voice.frames)
            if self.entity.domain in (template.required_values("domain") or ()) and not template.names_alone
        ]
        for _ in range(TRIES if found else 0):
            slots = known.FilledSlots(self.language, speaker.rng, speaker.voice.temperature, names, VALUES)
            try:
                return slots.write(speaker.rng.choice(found))
            except known.CannotBeFilled:
                continue
        raise NoSentence


def propose_command(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A command about a device that is there, which would be met in the home's own language."""
    spoken = ask.language or "en"
    able = [entity for entity in entities_of_plan(home.plan) if "turn_on" in entity.shape.acts and entity.domain != "button"]
    unheard = [language for language in LANGUAGES if language != spoken and language not in ask.understood]
    if not able or not unheard:
        return None
    command = ForeignCommand(rng.choice(unheard), rng.choice(able))
    return make_question_draft(command, CANNOT, (), statement_reply(frame_meaning("foreign.reply")), "command")


SUBCATEGORIES: dict[str, Propose] = {"command": propose_command}
