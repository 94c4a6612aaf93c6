"""Forked rollouts: siblings share the root's world and words up to the fork, and are trained on from there alone."""

import asyncio
from collections import Counter

import pytest
import torch

from homerl.envs.homeenv.tasks.author import make_blueprint
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import InfraError
from homerl.play.reverify import first_difference
from homerl.play.scripted_user import ScriptedUser
from homerl.play.trajectory import Outcome
from homerl.rewards.composite import RewardWeights
from homerl.train.credit.branch import BranchSettings, planned
from homerl.train.credit.registry import mode_of
from homerl.train.data.forks import play_forked
from homerl.train.data.rollout import Player
from homerl.train.recipe import RLVESettings
from homerl.train.update.tensors import sampled_tokens
from homerl.worlds.registry import restored

LIMITS = EpisodeLimits(turns=4, steps=6, steps_per_turn=2)
FORKS = planned(BranchSettings(roots=2, siblings=3, horizon=2))


@pytest.fixture
def player(model, tokenizer):
    def make(make_user=ScriptedUser, max_tokens=2048) -> Player:
        return Player(TransformersEngine(model, tokenizer, 16), tokenizer, make_user, LIMITS, RewardWeights(), max_tokens)

    return make


def tree(player: Player, task, forks=FORKS):
    torch.manual_seed(0)
    return asyncio.run(play_forked(player, make_blueprint(task, "train", 3), list(range(8)), forks))


def test_siblings_share_the_roots_prefix_and_nothing_else(player, task, tokenizer):
    rollouts = tree(player(), task)
    siblings = [rollout for rollout in rollouts if rollout.fork]
    assert len(rollouts) == 8 and len(siblings) >= 2, "no fork was reached: the test proves nothing"
    for sibling in siblings:
        root, step = rollouts[sibling.fork.parent], sibling.fork.step
        assert root.fork is None and sibling.ledger.shared == step
        assert sibling.trajectory.steps[:step] == root.trajectory.steps[:step]
        assert sibling.trajectory.steps[step].decision == root.trajectory.steps[step].decision
        start = sibling.ledger.spans[step][0]
        assert sibling.ledger.prompt_length == start == root.ledger.spans[step][0]
        assert sibling.ledger.ids[:start] == root.ledger.ids[:start] and not any(sibling.ledger.mask[:start])
        assert sibling.lengths[:step] == [0] * step and all(sibling.lengths[step:])
    said = {tuple(s.ledger.ids[s.ledger.prompt_length :]) for s in siblings}
    assert len(said) > 1, "siblings are sampled, not copied"


def test_every_rollout_replays_from_its_blueprint(player, task):
    assert [first_difference(rollout.trajectory, restored) for rollout in tree(player(), task)] == [None] * 8


def test_the_same_seeds_grow_the_same_tree(player, task):
    first, second = tree(player(), task), tree(player(), task)
    assert [r.ledger for r in first] == [r.ledger for r in second] and [r.fork for r in first] == [r.fork for r in second]


def test_credit_of_a_shared_prefix_falls_on_nothing(player, task):
    rollouts = tree(player(), task)
    sibling = next(rollout for rollout in rollouts if rollout.fork)
    steps = len(sibling.trajectory.steps)
    found = sampled_tokens([(sibling, [float(i + 1) for i in range(steps)])])
    spans = list(enumerate(sibling.ledger.spans))[sibling.ledger.shared :]
    assert found.advantages.tolist() == [i + 1 for i, (start, end) in spans for _ in range(start, end)]
    assert found.sequences[0].targets.tolist() == [place for _, (start, end) in spans for place in range(start, end)]


def test_a_sibling_whose_user_fails_is_sampled_again_from_its_fork(player, task):
    """The users of the first siblings that let theirs speak fail, once each."""
    made, failed = Counter[int](), list[int]()

    class Fails(ScriptedUser):
        def __init__(self, seed: int) -> None:
            super().__init__(seed)
            made[seed] += 1
            self.sibling = made[seed] > 1

        async def speak(self, episode):
            if self.sibling and len(failed) < 2:
                failed.append(len(episode.steps))
                raise InfraError("gone")
            return await super().speak(episode)

    rollouts = tree(player(Fails), task)
    assert failed and any(rollout.fork for rollout in rollouts)
    assert all(rollout.trajectory.outcome is not Outcome.INFRA_ERROR for rollout in rollouts)
    for sibling in (rollout for rollout in rollouts if rollout.fork):
        root = rollouts[sibling.fork.parent].trajectory
        assert sibling.trajectory.steps[: sibling.fork.step] == root.steps[: sibling.fork.step]


def test_a_root_that_fails_at_its_fork_has_no_siblings(player, task):
    """The dialogue grows too long for the step that would be sampled again."""
    settings = RLVESettings(group=8, credit="branch")
    mode, blueprint = mode_of(settings), make_blueprint(task, "train", 3)
    longest = max(rollout.ledger.spans[0][1] for rollout in player().play([blueprint] * 8, list(range(8))))
    rollouts = tree(player(max_tokens=longest + 1), task, mode.forks(settings))
    group = [rollout.credit_input for rollout in rollouts]
    assert any(len(played.rewards) == 1 for played in group), "some had no second step"
    for played in group:
        assert played.fork is None or len(group[played.fork.parent].rewards) > played.fork.step
    assert [len(row) for row in mode.rule(group, settings)] == [len(played.rewards) for played in group]
