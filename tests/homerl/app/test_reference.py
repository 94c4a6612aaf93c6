"""The reference of recipes and their JSON Schema: both are those of the code, and both say everything."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from homerl.app.recipe_reference import (
    PARTIAL,
    build_recipe_schema,
    definition_name,
    describe_schema,
    find_sections,
    heading_anchor,
    referenced_models,
    render_reference,
    schema_definitions,
    write_recipe_schema,
)
from homerl.app.runs.recipe import KINDS, load_recipe, recipe_data
from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.host.recipe_files import BaseRecipe, load_recipe_document
from homerl.worlds.registry import known_worlds

ROOT = Path(__file__).parents[3]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
SENTENCE = re.compile(r"[A-Z`].*\.", re.S)


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(build_recipe_schema())


def plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


# The files in docs


def test_the_page_is_that_of_the_code() -> None:
    same = (ROOT / "docs/reference.md").read_text("utf-8") == render_reference()
    assert same, "docs/reference.md is of other code. Run: ./scripts/regenerate"


def test_the_schema_is_that_of_the_code(tmp_path: Path) -> None:
    path = write_recipe_schema(tmp_path)
    same = (ROOT / "docs/schemas" / path.name).read_text("utf-8") == path.read_text("utf-8")
    assert same, f"docs/schemas/{path.name} is of other code. Run: ./scripts/regenerate"


# What they say


@pytest.mark.parametrize("model", sorted(schema_definitions()))
def test_every_key_is_described_by_a_sentence(model: str) -> None:
    keys = schema_definitions()[model]["properties"]
    assert [key for key, schema in keys.items() if not SENTENCE.fullmatch(describe_schema(schema))] == []


@pytest.mark.parametrize("model", sorted(schema_definitions()))
def test_every_section_is_described_by_a_sentence(model: str) -> None:
    assert SENTENCE.fullmatch(describe_schema(schema_definitions()[model]))


def stands(key: str, text: str) -> bool:
    return re.search(rf"^- `{re.escape(key)}[`:]", text, re.M) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_names_its_keys(kind: str) -> None:
    (line,) = re.findall(rf"^- `{kind}`: .* Its keys: (.*)\.$", render_reference(), re.M)
    keys = set(schema_definitions()[definition_name(KINDS[kind])]["properties"]) - {*BaseRecipe.model_fields, "run"}
    assert set(re.findall(r"`(\w+)`", line)) == keys


@pytest.mark.parametrize("model", find_sections())
def test_every_key_stands_once_in_its_section_or_in_one_that_this_links_to(model: str) -> None:
    parts = {part.partition("\n")[0]: part for part in re.split(r"^#+ ", render_reference(), flags=re.M)}
    section = find_sections()[model]
    own = parts[section.heading_text]
    others = [part for title, part in parts.items() if f"](#{heading_anchor(title)})" in own and title.startswith("Keys of")]
    for key in schema_definitions()[model]["properties"]:
        path = f"{section.key_path}.{key}".lstrip(".")
        assert stands(path, own) + sum(stands(key, other) for other in others) == 1, (model, key)


def test_sections_that_share_keys_say_their_own_defaults() -> None:
    page = render_reference()
    shared, rlve = page[page.index("### Keys of `sft` and `rlve`") :], page[page.index("\n### `rlve`\n") :]
    assert "\n- `learning_rate: 1e-05`: " in shared and "with `learning_rate: 1e-06`." in rlve.split("\n\n")[1]


def test_a_section_stands_once() -> None:
    titles = re.findall(r"^#+ .*$", render_reference(), re.M)
    assert len(set(titles)) == len(titles)


def test_every_world_has_its_section_and_links_lead_to_headings() -> None:
    page = render_reference()
    titles = [line.lstrip("# ") for line in page.splitlines() if line.startswith("#")]
    links = set(re.findall(r"\]\(#([^)]*)\)", page))
    assert links <= {heading_anchor(title) for title in titles} and len(links) > 20
    assert all(f"World {name}" in titles for name in known_worlds())


def test_the_families_that_the_reference_names_are_those_that_there_are() -> None:
    said = BlueprintRecipe.model_json_schema()["properties"]["families"]["description"]
    assert said in render_reference() and set(re.findall(r"`(\w+)`", said)) == set(intent_families())


# What the schema allows


def test_it_is_a_schema_that_needs_no_other_file() -> None:
    schema = build_recipe_schema()
    Draft202012Validator.check_schema(schema)
    assert referenced_models(schema) == set(schema["$defs"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_are_valid_as_they_stand_and_whole(path: Path) -> None:
    validator().validate(plain(read_yaml(path).data))
    validator().validate(plain(load_recipe_document(path)[0]))
    validator().validate(plain(recipe_data(load_recipe(path))))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_name_the_schema_to_editors(path: Path) -> None:
    named = path.read_text("utf-8").splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert json.loads((path.parent / named).read_text("utf-8"))["$id"] == build_recipe_schema()["$id"]


@pytest.mark.parametrize("name", ["mine.yaml", "runs/x/recipe.yaml"])
def test_a_recipe_may_extend_with_parts_of_what_it_needs(name: str) -> None:
    validator().validate({"extends": name})
    validator().validate({"extends": name, "run": "rlve", "user": {"serve": {"port": 8401}}})
    validator().validate({"extends": name, "blueprints": {"recipe": {"types": {"qt1": 1.0}}}})  # the base names the world
    validator().validate({"extends": name, "bench": {"suites": [{"recipe": {"world": "simuhome"}}]}})


WHOLE = {"homerl": 1, "run": "rlve", "model": {"name": "x"}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"homerl": 1, "run": "rlve"},
        {"run": "rlve", "model": {"name": "x"}},
        {"homerl": 1, "model": {"name": "x"}},
        WHOLE | {"run": "nonsense"},
        WHOLE | {"data": "x"},
        WHOLE | {"rlve": {"grup": 8}},
        WHOLE | {"rlve": {"group": 1}},
        WHOLE | {"rlve": {"group": "many"}},
        WHOLE | {"rlve": {"loss": "ppo"}},
        WHOLE | {"limits": {"turn": 3}},
        WHOLE | {"rewards": {"progres": 1.0}},
        WHOLE | {"blueprints": {"recipe": {"types": {"qt1": 1.0}}}},
        WHOLE | {"blueprints": {"recipe": {"world": "mars"}}},
        WHOLE | {"blueprints": {"recipe": {"world": "simuhome", "home": {}}}},
        WHOLE | {"blueprints": {"recipe": {"file": "x.jsonl", "intents": [1, 1]}}},
        WHOLE | {"user": {"serve": {"model": "x"}}},
        {"extends": "x.yaml", "rlve": {"grup": 8}},
        {"extends": "x.yaml", "run": "sft", "rlve": {"group": 8}},
        {"extends": "x.yaml", "blueprints": {"recipe": {"world": "simuhome", "home": {}}}},
        {"extends": ["x.yaml"]},
    ],
    ids=json.dumps,
)
def test_it_refuses_what_recipes_refuse(wrong: dict[str, Any], tmp_path: Path) -> None:
    assert validator().is_valid(WHOLE) and not validator().is_valid(wrong)
    (tmp_path / "x.yaml").write_text("homerl: 1\nrun: rlve\nmodel: {name: x}\n")
    (tmp_path / "wrong.yaml").write_text(json.dumps(wrong) + "\n")
    with pytest.raises(InputError):
        load_recipe(tmp_path / "wrong.yaml")


def test_what_extends_needs_a_twin_of_a_model_only_where_it_may_leave_something_out() -> None:
    """Or the schema would be twice as long."""
    twins = {name.removeprefix(PARTIAL) for name in build_recipe_schema()["$defs"] if name.startswith(PARTIAL)}
    assert {"ServeSettings", "UserSettings"} <= twins and not twins & {"RLVESettings", "BlueprintRecipe", "EpisodeLimits"}
