"""A person and an agent in a home, without a task: what a served agent plays.

Invariants:
- The caller's home does not change.
- `RecordingHome.made` has every service call of the agent that was carried out, in order, and none of automations or of
  forks in which a tool only tries.
- Where a device asks for a code, the twin takes a call without it, since a person says the code.
- `LiveSituation.attempts` has every tool call that could be read, with what came of it.
- The agent changes no automation, and the dialogue ends only at a limit of the episode.
- An area that no room of the home has the name of tells nothing of where the person speaks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from homerl.envs.core.messages import Message
from homerl.envs.core.world import Action, action_arguments
from homerl.envs.homeenv.sim.assist.entities_of_home import areas_of_plan
from homerl.envs.homeenv.sim.assist.intents import REASONS, is_same_name
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_world import HomeWorld, result_as_observation
from homerl.envs.homeenv.sim.toolset import RunResult
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.toolsets.smh import AUTOMATING
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.blueprint import PromptName
from homerl.envs.homeenv.tasks.prompts import episode_system_prompt
from homerl.envs.homeenv.tasks.situation import HomeSituation
from homerl.play.episode import Episode
from homerl.play.situation import JSON_ANSWERS

FLOOR = re.compile(r" \(floor [^()]*\)$")  # behind the name of an area, as Home Assistant tells it
MOST_MESSAGES = 40  # of a dialogue that the agent reads; the oldest are left out
UNMADE = "unwritten"  # the rule of an attempt at an automation, beside those of the auditor
FAILED = "error"  # and of one whose code failed
SEVERAL = "several"  # and of one that named several devices where one is wanted
CODE, FORMAT = "code", "code_format"  # the argument of locks and alarms, and the attribute of what may ask for it
MEANS_SEVERAL = (REASONS["several_named"], REASONS["several"])
LATER = "0000"  # stands in the twin for a code that only the real device will be told
UNWRITTEN = Refused("unknown_tool", "homerl writes no automations into Home Assistant: people make and change them there")


@dataclass(frozen=True)
class TwinCall:
    """A service call that a home has carried out, with its arguments by name."""

    did: str
    service: str
    arguments: Mapping[str, Any]

    def needs_code(self, home: Home) -> bool:
        """Whether it has no code, and its device, if the home has it, may ask for one."""
        device = home.plan.devices_by_did.get(self.did)
        found = device and device.spec.service_index.get(self.service)
        if not found:
            return False
        state = home.state_of(self.did)
        takes = any(one.name == CODE for one in found.service.arguments)
        free = self.service.startswith("alarm_arm_") and state.get("code_arm_required") is False
        return takes and not free and not self.arguments.get(CODE) and bool(state.get(FORMAT))

    def arguments_with_code(self, home: Home) -> dict[str, Any]:
        """The arguments with which a home takes it that stands for the real one."""
        return {**self.arguments, CODE: LATER} if self.needs_code(home) else {**self.arguments}


@dataclass(frozen=True)
class ToolAttempt:
    """A tool call of an agent, and what came of it.

    `rule` is why it was refused, if it was: a rule of the auditor, `UNMADE`, `FAILED` or `SEVERAL`. `made` are its service
    calls that were carried out, and `refused` the others, each with its rule.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    rule: str | None = None
    made: tuple[TwinCall, ...] = ()
    refused: tuple[tuple[TwinCall, str], ...] = ()


Answers = dict[str, RunResult]  # by `tool_call_key`: what calls read in the real home


def tool_call_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call, as a key."""
    return json.dumps([tool, arguments], sort_keys=True)


class RecordingHome(Home):
    """A home that keeps the calls of its services in `made`, and those that it refused, with the rule, in `refused`.

    A fork goes on with a `made` of its own, and shares `refused`.
    """

    __slots__ = ("made", "refused")
    made: list[TwinCall]
    refused: list[tuple[TwinCall, str]]

    @classmethod
    def copy_of_home(cls, home: Home) -> RecordingHome:
        """A copy of a home, with nothing made yet."""
        twin = cls(home.plan, home.values, home.clock)
        twin.air, twin.rules, twin.air_stale = home.air and home.air.copy(), home.rules, home.air_stale
        twin.made, twin.refused = [], []
        return twin

    def fork(self) -> Self:
        """An independent copy."""
        twin = super().fork()
        twin.made, twin.refused = [*self.made], self.refused
        return twin

    def call(self, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a service, and keep the call."""
        device = self.plan.devices_by_did.get(did) if isinstance(did, str) else None
        found = device.spec.service_index.get(service) if device and isinstance(service, str) else None
        names = [argument.name for argument in found.service.arguments] if found else []
        one = TwinCall(did, service, dict(zip(names, args, strict=False)) | dict(kwargs or {}))
        given = ((), one.arguments_with_code(self)) if found and one.needs_code(self) else (args, kwargs)
        try:
            returned = super().call(did, service, *given)
        except Refused as refusal:
            self.refused.append((one, refusal.rule))
            raise
        self.made.append(one)
        return returned


@dataclass(frozen=True)
class LiveBlueprint:
    """What a live episode has in place of a blueprint: no intents, and nothing that must stay as it is."""

    toolset: str
    language: str
    prompt: PromptName = "full"
    id: str = "live"
    seed: int = 0
    intents: tuple[Any, ...] = ()
    history: tuple[Any, ...] = ()
    preserve: bool = False
    visit: bool = True
    json_answers: bool = False

    @property
    def one_answer(self) -> bool:
        """Whether the agent answers with one JSON object instead of tool calls."""
        return TOOLSETS[self.toolset].one_answer


@dataclass
class LiveSituation(HomeSituation):
    """A home in which a person speaks. It has no goals, so no goal is ever met."""

    attempts: list[ToolAttempt] = field(default_factory=list)
    answers: Answers = field(default_factory=dict)

    @classmethod
    def begin_visit(cls, home: Home, visit: LiveBlueprint) -> LiveSituation:
        """The situation before the person speaks."""
        world = HomeWorld(RecordingHome.copy_of_home(home), (), visit.toolset)
        return cls(visit, world, home, ())  # type: ignore[arg-type]

    @property
    def protocol(self) -> Mapping[str, bool | int | str]:
        """Whether JSON without the marks of a call is an answer."""
        visit: Any = self.blueprint
        return {JSON_ANSWERS: True} if visit.json_answers else {}

    def opening(self) -> list[Message]:
        """The system prompt."""
        visit: Any = self.blueprint
        return [
            {"role": "system", "content": episode_system_prompt(self.start, visit.prompt, visit.toolset, (), visit.language)}
        ]

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """Make a call in the home. One that changes automations is refused: in the real home nothing would come of it."""
        tool, arguments = str(action.get("name")), action_arguments(action)
        if tool in AUTOMATING or action.get("automations"):
            self.attempts.append(ToolAttempt(tool, arguments, UNMADE))
            blocked = {"rule": UNWRITTEN.rule, "message": UNWRITTEN.message}
            return result_as_observation(RunResult("", UNWRITTEN)), {"blocked": blocked, "error": None}
        if (read := self.answers.get(tool_call_key(tool, arguments))) is not None:
            self.attempts.append(ToolAttempt(tool, arguments, read.refusal.rule if read.refusal else None))
            told = {"rule": read.refusal.rule, "message": read.refusal.message} if read.refusal else None
            return result_as_observation(read), {"blocked": told, "error": None}
        made, refused = len(self.made_calls), len(self.refused_calls)
        text, info = super().take(action)
        blocked = info["blocked"] or {"rule": FAILED if info["error"] else None, "message": ""}
        means_several = blocked["rule"] == "unknown_device" and any(one in blocked["message"] for one in MEANS_SEVERAL)
        rule = SEVERAL if means_several else blocked["rule"]
        self.attempts.append(
            ToolAttempt(tool, arguments, rule, (*self.made_calls[made:],), (*self.refused_calls[refused:],))
        )
        return text, info

    def fork(self) -> LiveSituation:
        """A copy with its own home."""
        return LiveSituation(
            self.blueprint, self.world.fork(), self.start, (), attempts=[*self.attempts], answers=self.answers
        )

    @property
    def made_calls(self) -> list[TwinCall]:
        """The agent's service calls so far."""
        return self._witness.made

    @property
    def refused_calls(self) -> list[tuple[TwinCall, str]]:
        """Those that the home refused, each with the rule."""
        return self._witness.refused

    @property
    def _witness(self) -> RecordingHome:
        home = self.home
        assert isinstance(home, RecordingHome)
        return home


def place_speaker(home: Home, area: str | None) -> Home:
    """A home in which the person speaks in an area, as Home Assistant tells it, or nobody knows where."""
    told = (area, FLOOR.sub("", area)) if area else ()
    areas = [(name, one.room.id) for one in areas_of_plan(home.plan) for name in one.names]
    room = next((id for by in told for name, id in areas if is_same_name(name, by)), None)
    if room == home.plan.entrance:
        return home
    placed = home.fork()
    placed.plan = replace(home.plan, entrance=room)
    return placed


def recent_messages(dialogue: Sequence[Message]) -> Sequence[Message]:
    """What the agent reads of a dialogue: it begins and ends with words of the person."""
    last = dialogue[-MOST_MESSAGES:]
    return last[next(at for at, message in enumerate(last) if message["role"] == "user") :]


def prompt_before_dialogue(episode: Episode) -> str:
    """What a model reads before the dialogue: system prompt and tools, in the order of ChatML's templates."""
    return json.dumps([episode.messages[0]["content"], *episode.world.tools])


def cached_prompt_share(before: str | None, now: str) -> float | None:
    """The share of a prompt, from its beginning, that is as it was before."""
    if before is None:
        return None
    differs = (at for at, (one, other) in enumerate(zip(before, now)) if one != other)
    return round(next(differs, min(len(before), len(now))) / len(now), 4)
