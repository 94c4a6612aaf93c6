"""How often the utterances of a user, or of a dataset's people, show each behaviour.

Invariant: both sides are judged by the same rules (`signs.py`), each utterance once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from homerl.host.measure.intervals import share_interval
from homerl.play.course import BEHAVIOURS, Behaviour
from homerl.worlds.users.dialogues import SpokenDialogue
from homerl.worlds.users.signs import detect_behaviours


@dataclass(frozen=True)
class BehaviourRate:
    """The share of `n` utterances that show a behaviour, in [0, 1], with its 95 % interval."""

    share: float
    low: float
    high: float
    n: int


def behaviour_rates(utterances: Sequence[frozenset[Behaviour]]) -> dict[str, BehaviourRate]:
    """The rate of each behaviour, from what each utterance shows; empty without utterances."""
    if not utterances:
        return {}
    found: dict[str, BehaviourRate] = {}
    for name in BEHAVIOURS:
        shows = np.array([name in behaviours for behaviours in utterances], dtype=float)
        found[name] = BehaviourRate(float(shows.mean()), *share_interval(shows), len(shows))
    return found


def dialogue_behaviour_rates(dialogues: Sequence[SpokenDialogue]) -> dict[str, BehaviourRate]:
    """The rate of each behaviour in dialogues."""
    texts = (([(said.role, said.content or "") for said in one.messages], one.language) for one in dialogues)
    return behaviour_rates(
        [behaviours for messages, language in texts for behaviours in detect_behaviours(messages, language)]
    )
