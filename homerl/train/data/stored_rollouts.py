"""Rollouts with their tokens as files: what one run has played, another one trains on, to debug one without the other.

Each group that was played has a file, named by its number in the run and by how often it was replaced. With the same seed,
blueprints and sizes a run draws the same groups, so that it finds each of them.

Invariants:
- A file is whole or not there, and a rollout is read as it was written: tokens, log-probabilities, masks and versions.
- The rewards are computed anew with the recipe's weights.
- A file says by digests which weights played, as far as these are known. What other weights have played than this run has in
  the same update is of version -1, as what a server has played.
- A group of another blueprint or seed than the run draws is refused.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.models.policy.policy_agent import TokenLedger
from homerl.play.replay import add_step_rewards
from homerl.play.trajectory import (
    Trajectory,
    locate_row_errors,
    read_rows,
    trajectory_from_row,
    trajectory_to_row,
    uniform_rows,
    write_rows,
)
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import Rollout


def _group_file(run: Path, number: int, replaced: int) -> Path:
    return run / f"rollouts/tokens/group_{number:07d}_{replaced}.jsonl"


Digests = Mapping[int, str]  # of a model's weights, by their version


def write_group(run: Path, number: int, replaced: int, rollouts: Sequence[Rollout], digests: Digests) -> None:
    """Write the rollouts of a group to the folder of a run."""
    path = _group_file(run, number, replaced)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(path, (_rollout_to_row(rollout, digests) for rollout in rollouts))


def write_update_rollouts(run: Path, update: int, trajectories: Sequence[Trajectory]) -> None:
    """Write the trajectories of an update, without tokens, to the folder of a run."""
    folder = run / "rollouts"
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / f"update_{update:06d}.jsonl", uniform_rows(lambda: map(trajectory_to_row, trajectories)))


def _rollout_to_row(rollout: Rollout, digests: Digests) -> dict[str, Any]:
    """A rollout as plain data. `others` is there only where a program had other dialogues beside the first, and `weights`
    only where they are known.
    """
    others = [_ledger_to_row(ledger) for ledger in rollout.others]
    row = {"trajectory": trajectory_to_row(rollout.trajectory), "ledger": _ledger_to_row(rollout.ledger)}
    sampled = sorted({version for ledger in rollout.ledgers for version in ledger.versions} & digests.keys())
    weights = {str(version): digests[version] for version in sampled}
    return row | ({"others": others} if others else {}) | ({"weights": weights} if weights else {})


def _ledger_to_row(ledger: TokenLedger) -> dict[str, Any]:
    """A ledger as plain data; JSON has no number for a log-probability that is not known."""
    row = asdict(ledger) | {"logprobs": [None if math.isnan(value) else value for value in ledger.logprobs]}
    return {name: value for name, value in row.items() if name != "steps" or value}  # a program's alone; files are older


def _ledger_from_row(row: Mapping[str, Any], others: Container[int]) -> TokenLedger:
    """A ledger; the versions in `others` are of other weights than this run's."""
    spans = {name: [(start, end) for start, end in row[name]] for name in ("spans", "truncated")}
    logprobs = [math.nan if value is None else value for value in row["logprobs"]]
    versions = [-1 if version in others else version for version in row["versions"]]
    return TokenLedger(**{**row, **spans, "logprobs": logprobs, "versions": versions})


def read_group(
    run: Path,
    number: int,
    replaced: int,
    blueprint: Any,
    seeds: Sequence[int],
    weights: RewardWeights,
    digests: Digests,
) -> list[Rollout]:
    """Read the rollouts of a group of a run, which are of this blueprint and have these seeds. `digests` are of the weights
    of the run that reads.

    Raises `InputError` if the group was not stored, or is another one.
    """
    path = _group_file(run, number, replaced)
    if not path.is_file():
        what = f"group {number} was not played there" + (f" as replacement {replaced}" if replaced else "")
        raise InputError(what, str(path), "train with the recipe that played: its seed, blueprints, rewards and sizes")
    rollouts = []
    for at, row in enumerate(read_rows(path), 1):
        with locate_row_errors(f"{path}:{at}"):
            trajectory = trajectory_from_row(row["trajectory"])
            played = {int(version): digest for version, digest in row.get("weights", {}).items()}  # older files have none
            foreign = {version for version in played.keys() & digests.keys() if played[version] != digests[version]}
            ledger, *others = (_ledger_from_row(one, foreign) for one in [row["ledger"], *row.get("others", ())])
            rollouts.append(Rollout(add_step_rewards(trajectory, weights), ledger, tuple(others)))
    found = [rollout.trajectory.seed for rollout in rollouts]
    same = all(rollout.trajectory.blueprint == blueprint.model_dump(mode="json") for rollout in rollouts)
    if found != list(seeds) or not same:
        what = f"group {number} is of another {'seed' if same else 'blueprint'} than this run draws"
        raise InputError(what, str(path), "train with the recipe that played: its seed, blueprints and sizes")
    return rollouts
