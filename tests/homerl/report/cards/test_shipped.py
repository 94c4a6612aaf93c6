"""A shipped adapter: plain peft loads it, its name finds it and its base in every command, and what is missing is said."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import constants
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from tiny_agent import DIALOGUE, TOOLS, make_agent
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from homerl.app.chat.session import ChatRequest, open_chat_session
from homerl.app.cli.app import app
from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.app.served.model_agents import load_local_model, make_model_agents
from homerl.bench.stored_scores import read_complete_scores
from homerl.bench.suites import write_suite
from homerl.envs.assistant.commands.serve_agent import choose_prompt_settings
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.bench.suite import SUITES, make_home_instance, suite_slots
from homerl.host import launch_hook
from homerl.report.cards.export import export_model
from homerl.report.cards.model_lineage import trained_blueprint_recipes
from homerl.train import model_sources as named
from homerl.train.model_settings import ModelSettings
from homerl.train.offline_bases import SMOLLM2, OfflineBase
from homerl.train.training_setup import load_chat_tokenizer, load_policy

NAME, HUB = "tiny-home", "acme/Tiny-Llama"
COMMAND = ".*homerl make-base Tiny-Llama"
SYNTH = {
    "homerl": 1,
    "run": "synth",
    "synth": {"recipe": {"toolset": "assist", "prompt": "brief", "home": {"devices": [2, 3]}}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A base in bfloat16, and a run that trained an adapter on it with dialogues of a synthesis."""
    here = tmp_path_factory.mktemp("shipped")
    base = here / "bases/Tiny-Llama"
    make_agent(here / "whole", family="llama")
    AutoModelForCausalLM.from_pretrained(here / "whole/model", dtype=torch.bfloat16).save_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(here / "whole/model")
    template = tokenizer.chat_template
    tokenizer.chat_template = "{{ messages[0].content }}<|im_end|>"
    tokenizer.save_pretrained(base)
    torch.manual_seed(0)
    settings = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings).save_pretrained(here / "run/model")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(here / "run/model")
    recipe = {"homerl": 1, "run": "sft", "out": str(here / "run"), "model": {"name": str(base)}, "data": str(here / "data")}
    (here / "run/recipe.yaml").write_text(yaml.safe_dump(recipe))
    (here / "data").mkdir()
    (here / "data/recipe.yaml").write_text(yaml.safe_dump(SYNTH))
    return here


@pytest.fixture(scope="module")
def exported(made: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("homerl.report.cards.export.MOST", 4)
        return export_model(made / "run", str(made / "exported" / NAME), base=HUB, adapter=True)


@pytest.fixture
def here(exported: Path, made: Path, tmp_path: Path, monkeypatch) -> Path:
    """An installation with the adapter and its base, which a test may spoil, on a machine without a hub."""
    shutil.copytree(exported, tmp_path / "models" / NAME)
    shutil.copytree(made / "bases", tmp_path / "bases")
    known = OfflineBase(HUB, (), "", named.hash_model_weights(str(made / "bases/Tiny-Llama")), "rounded")
    monkeypatch.setattr(named, "BASES", {HUB: known})
    monkeypatch.setattr(launch_hook, "shipped_folder", lambda folder: str(tmp_path / folder))
    monkeypatch.setenv("HOMERL_BASES", str(tmp_path / "bases"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("homerl.report.cards.export.MOST", 4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(torch.arange(3, 60)[None]).logits


def test_plain_transformers_and_peft_load_it(exported: Path, here: Path):
    base = AutoModelForCausalLM.from_pretrained(here / "bases/Tiny-Llama", dtype=torch.float32)
    plain, ours = logits(base), logits(load_policy(ModelSettings(name=NAME, dtype="float32"), NAME))
    assert (logits(PeftModel.from_pretrained(base, exported)) - ours).abs().max() < 1e-4
    assert (ours - plain).abs().max() > 0.1
    assert {weight.dtype for weight in load_file(exported / "adapter_model.safetensors").values()} == {torch.bfloat16}
    assert not list(exported.glob("tokenizer*")), "it is the base's"


def test_it_is_asked_by_the_template_of_its_training(here: Path, made: Path):
    wanted, found = AutoTokenizer.from_pretrained(made / "run/model"), load_chat_tokenizer(NAME)
    asked = {"tools": TOOLS, "tokenize": False}
    assert found.apply_chat_template(DIALOGUE, **asked) == wanted.apply_chat_template(DIALOGUE, **asked)


def test_its_folder_says_on_what_it_was_trained_and_how_one_talks_with_it(exported: Path):
    said, card = json.loads((exported / "homerl.json").read_text()), (exported / "README.md").read_text()
    assert json.loads((exported / "adapter_config.json").read_text())["base_model_name_or_path"] == HUB
    assert f"`{said['base_weights']['model.safetensors']}`" in card and "No other weights" in card
    assert "active_peft_config.base_model_name_or_path" in card
    assert said["talk"]["recipe"]["toolset"] == "assist"
    assert (exported / "recipes/1_sft.yaml").is_file()


def test_every_command_finds_it_by_its_name(here: Path):
    assert load_local_model(NAME, cpu=True).name == make_model_agents(NAME, cpu=True)[0] == NAME
    session = open_chat_session(ChatRequest(NAME, cpu=True))
    assert session.partner.name == NAME and session.terms.recipes[""]["toolset"] == "assist"
    done = CliRunner().invoke(app, ["export", NAME, "--to", str(here / "merged")])
    assert done.exit_code == 0, done.output
    merged = AutoModelForCausalLM.from_pretrained(here / "merged", dtype=torch.float32)
    assert (logits(merged) - logits(load_policy(ModelSettings(name=NAME, dtype="float32"), NAME))).abs().max() < 0.1


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ("assist", "brief", "en")),
        ({"prompt": "brief"}, ("assist", "brief", "en")),
        ({"prompt": "full"}, None),
        ({"toolset": "smh"}, None),
        ({"language": "zh"}, None),
    ],
)
def test_it_is_served_as_it_was_trained_or_not_at_all(here: Path, wanted, found):
    if found:
        assert (
            tuple(
                choose_prompt_settings(
                    NAME, trained_blueprint_recipes(NAME), {"toolset": None, "prompt": None, "language": None} | wanted
                ).values()
            )
            == found
        )
        return
    given = [word for key, value in wanted.items() for word in (f"--{key}", value)]
    done = CliRunner().invoke(app, ["serve-agent", "--model", NAME, "--ha", "http://127.0.0.1:9", *given])
    (key,) = wanted
    assert f"--{key} {wanted[key]}: {NAME} was trained otherwise: --{key}" in str(done.exception)


def test_of_several_ways_in_which_it_was_trained_the_first_that_fits_is_taken():
    recipes = [{"toolset": "assist", "prompt": "brief"}, {"toolset": "homeflow", "prompt": "full"}, {"world": "lamp"}]
    wanted = {"toolset": "homeflow", "prompt": None, "language": None}
    assert choose_prompt_settings("x", recipes, wanted) == {"toolset": "homeflow", "prompt": "full", "language": "en"}
    assert choose_prompt_settings("x", [], wanted) == {"toolset": "homeflow", "prompt": "full", "language": "en"}
    assert choose_prompt_settings("x", [], dict.fromkeys(wanted)) == {
        "toolset": "assist",
        "prompt": "full",
        "language": "en",
    }


def test_a_suite_of_ones_home_is_built_as_it_was_trained(here: Path, monkeypatch):
    built = []
    monkeypatch.setattr("homerl.app.play_suite.build_suite", lambda suite, *_: built.append((suite.toolset, suite.prompt)))
    build = ["bench", "build", "own-home", "--home", "home.json", "--out", "built", "--model", NAME]
    assert CliRunner().invoke(app, build).exit_code == 0 and built == [("assist", "brief")]
    refused = CliRunner().invoke(app, [*build, "--toolset", "smh"])
    assert f"{NAME} was not trained with these tools" in str(refused.exception)


def test_tasks_that_ask_otherwise_are_played_with_a_word(here: Path, capsys):
    suite = SUITES["smh-bench"]
    write_suite([make_home_instance(suite, next(iter(suite_slots(suite))), 7)], here / "suite.jsonl")
    run_benchmark(BenchRun(str(here / "suite.jsonl"), NAME, here / "bench", cpu=True, max_tokens=2))
    said = " ".join(capsys.readouterr().out.split())
    assert f"toolset and prompt: the tasks have smh, full; {NAME} was trained with assist, brief" in said


def test_figures_on_its_card_are_of_benchmarks_with_these_weights(here: Path, exported: Path):
    suite = SUITES["smh-bench"]
    write_suite([make_home_instance(suite, next(iter(suite_slots(suite))), 7)], here / "suite.jsonl")
    run_benchmark(BenchRun(str(here / "suite.jsonl"), NAME, here / "bench", cpu=True, max_tokens=2))
    assert read_complete_scores([here / "bench"], exported)["bench"]["n"] == 1
    run = here / "bench/run.json"
    said = json.loads(run.read_text())
    for change, words in (
        ({"weights": {"adapter_model.safetensors": "0"}}, "another model"),
        ({"weights": None, "model": "expert"}, "another model"),
        ({"of": 2}, "not played to its end"),
    ):
        run.write_text(json.dumps(said | change))
        with pytest.raises(InputError, match=words):
            read_complete_scores([here / "bench"], exported)


MODEL, BASE = f"models/{NAME}", "bases/Tiny-Llama"


@pytest.mark.parametrize("name", ["homerl.json", "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja"])
def test_a_file_of_the_adapter_that_is_missing_is_named(here: Path, name: str):
    (here / MODEL / name).unlink()
    refused(rf"{NAME}: the file {name} is missing", "the repository, a wheel of homerl")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_of_the_base_that_is_missing_is_named(here: Path, name: str):
    (here / BASE / name).unlink()
    refused(rf"Tiny-Llama: the file {name} is missing", f"delete .*Tiny-Llama, and make it again: {COMMAND}")


def test_a_base_that_is_missing_is_named_with_its_command(here: Path):
    shutil.rmtree(here / BASE)
    what = f"the base of {NAME}, {HUB}, is neither in {here / BASE} nor reachable on the hub"
    refused(what, f"make it: {COMMAND}; or.*hf download {HUB}")


def test_in_a_clone_the_command_is_the_script(monkeypatch, tmp_path: Path):
    script = Path(named.__file__).parents[2] / "scripts/base_model"
    assert SMOLLM2.build_command == f"{script} SmolLM2-135M-Instruct"
    monkeypatch.setattr(launch_hook, "shipped_folder", lambda folder: str(tmp_path / folder))
    assert SMOLLM2.build_command == "pip install 'homerl[gguf]' && homerl make-base SmolLM2-135M-Instruct"


@pytest.mark.parametrize("file", [f"{MODEL}/adapter_model.safetensors", f"{BASE}/model.safetensors"])
def test_other_weights_than_those_of_its_training_are_refused(here: Path, file: str):
    (here / file).write_bytes((here / file).read_bytes()[:-1] + b"x")
    refused(rf"{file}: its SHA-256 is \w+, and \w+ is wanted", "")


def refused(what: str, remedy: str) -> None:
    """All ways to a model end with the same message, and none loads anything."""
    for way in (
        lambda: make_model_agents(NAME),
        lambda: open_chat_session(ChatRequest(NAME)),
        lambda: export_model(Path(NAME), "out"),
    ):
        with pytest.raises(InputError, match=what) as caught:
            way()
        assert re.search(remedy, caught.value.remedy), caught.value


def test_the_hubs_weights_are_taken_and_told_to_be_others(here: Path, monkeypatch, capsys):
    cache = here / "hub/models--acme--Tiny-Llama"
    shutil.copytree(here / BASE, cache / "snapshots/abc")
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("abc")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(here / "hub"))
    shutil.rmtree(here / "bases")
    assert named.find_adapter_base(here / MODEL) == HUB
    assert not capsys.readouterr().out, "they are the same"
    (cache / "snapshots/abc/model.safetensors").write_bytes(b"others")
    assert named.find_adapter_base(here / MODEL) == HUB
    assert f"{NAME} was not tried on the hub's weights of {HUB}" in " ".join(capsys.readouterr().out.split())


def test_a_folder_of_that_name_comes_before_a_shipped_model(here: Path):
    (here / NAME).mkdir()
    assert named.resolve_model_source(NAME) == NAME
    assert named.resolve_model_source(HUB) == str(here / BASE)
    assert named.resolve_model_source("acme/other") == "acme/other"
