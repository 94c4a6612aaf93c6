"""What a sentence is by Home Assistant's own grammar, and whether the home is already as it asks.

Invariant: nothing is changed, and a language without sentences, or a machine without the matcher, knows no sentence.
"""

from __future__ import annotations

import re
from typing import Literal

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

ASKS_NOTHING_DONE = re.compile(r"Hass(?:.*(?:Get|Status)|Nevermind|Respond)")  # intents that tell something, or nothing
SentenceKind = Literal["command", "talk", "unknown"]


def find_sentence_kind(home: Home, said: str, language: str) -> SentenceKind:
    """Whether a sentence wants something to be done that is not so in the home yet, or only an answer."""
    try:  # its package comes with an extra
        from homerl.envs.homeenv.tasks.sentences.matching import acts_on_states, calls_of_sentence, intent_of_sentence

        intent = intent_of_sentence(home, said, language)
    except InputError:
        return "unknown"
    if intent is None:
        return "unknown"
    if ASKS_NOTHING_DONE.match(intent):
        return "talk"
    if not acts_on_states(intent):
        return "command"
    twin, calls = home.fork(), calls_of_sentence(home, said, language)
    try:
        for call in calls:
            twin.call(call.did, call.service, call.args)
    except Refused:
        return "command"
    as_wanted = bool(calls) and all(twin.state_of(call.did) == home.state_of(call.did) for call in calls)
    return "talk" if as_wanted else "command"
