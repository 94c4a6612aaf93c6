"""A baseline in actual use: Home Assistant's sentence matcher (`envs/homeenv/tasks/sentences/matching.py`)."""

from __future__ import annotations

from homerl.envs.core.messages import Message
from homerl.envs.homeenv.agents.baselines import BaselineAgent
from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence
from homerl.envs.homeenv.tasks.situation import home_situation_of, writer_of
from homerl.play.episode import Episode


class HassilAgent(BaselineAgent):
    """Recognises one sentence and makes the calls that it means."""

    name = "hassil"

    def answer_user(self, episode: Episode, said: str) -> Message:
        """The calls that the sentence means, or an apology if it was not recognised."""
        calls = calls_of_sentence(home_situation_of(episode).home, said, episode.blueprint.language)
        if calls:
            return writer_of(episode).write_calls(calls)
        return writer_of(episode).write_reply("Sorry, I could not understand that.")
