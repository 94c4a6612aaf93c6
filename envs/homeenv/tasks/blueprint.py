"""The data of a blueprint: B = <U, s0, I, Φ> (HomeFlow 3.3.1).

U is `profile`, s0 is `home`, and I is `intents`. Φ is the list of goals of all intents, in their order. Most goals are
conditions on the home. An intent may also want an automation, the answer to a question, or a clarifying question before
the agent acts; `goals.py` defines when each goal is met. The conditions in `keeps` hold at the start and must still
hold at the end.

Invariants: a blueprint is immutable plain data and contains its home; a policy never sees a plan or a goal.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.toolsets import TOOLSETS, ToolsetName
from homerl.play.situation import Behaviour
from homerl.play.words.answer_rules import Answer

FORMAT: Literal[2] = 2
PromptName = Literal["brief", "full"]


class Profile(Model):
    """A user U (HomeFlow Table 4).

    Height is in centimetres, weight in kilograms.
    """

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
    # By position, as all toolsets can write them. None stands for an argument that is left out before one that is given.
    args: tuple[str | int | float | bool | tuple[float | str, ...] | None, ...] = ()

    @property
    def code(self) -> str:
        """The call as an agent writes it in code: `device("1001").light.set_brightness(80)`."""
        args = ", ".join(json.dumps(a, ensure_ascii=False) if isinstance(a, str) else repr(a) for a in self.args)
        return f'device("{self.did}").{self.service}({args})'


class Factors(Model):
    """How a query is perturbed: the control space of HomeFlow Table 6."""

    clarity: Literal["clear", "ambiguous", "missing_slot"] = "clear"
    noise: Literal["clean", "noisy"] = "clean"
    scope: Literal["single_device", "multi_device", "batch_device"] = "single_device"
    dependency: Literal["independent", "dependent"] = "independent"


class Automation(Model):
    """A wanted automation, in the terms of `create_automation`: what triggers it, and what it does.

    `effects` are conditions that hold after the automation has acted, and not before.
    """

    conditions: tuple[str, ...] = ()
    delay_seconds: int | None = None
    hold_seconds: int = 0
    actions: tuple[Call, ...] = Field(min_length=1)
    effects: tuple[str, ...] = Field(min_length=1)


class Part(Model):
    """One utterance of the course in which a wish is told.

    `plan` is what a good agent does then, and `question` what it asks if nothing can be done yet. A part with neither says
    the whole wish.
    """

    behaviour: Behaviour
    text: str
    plan: tuple[Call, ...] = ()
    question: str | None = None


class Intent(Model):
    """One thing the user wants.

    `queries` are ways to say it, and `clarification` is the plain answer when the agent asks. `devices` are the ids of
    the devices that may change. `keeps` are conditions that must stay true. `plan` is a reference solution. `reply` is
    what the expert tells the user at the end.
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
    names: tuple[str, ...] = Field(
        (),
        exclude_if=lambda names: not names,
        description="a question that is needed has one of these words, for what the candidates differ in; in older "
        "blueprints, which have none, any question counts",
    )
    course: tuple[Part, ...] = Field(  # files of blueprints are older than this key and the next
        (), exclude_if=lambda course: not course, description="what the user says before `queries`, one part a turn"
    )
    aside: str | None = Field(
        None, exclude_if=lambda aside: aside is None, description="the answer beside the point to the agent's first question"
    )

    @model_validator(mode="after")
    def _wants_something(self) -> Intent:
        if not (self.conditions or self.automation or self.answer):
            raise ValueError("an intent needs conditions, an automation or an answer")
        return self


class Past(Model):
    """One message of the dialogue before the episode."""

    role: Literal["user", "assistant"]
    content: str


class Blueprint(Model):
    """A script for one episode.

    The agent sees `memory` (long term: what is known of the user) and `history` (short term: the earlier dialogue)
    together with its instructions. With `preserve`, success also requires that no other device has changed. In a `visit`
    (`homerl chat`) a person says what it likes: there is no intent, and nothing is ever met.
    """

    format: Literal[2] = FORMAT
    id: str
    seed: int
    split: Literal["train", "heldout"]
    language: str = "en"
    profile: Profile
    scene: str
    home: dict[str, Any]
    visit: bool = Field(False, exclude_if=lambda visit: not visit, description="nobody knows what the user will want")
    intents: tuple[Intent, ...] = Field(description="at least one, unless it is a visit")
    memory: tuple[str, ...] = ()
    history: tuple[Past, ...] = ()
    preserve: bool = True
    toolset: ToolsetName = "homeflow"
    prompt: PromptName = "brief"

    @model_validator(mode="after")
    def _wants_something(self) -> Blueprint:
        if self.visit == bool(self.intents):
            raise ValueError("a visit has no intents" if self.visit else "a blueprint needs an intent")
        return self

    @property
    def one_answer(self) -> bool:
        """Whether the agent answers with one JSON object instead of tool calls."""
        return TOOLSETS[self.toolset].one_answer

    @property
    def all_conditions(self) -> tuple[str, ...]:
        """The conditions of all intents: the part of Φ that concerns the state of the home."""
        return tuple(condition for intent in self.intents for condition in intent.conditions)

    @property
    def changeable_devices(self) -> frozenset[str]:
        """Ids of the devices that some intent may change."""
        return frozenset(did for intent in self.intents for did in intent.devices)


def turns_needed(blueprint: Blueprint) -> int:
    """The number of turns for all wishes: one each, and a second one if a clarifying question is needed or allowed."""
    return sum(2 if intent.clarify or intent.family == "ambiguous" else 1 for intent in blueprint.intents)
