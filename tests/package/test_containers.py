"""The containers: their files copy what there is, the CPU image's steps make a homerl that plays, compose.yaml names what
recipes and servers know. `scripts/check_container` runs the long test too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import container
import pytest
import yaml

from homerl.app.runs.recipe import load_recipe
from package.facts import ROOT

FILES = sorted((ROOT / "containers").glob("*.Dockerfile"))
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
WHEELS = Path("/opt/wheels")  # where a machine has wheels of its own, torch's CPU build among them


def steps_of(file: Path, name: str) -> list[str]:
    """The words of all instructions of a name."""
    return [words for found, words in container.instructions(file) if found == name]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_dockerfile_copies_what_there_is_and_installs_by_constraints(file: Path) -> None:
    copied = [word for words in steps_of(file, "COPY") if not words.startswith("--from") for word in words.split()[:-1]]
    assert {"homerl", "envs", "rewards", "recipes", "models", "constraints.txt"} <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    let_in = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert let_in == set(copied), ".dockerignore"
    installed = [words for words in steps_of(file, "RUN") if "pip install" in words]
    assert installed and all("-c /source/constraints.txt" in words for words in installed)
    assert steps_of(file, "ENTRYPOINT") == ['["homerl"]']


def test_compose_starts_what_the_recipe_and_the_servers_know() -> None:
    said = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE))
    services: dict[str, Any] = said["services"]
    assert set(services) == {"policy", "user", "trainer"}
    assert all((ROOT / service["build"]["dockerfile"]).is_file() for service in services.values())
    gpus = [one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in services.values()]
    assert sorted(gpu for ids in gpus for gpu in ids) == list("01234567")
    assert services["trainer"]["depends_on"] == {name: {"condition": "service_healthy"} for name in ("policy", "user")}

    recipe, *overrides = services["trainer"]["command"]
    settings = load_recipe(recipe, overrides)
    policy, user = services["policy"]["command"], services["user"]["command"]
    assert policy[0] == settings.model.name and user[0] == settings.user.model
    for command, url in ((policy, settings.rlve.engine.url), (user, settings.user.url)):
        port = command[command.index("--port") + 1]
        assert (
            str(url).removesuffix("/v1") == f"http://127.0.0.1:{port}"
            and command[command.index("--host") + 1] == "127.0.0.1"
        )
    assert (
        str(len(services["trainer"]["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]))
        == (services["trainer"]["entrypoint"][-1])
    )


def test_the_policy_server_has_the_options_of_the_page_of_training() -> None:
    command = yaml.safe_load(COMPOSE)["services"]["policy"]["command"]
    page = (ROOT / "docs/training.md").read_text("utf-8")
    (line,) = re.findall(r"^VLLM_SERVER_DEV_MODE=1 vllm serve (.+\n?.*)$", page, re.M)
    wanted = {word for word in line.replace("'", "").split() if word.startswith("--")}
    assert wanted <= set(command)
    assert json.loads(command[command.index("--weight-transfer-config") + 1]) == {"backend": "nccl"}


def run_steps(file: Path, folder: Path, **arguments: str) -> Path:
    """The steps of a Dockerfile's first stage without a builder: its folders /source and /homerl lie in `folder`."""

    def here(words: str) -> str:
        return re.sub(r"(?<![\w.])/(source|homerl)\b", rf"{folder}/\1", words)

    for name, words in list(container.instructions(file))[1:]:
        if name == "FROM":
            break
        if name == "COPY":
            *sources, target = words.split()
            for source in sources:
                into = Path(here(target)) / (source if target.endswith("/") else "")
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                into.parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / source, into, **({"symlinks": True} if copy is shutil.copytree else {}))
        if name == "RUN":
            subprocess.run(["/bin/sh", "-ec", here(words)], check=True, env=os.environ | arguments)
    return folder / "homerl/bin"


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_the_steps_of_the_cpu_image_make_a_homerl_that_plays(tmp_path: Path) -> None:
    (argument,) = steps_of(ROOT / "containers/cpu.Dockerfile", "ARG")
    index = "" if [*WHEELS.glob("torch-*+cpu-*")] else argument.partition("=")[2]
    programs = run_steps(ROOT / "containers/cpu.Dockerfile", tmp_path, TORCH_INDEX=index)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean |= {"PATH": f"{programs}:{clean['PATH']}", "HOME": str(tmp_path)}
    work = tmp_path / "work"
    work.mkdir()
    play = ["run", "recipes/synth.yaml", "--synth.blueprints", "2", "--synth.curriculum", "[]", "--processes", "0"]
    for words in (["--version"], ["check", "recipes/smoke.yaml"], play):
        subprocess.run(["homerl", *words], cwd=work, env=clean, check=True)
    assert (work / "runs/synth/trajectories.jsonl").stat().st_size
