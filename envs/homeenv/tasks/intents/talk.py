"""Words that want nothing: thanks, "never mind", greetings and small talk.

Invariants: nothing may change; the agent says something, and does not claim that it did something.
"""

from __future__ import annotations

import random

from homerl.envs.homeenv.language.speaker import frame_meaning
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft
from homerl.play.words.answer_rules import Answer

ANYTHING = Answer(type="talk", value=())


def _propose_talk(kind: str) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """The words, with a short reply."""
        return make_question_draft(frame_meaning(f"talk.{kind}"), ANYTHING, (), frame_meaning(f"talk.reply.{kind}"), kind)

    return propose


SUBCATEGORIES = {kind: _propose_talk(kind) for kind in ("thanks", "never_mind", "greeting", "chat")}
