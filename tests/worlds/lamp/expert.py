"""The scripted expert, which holds the plan and may err."""

from __future__ import annotations

import random
from collections.abc import Sequence

from homerl.envs.core.messages import Message, tool_call
from homerl.play.episode import Episode
from homerl.play.loop import draw_candidates
from homerl.play.situation import Reply


class LampExpert:
    """Sets the level that is wanted, then says so."""

    name = "expert"

    def __init__(self, seed: int = 0, mistakes: float = 0.0) -> None:
        self.seed, self.mistakes = seed, mistakes

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        return [Reply(message) for message in draw_candidates(self._candidate, episode, n, self.seed)]

    def _candidate(self, episode: Episode, rng: random.Random) -> Message:
        if not episode.open_intents():
            return {"role": "assistant", "content": "Done."}
        wrong = rng.random() < self.mistakes
        level = rng.choice((10, 50, 120)) if wrong else episode.blueprint.wanted[0]
        return {"role": "assistant", "content": "", "tool_calls": [tool_call("set_level", {"level": level})]}
