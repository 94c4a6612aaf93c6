"""The rehearsal: `homerl check` and every start play one episode, so that a plug-in with a bug fails before any work."""

from pathlib import Path

import pytest
import yaml
from forked import homerl

from homerl.app.runs.recipe import load_recipe
from homerl.app.runs.rehearsal import rehearse_recipe
from homerl.envs.core.documents import InputError
from homerl.host.recipe_files import BaseRecipe
from homerl.worlds.registry import default_world

ROOT = Path(__file__).parents[3]
FAMILY = "def propose(home, rng, ask):\n    return home.no_such_attribute\nSUBCATEGORIES = {'one': propose}\n"
REWARD = (
    "from homerl.rewards.reward import Reward\n"
    "def earn(facts):\n    return 1 / 0\n"
    "REWARD = Reward(earn, weight=0.1, card='broken')\n"
)


def recipe(folder: Path, **blueprints: object) -> Path:
    file = folder / "mine.yaml"
    data = {"homerl": 1, "run": "synth", "synth": {"recipe": blueprints}}
    file.write_text(yaml.safe_dump(data))
    return file


@pytest.mark.parametrize(
    ("variable", "text", "blueprints", "error"),
    [
        pytest.param("HOMERL_INTENTS", FAMILY, {"families": {"broken": 1}}, "no_such_attribute", marks=pytest.mark.long),
        ("HOMERL_REWARDS", REWARD, {}, "ZeroDivisionError"),
    ],
    ids=["query type", "reward"],
)
def test_a_bug_in_a_plug_in_ends_the_check_and_names_its_file(tmp_path, variable, text, blueprints, error):
    (tmp_path / "broken.py").write_text(text)
    done = homerl("check", recipe(tmp_path, **blueprints), cwd=ROOT, **{variable: str(tmp_path)})
    assert done.returncode and f"{tmp_path}/broken.py" in done.stderr and error in done.stderr, done.stderr


HOPELESS = {"families": {"compositional": 1}, "home": {"devices": [1, 1]}}


def synth(folder: Path, **keys: object) -> BaseRecipe:
    file = folder / "synth.yaml"
    file.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "synth": keys}))
    return load_recipe(file)


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"recipe": HOPELESS}, "synth.recipe"),
        pytest.param({"curriculum": [HOPELESS]}, "synth.curriculum.0", marks=pytest.mark.long),
    ],
)
def test_a_source_that_gives_no_blueprint_is_refused_by_its_key(tmp_path, keys, where):
    with pytest.raises(InputError, match=f"{where}: none of 5 seeds gives a blueprint"):
        rehearse_recipe(synth(tmp_path, **keys))


def test_what_no_seed_can_make_is_refused_by_its_key_too(tmp_path):
    recipe = synth(tmp_path, recipe={"home": {"categories": ["lihgt"]}})
    with pytest.raises(InputError, match=r"^synth\.recipe: HomeRecipe\.categories: the catalogue has no 'lihgt'\n"):
        rehearse_recipe(recipe)


def test_an_llm_author_is_not_rehearsed(tmp_path):
    author = {"model": "m", "url": "http://127.0.0.1:9"}
    assert rehearse_recipe(synth(tmp_path, recipe={"home": HOPELESS["home"]}, author=author)) == []


def test_a_plug_in_that_raises_a_value_error_is_not_taken_for_a_dropped_draft(tmp_path, monkeypatch):
    def draw(*_: object) -> None:
        raise ValueError("sample larger than population")

    monkeypatch.setattr("homerl.app.runs.rehearsal.make_blueprint_of_seed", draw)
    with pytest.raises(ValueError, match="^sample larger than population$"):
        rehearse_recipe(synth(tmp_path))


def test_a_world_that_only_llm_users_speak_in_begins_an_episode(tmp_path, monkeypatch):
    recipe = synth(tmp_path)
    monkeypatch.setattr(type(default_world()), "users", ("llm",))
    (line,) = rehearse_recipe(recipe)
    assert line.endswith("begins, and only an LLM user can play it")


def test_what_the_tools_do_nothing_with_is_named(tmp_path):
    home = {"categories": ["light", "pet_feeder"], "devices": [4, 6]}
    lines = rehearse_recipe(synth(tmp_path, recipe={"home": home, "toolset": "assist", "families": {"atomic": 1}}))
    assert lines[0] == "synth.recipe: the agent's tools do nothing with pet_feeder" and "success" in lines[1]
    assert len(rehearse_recipe(synth(tmp_path, recipe={"home": home, "families": {"atomic": 1}}))) == 1


def test_every_source_of_a_flywheel_is_played():
    lines = rehearse_recipe(load_recipe("recipes/quickstart.yaml", ["--evaluation.every", "2", "--synth.first_seed", "5"]))
    played = [line.split(": ")[0] + " " + line.split("played ")[1].split(":")[0] for line in lines]
    assert "synth.recipe train-5" in played and "evaluation.recipe heldout-900000" in played
    assert {line.split()[0] for line in played} >= {"blueprints.recipe", "bench.suites.0.recipe", "bench.suites.1.recipe"}
    assert all("success, reward " in line for line in lines)
