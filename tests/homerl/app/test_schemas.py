"""JSON Schemas: what homerl writes is valid, what it refuses is not, and the written files are those of the code."""

import asyncio
import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from homerl.app.recipe_reference import write_recipe_schema
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.devices.device_spec import SHIPPED
from homerl.envs.homeenv.sim.home_file import home_to_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.simuhome.tasks.blueprint import SimuHomeRecipe
from homerl.play.faults import InfraError
from homerl.play.loop import User, play
from homerl.play.trajectory import JSON_COLUMNS, trajectory_to_row
from homerl.report.cards.json_schemas import build_json_schemas, schema_file_name, write_json_schemas
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser


@cache
def registry() -> Registry:
    """Where the schemas find each other."""
    made = build_json_schemas().items()
    return Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in made)


def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(build_json_schemas()[schema_file_name(kind)], registry=registry())


def faulty_data() -> dict:
    """A trajectory that a server ended."""

    class Gone(ScriptedUser):
        async def speak(self, episode):
            raise InfraError("gone")

    return trajectory_data(user=Gone())


def trajectory_data(recipe=BlueprintRecipe(), user: User = ScriptedUser(0)) -> dict:
    """A trajectory as it is stored, its JSON columns opened."""
    blueprint = make_blueprint_of_seed(recipe, "train", 3)
    expert = world_of(blueprint).expert(ExpertConfig(mistakes=0.0), 0)
    row = trajectory_to_row(asyncio.run(play(begin_episode(blueprint), expert, user)))
    opened = (*JSON_COLUMNS, "fault")
    data = {key: json.loads(value) if key in opened else value for key, value in row.items() if key != "id"}
    return json.loads(json.dumps(data))


def home_data() -> dict:
    home = HomeSampler.sample_test()
    home.rules = (make_rule(home, ["home.temperature > 30"], [{"did": "1001", "locator": "turn_off"}]),)
    home.advance(60)
    return json.loads(json.dumps(home_to_json(home)))


def test_what_is_written_is_valid():
    validator("home").validate(home_data())
    blueprint = make_blueprint_of_seed(BlueprintRecipe(), "heldout", 5)
    validator("blueprint").validate(json.loads(blueprint.model_dump_json()))
    validator("trajectory").validate(trajectory_data())
    validator("trajectory").validate(faulty := faulty_data())
    assert faulty["fault"] == {"boundary": "server", "reason": "gone"}
    other = trajectory_data(SimuHomeRecipe(world="simuhome"))
    validator("trajectory").validate(other)
    validator("simuhome-blueprint").validate(other["blueprint"])
    for path in SHIPPED.glob("*.yaml"):
        for spec in yaml.safe_load(path.read_text(encoding="utf-8")):
            validator("device").validate(spec)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("home", lambda data: data.pop("rooms")),
        ("home", lambda data: data.update(colour="red")),
        ("home", lambda data: data["rules"][0].update(actions=[{"did": "1001"}])),
        ("home", lambda data: data["specs"].update({"1": {"name": "lamp"}})),
        ("trajectory", lambda data: data.update(outcome="bliss")),
        ("trajectory", lambda data: data.update(fault={"boundary": "weather", "reason": "rain"})),
        ("trajectory", lambda data: data.update(fault={"boundary": "user"})),
        ("trajectory", lambda data: data["blueprint"]["home"].pop("rooms")),
        ("trajectory", lambda data: data["blueprint"]["intents"][0].update(queries="one")),
        ("trajectory", lambda data: data["steps"][0]["facts"].pop("turn")),
    ],
)
def test_what_is_wrong_is_not(kind, change):
    data = {"home": home_data, "trajectory": trajectory_data}[kind]()
    change(data)
    assert not validator(kind).is_valid(data)


def test_the_shipped_schemas_are_those_of_the_code(tmp_path: Path):
    """A change of a model is a change of its format: raise the version before you write the files anew."""
    shipped = Path(__file__).parents[3] / "docs" / "schemas"
    written = (*write_json_schemas(tmp_path), write_recipe_schema(tmp_path))
    same = {p.name: p.read_text("utf-8") for p in written} == {p.name: p.read_text("utf-8") for p in shipped.iterdir()}
    assert same, "docs/schemas is of other code. Run: ./scripts/regenerate"
