"""Baseline agents that need no language model. A suite must not be solvable by them.

Invariants: all are deterministic; they do not read the goals Φ or the plan. Agents that act are oracles, because
they read the devices' specifications from the episode as a home hub would. The agent that only speaks is a
policy.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.tasks.actions import actions
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.situation import answer_message, home_situation_of, writer_of
from homerl.play.episode import Episode
from homerl.play.situation import Observation, Reply

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class BaselineAgent:
    """Answers the user once, and afterwards says that all is done."""

    name = "baseline"

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """One reply: `answer` to the user's last message, or "Done."."""
        writer, last = writer_of(episode), episode.messages[-1]
        if last["role"] != "user":
            return [Reply(writer.write_reply("Done."))]
        return [Reply(self.answer_user(episode, last["content"]))]

    def answer_user(self, episode: Episode, said: str) -> Message:
        """The message that answers what the user said; subclasses implement it."""
        raise NotImplementedError


class DoNothingAgent:
    """Only says that all is done."""

    name = "nothing"

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        """The one reply "Done."."""
        return [Reply(answer_message("Done.", observation.one_answer))]


class RandomActionAgent(BaselineAgent):
    """Takes one valid action, selected by a hash of the blueprint's id and the number of messages."""

    name = "random"

    def answer_user(self, episode: Episode, said: str) -> Message:
        """A random valid action, or "Done." if there is none."""
        digest = hashlib.blake2b(f"{episode.blueprint.id} {len(episode.messages)}".encode(), digest_size=8)
        action = next(actions(home_situation_of(episode).home, random.Random(digest.hexdigest())), None)
        return writer_of(episode).write_calls(action.plan) if action else writer_of(episode).write_reply("Done.")


class KeywordAgent(BaselineAgent):
    """Finds devices, services, options and numbers by the words that they share with the request."""

    name = "keywords"

    def answer_user(self, episode: Episode, said: str) -> Message:
        """One call to each of the best matching devices."""
        words, known = set(split_words(said)), home_situation_of(episode).home.plan.devices
        calls = []
        for device in best_matches(known, lambda one: name_overlap(words, f"{one.room.name} {one.name}")):
            services = device.spec.service_index
            paths = best_matches(services, partial(self._rate_service, device, words, said))
            if paths:
                args = tuple(value_in_request(kind, words, said) for kind in services[paths[0]].service.arguments)
                calls.append(Call(did=device.did, service=paths[0], args=args))
        return writer_of(episode).write_calls(calls) if calls else writer_of(episode).write_reply("Done.")

    def _rate_service(self, device: Device, words: set[str], said: str, path: str) -> float:
        arguments = device.spec.service_index[path].service.arguments
        values = [value_in_request(argument, words, said) for argument in arguments]
        if None in values:
            return 0.0
        options = sum(name_overlap(words, str(value)) for value in values if isinstance(value, str))
        return name_overlap(words, path) + options + 0.5 * sum(isinstance(value, (int, float)) for value in values)


def split_words(text: str) -> list[str]:
    """The lower-case words of a text; a Chinese character is a word."""
    return re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower().replace("_", " "))


def name_overlap(words: set[str], name: str) -> float:
    """The fraction (0 to 1) of a name's words that occur in `words`."""
    own = split_words(name)
    return sum(word in words for word in own) / len(own) if own else 0.0


def best_matches(things: Iterable[Any], fit: Callable[[Any], float]) -> list[Any]:
    """All things with the highest positive rating; empty if no rating is positive."""
    rated = [(fit(thing), thing) for thing in things]
    most = max((rate for rate, _ in rated), default=0.0)
    return [thing for rate, thing in rated if rate == most] if most > 0 else []


def value_in_request(kind: Any, words: set[str], said: str) -> Any:
    """A value for an argument, taken from the options or numbers in the request; None if there is none."""
    if kind.options:
        options = best_matches(kind.options, lambda option: name_overlap(words, str(option)))
        return options[0] if options else None
    if kind.type in ("int", "float"):
        numbers = NUMBER.findall(said)
        return (float(numbers[0]) if kind.type == "float" else int(float(numbers[0]))) if numbers else None
    if kind.type == "bool":
        return "off" not in words  # a request that does not say which means on
    return None
