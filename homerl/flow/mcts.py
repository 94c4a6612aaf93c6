"""MCTS-Flow: environment-verified tree search over dialogues (HomeFlow 3.3.2, Appendix C), and linear sampling.

Invariants: a pure function of blueprint, agent, users and configuration; every trajectory returned is valid
and satisfies all of Φ; every simulated node is kept, unless another did the same; a user who leaves its role counts
against nobody: another one speaks in its place, and where none is left, nothing follows that prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Literal, NamedTuple

from pydantic import Field

from envs.homeenv.types import Model
from homerl.flow.tree import Node, Role, Unvisited, backpropagate, close, tokens_of, valid, walk
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import Boundary, Fault, RequestRefused, UserError, fault_of
from homerl.play.loop import Agent, User, replies_from
from homerl.play.situation import Blueprint
from homerl.play.trajectory import Outcome, Trajectory
from homerl.play.utterance import Utterance
from homerl.worlds.registry import begin


class SearchConfig(Model):
    """Branching factors, number of rollouts, exploration constant; and what a child is worth before its first visit."""

    k_agent: int = 3
    k_user: int = 1
    rollouts: int = 5
    c_ucb: float = 1.0
    unvisited: Unvisited = Field("first", description="before all others, or as good as its siblings are on the `mean`")


@dataclass
class TreeStats:
    """What a search cost and found. A `call` is one request, of which several candidates may be `sampled`; `*_linear` is
    what the same rollouts would have cost one by one; `merged` candidates did what others did; `grounded` successes hold
    in a home; `first` says that the first rollout was one."""

    rollouts: int = 0
    successes: int = 0
    first: int = 0
    nodes: int = 0
    steps_run: int = 0
    steps_linear: int = 0
    calls: int = 0
    calls_linear: int = 0
    sampled: int = 0
    tokens: int = 0
    tokens_linear: int = 0
    merged: int = 0
    grounded: int = 0
    user_errors: dict[str, int] = field(default_factory=dict)

    @property
    def difficulty(self) -> float:
        """1 - verified success rate."""
        return 1.0 - self.successes / max(1, self.rollouts)

    def row(self) -> dict[str, float]:
        """As plain data."""
        return asdict(self) | {"difficulty": self.difficulty}


class Budget(NamedTuple):
    """How much may be asked for: requests, or messages."""

    of: Literal["calls", "sampled"]
    most: int


@dataclass(frozen=True)
class Players:
    """Who plays a blueprint: the users beyond the k that speak are there for those that leave their role."""

    agent: Agent
    users: Sequence[User]


async def search(
    blueprint: Blueprint,
    agent: Agent,
    users: Sequence[User],
    config: SearchConfig = SearchConfig(),
    limits: EpisodeLimits = EpisodeLimits(),
) -> tuple[list[Trajectory], TreeStats]:
    """Verified trajectories of a blueprint and the statistics of the tree."""
    return await forest(blueprint, [Players(agent, users)], config, limits)


async def forest(
    blueprint: Blueprint,
    casts: Iterable[Players],
    config: SearchConfig = SearchConfig(),
    limits: EpisodeLimits = EpisodeLimits(),
    budget: Budget | None = None,
) -> tuple[list[Trajectory], TreeStats]:
    """Trees one after the other, each with players of its own, until there were so many rollouts, or the budget is
    spent. With branching factors of 1 a tree is one dialogue, and this is linear sampling. What two trees found alike is
    kept once."""
    stats, found = TreeStats(), dict[tuple, Trajectory]()

    def goes_on() -> bool:
        return stats.rollouts < config.rollouts and (budget is None or getattr(stats, budget.of) < budget.most)

    for players in takewhile(lambda _: goes_on(), casts):
        root = Node(begin(blueprint, limits))
        while root.passable and goes_on():
            for trajectory in await _rollout(root, players, config, stats):
                found.setdefault(_deeds(trajectory), trajectory)
        _count(root, stats)
    stats.merged += stats.successes - len(found)
    stats.grounded = stats.successes
    return list(found.values()), stats


def _deeds(trajectory: Trajectory) -> tuple:
    """What a dialogue came to, step by step."""
    said = tuple(message["content"] for message in trajectory.messages)
    return said, tuple((step.state_key, step.observations) for step in trajectory.steps)


async def _rollout(root: Node, players: Players, config: SearchConfig, stats: TreeStats) -> list[Trajectory]:
    """One more path from root to leaf, credited; its trajectory if it is verified."""
    path = await _path(root, players, config, stats)
    if not path[-1].terminal or path[-1].episode.outcome is Outcome.USER_ERROR:
        close(path)  # no way on from here, through no fault of the agent's
        return []
    leaf = path[-1].episode
    success = leaf.outcome is Outcome.SUCCESS and valid(leaf)
    backpropagate(path, float(success))
    stats.rollouts += 1
    stats.successes += success
    stats.first += success and stats.rollouts == 1
    stats.steps_linear += len(leaf.steps)
    stats.calls_linear += sum(node.requests for node in path[1:])
    stats.tokens_linear += sum(node.cost for node in path)
    return [leaf.trajectory(players.agent.name, players.users[0].name, leaf.blueprint.seed)] if success else []


async def _path(root: Node, players: Players, config: SearchConfig, stats: TreeStats) -> list[Node]:
    """Select by UCB down to the frontier, then simulate to an end, keeping every node on the way."""
    path = [root]
    while not (node := path[-1]).terminal:
        if not node.children:
            try:
                node.grow(await _candidates(node, players, config, stats))
            except RequestRefused as error:
                if not node.episode.steps:
                    raise
                _outgrown(node, error)
                break
        if (child := node.descend(config.c_ucb, config.unvisited)) is None:
            break
        path.append(child)
    return path


def _outgrown(node: Node, error: RequestRefused) -> None:
    """A dialogue that a server no longer takes, for its length as a rule, ends here by whoever spoke too much; what else
    was found of it stands."""
    boundary = Boundary.AGENT if node.role is Role.AGENT else Boundary.USER
    node.episode.end(Fault(boundary, f"outgrown: {fault_of(error).reason}"))


async def _candidates(node: Node, players: Players, config: SearchConfig, stats: TreeStats) -> Sequence:
    """k_user utterances or k_agent messages (role-aware adaptive branching)."""
    if node.role is Role.AGENT:
        replies = await replies_from(players.agent, node.episode, config.k_agent)
        stats.calls += 1
        stats.sampled += len(replies)
        stats.tokens += max(reply.prompt_tokens for reply in replies) + sum(reply.tokens for reply in replies)
        return replies
    spoken = await _spoken(node.episode, players.users, config.k_user, stats)
    return list({utterance.text: utterance for utterance in spoken}.values())


async def _spoken(episode: Episode, users: Sequence[User], count: int, stats: TreeStats) -> list[Utterance]:
    """What `count` users say, or fewer where too many leave their role; those have cost what they cost."""
    said: list[Utterance] = []
    for user in users:
        if len(said) == count:
            break
        try:
            said.append(spent := await user.speak(episode))
        except UserError as error:
            stats.user_errors[error.reason] = stats.user_errors.get(error.reason, 0) + 1
            spent = error.spent
            stats.calls_linear += spent.requests
            stats.tokens_linear += tokens_of(spent)
        stats.calls += spent.requests
        stats.sampled += spent.requests
        stats.tokens += tokens_of(spent)
    return said


def _count(root: Node, stats: TreeStats) -> None:
    """Add a finished tree to the statistics."""
    for node in walk(root):
        stats.nodes += 1
        stats.steps_run += node.episode.messages[-1]["role"] in ("assistant", "tool")
        stats.merged += node.merged
