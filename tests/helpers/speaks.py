"""A user with fixed lines."""

from __future__ import annotations

from homerl.play.episode import Episode
from homerl.play.situation import Utterance


class Speaks:
    """A user with a fixed list of utterances, then silence. An error among them is raised."""

    name = "speaks"

    def __init__(self, *texts: str | Exception) -> None:
        self.texts = list(texts)

    async def speak(self, episode: Episode) -> Utterance:
        text = self.texts.pop(0) if self.texts else ""
        if isinstance(text, Exception):
            raise text
        return Utterance(text, episode.blueprint.intents[0].id)
