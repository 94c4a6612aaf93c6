"""Does a small model learn from a larger one by `rlve.distill`, alone and beside the reward?

Both come from SFT on the same dialogues of `long_task` (with fewer wishes), and so have one tokenizer. The teacher is twice
as wide. The student then learns from a demonstrator who claims every third wish without acting, and errs like it. From the
student start RLVE runs that differ in `distill` alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from differences import markdown
from long_task import PHRASES, Demonstrator, hushed, make

from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.trajectory import trajectory_to_row, write_rows
from homerl.train.recipe import RLVERecipe, SFTRecipe
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

WISHES = 2
LIMITS = {"turns": 3, "steps": 8, "steps_per_turn": 3}
SHARED = {"homerl": 1, "cpu": True, "parallel": "none", "wandb": {"mode": "disabled"}, "report_to": []}
SIZES = {
    "teacher": {"hidden_size": 128, "layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 32, "intermediate_size": 256},
    "student": {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32, "intermediate_size": 128},
}
RUNS: Mapping[str, Mapping[str, float] | None] = {
    "the teacher alone": {"bound": 2.0, "reward": 0.0},
    "the reward alone": None,
    "both": {"bound": 2.0},
}


def sft(out: Path, name: str, data: str, updates: int, seed: int, start: Path | None = None) -> Path:
    """A model by SFT on some dialogues, from scratch or from another model."""
    from homerl.train.update.sft import train_sft

    folder = out / name
    if not (folder / "model").exists():
        scratch = {"from_scratch": SIZES[name.split()[0]] | {"phrases": PHRASES}}
        keys = {
            "run": "sft", "seed": seed, "out": folder, "data": str(out / data),
            "model": {"dtype": "float32", **({"name": str(start)} if start else scratch)},
            "sft": {
                "learning_rate": 1e-3 if start else 3e-3, "muon": None if start else 0.02, "warmup": 0.02,
                "dialogues_per_update": 16, "epochs": 1000, "max_steps": updates, "max_length": 2048, "save_steps": None,
                "loss_on": "all",
            },
        }  # fmt: skip
        train_sft(SFTRecipe.model_validate(SHARED | keys))
    return folder / "model"


def run(out: Path, name: str, updates: int, seed: int) -> list[dict[str, Any]]:
    """The metrics of an RLVE run from the student, evaluated before, half way and at its end."""
    from homerl.train.update.rlve import train_rlve

    folder = out / f"{name.replace(' ', '-')}-{seed}"
    if not (folder / "model").exists():
        source = {split: {"file": out / f"{split}.jsonl"} for split in ("train", "heldout")}
        distill = None if RUNS[name] is None else {"model": str(out / "teacher/model"), **RUNS[name]}
        keys = {
            "run": "rlve", "seed": seed, "out": folder,
            "model": {"name": str(out / "student that errs/model"), "dtype": "float32"},
            "blueprints": {"recipe": source["train"], "count": 256, "first_seed": 0}, "limits": LIMITS,
            "evaluation": {"every": updates // 2, "count": 200, "first_seed": 0, "recipe": source["heldout"]},
            "rlve": {
                "updates": updates, "blueprints_per_update": 16, "group": 4, "learning_rate": 1e-3, "warmup": 0.0,
                "lr_scheduler": "linear", "kl": 0.0, "max_tokens": 10, "max_episode_tokens": 1024, "save_steps": None,
                "engine": {"batch": 64}, "log_steps": 1, "distill": distill,
            },
        }  # fmt: skip
        train_rlve(RLVERecipe.model_validate(SHARED | keys))
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def played(model: Path, tests: int) -> float:
    """Success of a model on held-out tasks, sampled at temperature 1."""
    import torch

    from homerl.models.policy.transformers_engine import TransformersEngine
    from homerl.rewards.composite import RewardWeights
    from homerl.train.data.rollout import RolloutPlayer
    from homerl.train.model_settings import ModelSettings
    from homerl.train.training_setup import load_chat_tokenizer, load_policy

    torch.manual_seed(0)
    tokenizer = load_chat_tokenizer(str(model))
    policy = load_policy(ModelSettings(name=str(model), dtype="float32"), str(model))
    engine = TransformersEngine(policy, tokenizer, 10, batch=64)
    player = RolloutPlayer(engine, tokenizer, ScriptedUser, EpisodeLimits(**LIMITS), RewardWeights(), 1024)
    rollouts = player.play_blueprints([make("heldout", i, WISHES) for i in range(tests)], range(tests))
    return sum(rollout.trajectory.success for rollout in rollouts) / tests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/distillation"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dialogues", type=int, default=1600)
    parser.add_argument("--teacher", type=int, default=400, help="updates of its SFT")
    parser.add_argument("--student", type=int, default=250, help="updates of its first SFT")
    parser.add_argument("--erring", type=int, default=250, help="updates of its SFT on dialogues with idle claims")
    parser.add_argument("--updates", type=int, default=30, help="of RLVE")
    asked = parser.parse_args()
    out = asked.out
    if not (out / "flawless.jsonl").exists():
        for split in ("train", "heldout"):
            rows = (make(split, seed, WISHES).model_dump(mode="json") for seed in range(256))
            write_rows(out / f"{split}.jsonl", rows)
        numbers = range(10_000, 10_000 + asked.dialogues)
        write_rows(out / "erring.jsonl", (demonstrated(seed, slip=0.33) for seed in numbers))
        write_rows(out / "flawless.jsonl", (demonstrated(seed) for seed in numbers))
    with hushed(out / "runs.log"):
        teacher = played(sft(out, "teacher", "flawless.jsonl", asked.teacher, asked.seed), 200)
        start = sft(out, "student", "flawless.jsonl", asked.student, asked.seed)
        sft(out, "student that errs", "erring.jsonl", asked.erring, asked.seed, start)
        found = {name: run(out, name, asked.updates, asked.seed) for name in RUNS}
    print(f"success of the teacher: {teacher:.2f}")
    rows = []
    for name, lines in found.items():
        success = [f"{line['eval/success']:.3g}" for line in lines if "eval/success" in line]
        kl = [line["distill/kl"] for line in lines if "distill/kl" in line]
        rows.append([name, " / ".join(success), f"{fmean(kl[:5]):.2f} / {fmean(kl[-5:]):.2f}" if kl else ""])
    print(
        markdown(
            [
                "from the student, by",
                "success: before / half way / at the end",
                "`distill/kl`: first five / last five updates",
            ],
            rows,
        )
    )


def demonstrated(seed: int, slip: float = 0.0) -> dict[str, Any]:
    """A dialogue of a demonstrator who only claims to have met a share of the wishes."""
    episode = begin_episode(make("train", seed, WISHES), EpisodeLimits(**LIMITS))
    return trajectory_to_row(asyncio.run(play(episode, Demonstrator(seed, slip), ScriptedUser(seed), seed)))


if __name__ == "__main__":
    from homerl.app.runs.launch import set_up_libraries

    set_up_libraries()
    main()
