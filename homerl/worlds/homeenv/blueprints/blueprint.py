"""What a blueprint is: B = <U, s0, I, Φ> (HomeFlow 3.3.1).

Φ is what its intents ask for, in order. Most goals are conditions on the home; an intent may also want an automation
to be made, a question to be answered, or a question to be asked back before anything is done (`goals.py` says when
each is met). `keeps` are conditions that hold at the start and must at the end.

Invariants: a blueprint is plain data, complete in itself (its home included) and immutable; nothing of `plan`, nor
any goal, ever reaches a policy.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field, model_validator

from envs.homeenv.toolsets import TOOLSETS, ToolsetName
from envs.model import Model
from homerl.language.answers import Answer

FORMAT = 2


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
        args = ", ".join(json.dumps(a, ensure_ascii=False) if isinstance(a, str) else repr(a) for a in self.args)
        return f'device("{self.did}").{self.service}({args})'


class Factors(Model):
    """The query-perturbation control space (HomeFlow Table 6)."""

    clarity: Literal["clear", "ambiguous", "missing_slot"] = "clear"
    noise: Literal["clean", "noisy"] = "clean"
    scope: Literal["single_device", "multi_device", "batch_device"] = "single_device"
    dependency: Literal["independent", "dependent"] = "independent"


class Automation(Model):
    """A rule to be made: what sets it off, in the terms of `create_automation`, and what it does.

    `effects` are conditions that hold once it has acted (and not before).
    """

    conditions: tuple[str, ...] = ()
    delay_seconds: int | None = None
    hold_seconds: int = 0
    actions: tuple[Call, ...] = Field(min_length=1)
    effects: tuple[str, ...] = Field(min_length=1)


class Intent(Model):
    """One thing the user wants. `queries` are ways to say it, `clarification` the plain answer when asked.

    `devices` are those that may change; `reply` is what the expert says to the user at the end.
    """

    id: int
    family: str
    subcategory: str
    factors: Factors
    queries: tuple[str, ...] = Field(min_length=1)
    clarification: str
    conditions: tuple[str, ...] = ()
    automation: Automation | None = None
    answer: Answer | None = None
    clarify: bool = Field(False, description="the agent must ask before it acts")
    keeps: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    plan: tuple[Call, ...] = ()
    reads: tuple[tuple[str, str], ...] = Field((), description="(did, attribute path) that one must know before acting")
    reply: str | None = None
    question: str | None = Field(None, description="what the expert asks back, if the intent is to be clarified")

    @model_validator(mode="after")
    def _wants_something(self) -> Intent:
        if not (self.conditions or self.automation or self.answer):
            raise ValueError("an intent needs conditions, an automation or an answer")
        return self


class Past(Model):
    """A message of the dialogue before the episode."""

    role: Literal["user", "assistant"]
    content: str


class Blueprint(Model):
    """A script for one episode. With `preserve`, success also needs that no other device has changed.

    `memory` (long term: what is known of the person) and `history` (short term: what was said before) are shown to
    the agent with its instructions.
    """

    format: Literal[2] = FORMAT
    id: str
    seed: int
    split: Literal["train", "heldout"]
    language: str = "en"
    profile: Profile
    scene: str
    home: dict[str, Any]
    intents: tuple[Intent, ...] = Field(min_length=1)
    memory: tuple[str, ...] = ()
    history: tuple[Past, ...] = ()
    preserve: bool = True
    toolset: ToolsetName = "homeflow"
    prompt: Literal["brief", "full"] = "brief"

    @property
    def one_answer(self) -> bool:
        """Whether the agent gives one JSON object in place of tool calls."""
        return TOOLSETS[self.toolset].one_answer

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of Φ."""
        return tuple(condition for intent in self.intents for condition in intent.conditions)

    @property
    def devices(self) -> frozenset[str]:
        """Ids of the devices that some intent concerns."""
        return frozenset(did for intent in self.intents for did in intent.devices)
