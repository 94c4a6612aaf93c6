"""The dialogue tree of MCTS-Flow (HomeFlow 3.3.2).

Invariants: a node is a reusable prefix and never changes once entered; a candidate takes effect only when it
is first visited; siblings differ in effect, since one that does what another did is merged into it; a node whose
children are all impassable is impassable, and so is a visited leaf.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from homerl.play.episode import Episode
from homerl.play.loop import heed, waits_for_user
from homerl.play.situation import Reply
from homerl.play.utterance import Utterance

Unvisited = Literal["first", "mean"]


class Role(Enum):
    """Who acts next (r_v)."""

    USER = "user"
    AGENT = "agent"


@dataclass
class Node:
    """v = <h_v, r_v> with visit count N, accumulated reward Q and passability ρ; `merged` children did what others did."""

    episode: Episode
    pending: Reply | Utterance | None = None
    children: list[Node] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0
    passable: bool = True
    cost: int = 0
    requests: int = 1
    effect: Hashable = None
    merged: int = 0

    @property
    def role(self) -> Role:
        return Role.USER if waits_for_user(self.episode) else Role.AGENT

    def enter(self) -> None:
        """Let the pending candidate take effect, on a fork of the parent's episode."""
        if self.pending is None:
            return
        self.episode = self.episode.fork()
        if isinstance(self.pending, Utterance):
            heed(self.episode, self.pending)
            self.effect = self.pending.text, self.pending.intent_id
        else:
            step = self.episode.act(self.pending)
            words = self.episode.words_of(step.message)
            self.effect = step.state_key, words.text.strip(), words.question, step.observations
        self.pending = None

    @property
    def terminal(self) -> bool:
        """The episode is over, or it holds a violation: R is then 0 whatever follows (eq. 4)."""
        return self.episode.outcome is not None or not valid(self.episode)

    def grow(self, candidates: Sequence[Reply | Utterance]) -> None:
        """Add one child a candidate."""
        self.children = [Node(self.episode, c, cost=tokens_of(c), requests=requests_of(c)) for c in candidates]

    def descend(self, c_ucb: float, unvisited: Unvisited = "first") -> Node | None:
        """Enter the child that is selected, or None when all that were left have merged into their siblings."""
        while any(child.passable for child in self.children):
            child = self.select(c_ucb, unvisited)
            if child.pending is None:
                return child
            child.enter()
            if all(other is child or other.pending or other.effect != child.effect for other in self.children):
                return child
            self.children = [other for other in self.children if other is not child]
            self.merged += 1
        return None

    def select(self, c_ucb: float, unvisited: Unvisited = "first") -> Node:
        """The passable child with the highest upper confidence bound (eq. 3). The paper does not say what that of an
        unvisited one is: above all others, which widens the tree at its root first; or the mean of the parent's rewards,
        without a bonus, which goes on where it was, so that the last steps of a prefix are the first to be tried anew."""
        passable = [child for child in self.children if child.passable]
        worth = math.inf if unvisited == "first" else self.value / max(1, self.visits)
        return max(passable, key=lambda child: (child.bound(self.visits, c_ucb) if child.visits else worth, child.visits))

    def bound(self, parent_visits: int, c_ucb: float) -> float:
        """Q/N + c sqrt(2 ln N(parent) / N)."""
        return self.value / self.visits + c_ucb * math.sqrt(2 * math.log(parent_visits) / self.visits)


def tokens_of(candidate: Reply | Utterance) -> int:
    """Tokens that a request for this one message costs."""
    return candidate.prompt_tokens + candidate.tokens


def requests_of(candidate: Reply | Utterance) -> int:
    """How often a model is asked for it: a user may have to be asked twice, or not at all."""
    return candidate.requests if isinstance(candidate, Utterance) else 1


def valid(episode: Episode) -> bool:
    """valid(h_v) of eq. 4: no execution error and no violation so far."""
    return not any(step.facts.blocked or step.facts.error for step in episode.steps)


def backpropagate(path: Sequence[Node], reward: float) -> None:
    """Credit every node from leaf to root, and close what has no passable child left."""
    for node in path:
        node.visits += 1
        node.value += reward
    close(path)


def close(path: Sequence[Node]) -> None:
    """From the end of a path to its root, what has no passable child left is impassable."""
    for node in reversed(path):
        node.passable = any(child.passable for child in node.children)


def walk(node: Node) -> Iterator[Node]:
    """Every node that was entered, parents first."""
    if node.pending is None:
        yield node
        for child in node.children:
            yield from walk(child)
