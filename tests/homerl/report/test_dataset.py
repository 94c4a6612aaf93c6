"""A synthesis as a dataset: version, schema and card, what the hub holds of it, and that it can be trained on."""

import json
import re

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.play.trajectory import read_rows
from homerl.report.cards.dataset_card import FILES, push_dataset, write_dataset_description
from homerl.report.cards.json_schemas import build_json_schemas, file_formats, schema_file_name
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import join_shards, make_shard

CONFIG = SynthesisConfig(blueprints=6, version="1.2.0")


@pytest.fixture
def made(tmp_path):
    """A finished synthesis."""
    make_shard(CONFIG, range(6), tmp_path / "shards")
    join_shards(CONFIG, tmp_path / "shards", [range(6)], tmp_path, write_dataset_description)
    return tmp_path


def front_and_text(card: str) -> tuple[dict, str]:
    _, front, text = card.split("---\n", 2)
    return yaml.safe_load(front), text


def test_a_finished_synthesis_says_what_it_is(made):
    facts = json.loads((made / "dataset.json").read_text())
    rows = list(read_rows(made / "trajectories.jsonl"))
    assert facts["version"] == "1.2.0" and facts["rows"] == len(rows) > 6 and len(facts["sha256"]) == 64
    front, text = front_and_text((made / "README.md").read_text())
    assert front["size_categories"] == ["n<1K"] and front["configs"][0]["data_files"] == "trajectories.jsonl"
    assert "1.2.0" in text and "MCTS-Flow" in text and facts["sha256"] in text and "the scripted expert" in text


def test_rows_are_valid_under_their_shipped_schema_json_columns_too(made):
    known = {name: json.loads((made / "schemas" / name).read_text()) for name in map(schema_file_name, file_formats())}
    registry = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in known.items())
    schema = known[schema_file_name("row")]
    whole = Draft202012Validator(schema, registry=registry)
    for row in read_rows(made / "trajectories.jsonl"):
        whole.validate(row)
        for name, column in schema["properties"].items():
            if "contentSchema" in column and name in row:  # a fault is there where there is one
                Draft202012Validator(column["contentSchema"], registry=registry).validate(json.loads(row[name]))
        assert not whole.is_valid({**row, "messages": [{"role": "user"}]}) and not whole.is_valid({**row, "seed": "one"})
    assert build_json_schemas()[schema_file_name("row")] == schema


def test_where_models_answered_is_in_no_file_of_it(tmp_path):
    model = {"url": "http://gpu7.internal:8000/v1", "model": "org/strong", "key": "MY_SECRET_KEY"}
    config = SynthesisConfig.model_validate({"agent": model, "user": {"kind": "llm", **model}, "blueprints": 3})
    make_shard(SynthesisConfig(blueprints=3), range(3), tmp_path / "shards")
    join_shards(config, tmp_path / "shards", [range(3)], tmp_path, write_dataset_description)
    for name in FILES:
        text = (tmp_path / name).read_text()
        assert "gpu7" not in text and "MY_SECRET" not in text and str(tmp_path) not in text
    assert "`org/strong`" in (tmp_path / "README.md").read_text()


def test_paths_of_the_machine_are_in_no_file_that_describes_it(made, tmp_path, here):
    """Not of a home's files nor of a served model, with spaces or without."""
    folder = tmp_path / "jo's own homes"
    folder.mkdir()
    save_home(make_home(1, HomeRecipe(devices=(4, 6))), folder / "home one.json")
    served = {"model": str(folder / "weights"), "gpus": [0], "arguments": [f"--chat-template={folder / 'mine.jinja'}"]}
    asked = {"agent": {"serve": served}, "blueprints": 6, "recipe": {"home": {"files": [str(folder / "home one.json")]}}}
    config, stats = SynthesisConfig.model_validate(asked), json.loads((made / "stats.json").read_text())
    write_dataset_description(made, config, stats)

    def told() -> str:
        return "".join((made / name).read_text() for name in ("dataset.json", "README.md"))

    assert str(tmp_path) not in told() and "jo's own" not in told()
    assert "home one.json" in told() and all(f".../{name}" in told() for name in ("weights", "mine.jinja"))
    facts = json.loads((made / "dataset.json").read_text())
    (made / "dataset.json").write_text(json.dumps(facts | {"synthesis": config.identity}))
    push_dataset(made, "acme/dialogues")
    assert str(tmp_path) not in told(), "an earlier version described it"


def test_push_uploads_what_it_is_and_tags_the_version(made, here):
    done = CliRunner().invoke(app, ["push-data", str(made), "--to", "acme/dialogues"])
    assert done.exit_code == 0, done.output
    held = here["repos"]["datasets/acme/dialogues"]
    assert held["visibility"] == "private" and held["tags"] == ["v1.2.0"]
    expected = {*FILES, *(f"schemas/{schema_file_name(kind)}" for kind in file_formats())}
    assert set(held["files"]) == expected
    assert all(content == (made / name).read_bytes() for name, content in held["files"].items())
    card = held["files"]["README.md"].decode()
    assert re.search(r'load_dataset\("acme/dialogues", revision="v1.2.0"\)', card)


def test_a_version_that_is_out_never_changes(made, here):
    push_dataset(made, "acme/dialogues")
    with pytest.raises(InputError, match=r"the version v1\.2\.0 is there already"):
        push_dataset(made, "acme/dialogues")
    assert here["repos"]["datasets/acme/dialogues"]["tags"] == ["v1.2.0"]


def test_what_is_not_whole_is_not_pushed(made, here, monkeypatch):
    with (made / "trajectories.jsonl").open("a") as rows:
        rows.write("{}\n")
    with pytest.raises(InputError, match="not those that were described"):
        push_dataset(made, "acme/dialogues")
    with pytest.raises(InputError, match="no finished dataset"):
        push_dataset(made / "shards", "acme/dialogues")
    assert here["repos"] == {}


def test_what_servers_lost_is_made_before_it_is_pushed(made, here):
    stats = json.loads((made / "stats.json").read_text())
    (made / "stats.json").write_text(json.dumps(stats | {"outcomes": stats["outcomes"] | {"infra_error": 2}}))
    with pytest.raises(InputError, match="servers failed for 2 blueprints"):
        push_dataset(made, "acme/dialogues")
    assert here["repos"] == {}


def test_it_is_loaded_as_training_loads_it(made):
    from datasets import load_dataset

    rows = load_dataset("json", data_files=str(made / "trajectories.jsonl"), split="train", cache_dir=str(made / "cache"))
    assert len(rows) == json.loads((made / "dataset.json").read_text())["rows"]
    assert {"messages", "tools", "difficulty"} <= set(rows.column_names)


def test_its_folder_is_loaded_as_the_hub_loads_it(made):
    """By its card, which names the rows alone; they are verified dialogues, so none has the column of faults."""
    from datasets import load_dataset

    rows = load_dataset(str(made), split="train", cache_dir=str(made / "cache"))
    assert len(rows) == json.loads((made / "dataset.json").read_text())["rows"]
    assert "fault" not in rows.column_names
