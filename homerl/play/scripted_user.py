"""The scripted user: it speaks for unmet intents, follows their courses, rewords, answers questions, and stops when no
intent is unmet.

Invariants: an utterance is a pure function of blueprint, seed and dialogue; it contains no id, condition or plan; the
user is asked to speak only while an intent is unmet, so it always has something to say.
"""

from __future__ import annotations

from homerl.play.episode import Episode
from homerl.play.situation import IntentProtocol
from homerl.play.utterance import Utterance


class ScriptedUser:
    """Starts with the wording that `seed` selects, and cycles through the intent's wordings from there."""

    name = "scripted"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    async def speak(self, episode: Episode) -> Utterance:
        """What comes next in the course of the current or first unmet intent. After the course, the plain answer if the
        agent asked a question, else the next wording.

        The utterance is empty if every intent is met.
        """
        open_intents = episode.open_intents()
        if not open_intents:
            return Utterance("")
        intent = next((i for i in open_intents if i.id == episode.speaking_of), open_intents[0])
        course = episode.situation.course_of(intent.id)
        at = episode.course_position(intent.id, episode.turn + 1)
        if at is None:
            return Utterance(course.aside or "", intent.id)
        if at < len(course.parts):
            return Utterance(course.parts[at].text, intent.id)
        if intent.id == episode.speaking_of and episode.spoken_words_of(episode.messages[-1]).question:
            return Utterance(intent.clarification, intent.id)
        return Utterance(intent.queries[self._wording(intent, episode)], intent.id)

    def _wording(self, intent: IntentProtocol, episode: Episode) -> int:
        times: int = sum(m["role"] == "user" and m["content"] in intent.queries for m in episode.messages)
        return (self.seed + times) % len(intent.queries)
