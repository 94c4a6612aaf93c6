"""Groups that begin within an expert's dialogue: where, and that the expert's steps are context alone."""

import asyncio

import numpy as np
import pytest
import torch

from homerl.agents.policy import TransformersEngine, encode, render_new
from homerl.play.episode import EpisodeLimits
from homerl.play.reverify import first_difference
from homerl.play.scripted_user import ScriptedUser
from homerl.train.demonstration import demonstration
from homerl.train.prefixes import Prefix, prefix_of
from homerl.train.recipe import PrefixSettings, RLVESettings
from homerl.train.rlve import part_totals
from homerl.train.rollout import Player, Rollout
from homerl.train.supply import episode_metrics, rollout_summary
from homerl.train.tensors import sampled_tokens
from homerl.worlds.homeenv.blueprints.author import make_blueprint
from homerl.worlds.registry import begin, restored
from rewards.composite import RewardWeights

LIMITS = EpisodeLimits(turns=4, steps=8, steps_per_turn=3)


@pytest.fixture
def long_blueprint(task):
    """Two wishes, so two turns."""
    return make_blueprint(task.model_copy(update={"intents": (2, 2)}), "train", 3)


@pytest.fixture
def group(model, tokenizer, long_blueprint):
    def play(prefix: Prefix) -> list[Rollout]:
        torch.manual_seed(0)
        player = Player(TransformersEngine(model, tokenizer, 16), tokenizer, ScriptedUser, LIMITS, RewardWeights(), 2048)
        return asyncio.run(player.play_all([long_blueprint] * 4, list(range(4)), prefix))

    return play


def test_a_group_shares_the_experts_steps_and_samples_the_rest(group, tokenizer):
    rollouts = group(Prefix("last", "a"))
    made = rollouts[0].made
    assert made >= 1 and {rollout.made for rollout in rollouts} == {made}
    for rollout in rollouts:
        assert rollout.trajectory.steps[:made] == rollouts[0].trajectory.steps[:made]
        assert rollout.lengths[:made] == [0] * made and all(rollout.lengths[made:])
        assert len(rollout.credit_input.rewards) == len(rollout.trajectory.steps) - made
        assert first_difference(rollout.trajectory, restored) is None
    assert len({tuple(rollout.ledger.ids) for rollout in rollouts}) > 1


def test_the_prompt_is_the_dialogue_so_far(group, tokenizer):
    rollout = group(Prefix("last", "a"))[0]
    messages = rollout.trajectory.messages
    said = [i for i, message in enumerate(messages) if message["role"] == "assistant"][rollout.made]
    text = render_new(tokenizer, messages[:said], rollout.trajectory.tools, first=True)
    assert rollout.ledger.ids[: rollout.ledger.prompt_length] == encode(tokenizer, text)


def test_no_token_of_the_expert_is_trained_on(group):
    rollouts = group(Prefix("any", "b"))
    parts = [
        (rollout, [9.0] * rollout.made + [1.0] * (len(rollout.trajectory.steps) - rollout.made)) for rollout in rollouts
    ]
    tokens = sampled_tokens(parts)
    assert np.all(tokens.advantages == 1.0) and tokens.counts == [sum(rollout.lengths) for rollout in rollouts]


def test_what_the_expert_earned_is_in_no_metric(group):
    rollouts = group(Prefix("last", "a"))
    made = rollouts[0].made
    assert sum(sum(parts.values()) for parts in rollouts[0].trajectory.rewards[:made]) > 0
    figures = episode_metrics([rollout_summary(rollout) for rollout in rollouts])
    steps = {int(name.rpartition("/")[2]) for name in figures if name.startswith("reward_by_step/")}
    assert steps == set(range(made, max(len(rollout.trajectory.steps) for rollout in rollouts)))
    for rollout in rollouts:
        assert sum(part_totals(rollout).values()) == pytest.approx(sum(rollout.credit_input.rewards))


def test_the_last_turn_begins_with_the_users_last_words(long_blueprint):
    opening = begin(long_blueprint, LIMITS)
    start = asyncio.run(Prefix("last", "c")(opening))
    assert start.messages[-1]["role"] == "user" and start.turn == 2 and start.steps and not opening.steps
    again = asyncio.run(Prefix("last", "c")(opening))
    assert again.messages == start.messages


def test_any_step_is_taken_but_the_first_and_the_last_word(long_blueprint):
    opening = begin(long_blueprint, LIMITS)
    every = asyncio.run(demonstration(opening, 0))[:-1]
    found = {len(asyncio.run(Prefix("any", str(seed))(opening)).steps) for seed in range(40)}
    assert found == set(range(1, len(every) - 1))


def test_a_dialogue_that_cannot_succeed_is_played_from_the_start(long_blueprint):
    opening = begin(long_blueprint, EpisodeLimits(turns=1, steps=8))
    assert asyncio.run(Prefix("any", "d")(opening)) is opening


def test_the_share_fades():
    faded = PrefixSettings(share=1.0)
    early = [prefix_of(faded, 0, number, 1000) is not None for number in range(100)]
    late = [prefix_of(faded, 0, number, 1000) is not None for number in range(900, 1000)]
    assert sum(early) > 80 and sum(late) < 20
    assert (
        all(prefix_of(PrefixSettings(share=1.0, fade=False), 0, n, 9) for n in range(9)) and prefix_of(None, 0, 0, 9) is None
    )


def test_forking_modes_are_refused():
    with pytest.raises(ValueError, match=r"curriculum\.prefix.*credit: branch"):
        RLVESettings.model_validate({"credit": "branch", "curriculum": {"prefix": {}}})
