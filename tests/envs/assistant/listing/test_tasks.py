"""Tasks in an imported home."""

from __future__ import annotations

from pathlib import Path

import pytest

from homerl.envs.assistant.home_import import import_home
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.play.trajectory import Outcome
from tests.envs.assistant.listing.replay import listing
from tests.envs.homeenv.tasks.intents import expert_plays, idle_plays

TASKS, ASKED = 6, 80


@pytest.mark.parametrize("toolset", ["homeflow", "smh", "assist"])
def test_the_expert_does_each_task_of_an_imported_home(toolset: str, tmp_path: Path) -> None:
    save_home(import_home(listing()).home, tmp_path / "home.json")
    recipe = BlueprintRecipe(home=HomeRecipe(files=(str(tmp_path / "home.json"),)), toolset=toolset, by_alias=0.5)
    tasks = [make_home_blueprint(recipe, "train", seed) for seed in range(TASKS)]
    assert [expert_plays(task) for task in tasks] == [Outcome.SUCCESS] * TASKS
    assert sum(idle_plays(task) is Outcome.SUCCESS for task in tasks) <= 1  # nearly every task asks for something


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Tasks of single devices in the imported home, as the tools of SMH-Bench can do them."""
    file = tmp_path_factory.mktemp("home") / "home.json"
    save_home(import_home(listing()).home, file)
    recipe = BlueprintRecipe(
        home=HomeRecipe(files=(str(file),)), toolset="smh", intents=(1, 1), families={"atomic/clear": 1}
    )
    return [make_home_blueprint(recipe, "train", seed).intents[0] for seed in range(ASKED)]


def test_what_is_in_no_room_is_called_by_its_name_alone(asked):
    """ "The Walkman", not "the home Walkman"; a player that is called as a room is, such as "Kitchen", is not asked for."""
    said = [query for intent in asked for query in intent.queries]
    assert any("Walkman" in one for one in said) and not any("the home" in one for one in said)
    assert not {"media_player.kitchen", "media_player.bedroom"} & {call.did for intent in asked for call in intent.plan}


def test_people_dim_lights_and_set_temperatures(asked):
    """Values of arguments that may be left out, and of those beside such arguments."""
    calls = [call for intent in asked for call in intent.plan]
    dimmed = [call.args for call in calls if call.service == "turn_on" and call.args]
    assert dimmed and all(first is None and 0 < share <= 100 for first, share in dimmed)
    assert any(call.service == "set_temperature" for call in calls)
