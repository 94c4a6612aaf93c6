"""Evaluates the policy on held-out blueprints during training, and keeps the best model.

Invariants:
- Every evaluation plays the same episodes. They are split evenly over the ranks.
- An evaluation changes nothing that training depends on.
- The best model is the one that succeeds in the most of the held-out episodes. An episode that was left out is no success,
  so a figure of fewer episodes is not higher for what is missing.
- `best/` is written completely or not at all. Its `score.json` names the update that the model is from. The first rank alone
  reads it, so that all ranks compare with the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from homerl.host.terminal import say
from homerl.train.data.rollout import RolloutPlayer, make_blueprint_cache
from homerl.train.data.rollout_batches import RankContext, Run, episode_metrics, hash_seed, summarise_rollout, world_metrics
from homerl.train.recipe import RLVERecipe
from homerl.train.training_setup import replace_best_model

KEPT = ("success", "episode/progress", "episode/turns", "episode/steps", "episode/tool_calls", "episode/sampled_tokens")


class HeldOutEvaluation:
    """Evaluates the policy in training: `is_evaluation_due` tells when, `play_held_out` measures, and
    `keep_best_model` saves the best one.
    """

    def __init__(self, recipe: RLVERecipe, player: RolloutPlayer, ranks: RankContext) -> None:
        self.recipe, self.settings, self.player, self.ranks = recipe, recipe.evaluation, player, ranks
        self.folder = recipe.out / "best"
        score, best = self.folder / "score.json", (-1.0, 1.0)
        if ranks.rank == 0 and score.is_file():  # other machines may lack the folder
            stored = json.loads(score.read_text())
            best = (float(stored["success"]), float(stored.get("eval/counted", 1.0)))
        [(self.best, self.best_counted), *_] = ranks.gather([best] if ranks.rank == 0 else [])

    def is_evaluation_due(self, update: int) -> bool:
        """Whether the policy is evaluated at this update."""
        return self.settings.every is not None and update % self.settings.every == 0

    def play_held_out(self, run: Run) -> dict[str, float]:
        """Play the held-out blueprints and return the metrics over all ranks, named `eval/...`. `run` runs a coroutine."""
        blueprint_recipe = self.settings.recipe or self.recipe.blueprints.recipe
        seeds = range(self.settings.first_seed, self.settings.first_seed + self.settings.count)
        mine = list(seeds)[self.ranks.rank :: self.ranks.world_size]
        blueprints = [*map(make_blueprint_cache(blueprint_recipe, self.recipe.user.behaviours, "heldout"), mine)]
        played = run(self.player.play_concurrently(blueprints, [hash_seed(self.recipe.seed, -1, seed) for seed in mine]))
        rows = self.ranks.gather([summarise_rollout(*pair) for pair in zip(played, mine, strict=True)])
        counted = [row for row in rows if row["played"].counts]
        metrics = episode_metrics(counted) if counted else {}
        kept = {name: metrics[name] for name in KEPT if metrics} | world_metrics(counted, blueprint_recipe)
        return {f"eval/{name}": value for name, value in kept.items()} | {"eval/counted": len(counted) / len(rows)}

    def keep_best_model(self, update: int, metrics: dict[str, float], save: Callable[[str], None]) -> bool:
        """Save the model if it succeeds in more of the held-out episodes than any before, and return whether it does.

        All ranks agree on this. The first says it if fewer episodes count than in the evaluation of the best model.
        """
        success, counted = metrics.get("eval/success", -1.0), metrics.get("eval/counted", 1.0)  # -1 if none counts
        better = success >= 0 and success * counted > self.best * self.best_counted
        if counted < self.best_counted and self.ranks.rank == 0:
            fewer, played = (f"{share * self.settings.count:.0f}" for share in (counted, self.best_counted))
            kept = "is better all the same" if better else "is not called better than the best one"
            say(f"evaluation {update}: {fewer} of {self.settings.count} episodes count, {played} did for the best model;")
            say(f"the others are no successes, and the model (success {success:.1%} of those that count) {kept}")
        if not better:
            return False
        self.best, self.best_counted = success, counted
        replace_best_model(self.folder, {"update": update, "success": self.best} | metrics, save, self.ranks.rank == 0)
        return True
