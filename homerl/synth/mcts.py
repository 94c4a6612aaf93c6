"""MCTS-Flow: tree search over dialogues, verified by the environment (HomeFlow 3.3.2, Appendix C); and linear sampling.

A node of the tree (`TreeNode`) is a reusable prefix of a dialogue. A candidate takes effect only at its first visit, and a
child with the effect of another is merged into it. A visited leaf is impassable, and so is a node whose children all are.

Invariants:
- The result is a pure function of blueprint, agent, users and configuration.
- A node never changes once it was entered. Every simulated node is kept, unless another has the same effect.
- Every returned trajectory meets all of Φ and is valid, but for one recovery at most (`SearchConfig.recoveries`), which
  guides no search.
- A user that leaves its role counts against nobody: another user speaks in its place. If none is left, the prefix gets no
  continuation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import AgentFault, Boundary, Fault, RequestRefused, UserError, fault_from_error
from homerl.play.loop import Agent, User, apply_utterance, replies_from, waits_for_user
from homerl.play.situation import BlueprintProtocol, Reply, Utterance
from homerl.play.trajectory import Outcome, Trajectory
from homerl.worlds.contract import TreeStats
from homerl.worlds.registry import begin_episode

Unvisited = Literal["first", "mean"]


@dataclass
class TreeNode:
    """v = <h_v, r_v> with visit count N, accumulated reward Q and passability ρ.

    `pending` is a candidate that has not taken effect yet; `merged` counts children that were merged into siblings. A
    dialogue goes on after a refused call if its nodes are `forgiving`.
    """

    episode: Episode
    pending: Reply | Utterance | None = None
    children: list[TreeNode] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0
    passable: bool = True
    cost: int = 0
    requests: int = 1
    effect: Hashable = None
    merged: int = 0
    forgiving: bool = False

    @property
    def user_acts_next(self) -> bool:
        """r_v: whether the user acts next, and not the agent."""
        return waits_for_user(self.episode)

    async def apply_candidate(self) -> None:
        """Let the pending candidate take effect, on a fork of the parent's episode."""
        if self.pending is None:
            return
        self.episode = self.episode.fork()
        if isinstance(self.pending, Utterance):
            apply_utterance(self.episode, self.pending)
            self.effect = self.pending.text, self.pending.intent_id
        else:
            step = await self.episode.apply_reply_async(self.pending)
            words = self.episode.spoken_words_of(step.message)
            said = "" if self.episode.outcome is Outcome.SUCCESS else words.text.strip()  # one last word is like another
            self.effect = step.state_key, self.episode.outcome, said, words.question, step.observations
        self.pending = None

    @property
    def is_terminal(self) -> bool:
        """Whether the episode has ended, or contains a violation, since R is then 0 whatever follows (eq. 4)."""
        return self.episode.outcome is not None or not (self.forgiving or self.episode.is_valid)

    def add_children(self, candidates: Sequence[Reply | Utterance]) -> None:
        """Add one child for each candidate."""
        self.children = [
            TreeNode(self.episode, c, cost=candidate_tokens(c), requests=candidate_requests(c), forgiving=self.forgiving)
            for c in candidates
        ]

    async def enter_best_child(self, c_ucb: float, unvisited: Unvisited = "first") -> TreeNode | None:
        """Enter the selected child; None if all remaining children were merged into their siblings."""
        while any(child.passable for child in self.children):
            child = self.select_child(c_ucb, unvisited)
            if child.pending is None:
                return child
            await child.apply_candidate()
            # a child whose effect a sibling had before it is merged into that sibling, and another one is selected
            if all(other is child or other.pending or other.effect != child.effect for other in self.children):
                return child
            self.children = [other for other in self.children if other is not child]
            self.merged += 1
        return None

    def select_child(self, c_ucb: float, unvisited: Unvisited = "first") -> TreeNode:
        """The passable child with the highest upper confidence bound (eq. 3); there must be one.

        The paper does not define the bound of an unvisited child. `first` puts it above all others, which widens the
        tree at its root first. `mean` gives it the parent's mean reward without a bonus. The search then stays
        in its branch, so it tries other last steps before other first steps.
        """
        passable = [child for child in self.children if child.passable]
        worth = math.inf if unvisited == "first" else self.value / max(1, self.visits)
        return max(
            passable,
            key=lambda child: (child.upper_confidence_bound(self.visits, c_ucb) if child.visits else worth, child.visits),
        )

    def upper_confidence_bound(self, parent_visits: int, c_ucb: float) -> float:
        """Q/N + c sqrt(2 ln N(parent) / N)."""
        return self.value / self.visits + c_ucb * math.sqrt(2 * math.log(parent_visits) / self.visits)


def candidate_tokens(candidate: Reply | Utterance) -> int:
    """The tokens, prompt included, of a request for this one message."""
    return candidate.prompt_tokens + candidate.tokens


def candidate_requests(candidate: Reply | Utterance) -> int:
    """The number of requests for a candidate: a user may need two or none."""
    return candidate.requests if isinstance(candidate, Utterance) else 1


def backpropagate_reward(path: Sequence[TreeNode], reward: float) -> None:
    """Add the reward to every node of a path, and close the path."""
    for node in path:
        node.visits += 1
        node.value += reward
    update_passability(path)


def update_passability(path: Sequence[TreeNode]) -> None:
    """From the end of a path to its root, mark nodes without a passable child as impassable."""
    for node in reversed(path):
        node.passable = any(child.passable for child in node.children)


def walk_tree(node: TreeNode) -> Iterator[TreeNode]:
    """Every entered node, parents before children."""
    if node.pending is None:
        yield node
        for child in node.children:
            yield from walk_tree(child)


class SearchConfig(Model):
    """The tree search over dialogues (MCTS-Flow)."""

    k_agent: int = Field(3, ge=1, description="Candidate messages of the agent at a node.")
    k_user: int = Field(1, ge=1, description="Candidate utterances of the user at a node.")
    rollouts: int = Field(5, ge=1, description="Paths from the root of a tree to an end of the dialogue.")
    c_ucb: float = Field(1.0, ge=0, description="Exploration constant of UCB; 0 only exploits.")
    unvisited: Unvisited = Field(
        "first",
        description="When a child without a visit is chosen: `first` before all others, `mean` as if worth "
        "its parent's mean reward.",
    )
    recoveries: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share (0 to 1) of blueprints in which dialogues go on after a refused call; one that is "
        "put right is kept beside one without a refusal.",
    )


@dataclass(frozen=True)
class Participants:
    """Who plays a blueprint. Users beyond the first k replace those that leave their role."""

    agent: Agent
    users: Sequence[User]


async def search_forest(
    blueprint: BlueprintProtocol,
    participants: Iterable[Participants],
    config: SearchConfig = SearchConfig(),
    limits: EpisodeLimits = EpisodeLimits(),
    calls: int | None = None,
) -> tuple[list[Trajectory], TreeStats]:
    """Search one tree after the other, each with its own players, and return trajectories and statistics.

    The search ends after `config.rollouts` rollouts, or when `calls` requests were made. With branching factors of 1 a tree
    is one dialogue, so this is linear sampling. Equal trajectories of two trees are kept once. A recovery is the first.
    """
    stats, found = TreeStats(), dict[tuple[Any, ...], Trajectory]()
    # a generator of its own: whether dialogues are forgiving changes no other draw
    forgiving = random.Random(f"recoveries {blueprint.seed}").random() < config.recoveries

    def goes_on() -> bool:
        return stats.rollouts < config.rollouts and (calls is None or stats.calls < calls)

    for players in takewhile(lambda _: goes_on(), participants):
        root = TreeNode(begin_episode(blueprint, limits), forgiving=forgiving)
        while root.passable and goes_on():
            if (trajectory := await _add_rollout(root, players, config, stats)) is not None:
                # two successes are equal by texts, states and observations; one last word is like another
                texts = tuple(message["content"] for message in trajectory.messages[:-1])
                deeds = tuple((step.state_key, step.observations) for step in trajectory.steps)
                found.setdefault((texts, deeds), trajectory)
        for node in walk_tree(root):
            stats.nodes += 1
            stats.steps_run += sum(len(child.episode.steps) - len(node.episode.steps) for child in node.children)
            stats.merged += node.merged
    # equal successes of two trees count as merged, too
    stats.merged += stats.successes + stats.recovered - len(found)
    stats.grounded = stats.successes
    verified = [trajectory for trajectory in found.values() if trajectory.is_valid]
    # the shortest recovery, which only its refused calls tell from the verified ones: it changed nothing else, and has no
    # more turns than they need
    turns = min((len(trajectory.turns()) for trajectory in verified), default=0)
    recoveries = [one for one in found.values() if not one.is_valid and one.clean and len(one.turns()) <= turns]
    recoveries.sort(key=lambda trajectory: len(trajectory.steps))
    return recoveries[:1] + verified, stats


async def _add_rollout(root: TreeNode, players: Participants, config: SearchConfig, stats: TreeStats) -> Trajectory | None:
    """Add one path from root to leaf, and backpropagate its reward; return its trajectory if it meets all of Φ.

    The path is selected by UCB down to a leaf, then simulated to an end. Every node on the way is kept.
    """
    path = [root]
    while not (node := path[-1]).is_terminal:
        if not node.children:
            try:
                node.add_children(await _ask_candidates(node, players, config, stats))
            except (RequestRefused, AgentFault) as error:
                if not node.episode.steps:
                    raise
                fault = fault_from_error(error)
                if isinstance(error, RequestRefused):  # by a server, usually for the dialogue's length
                    boundary = Boundary.USER if node.user_acts_next else Boundary.AGENT
                    fault = Fault(boundary, f"outgrown: {fault.reason}")
                node.episode.end_with_fault(fault)  # other dialogues of the tree stay
                break
        if (child := await node.enter_best_child(config.c_ucb, config.unvisited)) is None:
            break
        path.append(child)
    if not path[-1].is_terminal or path[-1].episode.outcome is Outcome.USER_ERROR:
        update_passability(path)  # no continuation from here, and not the agent's fault
        return None
    leaf = path[-1].episode
    success = leaf.outcome is Outcome.SUCCESS
    verified = success and leaf.is_valid
    backpropagate_reward(path, float(verified))
    stats.rollouts += 1
    stats.successes += verified
    stats.recovered += success and not verified
    stats.first += verified and stats.rollouts == 1
    stats.steps_linear += len(leaf.steps)
    stats.calls_linear += sum(node.requests for node in path[1:])
    stats.tokens_linear += sum(node.cost for node in path)
    return leaf.to_trajectory(players.agent.name, players.users[0].name, leaf.blueprint.seed) if success else None


async def _ask_candidates(node: TreeNode, players: Participants, config: SearchConfig, stats: TreeStats) -> Sequence[Any]:
    """k_user utterances or k_agent messages (role-aware adaptive branching)."""
    if not node.user_acts_next:
        replies = await replies_from(players.agent, node.episode, config.k_agent)
        stats.calls += 1
        stats.sampled += len(replies)
        stats.tokens += max(reply.prompt_tokens for reply in replies) + sum(reply.tokens for reply in replies)
        return replies
    said: list[Utterance] = []  # fewer than k_user if too many users leave their role; these are counted as cost
    for user in players.users:
        if len(said) == config.k_user:
            break
        try:
            said.append(spent := await user.speak(node.episode))
        except UserError as error:
            stats.user_errors[error.reason] = stats.user_errors.get(error.reason, 0) + 1
            spent = error.spent
            stats.calls_linear += spent.requests
            stats.tokens_linear += candidate_tokens(spent)
        stats.calls += spent.requests
        stats.sampled += spent.requests
        stats.tokens += candidate_tokens(spent)
    return list({utterance.text: utterance for utterance in said}.values())
