"""Names for the tensors and arrays that an update on rollouts passes on, by shape and number format.

The names are for readers: no type checker tells one shape from another. Nothing here imports torch at run time, since credit
modes and losses are read when a recipe is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

# `tokens` are the sampled tokens of some rollouts, one rollout after the other
TokenValues: TypeAlias = "Tensor"  # float32, (tokens,): one number for each token
TokenLogps: TypeAlias = "Tensor"  # float32, (tokens,): natural logarithms of probabilities
TokenFlags: TypeAlias = "Tensor"  # bool, (tokens,)
TokenRollouts: TypeAlias = "Tensor"  # int64, (tokens,): the number of each token's rollout, from 0
ScalarLoss: TypeAlias = "Tensor"  # float32, (): with gradients where a pass returns it
SumVector: TypeAlias = "Tensor"  # float32, (sums,): what an objective counts, which ranks add up in one exchange

# `targets` are the tokens of some sequences that are predicted with a loss, one sequence after the other
TargetValues: TypeAlias = "Tensor"  # (targets,), in the number format of the head
Ids: TypeAlias = np.ndarray  # int64, (length,): token ids of one sequence
Indices: TypeAlias = np.ndarray  # int64, (count,)
