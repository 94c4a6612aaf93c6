"""Keeps README.md and docs/**/*.md true: checks their paths, links, names, options and recipe keys, and runs their commands.

A block of commands is a fenced block without a language in which lines start with a program (`homerl`, `accelerate`, a file
of `scripts/`, ...). The test runs these commands and the page's Python blocks in a temporary folder, in the page's order. A
line `export NAME=value` holds for all later commands of the page. Four tables hold the exceptions: NOT_RUN (commands that
cannot run here, each with its reason), SLOW (commands that run only under the mark `long`), SHORTER (arguments that make a
command short), EXIT (how commands end that do not just end with code 0). A line that starts with `$ ` is followed by the
command's output, and a block of the language `output` is what the Python block above it prints.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import typer
import yaml
from forked import homerl
from pydantic import BaseModel

from homerl.app.cli.app import app
from homerl.app.runs.recipe import KINDS
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
from homerl.host.recipe_files import EVERY
from homerl.worlds.registry import known_worlds

ROOT = Path(__file__).parents[1]
PAGES = [page for page in ("README.md", "CONTRIBUTING.md") if (ROOT / page).exists()]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
OURS = ("homerl", "docs", "envs", "interop", "notebooks", "recipes", "rewards", "scripts", "tests")
PROGRAMS = ("homerl", "accelerate", "torchrun", "python", "vllm")
SCRIPT = re.compile(r"(\./)?scripts/\S+")
STARTED = {"homerl": "homerl.app.cli", "accelerate": "accelerate.commands.accelerate_cli"}  # what runs here: program, module
ASSIGNED = re.compile(r"([A-Z][A-Z0-9_]*)=(\S*)")

RECURSION = "it runs these tests"
GPU, HUB, ENDPOINT = "it needs a GPU", "it needs the hub", "it needs an LLM behind an endpoint"
TRIED = "tests/homerl/train/test_extensions.py runs it with the recipes of the page"
NETWORK = "it needs a network"
TRAINED = "it needs a trained model, which takes minutes"
BASE = "it needs a base, which scripts/base_model downloads"
NOT_RUN = {
    "README.md": {
        "./scripts/quickstart": "it installs an environment and takes an hour; SLOW has its recipe, made shorter",
        "./scripts/test": RECURSION,
        "homerl chat runs/quickstart": TRAINED,
        "./scripts/base_model": NETWORK,
        "homerl chat smollm2-home": BASE,
        "homerl export runs/rlve_full": HUB,
        "accelerate launch --num_processes": GPU,
    },
    "docs/first_hour.md": {
        "./scripts/homerl": "it installs an environment; scripts/new_user runs it",
        "python make_home.py": "these tests run the block above it",
        "homerl export runs/mine": TRAINED,
        "homerl chat runs/mine": TRAINED,
        "homerl chat models/mine": TRAINED,
    },
    "CONTRIBUTING.md": {
        "./scripts/test": RECURSION,
        "./scripts/lint": "./scripts/test runs it beside these tests",
        "./scripts/regenerate": "it writes pages of this repository; tests/test_in_tree.py runs it in a copy",
        "./scripts/check_container": "it builds containers, as root",
        "./scripts/check_package": "it installs environments; tests/package/test_package.py builds the package",
        "./scripts/site": "tests/package/test_site.py builds the site",
        "./scripts/check_interop": "it installs an environment",
        "./scripts/benchmark": "its result depends on the clock, and it writes into this repository with --store",
        "homerl run": TRIED,
        "HOMERL_": TRIED,
    },
    "docs/interop.md": {
        "homerl serve-env --openenv": "it serves until it is stopped; scripts/check_interop runs its tests",
        "python recipes/openenv/": "scripts/check_interop runs them without a model",
        "HOMES=": "scripts/check_interop runs it with a tiny model",
        "python interop/examples/trl_homes.py": "tests/homerl/tasks/test_tool_methods.py runs it with a tiny model",
        "homerl check-plugin my_rewards/": "it needs the reader's file; tests/homerl/app/test_check_plugin.py runs its own",
    },
    "docs/recipes.md": {"accelerate launch recipes/sft_8b.yaml": GPU, "torchrun": GPU},
    "docs/training.md": {
        "scripts/slurm/chain": "there is no Slurm here; tests/homerl/train/test_slurm.py runs it",
        "accelerate launch": GPU,
        "homerl compare": TRAINED,
        "homerl run rlve_aligned": GPU,
        "HOMERL_CREDIT=mine accelerate launch": TRAINED,
        "scripts/rlve_seeds": TRAINED,
        "homerl run recipes/rlve_full.yaml": GPU,
        "homerl view episode runs/looked": TRAINED,
        "VLLM_SERVER_DEV_MODE=1 vllm serve": GPU,
        "scripts/gpu_report": GPU,
        "scripts/gpu_bundle": "it downloads 360 MB; tests/homerl/app/test_gpu_bundle.py makes a small bundle",
        "scripts/gpu_run": GPU,
    },
    "docs/synthesis.md": {"homerl run recipes/synth_m3.yaml": ENDPOINT, "homerl push-data": HUB},
    "docs/homeassistant.md": {
        "scripts/check_homeassistant": "it installs a real Home Assistant, 2 GB",
        "./scripts/base_model": NETWORK,
        "scripts/publish_app": "it builds a wheel; tests/envs/assistant/listing/test_app.py tries what is behind it",
        "homerl export": BASE,
        "homerl serve my-agent": BASE,
        "homerl": "it needs a home's address; tests/envs/assistant/listing/test_command.py runs it with recorded answers",
        "accelerate launch recipes/home_assistant.yaml": "it needs the home of the line before",
    },
    "docs/models.md": {
        "homerl chat runs/": TRAINED,
        "homerl chat Qwen": HUB,
        "homerl chat http": ENDPOINT,
        "homerl chat smollm2-home": BASE,
        "scripts/base_model": NETWORK,
        "accelerate launch recipes/smollm2_home.yaml": HUB,
        "accelerate launch recipes/smollm2_own.yaml": BASE,
        "homerl bench build own-home": "it needs a home file of the reader's",
        "homerl chat hassil": "it needs a home file of the reader's; test_terminal.py talks with keywords",
        "homerl run home_goals": "it takes hours",
        "homerl serve": TRAINED,
        "homerl bench run": ENDPOINT,
        "accelerate launch --num_processes": GPU,
        "homerl export": "it needs a model that GPUs trained",
        "vllm serve": GPU,
    },
    "docs/results/interop.md": {
        "scripts/bench_openenv": "it needs OpenEnv's package, and its result depends on the clock",
        "scripts/bench_capture_proxy": "its result depends on the clock",
    },
    "docs/results/smollm2.md": {
        "homerl": "it needs the weights of SmolLM2",
        "scripts/write_twelve_entity_home": "tests/envs/assistant/listing/test_twelve.py runs what is behind it",
    },
    "docs/users.md": {
        "homerl serve-user": GPU,
        "homerl audit-user recipes/rlve_full": ENDPOINT,
        "homerl audit-user recipes/audit_users": NETWORK,
        "homerl bench run": ENDPOINT,
    },
    "docs/benchmarks.md": {
        "homerl bench run smh-bench --model http": ENDPOINT,
        "homerl bench run smh-bench --model runs/": TRAINED,
        "homerl bench run smh-bench --model Qwen": GPU,
    },
    "docs/simuhome.md": {
        "homerl bench run simuhome --model http": ENDPOINT,
        "homerl bench run simuhome --model runs/": TRAINED,
        "homerl bench run simuhome --episodes": ENDPOINT,
        "accelerate launch recipes/simuhome_8b.yaml": GPU,
    },
    "docs/personalhome.md": {
        "homerl bench run personalhome --model http": ENDPOINT,
        "homerl bench run built/personalhome-bench.jsonl --model http": ENDPOINT,
        "homerl bench run built/personalhome-scenes.jsonl --model http": ENDPOINT,
        "homerl personalhome judge": ENDPOINT,
        "accelerate launch recipes/personalhome_8b.yaml": GPU,
    },
}
SLOW = {  # commands of pages, by their starts
    "docs/homes.md": (
        "homerl make-home --out big.json",
        "homerl make-home --out same.json",
        "homerl bench run smh-bench",
        "homerl view episode runs/watched",
        "accelerate launch recipes/own_home.yaml",
        "homerl bench build",
        "homerl bench run built",
    ),
    "README.md": (
        "homerl export runs/quickstart",
        "accelerate launch recipes/quickstart.yaml",
        "accelerate launch recipes/synth.yaml",
    ),
    "docs/first_hour.md": ("homerl check recipes/own_home.yaml", "accelerate launch recipes/own_home.yaml"),
    "docs/interop.md": ("homerl check-plugin tests/worlds/lamp", "homerl export-data smarthome-bench"),
    "docs/recipes.md": (
        "accelerate launch recipes/quickstart.yaml",
        "homerl run quickstart",
        "HOMERL_REWARDS=my_rewards accelerate launch",
        "homerl check recipes/rlve_full.yaml",  # as tests/homerl/app/test_smoke.py
    ),
    "docs/training.md": ("HOMERL_CREDIT=mine homerl check",),
    "docs/models.md": ("homerl run recipes/synth.yaml",),
    "docs/simuhome.md": ("homerl bench build", "accelerate launch recipes/simuhome_quickstart.yaml"),
    "docs/personalhome.md": (
        "homerl bench build",
        "homerl bench run built",
        "homerl personalhome scores",
        "homerl view personalhome --seed 7 --language zh",
        "homerl view episode runs",
        "accelerate launch recipes/personalhome_quickstart.yaml",
    ),
}
TINY = (
    "--synth.blueprints 60 --synth.shard 10 --sft.max_steps 6 --rlve.updates 1 --rlve.blueprints_per_update 2 "
    "--rlve.group 4 --rlve.max_tokens 16 --bench.max_tokens 16 "
    "--bench.suites '[{{name: heldout, count: 4, recipe: {{world: {world}}}}}]'"
)
TWO_BLUEPRINTS = "--synth.blueprints 2 --synth.curriculum [] --synth.recipe.home.devices [3,6] --processes 0"
SHORTER = {
    "accelerate launch recipes/own_home.yaml": TINY.format(world="homeenv"),
    "homerl bench run built/own-home.jsonl": "--limit 4 --max-tokens 16",
    "homerl audit-user recipes/synth_long.yaml": "--blueprints 4",
    "accelerate launch recipes/quickstart.yaml": TINY.format(world="homeenv"),
    "homerl run quickstart": TINY.format(world="homeenv"),
    "HOMERL_REWARDS=my_rewards accelerate launch": TINY.format(world="homeenv"),
    "accelerate launch recipes/simuhome_quickstart.yaml": TINY.format(world="simuhome"),
    "accelerate launch recipes/synth.yaml": TWO_BLUEPRINTS,
    "homerl run recipes/synth.yaml": TWO_BLUEPRINTS,
    "homerl export-data recipes/rlve_full.yaml": "--tasks 10",
    "homerl export-data smarthome-bench": "--tasks 5",
    "homerl diversity --homes": "--homes 2 --each 5",
    "homerl diversity recipes/people.yaml": "--homes 2 --each 5",
}
LONG = (
    "docs/benchmarks.md",
    "docs/devices.md",
    "docs/language.md",
    "docs/personalhome.md",
    "docs/simuhome.md",
    "docs/synthesis.md",
    "docs/training.md",
    "docs/worlds.md",
)  # pages whose commands take many seconds
EXIT = {  # the code, and what is printed
    "homerl check recipes/rlve_aligned.yaml --gpus": (0, "on this machine: no GPU"),  # a plan for another machine
    "homerl check recipes/rlve_full.yaml": (2, "this machine cannot run the recipe: no GPU"),
    "homerl check-devices my_devices/": (2, ""),
    "homerl schemas --out schemas": (0, "lamp-blueprint.v1.json"),
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language ("" for none), and its text."""

    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines without comments; a line that ends with a backslash is joined with the next."""
        joined = re.sub(r"\\\n\s*", "", self.text).splitlines()
        return [re.split(r"\s{2,}#\s", line)[0].rstrip() for line in joined]

    @property
    def shell(self) -> list[str]:
        """The lines that a shell runs: commands, and exports of variables."""
        lines = [] if self.language else [line.removeprefix("$ ") for line in self.lines]
        return [line for line in lines if program(line) or exported(line)]

    @property
    def commands(self) -> list[str]:
        return [line for line in self.shell if program(line)]


def program(line: str) -> str | None:
    """The program that a line starts, or None; leading assignments of variables are skipped."""
    words = [word for word in line.removeprefix("$ ").split() if not ASSIGNED.match(word)]
    return words[0] if words and (words[0] in PROGRAMS or SCRIPT.fullmatch(words[0])) else None


def exported(line: str) -> dict[str, str]:
    """The variable that a line `export NAME=value` sets."""
    match = ASSIGNED.fullmatch(line.removeprefix("export "))
    return {match[1]: match[2]} if match and line.startswith("export ") else {}


def test_programs_and_exports_are_recognised():
    starts = ("$ homerl x", "A=1 vllm serve", "./scripts/lint", "scripts/slurm/rlve.sh", "prose", "homerl: said", "scripts/")
    assert [program(line) for line in starts] == [
        "homerl", "vllm", "./scripts/lint", "scripts/slurm/rlve.sh", None, None, None,
    ]  # fmt: skip
    lines = ("export A_B=c/d", "A=b", "export A", "A=1 homerl x")
    assert [exported(line) for line in lines] == [{"A_B": "c/d"}, {}, {}, {}]


FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(text_of(page))]


def prose(page: str) -> str:
    return FENCE.sub("", text_of(page))


def spans(page: str) -> list[str]:
    """Inline code, line breaks read as blanks."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def code(page: str) -> list[str]:
    """Everything that is code for a shell: inline code and commands."""
    return [*spans(page), *(command for block in blocks(page) for command in block.commands)]


def words(page: str) -> set[str]:
    """The words of that code, without surrounding punctuation."""
    return {word.strip("'\"()[]{},;:") for text in code(page) for word in text.split()}


# Paths, links, names


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_and_anchors_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page} links to {target}"
        if anchor:
            anchors = {slug(heading) for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", file.read_text("utf-8")), re.M)}
            assert anchor in anchors, f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_paths_of_this_repository_exist(page):
    for word in words(page):
        path = re.sub(r"<\w+>", "*", word.removeprefix("./"))
        if path.split("/")[0] in OURS and "/" in path:
            assert list(ROOT.glob(path.rstrip("/"))), f"{page} names {word}"


@cache
def tree() -> tuple[set[str], str]:
    """The names of all tracked files and folders, and the text of the code."""
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {part for file in found for part in Path(file).parts}
    sources = [
        ROOT / file for file in found if file.endswith(".py") and file.startswith(("homerl", "envs", "tests/benchmarks"))
    ]
    return names, "\n".join(path.read_text(encoding="utf-8") for path in sources)


@pytest.mark.parametrize("page", PAGES)
def test_file_names_are_of_this_repository_or_written_by_it(page):
    names, source = tree()
    for span in spans(page):
        if re.fullmatch(r"[\w./<>-]+\.(py|ya?ml|md|jsonl?|html|csv|jinja|svg)|[\w./<>-]+/", span):
            name = span.rstrip("/").split("/")[-1]
            known = name in names or re.search(rf"[\"'/]{re.escape(name)}\b", source)
            example = any(name in block.text for block in blocks(page))
            assert known or example or list(ROOT.glob(re.sub(r"<\w+>", "*", span))), f"{page} names {span}"


@pytest.mark.parametrize("page", PAGES)
def test_dotted_names_can_be_imported(page):
    for word in words(page):
        if re.fullmatch(r"(homerl|envs|rewards)(\.\w+)+", word):
            assert found(word.split(".")) or is_key(word.split(".")), f"{page} names {word}"


def found(parts: list[str]) -> bool:
    """Whether the name is a module, or an attribute of one."""
    for size in range(len(parts), 0, -1):
        try:
            at: Any = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for name in parts[size:]:
            if not hasattr(at, name):
                return False
            at = getattr(at, name)
        return True
    return False


# The command line


@cache
def cli() -> Any:
    return typer.main.get_command(app)


def leaves(command: Any) -> Iterator[Any]:
    """Every command that is not a group."""
    below = getattr(command, "commands", None)
    if below is None:
        yield command
    for one in (below or {}).values():
        yield from leaves(one)


def options(command: Any) -> set[str]:
    return {"--help", *(option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))}


def told(page: str) -> list[str]:
    """All code that starts with `homerl`, and the commands in MCP configurations."""
    found = [text.removeprefix("$ ") for text in code(page)]
    for block in blocks(page):
        if block.language == "json":
            servers = json.loads(block.text).get("mcpServers", {}).values()
            found += [shlex.join([server["command"], *server["args"]]) for server in servers]
    return [text for text in found if re.match(r"homerl( |$)", text)]


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page):
    for text in told(page):
        command, rest = cli(), shlex.split(text)[1:]
        while rest and hasattr(command, "commands") and rest[0] not in options(command):
            assert rest[0] in command.commands, f"{page}: {text}"
            command, rest = command.commands[rest[0]], rest[1:]
        for word in rest:
            if word.startswith("--") and (option := word.partition("=")[0]) not in options(command):
                takes = command.context_settings.get("ignore_unknown_options")
                assert takes and is_key(option[2:].split(".")), f"{page}: {text}"


@pytest.mark.parametrize("page", PAGES)
def test_options_named_alone_exist(page):
    known = {option for command in (cli(), *leaves(cli())) for option in options(command)} | of_others()
    for text in code(page):
        for option in re.findall(r"(?<![\w-])--[a-z][\w.-]*", text):
            if not foreign(text):
                assert option in known or is_key(option[2:].split(".")), f"{page} names {option}"


def foreign(text: str) -> bool:
    """Whether the command is of a program whose options cannot be looked up here."""
    return bool(
        re.match(r"(\w+=\S+ )*(vllm|llama-server|python|pip|pytest|torchrun|inspect|vf-eval|uv|hf)\b|HOMERL_[A-Z]+=", text)
    )


@cache
def of_others() -> set[str]:
    """Options of our scripts, and of `accelerate launch`."""
    from accelerate.commands.launch import launch_command_parser

    files = [path for path in (ROOT / "scripts").iterdir() if path.is_file()] + list(
        (ROOT / "tests/benchmarks").rglob("*.py")
    )
    ours = {option for path in files for option in re.findall(r"--[a-z][\w-]*", path.read_text(encoding="utf-8"))}
    return ours | set(launch_command_parser()._option_string_actions)


@pytest.mark.long
def test_the_task_that_a_page_sets_is_one_of_the_home_that_is_made(tmp_path):
    (task,) = re.findall(r'--task "([^"]+)"', text_of("docs/homes.md"))
    command = ["serve-env", "--mcp", "--task", task]
    done = homerl(*command)  # it has no input, and ends
    assert done.returncode == 0, done.stderr


# Recipes


def below(annotation: Any) -> Iterator[type]:
    """The models in a type annotation, also inside unions, sequences and mappings."""
    if get_origin(annotation) is None:
        if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
            yield annotation
        return
    for part in get_args(annotation):
        yield from below(part)


def fields(model: type) -> dict[str, Any]:
    if issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    hints = get_type_hints(model)
    return {field.name: hints[field.name] for field in dataclasses.fields(model)}


def is_key(path: Iterable[str], models: Iterable[type] = tuple(KINDS.values())) -> bool:
    """Whether some kind of recipe has this key; `path` starts at the recipe's root."""
    first, *rest = path
    if first == EVERY and models == tuple(KINDS.values()):  # a key that stands somewhere
        return bool(rest) and all(any(part in fields(model) for model in all_models()) for part in rest)
    annotations = [fields(model)[first] for model in models if first in fields(model)]
    if not rest:
        return bool(annotations)
    free = any(get_origin(part) is dict for annotation in annotations for part in (annotation, *get_args(annotation)))
    return free or is_key(rest, [model for annotation in annotations for model in below(annotation)] or [Nothing])


class Nothing(BaseModel):
    """A model without keys."""


@cache
def sections() -> set[str]:
    """The keys of recipes, blueprints and devices that hold further keys."""
    return {name for model in all_models() for name, annotation in fields(model).items() if [*below(annotation)]}


@cache
def all_models() -> frozenset[type]:
    todo, seen = [*KINDS.values(), DeviceSpec, *(world.blueprint for world in known_worlds().values())], set()
    todo += [world.recipe for world in known_worlds().values()]
    while todo:
        model = todo.pop()
        if model not in seen:
            seen.add(model)
            todo += [other for annotation in fields(model).values() for other in below(annotation)]
    return frozenset(seen)


PYTHON_NAMES = {"home", "env", "self", "passage", "task"}  # Python objects whose attributes pages name


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/reference.md"])  # it has tests of its own
def test_recipe_keys_exist(page):
    for span in spans(page):
        path = span.split(".")
        is_file = path[-1] in ("py", "yaml", "json", "jsonl", "md")
        if re.fullmatch(r"[a-z_]+(\.[a-z_0-9]+)+", span) and path[0] in sections() - PYTHON_NAMES and not is_file:
            assert is_key(path), f"{page} names {span}: write keys from the recipe's root"


@pytest.mark.parametrize("page", PAGES)
def test_keys_with_values_exist(page):
    known = {name for model in all_models() for name in fields(model)} | {"extends", "read_only", "counts"}
    for span in spans(page):
        if key := re.match(r"([a-z_]+):(\s|$)", span):
            assert key[1] in known, f"{page} names {span}"


def kind_of(data: dict[str, Any]) -> str:
    """A kind of recipe that has all these sections."""
    return next(kind for kind, model in KINDS.items() if data.keys() - {"extends"} <= fields(model).keys())


REQUIRED = {"model": {"name": "m"}, "data": "d", "homerl": 1}


def yaml_blocks() -> Iterator[Any]:
    for page in PAGES:
        for number, block in enumerate(block for block in blocks(page) if block.language == "yaml"):
            yield pytest.param(yaml.safe_load(block.text), id=f"{page}-{number}")


@pytest.mark.parametrize("data", yaml_blocks())
def test_yaml_is_a_part_of_a_recipe_or_a_device(data, tmp_path):
    if data is None:
        return  # a comment alone
    if isinstance(data, list):
        (tmp_path / "device.yaml").write_text(yaml.safe_dump(data))
        done = started("homerl check-devices .", tmp_path)
        assert done.returncode == 0 and "errors: 0, warnings: 0" in done.stdout, done.stdout
        return
    kind = data.get("run") or kind_of(data)
    filled = {key: value for key, value in REQUIRED.items() if key in fields(KINDS[kind])}
    own = {key: value for key, value in data.items() if key != "extends"}
    KINDS[kind].model_validate(filled | {"run": kind} | own)


# Running


def started(
    command: str, folder: Path, variables: Mapping[str, str] = {}, timeout: float = 200
) -> subprocess.CompletedProcess[str]:
    """Run a command of a page, with the variables that were exported before it and those that it begins with."""
    here = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    here |= {"WANDB_MODE": "disabled", **variables}
    words = shlex.split(command)
    while match := ASSIGNED.fullmatch(words[0]):
        here[match[1]] = match[2]
        del words[0]
    if words[0] == "homerl":
        return homerl(*words[1:], cwd=folder, env=os.environ | here)
    arguments = [sys.executable, "-m", STARTED[words[0]], *words[1:]]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=timeout, env=os.environ | here)


def of_table(table: dict[str, Any], command: str) -> Any:
    return next((value for start, value in table.items() if command.startswith(start)), None)


def lamp() -> str:
    return next(block.text for block in blocks("docs/devices.md") if block.language == "yaml")


def broken_lamps(folder: Path) -> None:
    (folder / "my_devices").mkdir()
    (folder / "my_devices/lamp.yaml").write_text(lamp().replace(", read_only: true", ""))
    (folder / "my_devices/typo.yaml").write_text(lamp().replace("requires: self.state", "requires: self.stat"))


def right_lamp(folder: Path) -> None:
    (folder / "my_devices/lamp.yaml").write_text(lamp())
    (folder / "my_devices/typo.yaml").unlink(missing_ok=True)


def first_lamp(folder: Path) -> None:
    (folder / "my_devices").mkdir()
    (folder / "my_devices/desk_lamp.yaml").write_text(
        next(block.text for block in blocks("docs/first_hour.md") if block.language == "yaml")
    )


def lamp_world(folder: Path) -> None:
    if not (folder / "tests").exists():
        (folder / "tests").mkdir()
        (folder / "tests/worlds").symlink_to(ROOT / "tests/worlds")


def own_mode(folder: Path) -> None:
    (folder / "mine").mkdir(exist_ok=True)
    modes = [block.text for block in blocks("docs/training.md") if block.language == "python" and "\nMODE =" in block.text]
    (folder / "mine/rank.py").write_text(modes[0])


def own_reward(folder: Path) -> None:
    (folder / "my_rewards").mkdir(exist_ok=True)
    rewards = [block.text for block in blocks("docs/recipes.md") if "REWARD = Reward(" in block.text]
    (folder / "my_rewards/many_calls.py").write_text(rewards[0])


def trained(folder: Path) -> None:
    done = started("accelerate launch recipes/smoke.yaml --out runs/quickstart", folder, timeout=1000)
    assert done.returncode == 0, done.stdout + done.stderr


BEFORE: dict[
    str, Callable[[Path], None]
] = {  # files that a page presupposes, by the start of the command or block that needs them
    "homerl schemas --out schemas": lamp_world,
    "HOMERL_WORLDS=tests/worlds": lamp_world,
    "homerl check-plugin tests/worlds": lamp_world,
    "HOMERL_CREDIT=mine": own_mode,
    "homerl check-plugin mine/rank.py": own_mode,
    "homerl check-plugin my_rewards/many_calls.py": own_reward,
    "HOMERL_REWARDS=my_rewards": own_reward,
    "homerl export runs/quickstart": trained,
    "homerl check-devices my_devices/": broken_lamps,
    "homerl check-devices my_devices": first_lamp,
    "from homerl.envs.homeenv.sim import Entity": right_lamp,
    "accelerate launch recipes/quickstart.yaml --out runs/lamp": right_lamp,
}


def running() -> Iterator[Any]:
    """The pages with something to run."""
    for page in PAGES:
        if any(block.commands or block.language == "python" for block in blocks(page)):
            yield pytest.param(page, False, id=page, marks=[pytest.mark.long] if page in LONG else [])
            if page in SLOW:
                yield pytest.param(page, True, id=f"{page}-slow", marks=[pytest.mark.long, pytest.mark.timeout(3600)])


@pytest.mark.parametrize(("page", "slow"), running())
def test_what_a_page_tells_to_run_runs(page, slow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    variables: dict[str, str] = {}
    printed = io.StringIO()
    for block in blocks(page):
        if block.language == "python":
            of_table(BEFORE, block.text) and of_table(BEFORE, block.text)(tmp_path)
            with redirect_stdout(printed := io.StringIO()):
                exec(compile(block.text, page, "exec"), names)
        if block.language == "output":
            assert printed.getvalue() == block.text, f"{page}: the Python above prints\n{printed.getvalue()}"
        for line in block.shell:
            variables |= exported(line)
            if program(line) and is_run(page, line, slow):
                assert program(line) in STARTED, f"{page}: say in NOT_RUN why {line} is not run"
                runs(line, block, tmp_path, variables)


def is_run(page: str, command: str, slow: bool) -> bool:
    """Whether a command of a page is run, when slow ones are run or when they are not."""
    later = not slow and command.startswith(SLOW.get(page, ()))
    return not later and of_table(NOT_RUN.get(page, {}), command) is None


def runs(command: str, block: Block, folder: Path, variables: Mapping[str, str]) -> None:
    """A command of a page ends as it should, and prints what the page says."""
    if prepare := of_table(BEFORE, command):
        prepare(folder)
    code, says = of_table(EXIT, command) or (0, "")
    done = started(f"{command} {of_table(SHORTER, command) or ''}", folder, variables, timeout=1000)
    assert done.returncode == code and says in done.stdout + done.stderr, f"{command}\n{done.stdout}\n{done.stderr}"
    if f"$ {command}" in block.lines:
        printed = block.text.split("\n", 1)[1]
        assert printed in done.stdout, f"{command} prints\n{done.stdout}"


def test_every_exception_matches_a_command_of_its_page():
    for page, table in [*NOT_RUN.items(), *SLOW.items()]:
        commands = [command for block in blocks(page) for command in block.commands]
        assert all(any(command.startswith(start) for command in commands) for start in table), page
    commands = [command for page in PAGES for block in blocks(page) for command in block.commands]
    for start in (*SHORTER, *EXIT):
        assert any(command.startswith(start) for command in commands), start
