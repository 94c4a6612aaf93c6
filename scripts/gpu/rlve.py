"""RLVE of Qwen3-8B with adapters: by homerl with live rollouts, and by TRL's GRPOTrainer on the rollouts that homerl played.

homerl's part records the token ids, masks and returns of its last batch. TRL trains on these, padded, by its own loss.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

from gpu.machine import Machine, has
from gpu.predicted import gpu_memory, predicted_gb
from gpu.shipped import recipe, updates
from gpu.weights import random_model

NAME, SIZE = "rlve_8b_lora", "Qwen3-8B"
GROUP = 8
UPDATES = 3  # one to warm up, one that is timed, one that is profiled


def blueprints(machine: Machine) -> int:
    """Blueprints of an update; each is played `GROUP` times."""
    return machine.pick(32, 2)


def asked_for(machine: Machine) -> Any:
    """The recipe that is measured."""
    vllm = has("vllm") and not machine.tiny
    engine = {"kind": "vllm", "gpu_memory": 0.4} if vllm else {"kind": "transformers", "batch": 64}
    return recipe(
        machine,
        NAME,
        random_model(machine, SIZE),
        machine.folder / f"out_{NAME}",
        rlve={
            "updates": UPDATES,
            "blueprints_per_update": blueprints(machine),
            "group": GROUP,
            "max_tokens": machine.pick(128, 16),
            "max_episode_tokens": 4096,
            "engine": engine,
            "save_steps": None,
            "log_steps": 1,
        },
        limits={"turns": 2, "steps": 4, "steps_per_turn": 2},
        blueprints=machine.pick({}, {"recipe": {"home": {"devices": [2, 3]}, "intents": [1, 1]}}),
    )


def ours(machine: Machine) -> dict[str, Any]:
    """homerl's trainer, with the scripted user: a whole update, and its training alone."""
    from gpu.watch import as_figures, watching
    from homerl.train.update.rlve import RLVETrainer, train_rlve
    from homerl.train.watch.phase_deadlines import SHARES

    asked, play = asked_for(machine), RLVETrainer.play_rollouts

    def recorded(trainer: Any, update: int) -> Any:
        batch = play(trainer, update)
        machine.keep("rollouts", as_trl_has_it([rollout for rollout, _ in batch.own_rollouts()]))
        return batch

    predicted = predicted_gb(asked, gpu_memory(machine.tiny))

    def figures(watch: Any) -> dict[str, Any]:
        timed = updates(asked.out)[watch.timed][-1]
        seconds = timed["time/seconds"]
        return as_figures(watch) | {
            "training_seconds": watch.training_seconds,
            "by_share": {name: timed[f"time/{name}"] * seconds for name in SHARES},
            "sampled_tokens": timed["episode/sampled_tokens"] * blueprints(machine) * GROUP,
            "logp_gap": timed["sentinel/logp_gap"],
            "engine": asked.rlve.engine.kind,
            "predicted_gb": predicted,
        }

    with watching(machine, 1, UPDATES, lambda watch: machine.keep(NAME, figures(watch))) as watch:
        RLVETrainer.play_rollouts = watch.rolling(recorded)
        try:
            train_rlve(asked)
        finally:
            RLVETrainer.play_rollouts = play
    found = figures(watch)
    shutil.rmtree(asked.out)
    return found


def as_trl_has_it(rollouts: list[Any]) -> dict[str, list[Any]]:
    """What a rollout function of TRL returns: token ids, log-probabilities and the mask of sampled ids, with the returns."""
    records = [rollout.ledger for rollout in rollouts]
    parts = {"completion_ids": "ids", "logprobs": "logprobs", "env_mask": "mask"}
    return {
        "prompt_ids": [ledger.ids[: ledger.prompt_length] for ledger in records],
        **{name: [getattr(one, own)[one.prompt_length :] for one in records] for name, own in parts.items()},
        "returns": [sum(rollout.rewards_by_step[rollout.prefix_steps :]) for rollout in rollouts],
    }


def trl(machine: Machine, checkpointing: bool) -> dict[str, Any]:
    """TRL's trainer on the recorded rollouts: the seconds of its training."""
    from datasets import Dataset
    from trl import GRPOTrainer

    from gpu.trl_settings import load, named
    from gpu.watch import as_figures, watching
    from homerl.train.model_settings import make_lora_config
    from homerl.train.training_setup import load_chat_tokenizer

    asked, played = asked_for(machine), json.loads((machine.folder / "rollouts.json").read_text())
    arguments = trl_arguments(machine, asked, checkpointing)
    model = load(machine, random_model(machine, SIZE))
    with watching(machine, 1, UPDATES) as watch:
        trainer = GRPOTrainer(
            model=model,
            args=arguments,
            reward_funcs=[returned],
            rollout_func=watch.rolling(lambda prompts, trainer: played),
            processing_class=load_chat_tokenizer(asked.model.name),
            train_dataset=Dataset.from_dict({"prompt": [""] * UPDATES * blueprints(machine)}),
            peft_config=make_lora_config(asked.model, model),
        )
        trainer.train()
    tokens = sum(map(len, played["prompt_ids"])) + sum(map(len, played["completion_ids"]))
    figures = {"training_seconds": watch.training_seconds, "rollout_tokens": tokens}
    return as_figures(watch) | figures | {"settings": named(machine, arguments)}


def trl_arguments(machine: Machine, asked: Any, checkpointing: bool) -> Any:
    """The recipe's loss in TRL's terms. Without checkpointing fewer rollouts fit at a time."""
    from trl import GRPOConfig

    from gpu.trl_settings import common

    rows, settings = 4 if checkpointing or machine.tiny else 2, asked.rlve
    count = blueprints(machine) * GROUP // rows
    return GRPOConfig(
        **common(machine, machine.folder / "out_trl", checkpointing, UPDATES),
        per_device_train_batch_size=rows, gradient_accumulation_steps=count, steps_per_generation=count,
        num_generations=GROUP, max_completion_length=settings.max_episode_tokens, temperature=settings.temperature,
        beta=settings.kl, entropy_coef=settings.entropy, epsilon=settings.epsilon, loss_type=settings.loss,
        mask_truncated_completions=False, shuffle_dataset=False, vllm_importance_sampling_correction=False,
    )  # fmt: skip


def returned(returns: list[float], **_: Any) -> list[float]:
    """TRL's reward: what homerl's rollout earned."""
    return returns
