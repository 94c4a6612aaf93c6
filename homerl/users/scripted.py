"""The scripted user: speaks from open intents, rewords, answers questions, stops when nothing is open.

Invariants: an utterance is a pure function of blueprint, seed and dialogue; it never tells an id, a
condition or the plan; it is asked to speak only while some intent is open, so it always does.
"""

from __future__ import annotations

from homerl.play.episode import Episode
from homerl.play.situation import Intent
from homerl.play.utterance import Utterance


class ScriptedUser:
    """Begins with a wording chosen by `seed` and goes round the intent's wordings from there."""

    name = "scripted"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    async def speak(self, episode: Episode) -> Utterance:
        open_intents = episode.open_intents()
        if not open_intents:
            return Utterance("")
        intent = next((i for i in open_intents if i.id == episode.speaking_of), open_intents[0])
        if intent.id == episode.speaking_of and episode.words_of(episode.messages[-1]).question:
            return Utterance(intent.clarification, intent.id)
        return Utterance(intent.queries[self._wording(intent, episode)], intent.id)

    def _wording(self, intent: Intent, episode: Episode) -> int:
        times = sum(m["role"] == "user" and m["content"] in intent.queries for m in episode.messages)
        return (self.seed + times) % len(intent.queries)
