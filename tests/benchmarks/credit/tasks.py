"""The model study's tasks: six families of HomeEnv blueprints, and a demonstrator that errs, to begin from.

Invariants: a blueprint is a pure function of task, split and seed, and passes the author's filters; the demonstrator's
dialogues are kept whether they ended well or not, so that a model trained on them errs about as often.

`long`: one thing after another is asked for, and all of it must be done within a spare turn or so. `decisive`: the same,
shorter, with time to spare, but one wish may be met by two lamps, of which one would wake somebody. `misleading`: one wish
in three silent moves, of which none pays before the last; another move meets most of Φ at once, and then there is no time
left for the whole. `eight`: eight rooms in one request, one move for each; in every room one of four devices is the right
one, the same in all homes, and nobody says which. A wrong one costs nothing but the step. So its steps are independent. The
demonstrator gets a quarter of them right, and has a habit in every room: one of the wrong devices. `varied`: the dialogues
of `long` with the mistakes of `eight`. The demonstrator slips as often as in `long`, but what is right in one room says
nothing about the others; a wrong device costs a turn, as an idle claim does in `long`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from envs.homeenv.spec import Catalogue
from envs.homeenv.toolsets.homeflow import pyexec_message
from envs.messages import Message
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.situation import Reply
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint, Call, Factors, Intent
from homerl.worlds.homeenv.blueprints.profile import sample_profile

ROOMS = ("kitchen", "hall", "study", "bedroom", "bathroom", "lounge")
RIGHT = {
    "kitchen": "fan", "hall": "lamp", "study": "heater", "bedroom": "curtain", "bathroom": "heater", "lounge": "lamp",
    "attic": "curtain", "office": "fan",
}  # fmt: skip
PRODUCTS = {"lamp": "100003", "spot": "100003", "fan": "100201", "heater": "100401", "curtain": "100501"}
OFF: dict[str, dict[str, Any]] = {
    "lamp": {"state": "off", "brightness": 50},
    "spot": {"state": "off", "brightness": 20},
    "fan": {"state": "off", "speed": 2, "oscillation": False, "mode": "normal"},
    "heater": {"state": "off", "target_temperature": 20, "power_level": "low"},
    "curtain": {"position": 100},
}
CHORES = ("lamp", "fan", "heater", "curtain")
WRONG = "start"  # no device has such a service: the firewall refuses it


@dataclass(frozen=True)
class Task:
    """Limits, the weight of success, where forks may lie, and how often the demonstrator slips: `slip` in what matters,
    `trifle` in the rest. `measure` is what an evaluation reports, `updates` how many it takes,
    `steps` how many an episode takes, about. `epochs` of SFT are enough that the model copies what is asked for: with three,
    one of `long` had not begun to."""

    name: str
    limits: EpisodeLimits
    horizon: int
    slip: float
    trifle: float = 0.0
    success: float = 1.0
    collateral: float = 0.2
    wishes: int = 1
    measure: str = "success"
    learning_rate: float = 1e-3
    updates: int = 12
    steps: int = 8
    epochs: float = 3.0


LONG = Task("long", EpisodeLimits(turns=7, steps=16, steps_per_turn=3), horizon=8, slip=0.25, wishes=6, steps=11, epochs=9.0)
DECISIVE = Task(
    "decisive", EpisodeLimits(turns=7, steps=16, steps_per_turn=3), horizon=6, slip=0.55, trifle=0.25, wishes=4, epochs=9.0
)  # fmt: skip
MISLEADING = Task("misleading", EpisodeLimits(turns=1, steps=3, steps_per_turn=3), horizon=2, slip=0.3, success=0.2, steps=3)
EIGHT = Task(
    "eight", EpisodeLimits(turns=1, steps=8, steps_per_turn=8), horizon=6, slip=0.75, collateral=0.0,
    measure="episode/progress", updates=45,
)  # fmt: skip
VARIED = replace(LONG, name="varied", collateral=0.0, updates=24)
RARE = replace(VARIED, name="rare", slip=EIGHT.slip, measure="episode/progress", updates=30)
TASKS = {task.name: task for task in (LONG, DECISIVE, MISLEADING, EIGHT, VARIED, RARE)}


def make(task: str, split: str, seed: int) -> Blueprint:
    """The blueprint of a seed."""
    rng = random.Random(f"{task} {split} {seed}")
    devices, intents = MAKERS[task](rng)
    return Blueprint(
        id=f"{split}-{seed}", seed=seed, split=split, profile=sample_profile(rng, split), scene="", home=_home(devices),
        intents=intents, preserve=task not in ("varied", "rare"),
    )  # fmt: skip


def _long(rng: random.Random) -> tuple[list[str], tuple[Intent, ...]]:
    devices = _draw(rng, LONG.wishes + 2)
    return devices, tuple(_chore(i, did) for i, did in enumerate(rng.sample(devices, LONG.wishes), 1))


def _decisive(rng: random.Random) -> tuple[list[str], tuple[Intent, ...]]:
    """Chores, and between them a wish for light that either of two lamps gives."""
    waking, harmless = (f"{room}_lamp" for room in rng.sample(ROOMS, 2))
    chores = [did for did in _draw(rng, 6) if not did.endswith("lamp")][: DECISIVE.wishes - 1]
    wishes = [_chore(i, did) for i, did in zip((1, 3, 4), chores)]
    devices = rng.sample([waking, harmless, *chores], 2 + len(chores))
    return devices, (wishes[0], _light(2, waking, harmless), *wishes[1:])


def _light(id: int, waking: str, harmless: str) -> Intent:
    return _intent(
        id, f"turn on the {_said(waking)} or rather the {_said(harmless)}", (harmless, "turn_on"),
        (f"{_is(waking)} or {_is(harmless)}",), (waking, harmless), keeps=(f'device("{waking}").state == "off"',),
    )  # fmt: skip


def _misleading(rng: random.Random) -> tuple[list[str], tuple[Intent, ...]]:
    """Light to watch a film by: the lamp gives most of it at once, the spot with curtain and fan all of it in the end."""
    room = rng.choice(ROOMS)
    lamp, spot, curtain, fan = (f"{room}_{kind}" for kind in ("lamp", "spot", "curtain", "fan"))
    dark = f'device("{curtain}").position == 0'
    cosy = f"{_is(spot)} and {_is(fan)} and {dark}"
    intent = Intent(
        id=1, family="study", subcategory="misleading", factors=Factors(), queries=(f"a film in the {room}",),
        clarification=f"a film in the {room}",
        conditions=(f"{_is(lamp)} or ({cosy})", f"({cosy}) or {_is(lamp)}", f"{cosy} and not {_is(lamp)}"),
        devices=(lamp, spot, curtain, fan),
        plan=(Call(did=curtain, service="close"), Call(did=fan, service="turn_on"), Call(did=spot, service="turn_on")),
    )  # fmt: skip
    others = [did for did in _draw(rng, 4) if did not in intent.devices][:2]
    return rng.sample([*intent.devices, *others], 4 + len(others)), (intent,)


def _eight(rng: random.Random) -> tuple[list[str], tuple[Intent, ...]]:
    """Every room's four devices, and one request that names the rooms in an order of its own."""
    rooms = rng.sample(list(RIGHT), len(RIGHT))
    devices = [f"{room}_{kind}" for room in rooms for kind in rng.sample(CHORES, len(CHORES))]
    said = f"make it nice in {', '.join(rooms)}"
    calls = [_move(f"{room}_{RIGHT[room]}") for room in rooms]
    intent = Intent(
        id=1, family="study", subcategory="eight", factors=Factors(), queries=(said,), clarification=said,
        conditions=tuple(_done(f"{room}_{RIGHT[room]}") for room in rooms), devices=tuple(call.did for call in calls),
        plan=tuple(calls),
    )  # fmt: skip
    return devices, (intent,)


def _varied(rng: random.Random) -> tuple[list[str], tuple[Intent, ...]]:
    """Rooms with four devices each, and one request for every room."""
    rooms = rng.sample(list(RIGHT), VARIED.wishes)
    devices = [f"{room}_{kind}" for room in rooms for kind in rng.sample(CHORES, len(CHORES))]
    wishes = ((f"{room}_{RIGHT[room]}", f"make it nice in the {room}") for room in rooms)
    return devices, tuple(_chore(i, *wish) for i, wish in enumerate(wishes, 1))


MAKERS = {
    "long": _long,
    "decisive": _decisive,
    "misleading": _misleading,
    "eight": _eight,
    "varied": _varied,
    "rare": _varied,
}


def _draw(rng: random.Random, count: int) -> list[str]:
    """Device ids, of which some are no lamps."""
    every = [f"{room}_{kind}" for room in ROOMS for kind in CHORES]
    chosen = rng.sample(every, count)
    plain = [did for did in chosen if not did.endswith("lamp")]
    return chosen if len(plain) >= min(3, count) else _draw(rng, count)


def _chore(id: int, did: str, said: str | None = None) -> Intent:
    service = _move(did).service
    return _intent(id, said or f"{service.replace('_', ' ')} the {_said(did)}", (did, service), (_done(did),), (did,))


def _move(did: str) -> Call:
    """What is done with a device: curtains are closed, others are turned on."""
    return Call(did=did, service="close" if did.endswith("curtain") else "turn_on")


def _done(did: str) -> str:
    return f'device("{did}").position == 0' if did.endswith("curtain") else _is(did)


def _intent(id: int, said: str, call: tuple[str, str], conditions: tuple[str, ...], devices: tuple[str, ...], **more: Any):
    return Intent(
        id=id, family="study", subcategory="chore", factors=Factors(), queries=(said,), clarification=said,
        conditions=conditions, devices=devices, plan=(Call(did=call[0], service=call[1]),), **more,
    )  # fmt: skip


def _is(did: str) -> str:
    return f'device("{did}").state == "on"'


def _said(did: str) -> str:
    return did.replace("_", " ")


def _home(devices: Sequence[str]) -> dict[str, Any]:
    """A home file: every room, these devices, all off or open."""
    split = [(did, *did.split("_")) for did in devices]
    spids = {PRODUCTS[kind] for _, _, kind in split}
    return {
        "format": 2,
        "rooms": [
            {"id": room, "type": room, "name": room} for room in dict.fromkeys((*ROOMS, *(room for _, room, _ in split)))
        ],
        "devices": [
            {"did": did, "name": kind, "room": room, "spid": PRODUCTS[kind], "state": dict(OFF[kind])}
            for did, room, kind in split
        ],
        "specs": {spid: Catalogue.shipped()[spid].digest for spid in sorted(spids)},
    }


class Demonstrator:
    """Follows the plan one call a message and says that it is done; slips as often as its task says."""

    name = "demonstrator"

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed

    async def consult(self, episode: Episode, n: int = 1) -> list[Reply]:
        rng = random.Random(f"{self.seed} {len(episode.messages)}")
        return [Reply(self._message(episode, rng))]

    def _message(self, episode: Episode, rng: random.Random) -> Message:
        intent = next(i for i in episode.blueprint.intents if i.id == episode.speaking_of)
        said = episode.messages[-1]["content"]
        made = 0 if episode.messages[-1]["role"] == "user" else sum(s.facts.turn == episode.turn for s in episode.steps)
        if said.startswith("refused"):
            return _act(intent.plan[0])
        if self.task.name == "eight":
            return self._next_room(intent, len(episode.steps), rng)
        if self.task.name == "misleading" and made:
            return self._on(intent, episode, made, rng)
        if made:
            return DONE
        return SLIPS[self.task.name](intent, self.task, rng) or _act(intent.plan[0])

    def _next_room(self, intent: Intent, made: int, rng: random.Random) -> Message:
        """A device of the next room, and that it is done after the last."""
        if made >= len(intent.plan):
            return DONE
        return _slip_eight(intent.plan[made], self.task, rng) or _act(intent.plan[made])

    def _on(self, intent: Intent, episode: Episode, made: int, rng: random.Random) -> Message:
        """The next of the three moves; nothing more after a slip, and that it is done after the last."""
        if made >= len(intent.plan):
            return DONE
        lost = episode.situation.home.get(intent.devices[0], "state") == "on"
        return DONE if lost or rng.random() < self.task.slip else _act(intent.plan[made])


DONE: Message = {"role": "assistant", "content": "Done."}


def _act(call: Call) -> Message:
    return pyexec_message(call.code)


def _slip_long(intent: Intent, task: Task, rng: random.Random) -> Message | None:
    """A claim that nothing stands behind."""
    return DONE if rng.random() < task.slip else None


def _slip_decisive(intent: Intent, task: Task, rng: random.Random) -> Message | None:
    """The first lamp that was named; in chores, a service that does not exist."""
    if len(intent.devices) == 2:
        return _act(Call(did=intent.devices[0], service="turn_on")) if rng.random() < task.slip else None
    return _act(intent.plan[0].model_copy(update={"service": WRONG})) if rng.random() < task.trifle else None


def _slip_misleading(intent: Intent, task: Task, rng: random.Random) -> Message | None:
    """The lamp."""
    return _act(Call(did=intent.devices[0], service="turn_on")) if rng.random() < task.slip else None


def _slip_eight(call: Call, task: Task, rng: random.Random) -> Message | None:
    """Another of the room's devices. One of the wrong ones is the habit in this room, twice as likely as the other two.

    Without habits, a model learns to choose without looking at the room, and RLVE has to teach it to look first.
    """
    room, right = call.did.split("_")
    habit = CHORES[(CHORES.index(right) + 1 + list(RIGHT).index(room) % 3) % len(CHORES)]
    other = rng.choice([habit, *(kind for kind in CHORES if kind != right)])
    return _act(_move(f"{room}_{other}")) if rng.random() < task.slip else None


def _slip_varied(intent: Intent, task: Task, rng: random.Random) -> Message | None:
    """The room's habit, or another of its wrong devices."""
    return _slip_eight(intent.plan[0], task, rng)


SLIPS = {
    "long": _slip_long, "decisive": _slip_decisive, "misleading": _slip_misleading, "varied": _slip_varied,
    "rare": _slip_varied,
}  # fmt: skip
