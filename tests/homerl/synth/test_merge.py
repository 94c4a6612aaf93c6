"""How recipes lie over one another: what is merged, what is replaced, and that every key knows its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from homerl.app.runs.recipe import KINDS, load_recipe, recipe_data
from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.host.recipe_files import load_recipe_document, merge_documents
from homerl.synth.recipe import SynthesisConfig
from homerl.worlds.registry import world_of
from homerl.worlds.sources import BlueprintFile

LEAVES = st.one_of(st.integers(0, 9), st.none(), st.lists(st.integers(0, 9), max_size=2))
ANY = st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), ANY, max_size=3)
SOURCED = st.builds(dict.__or__, MAPPINGS, st.dictionaries(st.sampled_from(["world", "file"]), st.sampled_from("xy")))


def alike(sources: dict[str, str]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings of one source in which a key always holds a leaf (`a`, `b`) or always a mapping (`m`, `n`)."""

    def mapping(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        parts = st.dictionaries(st.sampled_from("ab"), LEAVES), st.dictionaries(st.sampled_from("mn"), inner)
        return st.builds(lambda leaves, nested: sources | leaves | nested, *parts)

    return mapping(mapping(mapping(st.just(dict(sources)))))


def document(name: str, data: dict[str, Any]) -> Document:
    """Data as a file of that name, with the lines that it has there."""
    read = read_yaml(yaml.safe_dump(data) + "\n")
    return Document(name, read.data, read.lines)


def stacked(layers: list[dict[str, Any]]) -> Document:
    """Layers one over the other, the first beneath."""
    found = document("0", layers[0])
    for number, layer in enumerate(layers[1:], 1):
        found = merge_documents(found, document(str(number), layer))
    return found


def keys_of(data: Any, above: tuple = ()) -> set[tuple]:
    """Every path that leads to something in the data."""
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return {above}.union(*(keys_of(value, (*above, part)) for part, value in parts))


def places(found: Document) -> dict[tuple, str]:
    return {key: found.locate_key(key) for key in found.lines}


# What is merged


@pytest.mark.parametrize("sources", [{}, {"world": "x"}, {"file": "x"}])
def test_where_no_source_changes_layers_may_be_joined_in_any_order(sources: dict[str, str]) -> None:
    @given(st.tuples(*[alike(sources)] * 3))
    def holds(layers: tuple[dict[str, Any], ...]) -> None:
        low, middle, high = (document(str(number), layer) for number, layer in enumerate(layers))
        left, right = (
            merge_documents(merge_documents(low, middle), high),
            merge_documents(low, merge_documents(middle, high)),
        )
        assert left.data == right.data and places(left) == places(right)

    holds()


@given(st.lists(SOURCED, min_size=1, max_size=4), st.sampled_from("abc"))
def test_every_key_of_what_comes_out_stands_in_the_uppermost_layer_that_has_it(layers: list[dict], part: str) -> None:
    layers = [{part: layer} for layer in layers]
    found = stacked(layers)
    files = [document(str(number), layer) for number, layer in enumerate(layers)]
    assert set(found.lines) == keys_of(found.data)
    for key in found.lines:
        uppermost = next(file for file in reversed(files) if key in file.lines)
        assert found.locate_key(key) == uppermost.locate_key(key)


@given(MAPPINGS, MAPPINGS, st.sampled_from(["world", "file"]))
def test_a_mapping_of_another_source_replaces_the_one_beneath(low: dict, high: dict, key: str) -> None:
    for beneath in (low | {"world": "x"}, low | {"file": "x"}, low):
        top = document("top", {"recipe": high | {key: "y"}})
        found = merge_documents(document("base", {"recipe": beneath, "seed": 1}), top)
        assert found.data == {"recipe": high | {key: "y"}, "seed": 1}
        assert {found.locate_key(part) for part in keys_of(found.data["recipe"], ("recipe",))} == {
            top.locate_key(part) for part in keys_of(top.data["recipe"], ("recipe",))
        }
        assert found.locate_key(("seed",)).startswith("base:")


@given(MAPPINGS, MAPPINGS, st.sampled_from(["world", "file"]))
def test_a_mapping_that_names_no_source_or_the_same_is_merged(low: dict, high: dict, key: str) -> None:
    beneath, plain = low | {key: "x"}, stacked([low, high]).data
    for above in (high, high | {key: "x"}):
        assert stacked([beneath, above]).data == plain | {key: "x"}


# In recipes


HOME = "homerl: 1\nrun: synth\nsynth:\n  blueprints: 7\n  recipe:\n    intents: [1, 1]\n    home: {devices: [3, 4]}\n"
SIMU = "homerl: 1\nextends: home.yaml\nsynth:\n  recipe:\n    world: simuhome\n    phrasings: 2\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / f"{name}.yaml"


def test_a_recipe_that_extends_another_can_be_of_another_world_and_of_the_first_again(tmp_path: Path) -> None:
    simu = load_recipe(write(tmp_path, home=HOME, simu=SIMU)).synth
    assert world_of(simu.recipe).name == "simuhome" and simu.recipe.phrasings == 2 and simu.blueprints == 7
    more = load_recipe(write(tmp_path, more="homerl: 1\nextends: simu.yaml\nsynth: {recipe: {goals: [1, 1]}}\n")).synth
    assert more.recipe == simu.recipe.model_copy(update={"goals": (1, 1)})
    back = load_recipe(write(tmp_path, back="homerl: 1\nextends: simu.yaml\nsynth: {recipe: {world: homeenv}}\n")).synth
    assert back.recipe == SynthesisConfig().recipe and back.blueprints == 7


def test_naming_the_world_over_a_recipe_that_names_none_begins_it_afresh(tmp_path: Path) -> None:
    """Which world the lower recipe is of cannot be told from it, so none of its keys is taken for one of this world."""
    named = "homerl: 1\nextends: home.yaml\nsynth: {recipe: {world: homeenv, prompt: full}}\n"
    recipe = load_recipe(write(tmp_path, home=HOME, named=named)).synth.recipe
    assert recipe == SynthesisConfig().recipe.model_copy(update={"prompt": "full"})


def test_the_command_line_changes_the_world_whatever_the_order(tmp_path: Path) -> None:
    path, typed = write(tmp_path, home=HOME), ["--synth.recipe.world=simuhome", "--synth.recipe.phrasings=1"]
    for arguments in (typed, typed[::-1]):
        data, document = load_recipe_document(path, arguments)
        assert data["synth"] == {"blueprints": 7, "recipe": {"world": "simuhome", "phrasings": 1}}
        for key in (("recipe",), ("recipe", "world"), ("recipe", "phrasings"), ("recipe", "types")):
            assert document.locate_key(("synth", *key)) == "command line"
        assert document.locate_key(("synth",)) == f"{path}:3" and document.locate_key(("synth", "blueprints")) == f"{path}:4"


def test_a_file_takes_the_place_of_a_recipe_and_the_other_way_round(tmp_path: Path) -> None:
    rlve = "homerl: 1\nrun: rlve\nmodel: {name: x}\nblueprints: {count: 5, recipe: {intents: [1, 1]}}\n"
    path = write(tmp_path, rlve=rlve)
    taken = load_recipe(path, ["--blueprints.recipe.file", "mine.jsonl"]).blueprints
    assert taken.recipe == BlueprintFile(file="mine.jsonl") and taken.count == 5
    filed = write(tmp_path, filed="homerl: 1\nextends: rlve.yaml\nblueprints: {recipe: {file: mine.jsonl}}\n")
    for world in ("simuhome", "homeenv"):
        made = load_recipe(filed, ["--blueprints.recipe.world", world, "--user.kind", "scripted"]).blueprints.recipe
        assert world_of(made).name == world


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipe: {world: simuhome, home: {}}", "top.yaml:3: synth.recipe.home is not a known key"),
        ("recipe: {types: {qt1: 1}}", "top.yaml:3: synth.recipe.types is not a known key"),
        ("recipe: {world: [simuhome]}", "top.yaml:3: synth.recipe is {'world': ['simuhome']}"),
        ("recipe: 3", "write a mapping with `world:` set to one of homeenv, personalhome, simuhome"),
        ("recipe: {world: mars}", "write a mapping with `world:` set to one of homeenv, personalhome, simuhome"),
        ("recipe: {world: null}", "top.yaml:3: synth.recipe.world is empty, which is not allowed"),
    ],
)
def test_what_no_world_knows_is_refused_where_it_stands(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, home=HOME, top=f"homerl: 1\nextends: home.yaml\nsynth: {{{text}}}\n")
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert message in str(caught.value)


def test_the_default_world_may_be_named_and_is_never_written_down() -> None:
    """Digests of datasets, and the recipes beside runs, are older than the key."""
    named = SynthesisConfig.model_validate({"recipe": {"world": "homeenv"}})
    assert named == SynthesisConfig() and named.digest == SynthesisConfig().digest == "17b420c1e9f25686"
    recipe = load_recipe("recipes/quickstart.yaml")
    data = recipe_data(recipe)
    assert "world" not in data["synth"]["recipe"] and KINDS["flywheel"].model_validate(data) == recipe
    assert world_of(recipe.synth.recipe) is world_of(data["synth"]["recipe"]) is world_of({"world": "homeenv"})
