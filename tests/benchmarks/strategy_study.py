"""Which strategy of synthesis teaches best at equal calls? A tiny model of each strategy and seed, by SFT as long for all.

All start from one model, trained on what the demonstrator of `long_task` plays, good or bad. So it reads and copies,
as a model from the hub does, and errs as the demonstrator does. (Models from scratch do not tell strategies apart: of the
same data, one of three never began to copy within 300 updates.)

The task has six wishes, one spare turn, and an agent that claims every fourth wish without acting. A call is one request to
the agent or the user, whatever the number of candidates. M1 is a stand-in for a role-play in text: the user says each wish
once and believes what it is told, and every dialogue is kept (the home refuses no slip of this task, so imagined tool
results would be the home's own). M2 and M3 keep what the home's state proves right. `UNPROVED` is M2 without the proof: it
keeps every dialogue, and so tells what the proof is worth.

Invariants: all strategies play the same blueprints, each with the same number of calls; what is finished is one JSON file,
written whole, and is never done again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from differences import chance, interval, markdown
from long_task import EPOCHS, LIMITS, Demonstrator, hushed, make, make_sft, sft_keys
from rich.console import Console

from homerl.envs.core.documents import write_atomic
from homerl.host.progress_bar import progress_bar
from homerl.play.episode import Episode
from homerl.play.loop import play
from homerl.play.situation import BlueprintProtocol, Reply, Utterance
from homerl.play.trajectory import Trajectory, trajectory_to_row, write_rows
from homerl.rewards.composite import RewardWeights
from homerl.synth.mcts import Participants, SearchConfig, search_forest
from homerl.train.recipe import SFTRecipe
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

BEFORE, M1, UNPROVED, M2 = "before this SFT", "M1, text alone", "linear, all kept", "M2, linear (1, 1)"
M3 = "M3, MCTS-Flow (1, 3)"
FACTORS: Mapping[str, tuple[int, int]] = {M2: (1, 1), "(3, 1)": (3, 1), M3: (1, 3), "(3, 3)": (3, 3)}  # k_user, k_agent
MODELS = (BEFORE, M1, UNPROVED, *FACTORS)
MOST = 1000  # trees at most; the budget allows far fewer
TESTS = 300
NORMAL = NormalDist()
FINE = {"learning_rate": 1e-3, "muon": None}  # smaller steps than from scratch


@dataclass(frozen=True)
class Demonstrators:
    """The task's demonstrator, with candidates that slip independently."""

    seed: int
    name: str = "demonstrator"

    async def consult(self, episode: Episode, n: int = 1) -> list[Reply]:
        """n messages."""
        each = [Demonstrator(self.seed * 8 + i) for i in range(n)]
        return [reply for one in each for reply in await one.consult(episode)]


class Believing:
    """A user who says each wish once, and believes what it is told."""

    name = "believing"

    async def speak(self, episode: Episode) -> Utterance:
        """The next wish; nothing after the last."""
        wishes = episode.blueprint.intents
        return (
            Utterance(wishes[episode.turn].queries[0], wishes[episode.turn].id)
            if episode.turn < len(wishes)
            else Utterance("")
        )


def blueprint_of(split: str, seed: int) -> BlueprintProtocol:
    """A task of the study, with more than one way to say a wish, so that users can differ."""
    made = make(split, seed)
    said = [(f"please {i.queries[0]}", f"{i.queries[0]} now", i.queries[0]) for i in made.intents]
    intents = tuple(i.model_copy(update={"queries": queries}) for i, queries in zip(made.intents, said, strict=True))
    return made.model_copy(update={"intents": intents})


async def dialogues(blueprint: BlueprintProtocol, name: str, calls: int, seed: int) -> list[Trajectory]:
    """What a strategy keeps of a blueprint, for so many calls. A dialogue that has begun is played to its end."""
    if factors := FACTORS.get(name):
        players = (Participants(Demonstrators(n), [ScriptedUser(n + i) for i in range(3)]) for n in range(seed, seed + MOST))
        config = SearchConfig(k_user=factors[0], k_agent=factors[1], rollouts=MOST, unvisited="mean")
        return (await search_forest(blueprint, players, config, LIMITS, calls))[0]
    kept: list[Trajectory] = []
    while sum(map(_calls, kept)) < calls:
        number = seed + len(kept)
        user = Believing() if name == M1 else ScriptedUser(number)
        kept.append(await play(begin_episode(blueprint, LIMITS), Demonstrators(number), user, number))
    return kept


def _calls(played: Trajectory) -> int:
    return sum(message["role"] in ("user", "assistant") for message in played.messages)


def rows_of(name: str, seed: int, asked: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    """The dataset of a strategy, in the order of blueprints."""
    for number in range(100_000 * seed, 100_000 * seed + asked.blueprints):
        found = asyncio.run(dialogues(blueprint_of("train", number), name, asked.calls, 1000 * number))
        yield from map(trajectory_to_row, found)


def run(name: str, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """The size of a strategy's dataset, and of the model trained on it which held-out tasks it solved."""
    folder = asked.out / f"{MODELS.index(name)}-{seed}"
    done = folder.with_suffix(".json")
    size = {"blueprints": asked.blueprints, "calls": asked.calls, "updates": asked.updates, "base": asked.base}
    if done.exists() and (found := json.loads(done.read_text()))["size"] == size:
        return found
    shutil.rmtree(folder, ignore_errors=True)
    model, rows = make_sft(asked.out, asked.base), [] if name == BEFORE else [*rows_of(name, seed, asked)]
    random.Random(seed).shuffle(rows)
    write_rows(folder / "trajectories.jsonl", rows)
    with hushed(asked.out / "runs.log"):
        solved = played(trained(model, folder, seed, asked.updates) if rows else model, seed)
    found = {"size": size, "strategy": name, "seed": seed, "dialogues": len(rows), "solved": solved}
    write_atomic(done, json.dumps(found) + "\n")
    shutil.rmtree(folder)
    return found


def trained(base: Path, folder: Path, seed: int, updates: int) -> Path:
    """The base model after SFT on the folder's dialogues."""
    from homerl.train.update.sft import train_sft

    data = sft_keys(folder, 1000) | {"seed": seed, "model": {"name": str(base), "dtype": "float32"}}
    data["sft"] |= {"max_steps": updates, "loss_on": "assistant", **FINE}
    return train_sft(SFTRecipe.model_validate(data))


def played(model: Path, seed: int) -> list[bool]:
    """Which held-out tasks the model solves, sampled at temperature 1."""
    import torch

    from homerl.models.policy.transformers_engine import TransformersEngine
    from homerl.train.data.rollout import RolloutPlayer
    from homerl.train.model_settings import ModelSettings
    from homerl.train.training_setup import load_chat_tokenizer, load_policy

    torch.manual_seed(seed)
    tokenizer = load_chat_tokenizer(str(model))
    policy = load_policy(ModelSettings(name=str(model), dtype="float32"), str(model))
    player = RolloutPlayer(
        TransformersEngine(policy, tokenizer, 10, batch=128), tokenizer, ScriptedUser, LIMITS, RewardWeights(), 1024
    )
    rollouts = player.play_blueprints([blueprint_of("heldout", i) for i in range(TESTS)], range(TESTS))
    return [rollout.trajectory.success for rollout in rollouts]


def summary(found: Mapping[tuple[str, int], Mapping[str, Any]], seeds: Sequence[int]) -> str:
    """Success by strategy, and its `gain` over M1 and M2 of the same seeds, in points."""
    rates = {name: np.array([100 * np.mean(found[name, seed]["solved"]) for seed in seeds]) for name in MODELS}
    rows = []
    for name, values in rates.items():
        made = np.mean([found[name, seed]["dialogues"] for seed in seeds])
        spread = f" ({values.std(ddof=1):.1f})" if len(seeds) > 1 else ""
        over = (gain(values - rates[other]) if name != other else "" for other in (M1, M2))
        rows.append([name, f"{made:,.0f}", f"{values.mean():.1f}{spread}", *over])
    return markdown(["strategy", "dialogues", "success in % (s.d.)", "over M1", "over M2"], rows)


def gain(values: np.ndarray) -> str:
    """A mean gain with its interval and, if 0 is in it, how many seeds would show so large a gain in 80 % of cases."""
    said, spread = interval(values, digits=1), values.std(ddof=1) if len(values) > 1 else 0.0
    if not spread or abs(values.mean()) < 1e-6 * spread or chance(values) < 0.05:
        return said
    seeds = ((NORMAL.inv_cdf(0.975) + NORMAL.inv_cdf(0.8)) * spread / values.mean()) ** 2
    return f"{said}; {ceil(seeds):,} seeds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/strategies"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--blueprints", type=int, default=100)
    parser.add_argument("--calls", type=int, default=36, help="for each blueprint")
    parser.add_argument("--base", type=float, default=EPOCHS, help="epochs of SFT of the model that all start from")
    parser.add_argument("--updates", type=int, default=150, help="of SFT")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    todo = [(name, seed) for seed in range(asked.seeds) for name in MODELS]
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    with progress_bar(Console(file=sys.stdout)) as bar:  # this one, whatever `hushed` puts in its place
        shown = bar.add_task("strategies", total=len(todo), note="")
        for name, seed in todo:
            bar.update(shown, note=f"{name}, seed {seed}")
            found[name, seed] = run(name, seed, asked)
            bar.advance(shown)
    print(summary(found, range(asked.seeds)))


if __name__ == "__main__":
    from homerl.app.runs.launch import set_up_libraries

    set_up_libraries()
    main()
