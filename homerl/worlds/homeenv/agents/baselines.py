"""Agents that need no language model: what a suite must not be gamed by, and what people use today.

Invariants: deterministic; none but the expert (for the upper bound) looks at Φ or the plan. Those that act know their
devices' specifications without asking, like a home hub, so they are handed the episode; one that only speaks is a policy.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from envs.homeenv.devices import Device
from envs.messages import Message
from homerl.play.episode import Episode
from homerl.play.observation import Observation
from homerl.play.situation import Reply
from homerl.worlds.homeenv.agents.writers import text_message, writer_of
from homerl.worlds.homeenv.blueprints.actions import actions
from homerl.worlds.homeenv.blueprints.blueprint import Call

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Baseline:
    """Acts once on what the user said, then says that all is done."""

    name = "baseline"

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        writer, last = writer_of(episode), episode.messages[-1]
        if last["role"] != "user":
            return [Reply(writer.say("Done."))]
        return [Reply(self.answer(episode, last["content"]))]

    def answer(self, episode: Episode, said: str) -> Message:
        raise NotImplementedError


class Nothing:
    """Says that all is done."""

    name = "nothing"

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        return [Reply(text_message("Done.", observation.one_answer))]


class RandomAction(Baseline):
    """One valid action, drawn by chance."""

    name = "random"

    def answer(self, episode: Episode, said: str) -> Message:
        digest = hashlib.blake2b(f"{episode.blueprint.id} {len(episode.messages)}".encode(), digest_size=8)
        action = next(actions(episode.situation.home, random.Random(digest.hexdigest())), None)
        return writer_of(episode).act(action.plan) if action else writer_of(episode).say("Done.")


class Keywords(Baseline):
    """Finds devices, services, options and numbers by the words that they share with the request."""

    name = "keywords"

    def answer(self, episode: Episode, said: str) -> Message:
        words = set(tokens_of(said))
        devices = best(episode.situation.home.plan.devices, lambda d: overlap(words, f"{d.room.name} {d.name}"))
        calls = [call for device in devices if (call := self._call(device, words, said))]
        return writer_of(episode).act(calls) if calls else writer_of(episode).say("Done.")

    def _call(self, device: Device, words: set[str], said: str) -> Call | None:
        paths = best(device.spec.service_index, lambda path: self._fit(device, path, words, said))
        if not paths:
            return None
        arguments = device.spec.service_index[paths[0]].service.arguments
        return Call(did=device.did, service=paths[0], args=tuple(value_of(a, words, said) for a in arguments))

    def _fit(self, device: Device, path: str, words: set[str], said: str) -> float:
        arguments = device.spec.service_index[path].service.arguments
        values = [value_of(argument, words, said) for argument in arguments]
        if None in values:
            return 0.0
        options = sum(overlap(words, str(value)) for value in values if isinstance(value, str))
        return overlap(words, path) + options + 0.5 * sum(isinstance(value, (int, float)) for value in values)


def tokens_of(text: str) -> list[str]:
    """Lower-case words; each character of a script without spaces."""
    return re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower().replace("_", " "))


def overlap(words: set[str], name: str) -> float:
    """The share of a name's words that were said."""
    own = tokens_of(name)
    return sum(word in words for word in own) / len(own) if own else 0.0


def best(things: Iterable[Any], fit: Callable[[Any], float]) -> list[Any]:
    """Those that fit best, if any fits at all; all of them where several do equally."""
    rated = [(fit(thing), thing) for thing in things]
    most = max((rate for rate, _ in rated), default=0.0)
    return [thing for rate, thing in rated if rate == most] if most > 0 else []


def value_of(kind: Any, words: set[str], said: str) -> Any:
    """A value for an argument, from the options or numbers said; None if there is none."""
    if kind.options:
        options = best(kind.options, lambda option: overlap(words, str(option)))
        return options[0] if options else None
    if kind.type in ("int", "float"):
        numbers = NUMBER.findall(said)
        return (float(numbers[0]) if kind.type == "float" else int(float(numbers[0]))) if numbers else None
    if kind.type == "bool":
        return "off" not in words
    return None
