"""The task of `scripts/strategy_study`: six wishes for devices, one spare turn, and a demonstrator who errs, to begin from.

Invariants: a blueprint is a pure function of split and seed, and passes the author's filters; the demonstrator's dialogues
are kept whether they ended well or not, so that a model trained on them errs about as often.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import write_atomic
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import sample_profile
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, Factors, Intent
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import trajectory_to_row, write_rows
from homerl.train.recipe import SFTRecipe
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

LIMITS = EpisodeLimits(turns=7, steps=16, steps_per_turn=3)
WISHES, SLIP = 6, 0.25  # share of wishes that the demonstrator claims to have met, and has not
ROOMS = ("kitchen", "hall", "study", "bedroom", "bathroom", "lounge")
CHORES = ("lamp", "fan", "heater", "curtain")
PRODUCTS = {"lamp": "100003", "fan": "100201", "heater": "100401", "curtain": "100501"}
OFF: dict[str, dict[str, Any]] = {
    "lamp": {"state": "off", "brightness": 50},
    "fan": {"state": "off", "speed": 2, "oscillation": False, "mode": "normal"},
    "heater": {"state": "off", "target_temperature": 20, "power_level": "low"},
    "curtain": {"position": 100},
}
MODEL = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32, "intermediate_size": 128}
PHRASES = ('device(\\"', '\\").turn_on()', '\\").close()', '\\").start()', "Done.", "turn on the", "close the")
DEMONSTRATIONS, EPOCHS = 2400, 9.0  # with three epochs, the model had not begun to copy what is asked for
DONE: Message = {"role": "assistant", "content": "Done."}


def make(split: str, seed: int, wishes: int = WISHES) -> Blueprint:
    """The blueprint of a seed."""
    rng = random.Random(f"long {split} {seed}")
    devices = _draw(rng, wishes + 2)
    intents = tuple(_wish(i, did) for i, did in enumerate(rng.sample(devices, wishes), 1))
    return Blueprint(
        id=f"{split}-{seed}",
        seed=seed,
        split=split,
        profile=sample_profile(rng, split),
        scene="",
        home=_home(devices),
        intents=intents,
    )


def _draw(rng: random.Random, count: int) -> list[str]:
    """Device ids, of which some are no lamps."""
    chosen = rng.sample([f"{room}_{kind}" for room in ROOMS for kind in CHORES], count)
    plain = [did for did in chosen if not did.endswith("lamp")]
    return chosen if len(plain) >= min(3, count) else _draw(rng, count)


def _wish(id: int, did: str) -> Intent:
    """Curtains are closed, others are turned on."""
    curtain = did.endswith("curtain")
    service, goal = ("close", ".position == 0") if curtain else ("turn_on", '.state == "on"')
    said = f"{service.replace('_', ' ')} the {did.replace('_', ' ')}"
    return Intent(
        id=id,
        family="study",
        subcategory="chore",
        factors=Factors(),
        queries=(said,),
        clarification=said,
        conditions=(f'device("{did}"){goal}',),
        devices=(did,),
        plan=(Call(did=did, service=service),),
    )


def _home(devices: Sequence[str]) -> dict[str, Any]:
    """A home file: every room, these devices, all off or open."""
    split = [(did, *did.split("_")) for did in devices]
    spids = {PRODUCTS[kind] for _, _, kind in split}
    return {
        "format": 2,
        "rooms": [{"id": room, "type": room, "name": room} for room in ROOMS],
        "devices": [
            {"did": did, "name": kind, "room": room, "spid": PRODUCTS[kind], "state": dict(OFF[kind])}
            for did, room, kind in split
        ],
        "specs": {spid: Catalogue.load_shipped()[spid].content_digest for spid in sorted(spids)},
    }


class Demonstrator:
    """Follows the plan and says that it is done; a share `slip` of the wishes it only claims to have met."""

    name = "demonstrator"

    def __init__(self, seed: int, slip: float = SLIP) -> None:
        self.seed, self.slip = seed, slip

    async def consult(self, episode: Episode, n: int = 1) -> list[Reply]:
        """One message."""
        rng = random.Random(f"{self.seed} {len(episode.messages)}")
        intent = next(i for i in episode.blueprint.intents if i.id == episode.speaking_of)
        told = episode.messages[-1]["role"] == "user"
        acts = episode.messages[-1]["content"].startswith("refused") or (told and rng.random() >= self.slip)
        return [Reply(pyexec_message(intent.plan[0].code) if acts else DONE)]


def make_sft(out: Path, epochs: float) -> Path:
    """A model from scratch, trained on what the demonstrator plays; made once."""
    from homerl.train.update.sft import train_sft

    folder = out / "sft"
    made, wanted = folder / "size.json", {"demonstrations": DEMONSTRATIONS, "epochs": epochs}
    if made.exists() and json.loads(made.read_text()) == wanted:
        return folder / "model"
    shutil.rmtree(folder, ignore_errors=True)
    write_rows(folder / "trajectories.jsonl", _demonstrations())
    with hushed(out / "runs.log"):
        model = train_sft(SFTRecipe.model_validate(sft_keys(folder, epochs)))
    write_atomic(made, json.dumps(wanted) + "\n")
    return model


def _demonstrations() -> Iterator[dict[str, Any]]:
    for seed in range(10_000, 10_000 + DEMONSTRATIONS):
        episode = begin_episode(make("train", seed), LIMITS)
        yield trajectory_to_row(asyncio.run(play(episode, Demonstrator(seed), ScriptedUser(seed), seed)))


def sft_keys(folder: Path, epochs: float) -> dict[str, Any]:
    """The recipe of an SFT on the folder's dialogues, as plain data."""
    return {
        "homerl": 1, "run": "sft", "cpu": True, "parallel": "none", "wandb": {"mode": "disabled"}, "report_to": [],
        "out": folder, "data": str(folder / "trajectories.jsonl"),
        "model": {"dtype": "float32", "from_scratch": MODEL | {"phrases": PHRASES}},
        "sft": {
            "learning_rate": 3e-3, "muon": 0.02, "warmup": 0.02, "dialogues_per_update": 16, "epochs": epochs,
            "max_length": 2048, "save_steps": 10_000, "log_steps": 10, "loss_on": "all",
        },
    }  # fmt: skip


@contextmanager
def hushed(log: Path) -> Iterator[None]:
    """What the trainer shows of a run goes to a file: the study has a bar of its own."""
    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        yield
