"""Prints the numbers of the first story of docs/walkthrough.md: one update of step-wise RLVE, stage by stage.

    homerl run scripts/walkthrough/update.yaml             # writes runs/walkthrough: dialogues, a model, its update
    python scripts/walkthrough/update.py runs/walkthrough  # makes the same update again, and prints what passes

Invariant: the update is the one of the run. Functions of homerl are wrapped to print what they return, and never changed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import torch

from homerl.app.runs.recipe import load_recipe
from homerl.train.data.rollout_batches import RolloutSupply
from homerl.train.engines.transformers import InPlace
from homerl.train.packing import packed_updates
from homerl.train.packing.packed_updates import PackedUpdates
from homerl.train.update import rlve
from homerl.train.update.objective import ObjectiveSums, RolloutObjective


def tell_result(owner: Any, name: str, tell: Callable[..., None]) -> None:
    """Wrap a function of `owner`: `tell` hears its result, and then what it was given."""
    inner = getattr(owner, name)

    @wraps(inner)
    def outer(*given: Any, **named: Any) -> Any:
        result = inner(*given, **named)
        tell(result, *given)
        return result

    setattr(owner, name, outer)


def tell_batch(batch: Any, *_: Any) -> None:
    """The rollouts of the update, with their rewards and advantages by step."""
    print(f"finish_batch: {len(batch.rows)} rollouts")
    for (rollout, credit), row in zip(batch.own_rollouts(), batch.rows, strict=True):
        ledger, outcome = rollout.ledger, rollout.trajectory.outcome
        rewards = [round(reward, 3) for reward in rollout.rewards_by_step]
        print(
            f"  seed {row['seed']} {outcome} rewards {rewards} advantages {[round(one, 3) for one in credit]} "
            f"prompt {ledger.prompt_length} tokens {len(ledger.ids)} spans {ledger.spans} targets {sum(ledger.mask)}"
        )
        print("   ", [message["content"] or message["tool_calls"] for message in rollout.trajectory.messages[1:]])


def tell_tokens(tokens: Any, *_: Any) -> None:
    """The arrays by token."""
    print(f"collect_sampled_tokens: {len(tokens.sequences)} sequences, lengths {[len(one.ids) for one in tokens.sequences]}")
    for name in ("starts", "advantages", "logps", "versions"):
        array = getattr(tokens, name)
        print(f"  {name} {array.shape} {array.dtype} {array[:9].round(3).tolist()}")


def tell_row(row: Any, *_: Any) -> None:
    """A packed row."""
    print(f"pack_row: input_ids {tuple(row.inputs['input_ids'].shape)}, at {tuple(row.at.shape)}")


def tell_pass(result: Any, objective: Any, *_: Any) -> None:
    """What the objective returns for a pass."""
    print(f"RolloutObjective: weights {sorted(set(objective.weights.tolist()))}")
    sums = ObjectiveSums(*result[1].tolist())
    gap = sums.logp_gap / sums.fresh
    print(f"  loss {result[0].item():.6f}, {sums.tokens:.0f} tokens, trainer and sampler differ by {gap:.1e}")


def tell_sync(_: None, engine: InPlace, version: int) -> None:
    """The weights that the sampler gets."""
    name, weight = max(engine.model.named_parameters(), key=lambda named: named[1].numel())
    print(f"sync {version}: {name} {tuple(weight.shape)}, norm {weight.norm().item():.6f}")


def main() -> None:
    """Make the update again."""
    found = load_recipe(Path(sys.argv[1]) / "rlve" / "rlve.yaml")
    tell_result(RolloutSupply, "finish_batch", tell_batch)
    tell_result(rlve, "collect_sampled_tokens", tell_tokens)
    tell_result(packed_updates, "pack_row", tell_row)
    tell_result(RolloutObjective, "__call__", tell_pass)
    tell_result(InPlace, "sync", tell_sync)
    with tempfile.TemporaryDirectory() as folder:
        recipe = found.model_copy(update={"out": Path(folder)})
        trained: dict[str, torch.Tensor] = {}

        def tell_update(result: Any, _: Any, model: Any, *__: Any) -> None:
            print(f"train_on_sequences: loss {result[0].item():.6f}")
            norm = sum(float(one.grad.norm()) ** 2 for one in model.parameters() if one.grad is not None) ** 0.5
            trained.update({name: one.detach().clone() for name, one in model.named_parameters()})
            print(f"  norm of the gradients {norm:.4f}, of {sum(one.numel() for one in trained.values()):,} weights")

        def tell_end(_: Any, trainer: Any, *__: Any) -> None:
            after = dict(trainer.model.named_parameters())
            gaps = {name: (after[name].detach() - one).abs() for name, one in trained.items()}
            changed = sum(int((gap > 0).sum()) for gap in gaps.values())
            print(f"weights changed: {changed:,}, by at most {max(gap.max().item() for gap in gaps.values()):.2e}")

        tell_result(PackedUpdates, "train_on_sequences", tell_update)
        tell_result(rlve, "train_and_save_model", tell_end)
        rlve.train_rlve(recipe)


if __name__ == "__main__":
    main()
