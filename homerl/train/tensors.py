"""Converts rollouts to the tensors of the loss, and prepares micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from homerl.train.rollout import Rollout

Part = tuple[Rollout, Sequence[float]]  # a rollout and the credit of its steps


def ledgers(rollouts: Sequence[Rollout]) -> dict[str, list]:
    """The result of a TRL rollout function: prompts and completions as token ids, log-probabilities, and the mask of
    sampled ids.
    """
    records = [rollout.ledger for rollout in rollouts]
    return {
        "prompt_ids": [ledger.ids[: ledger.prompt_length] for ledger in records],
        "completion_ids": [ledger.ids[ledger.prompt_length :] for ledger in records],
        "logprobs": [ledger.logprobs[ledger.prompt_length :] for ledger in records],
        "env_mask": [ledger.mask[ledger.prompt_length :] for ledger in records],
    }


def token_advantages(parts: Sequence[Part], completion_ids: torch.Tensor) -> torch.Tensor:
    """Advantages of shape (batch, tokens): the credit of a step on each of its sampled tokens, 0 elsewhere.

    If the world failed after a sample, that last span has no step and so no credit. The steps of a shared prefix are
    part of the prompt.
    """
    advantages = torch.zeros(completion_ids.shape, dtype=torch.float32, device=completion_ids.device)
    for row, (rollout, values) in enumerate(parts):
        ledger = rollout.ledger
        own = slice(ledger.shared, None)
        for value, (start, end) in zip(values[own], ledger.spans[own], strict=False):
            advantages[row, start - ledger.prompt_length : end - ledger.prompt_length] = value
    return advantages


def staleness(parts: Sequence[Part], completion_ids: torch.Tensor, update: int) -> torch.Tensor:
    """Ages of shape (batch, tokens): updates between the sampling weights of a token and `update`; 0 for other tokens."""
    ages = torch.zeros(completion_ids.shape, dtype=torch.long, device=completion_ids.device)
    for row, (rollout, _) in enumerate(parts):
        versions = torch.tensor(rollout.ledger.versions[rollout.ledger.prompt_length :], device=ages.device)
        ages[row, : len(versions)] = torch.where(versions >= 0, update - versions, 0)
    return ages


def truncated_ratios(trained: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor, cap: float) -> torch.Tensor:
    """min(π_trainer / π_sampler, cap) for each token, 1 where nothing was sampled (truncated importance sampling).

    E_sampler[ratio · f] = E_trainer[f]. The cap bounds the variance; it biases the tokens that it truncates. If the
    sampler could not tell a log-probability (NaN), the ratio is 1.
    """
    gap = torch.nan_to_num((trained - sampled) * mask, nan=0.0)
    return torch.exp(gap).clamp(max=cap)


def trimmed(inputs: dict[str, Any]) -> dict[str, Any]:
    """A micro-batch without the columns that are padding in all of its rows. TRL pads to the longest row of the whole
    batch.
    """
    columns = inputs["completion_ids"].shape[1]
    prompt_start = int(inputs["prompt_mask"].any(0).int().argmax())
    longest = max(1, int(inputs["completion_mask"].sum(1).max()))
    return {
        key: value[:, prompt_start:]
        if key in ("prompt_ids", "prompt_mask")
        else value[:, :longest]
        if torch.is_tensor(value) and value.dim() == 2 and value.shape[1] == columns
        else value
        for key, value in inputs.items()
    }
