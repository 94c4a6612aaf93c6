"""A reward of one's own: one file in a folder, and recipes, steps, model cards and stored trajectories know it."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from forked import python

from homerl.envs.core.documents import InputError
from homerl.envs.core.world import StepFacts, ToolCall
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.replay import add_step_rewards, reverify_file
from homerl.play.trajectory import trajectory_to_row, write_rows
from homerl.rewards.composite import PARTS, REWARDS, SETTINGS, RewardWeights, collect_reward_settings, step_rewards
from homerl.rewards.reward import Reward
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, default_world, make_blueprint_of_seed, restore_situation
from homerl.worlds.users import ScriptedUser

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
[EXAMPLE] = re.findall(r"```python\n(.*?)```", GUIDE, re.S)  # `many_calls.py`, as the guide tells it
RECIPE = "homerl: 1\nrun: rlve\nout: {out}\nmodel: {{name: x/y}}\nrewards: {{{rewards}}}\n"
HEAD = """
import json, sys
from pathlib import Path
from homerl.envs.core.documents import InputError
from homerl.envs.core.world import StepFacts, ToolCall
from homerl.play.replay import reverify_file
from homerl.play.trajectory import trajectory_from_row, read_rows, trajectory_to_row, write_rows
from homerl.report.cards.model_card import gather_card_facts, render_model_card
from homerl.app.runs.recipe import load_recipe, recipe_data
from homerl.play.replay import add_step_rewards
from homerl.worlds.registry import restore_situation
from homerl.rewards.composite import RewardWeights, step_rewards

folder = Path(sys.argv[1])


def refusal(name):
    try:
        load_recipe(folder / name)
    except InputError as error:
        return str(error)

"""
USE = """
recipe = load_recipe(folder / "recipe.yaml")
weights = recipe.rewards
(folder / "stage").mkdir()
(folder / "stage" / "recipe.yaml").write_text(json.dumps(recipe_data(recipe)))
calls = tuple(ToolCall("query_status", {"did": str(n)}) for n in range(3))
without = reverify_file(folder / "without.jsonl", restore_situation)
stored = [trajectory_from_row(row) for row in read_rows(folder / "without.jsonl")]
rows = [trajectory_to_row(add_step_rewards(one, weights)) for one in stored]
write_rows(folder / "with.jsonl", rows)
weightless = RewardWeights(many_calls=0)
rows = [trajectory_to_row(add_step_rewards(trajectory_from_row(row), weightless)) for row in rows]
write_rows(folder / "weightless.jsonl", rows)
print(json.dumps({
    "weights": weights.model_dump(),
    "earned": [step_rewards(StepFacts(1, 0.0, 0.0, calls=calls[:n]), weights) for n in (2, 3)],
    "card": render_model_card(gather_card_facts(folder / "stage", "agent", None, "apache-2.0"), "kind", False),
    "without": without,
    "with": reverify_file(folder / "with.jsonl", restore_situation),
    "misspelt": refusal("misspelt.yaml"),
    "negative": refusal("negative.yaml"),
}))
"""


def process(code: str, folder: Path, *own: Path) -> subprocess.CompletedProcess:
    """Run code in a process that looks for rewards in some folders too."""
    return python(HEAD + code, folder, HOMERL_REWARDS=os.pathsep.join(map(str, own)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Recipes that name the example, and trajectories that were stored without it."""
    folder = tmp_path_factory.mktemp("rewards")
    (folder / "own").mkdir()
    (folder / "own" / "many_calls.py").write_text(EXAMPLE, encoding="utf-8")
    recipes = {"recipe": "many_calls: 0.5, max_calls: 2", "misspelt": "many_cals: 0.5", "negative": "max_calls: -1"}
    for name, rewards in recipes.items():
        (folder / f"{name}.yaml").write_text(RECIPE.format(out=folder / "out", rewards=rewards))
    blueprints = [make_blueprint_of_seed(BlueprintRecipe(), "train", seed) for seed in range(2)]
    expert = default_world().expert(ExpertConfig(mistakes=0.0), 0)
    played = [asyncio.run(play(begin_episode(one, EpisodeLimits()), expert, ScriptedUser(0))) for one in blueprints]
    write_rows(folder / "without.jsonl", (trajectory_to_row(add_step_rewards(one, RewardWeights())) for one in played))
    return folder


@pytest.fixture(scope="module")
def told(folder) -> dict:
    done = process(USE, folder, folder / "own")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_recipe_takes_its_weight_and_its_settings(told):
    assert told["weights"]["many_calls"] == 0.5 and told["weights"]["max_calls"] == 2
    assert list(told["weights"]) == [*PARTS, "many_calls", *SETTINGS, "max_calls"]


def test_a_step_earns_it_after_all_others(told):
    few, many = told["earned"]
    assert list(few) == [*PARTS, "many_calls"] and few["many_calls"] == 0 and many["many_calls"] == -0.5


def test_the_model_card_names_it(told):
    assert "| `many_calls` | 0.5 | lost for a step with too many calls |" in told["card"]
    limits = "audit_each_call True, max_code_tokens 1000, max_turns 3, charge_unmet_end True, max_calls 2"
    assert f"Limits: {limits}." in told["card"]


def test_messages_of_recipes_name_it(told):
    assert "rewards.many_cals is not a known key" in told["misspelt"] and "did you mean many_calls?" in told["misspelt"]
    assert "'max_calls' is -1" in told["negative"]


def test_files_stored_without_it_verify_and_files_with_it_where_it_is(told, folder):
    assert "2 trajectories" in told["without"] and "2 trajectories" in told["with"]
    assert "2 trajectories" in reverify_file(folder / "weightless.jsonl", restore_situation)
    with pytest.raises(InputError, match="no reward 'many_calls' to recompute .weight 0.5.*HOMERL_REWARDS"):
        reverify_file(folder / "with.jsonl", restore_situation)


BROKEN = {
    "no_reward": ("x = 1\n", "defines no REWARD"),
    "progress": (EXAMPLE, "there is a 'progress' already"),
    "untyped": (EXAMPLE.replace("max_calls: MaxCalls = 3", "max_calls=3"), "'max_calls' lacks a type or a default"),
    "taken": (
        EXAMPLE.replace("max_calls", "max_turns"),
        "the rewards 'turn_limit' and 'taken' both define the key 'max_turns'",
    ),
    "copy": (EXAMPLE, "a key of `rewards` cannot be named 'copy'"),
    "odd-name": (EXAMPLE, "'odd-name' is no name for a plug-in"),
    "older": (EXAMPLE.replace("card=", 'older={"luck": 1}, card='), "there is no setting 'luck'"),
    "switched": (EXAMPLE.replace("card=", 'switches={"max_calls": "luck"}, card='), "there is no reward 'luck'"),
}
QUICK = ("progress", "odd-name")  # each takes a process


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in BROKEN])
def test_a_file_that_cannot_be_used_is_named(name, tmp_path):
    text, message = BROKEN[name]
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    done = process("", tmp_path, tmp_path)
    assert done.returncode != 0 and message in done.stderr and name in done.stderr.splitlines()[-2]


@pytest.mark.long
def test_a_folder_that_is_not_there_is_named(tmp_path):
    done = process("", tmp_path, tmp_path / "none")
    assert done.returncode != 0 and "there is no such folder" in done.stderr and "HOMERL_REWARDS" in done.stderr


@pytest.mark.long
def test_a_helper_is_no_reward(tmp_path):
    (tmp_path / "_helper.py").write_text("x = 1\n")
    assert process("print(list(RewardWeights.model_fields))", tmp_path, tmp_path).stdout.split("'")[1::2] == [
        *PARTS,
        *SETTINGS,
    ]


def test_a_reward_may_check_its_settings_and_be_switched_by_another():
    def check(settings):
        if settings["most"] > 5:
            raise ValueError(f"'most' is {settings['most']}, more than 5")

    def eager(facts: StepFacts, preserve: bool = False, most: int = 3) -> float:
        return -float(preserve and len(facts.calls) > most)

    reward = Reward(eager, weight=0.1, card="", switches={"preserve": "collateral"}, check=check)
    assert collect_reward_settings(dict(REWARDS) | {"eager": reward}).keys() == SETTINGS.keys() | {"most"}
    with pytest.raises(ValueError, match="more than 5"):
        reward.check({"most": 6})


def test_collateral_switches_progress_and_success():
    facts = StepFacts(1, 0.0, 1.0, side_effects_after=1, last=True, calls=(ToolCall("x", {}),))
    free, gated = step_rewards(facts, RewardWeights()), step_rewards(facts, RewardWeights(collateral=0.2))
    assert (free["progress"], free["success"]) == (1, 1) and (gated["progress"], gated["success"]) == (0, 0)
    assert [name for name, reward in REWARDS.items() if reward.switches] == ["progress", "success"]
