"""Groups that begin within a dialogue that succeeds: where, and that the steps before are context alone."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.policy.chat_template import encode_messages, render_new_messages
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.replay import first_difference
from homerl.play.trajectory import read_rows, trajectory_from_row, write_rows
from homerl.rewards.composite import RewardWeights
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import synthesise_dataset
from homerl.train.data.prefixes import (
    FLAWLESS,
    GroupPrefix,
    VerifiedTrajectories,
    draw_group_prefix,
    index_verified_trajectories,
    play_demonstration,
)
from homerl.train.data.rollout import Rollout, RolloutPlayer, make_blueprint_cache
from homerl.train.data.rollout_batches import episode_metrics, reward_metrics, summarise_rollout
from homerl.train.recipe import BlueprintSource, PrefixSettings, RLVERecipe
from homerl.train.update.objective import collect_sampled_tokens
from homerl.train.update.rlve import train_rlve
from homerl.worlds.registry import begin_episode, restore_situation, world_of
from homerl.worlds.users import ScriptedUser

LIMITS = EpisodeLimits(turns=4, steps=8, steps_per_turn=3)


@pytest.fixture
def long_blueprint(task):
    """Two wishes, so two turns."""
    return make_home_blueprint(task.model_copy(update={"intents": (2, 2)}), "train", 3)


@pytest.fixture
def group(model, tokenizer, long_blueprint):
    def play(prefix: GroupPrefix) -> list[Rollout]:
        torch.manual_seed(0)
        player = RolloutPlayer(
            TransformersEngine(model, tokenizer, 16), tokenizer, ScriptedUser, LIMITS, RewardWeights(), 2048
        )
        return asyncio.run(player.play_concurrently([long_blueprint] * 4, list(range(4)), prefix))

    return play


def test_a_group_shares_the_experts_steps_and_samples_the_rest(group, tokenizer):
    rollouts = group(GroupPrefix("last", "a"))
    first = rollouts[0].prefix_steps
    assert first >= 1 and {rollout.prefix_steps for rollout in rollouts} == {first}
    for rollout in rollouts:
        assert rollout.trajectory.steps[:first] == rollouts[0].trajectory.steps[:first]
        assert rollout.sampled_lengths[:first] == [0] * first and all(rollout.sampled_lengths[first:])
        assert len(rollout.credit_input.rewards) == len(rollout.trajectory.steps) - first
        assert first_difference(rollout.trajectory, restore_situation) is None
    assert len({tuple(rollout.ledger.ids) for rollout in rollouts}) > 1


def test_the_prompt_is_the_dialogue_so_far(group, tokenizer):
    rollout = group(GroupPrefix("last", "a"))[0]
    messages = rollout.trajectory.messages
    said = [i for i, message in enumerate(messages) if message["role"] == "assistant"][rollout.prefix_steps]
    text = render_new_messages(tokenizer, messages[:said], rollout.trajectory.tools, first=True)
    assert rollout.ledger.ids[: rollout.ledger.prompt_length] == encode_messages(tokenizer, text)


def test_no_token_of_the_expert_is_trained_on(group):
    rollouts = group(GroupPrefix("any", "b"))
    parts = [
        (rollout, [9.0] * rollout.prefix_steps + [1.0] * (len(rollout.trajectory.steps) - rollout.prefix_steps))
        for rollout in rollouts
    ]
    tokens = collect_sampled_tokens(parts)
    assert np.all(tokens.advantages == 1.0) and tokens.rollout_lengths == [
        sum(rollout.sampled_lengths) for rollout in rollouts
    ]


def test_what_the_expert_earned_is_in_no_metric(group):
    rollouts = group(GroupPrefix("last", "a"))
    first = rollouts[0].prefix_steps
    assert sum(sum(parts.values()) for parts in rollouts[0].trajectory.rewards[:first]) > 0
    rows = [summarise_rollout(rollout, 0) for rollout in rollouts]
    figures = episode_metrics(rows) | reward_metrics(rows)
    steps = {int(name.rpartition("/")[2]) for name in figures if name.startswith("reward_by_step/")}
    assert steps == set(range(first, max(len(rollout.trajectory.steps) for rollout in rollouts)))
    earned = [sum(rollout.credit_input.rewards) for rollout in rollouts]
    assert figures["reward"] == pytest.approx(sum(earned) / len(earned))


def test_the_last_turn_begins_with_the_users_last_words(long_blueprint):
    opening = begin_episode(long_blueprint, LIMITS)
    start = asyncio.run(GroupPrefix("last", "c")(opening))
    assert start.messages[-1]["role"] == "user" and start.turn == 2 and start.steps and not opening.steps
    again = asyncio.run(GroupPrefix("last", "c")(opening))
    assert again.messages == start.messages


def test_any_step_is_taken_but_the_first_and_the_last_word(long_blueprint):
    opening = begin_episode(long_blueprint, LIMITS)
    every = asyncio.run(play_demonstration(opening, 0))[:-1]
    found = {len(asyncio.run(GroupPrefix("any", str(seed))(opening)).steps) for seed in range(40)}
    assert found == set(range(1, len(every) - 1))


def test_a_dialogue_that_cannot_succeed_is_played_from_the_start(long_blueprint):
    opening = begin_episode(long_blueprint, EpisodeLimits(turns=1, steps=8))
    assert asyncio.run(GroupPrefix("any", "d")(opening)) is opening


# nodes of a search


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory, task):
    """A synthesis of two wishes each, and the recipe of its blueprints."""
    recipe = task.model_copy(update={"intents": (2, 2)})
    config = SynthesisConfig(recipe=recipe, blueprints=4, limits=LIMITS)
    out = tmp_path_factory.mktemp("synth")
    synthesise_dataset(config, out, 0, lambda done, of: None)
    return out, recipe


def source_of(recipe, **keys: int) -> BlueprintSource:
    return BlueprintSource.model_validate({"recipe": recipe.model_dump(), "count": 4, "first_seed": 0, **keys})


def verified_of(synthesis: Path, source: BlueprintSource) -> VerifiedTrajectories:
    return index_verified_trajectories(PrefixSettings(synthesis=str(synthesis)), source, make_blueprint_cache(source.recipe))


def test_a_key_that_blueprints_have_got_since_changes_none(synthesis, tmp_path):
    out, recipe = synthesis
    rows = list(read_rows(out / "trajectories.jsonl"))
    older = [
        {**row, "blueprint": json.dumps({k: v for k, v in json.loads(row["blueprint"]).items() if k != "prompt"})}
        for row in rows
    ]
    write_rows(tmp_path / "older.jsonl", older)
    assert verified_of(tmp_path / "older.jsonl", source_of(recipe)).lines.keys() == {row["id"] for row in rows}


def test_groups_begin_at_nodes_of_the_search(synthesis):
    """A node is a prefix of a verified trajectory: the same messages and facts, in a world that goes on from there."""
    out, recipe = synthesis
    verified = verified_of(out, source_of(recipe))
    known = [trajectory_from_row(row) for row in read_rows(out / "trajectories.jsonl")]
    assert len(known) > 4, "one trajectory a blueprint proves little"
    for seed in range(4):
        nodes = set()
        opening = begin_episode(make_home_blueprint(recipe, "train", seed), LIMITS)
        mine = [one for one in known if one.blueprint["id"] == opening.blueprint.id]
        for number in range(30):
            start = asyncio.run(GroupPrefix("any", f"{seed} {number}", verified)(opening))
            size = len(start.messages)
            paths = [one for one in mine if one.messages[:size] == tuple(start.messages)]
            assert paths and tuple(start.steps) == paths[0].steps[: len(start.steps)] and not opening.steps
            played = asyncio.run(play(start, world_of(start.blueprint).expert(FLAWLESS, 0), ScriptedUser(0)))
            assert played.success, "the expert goes on from a node to the end"
            nodes.add(tuple(map(str, start.messages)))
        assert len(nodes) > 1


def test_a_run_trains_on_what_follows_nodes(synthesis, tiny, tmp_path):
    out, recipe = synthesis
    settings = RLVERecipe.model_validate(
        {
            "homerl": 1, "run": "rlve", "cpu": True, "seed": 6, "out": tmp_path, "parallel": "none",
            "model": {"name": str(tiny), "dtype": "float32"}, "wandb": {"mode": "disabled"},
            "blueprints": source_of(recipe).model_dump(), "limits": asdict(LIMITS), "rewards": {"audit": 0.0},
            "rlve": {
                "updates": 1, "blueprints_per_update": 2, "group": 2, "max_tokens": 8, "max_episode_tokens": 2048,
                "save_steps": None, "log_steps": 1, "kl": 0.0,
                "curriculum": {"prefix": {"share": 1.0, "fade": False, "synthesis": str(out)}},
            },
        }
    )  # fmt: skip
    train_rlve(settings)
    line = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert line["curriculum/prefixed"] == 1 and "reward_by_step/progress/0" not in line
    known = [trajectory_from_row(row) for row in read_rows(out / "trajectories.jsonl")]
    for row in read_rows(tmp_path / "rollouts/update_000001.jsonl"):
        assert any(trajectory_from_row(row).steps[:1] == one.steps[:1] for one in known)


def test_a_blueprint_that_the_search_did_not_solve_is_played_from_the_start(synthesis, task):
    out, recipe = synthesis
    verified = verified_of(out, source_of(recipe, count=5))
    opening = begin_episode(make_home_blueprint(recipe, "train", 4), LIMITS)
    assert asyncio.run(GroupPrefix("any", "a", verified)(opening)) is opening


def test_a_trajectory_that_does_not_succeed_within_the_limits_is_not_begun_within(synthesis):
    out, recipe = synthesis
    verified = verified_of(out, source_of(recipe))
    opening = begin_episode(make_home_blueprint(recipe, "train", 0), EpisodeLimits(turns=1, steps=8))
    assert asyncio.run(GroupPrefix("any", "a", verified)(opening)) is opening


def test_a_synthesis_of_other_blueprints_is_refused(synthesis, task):
    out, recipe = synthesis
    with pytest.raises(InputError, match=r"rlve\.curriculum\.prefix\.synthesis: .*no trajectory of the 4 blueprints"):
        verified_of(out, source_of(recipe, first_seed=1000))
    with pytest.raises(InputError, match=r"another blueprint train-\d than this recipe"):
        verified_of(out, source_of(task))
    with pytest.raises(InputError, match="not a trajectory"):
        verified_of(out / "blueprints.jsonl", source_of(recipe))
    with pytest.raises(InputError, match="no such file"):
        verified_of(out / "missing", source_of(recipe))


def test_the_share_fades():
    faded = PrefixSettings(share=1.0)
    early = [draw_group_prefix(faded, 0, number, 1000) is not None for number in range(100)]
    late = [draw_group_prefix(faded, 0, number, 1000) is not None for number in range(900, 1000)]
    assert sum(early) > 80 and sum(late) < 20
    assert (
        all(draw_group_prefix(PrefixSettings(share=1.0, fade=False), 0, n, 9) for n in range(9))
        and draw_group_prefix(None, 0, 0, 9) is None
    )
