"""The writer of an episode: how one who knows what to do says it with the tools of the episode's agent."""

from __future__ import annotations

import json

from envs.homeenv.toolset import Writer
from envs.homeenv.toolsets import TOOLSETS
from envs.messages import Message
from homerl.play.episode import Episode
from homerl.worlds.homeenv.language.shipped import grammar
from homerl.worlds.homeenv.messages import label


def writer_of(episode: Episode) -> Writer:
    """The writer of an episode's toolset."""
    done = grammar(episode.blueprint.language).plain("done")
    return TOOLSETS[episode.blueprint.toolset].writer(episode.situation.home, done, label)


def text_message(text: str, one_answer: bool = False) -> Message:
    """Words to the user: as they are, or in the one JSON answer of an agent that calls no tools."""
    if not one_answer:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": json.dumps({"mode": "execute", "response": text}, ensure_ascii=False)}
