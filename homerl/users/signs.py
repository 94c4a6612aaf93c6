"""Which behaviours the utterances of a dialogue show, judged from its words alone.

The same rules judge a simulated user and a dataset of people, so their rates can be compared.

- disclosure: an utterance adds to a wish that was told before. It answers a question by more than yes or no, or begins like
  an addition.
- self_correction: within one utterance, something named is taken back and named anew.
- change_of_mind: an utterance after the first replaces what was asked before. Correcting the assistant counts too, since
  words alone do not tell the two apart.
- beside_the_point: an utterance after a question, upon which the assistant asks the same again. What replaces a wish is a
  change of mind all the same.

Invariants: pure; an utterance shows at most one behaviour of the first three.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from homerl.language.manner import BehaviourSigns, manner
from homerl.play.course import BEHAVIOURS, Behaviour
from homerl.play.messages import words_of

Messages = Sequence[tuple[str, str]]  # (role, text), roles `user` and `assistant`
TOKEN = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
SAME = 0.5  # share of the words of a question that it has in common with the one before it


def shown(messages: Messages, language: str) -> list[frozenset[Behaviour]]:
    """The behaviours of each utterance of the user, in order."""
    signs = manner(language).signs
    spoken = [(role, text) for role, text in messages if role in ("user", "assistant") and text.strip()]
    return [_of(spoken, at, signs) for at, (role, _) in enumerate(spoken) if role == "user"]


def _of(spoken: Messages, at: int, signs: BehaviourSigns) -> frozenset[Behaviour]:
    text = spoken[at][1].strip()
    asked, first = _asks(spoken, at - 1), not any(role == "user" for role, _ in spoken[:at])
    asks = re.search(signs.asks, text, re.I)
    if not (first or asks) and re.search(signs.changes, text, re.I):
        return frozenset({"change_of_mind"})
    if asked and _asks(spoken, at + 1) and _similar(spoken[at - 1][1], spoken[at + 1][1]):
        return frozenset({"beside_the_point"})
    if re.search(signs.corrects, text, re.I):
        return frozenset({"self_correction"})
    adds = not first and re.search(signs.adds, text, re.I)
    if adds or (asked and not asks and not re.fullmatch(signs.agrees, text, re.I)):
        return frozenset({"disclosure"})
    return frozenset()


def _asks(spoken: Messages, at: int) -> bool:
    """Whether the message at this index is a question of the assistant; an offer of help is none."""
    if not 0 <= at < len(spoken) or spoken[at][0] != "assistant":
        return False
    return words_of({"role": "assistant", "content": spoken[at][1]}).question


def _similar(one: str, other: str) -> bool:
    first, second = (set(TOKEN.findall(text.lower())) for text in (one, other))
    return len(first & second) >= SAME * max(1, min(len(first), len(second)))


@dataclass(frozen=True)
class Detection:
    """How well the rules find a behaviour: utterances found rightly, found wrongly, and missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float | None:
        """The share of what was found that is right; None if nothing was found."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """The share of what is there that was found; None if there is nothing."""
        return self.right / (self.right + self.missed) if self.right + self.missed else None


def detections(pairs: Sequence[tuple[frozenset[Behaviour], frozenset[Behaviour]]]) -> dict[str, Detection]:
    """The detection of each behaviour, from (found, labelled) pairs, one for each utterance."""
    return {
        name: Detection(
            sum(name in found and name in labels for found, labels in pairs),
            sum(name in found and name not in labels for found, labels in pairs),
            sum(name not in found and name in labels for found, labels in pairs),
        )
        for name in BEHAVIOURS
    }
