"""Converts rollouts to the arrays of the loss: the sampled tokens of an update, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from homerl.train.data.rollout import Rollout
from homerl.train.rows.rows import TokenSequence

Part = tuple[Rollout, Sequence[float]]  # a rollout and the credit of its steps


@dataclass(frozen=True)
class SampledTokens:
    """The sampled tokens of a rank's rollouts, in their order; arrays of shape (tokens,).

    `sequences` are the rollouts up to their last sampled token. `starts` (rollouts + 1,) are the bounds of each rollout's
    tokens in the arrays. `advantages` are the credits of their steps, `logps` the sampler's log-probabilities (NaN if it
    could not tell one), and `versions` the updates whose weights sampled them.
    """

    sequences: tuple[TokenSequence, ...]
    starts: np.ndarray
    advantages: np.ndarray
    logps: np.ndarray
    versions: np.ndarray

    @property
    def rollout_lengths(self) -> list[int]:
        """The number of sampled tokens of each rollout."""
        return [int(count) for count in np.diff(self.starts)]

    def token_indices(self, members: Sequence[int]) -> np.ndarray:
        """The indices in the arrays of the tokens of some rollouts."""
        return np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in members] or [np.zeros(0, int)])


def collect_sampled_tokens(parts: Sequence[Part]) -> SampledTokens:
    """The sampled tokens of rollouts, with the credit of their steps.

    If the world failed after a sample, that last span has no step and so no credit. The expert's steps at
    the start were not sampled.
    """
    sequences, advantages, logps, versions = [], [], [], []
    for rollout, values in parts:
        ledger = rollout.ledger
        targets = np.flatnonzero(ledger.mask)
        credit = np.zeros(len(ledger.ids))
        own = slice(ledger.shared, None)
        for value, (start, end) in zip(values[own], ledger.spans[own], strict=False):
            credit[start:end] = value
        end = targets[-1] + 1 if len(targets) else 0
        sequences.append(TokenSequence.from_ids(ledger.ids[:end], targets))
        advantages.append(credit[targets])
        logps.append(np.asarray(ledger.logprobs)[targets])
        versions.append(np.asarray(ledger.versions)[targets])
    starts = np.cumsum([0, *(len(sequence.targets) for sequence in sequences)])
    return SampledTokens(
        tuple(sequences), starts, np.concatenate(advantages), np.concatenate(logps), np.concatenate(versions)
    )
