"""What a blueprint is: B = <U, s0, I, Φ> (HomeFlow 3.3.1).

Invariants: a blueprint is plain data, complete in itself (its home included) and immutable; Φ is the
concatenation of its intents' conditions, in order; nothing of `plan` ever reaches a policy.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from envs.homeenv.types import Model

Wording = Literal["clear", "colloquial", "noisy"]


class Profile(Model):
    """A user U (HomeFlow Table 4)."""

    name: str
    age: int
    gender: str
    height_cm: int
    weight_kg: int
    health: str
    habits: tuple[str, ...]
    preferences: dict[str, Any]


class Call(Model):
    """One service call of a reference plan."""

    did: str
    service: str
    args: tuple[str | int | float | bool, ...] = ()

    @property
    def code(self) -> str:
        """As agents write it: `device("1001").light.set_brightness(80)`."""
        args = ", ".join(json.dumps(a) if isinstance(a, str) else repr(a) for a in self.args)
        return f'device("{self.did}").{self.service}({args})'


class Factors(Model):
    """The query-perturbation control space (HomeFlow Table 6)."""

    clarity: Literal["clear", "ambiguous", "missing_slot"] = "clear"
    noise: Literal["clean", "noisy"] = "clean"
    scope: Literal["single_device", "multi_device", "batch_device"] = "single_device"
    dependency: Literal["independent", "dependent"] = "independent"


class Intent(Model):
    """One thing the user wants. `queries` are ways to say it, `clarification` the plain answer when asked."""

    id: int
    family: str
    subcategory: str
    factors: Factors
    queries: tuple[str, ...]
    clarification: str
    conditions: tuple[str, ...]
    devices: tuple[str, ...]
    plan: tuple[Call, ...]


class Past(Model):
    """A message of the dialogue before the episode."""

    role: Literal["user", "assistant"]
    content: str


class Blueprint(Model):
    """A script for one episode. With `preserve`, success also needs that no other device has changed.

    `memory` (long term: what is known of the person) and `history` (short term: what was said before) are shown to
    the agent with its instructions.
    """

    format: int = 1
    id: str
    seed: int
    split: Literal["train", "heldout"]
    profile: Profile
    scene: str
    home: dict[str, Any]
    intents: tuple[Intent, ...]
    memory: tuple[str, ...] = ()
    history: tuple[Past, ...] = ()
    preserve: bool = True
    toolset: str = "homeflow"
    prompt: Literal["brief", "full"] = "brief"

    @property
    def conditions(self) -> tuple[str, ...]:
        """Φ."""
        return tuple(condition for intent in self.intents for condition in intent.conditions)

    @property
    def devices(self) -> frozenset[str]:
        """Ids of the devices that some intent concerns."""
        return frozenset(did for intent in self.intents for did in intent.devices)
