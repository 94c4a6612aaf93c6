"""The dialogue tree of MCTS-Flow (HomeFlow 3.3.2).

Invariants:
- A node is a reusable prefix and never changes once it was entered.
- A candidate takes effect only at its first visit.
- Siblings differ in effect, because a child with the effect of another is merged into it.
- A visited leaf is impassable, and so is a node whose children all are.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from homerl.play.episode import Episode
from homerl.play.loop import apply_utterance, waits_for_user
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome
from homerl.play.utterance import Utterance

Unvisited = Literal["first", "mean"]


class NodeRole(Enum):
    """Who acts next (r_v)."""

    USER = "user"
    AGENT = "agent"


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
    def next_role(self) -> NodeRole:
        """Whether the user or the agent acts next."""
        return NodeRole.USER if waits_for_user(self.episode) else NodeRole.AGENT

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
