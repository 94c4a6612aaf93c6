"""The writer of an episode, which turns a plan into messages with the tools of the episode's toolset."""

from __future__ import annotations

import json

from homerl.envs.core.messages import Message
from homerl.envs.homeenv.language.known import home_grammar
from homerl.envs.homeenv.sim.toolset import ToolsetWriter
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.messages import device_label
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.play.episode import Episode


def writer_of(episode: Episode) -> ToolsetWriter:
    """The writer for an episode's toolset and language."""
    done = home_grammar(episode.blueprint.language).plain_sentence("done")
    return TOOLSETS[home_situation_of(episode).blueprint.toolset].writer(home_situation_of(episode).home, done, device_label)


def answer_message(text: str, one_answer: bool = False) -> Message:
    """A message of words alone. With `one_answer`, the words are the `response` of the agent's one JSON object."""
    if not one_answer:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": json.dumps({"mode": "execute", "response": text}, ensure_ascii=False)}
