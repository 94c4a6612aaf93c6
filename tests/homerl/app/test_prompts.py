"""The prompts of a recipe are measured before any work: by its tokenizer, in any world, against each of its limits."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_families import family_tokenizer
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.app.runs import rehearsal as prompts
from homerl.app.runs.launch import main
from homerl.app.runs.recipe import load_recipe
from homerl.app.runs.rehearsal import PromptSize, measure_prompts, tokens_per_device
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.host.recipe_files import BaseRecipe
from homerl.models.policy.chat_template import chat_format_of
from homerl.play.episode import EpisodeLimits
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import RolloutPlayer
from homerl.train.training_setup import load_chat_tokenizer
from homerl.worlds.registry import default_world, make_blueprint_of_seed
from homerl.worlds.users import ScriptedUser

ROOT = Path(__file__).parents[3]
SCRATCH = {"hidden_size": 16, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 16, "intermediate_size": 16}


@pytest.fixture
def made(tmp_path, task, monkeypatch) -> Callable[..., BaseRecipe]:
    """A recipe, `r.yaml` in the current folder, with the sections that are given."""
    monkeypatch.chdir(tmp_path)
    blueprints = task.model_dump(mode="json", exclude_defaults=True)

    def make(run: str, **sections: Any) -> BaseRecipe:
        data: dict[str, Any] = {"homerl": 1, "run": run, "cpu": True, "out": "run", "wandb": {"mode": "disabled"}}
        if run in ("rlve", "flywheel"):
            data["blueprints"] = {"recipe": blueprints, "count": 24}
        if run == "flywheel":
            data |= {"synth": {"recipe": blueprints, "blueprints": 24}, "model": {"from_scratch": SCRATCH}}
            data["bench"] = {"suites": [{"recipe": blueprints, "count": 4}]}
        for name, section in sections.items():
            data[name] = {**data.get(name, {}), **section}
        Path("r.yaml").write_text(yaml.safe_dump(data))
        return load_recipe("r.yaml")

    return make


def measured(recipe: BaseRecipe) -> list[str]:
    return [found.line for found in measure_prompts(recipe, "r.yaml")]


def test_a_first_prompt_is_as_long_as_the_policy_reads_it(made, tiny, task):
    recipe = made("rlve", model={"name": str(tiny)})
    player = RolloutPlayer(
        None, load_chat_tokenizer(str(tiny)), lambda seed: ScriptedUser(0), EpisodeLimits(), RewardWeights(), 1
    )
    played = player.play_blueprints(
        [make_blueprint_of_seed(task, "train", 1_000_000 + number) for number in range(24)], range(24)
    )
    longest = max(int(rollout.trajectory.fault.reason.split()[4]) for rollout in played)
    [line] = measured(recipe)
    assert line.startswith(f"blueprints.recipe: the first prompts of 24 blueprints have up to {longest} tokens (")
    made("rlve", model={"name": str(tiny)}, rlve={"max_episode_tokens": longest + 1})
    assert f"rlve.max_episode_tokens {longest + 1} leaves 1," in measured(load_recipe("r.yaml"))[0]
    with pytest.raises(
        InputError, match=rf"^r.yaml: blueprints.recipe: a first prompt has {longest} tokens, and rlve.max_epi"
    ):
        measure_prompts(made("rlve", model={"name": str(tiny)}, rlve={"max_episode_tokens": longest}), "r.yaml")


def test_a_model_that_takes_less_is_named(made, tiny, tmp_path):
    for file in tiny.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 40}))
    with pytest.raises(InputError, match=r"and model.name is 40\ntake a model with a longer context, or take fewer devices"):
        measure_prompts(made("rlve", model={"name": str(tmp_path)}), "r.yaml")
    [found] = measure_prompts(made("bench", model={"name": str(tmp_path)}, bench={"suites": [{"count": 4}]}), "r.yaml")
    assert found.warns and "model.name 40 leaves 0" in found.line  # what the model cannot take is its failure


def test_dialogues_that_sft_would_refuse_are_refused_before_they_are_made(made, dialogues, tmp_path):
    with pytest.raises(
        InputError, match=r"^r.yaml: synth.recipe: a dialogue of the expert has about \d+ tokens, and sft.max"
    ):
        measure_prompts(made("flywheel", sft={"max_length": 150}), "r.yaml")
    agent = {"model": "m", "url": "http://127.0.0.1:9"}
    lines = measured(made("flywheel", sft={"max_length": 150}, synth={"agent": agent}))
    assert "sft.max_length 150 leaves" in lines[0]  # a chat model says other things


def test_what_is_refused_is_refused_before_any_synthesis_and_as_many_devices_fit_as_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prompts, "BLUEPRINTS", 12)
    recipe, others = str(ROOT / "recipes/home_assistant.yaml"), ["--synth.curriculum", "[]", "--wandb.mode", "disabled"]

    def exposing(devices: int) -> list[str]:
        save_home(make_home(3, HomeRecipe(devices=(devices, devices))), tmp_path / f"{devices}.json")
        return [*others, "--every.home.files", f'["{devices}.json"]']

    assert main(recipe, exposing(60)) == 2
    said = capsys.readouterr().err
    assert "synth.recipe: a first prompt has about" in said and "and sft.max_length is 2,048" in said
    assert not Path("runs").exists()
    fitting = int(said.split("(about ")[1].split()[0])
    assert 20 < fitting < 60
    assert f"of {fitting - 4} devices)" in measured(load_recipe(recipe, exposing(fitting - 4)))[0]
    with pytest.raises(InputError, match=r"(a first prompt|a dialogue of the expert) has about"):
        measured(load_recipe(recipe, exposing(fitting + 12)))


def test_the_first_process_measures_for_all(made, tiny, monkeypatch, capsys):
    made("rlve", model={"name": str(tiny)}, rlve={"max_episode_tokens": 10, "group": 4, "blueprints_per_update": 2})
    ran: list[str] = []
    monkeypatch.setattr("homerl.app.runs.launch.run_recipe", lambda *_: ran.append(os.environ["RANK"]))
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, code in (("0", 2), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        assert main("r.yaml", []) == code
    assert ran == ["1"] and "a first prompt has" in capsys.readouterr().err


def test_prompts_of_every_world_are_measured(monkeypatch):
    monkeypatch.setattr(prompts, "BLUEPRINTS", 4)
    recipe = load_recipe(str(ROOT / "recipes/one_agent.yaml"))
    lines = {line.split(":")[0]: line for line in measured(recipe)}
    parts = {name: line for name, line in lines.items() if name.startswith("synth.recipe.worlds.")}
    assert len(parts) == len(recipe.synth.recipe.worlds) > 3
    assert all("of 4 blueprints have up to about" in line and "leaves" in line for line in parts.values())
    listed = [name.rpartition(".")[2] for name, line in parts.items() if "devices fit" in line]
    assert listed == ["home", "smh", "assist"]  # in the others, agents ask for devices


def test_prompts_in_a_models_own_template_are_measured(made, tiny, rows, tmp_path):
    """One that takes the arguments of calls as objects alone."""
    texts = [message["content"] for row in rows for message in row["messages"]]
    tokenizer = family_tokenizer("granite", texts)
    takes = "{%- if m.tool_calls %}"
    tokenizer.chat_template = tokenizer.chat_template.replace(
        takes, takes + "{%- for c in m.tool_calls %}{%- set _ = c.function.arguments.items() %}{%- endfor %}"
    )
    tokenizer.save_pretrained(tmp_path / "own")
    (tmp_path / "own/config.json").write_bytes((tiny / "config.json").read_bytes())
    assert chat_format_of(load_chat_tokenizer(str(tmp_path / "own"))).own
    [line] = measured(made("rlve", model={"name": "./own"}))
    assert "of tools" in line and int(line.split("take up to ")[1].split(";")[0]) > 0


def test_a_world_that_only_llm_users_speak_in_is_measured_too(made, tiny, monkeypatch):
    recipe = made("rlve", model={"name": str(tiny)}, user={"kind": "llm", "model": "m", "url": "http://127.0.0.1:9"})
    monkeypatch.setattr(type(default_world()), "users", ("llm",))
    assert "the expert's dialogues take up to 0;" in measured(recipe)[0].replace("of which ", "")


def test_without_a_tokenizer_nothing_is_measured(made, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    [line] = measured(made("rlve", model={"name": "./model"}))
    assert line.startswith("not measured, since there is no tokenizer")


def test_the_check_prints_what_was_measured(made, tiny):
    made("rlve", model={"name": str(tiny)})
    done = CliRunner().invoke(app, ["check", "r.yaml"])
    assert "\nprompts: blueprints.recipe: the first prompts of 24 blueprints have up to" in done.output


def sizes(*pairs: tuple[int | None, int]) -> list[PromptSize]:
    return [PromptSize(prompt=told + 10, tools=0, told=told, whole=told + 50, devices=devices) for devices, told in pairs]


@pytest.mark.parametrize(
    ("some", "each"),
    [
        (sizes((10, 250), (20, 400), (40, 700)), 15),  # 100 of instructions
        (sizes((20, 400), (20, 420)), 20.5),  # they are counted with the devices
        (sizes((10, 100), (40, 104), (20, 98)), 0),  # nothing is listed
        (sizes((None, 100), (None, 200)), 0),
    ],
)
def test_the_tokens_of_a_device(some, each):
    assert tokens_per_device(some) == pytest.approx(each)
