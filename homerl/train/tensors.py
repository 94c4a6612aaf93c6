"""From rollouts to the tensors of the loss, and back to micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from homerl.train.rollout import Rollout

Part = tuple[Rollout, Sequence[float]]  # a rollout and the credit of its steps


def ledgers(rollouts: Sequence[Rollout]) -> dict[str, list]:
    """What TRL asks of a rollout function: prompts and completions as ids, and what was sampled of them."""
    records = [rollout.ledger for rollout in rollouts]
    return {
        "prompt_ids": [ledger.ids[: ledger.prompt_length] for ledger in records],
        "completion_ids": [ledger.ids[ledger.prompt_length :] for ledger in records],
        "logprobs": [ledger.logprobs[ledger.prompt_length :] for ledger in records],
        "env_mask": [ledger.mask[ledger.prompt_length :] for ledger in records],
    }


def token_advantages(parts: Sequence[Part], completion_ids: torch.Tensor) -> torch.Tensor:
    """(batch, tokens) advantages: each step's credit on its sampled tokens, 0 elsewhere.

    A sample that a failing world never answered is the last span and has no step, so no credit; the steps of a shared
    prefix lie in the prompt.
    """
    advantages = torch.zeros(completion_ids.shape, dtype=torch.float32, device=completion_ids.device)
    for row, (rollout, values) in enumerate(parts):
        ledger = rollout.ledger
        own = slice(ledger.shared, None)
        for value, (start, end) in zip(values[own], ledger.spans[own], strict=False):
            advantages[row, start - ledger.prompt_length : end - ledger.prompt_length] = value
    return advantages


def staleness(parts: Sequence[Part], completion_ids: torch.Tensor, update: int) -> torch.Tensor:
    """(batch, tokens) updates between the weights that sampled a token and those being trained; 0 where none was."""
    ages = torch.zeros(completion_ids.shape, dtype=torch.long, device=completion_ids.device)
    for row, (rollout, _) in enumerate(parts):
        versions = torch.tensor(rollout.ledger.versions[rollout.ledger.prompt_length :], device=ages.device)
        ages[row, : len(versions)] = torch.where(versions >= 0, update - versions, 0)
    return ages


def truncated_ratios(trained: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor, cap: float) -> torch.Tensor:
    """min(π_trainer / π_sampler, cap) by token, 1 where nothing was sampled (truncated importance sampling).

    E_sampler[ratio · f] = E_trainer[f]; the cap bounds the variance, at the price of a bias on the tokens it cuts. A
    log-probability that the sampler could not tell (NaN) is taken for the trainer's.
    """
    gap = torch.nan_to_num((trained - sampled) * mask, nan=0.0)
    return torch.exp(gap).clamp(max=cap)


def trimmed(inputs: dict[str, Any]) -> dict[str, Any]:
    """A micro-batch without the columns that are padding in all of its rows (TRL pads to the whole batch's longest)."""
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
