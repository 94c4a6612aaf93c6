"""Find phrases that name one of several things in a text, and tell whether the text denies them.

Invariants: pure; longer phrases match first, and matches do not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from homerl.play.words import signs
from homerl.play.words.numbers import blank_matches


@dataclass(frozen=True)
class Mention:
    """A phrase in the text that names expected items or distractors.

    `owners` are the indices of the expected items that the phrase can name, with -1 for a distractor. `denied` says whether
    the text negates it, `sentence` is the index of its sentence, and `start` its position.
    """

    owners: frozenset[int]
    denied: bool
    sentence: int
    start: int


def find_mentions(
    text: str, accepted: Sequence[Sequence[str]], distractors: Sequence[str], closely: bool = False
) -> list[Mention]:
    """All mentions of the accepted phrases and the distractors. Longer phrases match first, and matches do not overlap."""
    ways: dict[str, set[int]] = {}
    for index, group in enumerate(accepted):
        for way in group:
            ways.setdefault(way.lower(), set()).add(index)
    for way in distractors:
        ways.setdefault(way.lower(), set()).add(-1)
    mentions: list[Mention] = []
    spans = list(_sentences(text))
    for way in sorted(filter(None, ways), key=len, reverse=True):
        for place in re.finditer(phrase_pattern(way), text):
            at, denied = _place(text, spans, place.start(), closely)
            mentions.append(Mention(frozenset(ways[way]), denied, at, place.start()))
        text = blank_matches(text, re.compile(phrase_pattern(way)))
    return sorted(mentions, key=lambda mention: mention.start)


def phrase_pattern(way: str) -> str:
    """The regular expression of a phrase as whole words, or their plural, where its ends are ASCII.

    A single Chinese sign is no phrase where it names a quantity: 浓 in 浓度.
    """
    left = r"(?<![a-z0-9])" if way[0].isascii() else ""
    right = r"(?:e?s)?(?![a-z0-9])" if way[-1].isascii() else "(?!度)" if len(way) == 1 else ""
    return left + r"[\s_-]+".join(map(re.escape, way.split())) + right


def _sentences(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether the sentence is negated); an exception ("except ...") is a sentence of its own."""
    start = 0
    for cut in [*signs.SENTENCE.finditer(text), None]:
        end = cut.start() if cut else len(text)
        part = text[start:end]
        if (turn := signs.EXCEPT.search(part)) and turn.start() > 0:
            yield start, start + turn.start(), bool(signs.NEGATION.search(part[: turn.start()]))
            yield start + turn.start(), end, False
        else:
            yield start, end, bool(signs.NEGATION.search(part))
        start = cut.end() if cut else end


def _place(text: str, spans: Sequence[tuple[int, int, bool]], at: int, closely: bool) -> tuple[int, bool]:
    """(index of the sentence, whether it is negated). With `closely`, only a negation earlier in the same clause counts."""
    index, (start, _, denied) = next((i, span) for i, span in reversed(list(enumerate(spans))) if span[0] <= at)
    if closely:
        clause = signs.PAUSE.split(text[start:at])[-1]
        denied = bool(signs.NEGATION.search(clause))
    return index, denied


def deny_by_clause(mentions: Sequence[Mention], text: str) -> list[Mention]:
    """The mentions, denied only if the negation of their sentence stands between the same commas."""
    spans = list(_sentences(text))
    found = []
    for mention in mentions:
        start, end, _ = spans[mention.sentence]
        clause = signs.PAUSE.split(text[start : mention.start])[-1] + signs.PAUSE.split(text[mention.start : end])[0]
        found.append(replace(mention, denied=mention.denied and bool(signs.NEGATION.search(clause))))
    return found
