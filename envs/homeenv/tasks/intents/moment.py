"""Questions about now: the time, the date, the day of the week.

Invariant: they are asked only of agents that are told the time when the episode begins (`Ask.timed`), or that have a tool
which tells it (`Ask.clock`).
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

from homerl.envs.homeenv.language.speaker import frame_meaning
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import NOW
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft
from homerl.play.words.answer_rules import Answer

FORMS = {"time": "%H:%M", "date": "%Y-%m-%d"}
ANSWERED_WITHIN = 2  # minutes: a time may be rounded a little


def _propose_moment(subcategory: str) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """The question, with the answer of the home's clock."""
        if not (ask.timed or ask.clock):
            return None
        reads = (NOW,) if ask.clock else ()
        now = datetime.fromtimestamp(home.clock, UTC)
        if subcategory == "weekday":
            answer = Answer(type="weekday", value=now.weekday())
            reply = frame_meaning("moment.reply.weekday", value=frame_meaning(f"moment.day.{now.weekday()}"))
        else:
            text = now.strftime(FORMS[subcategory])
            tolerance = ANSWERED_WITHIN if subcategory == "time" else 0
            answer = Answer(type=subcategory, value=text, tolerance=tolerance)
            reply = frame_meaning(f"moment.reply.{subcategory}", value=text)
        return make_question_draft(frame_meaning(f"moment.{subcategory}"), answer, reads, reply, subcategory)

    return propose


SUBCATEGORIES = {name: _propose_moment(name) for name in ("time", "date", "weekday")}
