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

from homerl.play.course import Behaviour
from homerl.play.messages import spoken_words_of
from homerl.play.words.manner import BehaviourSigns, load_manner

Messages = Sequence[tuple[str, str]]  # (role, text), roles `user` and `assistant`
WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")  # a Chinese character counts as a word
SAME = 0.5  # share of the words of a question that it has in common with the one before it


def detect_behaviours(messages: Messages, language: str) -> list[frozenset[Behaviour]]:
    """The behaviours of each utterance of the user, in order."""
    signs = load_manner(language).signs
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
    return spoken_words_of({"role": "assistant", "content": spoken[at][1]}).question


def _similar(one: str, other: str) -> bool:
    first, second = (set(WORD.findall(text.lower())) for text in (one, other))
    return len(first & second) >= SAME * max(1, min(len(first), len(second)))
