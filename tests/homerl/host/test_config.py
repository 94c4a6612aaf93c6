"""Recipes: extension, overrides, and places that stay true through both."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import yaml
from command import homerl
from pydantic import BaseModel

from homerl.envs.core.documents import InputError, validate_document
from homerl.host import launch_hook
from homerl.host import recipe_files as config
from homerl.host.recipe_files import BaseRecipe

ROOT = Path(__file__).parents[3]


class Train(BaseModel, extra="forbid"):
    learning_rate: float = 0.0
    steps: int = 0
    betas: list[float] = []


class Recipe(BaseModel, extra="forbid"):
    homerl: int
    train: Train
    name: str | None = None
    out: Path = Path()


BASE = "homerl: 1\ntrain:\n  learning_rate: 1e-6\n  steps: 10\n  betas: [0.9, 0.99]\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / f"{name}.yaml"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shipped"
    folder.mkdir()
    monkeypatch.setattr(launch_hook, "shipped_folder", lambda name: str(folder))
    return folder


def test_extends_merges_mappings_and_replaces_lists(tmp_path: Path) -> None:
    recipe = write(tmp_path, base=BASE, mine="extends: base.yaml\nname: x\ntrain:\n  betas: [0.5]\n  steps: 20\n")
    data, document = config.load_recipe_document(recipe)
    assert data == {"homerl": 1, "train": {"learning_rate": 1e-6, "steps": 20, "betas": [0.5]}, "name": "x"}
    assert document.data is data
    assert document.locate_key(("train", "learning_rate")) == f"{tmp_path}/base.yaml:3"
    assert document.locate_key(("train", "steps")) == f"{recipe}:5"
    assert document.locate_key(("train", "betas", 0)) == document.locate_key(("train", "betas", 1)) == f"{recipe}:4"
    assert ("train", "betas", 1) not in document.lines  # the base's second item is no more


def test_errors_name_the_file_in_which_the_key_stands(tmp_path: Path) -> None:
    recipe = write(tmp_path, base=BASE.replace("steps", "stpes"), mid="extends: base.yaml\n", mine="extends: mid.yaml\n")
    with pytest.raises(InputError) as caught:
        validate_document(Recipe, config.load_recipe_document(recipe)[1])
    assert str(caught.value).startswith(f"{tmp_path}/base.yaml:4: train.stpes is not a known key\ndid you mean steps?")


def test_overrides_lie_on_top(tmp_path: Path) -> None:
    recipe = write(tmp_path, base=BASE)
    arguments = ["--train.learning_rate", "2e-6", "--train.betas=[1, 2]", "--name", "off", "--train.steps=-3"]
    data, document = config.load_recipe_document(recipe, arguments)
    assert data["train"] == {"learning_rate": 2e-6, "steps": -3, "betas": [1, 2]} and data["name"] == "off"
    assert document.locate_key(("train", "steps")) == "command line"
    assert document.path == str(recipe)
    assert document.locate_key(("train",)) == f"{recipe}:2"
    assert config.load_recipe_document(recipe, ["--train", "{steps: 4}"])[0]["train"]["learning_rate"] == 1e-6
    assert config.load_recipe_document(recipe, ["--train.steps", "1", "--train.steps", "2"])[0]["train"]["steps"] == 2


SUITES = """seed: 1
easy: &easy {intents: [1, 2], home: {rooms: 2, ids: slug}}
bench:
  suites:
    - {name: a, recipe: {<<: *easy}}
    - {name: b, recipe: {<<: *easy, intents: [1, 1]}}
"""


def test_every_place_of_a_key_is_overridden_in_lists_and_behind_anchors(tmp_path: Path) -> None:
    recipe = write(tmp_path, base=SUITES)
    data, document = config.load_recipe_document(recipe, ["--every.intents", "[2, 3]", "--every.recipe.home", "{rooms: 5}"])
    suites = [suite["recipe"] for suite in data["bench"]["suites"]]
    assert [part["intents"] for part in (data["easy"], *suites)] == [[2, 3]] * 3
    assert data["easy"]["home"] == {"rooms": 2, "ids": "slug"} and suites[0]["home"] == {"rooms": 5, "ids": "slug"}
    assert document.locate_key(("bench", "suites", 1, "recipe", "intents")) == "command line"
    assert document.locate_key(("bench", "suites", 0, "recipe", "home", "rooms")) == "command line"
    assert document.locate_key(("seed",)) == f"{recipe}:1"
    assert config.load_recipe_document(recipe, ["--every.intents", "[2, 3]", "--easy.intents", "[9, 9]"])[0]["easy"][
        "intents"
    ] == [9, 9]
    for wrong, says in (
        ("--every.intent", "did you mean intents?"),
        ("--every", "writes no such key"),
        ("--every.home.holds", "to add it, write --every.home '{holds: ...}'"),
    ):
        with pytest.raises(InputError) as caught:
            config.load_recipe_document(recipe, [wrong, "1"])
        assert str(caught.value).startswith("command line: --every") and says in str(caught.value)


def test_the_harder_run_of_the_readme_is_harder_in_every_stage() -> None:
    (line,) = re.findall(r"^accelerate launch (recipes/quickstart.yaml .*)$", (ROOT / "README.md").read_text(), re.M)
    done = homerl("check", *shlex.split(line), "--full")
    assert done.code == 0, done.err
    made = yaml.safe_load(done.out)
    tasks = [*made["synth"]["curriculum"], made["synth"]["recipe"], made["blueprints"]["recipe"]]
    tasks += [suite["recipe"] for suite in made["bench"]["suites"]]
    assert len(tasks) == 6 and all(task["intents"] == [2, 3] for task in tasks)


@pytest.mark.parametrize("text", ["runs/try #2", "#1", "a # b", "'a # b'", '"a # b"', "['a # b']", "a#b"])
def test_a_text_on_the_command_line_is_read_to_its_end(tmp_path: Path, text: str) -> None:
    found = config.load_recipe_document(write(tmp_path, base=BASE), ["--name", text])[0]["name"]
    assert found == {"'a # b'": "a # b", '"a # b"': "a # b", "['a # b']": ["a # b"]}.get(text, text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "2024"], "command line: name is 2024\nit should be text: write it in quotes"),
        (["--name", "runs/a: b"], "command line: name is {'runs/a': 'b'}\nit should be text: write it in quotes"),
        (["--out", "2024"], """it should be text: write it in quotes, on the command line in two kinds: '"2024"'"""),
        (["--train.betas.0", "1"], "command line: train.betas is {'0': 1}\nit should be a list, which is written whole"),
        (["--train.stpes", "1"], "command line: train.stpes is not a known key\ndid you mean steps?"),
        (["--tran.steps", "1"], "command line: tran is not a known key\ndid you mean train?"),
        (["--train.steps", "many"], "command line: train.steps is 'many'\nit should be a valid integer"),
        (["--train.steps"], "command line: --train.steps has no value"),
        (["--train.steps", "--name", "x"], "command line: --train.steps has no value"),
        (["--name", "[1"], "command line: the value of --name is not valid YAML"),
        (["steps"], "command line: 'steps' is no override"),
        (["--train..steps", "1"], "command line: --train..steps names no key"),
    ],
)
def test_bad_overrides(tmp_path: Path, arguments: list[str], message: str) -> None:
    recipe = write(tmp_path, base=BASE)
    with pytest.raises(InputError) as caught:
        validate_document(Recipe, config.load_recipe_document(recipe, arguments)[1])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"b": "extends: a.yaml\n", "a": "\nextends: b.yaml\n"}, "b.yaml:1: extends goes in a circle"),
        ({"a": "extends: a.yaml\n"}, "a.yaml:1: extends goes in a circle"),
        ({"a": "x: 1\nextends: nosuch.yaml\n"}, "a.yaml:2: there is no recipe nosuch.yaml"),
        ({"a": "extends: [b]\n"}, "a.yaml:1: extends is ['b'], not one file name"),
        ({"a": ""}, "a.yaml: the recipe is empty"),
        ({"a": "- 1\n"}, "a.yaml: the recipe holds a list"),
    ],
)
def test_bad_recipes(tmp_path: Path, shipped: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        config.load_recipe_document(write(tmp_path, **files))
    assert message in str(caught.value)


def test_shipped_recipes_are_found_from_anywhere(tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(shipped, smoke=BASE)
    monkeypatch.chdir(tmp_path)
    for name in ("recipes/smoke.yaml", "smoke.yaml", "recipes/smoke", "smoke"):
        assert config.find_recipe(name) == shipped / "smoke.yaml"
    mine = write(tmp_path, mine="extends: recipes/smoke.yaml\ntrain: {steps: 3}\n")
    data, document = config.load_recipe_document(mine)
    assert data["train"]["steps"] == 3
    assert document.locate_key(("train", "learning_rate")) == f"{shipped}/smoke.yaml:3"
    (tmp_path / "smoke.yaml").write_text("homerl: 1\n")
    assert config.find_recipe("smoke.yaml") == Path("smoke.yaml")
    assert config.find_recipe("smoke") == Path("smoke.yaml"), "a file here comes first"
    for name in ("recipes/smok.yaml", "smok"):
        with pytest.raises(InputError, match=rf"there is no recipe {name}\ndid you mean smoke\?"):
            config.find_recipe(name)


def test_a_recipe_that_has_run_names_its_run(tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(shipped, smoke=BASE + "out: runs/small\n")
    monkeypatch.chdir(tmp_path)
    assert config.find_shipped_run("smok") is None and config.list_runs() == []
    with pytest.raises(InputError, match="smoke: this shipped recipe has not run here\nhomerl run smoke runs it"):
        config.find_shipped_run("smoke")
    (tmp_path / "runs/small").mkdir(parents=True)
    (tmp_path / "runs/small/run.json").write_text("{}")
    assert config.find_shipped_run("smoke") == Path("runs/small") and config.list_runs() == ["runs/small"]
    (tmp_path / "smoke").mkdir()
    assert config.find_shipped_run("smoke") is None, "a folder here comes first"


def test_there_is_an_accelerate_configuration_for_every_way_to_be_parallel() -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    folder = Path(__file__).parents[3] / "recipes" / "accelerate"
    kinds = {file.stem: load_config_from_file(str(file)) for file in folder.glob("*.yaml")}
    assert {name: str(kind.distributed_type.value) for name, kind in kinds.items()} == {
        "ddp": "MULTI_GPU",
        "zero2": "DEEPSPEED",
        "zero3": "DEEPSPEED",
        "fsdp2": "FSDP",
    }
    assert kinds["zero2"].deepspeed_config["zero_stage"] == 2 and kinds["zero3"].deepspeed_config["zero_stage"] == 3
    assert kinds["fsdp2"].fsdp_config["fsdp_version"] == 2
    assert set(kinds) | {"none"} == set(get_args(BaseRecipe.model_fields["parallel"].annotation))


RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_is_written_beside_a_run_is_its_recipe_again(path):
    from homerl.app.runs.recipe import KINDS, load_recipe, recipe_data

    recipe = load_recipe(path)
    assert KINDS[recipe.run].model_validate(recipe_data(recipe)) == recipe


def test_a_model_that_rlve_starts_from_has_learnt_the_tools_and_the_wishes_of_its_tasks():
    from homerl.app.runs.recipe import load_recipe

    by_out = {str(recipe.out): recipe for recipe in map(load_recipe, RECIPES)}
    started = set()
    for recipe in by_out.values():
        start = recipe.model.name.removesuffix("/model") if recipe.run == "rlve" else None
        if start not in by_out:
            continue
        synth, asked = by_out[str(by_out[start].data)].synth, recipe.blueprints.recipe
        parts = [*synth.curriculum, synth.recipe]
        assert all(part.toolset == asked.toolset and set(part.families) >= set(asked.families) for part in parts), recipe.out
        started.add(recipe.out.name)
    assert {"rlve_full", "rlve_aligned", "rlve_long", "rlve_8b_lora"} <= started


OF_OWN_HOMES = ("home_assistant", "own_home", "smollm2_own")  # which are not shipped
WITH_SUITES = [path for path in RECIPES if "suites:" in path.read_text("utf-8") and path.stem not in OF_OWN_HOMES]


@pytest.mark.long
@pytest.mark.parametrize("path", WITH_SUITES, ids=lambda path: path.stem)
def test_each_task_of_a_recipe_s_suites_can_be_made(path):
    """Training comes first, and would be lost."""
    from homerl.app.runs.recipe import load_recipe
    from homerl.bench.runner import HeldoutSuite

    bench = load_recipe(path).bench
    for suite in bench.suites:
        if not suite.benchmark:
            tasks = HeldoutSuite(suite, bench.limits)
            assert len({tasks[index].blueprint.id for index in range(len(tasks))}) == suite.count
