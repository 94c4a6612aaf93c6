"""Actions as sentences, in three wordings (HomeFlow Table 10, TC1 and explicit multi-device of TC2).

Invariants: a pure function of the generator; a sentence belongs to one split for ever (by a hash of its
words), so no sentence that was trained on is ever evaluated on; every sentence names device and value.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.documents import read_yaml
from envs.homeenv.home import Home
from homerl.blueprints.actions import Action
from homerl.blueprints.blueprint import Wording

HELDOUT_SHARE = 5  # one sentence in five is kept for evaluation
TRIES = 60


class NoSentence(Exception):
    """The grammar found no sentence of the split; the blueprint is dropped and counted."""


@lru_cache
def phrases() -> dict[str, Any]:
    """The grammar's data."""
    return read_yaml(Path(__file__).parent / "phrases.yaml").data


def split_of(sentence: str) -> str:
    """The split that owns a sentence."""
    digest = hashlib.blake2b(sentence.lower().encode(), digest_size=4).digest()
    return "heldout" if int.from_bytes(digest, "big") % HELDOUT_SHARE == 0 else "train"


def say(actions: Sequence[Action], home: Home, wording: Wording, split: str, rng: random.Random) -> str:
    """One sentence that asks for all the actions, drawn from the split."""
    return _of_split(lambda: _sentence(actions, home, wording, rng), split)


def _of_split(draw: Callable[[], str], split: str) -> str:
    for _ in range(TRIES):
        sentence = draw()
        if split_of(sentence) == split:
            return sentence
    raise NoSentence


def _sentence(actions: Sequence[Action], home: Home, wording: Wording, rng: random.Random) -> str:
    style = rng.choice(("clear", "colloquial")) if wording == "noisy" else wording
    parts = [_clause(action, home, style, rng) for action in actions]
    if wording == "noisy":
        parts[0] = _correct(parts[0], actions[0], home, rng) if rng.random() < 0.3 else parts[0]
    text = parts[0]
    for part in parts[1:]:
        text += rng.choice(phrases()["joiners"]) + part.removeprefix("please ")
    return _disturb(text, rng) if wording == "noisy" else text


def _clause(action: Action, home: Home, style: str, rng: random.Random) -> str:
    *part, name = action.service.split(".")
    device = f"{action.device.room.name} {action.device.name}" + "".join(f" {word.replace('_', ' ')}" for word in part)
    template = rng.choice(phrases()[_key(name, action.value)][style])
    return template.format(d=device, v=spoken(action.value), a=name.removeprefix("set_").replace("_", " "))


def _key(service: str, value: Any) -> str:
    if service in phrases():
        return service
    if value is None:
        return "_plain"
    return "_bool" if isinstance(value, bool) else "_enum" if isinstance(value, str) else "_setter"


def spoken(value: Any) -> str:
    """A value as people say it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).replace("_", " ")


def _correct(sentence: str, action: Action, home: Home, rng: random.Random) -> str:
    """A self-correction: the speaker begins with another room's device and takes it back."""
    others = [d for d in home.plan.devices if d.room != action.device.room]
    if not others:
        return sentence
    wrong = rng.choice(others)
    return f"the {wrong.room.name} {wrong.name} {rng.choice(phrases()['noise']['corrections'])} {sentence}"


def _disturb(text: str, rng: random.Random) -> str:
    """Fillers and a stutter, as speech recognition hands them over."""
    words = text.split()
    if rng.random() < 0.4:
        at = rng.randrange(len(words))
        words.insert(at, words[at])
    if rng.random() < 0.8:
        words.insert(0, rng.choice(phrases()["noise"]["openers"]))
    if rng.random() < 0.5:
        words.append(rng.choice(phrases()["noise"]["closers"]))
    return " ".join(words)
