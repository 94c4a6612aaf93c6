"""MCTS-Flow: equation 3 in numbers, branching, passability, and what a search returns."""

import asyncio
import json
import math
from dataclasses import replace
from functools import cache

import pytest
from tree_search import search_tree

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import UserError
from homerl.play.situation import Observation, Reply, Utterance
from homerl.play.trajectory import Outcome, trajectory_to_row
from homerl.synth import mcts
from homerl.synth.mcts import Participants, SearchConfig, TreeNode, backpropagate_reward, search_forest, walk_tree
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

CONFIG = SearchConfig(rollouts=8)


@cache
def blueprints(count: int = 30) -> tuple[Blueprint, ...]:
    return tuple(make_home_blueprint(BlueprintRecipe(), "train", seed) for seed in range(count))


def root(seed: int = 0) -> TreeNode:
    return TreeNode(begin_episode(blueprints()[seed]))


def grown(
    blueprint: Blueprint,
    mistakes: float,
    config: SearchConfig = CONFIG,
    limits: EpisodeLimits = EpisodeLimits(),
):
    """(trajectories, statistics, the tree's root) of a search."""
    kept = []

    class Kept(TreeNode):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            kept.append(self)

    users = [ScriptedUser(blueprint.seed + i) for i in range(config.k_user)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcts, "TreeNode", Kept)  # the root alone is made there
        found, stats = asyncio.run(search_tree(blueprint, Expert(blueprint.seed, mistakes), users, config, limits))
    return found, stats, kept[0]


def test_ucb_is_equation_3():
    node = TreeNode(None, visits=3, value=2.0)
    assert node.upper_confidence_bound(10, 1.0) == pytest.approx(2 / 3 + math.sqrt(2 * math.log(10) / 3))
    assert node.upper_confidence_bound(10, 0.5) == pytest.approx(1.2861, abs=1e-4)
    assert node.upper_confidence_bound(10, 0.0) == pytest.approx(2 / 3)
    assert TreeNode(None, visits=1, value=1.0).upper_confidence_bound(1, 1.4) == 1.0


def test_selection_takes_the_highest_bound_among_the_passable():
    parent = root()
    parent.visits = 12
    parent.children = [
        TreeNode(None, visits=8, value=6.0),
        TreeNode(None, visits=2, value=1.0),
        TreeNode(None, visits=1, value=1.0, passable=False),
    ]
    assert parent.select_child(1.0) is parent.children[1], "0.5 + sqrt(ln 12) beats 0.75 + sqrt(ln 12 / 4)"
    assert parent.select_child(0.1) is parent.children[0]
    parent.children.append(TreeNode(None))
    assert parent.select_child(1.0) is parent.children[3], "the unvisited come first"
    parent.value = 9.0
    assert parent.select_child(0.1, "mean") is parent.children[0], "0.75 and a bonus beats the mean of 0.75"
    parent.value = 11.0
    assert parent.select_child(0.1, "mean") is parent.children[3]


@pytest.mark.long
def test_unvisited_by_the_mean_shares_longer_prefixes_and_finds_about_as_much():
    """At equal rollouts and the same candidates: fewer steps are run, since what changes is the end."""
    ways = {}
    for unvisited in ("first", "mean"):
        config = SearchConfig(rollouts=8, unvisited=unvisited)
        runs = [grown(blueprint, 0.4, config)[:2] for blueprint in blueprints(60)]
        ways[unvisited] = [sum(values) for values in zip(*((len(f), s.steps_run, s.steps_linear) for f, s in runs))]
    (found, run, linear), (found_mean, run_mean, linear_mean) = ways["first"], ways["mean"]
    assert run_mean / linear_mean < run / linear and found_mean >= 0.85 * found


def test_backpropagation_credits_ancestors_and_closes_what_is_exhausted():
    parent = root()
    left, right = TreeNode(parent.episode), TreeNode(parent.episode)
    leaf = TreeNode(parent.episode)
    parent.children, left.children = [left, right], [leaf]
    backpropagate_reward([parent, left, leaf], 1.0)
    assert [(n.visits, n.value, n.passable) for n in (parent, left, leaf, right)] == [
        (1, 1.0, True),
        (1, 1.0, False),
        (1, 1.0, False),
        (0, 0.0, True),
    ]
    backpropagate_reward([parent, right], 0.0)
    assert (parent.visits, parent.value, parent.passable) == (2, 1.0, False)


def test_a_candidate_takes_effect_on_a_fork_and_only_when_entered():
    parent = root()
    parent.add_children([Utterance("please", 1), Utterance("", None)])
    first, second = parent.children
    assert list(walk_tree(parent)) == [parent]
    asyncio.run(first.apply_candidate())
    assert not first.user_acts_next and parent.user_acts_next and len(parent.episode.messages) == 1
    asyncio.run(first.apply_candidate())
    assert len(first.episode.messages) == 2, "entering twice changes nothing"
    asyncio.run(second.apply_candidate())
    assert second.is_terminal and second.episode.outcome is Outcome.USER_ERROR, "as in play, silence ends it"
    first.add_children([Reply({"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "nonsense", "arguments": "{}"}}]})])  # fmt: skip
    (violation,) = first.children
    asyncio.run(violation.apply_candidate())
    assert violation.is_terminal and not violation.episode.is_valid and violation.episode.outcome is None


@pytest.mark.parametrize("opening", [[], [{"role": "user", "content": "good morning"}]])
def test_whatever_was_said_before_the_user_speaks_first(opening):
    first = root()
    first.episode.messages[:] = opening
    assert first.user_acts_next


@pytest.mark.parametrize(("k_agent", "k_user"), [(3, 1), (2, 2), (1, 1)])
def test_branching_is_asymmetric(k_agent, k_user):
    config = SearchConfig(k_agent=k_agent, k_user=k_user, rollouts=6)
    widths = {False: set(), True: set()}  # of the agent's nodes, and of the user's
    for blueprint in blueprints()[:12]:
        for node in walk_tree(grown(blueprint, 0.5, config)[2]):
            if node.children:
                widths[node.user_acts_next].add(len(node.children))
    assert max(widths[False]) == k_agent and max(widths[True]) == k_user
    assert min(widths[False]) >= 1


def test_every_trajectory_is_valid_satisfies_all_conditions_and_is_found_once():
    total = 0
    for blueprint in blueprints():
        found, stats, tree = grown(blueprint, 0.4)
        total += len(found)
        assert stats.successes == len(found) <= stats.rollouts <= CONFIG.rollouts
        assert stats.to_row()["difficulty"] == pytest.approx(1 - len(found) / stats.rollouts)
        for trajectory in found:
            assert trajectory.outcome is Outcome.SUCCESS and trajectory.progress == 1.0 and trajectory.is_valid
            assert trajectory.clean and trajectory.blueprint["id"] == blueprint.id
        assert len({json.dumps(t.messages) for t in found}) == len(found)
        assert tree.value == len(found) and tree.visits == stats.rollouts
    assert total > 60


def test_all_simulated_nodes_are_kept_and_add_up():
    for blueprint in blueprints()[:10]:
        _, stats, tree = grown(blueprint, 0.5)
        nodes = list(walk_tree(tree))
        assert len(nodes) == stats.nodes
        leaves = [node for node in nodes if node.is_terminal]
        assert len(leaves) == stats.rollouts and all(node.visits == 1 and not node.passable for node in leaves)
        for node in nodes:
            inner = [child for child in node.children if child.pending is None]
            if not node.is_terminal:
                assert node.visits == sum(child.visits for child in inner)
                assert node.value == sum(child.value for child in inner)
                assert node.passable == any(child.passable for child in node.children)
            for child in inner:
                before, after = node.episode.messages, child.episode.messages
                assert after[: len(before)] == before and len(after) > len(before), "a child goes on from its parent"
        assert stats.steps_run <= stats.steps_linear


def test_an_exhausted_tree_ends_the_search():
    found, stats, tree = grown(blueprints()[0], 0.0, SearchConfig(k_agent=1, rollouts=50))
    assert stats.rollouts == len(found) == 1 and not tree.passable


def test_new_trees_are_searched_until_so_many_calls_were_made():
    seeds = range(100)
    players = [Participants(Expert(seed, 0.4), [ScriptedUser(seed)]) for seed in seeds]
    config, limits = SearchConfig(k_agent=1, rollouts=100), EpisodeLimits()
    few, many = (asyncio.run(search_forest(blueprints()[0], players, config, limits, calls)) for calls in (10, 100))
    for calls, (_, stats) in ((10, few), (100, many)):
        assert calls <= stats.calls < calls + limits.steps + limits.turns
    assert len(many[0]) > len(few[0])


def test_a_hopeless_blueprint_yields_nothing_and_is_hard():
    several = next(blueprint for blueprint in blueprints() if len(blueprint.intents) > 1)  # more than one step can do
    found, stats, tree = grown(several, 1.0, SearchConfig(rollouts=4), EpisodeLimits(turns=1, steps=1))
    assert not found and stats.to_row()["difficulty"] == 1.0 and stats.rollouts == 3 and not tree.passable


def test_search_beats_linear_sampling_where_the_agent_errs():
    """The reason for the tree: of equally many rollouts, more blueprints end with a verified trajectory."""
    config = SearchConfig(rollouts=5)
    tree = sum(bool(grown(blueprint, 0.5, config)[0]) for blueprint in blueprints())
    line = sum(bool(grown(blueprint, 0.5, SearchConfig(k_agent=1, rollouts=1))[0]) for blueprint in blueprints())
    assert tree > line


def test_the_same_seed_gives_the_same_bytes():
    for blueprint in blueprints()[:5]:
        one, other = grown(blueprint, 0.5), grown(blueprint, 0.5)
        assert [json.dumps(trajectory_to_row(t)) for t in one[0]] == [
            json.dumps(trajectory_to_row(t)) for t in other[0]
        ] and one[1] == other[1]


class Moody(ScriptedUser):
    """Leaves its role where it is told to, at a price."""

    def __init__(self, seed: int, strays: bool) -> None:
        super().__init__(seed)
        self.strays = strays

    async def speak(self, episode: Episode) -> Utterance:
        said = await super().speak(episode)
        if self.strays:
            raise UserError("not me", "leak", Utterance("", None, 7, 30, 2))
        return replace(said, tokens=5, prompt_tokens=20)


def test_users_that_leave_their_role_cost_what_they_cost():
    blueprint = next(blueprint for blueprint in blueprints() if len(blueprint.intents) == 1)
    config = SearchConfig(k_agent=1, k_user=1, rollouts=1)
    costs = []
    for strays in (False, True):
        users = [Moody(0, strays), Moody(0, False)]
        found, stats = asyncio.run(search_tree(blueprint, Expert(0), users, config))
        assert len(found) == 1 and stats.user_errors == ({"leak": 1} if strays else {})
        assert (stats.calls, stats.tokens) == (stats.calls_linear, stats.tokens_linear)
        costs.append((stats.calls, stats.tokens))
    assert costs[1] == (costs[0][0] + 2, costs[0][1] + 37)


class Leaves(ScriptedUser):
    """Speaks once, and then goes without asking anybody."""

    async def speak(self, episode: Episode) -> Utterance:
        return await super().speak(episode) if episode.turn == 0 else Utterance("", requests=0)


class Idle:
    """Claims that all is done."""

    name = "idle"

    async def propose(self, observation: Observation, n: int = 1):
        return [Reply({"role": "assistant", "content": "Done."})]


def test_a_user_whose_patience_ends_asks_for_nothing():
    _, stats = asyncio.run(search_tree(blueprints()[0], Idle(), [Leaves(0)], SearchConfig(k_agent=1, k_user=1, rollouts=1)))
    assert stats.rollouts == 1 and stats.calls == stats.calls_linear == stats.sampled == 2


def test_an_expert_that_sees_the_home_leaves_out_what_the_home_would_refuse():
    recipe = BlueprintRecipe.model_validate({"home": {"scale": "simple"}})
    paused = make_home_blueprint(recipe, "train", 894)  # one of its players is paused by the time that it is to be
    found, _ = asyncio.run(search_tree(paused, Expert(seed=894, mistakes=0.25, minimal=True), [ScriptedUser(894)]))
    assert found


class Both:
    """An expert that also considers to say nothing, before or after."""

    name = "both"

    def __init__(self, first: bool) -> None:
        self.expert, self.first = Expert(0), first

    async def consult(self, episode: Episode, n: int = 1):
        (right,) = await self.expert.consult(episode)
        silent = Reply({"role": "assistant", "content": ""})
        return [silent, right] if self.first else [right, silent]


@pytest.mark.parametrize("first", [True, False], ids=["silence first", "silence last"])
def test_a_success_is_not_merged_into_silence(first):
    recipe = BlueprintRecipe.model_validate({"families": {"query": 1}, "intents": [1, 1]})
    config, limits = SearchConfig(k_agent=2), EpisodeLimits(turns=1)
    for seed in range(3):
        asked = make_home_blueprint(recipe, "train", seed)
        found, _ = asyncio.run(search_tree(asked, Both(first), [ScriptedUser(0)], config, limits))
        assert len(found) == 1


@pytest.mark.parametrize("subcategory", ["coreference", "correction"])
def test_one_rollout_runs_as_many_steps_as_it_has(subcategory):
    """Neither the earlier dialogue nor a user who stops is a step."""
    recipe = BlueprintRecipe.model_validate({"families": {f"multi_turn/{subcategory}": 1}, "intents": [1, 1]})
    blueprint = make_home_blueprint(recipe, "train", 0)
    assert blueprint.history
    for agent, user in ((Expert(0), ScriptedUser(0)), (Idle(), Leaves(0))):
        _, stats = asyncio.run(search_tree(blueprint, agent, [user], SearchConfig(k_agent=1, rollouts=1)))
        assert stats.steps_run == stats.steps_linear > 0


@pytest.mark.parametrize("config", [CONFIG, pytest.param(SearchConfig(rollouts=8, k_user=2), marks=pytest.mark.long)])
def test_a_recovery_is_told_from_verified_dialogues_by_its_refused_calls_alone(config):
    """It comes first, it is the one that is not valid, and it guides no search."""
    recovered = 0
    for blueprint in blueprints():
        found, stats, root = grown(blueprint, 0.4, config.model_copy(update={"recoveries": 1.0}))
        verified = [trajectory for trajectory in found if trajectory.is_valid]
        assert found[-len(verified) :] == verified and len(found) - len(verified) <= 1 and all(t.success for t in found)
        assert stats.successes == root.value and stats.merged >= 0
        for recovery in found[: -len(verified)]:
            recovered += 1
            assert recovery.clean and len(recovery.turns()) <= min(len(one.turns()) for one in verified)
            assert any("refused" in seen or "Error" in seen for step in recovery.steps for seen in step.observations)
    assert recovered > len(blueprints()) / 4


def test_recoveries_are_of_a_share_of_the_blueprints():
    """Without them a search ends at each refusal, as the paper's does."""

    def recovers(blueprint: Blueprint, share: float) -> bool:
        found, stats, _ = grown(blueprint, 0.4, CONFIG.model_copy(update={"recoveries": share}))
        assert stats.recovered > 0 or all(trajectory.is_valid for trajectory in found)
        return not all(trajectory.is_valid for trajectory in found)

    some, every = (sum(recovers(blueprint, share) for blueprint in blueprints()) for share in (0.5, 1.0))
    assert 0 < some < every and not any(recovers(blueprint, 0.0) for blueprint in blueprints()[:10])
