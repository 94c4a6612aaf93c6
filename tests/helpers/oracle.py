"""Answers of a scripted server in the role of the assistant: the fallible expert behind an HTTP endpoint.

It recognises a blueprint by the first message of its dialogue, replays the dialogue of the request in an episode of its
own, and asks the expert for the next message. Its answers depend only on the request, including `seed` and `n`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from itertools import cycle, islice
from typing import Any

from person import obedient

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.episode import Episode
from homerl.play.situation import Reply
from homerl.worlds.registry import begin_episode


class Oracle:
    """The `answer` function of a server that plays both roles: the assistant for requests with tools, else the user."""

    def __init__(self, blueprints: Iterable[Blueprint], mistakes: float = 0.0) -> None:
        self.mistakes = mistakes
        self.begun = {(episode := begin_episode(made)).messages[0]["content"]: episode for made in blueprints}

    def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any] | list[Mapping[str, Any]]:
        return self.candidates(request) if request.get("tools") else obedient(request)

    def candidates(self, request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The expert's next messages in this dialogue, over and over if it knows fewer than the request asks for."""
        episode = self.begun[request["messages"][0]["content"]].fork()
        for message in request["messages"][1:]:
            if message["role"] == "user":
                episode.add_utterance(message["content"], spoken_of(episode, message["content"]))
            elif message["role"] == "assistant":
                episode.apply_reply(Reply(dict(message) | {"content": message.get("content") or ""}))
        expert, n = Expert(request.get("seed", 0), self.mistakes), request.get("n") or 1
        return [reply.message for reply in islice(cycle(at_once(expert.consult(episode, n))), n)]


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits, called inside or outside a running event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("it waits for something")


def spoken_of(episode: Episode, text: str) -> int:
    """The id of the intent with the longest wording with which the utterance begins."""
    intents = episode.blueprint.intents
    wordings = {" ".join(said.split()): intent.id for intent in intents for said in (*intent.queries, intent.clarification)}
    return next(wordings[said] for said in sorted(wordings, key=len, reverse=True) if text.startswith(said))
