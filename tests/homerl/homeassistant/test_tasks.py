"""Tasks in an imported home."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.homeenv.home_file import save_home
from envs.homemaker.make import HomeRecipe
from homerl.homeassistant.importing import import_home
from homerl.play.trajectory import Outcome
from homerl.worlds.homeenv.blueprints.author import BlueprintRecipe, make_blueprint
from tests.homerl.homeassistant.replay import listing
from tests.homerl.intents import expert_plays, idle_plays

TASKS = 15


@pytest.mark.parametrize("toolset", ["homeflow", "smh"])
def test_the_expert_does_each_task_of_an_imported_home(toolset: str, tmp_path: Path) -> None:
    save_home(import_home(listing()).home, tmp_path / "home.json")
    recipe = BlueprintRecipe(home=HomeRecipe(files=(str(tmp_path / "home.json"),)), toolset=toolset)
    tasks = [make_blueprint(recipe, "train", seed) for seed in range(TASKS)]
    assert [expert_plays(task) for task in tasks] == [Outcome.SUCCESS] * TASKS
    assert sum(idle_plays(task) is Outcome.SUCCESS for task in tasks) <= 1  # nearly every task asks for something
