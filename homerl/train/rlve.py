"""Step-wise RLVE: GRPO on live dialogues with a reward at every step (HomeFlow 3.4.2), on TRL's GRPOTrainer.

Invariants: advantages fall on sampled tokens alone, each on the step that earned it; nothing sampled is
tokenised again; groups are formed over all ranks; sampling is seeded by update and rank, so a resumed run
samples what an unbroken one would.
Departs from GRPO: `credit: step` normalises returns-to-go over a group's steps in place of one return a
rollout. Departs from HomeFlow: the policy is not conditioned on Φ, which would leak the answer.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer

from envs.documents import InputError
from homerl.agents.policy import TransformersEngine
from homerl.recipe import BlueprintSource, RLVERecipe
from homerl.train.common import (
    common_arguments,
    fit,
    is_adapter,
    load_policy,
    load_tokenizer,
    peft_config,
    require,
)  # fmt: skip
from homerl.train.credit import assign, last_step_only, step_credit, trajectory_credit
from homerl.train.parallel import world_size
from homerl.train.rollout import Player, Rollout, blueprint_of
from homerl.train.sentinel import Sentinel, UpdateSignal
from homerl.train.transcripts import log_transcripts
from homerl.trajectory import to_row, write_rows
from homerl.users.make import user_factory
from rewards.composite import PARTS


def train_rlve(recipe: RLVERecipe) -> Path:
    """Train and return the folder of the final model."""
    from datasets import Dataset

    if recipe.model.name is None:
        raise InputError("RLVE starts from a trained model", where="model.from_scratch", remedy="give `model.name`")
    sharded = recipe.parallel in ("zero3", "fsdp2")
    require(
        not (sharded and is_adapter(recipe.model.name) and recipe.rlve.kl and recipe.model.lora is None),
        f"a merged adapter cannot be the KL reference under {recipe.parallel}", "parallel",
        "train with `parallel: zero2` or `model.lora`, or start from an export, which is merged",
    )  # fmt: skip
    tokenizer = load_tokenizer(recipe.model.name)
    seeds = blueprint_order(recipe.blueprints, recipe.rlve.updates * recipe.rlve.blueprints_per_update, recipe.seed)
    with user_factory(recipe.user, recipe.out / "user_server.log") as make_user:
        engine = TransformersEngine(None, tokenizer, recipe.rlve.max_tokens, recipe.rlve.temperature)
        player = Player(engine, tokenizer, make_user, recipe.limits, recipe.rewards, recipe.rlve.max_episode_tokens)
        trainer = RLVETrainer(
            recipe,
            player,
            model=load_policy(recipe.model, recipe.model.name),
            args=grpo_arguments(recipe),
            train_dataset=Dataset.from_dict({"prompt": list(map(str, seeds))}),
            processing_class=tokenizer,
            peft_config=peft_config(recipe.model),
        )
        return fit(trainer, tokenizer, recipe.out)


def grpo_arguments(recipe: RLVERecipe) -> GRPOConfig:
    """TRL's arguments for one optimizer update a rollout batch (times `iterations`)."""
    settings, processes = recipe.rlve, world_size()
    total = settings.blueprints_per_update * settings.group
    if total % (processes * settings.batch):
        raise InputError(
            f"{settings.blueprints_per_update} blueprints x group {settings.group} = {total} rollouts do not divide "
            f"over {processes} processes x batch {settings.batch}",
            where="rlve.blueprints_per_update", remedy="change rlve.batch, rlve.group or the number of processes",
        )  # fmt: skip
    accumulate = total // (processes * settings.batch)
    shared = common_arguments(recipe, settings) | {
        "gradient_accumulation_steps": accumulate,
        "save_steps": settings.save_steps * settings.iterations,  # a resumed run begins with fresh rollouts
    }
    return GRPOConfig(
        **shared,
        max_steps=settings.updates * settings.iterations,
        num_generations=settings.group,
        num_iterations=settings.iterations,
        steps_per_generation=accumulate,
        max_completion_length=settings.max_episode_tokens,
        temperature=settings.temperature,
        top_p=1.0,
        top_k=0,
        beta=settings.kl,
        entropy_coef=settings.entropy,
        epsilon=settings.epsilon,
        epsilon_high=settings.epsilon_high,
        loss_type=settings.loss,
        scale_rewards="group",
        mask_truncated_completions=False,
        model_init_kwargs={"dtype": recipe.model.dtype, "attn_implementation": recipe.model.attention},
        shuffle_dataset=False,  # see blueprint_order
    )


def blueprint_order(source: BlueprintSource, needed: int, seed: int) -> list[int]:
    """Seeds for a whole run, pass after pass through the blueprints, each pass in an order of its own.

    Said at once, since a sampler's second order depends on its first, which a resumed run does not draw.
    """
    order: list[int] = []
    for lap in range(-(-needed // source.count)):
        seeds = list(range(source.first_seed, source.first_seed + source.count))
        random.Random(f"blueprints {seed} {lap}").shuffle(seeds)
        order += seeds
    return order[:needed]


def part_rewards() -> list[Any]:
    """One reward function a part, so that TRL logs each; they read what the rollout already computed."""

    def reader(name: str) -> Any:
        def read(reward_parts: Sequence[Mapping[str, float]], **_: Any) -> list[float]:
            return [parts[name] for parts in reward_parts]

        read.__name__ = name
        return read

    return [reader(name) for name in PARTS]


class RLVETrainer(GRPOTrainer):
    """GRPOTrainer whose rollouts are episodes and whose advantages are per step."""

    def __init__(self, recipe: RLVERecipe, player: Player, **kwargs: Any) -> None:
        self.recipe, self.player = recipe, player
        self.blueprint = blueprint_of(recipe.blueprints.recipe)
        self.rollouts: list[Rollout] = []
        self.sentinel = Sentinel(recipe.sentinel)
        self.seen: dict[str, float] = {}
        super().__init__(reward_funcs=part_rewards(), rollout_func=RLVETrainer.roll, **kwargs)
        if self.ref_model is not None and is_adapter(recipe.model.name):  # TRL has loaded what the adapter stands on
            start = self.accelerator.unwrap_model(self.model).state_dict()
            self.accelerator.unwrap_model(self.ref_model).load_state_dict(start)

    @staticmethod
    def roll(prompts: list[str], trainer: RLVETrainer) -> dict[str, list]:
        """TRL's rollout function: play the blueprints that the prompts name and hand over the token ledgers."""
        recipe, update = trainer.recipe, trainer.state.global_step
        rank = trainer.accelerator.process_index
        torch.manual_seed(hash_seed(recipe.seed, update, rank))
        engine = trainer.player.engine
        engine.model, engine.version = trainer.accelerator.unwrap_model(trainer.model_wrapped), update
        blueprints = [trainer.blueprint(int(seed)) for seed in prompts]
        seeds = [hash_seed(recipe.seed, update, rank * len(prompts) + i) for i in range(len(prompts))]
        trainer.rollouts = trainer.player.play(blueprints, seeds)
        ledgers = [rollout.ledger for rollout in trainer.rollouts]
        return {
            "prompt_ids": [ledger.ids[: ledger.prompt_length] for ledger in ledgers],
            "completion_ids": [ledger.ids[ledger.prompt_length :] for ledger in ledgers],
            "logprobs": [ledger.logprobs[ledger.prompt_length :] for ledger in ledgers],
            "env_mask": [ledger.mask[ledger.prompt_length :] for ledger in ledgers],
            "reward_parts": [part_totals(rollout) for rollout in trainer.rollouts],
        }

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        gathered = gather_object([summary(rollout) for rollout in self.rollouts])
        credit = self._credit([row["rewards"] for row in gathered], [row["counts"] for row in gathered])
        start = self.accelerator.process_index * len(self.rollouts)
        mine = credit[start : start + len(self.rollouts)]
        output["advantages"] = spread(mine, self.rollouts, output["completion_ids"])
        self._report(gathered, credit)
        return output

    def _credit(self, rewards: list[list[float]], counts: list[bool]) -> list[list[float]]:
        settings = self.recipe.rlve
        if settings.credit == "trajectory":
            credit = assign(rewards, settings.group, counts, trajectory_credit)
        else:
            credit = assign(
                rewards, settings.group, counts, lambda group: step_credit(group, settings.gamma, settings.baseline)
            )
        return last_step_only(credit) if settings.last_step_only else credit

    def _report(self, gathered: list[dict[str, Any]], credit: list[list[float]]) -> None:
        """Log what the update saw and let the sentinel judge it; the same on every rank."""
        returns = [sum(row["rewards"]) for row in gathered]
        lengths, counts = ([row[key] for row in gathered] for key in ("lengths", "counts"))
        signal = UpdateSignal(credit, lengths, returns, counts, self.recipe.rlve.group)
        metrics = signal.metrics() | episode_metrics(gathered)
        for name, value in (metrics | self.player.user_metrics()).items():
            self._metrics["train"][name].append(value)
        self.sentinel.watch(metrics | self.seen)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> tuple:
        found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if torch.is_grad_enabled():
            self._trained_logps = found[0].detach()
        return found

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        inputs = trimmed(inputs)
        loss = super()._compute_loss(model, inputs)
        mask = inputs["completion_mask"] * inputs["tool_mask"]
        gap = ((self._trained_logps - inputs["sampling_per_token_logps"]).abs() * mask).sum() / mask.sum().clamp(min=1)
        both = self.accelerator.reduce(torch.stack([gap, loss.detach()]), reduction="mean")
        self.seen = {
            "sentinel/logp_gap": both[0].item(),
            "sentinel/loss": both[1].item(),
            "sentinel/entropy": self._metrics["train"]["entropy"][-1],
        }
        self._metrics["train"]["sentinel/logp_gap"].append(self.seen["sentinel/logp_gap"])
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        super().log(logs, start_time)
        if self.accelerator.is_main_process and self.rollouts and "reward" in logs:
            folder = self.recipe.out / "rollouts"
            folder.mkdir(parents=True, exist_ok=True)
            trajectories = [rollout.trajectory for rollout in self.rollouts]
            write_rows(folder / f"update_{self.state.global_step:06d}.jsonl", map(to_row, trajectories))
            if self.recipe.wandb.mode != "disabled" and self.recipe.wandb.transcripts:
                log_transcripts(trajectories, self.state.global_step)


def hash_seed(*parts: int) -> int:
    """A 63-bit seed from integers, the same in every process."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big") >> 1


def part_totals(rollout: Rollout) -> dict[str, float]:
    """Each reward part, summed over the rollout's steps."""
    return {name: sum(parts[name] for parts in rollout.trajectory.rewards) for name in PARTS}


def summary(rollout: Rollout) -> dict[str, Any]:
    """What the other ranks need to know of a rollout."""
    trajectory = rollout.trajectory
    return {
        "rewards": rollout.rewards,
        "parts": [dict(parts) for parts in trajectory.rewards],
        "lengths": [end - start for start, end in rollout.ledger.spans],
        "counts": trajectory.outcome.counts,
        "outcome": str(trajectory.outcome),
        "turns": trajectory.steps[-1].facts.turn if trajectory.steps else 0,
        "tool_calls": trajectory.tool_calls,
    }


def spread(credit: Sequence[Sequence[float]], rollouts: Sequence[Rollout], completion_ids: torch.Tensor) -> torch.Tensor:
    """(batch, tokens) advantages: each step's credit on its sampled tokens, 0 elsewhere.

    A sample that a failing world never answered is the last span and has no step, so no credit.
    """
    advantages = torch.zeros(completion_ids.shape, dtype=torch.float32, device=completion_ids.device)
    for row, (values, rollout) in enumerate(zip(credit, rollouts, strict=True)):
        ledger = rollout.ledger
        for value, (start, end) in zip(values, ledger.spans, strict=False):
            advantages[row, start - ledger.prompt_length : end - ledger.prompt_length] = value
    return advantages


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


def episode_metrics(gathered: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Success, outcomes, lengths, and each reward part by step index."""
    n = len(gathered)
    outcomes: dict[str, int] = defaultdict(int)
    by_step: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in gathered:
        outcomes[row["outcome"]] += 1
        for index, parts in enumerate(row["parts"]):
            for name, value in parts.items():
                by_step[name, index].append(value)
    return {
        "success": outcomes["success"] / n,
        "episode/turns": sum(row["turns"] for row in gathered) / n,
        "episode/steps": sum(len(row["rewards"]) for row in gathered) / n,
        "episode/tool_calls": sum(row["tool_calls"] for row in gathered) / n,
        "episode/sampled_tokens": sum(sum(row["lengths"]) for row in gathered) / n,
        **{f"outcome/{name}": count / n for name, count in sorted(outcomes.items())},
        **{f"reward_by_step/{name}/{i}": sum(v) / len(v) for (name, i), v in sorted(by_step.items())},
    }
