"""Branching factors compared: equal blueprints, budgets that are kept, datasets of one size."""

import json
import random

import pytest
from command import homerl

from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.models.endpoint.settings import UserSettings
from homerl.play.course import Behaviours
from homerl.play.trajectory import from_row, read_rows
from homerl.synth.grid import CELLS, balanced_rows, grid, grid_table, write_grid
from homerl.synth.mcts import CallBudget
from homerl.synth.recipe import SynthesisConfig
from homerl.worlds.contract import ExpertConfig

RECIPE = BlueprintRecipe.model_validate({"home": {"devices": (3, 6)}, "intents": (1, 2)})
CONFIG = SynthesisConfig(blueprints=20, recipe=RECIPE, expert=ExpertConfig(mistakes=0.4))


@pytest.fixture(scope="module")
def trees():
    return grid(CONFIG, None, lambda: None, keep=True)


def test_a_tree_grows_from_the_same_first_dialogue_and_finds_more(trees):
    figures = {(cell.k_user, cell.k_agent): cell.figures() for cell in trees}
    assert list(figures) == list(CELLS) and len({f["base"] for f in figures.values()}) == 1
    line, tree = figures[1, 1], figures[1, 3]
    assert line["explored"] == 0 and line["trajectories"] == line["base"] and line["steps_saved"] == 0
    assert tree["success"] > line["success"] and tree["explored"] > 0
    assert line["calls"] == line["sampled"] and tree["sampled"] > tree["calls"]
    assert all(f["interval"][0] <= f["success"] <= f["interval"][1] for f in figures.values())


def test_people_tell_their_wishes_as_in_a_synthesis():
    user = UserSettings(behaviours=Behaviours(disclosure=1.0))
    config = SynthesisConfig(blueprints=6, recipe=RECIPE, expert=ExpertConfig(mistakes=0.0), user=user)
    cell = grid(config, None, lambda: None, keep=True)[0]
    played = [json.loads(row["blueprint"]) for rows in cell.rows for row in rows]
    assert any(intent["course"] for blueprint in played for intent in blueprint["intents"])


@pytest.mark.parametrize("of", ["calls", "sampled"])
def test_a_budget_is_spent_and_hardly_more(of):
    for cell in grid(CONFIG, CallBudget(of, 10), lambda: None):
        spent = cell.figures()[of] / CONFIG.blueprints
        assert 10 <= spent < 10 + 3 * CONFIG.limits.steps


def test_linear_sampling_makes_new_dialogues_until_the_budget_is_spent():
    few, many = (grid(CONFIG, CallBudget("calls", most), lambda: None)[0].figures() for most in (2, 20))
    assert many["trajectories"] > few["trajectories"] and many["success"] >= few["success"]


def test_every_cell_s_dataset_has_as_many_dialogues_as_the_smallest(trees, tmp_path):
    write_grid(trees, tmp_path)
    assert len(json.loads((tmp_path / "grid.json").read_text())) == len(CELLS)
    sizes = {path.parent.name: list(read_rows(path)) for path in tmp_path.glob("*/trajectories.jsonl")}
    assert sizes.keys() == {"1-1", "3-1", "1-3", "3-3"}
    assert {len(rows) for rows in sizes.values()} == {min(cell.trajectories for cell in trees)}
    assert all(from_row(row).success for rows in sizes.values() for row in rows)
    assert grid_table(trees, "x").row_count == len(CELLS)


def test_dialogues_are_dealt_round_by_round_and_no_part_of_the_curriculum_is_cut_off():
    rows = [[{"of": index, "number": number} for number in range(index % 3)] for index in range(300)]
    few, many = list(balanced_rows(rows, 100, random.Random(0))), list(balanced_rows(rows, 250, random.Random(0)))
    assert len(few) == 100 and {row["number"] for row in few} == {0} and max(row["of"] for row in few) > 270
    assert len(many) == 250 and sum(row["number"] == 0 for row in many) == 200
    assert [row["of"] for row in many] == sorted(row["of"] for row in many)


def test_a_recipe_that_searches_for_nothing_is_refused():
    done = homerl("synth-grid", "recipes/sft_8b.yaml")
    assert done.code == 2 and "searches for nothing" in done.err and "Traceback" not in done.err
