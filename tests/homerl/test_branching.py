"""Forked rollouts: siblings share the root's world and words up to the fork, and are trained on from there alone."""

import asyncio
from collections import Counter

import pytest
import torch

from homerl.agents.transformers_engine import TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import InfraError, UserError
from homerl.play.reverify import first_difference
from homerl.play.scripted_user import ScriptedUser
from homerl.play.trajectory import Outcome
from homerl.train.credit.branch import BranchSettings, planned
from homerl.train.credit.registry import mode_of
from homerl.train.recipe import RLVESettings
from homerl.train.rollout import Player
from homerl.train.supply import episode_metrics, rollout_summary
from homerl.train.tensors import sampled_tokens
from homerl.worlds.homeenv.blueprints.author import make_blueprint
from homerl.worlds.registry import restored
from rewards.composite import RewardWeights

LIMITS = EpisodeLimits(turns=4, steps=6, steps_per_turn=2)
FORKS = planned(BranchSettings(roots=2, siblings=3, horizon=2))


@pytest.fixture
def player(model, tokenizer):
    def make(make_user=ScriptedUser, forks=FORKS, max_tokens=2048) -> Player:
        engine = TransformersEngine(model, tokenizer, 16)
        return Player(engine, tokenizer, make_user, LIMITS, RewardWeights(), max_tokens, forks, group=8)

    return make


def tree(player: Player, task, seed: int = 3):
    torch.manual_seed(0)
    return player.play([make_blueprint(task, "train", seed)] * 8, list(range(8)))


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


@pytest.mark.parametrize(
    "mode", [{"credit": "branch"}, {"credit": "counterfactual", "counterfactual": {"by": "random", "horizon": 1}}]
)
def test_a_root_that_fails_at_its_fork_has_no_siblings(player, task, mode):
    """The dialogue grows too long for the step that would be sampled again."""
    settings = RLVESettings(group=8, **mode)
    forks = mode_of(settings).forks(settings)
    longest = max(rollout.ledger.spans[0][1] for rollout in tree(player(forks=None), task))
    rollouts = tree(player(forks=forks, max_tokens=longest + 1), task)
    group = [rollout.credit_input for rollout in rollouts]
    assert any(len(played.rewards) == 1 for played in group), "some had no second step"
    for played in group:
        assert played.fork is None or len(group[played.fork.parent].rewards) > played.fork.step
    assert [len(row) for row in mode_of(settings).rule(group, settings)] == [len(played.rewards) for played in group]
    mode_of(settings).metrics([group], settings)


def test_groups_are_trees_of_their_own(player, task):
    torch.manual_seed(0)
    blueprints = [make_blueprint(task, "train", seed) for seed in (3, 4) for _ in range(8)]
    rollouts = player().play(blueprints, list(range(16)))
    assert [r.trajectory.blueprint["id"] for r in rollouts] == [b.id for b in blueprints]
    assert all(r.fork is None or r.fork.parent < 2 for r in rollouts)


def test_forks_can_be_played_inside_a_running_loop(player, task):
    async def inside():
        return await player().play_all([make_blueprint(task, "train", 3)] * 8, list(range(8)))

    assert len(asyncio.run(inside())) == 8


# counterfactual: siblings of one step


def counterfactual(by: str, **more: float) -> RLVESettings:
    keys = {"roots": 4, "siblings": 2, "by": by, "horizon": 1, **more}
    return RLVESettings(credit="counterfactual", group=8, counterfactual=keys)


@pytest.mark.parametrize("by", ["surprise", "random"])
def test_counterfactual_siblings_take_one_step_and_are_left_where_the_agent_would_act_again(player, task, by):
    settings = counterfactual(by)
    rollouts = tree(player(forks=mode_of(settings).forks(settings)), task)
    siblings = [rollout for rollout in rollouts if rollout.fork]
    assert len(rollouts) == 8 and siblings and any(sibling.cut for sibling in siblings)
    for sibling in siblings:
        root, step = rollouts[sibling.fork.parent], sibling.fork.step
        assert len(sibling.trajectory.steps) == step + 1 == len(sibling.credit_input.rewards)
        assert sibling.trajectory.steps[:step] == root.trajectory.steps[:step] and sibling.lengths[step] > 0
        assert (sibling.cut is None) == (sibling.trajectory.outcome is not Outcome.CUT)
        assert sibling.credit_input.surprise[:step] == [0.0] * step and sibling.credit_input.surprise[step] > 0
    if by == "surprise":
        most = max(max(r.credit_input.surprise) for r in rollouts if r.fork is None)
        assert any(rollouts[s.fork.parent].credit_input.surprise[s.fork.step] == most for s in siblings)
    credit = mode_of(settings).rule([rollout.credit_input for rollout in rollouts], settings)
    assert [len(row) for row in credit] == [len(rollout.trajectory.steps) for rollout in rollouts]
    assert mode_of(settings).metrics([[r.credit_input for r in rollouts]], settings)["counterfactual/share"] > 0


def test_a_cut_rollout_replays_and_is_no_failure_of_the_policy(player, task):
    settings = counterfactual("surprise")
    rollouts = tree(player(forks=mode_of(settings).forks(settings)), task)
    assert [first_difference(rollout.trajectory, restored) for rollout in rollouts] == [None] * 8
    figures = episode_metrics([rollout_summary(rollout, 0) for rollout in rollouts])
    outcomes = {name: share for name, share in figures.items() if name.startswith("outcome/")}
    assert "outcome/cut" not in outcomes and sum(outcomes.values()) == pytest.approx(1)


def test_a_state_in_which_a_sibling_is_left_is_named_as_the_root_names_it(player, task):
    """Else no value would be known of it: with the root's own words, a sibling is left where the root decided next."""
    settings = counterfactual("surprise")
    rollouts = tree(player(forks=mode_of(settings).forks(settings)), task)
    known = {step.decision for r in rollouts if r.fork is None for step in r.trajectory.steps}
    assert {s.cut for s in rollouts if s.cut} & known


def test_places_that_the_budget_leaves_empty_sample_nothing_and_change_no_credit(player, task):
    """No step is cheap enough for a budget of next to nothing, so all places but the roots' stay empty."""
    full, poor = counterfactual("surprise"), counterfactual("surprise", tokens=1e-6)
    rollouts = tree(player(forks=mode_of(poor).forks(poor)), task)
    roots, rest = rollouts[:4], rollouts[4:]
    assert all(rollout.fork is None for rollout in roots) and all(rollout.fork.steps == 0 for rollout in rest)
    for empty in rest:
        assert empty.cut is not None and not any(empty.lengths) and not any(empty.ledger.mask)
    group = [rollout.credit_input for rollout in rollouts]
    credit = mode_of(poor).rule(group, poor)
    assert credit[:4] == mode_of(full).rule(group[:4], full) and not any(map(any, credit[4:]))
    assert mode_of(poor).metrics([group], poor)["counterfactual/tokens"] == 0
    tokens = sampled_tokens(list(zip(rollouts, credit, strict=True)))
    assert tokens.counts[4:] == [0] * 4 and len(tokens.advantages) == sum(map(sum, (r.lengths for r in roots)))


def test_empty_places_are_not_played_where_a_root_took_no_step(player, task):
    """The first root's user fails before the agent's first step; whoever fills the group asks neither user nor engine."""
    settings, spoken = counterfactual("surprise", tokens=1e-6), []

    class Silent(ScriptedUser):
        async def speak(self, episode):
            spoken.append(self.seed)
            if self.seed < 3:  # the first root's, in each of its attempts
                raise UserError("says nothing")
            return await super().speak(episode)

    rollouts = tree(player(Silent, mode_of(settings).forks(settings)), task)
    assert not rollouts[0].trajectory.steps and len(rollouts) == 8
    assert not any(sum(rollout.lengths) for rollout in rollouts[4:]) and set(spoken) <= {0, 1, 2, 3, 4, 5}
    everybody = tree(player(lambda seed: Silent(0), mode_of(settings).forks(settings)), task)
    assert len(everybody) == 8 and not any(rollout.credit_input.counts for rollout in everybody)


def test_a_budget_bounds_what_siblings_are_expected_to_sample(player, task):
    settings = counterfactual("surprise", tokens=0.5)
    rollouts = tree(player(forks=mode_of(settings).forks(settings)), task)
    spent = sum(
        sum(rollouts[r.fork.parent].lengths[r.fork.step : r.fork.step + 1]) for r in rollouts if r.fork and r.fork.steps
    )
    assert 0 < spent <= 0.5 * sum(sum(r.lengths) for r in rollouts if r.fork is None)
