"""SimuHome's blueprints and recipes: episodes with their requests in words, in the form that homerl expects.

Φ, the condition of success, consists of the episode's goals and required actions, and of a final answer.

Invariants:
- A blueprint is plain data, complete in itself and immutable.
- Its home is packed: attributes that have their built-in values are left out. `unpack_home(pack_home(home)) == home`; a
  device that does not list every attribute of its type stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from homerl.envs.core.model import Model
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.sim.episode_file import EpisodeFile
from homerl.envs.simuhome.tasks.episode_generator import ALL_KINDS, Scale
from homerl.envs.simuhome.tasks.sentences import check_simuhome_language
from homerl.play.words.grammar import Pool

Json = dict[str, Any]


def pack_home(config: Mapping[str, Any]) -> Json:
    """A home's configuration, in which complete devices keep only the attributes that differ from their type's."""

    def pack_device(device: Json) -> Json:
        initial, given = _initial_attributes(device["device_type"]), device["attributes"]
        if "rest" in device or initial.keys() != given.keys():
            return device
        # Values are compared as text, since 1 == 1.0 == True in Python.
        differing = {key: value for key, value in given.items() if json.dumps(value) != json.dumps(initial[key])}
        return {**device, "attributes": differing, "rest": "as built"}

    return _replace_devices(config, pack_device)


def unpack_home(config: Mapping[str, Any]) -> Json:
    """The configuration before `pack_home`."""

    def unpack_device(device: Json) -> Json:
        if device.get("rest") != "as built":
            return device
        whole = {key: value for key, value in device.items() if key != "rest"}
        return {**whole, "attributes": {**_initial_attributes(device["device_type"]), **device["attributes"]}}

    return _replace_devices(config, unpack_device)


def _replace_devices(config: Mapping[str, Any], change: Callable[[Json], Json]) -> Json:
    rooms = {name: {**room, "devices": [change(one) for one in room["devices"]]} for name, room in config["rooms"].items()}
    return {**config, "rooms": rooms}


@lru_cache(maxsize=32)
def _initial_attributes(kind: str) -> Json:
    """The initial attributes of a device type, as plain JSON values."""
    known = device_types().get(kind)
    initial = {} if known is None else {key: value for key, value in known.initial.items() if ".#" not in key}
    plain: Json = json.loads(json.dumps(initial))
    return plain


Feasibility = Literal["feasible", "infeasible"]
QUERY_TYPES = ("qt1", "qt2", "qt3", "qt4-1", "qt4-2", "qt4-3")
CASES: tuple[Feasibility, ...] = ("feasible", "infeasible")
GROUPS = tuple(f"{query_type}/{case}" for query_type in QUERY_TYPES for case in CASES)


class SimuHomeIntent(Model):
    """What the user wants. `family` is the query type, `subcategory` the case, and `reply` the expert's final answer."""

    id: int = 1
    family: str
    subcategory: Feasibility
    queries: tuple[str, ...] = Field(min_length=1)
    clarification: str
    reply: str = "Done."


class SimuHomeBlueprint(Model):
    """The script of one episode of SimuHome."""

    format: Literal[1] = 1
    world: Literal["simuhome"] = "simuhome"
    id: str
    seed: int = 0
    split: Literal["train", "heldout"] = "heldout"
    language: str = "en"
    scene: str = ""
    home: dict[str, Any]
    intents: tuple[SimuHomeIntent, ...] = Field(min_length=1, max_length=1)
    task: dict[str, Any] = Field(description="the episode in the released file format, without its home and its query")
    preserve: bool = False
    strict: bool = True
    toolset: Literal["released", "paper"] = "released"
    prompt: Literal["brief", "full"] = "full"

    one_answer: ClassVar[bool] = False

    @property
    def category(self) -> str:
        """Query type and case, as the columns of the paper's Table 1 are named: `QT3 IF`."""
        (intent,) = self.intents
        return f"{intent.family.upper()} {'F' if intent.subcategory == 'feasible' else 'IF'}"

    @property
    def episode_file(self) -> EpisodeFile:
        """The episode in the released file format, as the simulator takes it."""
        parts = {"query": self.intents[0].queries[0], "initial_home_config": unpack_home(self.home)}
        return EpisodeFile.model_validate(self.task | parts)


def blueprint_from_episode(episode: EpisodeFile, id: str, **more: Any) -> SimuHomeBlueprint:
    """An episode as a blueprint.

    `more` are fields of the blueprint, or `queries`, `clarification` and `reply` of its intent.
    """
    data = episode.model_dump(mode="json")
    query, home = data.pop("query"), data.pop("initial_home_config")
    intent = SimuHomeIntent(
        family=episode.meta.query_type,
        subcategory=episode.meta.case,
        queries=more.pop("queries", (query,)),
        clarification=more.pop("clarification", query),
        reply=more.pop("reply", "Done."),
    )
    fields = {"seed": episode.meta.seed} | more
    return SimuHomeBlueprint(id=id, home=pack_home(home), task=data, intents=(intent,), **fields)


class SimuHomeRecipe(Model):
    """The blueprints to make."""

    world: Literal["simuhome"] = Field(description="The world.")
    types: dict[str, float] = Field(
        dict.fromkeys(QUERY_TYPES, 1.0),
        description="Weights of query types, or of their cases, such as `qt3/feasible`.",
    )
    goals: tuple[int, int] = Field((1, 4), description="Fewest and most goals of an episode.")
    devices: tuple[int, int] = Field(Scale().devices, description="Fewest and most devices of a home.")
    kinds: tuple[str, ...] = Field(ALL_KINDS, min_length=1, description="Kinds of devices that homes may have.")
    language: str = Field("en", description="Language (`en`, `zh`) of all texts.")
    phrasings: int = Field(3, ge=1, description="Ways in which the user can say each wish.")
    temperature: float = Field(1.0, ge=0, description="How far people stray from the most usual words.")
    frames: Pool = Field("any", description="Frames of the grammar: `heldout` is a quarter, `train` the others, `any` all.")
    preserve: bool = Field(False, description="Whether success needs that nothing else has changed.")
    strict: bool = Field(True, description="Whether the known faults of the paper's program are kept.")
    toolset: Literal["released", "paper"] = Field(
        "released", description="Tools of the agent: the 20 `released` ones, or the 13 of the `paper`."
    )
    prompt: Literal["brief", "full"] = Field("full", description="How much the system prompt explains.")

    @field_validator("types")
    @classmethod
    def _check_types(cls, weights: dict[str, float]) -> dict[str, float]:
        for name in weights:
            if name not in (*GROUPS, *QUERY_TYPES):
                raise ValueError(f"there is no query type '{name}' (there is {', '.join((*QUERY_TYPES, *GROUPS))})")
        return weights

    @field_validator("language")
    @classmethod
    def _check_language(cls, language: str) -> str:
        check_simuhome_language(language)
        return language

    @field_validator("kinds")
    @classmethod
    def _check_kinds(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(kinds) - set(ALL_KINDS)):
            raise ValueError(f"homes have no {', '.join(unknown)} (there is {', '.join(ALL_KINDS)})")
        return kinds

    @model_validator(mode="after")
    def _check_ranges(self) -> SimuHomeRecipe:
        for name, (low, high) in (("devices", self.devices), ("goals", self.goals)):
            if not 1 <= low <= high:
                raise ValueError(f"{name}: {[low, high]} should be two numbers from 1 up, the smaller first")
        if not sum(self.types.values()) > 0:
            raise ValueError("types: no query type has a weight above 0")
        return self

    def group_weights(self) -> dict[str, float]:
        """The weight of each group, such as `qt3/feasible`."""
        weights: dict[str, float] = {}
        for name, weight in self.types.items():
            for group in [name] if name in GROUPS else [f"{name}/{case}" for case in CASES]:
                weights[group] = weights.get(group, 0.0) + weight
        return weights
