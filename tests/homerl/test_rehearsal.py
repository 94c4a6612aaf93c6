"""The rehearsal: `homerl check` and every start play one episode, so that a plug-in with a bug fails before any work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from envs.documents import InputError
from homerl.run.recipe import load_recipe
from homerl.run.rehearsal import rehearse

ROOT = Path(__file__).parents[2]
FAMILY = "def propose(home, rng, ask):\n    return home.no_such_attribute\nSUBCATEGORIES = {'one': propose}\n"
REWARD = (
    "from rewards.reward import Reward\n"
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
        ("HOMERL_INTENTS", FAMILY, {"families": {"broken": 1}}, "no_such_attribute"),
        ("HOMERL_REWARDS", REWARD, {}, "ZeroDivisionError"),
    ],
    ids=["query type", "reward"],
)
def test_a_bug_in_a_plug_in_ends_the_check_and_names_its_file(tmp_path, variable, text, blueprints, error):
    (tmp_path / "broken.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), variable: str(tmp_path)}
    command = [sys.executable, "-m", "homerl.cli", "check", str(recipe(tmp_path, **blueprints))]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode and f"{tmp_path}/broken.py" in done.stderr and error in done.stderr, done.stderr


def test_a_recipe_that_gives_no_blueprint_is_refused(tmp_path):
    loaded = load_recipe(recipe(tmp_path, families={"compositional": 1}, home={"devices": [1, 1]}))
    with pytest.raises(InputError, match="synth.recipe: none of 5 seeds gives a blueprint"):
        rehearse(loaded)


def test_a_recipe_that_can_be_played_passes(tmp_path):
    (line,) = rehearse(load_recipe(recipe(tmp_path)))
    assert line.startswith("synth.recipe: the scripted expert played ") and "success, reward " in line
