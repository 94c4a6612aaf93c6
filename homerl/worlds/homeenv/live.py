"""A person and an agent in a home, without a task: what a served agent plays.

Invariants: the caller's home does not change; `Witnessed.made` has every service call of the agent that was carried out, in
order, and none of automations or of forks in which a tool only tries; the agent changes no automation; the dialogue ends
only at a limit of the episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from envs.homeenv.audit import Refused
from envs.homeenv.env import HomeEnv, observe
from envs.homeenv.home import Home
from envs.homeenv.sandbox import RunResult
from envs.homeenv.toolsets import TOOLSETS
from envs.homeenv.toolsets.smh import AUTOMATING
from envs.messages import Message
from envs.world import Action
from homerl.worlds.homeenv.blueprints.blueprint import PromptName
from homerl.worlds.homeenv.messages import briefing
from homerl.worlds.homeenv.situation import HomeSituation

UNWRITTEN = Refused("unknown_tool", "homerl writes no automations into Home Assistant: people make and change them there")


@dataclass(frozen=True)
class Made:
    """A service call that a home has carried out, with its arguments by name."""

    did: str
    service: str
    arguments: Mapping[str, Any]


class Witnessed(Home):
    """A home that keeps the calls of its services in `made`, and also those that were refused in `tried`.

    A fork goes on with a `made` of its own, and shares `tried`.
    """

    __slots__ = ("made", "tried")
    made: list[Made]
    tried: list[Made]

    @classmethod
    def of(cls, home: Home) -> Witnessed:
        """A copy of a home, with nothing made yet."""
        twin = cls(home.plan, home.values, home.clock)
        twin.air, twin.rules, twin.air_stale = home.air and home.air.copy(), home.rules, home.air_stale
        twin.made, twin.tried = [], []
        return twin

    def fork(self) -> Self:
        """An independent copy."""
        twin = super().fork()
        twin.made, twin.tried = [*self.made], self.tried
        return twin

    def call(self, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a service, and keep the call unless it is refused."""
        device = self.plan.by_did.get(did) if isinstance(did, str) else None
        found = device.spec.service_index.get(service) if device and isinstance(service, str) else None
        names = [argument.name for argument in found.service.arguments] if found else []
        one = Made(did, service, dict(zip(names, args, strict=False)) | dict(kwargs or {}))
        self.tried.append(one)
        returned = super().call(did, service, args, kwargs)
        self.made.append(one)
        return returned


@dataclass(frozen=True)
class Visit:
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

    @property
    def one_answer(self) -> bool:
        """Whether the agent answers with one JSON object instead of tool calls."""
        return TOOLSETS[self.toolset].one_answer


class LiveSituation(HomeSituation):
    """A home in which a person speaks. It has no goals, so no goal is ever met."""

    @classmethod
    def visit(cls, home: Home, visit: Visit) -> LiveSituation:
        """The situation before the person speaks."""
        world = HomeEnv(Witnessed.of(home), (), visit.toolset)
        return cls(visit, world, home, ())  # type: ignore[arg-type]

    def opening(self) -> list[Message]:
        """The system prompt."""
        visit: Any = self.blueprint
        return [{"role": "system", "content": briefing(self.start, visit.prompt, visit.toolset, (), visit.language)}]

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """Make a call in the home. One that changes automations is refused: in the real home nothing would come of it."""
        if action.get("name") in AUTOMATING or action.get("automations"):
            blocked = {"rule": UNWRITTEN.rule, "message": UNWRITTEN.message}
            return observe(RunResult("", UNWRITTEN)), {"blocked": blocked, "error": None}
        return super().take(action)

    def fork(self) -> LiveSituation:
        """A copy with its own home."""
        return LiveSituation(self.blueprint, self.world.fork(), self.start, ())

    @property
    def made(self) -> list[Made]:
        """The agent's service calls so far."""
        return self._witness.made

    @property
    def tried(self) -> list[Made]:
        """These, and those that were refused."""
        return self._witness.tried

    @property
    def _witness(self) -> Witnessed:
        home = self.home
        assert isinstance(home, Witnessed)
        return home
