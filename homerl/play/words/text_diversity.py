"""Diversity of texts: distinct texts, distinct n-grams, self-BLEU.

Invariant: it keeps hashes, not texts, except for a uniform sample.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

SAMPLE = 200  # number of texts that self-BLEU compares
TOKENS = re.compile(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+(?:'[a-z]+)?")


class TextDiversity:
    """Measures the diversity of a stream of texts; keeps hashes, and a uniform sample of texts for self-BLEU."""

    def __init__(self, rng: random.Random, sample: int = SAMPLE) -> None:
        self.rng, self.sample = rng, sample
        self.texts, self.seen, self.lengths = 0, set[int](), 0
        self.grams: tuple[set[int], ...] = (set(), set(), set())
        self.totals = [0, 0, 0]
        self.kept: list[str] = []

    def add_text(self, text: str) -> None:
        """Count one text."""
        tokens = TOKENS.findall(text)
        self.texts += 1
        self.seen.add(hash(text))
        self.lengths += len(tokens)
        for n, known in enumerate(self.grams, 1):
            known.update(map(hash, zip(*(tokens[i:] for i in range(n)))))
            self.totals[n - 1] += max(0, len(tokens) - n + 1)
        # `kept` is a uniform sample of the stream of texts (Vitter's algorithm R).
        if len(self.kept) < self.sample:
            self.kept.append(text)
        elif (at := self.rng.randrange(self.texts)) < self.sample:
            self.kept[at] = text

    def diversity_figures(self) -> dict[str, Any]:
        """Counts of texts and words, shares of distinct n-grams (n = 1, 2, 3), mean length in tokens, and self-BLEU."""
        shares = [len(known) / max(1, total) for known, total in zip(self.grams, self.totals)]
        counts = {"utterances": self.texts, "distinct": len(self.seen), "words": len(self.grams[0])}
        distinct = {f"distinct_{n}": share for n, share in enumerate(shares, 1)}
        means = {"mean_length": self.lengths / max(1, self.texts), "self_bleu": self_bleu(self.kept)}
        return {**counts, **distinct, **means}


def self_bleu(texts: Sequence[str]) -> float:
    """The mean BLEU of each text against all others, in [0, 1]; 1 if all are alike (Zhu et al. 2018, Texygen).

    It is 0 for fewer than two texts. The time grows with the square of the number of texts.
    """
    from sacrebleu.metrics.bleu import BLEU

    if len(texts) < 2:
        return 0.0
    bleu = BLEU(tokenize="none", effective_order=True, smooth_method="exp")
    split = [" ".join(TOKENS.findall(text)) for text in texts]
    scores = [bleu.sentence_score(text, [*split[:i], *split[i + 1 :]]).score for i, text in enumerate(split)]
    return sum(scores) / len(scores) / 100
