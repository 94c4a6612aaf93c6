"""A world of one lamp, which lives in `tests/worlds/lamp` and is known to nothing outside that folder, goes through all of
homerl: synthesis, SFT, RLVE, benchmark, report, export, reverify and schemas."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import forked
import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

WORLDS = Path(__file__).parent / "worlds"
HOURS = {"hour 0", "hour 1", "hour 2"}
RECIPE = {
    "homerl": 1, "run": "flywheel", "cpu": True, "parallel": "none", "wandb": {"mode": "disabled"}, "processes": 1,
    "model": {"dtype": "float32", "from_scratch": {
        "hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 64}},
    "synth": {"blueprints": 20, "shard": 10, "recipe": {"world": "lamp"}},
    "sft": {"dialogues_per_update": 4, "max_steps": 4, "save_steps": None, "log_steps": 1, "learning_rate": 1e-3},
    "blueprints": {"recipe": {"world": "lamp"}, "count": 20},
    "rlve": {"updates": 1, "blueprints_per_update": 2, "group": 4, "max_tokens": 24, "save_steps": None},
    "limits": {"turns": 2, "steps": 3, "steps_per_turn": 2},
    "bench": {"max_tokens": 24, "limits": {"turns": 2, "steps": 3, "steps_per_turn": 2},
              "suites": [{"name": "lamps", "count": 3, "recipe": {"world": "lamp"}}]},
}  # fmt: skip


STAGES = """
import sys
from homerl.app.runs.stages import start_stage_process, stage_recipe_path
from homerl.app.runs.flywheel import flywheel_stages
from homerl.app.runs.recipe import load_recipe

for stage, _ in flywheel_stages(load_recipe(sys.argv[1])):
    with start_stage_process(stage, ["true"]):
        print(stage_recipe_path(stage))
"""


def homerl(*arguments: object, code: int = 0, worlds: Path = WORLDS, loads: Sequence[str] = ()) -> str:
    """What the command line says, with the lamp among its worlds."""
    done = forked.homerl(*arguments, loads=loads, often=True, HOMERL_WORLDS=str(worlds), OMP_NUM_THREADS="1")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished flywheel on lamps. Its stages begin with training loaded; it finds all made, and reports."""
    out = tmp_path_factory.mktemp("lamp")
    recipe = out / "lamp.yaml"
    recipe.write_text(yaml.safe_dump({**RECIPE, "out": str(out / "run")}))
    (out / "stages.py").write_text(STAGES)
    for stage in map(Path, forked.script(out / "stages.py", recipe, cwd=out, often=True, HOMERL_WORLDS=str(WORLDS)).split()):
        homerl("run", stage, loads=forked.TRAINING)
    homerl("run", recipe)
    return out / "run"


def test_data_models_and_scores_are_made(run):
    stats = json.loads((run / "synth/stats.json").read_text())
    assert stats["trajectories"] > 0 and stats["generation_success"] > 0.5
    for model in ("untrained", "sft", "rlve"):
        score = json.loads((run / model / "bench/lamps/score.json").read_text())
        assert score["n"] == 3 and set(score["by_family"]) == {"dim"}
        assert sum(part["n"] for part in score["by_aim"].values()) == 3
    assert "the same results" in " ".join(homerl("bench", "rescore", run / "rlve/bench/lamps").split())
    assert (run / "rlve/model/model.safetensors").is_file()


@pytest.mark.long
def test_its_errors_stand_in_its_reports_and_in_no_other(tmp_path):
    homerl("bench", "build", "lamp-bench", "--out", tmp_path)
    homerl("bench", "run", tmp_path / "lamp-bench.jsonl", "--model", "clumsy", "--out", tmp_path / "own")
    own = (tmp_path / "own/report.html").read_text()
    assert ">outcome</abbr>: what the lamp came to<" in own and "The lamp's taxonomy" in own
    homerl("bench", "run", "smh-bench", "--model", "nothing", "--limit", "1", "--out", tmp_path / "other")
    page = (tmp_path / "other/report.html").read_text()
    assert "SMH-Bench's taxonomy" in page and "the lamp came to" not in page and "another world has" not in page


def test_its_goals_stand_in_the_report(run):
    assert "the lamp is " in (run / "report.html").read_text()


def test_its_trajectories_replay(run):
    assert "all as recorded" in homerl("reverify", run / "synth/trajectories.jsonl")
    for file in sorted((run / "rlve/rollouts").glob("*.jsonl")):
        assert "all as recorded" in homerl("reverify", file)
    changed = run / "changed.jsonl"
    changed.write_text((run / "synth/trajectories.jsonl").read_text().replace('\\"wanted\\":[', '\\"wanted\\":[1', 1))
    assert "changed.jsonl:1" in homerl("reverify", changed, code=2)


@pytest.mark.long  # test_export.py looks at cards of other worlds
def test_its_card_shows_its_own_tools_and_prompt(run, tmp_path):
    homerl("export", run, "--to", tmp_path / "agent")
    card = (tmp_path / "agent/README.md").read_text()
    assert "set_level" in card and "one lamp" in card and "Set the lamp to 40 percent." in card
    assert "pyexec" not in card and "kitchen" not in card


@pytest.mark.parametrize(
    ("suite", "labels"),
    [
        pytest.param("lamp-bench", {"glow": {"lit", "dark"}}, marks=pytest.mark.long),
        ("lamp-bench-night", {"hour": HOURS, "glow": {"dark"}}),
    ],
)
def test_its_benchmarks_are_built_played_grouped_and_scored_again(tmp_path, suite, labels):
    homerl("bench", "build", suite, "--out", tmp_path)
    file, out = tmp_path / f"{suite}.jsonl", tmp_path / "expert"
    said = homerl("bench", "run", file, "--model", "expert", "--out", out)
    score = json.loads((out / "score.json").read_text())
    assert score["n"] == 12 and score["success"] == 1.0 and f"{suite}, wall: expert" in said
    assert {key: set(score[f"by_{key}"]) for key in labels} == labels and not {"by_category", "by_size"} & set(score)
    assert json.loads((out / "run.json").read_text())["setting"] == "wall", "the suite's first"
    assert "the same results" in " ".join(homerl("bench", "rescore", out).split())
    rows = [line.split(",") for line in (out / "report.csv").read_text().splitlines()[1:]]
    assert {(suite, group, value) for group in labels for value in labels[group]} < {(r[0], r[3], r[4]) for r in rows}
    page = (out / "report.html").read_text()
    assert "set_level(level=" in page and "the lamp is at" in page
    assert all(f'<select name="{label}">' in page and f' data-{label}="' in page for label in labels)


@pytest.mark.long
def test_its_benchmark_has_settings_of_its_own(tmp_path):
    homerl("bench", "build", "lamp-bench", "--out", tmp_path)
    play = ("bench", "run", tmp_path / "lamp-bench.jsonl", "--model", "expert", "--out", tmp_path / "out", "--setting")
    assert "no setting 'eia'\none of wall, phone" in homerl(*play, "eia", code=2)
    assert "lamp-bench, phone: expert" in homerl(*play, "phone")


def test_what_it_has_no_devices_for_is_no_column_of_results(run):
    (first, *_) = (run / "sft/bench/lamps/results.jsonl").read_text().splitlines()
    assert "families" in json.loads(first) and "devices" not in json.loads(first)


def test_a_task_of_no_suite_is_refused(tmp_path):
    homerl("bench", "build", "lamp-bench", "--out", tmp_path)
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "lamp-bench.jsonl").read_text().replace('"id":"lamp-bench-1"', '"id":"torch-1"'))
    said = homerl("bench", "run", other, "--model", "expert", "--out", tmp_path / "out", code=2)
    assert "other.jsonl:2: the world 'lamp' has no suite with a task 'torch-1'" in said and "lamp-bench-night" in said


@pytest.mark.long
@pytest.mark.parametrize(  # the first of the world; and one by name
    ("name", "suite"), [("lamp", "lamp-bench"), ("lamp-bench-night", "lamp-bench-night")]
)
def test_a_benchmark_that_is_not_shipped_is_built_beside_its_results_once(tmp_path, name, suite):
    out, file = tmp_path / name, tmp_path / name / f"{suite}.jsonl"
    said = homerl("bench", "run", name, "--model", "expert", "--out", out)
    homerl("bench", "build", name, "--out", tmp_path / "built")
    assert file.read_bytes() == (tmp_path / f"built/{suite}.jsonl").read_bytes() and "sha256" in said
    assert "sha256" not in homerl("bench", "run", name, "--model", "expert", "--out", out, "--resume")
    file.write_text(file.read_text() + "{}\n")
    again = homerl("bench", "run", name, "--model", "expert", "--out", out, "--resume", code=2)
    assert f"{suite}.jsonl: the suite is not the one that was built" in again


def test_a_recipe_is_refused_a_benchmark_that_is_not_shipped(tmp_path):
    said = homerl("check", of_benchmark(tmp_path), code=2)
    assert "bench.suites.0.benchmark" in said and "'lamp-bench' is not shipped" in said


@pytest.mark.long
def test_a_recipe_plays_a_shipped_benchmark_in_one_of_its_settings(tmp_path):
    worlds = Path(shutil.copytree(WORLDS, tmp_path / "worlds"))
    homerl("bench", "build", "lamp-bench", "--out", worlds / "lamp", worlds=worlds)
    assert "setting: phone" in homerl("check", of_benchmark(tmp_path, setting="phone"), "--full", worlds=worlds)
    said = homerl("check", of_benchmark(tmp_path, setting="eia"), code=2, worlds=worlds)
    assert "bench.suites.0.setting" in said and "no setting 'eia'" in said and "one of wall, phone" in said
    code = (
        "from homerl.bench.recipe import SuiteSettings; from homerl.play.episode import EpisodeLimits;"
        "from homerl.app.runs.stages import suite_episodes;"
        "suites = [SuiteSettings(benchmark='lamp-bench', **more) for more in ({}, {'setting': 'phone'})];"
        "print(*(suite_episodes(suite, EpisodeLimits()).setting for suite in suites))"
    )
    done = forked.python(code, often=True, HOMERL_WORLDS=str(worlds))
    assert done.stdout.split() == ["wall", "phone"], "the first is the default"


def of_benchmark(folder: Path, **more: str) -> Path:
    """A recipe that plays the lamps' own benchmark."""
    suites = [{"name": "lamps", "benchmark": "lamp-bench", **more}]
    path = folder / "benchmark.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, "bench": {"suites": suites}, "out": str(folder / "run")}))
    return path


def test_its_files_have_schemas(run, tmp_path):
    homerl("schemas", "--out", tmp_path)
    schemas = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    registry = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in schemas.items())
    row = json.loads((run / "synth/trajectories.jsonl").read_text().splitlines()[0])
    Draft202012Validator(schemas["lamp-blueprint.v1.json"], registry=registry).validate(json.loads(row["blueprint"]))
    blueprint = schemas["trajectory.v3.json"]["properties"]["blueprint"]
    assert {"$ref": "lamp-blueprint.v1.json"} in blueprint["anyOf"]


def test_a_key_that_its_recipe_has_not_is_refused_by_its_place(tmp_path):
    path = tmp_path / "r.yaml"
    for recipe, known in (({"levles": [1]}, "homeenv"), ({"world": "lamp", "levles": [1]}, "lamp")):
        path.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "synth": {"recipe": recipe}}))
        said = homerl("check", path, code=2)
        assert "synth.recipe.levles is not a known key" in said
        assert ("known: world, levels)" in said, "known: world, home, intents" in said) == (known == "lamp", known != "lamp")


def test_the_reference_lists_its_recipe_beside_the_others(tmp_path):
    homerl("reference", "--out", tmp_path / "reference.md")
    page = (tmp_path / "reference.md").read_text()
    worlds = re.findall(r"^### World (\w+)$", page, re.M)
    assert sorted(worlds) == ["homeenv", "lamp", "personalhome", "simuhome"]
    assert "- `levels: [0, 20, 40, 60, 80, 100]`" in page


def test_what_a_world_has_not_is_refused_by_name(tmp_path):
    recipe = {**RECIPE, "out": str(tmp_path), "user": {"kind": "llm", "url": "http://127.0.0.1:9/v1", "model": "m"}}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    assert "in the world 'lamp' no such user can speak" in homerl("check", tmp_path / "r.yaml", code=2)
    synth = {"homerl": 1, "run": "synth", "synth": {"strategy": "m1", "recipe": {"world": "lamp"}}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(synth))
    assert "cannot role-play in the world 'lamp'" in homerl("check", tmp_path / "s.yaml", code=2)


def test_the_lamp_keeps_the_contract_of_worlds():
    code = (
        "from homerl.envs.core.world import check_world; from homerl.envs.lamp.situation import LampEnv;"
        "check_world(LampEnv(0, 40), [{'name': 'set_level', 'level': 40}, {'name': 'set_level', 'level': 200}]);"
        "from homerl.worlds.plugin_checks import check_world_adapter; from homerl.worlds.registry import known_worlds;"
        "check_world_adapter(known_worlds()['lamp'])"
    )
    done = forked.python(code, often=True, HOMERL_WORLDS=str(WORLDS))
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_without_its_folder_it_is_refused(tmp_path):
    (tmp_path / "r.yaml").write_text("homerl: 1\nrun: synth\nsynth: {recipe: {world: lamp}}\n")
    done = forked.homerl("check", tmp_path / "r.yaml")
    assert done.returncode == 2 and "'lamp'" in done.stderr and "simuhome" in done.stderr.lower()
