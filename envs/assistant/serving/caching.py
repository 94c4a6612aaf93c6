"""How much of what a model reads before a dialogue it has read before: a server's cache saves it."""

from __future__ import annotations

import json

from homerl.play.episode import Episode


def prompt_before_dialogue(episode: Episode) -> str:
    """What a model reads before the dialogue: tools and system prompt, in the order in which templates write them."""
    return json.dumps([*episode.world.tools, episode.messages[0]["content"]])


def cached_prompt_share(before: str | None, now: str) -> float | None:
    """The share of a prompt, from its beginning, that is as it was before."""
    if before is None:
        return None
    differs = (at for at, (one, other) in enumerate(zip(before, now)) if one != other)
    return round(next(differs, min(len(before), len(now))) / len(now), 4)
