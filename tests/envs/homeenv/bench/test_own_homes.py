"""People's own homes in recipes, sentences and benchmarks; and the shipped recipe for them, as typed."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import yaml
from forked import homerl

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.app.runs.recipe import load_recipe
from homerl.app.runs.rehearsal import rehearse_recipe
from homerl.app.runs.stages import suite_episodes
from homerl.bench.recipe import SuiteSettings
from homerl.bench.suites import make_suite_of_homes, write_suite
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.bench import suite as home_suites
from homerl.envs.homeenv.bench.suite import OWN_HOME
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home_file import home_to_json, load_home, save_home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.play.trajectory import read_rows

ROOT = Path(__file__).parents[4]
RECIPE = ROOT / "recipes/own_home.yaml"
FAMILIES = {"atomic": 1.0, "compositional": 1.0, "query": 1.0, "multi_turn": 1.0, "memory": 1.0}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("home") / "home.json"
    save_home(make_home(3, HomeRecipe(devices=(16, 16))), path)
    return str(path)


def renamed(file: str, folder: Path, rooms: str | None = None, devices: str | None = None, category: str | None = None):
    """The home of a file with other names; `{}` in a name is a number."""
    data = home_to_json(load_home(file), whole=True)
    for number, room in enumerate(data["rooms"]):
        room["name"] = rooms.format(number) if rooms else room["name"]
    for number, device in enumerate(data["devices"]):
        device["name"] = devices.format(number) if devices else device["name"]
        if category:
            device["userdata"] |= {"category": category, "spid": f"own{number}"}
    path = folder / "renamed.json"
    path.write_text(json.dumps(data))
    return str(path)


# Blueprints


@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_every_toolset_plays_in_a_home_of_a_file(file, toolset, tmp_path):
    keys = {"recipe": {"toolset": toolset, "home": {"files": [file]}}}
    (tmp_path / "synth.yaml").write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "synth": keys}))
    *_, line = rehearse_recipe(load_recipe(tmp_path / "synth.yaml"))
    assert "success" in line and "synth.recipe" in line


def test_the_splits_share_the_home_and_no_sentence(file):
    recipe = BlueprintRecipe(home=HomeRecipe(files=(file,)), families=FAMILIES)
    train, heldout = ([make_home_blueprint(recipe, split, seed) for seed in range(12)] for split in ("train", "heldout"))
    said = [{query.lower() for b in made for intent in b.intents for query in intent.queries} for made in (train, heldout)]
    assert not said[0] & said[1]
    assert {b.home["clock"] for b in train}.isdisjoint(b.home["clock"] for b in heldout)
    assert all(b.home["rooms"] == train[0].home["rooms"] for b in (*train, *heldout))


def test_devices_are_called_as_in_the_file(file, tmp_path):
    path = renamed(file, tmp_path, rooms="Büro (Nord) <{}>", devices="HUE [a|b] {}", category="thing_of_mine")
    recipe = BlueprintRecipe(home=HomeRecipe(files=(path,)), families={"atomic/clear": 1.0}, intents=(1, 1), phrasings=1)
    for seed in range(12):
        made = make_home_blueprint(recipe, "train", seed)
        (intent,), devices = made.intents, {d["did"]: d for d in made.home["devices"]}
        device = devices[intent.devices[0]]
        room = next(room["name"] for room in made.home["rooms"] if room["id"] == device["room"])
        assert device["name"] in intent.queries[0] and room in intent.queries[0]


def test_a_name_that_two_things_share_is_never_said(file, tmp_path):
    path = renamed(file, tmp_path, rooms="Bedroom")
    data = json.loads(Path(path).read_text())
    names = Counter(device["name"] for device in data["devices"])
    recipe = BlueprintRecipe(home=HomeRecipe(files=(path,)), families={"atomic": 1.0}, intents=(1, 1))
    for seed in range(25):
        made = make_home_blueprint(recipe, "train", seed)
        meant = {device["did"]: device["name"] for device in made.home["devices"]}
        assert all(names[meant[did]] == 1 for intent in made.intents for did in intent.devices)


def test_a_home_in_which_all_names_are_shared_is_refused_with_the_reason(file, tmp_path):
    path = renamed(file, tmp_path, rooms="Room", devices="Lamp")
    with pytest.raises(InputError, match="two things share a name") as refused:
        make_home_blueprint(BlueprintRecipe(home=HomeRecipe(files=(path,)), families={"atomic": 1.0}), "train", 0)
    assert "a name of its own" in refused.value.remedy


# Benchmarks


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("built") / "own-home.jsonl"
    home = path.with_name("home.json")
    save_home(make_home(3, HomeRecipe(devices=(10, 10))), home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home_suites, "EACH", 1)
        suite = make_suite_of_homes("own-home", [str(home)])
        _, instances = suite.build(7, "en", Counter(), lambda done, total: None)
        made = list(instances)
        again = suite.build(7, "en", Counter(), lambda done, total: None)[1]
        assert made[:6] == list(islice(again, 6)), "a pure function of its seed"
    write_suite(iter(made), path)
    return path


@pytest.mark.parametrize(
    ("agent", "success", "setting"),
    [
        ("expert", 1.0, "eia"),
        pytest.param("expert", 1.0, "dr", marks=pytest.mark.long),
        ("nothing", 0.0, "eia"),
        pytest.param("nothing", 0.0, "dr", marks=pytest.mark.long),
    ],
)  # whoever does nothing sees nothing of a setting
def test_the_expert_does_all_of_a_built_suite_and_nothing_does_none(built, tmp_path, agent, success, setting):
    score = run_benchmark(BenchRun(str(built), agent, tmp_path / "run", setting))
    assert score["success"] == success and score["n"] >= 20
    assert {"automation", "query", "ambiguous", "memory"} <= set(score["by_category"])


def test_no_sentence_of_a_built_suite_occurs_twice(built):
    rows = list(read_rows(built))
    said = [row["blueprint"]["intents"][-1]["queries"][0].lower() for row in rows]
    assert len(set(said)) == len(said) and all(row["blueprint"]["split"] == "heldout" for row in rows)


def test_a_recipe_plays_a_built_file(built):
    episodes = suite_episodes(SuiteSettings(name="mine", benchmark=str(built), count=5, setting="eia"), None)
    assert len(episodes) == 5 and episodes[0].blueprint.id.startswith("own-home-")
    with pytest.raises(ValueError, match="no benchmark and no file"):
        SuiteSettings(benchmark=str(built) + "x")
    with pytest.raises(ValueError, match="no easier half"):
        SuiteSettings(benchmark=str(built), easier_half=True)


def test_a_toolset_without_automations_has_no_tasks_with_them():
    kinds = {family for family, _ in OWN_HOME.of_homes(["home.json"], "homeflow").query_types()}
    assert "atomic" in kinds and "automation" not in kinds
    assert "automation" in {family for family, _ in OWN_HOME.query_types()}


def test_what_a_suite_cannot_be_built_of_is_said(file):
    with pytest.raises(InputError, match="--home: smh-bench has tasks of its own\n.*own-home"):
        make_suite_of_homes("smh-bench", [file])
    with pytest.raises(InputError, match="--toolset, --prompt: smarthome-bench has tasks of its own"):
        make_suite_of_homes("smarthome-bench", [], "smh", "brief")
    with pytest.raises(InputError, match="no toolset 'none'"):
        make_suite_of_homes("own-home", [file], "none")
    with pytest.raises(InputError, match="no prompt 'short'\none of brief, full"):
        make_suite_of_homes("own-home", [file], prompt="short")
    with pytest.raises(InputError, match="--home home.json"):
        make_suite_of_homes("own-home", []).build(0, "en", Counter(), lambda done, total: None)


@pytest.mark.parametrize(("prompt", "lists"), [("full", True), ("brief", False)])
def test_agents_get_the_prompt_that_a_suite_was_built_with(file, prompt, lists, monkeypatch, tmp_path):
    monkeypatch.setattr(home_suites.OwnHome, "query_types", lambda suite: [("atomic", "clear")])
    monkeypatch.setattr(home_suites, "EACH", 1)
    _, instances = make_suite_of_homes("own-home", [file], prompt=prompt).build(0, "en", Counter(), lambda done, total: None)
    write_suite(instances, tmp_path / "own-home.jsonl")
    briefings = {}
    for setting in ("eia", "dr"):
        run_benchmark(BenchRun(str(tmp_path / "own-home.jsonl"), "expert", tmp_path / setting, setting))
        (played,) = read_rows(tmp_path / setting / "trajectories.jsonl")
        briefings[setting] = played["messages"][0]["content"]
    assert ("Rooms:" in briefings["eia"]) == lists, briefings["eia"]
    assert len(briefings["dr"]) > 1000, "one answer needs the whole home"


# The recipe


def call(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, env=environment, timeout=900)


def test_files_replace_how_the_base_makes_homes():
    loaded = load_recipe(ROOT / "recipes/smoke.yaml", ["--synth.recipe.home.files", "[mine.json]"])
    assert loaded.synth.recipe.home == HomeRecipe(files=("mine.json",))
    assert loaded.synth.recipe.phrasings == 2 and loaded.blueprints.recipe.home.ids == "slug"


@pytest.mark.long
def test_a_check_names_the_file_that_is_no_home(tmp_path):
    (tmp_path / "home.json").write_text('{"rooms": [], "devices": [{}]}')
    done = homerl("check", RECIPE, cwd=tmp_path)
    said = r"homerl: synth.curriculum.2: home.json:1: home.files: devices.0.\w+ is missing"
    assert done.returncode == 2 and re.search(said, done.stderr)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_recipe_turns_in_a_home_that_was_just_made(tmp_path):
    """`homerl make-home --out home.json && accelerate launch recipes/own_home.yaml`, but for its size."""
    assert call(sys.executable, "-m", "homerl", "make-home", cwd=tmp_path).returncode == 0
    small = {
        "model.from_scratch": "{hidden_size: 32, layers: 2, heads: 2, kv_heads: 2, head_dim: 16, intermediate_size: 64}",
        "synth.blueprints": 24,
        "synth.shard": 12,
        "sft.max_steps": 3,
        "sft.log_steps": 1,
        "rlve.updates": 2,
        "rlve.blueprints_per_update": 2,
        "rlve.group": 2,
        "rlve.max_tokens": 24,
        "bench.max_tokens": 24,
        "bench.suites": "[{name: mine, count: 6, recipe: {phrasings: 2, home: {files: [home.json]}}}]",
        "wandb.mode": "disabled",
        "processes": 1,
    }
    overrides = [text for key, value in small.items() for text in (f"--{key}", value)]
    launch = [sys.executable, "-m", "accelerate.commands.launch", RECIPE, "--out", "run", *overrides]
    done = call(*launch, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = list(read_rows(tmp_path / "run/synth/trajectories.jsonl"))
    home = load_home(tmp_path / "home.json")
    rooms = ([room["name"] for room in json.loads(row["blueprint"])["home"]["rooms"]] for row in rows)
    own = [names == [room.name for room in home.plan.rooms] for names in rooms]
    assert own == sorted(own) and len(own) // 3 < sum(own) < len(own)  # made homes first, then one's own
    for model in ("untrained", "sft", "rlve"):
        assert json.loads((tmp_path / f"run/{model}/bench/mine/score.json").read_text())["n"] == 6
