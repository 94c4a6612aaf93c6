"""`pip install homerl[serve]`: what it brings, and that an agent answers from it in a real home's recorded answers."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import sys
import venv
from collections.abc import Sequence
from functools import partial
from importlib.metadata import requires
from pathlib import Path

import pytest
from agent_served import Agent
from scripted_server import ScriptedServer

from homerl.app.cli.commands.bench_commands import bench_run
from homerl.app.runs.launch import refuse_without_packages
from homerl.envs.core.documents import InputError
from homerl.host.exit_codes import ending_for_error, extra_with_module
from tests.envs.assistant.listing.replay import TOKEN, Replay

ROOT = Path(__file__).parents[3]
MOST_BYTES = {"serve": 150e6, "env": 500e6}  # of what pip unpacks, itself too; Python's bytecode comes on top


def brought(extra: str) -> set[str]:
    """The modules of the packages that an extra names, itself or by another one of ours."""
    found = set[str]()
    for line in requires("homerl") or ():
        if re.search(rf"extra == .{extra}\b", line):
            inner = re.match(r"homerl\[([\w,-]+)\]", line)
            more = set[str]().union(*map(brought, inner[1].split(","))) if inner else {re.split(r"[^\w-]", line)[0]}
            found |= {name.replace("-", "_").lower() for name in more}
    return found


def loaded(code: str, *arguments: str, extra: str = "serve", **more: str) -> set[str]:
    """The packages that are loaded when a program has ended that can import those of the extra and none of training."""
    barred = brought("train") - brought(extra)
    assert {"torch", "transformers", "trl", "peft", "accelerate", "safetensors"} <= barred
    assert extra != "serve" or {"numpy", "gymnasium"} <= barred
    begin = f"import atexit, json, sys; sys.modules.update(dict.fromkeys({barred}))"
    tell = "atexit.register(lambda: print('LOADED', json.dumps([name for name, one in sys.modules.items() if one])))"
    command = [sys.executable, "-c", f"{begin}; {tell}; {code}", *arguments]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, text=True, env=os.environ | more, check=False, **streams)
    assert "ModuleNotFoundError" not in done.stderr and "homerl[train]" not in done.stderr, done.stderr
    (modules,) = re.findall(r"^LOADED (.*)$", done.stdout, re.M)
    return {module.partition(".")[0] for module in json.loads(modules)}


COMMAND = "from homerl.app.cli import main; main()"


@pytest.mark.parametrize("arguments", [("--help",), pytest.param(("serve", "--help"), marks=pytest.mark.long)])
def test_the_help_loads_neither_models_nor_servers(arguments: Sequence[str]) -> None:
    assert not loaded(COMMAND, *arguments) & brought("serve")


def test_an_agent_and_its_model_elsewhere_need_nothing_of_training() -> None:
    serving = "homerl.envs.assistant.serving"
    code = f"import homerl.app.served.model_agents, {serving}.real_home, {serving}.openai_endpoint"
    assert {"starlette", "websockets"} <= loaded(code)


@pytest.mark.long
def test_an_agent_with_a_model_elsewhere_begins_without_training(tmp_path: Path) -> None:
    """The port is taken, so it ends where it would begin to answer."""
    with Replay() as home, ScriptedServer() as model, socket.create_server(("127.0.0.1", 0)) as taken:
        named = ("--ha", home.url, "--model", model.url, "--port", str(taken.getsockname()[1]))
        found = loaded(COMMAND, "serve-agent", *named, "--log", str(tmp_path / "agent.jsonl"), HA_TOKEN=TOKEN)
    assert {"openai", "starlette", "websockets"} <= found


def test_a_talk_with_a_baseline_needs_nothing_of_training() -> None:
    assert "numpy" in loaded(COMMAND, "chat", "keywords", extra="env")


def test_each_package_that_a_file_imports_is_of_the_base_or_of_an_extra() -> None:
    """So what is missing is told with an extra, and not with a traceback."""
    base = {
        re.split(r"[^\w-]", line)[0].replace("-", "_").lower() for line in requires("homerl") or () if "extra ==" not in line
    }
    base |= {"yaml", "markupsafe", "typing_extensions"}  # PyYAML; what jinja2 and pydantic bring
    of_their_own = {"trackio", "triton"}  # asked for by `report_to`, and beside a GPU
    imported: dict[str, Path] = {}  # the last file that does
    for file in [file for folder in ("homerl", "envs", "rewards") for file in (ROOT / folder).rglob("*.py")]:
        if file.is_relative_to(ROOT / "envs/assistant/app"):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            imported |= dict.fromkeys((name.partition(".")[0] for name in names), file)
    for name in imported.keys() - sys.stdlib_module_names - {"homerl"}:
        assert name in base | of_their_own or extra_with_module(name), f"{imported[name]}: {name}"


def test_a_recipe_names_the_extra_that_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homerl.app.runs.launch.find_spec", lambda name: None)
    recipe = tmp_path / "recipe.yaml"
    for kind, package in {"sft": "torch", "rlve": "torch", "flywheel": "torch", "synth": "sacrebleu"}.items():
        recipe.write_text(f"homerl: 1\nrun: {kind}\n", "utf-8")
        with pytest.raises(ModuleNotFoundError) as missing:
            refuse_without_packages(recipe)
        assert (missing.value.name, extra_with_module(package)) == (package, "train")
    recipe.write_text("homerl: 1\nrun: bench\n", "utf-8")
    refuse_without_packages(recipe)


def test_a_package_that_was_left_out_is_named_with_its_extra() -> None:
    assert [extra_with_module(name) for name in ("torch", "tokenizers", "rank_bm25", "uvicorn", "mcp", "nowhere")] == [
        "train",
        "train",
        "env",
        "serve",
        "mcp",
        None,
    ]
    end = ending_for_error(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert end is not None and end.code == 2 and "pip install 'homerl[train]'" in end.message
    assert ending_for_error(ModuleNotFoundError("No module named 'homerl.gone'", name="homerl.gone")) is None


def test_a_benchmark_of_a_model_by_url_names_all_extras_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = {"numpy", "openai"}
    monkeypatch.setattr("homerl.host.exit_codes.find_spec", lambda name: None if name in missing else "there")
    play = partial(bench_run, "smh-bench", "http://localhost:1/v1", tmp_path)
    with pytest.raises(InputError, match=r"(?s)numpy, openai: what this command needs.*pip install 'homerl\[env,serve\]'"):
        play()
    missing.remove("numpy")
    with pytest.raises(InputError, match=r"(?s)^openai: what this command needs.*pip install 'homerl\[serve\]'"):
        play()


def install_wheel(folder: Path, extra: str) -> tuple[Path, dict[str, str]]:
    """The wheel with an extra alone in a fresh environment: its folder, and the variables with which its programs run."""
    pip = [sys.executable, "-m", "pip"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(wheel, check=True, capture_output=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (file,), fresh = folder.glob("*.whl"), folder / "fresh"
    venv.create(fresh, symlinks=True, with_pip=True)
    install = [fresh / "bin/pip", "install", "-c", ROOT / "constraints.txt", f"{file}[{extra}]"]
    subprocess.run(install, check=True, capture_output=True, env=clean)
    (site,) = fresh.glob("lib/python*/site-packages")
    assert not (brought("train") - brought(extra)) & {path.name for path in site.iterdir()}
    files = [path for path in site.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    print(f"{size / 1e6:.0f} MB, with bytecode {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")
    assert size < MOST_BYTES[extra]
    return fresh, clean


@pytest.mark.long
def test_tasks_of_all_worlds_are_played_from_the_wheel_with_env_alone(tmp_path: Path) -> None:
    fresh, clean = install_wheel(tmp_path, "env")
    program = (
        "import homerl\n"
        "from homerl.worlds.registry import known_worlds\n"
        "for world in known_worlds():\n"
        "    turn = homerl.load_tasks(world, count=1)[0].start().step('Done.')\n"
        "    assert turn.rewards and turn.counts, world\n"
    )
    subprocess.run([fresh / "bin/python", "-c", program], check=True, env=clean, cwd=tmp_path)


@pytest.mark.long
def test_an_agent_answers_from_the_wheel_with_serve_alone(tmp_path: Path) -> None:
    """What is there, how large it is, and a sentence."""
    fresh, clean = install_wheel(tmp_path, "serve")
    with Replay() as home, ScriptedServer() as model:
        with Agent(tmp_path, home.url, model.url, python=fresh / "bin/python", env=clean | {"HA_TOKEN": TOKEN}) as agent:
            assert (
                agent.say("Turn on the ceiling lights.") == "I switched nothing just now."
            )  # it says "Done.", without a call
        assert "Ceiling Lights" in json.dumps(model.requests)
    command = [fresh / "bin/homerl", "serve", "nowhere"]
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "homerl[train]" in done.stderr
