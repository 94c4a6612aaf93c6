"""MCTS-Flow: environment-verified tree search over dialogues (HomeFlow 3.3.2, Appendix C).

Invariants: a pure function of blueprint, agent, users and configuration; every trajectory returned is valid
and satisfies all of Φ; every simulated node is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from envs.homeenv.types import Model
from homerl.episode import Episode, EpisodeLimits
from homerl.flow.tree import Node, Role, backpropagate, valid, walk
from homerl.play import Agent, User
from homerl.trajectory import Outcome, Trajectory
from homerl.worlds import AnyBlueprint


class SearchConfig(Model):
    """Branching factors, number of rollouts, exploration constant."""

    k_agent: int = 3
    k_user: int = 1
    rollouts: int = 5
    c_ucb: float = 1.0


@dataclass(frozen=True)
class TreeStats:
    """What a search cost and found. `steps_linear` are the agent steps that linear sampling would have run."""

    rollouts: int
    successes: int
    nodes: int
    steps_run: int
    steps_linear: int

    @property
    def difficulty(self) -> float:
        """1 - verified success rate."""
        return 1.0 - self.successes / self.rollouts


async def search(
    blueprint: AnyBlueprint,
    agent: Agent,
    users: Sequence[User],
    config: SearchConfig = SearchConfig(),
    limits: EpisodeLimits = EpisodeLimits(),
) -> tuple[list[Trajectory], TreeStats]:
    """Verified trajectories of a blueprint and the statistics of the tree."""
    root = Node(Episode.begin(blueprint, limits))
    found: list[Trajectory] = []
    rollouts = linear = 0
    while rollouts < config.rollouts and root.passable:
        path = await _rollout(root, agent, users, config)
        leaf = path[-1].episode
        success = leaf.outcome is Outcome.SUCCESS and valid(leaf)
        backpropagate(path, float(success))
        rollouts += 1
        linear += len(leaf.steps)
        if success:
            found.append(leaf.trajectory(agent.name, users[0].name, blueprint.seed))
    nodes = list(walk(root))
    steps = sum(node.episode.messages[-1]["role"] in ("assistant", "tool") for node in nodes)
    return found, TreeStats(rollouts, len(found), len(nodes), steps, linear)


async def _rollout(root: Node, agent: Agent, users: Sequence[User], config: SearchConfig) -> list[Node]:
    """Select by UCB down to the frontier, then simulate to an end, keeping every node on the way."""
    path = [root]
    while not (node := path[-1]).terminal:
        if not node.children:
            node.grow(await _candidates(node, agent, users, config))
        child = node.select(config.c_ucb)
        child.enter()
        path.append(child)
    return path


async def _candidates(node: Node, agent: Agent, users: Sequence[User], config: SearchConfig) -> Sequence:
    """k_user utterances or k_agent messages (role-aware adaptive branching)."""
    if node.role is Role.AGENT:
        return await agent.propose(node.episode, config.k_agent)
    spoken = [await user.speak(node.episode) for user in users[: config.k_user]]
    return list({utterance.text: utterance for utterance in spoken}.values())


def stats_row(stats: TreeStats) -> dict[str, float]:
    """The statistics as plain data."""
    return asdict(stats) | {"difficulty": stats.difficulty}
