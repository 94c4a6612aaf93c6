"""Export: what a fresh process loads is what was trained, what the hub holds is what was exported."""

import ast
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from command import full_disk, homerl
from forked import python
from huggingface_hub import ModelCard, constants
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from homerl.app.chat.session import find_model_and_terms
from homerl.app.cli.app import app
from homerl.app.runs.recipe import load_recipe
from homerl.app.runs.stages import run_bench
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.devices.device_spec import NAMED
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.host.html_pages import fold_long_text
from homerl.host.recipe_files import find_stage_of_model, read_stage_recipe
from homerl.models.policy.chat_template import build_chat_template, without_generation_tags
from homerl.report.cards.export import (
    answer_card_example,
    export_model,
    load_exported_tokenizer,
    load_model,
    resolve_destination,
)
from homerl.report.cards.model_card import gather_card_facts, render_model_card
from homerl.report.cards.model_lineage import stage_lineage, training_data_folder
from homerl.report.cards.push_to_hub import SHIPPED, strip_file_names
from homerl.train.model_settings import ModelSettings
from homerl.train.offline_bases import QWEN
from homerl.train.recipe import BlueprintSource
from homerl.train.tiny_model import TinyConfig, make_tiny_model
from homerl.train.training_setup import load_policy
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, world_of

TOOLS = [tool.function_schema() for tool in TOOLSETS["homeflow"].tools]
CODE = 'device("1001").turn_on()'
DIALOGUE = [
    {"role": "system", "content": "You run a smart home through tools.\n- kitchen ceiling light=1001"},
    {"role": "user", "content": "Turn on the kitchen ceiling light."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [tool_call("query_status", {"did": "1001"}), tool_call("pyexec", {"code": CODE})],
    },
    {"role": "tool", "content": '1001 ceiling light: {"state": "off"}'},
    {"role": "tool", "content": "done"},
    {"role": "assistant", "content": "The light is on.", "tool_calls": []},
]
ROWS = [{"messages": [{"tool_calls": [], **message} for message in DIALOGUE], "tools": json.dumps(TOOLS)}]
SIZES = {"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 64}
TINY = TinyConfig(**SIZES, vocab_size=400)
SCORE = {
    "n": 500, "success": 0.612, "interval": [0.57, 0.654], "phi": 0.65, "progress": 0.8, "tool_calls": 2.5,
    "tokens": 80.0, "outcomes": {"success": 306, "agent_failure": 194}, "by_family": {"atomic": 0.7},
}  # fmt: skip
RLVE = {
    "homerl": 1, "run": "rlve", "seed": 3, "out": "/home/jo/run/rlve", "wandb": {"entity": "jo-private"},
    "model": {"name": "/home/jo/run/sft/model"}, "rlve": {"credit": "step", "blueprints_per_update": 16},
    "blueprints": {"count": 1000, "first_seed": 7, "recipe": {"home": {"files": ["/home/jo/home.json"]}}},
    "rewards": {"progress": 1.0, "collateral": 0.2, "max_turns": 3},
    "user": {"kind": "llm", "url": "http://gpu7.internal:8400/v1", "model": "/home/jo/my models/user"},
}  # fmt: skip
SFT = {
    "homerl": 1, "run": "sft", "out": "/home/jo/run/sft", "model": {"name": "Qwen/Qwen3-8B"},
    "data": "/home/jo/run/synth", "sft": {"epochs": 2},
}  # fmt: skip
RUN = {"seed": 3, "commit": "abc123", "command": ["/home/jo/x"], "packages": {"trl": "1.16"}}
SYNTH = {"rollouts": 900, "successes": 450, "blueprints": 300, "generation_success": 0.99}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """An untrained model with its tokenizer."""
    return make_tiny_model(ROWS, TOOLS, TINY, 0, tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def flywheel(model: Path) -> Path:
    """The folder of a flywheel that was made elsewhere, with all that a run leaves."""
    run = model.parent / "run"
    for name, recipe in (("sft", SFT), ("rlve", RLVE)):
        shutil.copytree(model, run / name / "model")
        write(run / name / "recipe.yaml", yaml.safe_dump(recipe))
    write(run / "rlve/run.json", json.dumps(RUN))
    write(run / "rlve/metrics.jsonl", '{"step": 9, "loss": 0.5}\n{"step": 10, "reward": 1.25}\n{"ste')
    write(run / "rlve/bench/heldout/score.json", json.dumps(SCORE))
    write(run / "rlve/bench/empty/score.json", json.dumps({"n": 0, "outcomes": {"infra_error": 5}}))
    write(run / "synth/stats.json", json.dumps(SYNTH))
    return run


@pytest.fixture(scope="module")
def exported(flywheel: Path) -> Path:
    return export_model(flywheel, str(flywheel.parent / "my-agent"))


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """An untrained model says nothing that is worth 256 tokens."""
    monkeypatch.setattr("homerl.report.cards.export.MOST", 8)


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Path:
    """A stage's folder that a test may spoil."""
    shutil.copytree(model, tmp_path / "stage/model")
    return tmp_path / "stage"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def logits(model) -> torch.Tensor:
    """The model's answer to fixed ids."""
    with torch.no_grad():
        return model.eval()(torch.arange(3, 60)[None]).logits


LOAD = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, request, answer = sys.argv[1:]
dialogue, tools = json.load(open(request))
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder).eval()
rendered = [tokenizer.apply_chat_template(d, tools=tools, tokenize=False) for d in (dialogue, dialogue[:2])]
example = open(f"{folder}/README.md").read().split("```python")[1].split("```")[0]
with torch.no_grad():
    logits = model(torch.arange(3, 60)[None]).logits
assert "homerl" not in sys.modules
torch.save({"rendered": rendered, "logits": logits}, answer)
exec(example.replace('name = "my-agent"', "name = folder"))
"""


@pytest.mark.long
def test_fresh_process_loads_what_was_trained(exported: Path, model: Path, tmp_path: Path):
    write(tmp_path / "request.json", json.dumps([DIALOGUE, TOOLS]))
    done = python(LOAD, exported, tmp_path / "request.json", tmp_path / "answer.pt", bare=True)  # and the card's code
    assert done.returncode == 0, done.stderr
    answer = torch.load(tmp_path / "answer.pt")
    trained, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    assert (answer["logits"] - logits(trained)).abs().max() < 1e-6
    for shown, dialogue in zip(answer["rendered"], (DIALOGUE, DIALOGUE[:2]), strict=True):
        assert shown == tokenizer.apply_chat_template(dialogue, tools=TOOLS, tokenize=False)
    assert '<tool_call>\n{"name": "pyexec", "arguments": {"code": "device' in answer["rendered"][0]


def test_files(exported: Path):
    names = {path.name for path in exported.iterdir()}
    assert names == {
        "config.json", "generation_config.json", "model.safetensors", "README.md", "homerl.json",
        "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "recipes",
    }  # fmt: skip
    assert (exported / "chat_template.jinja").read_text() == without_generation_tags(build_chat_template(show_tools=False))
    ends = json.loads((exported / "generation_config.json").read_text())["eos_token_id"]
    assert AutoTokenizer.from_pretrained(exported).convert_tokens_to_ids("<|im_end|>") in ends
    assert [path.name for path in exported.parent.glob(".my-agent*")] == []
    assert len({path.stat().st_mode for path in exported.iterdir() if path.is_file()}) == 1, "who reads one reads all"
    assert "\n" not in (exported / "tokenizer.json").read_text(), "half of a large one would be spaces"


def test_card_says_what_the_run_says(exported: Path):
    card = ModelCard.load(exported / "README.md")
    data, success = card.data, card.data.eval_results[0]
    assert (data.library_name, data.license) == ("transformers", "apache-2.0")
    assert data.base_model == "Qwen/Qwen3-8B"
    assert {"homerl", "smart-home", "sft", "rlve"} <= set(data.tags)
    assert (success.dataset_name, success.metric_name) == ("homerl heldout", "success")
    assert success.metric_value == 0.612
    assert success.metric_args == {"n": 500, "interval_95": [0.57, 0.654]}
    assert {result.dataset_name for result in card.data.eval_results} == {"homerl heldout"}
    for said in (
        "| heldout | 500 | 61.2 % | 57.0 % to 65.4 % | 65.0 % | 80.0 % | 2.50 | 80.0 |",
        "| empty | 0 |",
        "| `collateral` | 0.2 |",
        "450 of 900 rollouts succeeded, and 99.0 % of 300 tasks",
        "each update on 16 of 1000 simulated tasks",
        "commit: abc123",
        "packages: trl 1.16",
        "last reward: 1.25",
        "Credit `step`: Every step gets its return-to-go",
        "[recipes/1_sft.yaml](recipes/1_sft.yaml)",
        "vllm serve my-agent",
        "--tool-call-parser hermes",
    ):
        assert said in card.text
    recipes = [yaml.safe_load(path.read_text()) for path in sorted((exported / "recipes").iterdir())]
    assert [recipe["run"] for recipe in recipes] == ["sft", "rlve"]
    assert recipes[0]["sft"]["epochs"] == 2 and recipes[1]["rlve"]["credit"] == "step"


def test_what_a_weak_model_repeats_is_cut_to_ten_lines():
    head, rest = fold_long_text("<|im_start|>assistant\n" * 256)
    assert head.splitlines() == ["<|im_start|>assistant"] * 10 and len(rest) > 246 * 21
    assert fold_long_text("Done.\n") == ("Done.\n", "") and len(fold_long_text("word " * 4000)[0]) < 1000


def test_a_card_says_how_to_ask_a_model_that_knows_its_tools_by_heart(exported: Path, run: Path):
    text = (exported / "README.md").read_text()
    assert "Ask it as in training" in text and "although the model does\nnot read them" in text
    shown = render_model_card(gather_card_facts(run, "agent", None, "mit"), "tiny", adapter=False, tools="shown")
    assert "Ask it as in training" not in shown and "send the tools above." in shown


def test_only_whole_scores_of_the_model_itself_are_on_its_card(run: Path, tmp_path: Path):
    """And of these the scores that a copy of the folder holds."""
    suite = {"name": "few", "count": 2, "recipe": {"intents": [1, 1], "home": {"devices": [2, 3]}}}
    bench = {"suites": [suite], "max_tokens": 4, "limits": {"turns": 1, "steps": 1}}
    of_model = {"homerl": 1, "run": "bench", "out": str(run), "cpu": True, "bench": bench}
    of_model |= {"model": {"name": str(run / "model"), "dtype": "float32"}}

    def play(recipe: dict) -> None:
        write(tmp_path / "bench.yaml", yaml.safe_dump(recipe))
        run_bench(load_recipe(tmp_path / "bench.yaml"))

    def shown(stage: Path) -> list[str]:
        return list(gather_card_facts(stage, "agent", None, "mit").scores)

    play(of_model)
    assert shown(run) == ["few"]
    shutil.copytree(run, tmp_path / "copy", copy_function=shutil.copyfile)
    assert shown(tmp_path / "copy") == ["few"]
    score = run / "bench/few/score.json"
    whole = score.read_text()
    score.write_text(json.dumps(json.loads(whole) | {"outcomes": {"success": 1}}))
    assert shown(run) == [], "it was stopped"
    score.write_text(whole)
    spoil(run, lambda weights: weights["model.norm.weight"].fill_(2.0))
    assert shown(run) == [], "the model was trained again"
    play(of_model)
    assert shown(run) == ["few"]
    expert = {key: of_model[key] for key in ("homerl", "run", "out", "bench")} | {"agent": "expert"}
    play(expert)
    assert json.loads(score.read_text())["n"] == 2 and shown(run) == [], "it is the expert's"
    (run / "bench/few/player.json").unlink()
    assert shown(run) == ["few"], "earlier versions did not write who played"


@pytest.mark.parametrize(
    ("recipe", "whole", "seen"),
    [
        (SFT, None, True),  # moved with its data
        (SFT | {"data": "acme/dialogues"}, None, False),
        (SFT | {"data": "/home/jo/data/synth"}, None, False),
        (RLVE | {"model": {"name": "Qwen/Qwen3-8B"}}, None, False),
        (RLVE | {"model": {"name": "Qwen/Qwen3-8B"}}, {"run": "flywheel"}, True),
    ],
    ids=["moved", "hub", "elsewhere", "alone", "flywheel"],
)
def test_the_card_states_no_synthesis_that_the_model_never_saw(tmp_path: Path, recipe: dict, whole: dict, seen: bool):
    """A synthesis beside a run is its own only if the run says so."""
    stage = tmp_path / recipe["run"]
    write(stage / "recipe.yaml", yaml.safe_dump(recipe))
    write(tmp_path / "synth/stats.json", json.dumps(SYNTH))
    if whole:
        write(tmp_path / "recipe.yaml", yaml.safe_dump(whole))
    assert gather_card_facts(stage, "agent", None, "mit").synthesis == (SYNTH if seen else {})


SAYS = {"en": "Turn on the kitchen ceiling light.", "zh": "打开厨房的吸顶灯。"}


@pytest.mark.parametrize(
    ("recipe", "language", "begins"),
    [
        (
            {"toolset": "smh", "prompt": "full", "home": {"language": "zh"}},
            "zh",
            "你通过工具管理一个智能家居，为和你说话的人服务。",
        ),
        ({"toolset": "smh", "home": {"language": "zh"}}, "zh", "你通过工具管理一个智能家居。"),
        ({"toolset": "direct", "prompt": "full"}, "en", "You run a smart home for the person who speaks to you. The whole"),
        ({"world": "simuhome", "language": "zh"}, "zh", "你管理一个智能家庭，设备使用 Matter 协议。"),
        ({"world": "simuhome", "toolset": "paper", "prompt": "brief"}, "en", "You run a Matter home by tools."),
    ],
    ids=["smh-zh", "smh-zh-brief", "direct", "simuhome-zh", "simuhome-paper"],
)
def test_card_shows_what_agents_of_the_recipe_are_told(
    run: Path, monkeypatch, capsys, recipe: dict, language: str, begins: str
):
    """Its tools, its prompt and its language; and the example runs with them."""
    blueprints = BlueprintSource.model_validate({"recipe": recipe})
    write(run / "recipe.yaml", yaml.safe_dump(RLVE | {"blueprints": blueprints.model_dump(mode="json")}))
    folder = export_model(run, str(run / "out"))
    card = ModelCard.load(folder / "README.md")
    seen = [begin_episode(make_blueprint_of_seed(blueprints.recipe, "train", seed)).observation for seed in range(3)]
    shown = run_example(card, folder, monkeypatch)
    system, user = shown["messages"]
    assert all(shown["tools"] == list(dialogue.tools) for dialogue in seen)
    assert system["content"].startswith(begins)
    assert outline(system["content"]) in [outline(dialogue.messages[0]["content"]) for dialogue in seen]
    assert user == {"role": "user", "content": SAYS[language]} and card.data.language == language
    printed = capsys.readouterr().out
    assert begins in printed and SAYS[language] in printed
    one_answer = recipe.get("toolset") == "direct"
    assert ("with one JSON object" in card.text, "makes no tool calls" in card.text) == (one_answer, one_answer)
    assert ("Hermes style" in card.text) == ("by calling tools" in card.text) == (not one_answer)


@pytest.mark.parametrize("ids", ["slug", "number"])
@pytest.mark.parametrize("kept", ["recipe", "blueprint"])
def test_the_ids_of_the_example_have_the_form_of_training(ids: str, kept: str):
    recipe = BlueprintSource.model_validate({"recipe": {"home": {"devices": [3, 4], "ids": ids}}}).recipe
    played = recipe if kept == "recipe" else make_blueprint_of_seed(recipe, "train", 1)
    told = world_of(recipe).card(played.model_dump(mode="json")).system
    assert ("- kitchen_ceiling_light" in told, "- kitchen ceiling light=1001" in told) == (ids == "slug", ids == "number")


def test_the_ids_of_the_example_have_the_form_of_ones_own_home(tmp_path: Path):
    told = {}
    for ids in ("slug", "number"):
        save_home(make_home(1, HomeRecipe(ids=ids)), tmp_path / ids / "home.json")
        told[ids] = world_of({}).card({"home": {"files": [str(tmp_path / ids)]}}).system
    assert "- kitchen_ceiling_light" in told["slug"] and "light=1001" in told["number"]
    (tmp_path / "empty").mkdir()
    for gone in ("gone.json", "empty"):
        assert "light=1001" in world_of({}).card({"home": {"files": [str(tmp_path / gone)]}}).system


def test_the_report_of_an_import_is_no_home_of_the_example(tmp_path: Path):
    save_home(make_home(1, HomeRecipe(ids="slug")), tmp_path / "home.json")
    write(tmp_path / "home.import.json", '{"left_out": []}')
    assert "- kitchen_ceiling_light" in world_of({}).card({"home": {"files": [str(tmp_path)]}}).system


def test_the_card_shows_what_its_example_prints(run: Path, monkeypatch, capsys):
    monkeypatch.setattr("homerl.report.cards.model_card.MOST", 8)
    folder = export_model(run, str(run / "out"))
    code, told = ModelCard.load(folder / "README.md").text.split("```python")[1].split("```", 1)
    capsys.readouterr()
    exec(code.replace('name = "out"', f"name = {str(folder)!r}"), {})
    assert told.split("````text\n")[1].split("\n````")[0] == capsys.readouterr().out.strip() != ""


def test_the_card_says_why_its_example_was_not_run(run: Path, monkeypatch):
    model, tokenizer = load_model(run / "model"), load_exported_tokenizer(run / "model")
    card = world_of({}).card({})
    monkeypatch.setattr(model.config, "max_position_embeddings", 20)
    assert re.search(
        r"not run when this card was made: its prompt has \d+ tokens, and", answer_card_example(model, tokenizer, card)
    )
    monkeypatch.undo()
    monkeypatch.setattr("homerl.report.cards.export.ON_CPU", 1000)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "parameters, and this machine has no GPU" in answer_card_example(model, tokenizer, card)


@pytest.mark.parametrize("kept", ["file", "rollouts", "data"])
@pytest.mark.parametrize(
    "recipe", [{"world": "simuhome", "language": "zh"}, {"toolset": "direct", "home": {"language": "zh"}}]
)
def test_card_shows_the_world_of_a_file_of_blueprints(run: Path, kept: str, recipe: dict):
    """The file's own; if it is gone, that of the stored rollouts; for a dataset, that of its dialogues."""
    source = BlueprintSource.model_validate({"recipe": recipe}).recipe
    made = make_blueprint_of_seed(source, "train", 1).model_dump(mode="json")
    told = {"run": "rlve", "blueprints": {"recipe": {"file": str(run / "blueprints.jsonl")}}}
    if kept == "file":
        write(run / "blueprints.jsonl", json.dumps(made) + "\n")
    elif kept == "rollouts":
        write(run / "rollouts/000001.jsonl", json.dumps({"blueprint": json.dumps(made)}) + "\n")
    else:
        told = {"run": "sft", "data": str(run.parent / "data")}
        write(run.parent / "data/trajectories.jsonl", json.dumps({"blueprint": json.dumps(made)}) + "\n")
    write(run / "recipe.yaml", yaml.safe_dump({"homerl": 1, **told}))
    card = ModelCard.load(export_model(run, str(run / "out")) / "README.md")
    assert card.data.language == "zh" and SAYS["zh"] in card.text
    assert ("Matter" in card.text, "makes no tool calls" in card.text) == ("world" in recipe, "toolset" in recipe)


def run_example(card: ModelCard, folder: Path, monkeypatch) -> dict:
    """What the card's code leaves behind; the model, untrained as it is, says its prompt again."""
    monkeypatch.setattr("transformers.GenerationMixin.generate", lambda self, input_ids, **_: input_ids.repeat(1, 2))
    left: dict = {}
    exec(card.text.split("```python")[1].split("```")[0].replace('name = "out"', f"name = {str(folder)!r}"), left)
    return left


def outline(prompt: str) -> list[str]:
    """A prompt without what differs from home to home: each line's first words, or the keys of its JSON; devices once."""
    lines = ["".join(sorted(json.loads(line))) if line.startswith("{") else line[:2] for line in prompt.splitlines()]
    return [line for line, before in zip(lines, [None, *lines]) if line != before]


def test_export_tells_nothing_of_the_machine(exported: Path, flywheel: Path):
    for path in (path for path in exported.rglob("*") if path.is_file() and path.suffix != ".safetensors"):
        for private in ("/home/jo", "jo-private", "gpu7", str(flywheel.parent)):
            assert private not in path.read_text(), (path.name, private)


def test_an_export_brings_the_terms_of_a_talk_without_the_names_of_files(exported: Path, flywheel: Path):
    _, told = find_model_and_terms(exported)
    assert told.recipes == {"": {"home": {}}} and replace(find_model_and_terms(flywheel)[1], recipes=told.recipes) == told
    recipe = BlueprintRecipe(home={"devices": (3, 5), "catalogue": ("/home/jo/devices",)}, intents=(1, 1), prompt="brief")
    data = recipe.model_dump(mode="json")
    told = strip_file_names({"worlds": {"one": {"weight": 2, "recipe": data}}})["worlds"]["one"]
    again = BlueprintRecipe.model_validate(told["recipe"])
    assert told["weight"] == 2 and again.home.devices == (3, 5) and again.prompt == "brief" and not again.home.catalogue
    assert strip_file_names({"file": "/home/jo/tasks.jsonl"}) == {}
    assert NAMED.keys() == SHIPPED
    assert strip_file_names({"home": {"catalogue": ["homeassistant", "./mine"]}}) == {
        "home": {"catalogue": ["homeassistant"]}
    }
    assert strip_file_names(make_blueprint_of_seed(BlueprintRecipe(), "train", 1).model_dump(mode="json")) == {}


def test_a_run_is_the_same_from_within_its_folder(flywheel: Path, monkeypatch, tmp_path: Path):
    """What lies beside a stage is found: the stages before it, and its data."""
    monkeypatch.chdir(flywheel / "rlve")
    text = (export_model(Path(), str(tmp_path / "my-agent")) / "README.md").read_text()
    assert "recipes/1_sft.yaml" in text and "450 of 900 rollouts" in text
    monkeypatch.chdir(flywheel / "rlve/model")
    assert (export_model(Path(), str(tmp_path / "again/my-agent")) / "README.md").read_text() == text


@pytest.mark.parametrize(
    ("model", "stage"),
    [
        ("runs/mine/model", "runs/mine"),
        ("runs/mine/best/model", "runs/mine"),
        ("runs/mine/checkpoints/checkpoint-20", "runs/mine"),
        ("runs/best/model", "runs/best"),  # it has a recipe
        ("checkpoints/model", "checkpoints"),
        ("checkpoints/Qwen2.5-0.5B", None),
        ("models/qwen-home", None),
    ],
)
def test_the_stage_that_wrote_a_model_is_found_by_its_folder(model: str, stage: str | None, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("runs/best/recipe.yaml"), "run: sft")
    assert find_stage_of_model(Path(model)) == (stage and Path(stage))


@pytest.mark.parametrize("start", ["model", "best/model", "checkpoints/checkpoint-20"])
def test_what_a_run_began_with_is_found_beside_its_copy(start: str, tmp_path: Path):
    """Not in the original, which is still where the record says."""
    for place in ("mine", "copy"):
        (tmp_path / place / "sft" / start).mkdir(parents=True)
        recipe = {"out": str(tmp_path / "mine/rlve"), "model": {"name": str(tmp_path / "mine/sft" / start)}}
        write(tmp_path / place / "rlve/recipe.yaml", yaml.safe_dump(recipe))
    assert stage_lineage(tmp_path / "copy/rlve") == [tmp_path / "copy/sft", tmp_path / "copy/rlve"]


@pytest.mark.parametrize("place", ["checkpoints/checkpoint-9", "best/model"])
def test_a_model_of_an_earlier_update_is_exported_with_what_was_known_then(
    flywheel: Path, tmp_path: Path, place: str, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(flywheel, run)
    (run / "rlve" / place).parent.mkdir()
    (run / "rlve/model").rename(run / "rlve" / place)
    write(run / "rlve/best/score.json", '{"update": 9}')
    export = export_model(run / "rlve" / place, str(tmp_path / "my-agent"))
    text = (export / "README.md").read_text()
    assert "recipes/2_rlve.yaml" in text and "450 of 900 rollouts" in text and "last loss: 0.5" in text
    assert "last reward" not in text and "61.2 %" not in text, "they are of later updates"
    monkeypatch.chdir(run / "rlve" / Path(place).parent)
    assert find_model_and_terms(Path(Path(place).name))[1] == find_model_and_terms(flywheel)[1]


def test_a_copy_of_a_run_is_not_mistaken_for_a_run_of_that_name_here(tmp_path: Path, monkeypatch):
    """Its record says `runs/one/sft/model`, and here that is the model of another run."""
    for folder in ("here/runs/one", "copied/one"):
        recipes = {"sft": SFT | {"data": "runs/one/synth"}, "rlve": RLVE | {"model": {"name": "runs/one/sft/model"}}}
        for name, recipe in recipes.items():
            (tmp_path / folder / name / "model").mkdir(parents=True)
            write(tmp_path / folder / name / "recipe.yaml", yaml.safe_dump(recipe | {"out": f"runs/one/{name}"}))
        write(tmp_path / folder / "synth/stats.json", "{}")
    monkeypatch.chdir(tmp_path / "here")
    copied = tmp_path / "copied/one"
    assert stage_lineage(copied / "rlve") == [copied / "sft", copied / "rlve"]
    assert training_data_folder(copied / "sft", read_stage_recipe(copied / "sft")) == copied / "synth"
    assert stage_lineage(Path("runs/one/rlve")) == [Path("runs/one/sft"), Path("runs/one/rlve")]


@pytest.mark.parametrize("name", ["my agent", 'it\'s "mine"', "智能家居"])
def test_a_card_can_be_typed_whatever_the_folder_is_called(name: str, tmp_path: Path):
    card = render_model_card(gather_card_facts(tmp_path, name, None, "mit"), "tiny", adapter=False, gguf=f"{name}-f32.gguf")
    code, serve, at_home = (card.split(f"```{kind}\n")[part].split("```")[0] for kind, part in CODE_BLOCKS)
    assert ast.literal_eval(code.split("name = ")[1].split("  # ")[0]) == name
    assert shlex.split(serve)[:3] == ["vllm", "serve", name]
    llama, ollama = at_home.splitlines()
    assert shlex.split(llama)[3] == f"{name}-f32.gguf"
    assert re.fullmatch(r"ollama create [a-z0-9][\w.-]* -f Modelfile .*", ollama)


CODE_BLOCKS = (("python", 1), ("bash", 1), ("bash", 2))


def test_stage_without_anything_else(run: Path):
    card = ModelCard.load(export_model(run, str(run / "out")) / "README.md")
    assert card.data.base_model is None and card.data.eval_results is None
    assert "## Scores" not in card.text and "## Rewards" not in card.text and "## Use" in card.text
    assert "None" not in card.text


def test_benchmark_of_a_stage_does_not_hide_its_recipe(run: Path):
    stage = run.rename(run.with_name("sft"))
    write(stage / "recipe.yaml", yaml.safe_dump({"run": "bench", "model": {"name": str(stage / "model")}}))
    write(stage.parent / "recipe.yaml", yaml.safe_dump({"run": "flywheel", "model": {"name": "acme/base"}}))
    assert ModelCard.load(export_model(stage, str(stage / "out")) / "README.md").data.base_model == "acme/base"


def test_earlier_export_is_replaced_and_nothing_else(run: Path):
    first = export_model(run, str(run / "out"))
    write(first / "model-00001-of-00002.safetensors", "of an earlier, larger model")
    write(run / ".out.making/half", "of a killed export")
    export_model(run, str(run / "out"))
    assert not (first / "model-00001-of-00002.safetensors").exists()
    assert {path.name for path in run.iterdir()} == {"model", "out"}
    write(run / "mine/notes.txt", "keep")
    refused(run, "no earlier export", to=str(run / "mine"))
    assert (run / "mine/notes.txt").read_text() == "keep"


def test_the_card_shows_the_rewards_of_the_last_stage(flywheel: Path):
    facts = gather_card_facts(flywheel / "rlve", "my-agent", None, "mit")
    earlier = {**RLVE, "rewards": {"progress": 0.25, "collateral": 0.75, "max_turns": 9}}
    card = render_model_card(replace(facts, recipes=(earlier, *facts.recipes)), "a model", adapter=False)
    assert "| `progress` | 1.0 |" in card and "| `collateral` | 0.2 |" in card
    assert "| 0.25 |" not in card and "| 0.75 |" not in card


def test_an_export_that_lies_in_another_run_is_none_of_it(run: Path, tmp_path: Path):
    """Neither that run's record nor its plug-ins count, though the export is called like a stage's model."""
    other = tmp_path / "other"
    write(other / "run.json", "{}")
    write(other / "plugins/worlds/unknown.py", "")
    write(other / "recipe.yaml", yaml.safe_dump({"run": "sft", "model": {"name": "acme/other"}}))
    first = export_model(run, str(other / "model"))
    again = export_model(first, str(tmp_path / "again"))
    facts = [json.loads((folder / "homerl.json").read_text()) for folder in (first, again)]
    assert facts[0]["base"] == facts[1]["base"] and "acme/other" not in json.dumps(facts)


def test_failed_export_leaves_the_earlier_one(run: Path, monkeypatch):
    folder = export_model(run, str(run / "out"))
    before = contents(folder)
    monkeypatch.setattr("homerl.report.cards.export.render_model_card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_model(run, str(run / "out"))
    assert contents(folder) == before and {path.name for path in run.iterdir()} == {"model", "out"}


# Adapters


def unwritten(run: Path, to: object) -> str:
    """What is said of an export that cannot be written, in one message of at most three lines."""
    done = homerl("export", run, "--to", str(to))
    _, begins, message = done.err.partition("homerl: ")  # before it, a bar of transformers, which a real process silences
    assert done.code == 2 and begins and "homerl: " not in message and len(message.strip().splitlines()) <= 3, done
    return message


@pytest.mark.parametrize("room", [0, 2_000, 40_000])
def test_a_full_disk_is_said_and_leaves_the_earlier_export(run: Path, tmp_path: Path, room: int):
    """It fills at the first file, amid the tokenizer's, or amid the weights."""
    to = tmp_path / "agents" / "mine"
    export_model(run, str(to))
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with full_disk(room):
        said = unwritten(run, to)
    assert "File too large" in said and "make room" in said
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before, "nothing is half written"


@pytest.mark.parametrize("to", ["wall/mine", "/sys/mine"])
def test_a_place_where_nothing_can_be_written_is_said(run: Path, tmp_path: Path, to: str, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wall").touch()
    assert to.split("/")[-2] in unwritten(run, to)


def adapt(base: Path, stage: Path, tokenizer: Path) -> Path:
    """Train nothing, but leave what a LoRA run leaves: an adapter that changes its base."""
    from peft import LoraConfig, PeftModel, get_peft_model

    settings = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    if (base / "adapter_config.json").exists():
        whole = AutoModelForCausalLM.from_pretrained(tokenizer)
        whole = PeftModel.from_pretrained(whole, base).merge_and_unload()
    else:
        whole = AutoModelForCausalLM.from_pretrained(base)
    torch.manual_seed(len(str(stage)))
    model = get_peft_model(whole, settings)
    model.peft_config["default"].base_model_name_or_path = str(base)
    model.save_pretrained(stage / "model")
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(stage / "model")
    torch.save(logits(model), stage / "logits.pt")
    return stage


def test_adapters_are_merged(model: Path, tmp_path: Path):
    first = adapt(model, tmp_path / "first", model)
    second = adapt(first / "model", tmp_path / "second", model)  # RL on top of SFT, both by adapters
    plain = logits(AutoModelForCausalLM.from_pretrained(model))
    for stage in (first, second):
        wanted = torch.load(stage / "logits.pt")
        assert (wanted - plain).abs().max() > 1e-2
        folder = export_model(stage, str(tmp_path / f"out-{stage.name}"))
        assert not (folder / "adapter_config.json").exists()
        assert (logits(AutoModelForCausalLM.from_pretrained(folder)) - wanted).abs().max() < 1e-5
        plain = wanted


def test_adapter_alone(model: Path, tmp_path: Path):
    from peft import AutoPeftModelForCausalLM

    stage = adapt(model, tmp_path / "stage", model)
    folder = export_model(stage, str(tmp_path / "out"), adapter=True)
    assert (folder / "adapter_model.safetensors").exists() and not (folder / "model.safetensors").exists()
    loaded = AutoPeftModelForCausalLM.from_pretrained(folder)
    assert (logits(loaded) - torch.load(stage / "logits.pt")).abs().max() < 1e-5
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "peft" and "--enable-lora" in card.text
    facts = replace(gather_card_facts(stage / "model", "out", None, "mit"), base_weights=QWEN.weights)
    assert f"homerl make-base {QWEN.name}` makes" in render_model_card(facts, "LoRA adapter", adapter=True)
    modules = json.loads((folder / "adapter_config.json").read_text())["target_modules"]
    assert modules == sorted(modules), "their order is that of a set, which differs from process to process"


def test_adapters_on_one_another_become_one(model: Path, tmp_path: Path):
    from peft import AutoPeftModelForCausalLM

    first = adapt(model, tmp_path / "first", model)
    second = adapt(first / "model", tmp_path / "second", model)
    folder = export_model(second, str(tmp_path / "out"), adapter=True)
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert settings["r"] == 8 and settings["base_model_name_or_path"] == str(model)
    loaded = AutoPeftModelForCausalLM.from_pretrained(folder)
    assert (logits(loaded) - torch.load(second / "logits.pt")).abs().max() < 1e-5


def test_adapter_whose_base_is_gone(model: Path, tmp_path: Path):
    base = tmp_path / "elsewhere/base"
    shutil.copytree(model, base)
    stage = adapt(base, tmp_path / "stage", model)
    base.rename(tmp_path / "moved")
    refused(stage, "--base")
    folder = export_model(stage, str(tmp_path / "out"), base=str(tmp_path / "moved"))
    merged = AutoModelForCausalLM.from_pretrained(folder)
    assert (logits(merged) - torch.load(stage / "logits.pt")).abs().max() < 1e-5


@pytest.mark.parametrize("place", ["model", "best/model", "checkpoints/checkpoint-9"])
def test_an_adapter_stands_on_its_own_runs_base_wherever_the_run_is_moved(
    model: Path, tmp_path: Path, place: str, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    base = Path("runs/first/sft/model")  # relative, as recipes name it
    shutil.copytree(model, base)
    stage = adapt(base, Path("runs/first/rlve"), model)
    write(stage / "recipe.yaml", f"{{run: rlve, out: {stage}, model: {{name: {base}}}}}")
    moved = Path("runs/first").rename(tmp_path / "moved")
    adapt(model, Path("runs/first/sft"), model)  # another run has the name now
    (moved / "rlve" / place).parent.mkdir(exist_ok=True)
    (moved / "rlve/model").rename(moved / "rlve" / place)
    loaded = load_policy(ModelSettings(name="adapter", dtype="float32"), str(moved / "rlve" / place))
    assert (logits(loaded) - torch.load(moved / "rlve/logits.pt")).abs().max() < 1e-5
    shutil.rmtree(moved / "sft")
    shutil.rmtree("runs")
    with pytest.raises(InputError, match="base runs/first/sft/model is gone"):
        load_policy(ModelSettings(name="adapter", dtype="float32"), str(moved / "rlve" / place))


# What is refused


def refused(run: Path, *words: str, to: str | None = None, **options) -> InputError:
    """Exporting raises one message with all the words, and leaves nothing behind."""
    to, before = to or str(run / "out"), (run / "out").exists()
    with pytest.raises(InputError) as caught:
        export_model(run, to, **options)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.remedy and not list(run.glob(".*.making")) and (run / "out").exists() == before
    return caught.value


def test_no_model(tmp_path: Path, model: Path):
    refused(tmp_path / "nowhere", "no such folder", "recipe")
    refused(tmp_path, "no trained model", "flywheel")
    shutil.copytree(model, tmp_path / "elsewhere")
    refused(tmp_path / "elsewhere", "no run lies around")
    (tmp_path / "checkpoints").mkdir()
    assert "or take" not in str(refused(tmp_path, "not finished", "resumes"))
    for step in (5, 10):
        shutil.copytree(model, tmp_path / f"checkpoints/checkpoint-{step}")
    write(tmp_path / "checkpoints/checkpoint-5/trainer_state.json", "{}")  # the other was not written to its end
    refused(tmp_path, "not finished", "resumes", "checkpoint-5")
    refused(model.parent, "no adapter", adapter=True)


def test_tokenizer_without_template(run: Path):
    (run / "model/chat_template.jinja").unlink()
    refused(run, "no chat template", "chat_template.jinja")
    for path in (run / "model").glob("tokenizer*"):
        path.unlink()
    write(run / "model/chat_template.jinja", build_chat_template())
    refused(run, "files are missing")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(run: Path, value: float):
    spoil(run, lambda weights: weights["model.layers.1.mlp.up_proj.weight"].view(-1)[7].fill_(value))
    refused(run, "model.layers.1.mlp.up_proj.weight", "NaN", "learning rate")


def test_weights_that_are_missing(run: Path):
    spoil(run, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    refused(run, "lack weights", "up_proj")


def test_weights_cut_in_half(run: Path):
    path = run / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused(run, "cannot be loaded", "earlier checkpoint")


def test_broken_recipe(run: Path):
    write(run / "recipe.yaml", "run: [sft\n")
    refused(run, "recipe.yaml:2")


def spoil(run: Path, change) -> None:
    path = run / "model/model.safetensors"
    weights = {name: weight.clone() for name, weight in load_file(path).items()}
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})


def test_what_is_pushed_goes_to_a_hub_id_and_all_else_to_a_folder(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    for folder in ("models/agent", "./acme/agent", "agent", "/acme/agent", "acme/agent/v2"):
        assert resolve_destination(run, folder, push=False) == (Path(folder).absolute(), None)
    (tmp_path / "acme").mkdir()  # what stands here does not matter
    assert resolve_destination(run, "acme/agent", push=True) == (tmp_path / "run/export/agent", "acme/agent")
    for folder in ("./acme/agent", "agent", "/acme/agent", "acme/agent/v2"):
        with pytest.raises(InputError, match="only a hub id"):
            resolve_destination(run, folder, push=True)


def test_a_folder_is_made_with_those_above_it(run: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert export_model(run, "models/of/agent") == tmp_path / "models/of/agent"
    assert (tmp_path / "models/of/agent/README.md").is_file()


# The hub


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_push(flywheel: Path, here: dict):
    here["repos"]["acme/agent"] = {
        "visibility": "private",
        "files": {"model-00001-of-00002.safetensors": b"", "adapter_config.json": b"{}", "plan.png": b"mine"},
    }
    folder = export_model(flywheel, "acme/agent", push=True)
    assert folder == flywheel / "export/agent"
    assert here["repos"]["acme/agent"]["files"] == contents(folder) | {"plan.png": b"mine"}
    assert any(call.startswith("PUT /blobs/") for call in here["calls"])
    assert "vllm serve acme/agent" in (folder / "README.md").read_text()


def test_new_repository_is_private_unless_said(run: Path, here: dict):
    export_model(run, "acme/agent", push=True)
    assert here["repos"]["acme/agent"]["visibility"] == "private"
    export_model(run, "acme/open", push=True, private=False)
    assert here["repos"]["acme/open"]["visibility"] == "public"
    for name in ("agent", "open"):
        assert here["repos"][f"acme/{name}"]["files"] == contents(run / "export" / name)
    refused(run, "is public", "with --public", to="acme/open", push=True)
    before = contents(run / "export/agent")
    refused(run, "is private", "without --public", to="acme/agent", push=True, private=False)
    assert here["repos"]["acme/agent"] == {"visibility": "private", "files": before, "tags": []}


def test_the_license_is_the_bases_unless_said(run: Path, here: dict, tmp_path: Path):
    def license_in(base: str | None, *more: str, said: str = "") -> str:
        write(run / "recipe.yaml", yaml.safe_dump({"homerl": 1, "run": "sft", "model": {"name": base}}))
        done = CliRunner().invoke(app, ["export", str(run), "--to", str(tmp_path / "out"), *more])
        assert done.exit_code == 0 and said in done.output and ("no card" in done.output) == bool(said)
        return ModelCard.load(tmp_path / "out/README.md").data.license

    here["repos"]["acme/base"] = {"visibility": "public", "card": {"license": "llama3.2"}}
    write(tmp_path / "mine/README.md", "---\nlicense: mit\n---\n")
    assert license_in("acme/base") == "llama3.2" and license_in(str(tmp_path / "mine")) == "mit"
    assert license_in("acme/base", "--license", "cc0-1.0") == "cc0-1.0"
    assert license_in(None) == license_in("acme/gone", said="no card of acme/gone") == "apache-2.0"
    write(tmp_path / "broken/README.md", "---\nlicense: mit\ntitle: a: b\n---\n")
    assert license_in(str(tmp_path / "broken"), said="no card") == "apache-2.0"


def test_what_is_not_pushed_is_not_public(run: Path):
    done = CliRunner().invoke(app, ["export", str(run), "--to", str(run / "out"), "--public"])
    assert "--push" in str(done.exception) and not (run / "out").exists()


def test_push_that_cannot_be(run: Path, here: dict, monkeypatch):
    refused(run, "only a hub id", "org/name", to=str(run / "out"), push=True)
    error = refused(run, "may not write", str(run / "export/agent"), to="theirs/agent", push=True)
    assert "again" in error.remedy and (run / "export/agent/model.safetensors").exists()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused(run, "refuses the token", "hf auth login", to="acme/agent", push=True)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    refused(run, "http://127.0.0.1:9 cannot be reached", "HF_ENDPOINT", to="acme/agent", push=True)
    assert here["repos"] == {}


def test_push_without_a_token(run: Path, monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    refused(run, "no Hugging Face token", "hf auth login", to="acme/agent", push=True)
    assert not (run / "export").exists()
