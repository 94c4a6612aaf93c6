"""A run's folder is whole: it holds the files and plug-ins of the run, and is read and goes on wherever it lies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from command import homerl as inside
from forked import homerl

from homerl.app.chat.session import find_model_and_terms
from homerl.app.runs.launch import run_recipe
from homerl.app.runs.recipe import load_recipe, recipe_data
from homerl.app.runs.run_folder import copy_recipe_files
from homerl.envs.core.documents import InputError, read_json, read_yaml
from homerl.host.recipe_files import relocate_recipe_paths

TASKS = {"intents": [1, 1], "phrasings": 2}
REWARD = '''"""Calm: a step makes no call."""

from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def calm(facts: StepFacts) -> float:
    """-1 for a step with calls."""
    return -float(bool(facts.calls))


REWARD = Reward(calm, weight=0.0, card="lost for a step with calls")
'''


def synthesis(out: str = "runs/mine", blueprints: int = 4, files: tuple[str, ...] = ("home.json",)) -> Path:
    """A recipe of a small synthesis in homes of files."""
    synth = {"blueprints": blueprints, "shard": 2, "recipe": TASKS | {"home": {"files": [*files], "forecast": 0}}}
    path = Path("mine.yaml")
    path.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "out": out, "processes": 0, "synth": synth}))
    return path


def call(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of homerl, from the present folder."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOMERL_")}
    return homerl(*words, env=plain, **environment)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The present folder, with a home."""
    monkeypatch.chdir(tmp_path)
    assert inside("make-home", "--devices", "3-3", "--seed", "5").code == 0
    return tmp_path


def test_a_run_keeps_the_files_that_its_recipe_names(here):
    run_recipe(load_recipe(synthesis()))
    kept = here / "runs/mine/files/home.json"
    assert kept.read_bytes() == Path("home.json").read_bytes()
    stored = read_yaml("runs/mine/recipe.yaml").data
    assert stored["synth"]["recipe"]["home"]["files"] == ["runs/mine/files/home.json"]


def test_a_synthesis_has_the_bytes_that_it_would_have_without_the_copies(here):
    from homerl.app.runs.stages import run_synth

    run_recipe(load_recipe(synthesis()))
    run_synth(load_recipe(synthesis("runs/bare")))
    bare, whole = (Path(f"runs/{name}/trajectories.jsonl").read_bytes() for name in ("bare", "mine"))
    assert bare == whole
    shards = [{path.parent.name for path in Path(f"runs/{name}/shards").glob("*/*")} for name in ("bare", "mine")]
    assert shards[0] == shards[1]  # named by a digest that does not depend on where the files lie


def test_files_of_one_name_stay_apart_and_folders_are_kept_whole(here):
    for name in ("a", "b"):
        Path(name).mkdir()
        shutil.copy("home.json", f"{name}/home.json")
    home = read_json("b/home.json").data
    home["rooms"][0]["name"] = "attic of b"
    Path("b/home.json").write_text(json.dumps(home))
    run_recipe(load_recipe(synthesis(files=("a/home.json", "b/home.json", "a"))))
    files = read_yaml("runs/mine/recipe.yaml").data["synth"]["recipe"]["home"]["files"]
    assert files == ["runs/mine/files/home.json", "runs/mine/files/home-2.json", "runs/mine/files/a"]
    assert Path(files[1]).read_bytes() == Path("b/home.json").read_bytes() and Path(files[2], "home.json").is_file()


def test_devices_weather_and_blueprints_are_kept_too(here):
    Path("mine").mkdir()
    Path("homeassistant").mkdir()  # the name of a shipped catalogue is not this folder's
    shutil.copy(Path(__file__).parents[3] / "envs/homeenv/sim/catalogue/light.yaml", "mine/lamp.yaml")
    Path("tasks.jsonl").touch()
    home = {"catalogue": ["mine", "homeassistant"]}
    data = {"homerl": 1, "run": "rlve", "out": "runs/mine", "model": {"name": "org/name"}}
    data |= {"blueprints": {"recipe": {"file": "tasks.jsonl"}}, "evaluation": {"recipe": {"home": home}}}
    Path("mine.yaml").write_text(yaml.safe_dump(data))
    found = recipe_data(copy_recipe_files(load_recipe("mine.yaml")))
    assert found["blueprints"]["recipe"]["file"] == "runs/mine/files/tasks.jsonl"
    assert found["evaluation"]["recipe"]["home"]["catalogue"] == ["runs/mine/files/mine", "homeassistant"]
    assert Path("runs/mine/files/mine/lamp.yaml").is_file()


def test_a_run_that_began_with_another_file_is_refused(here):
    run_recipe(load_recipe(synthesis()))
    run_recipe(load_recipe(synthesis()))
    assert inside("make-home", "--devices", "3-3", "--seed", "6").code == 0
    with pytest.raises(InputError, match="runs/mine began with another content\nput back .*home.json"):
        run_recipe(load_recipe(synthesis()))


def test_a_start_that_was_killed_within_a_copy_is_started_again(here, monkeypatch):
    def killed(source: Path, copy: Path) -> None:
        copy.write_bytes(source.read_bytes()[:100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "copy2", killed)
        copy_recipe_files(load_recipe(synthesis()))
    copy_recipe_files(load_recipe(synthesis()))
    assert [path.name for path in Path("runs/mine/files").iterdir()] == ["home.json"]
    assert Path("runs/mine/files/home.json").read_bytes() == Path("home.json").read_bytes()


@pytest.mark.long
def test_a_moved_run_goes_on_from_another_folder_without_the_first_files(here, monkeypatch):
    assert call("run", synthesis(blueprints=8)).returncode == 0
    before = Path("runs/mine/trajectories.jsonl").read_bytes()
    shutil.move("runs/mine", "moved")
    Path("home.json").unlink()
    for name in ("trajectories.jsonl", "stats.json"):
        Path("moved", name).unlink()
    one, *_ = sorted(Path("moved").glob("shards/*/*.stats.json"))
    one.unlink()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    done = call("run", here / "moved/recipe.yaml")
    assert done.returncode == 0, done.stderr
    assert "kept from an earlier start: 3 of 4 shards" in done.stdout
    assert (here / "moved/trajectories.jsonl").read_bytes() == before
    assert not (here / "elsewhere/runs").exists()


def test_paths_of_a_runs_own_recipe_are_those_of_now_and_others_stay(tmp_path):
    for run in ("a", "a/sft"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "run.json").write_text("{}")
    (tmp_path / "a/recipe.yaml").touch()
    stage = {"out": "runs/b/sft", "data": "runs/b/synth", "model": {"name": "runs/bb/model"}}
    found = relocate_recipe_paths(stage, tmp_path / "a/sft/sft.yaml")
    assert found == {"out": f"{tmp_path}/a/sft", "data": f"{tmp_path}/a/synth", "model": {"name": "runs/bb/model"}}
    flywheel = {"out": "runs/b", "files": ["runs/b/files/home.json", "home.json"]}
    assert relocate_recipe_paths(flywheel, tmp_path / "a/recipe.yaml")["files"] == [
        f"{tmp_path}/a/files/home.json",
        "home.json",
    ]
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/run.json").write_text("{}")
    bench = {"run": "bench", "out": "runs/b/sft", "model": {"name": "runs/b/sft/model"}}
    assert relocate_recipe_paths(bench, tmp_path / "alone/bench.yaml")["model"]["name"] == f"{tmp_path}/alone/model", (
        "a stage by itself"
    )
    for others in ("mine.yaml", "a/mine.yaml"):  # which may stand in a run's folder
        assert relocate_recipe_paths(flywheel, tmp_path / others) == flywheel


def test_the_terms_of_a_talk_name_the_home_of_a_moved_run(here, monkeypatch):
    """As `homerl chat` reads them."""
    from tiny_agent import make_agent

    run_recipe(load_recipe(synthesis("runs/mine/synth")))
    run = Path("runs/mine")
    (run / "files").mkdir()
    shutil.copy("home.json", run / "files")
    make_agent(run / "sft")
    bench = {"suites": [{"name": "own", "recipe": TASKS | {"home": {"files": ["runs/mine/files/home.json"]}}}]}
    (run / "run.json").write_text("{}")
    (run / "recipe.yaml").write_text(yaml.safe_dump({"run": "flywheel", "out": "runs/mine"}))
    (run / "sft/bench.yaml").write_text(yaml.safe_dump({"run": "bench", "out": "runs/mine/sft", "bench": bench}))
    shutil.move("runs/mine", "moved")
    monkeypatch.chdir("/")
    _, terms = find_model_and_terms(here / "moved")
    assert terms.recipes[""]["home"]["files"] == [f"{here}/moved/files/home.json"]


# Plug-ins


def test_a_runs_plugins_lie_in_it_and_are_loaded_only_if_they_are_named(here):
    Path("rewards").mkdir()
    Path("rewards/calm.py").write_text(REWARD)
    assert call("run", synthesis(), HOMERL_REWARDS="rewards").returncode == 0
    run = here / "runs/mine"
    assert (run / "plugins/rewards/calm.py").read_text() == REWARD
    assert call("check", run / "recipe.yaml", HOMERL_REWARDS="rewards").returncode == 0, "they are where they were"
    shutil.rmtree("rewards")
    refused = call("check", run / "recipe.yaml")
    assert refused.returncode == 2 and "calm.py" in refused.stderr
    assert f"HOMERL_PLUGINS={run}/plugins before the command" in refused.stderr.replace("\n", " ")
    assert call("check", run / "recipe.yaml", HOMERL_PLUGINS=str(run / "plugins")).returncode == 0
