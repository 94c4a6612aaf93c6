"""Makes one blueprint at a time: writes it, plays it by the recipe's strategy, and classifies the outcome.

Invariants:
- The result for a blueprint is a pure function of recipe and index, if models give the same answer to the same request.
- If servers fail, the blueprint is started again from the beginning, and becomes an `infra_error` after the last attempt,
  never half a result.
- Errors of servers are counted apart, in `transport`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from homerl.envs.core.world import WorldError
from homerl.models.endpoint.endpoint import Endpoint, make_endpoint
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.faults import AgentFault, EndpointRejected, InfraError, RequestRefused, fault_from_error
from homerl.play.loop import Agent
from homerl.play.situation import BlueprintProtocol
from homerl.play.trajectory import FAULT_OUTCOMES, Outcome, Trajectory, trajectory_to_row
from homerl.synth.mcts import Participants, search_forest
from homerl.synth.recipe import SynthesisConfig
from homerl.worlds.contract import NoBlueprint, TreeStats
from homerl.worlds.registry import blueprint_with_behaviours, make_blueprint_of_seed, source_for_seed, world_of
from homerl.worlds.users import SharedEndpoint, UserFactory

SPARES = 2  # users that replace those that leave their role
TAKE = 1_000_003  # distance between the seeds of two dialogues' players
NO_BLUEPRINT = "no_blueprint"  # outcome of a seed whose candidates were all dropped
REFUSED = "refused"  # outcome if a server refuses a request, such as one that is too long
REST = 5.0  # seconds before a blueprint is started again, doubled each time


@dataclass(frozen=True)
class BlueprintResult:
    """The result for one blueprint: its dataset rows, its line of statistics, and what was dropped, by reason."""

    rows: list[dict[str, Any]]
    stats: dict[str, Any]
    dropped: Counter[str] = field(default_factory=Counter)


class BlueprintSynthesiser:
    """Makes the blueprints of a recipe; all blueprints of a worker share its endpoints."""

    def __init__(self, config: SynthesisConfig) -> None:
        self.config = config
        self.endpoints: dict[str, Endpoint] = {}
        self.again: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        user, shared = config.user, None
        if user.is_llm:
            shared = SharedEndpoint(user)
            self.endpoints["user"] = shared.endpoint
        self.users = UserFactory(shared)
        others = {part: settings for part, settings in config.model_endpoints.items() if part != "user"}
        self.endpoints |= {part: make_endpoint(settings) for part, settings in others.items()}

    async def synthesise_blueprint(self, index: int) -> BlueprintResult:
        """The result for the index-th blueprint; it is started again if servers fail, at most `attempts` times.

        Raises `EndpointRejected` if a server refuses every request.
        """
        fault = ""
        for attempt in range(self.config.attempts):
            try:
                return await self._start_blueprint(index)
            except RequestRefused as error:  # a retry would not help
                return BlueprintResult([], self._line(index, REFUSED) | {"fault": error.why})
            except EndpointRejected:  # the server refuses every request, so the run stops
                raise
            except InfraError as error:
                self.again["infra_error"] += 1
                fault = str(error)
                await asyncio.sleep(REST * 2**attempt if attempt + 1 < self.config.attempts else 0)
        return BlueprintResult([], self._line(index, Outcome.INFRA_ERROR) | {"fault": fault})

    async def _start_blueprint(self, index: int) -> BlueprintResult:
        """One attempt: write the blueprint, play it, and keep the best trajectories."""
        dropped, record = Counter[str](), dict[str, Any]()
        try:
            made, record = await self._write_blueprint(index, dropped)
            blueprint = blueprint_with_behaviours(made, self.config.user.behaviours, self.config.blueprint_recipe_at(index))
            found, stats = await self._play_blueprint(blueprint)
        except NoBlueprint as error:
            return BlueprintResult([], self._line(index, NO_BLUEPRINT) | {"fault": str(error)}, dropped)
        except (WorldError, AgentFault) as error:
            fault = fault_from_error(error)
            line = self._line(index, FAULT_OUTCOMES[fault.boundary]) | record | {"fault": fault.reason}
            return BlueprintResult([], line, dropped)
        found.sort(key=lambda trajectory: (trajectory.is_valid, len(trajectory.steps)))  # a recovery, then the shortest
        kept = found[: self.config.per_blueprint]
        line = self._line(index, classify_outcome(stats)) | stats.to_row() | record
        return BlueprintResult([trajectory_to_row(t) | {"difficulty": line["difficulty"]} for t in kept], line, dropped)

    async def _write_blueprint(self, index: int, dropped: Counter[str]) -> tuple[BlueprintProtocol, dict[str, Any]]:
        """The index-th blueprint, and its author's record for the statistics. Raises `NoBlueprint` and `InfraError`."""
        config, recipe, seed = self.config, self.config.blueprint_recipe_at(index), self.config.first_seed + index
        if config.author:
            client = StructuredClient(self.endpoints["author"], config.author)
            part = source_for_seed(recipe, seed)
            author = world_of(part).llm_author
            assert author, "the recipe was checked"
            found = await author(part, config.split, seed, client, config.author.attempts, dropped)
            return found.blueprint, {"author": found.record | asdict(client.tally)}
        made = make_blueprint_of_seed(recipe, config.split, seed, dropped)
        if config.paraphrase is None:
            return made, {}
        client = StructuredClient(self.endpoints["paraphrase"], config.paraphrase)
        return await paraphrase_blueprint(made, client, dropped), {"paraphrase": asdict(client.tally)}

    async def _play_blueprint(self, blueprint: BlueprintProtocol) -> tuple[list[Trajectory], TreeStats]:
        config = self.config
        if config.strategy == "m1":
            role_play = world_of(blueprint).role_play
            assert role_play and config.agent, "the recipe was checked"
            client = StructuredClient(self.endpoints["agent"], config.agent)
            agent = self._make_agent(blueprint, blueprint.seed)
            found: tuple[list[Trajectory], TreeStats] = await role_play(blueprint, agent, client, config.limits)
            return found
        search, trees = config.search, 1
        if config.strategy == "m2":  # each tree is one dialogue
            search, trees = search.model_copy(update={"k_agent": 1, "k_user": 1}), search.rollouts
        participants = (self._make_participants(blueprint, take) for take in range(trees))
        return await search_forest(blueprint, participants, search, config.limits)

    def _make_participants(self, blueprint: BlueprintProtocol, take: int) -> Participants:
        """The players of a blueprint's tree; each tree gets other seeds."""
        users = [self.users(blueprint.seed + take + i) for i in range(self.config.search.k_user + SPARES)]
        return Participants(self._make_agent(blueprint, blueprint.seed + take * TAKE), users)

    def _make_agent(self, blueprint: BlueprintProtocol, seed: int) -> Agent:
        if (said := self.config.agent) is None:
            return world_of(blueprint).expert(self.config.expert, seed)
        return LLMAgent(self.endpoints["agent"], said.temperature, said.max_tokens, seed, extra_body=said.extra)

    def _line(self, index: int, outcome: str) -> dict[str, Any]:
        id = f"{self.config.split}-{self.config.first_seed + index}"
        return {"id": id, "outcome": str(outcome), **TreeStats().to_row()}

    def take_transport_counts(self) -> dict[str, int]:
        """Requests, tokens and faults by model role since the last call of this method."""
        now = Counter({f"again/{reason}": count for reason, count in self.again.items()})
        for part, endpoint in self.endpoints.items():
            usage = asdict(endpoint.usage)
            faults = usage.pop("faults")
            now.update({f"{part}/{name}": count for name, count in usage.items()})
            now.update({f"{part}/faults/{reason}": count for reason, count in faults.items()})
        since, self._told = now - self._told, now
        return dict(sorted(since.items()))

    async def close(self) -> None:
        """Close the connections of all endpoints."""
        for endpoint in self.endpoints.values():
            await endpoint.close()


async def paraphrase_blueprint(blueprint: Any, client: StructuredClient, dropped: Counter[str]) -> Any:
    """The blueprint with paraphrases; dropped ones are counted in `dropped` as `paraphrase: reason`."""
    kind = world_of(blueprint).paraphraser
    if kind is None:
        return blueprint
    paraphraser = kind(client)
    found = await paraphraser.reword(blueprint)
    dropped.update({f"paraphrase: {reason}": count for reason, count in paraphraser.dropped.items()})
    return found


def classify_outcome(stats: TreeStats) -> Outcome:
    """A blueprint's outcome: success if a trajectory was verified, else whose failure it was."""
    if stats.successes:
        return Outcome.SUCCESS
    return Outcome.AGENT_FAILURE if stats.rollouts else Outcome.USER_ERROR
