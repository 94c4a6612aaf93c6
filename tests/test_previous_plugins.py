"""Plug-ins of November 2026, as its pages showed them, go on with a warning. They are in `tests/previous`, by kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PREVIOUS = ROOT / "tests/previous"
RECIPE = {"homerl": 1, "run": "synth", "processes": 1, "synth": {"blueprints": 4, "shard": 4}}


def homerl(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command line of its own, which is told of each old name."""
    command = [sys.executable, "-W", "always::DeprecationWarning", "-m", "homerl", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("cwd", [pytest.param("checkout", marks=pytest.mark.long), "elsewhere"])
def test_a_command_goes_on(cwd: str, tmp_path: Path) -> None:
    folder = ROOT if cwd == "checkout" else tmp_path
    done = homerl("hello", "--name", "Ann", cwd=folder, HOMERL_COMMANDS=str(PREVIOUS / "commands"))
    assert done.stdout == "hello Ann\n"
    assert "DeprecationWarning: homerl.terminal.commands is homerl.host.terminal now" in done.stderr


def test_a_world_goes_on_with_rewards_and_metrics_of_its_time(tmp_path: Path) -> None:
    recipe = {**RECIPE, "synth": {**RECIPE["synth"], "recipe": {"world": "lamp"}}}
    (tmp_path / "lamp.yaml").write_text(yaml.safe_dump(recipe))
    done = homerl("run", "lamp.yaml", "--out", "run", cwd=tmp_path, HOMERL_PLUGINS=str(PREVIOUS))
    assert "lamp/__init__.py:12: DeprecationWarning: homerl.language.splits is" in done.stderr
    assert "homerl.worlds.lamp.blueprint is homerl.envs.lamp.blueprint now" in done.stderr
    assert json.loads((tmp_path / "run/stats.json").read_text())["generation_success"] == 1.0
    assert (
        "all as recorded" in homerl("reverify", "run/trajectories.jsonl", cwd=tmp_path, HOMERL_PLUGINS=str(PREVIOUS)).stdout
    )


@pytest.mark.long
def test_a_toolset_and_a_query_type_go_on(tmp_path: Path) -> None:
    task = {"families": {"leaving": 1}, "toolset": "switch", "prompt": "full", "home": {"products": ["100005"]}}
    (tmp_path / "home.yaml").write_text(yaml.safe_dump({**RECIPE, "synth": {**RECIPE["synth"], "recipe": task}}))
    done = homerl("run", "home.yaml", "--out", "run", cwd=tmp_path, HOMERL_PLUGINS=str(PREVIOUS))
    assert "leaving.py:7: DeprecationWarning: envs.homeenv.home is homerl.envs.homeenv.sim.home now" in done.stderr
    assert json.loads((tmp_path / "run/stats.json").read_text())["generation_success"] == 1.0


def test_what_trains_is_found(tmp_path: Path) -> None:
    code = (
        "from homerl.train.credit.contract import list_credit_modes; from homerl.train.losses.contract import list_losses;"
        "from homerl.train.engines.contract import list_engines; from homerl.rewards.composite import REWARDS;"
        "print('rank' in list_credit_modes(), 'soft' in list_losses(), 'unpadded' in list_engines(), 'brevity' in REWARDS)"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "HOMERL_PLUGINS": str(PREVIOUS)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"] * 4, done.stderr


def test_helpers_of_credit_modes_losses_and_engines_are_found(tmp_path: Path) -> None:
    code = (
        "import homerl.envs.core.plugins; from homerl.train.credit.common import EPSILON, normalised, returns_to_go;"
        "from homerl.train.losses.grpo import Grpo; from homerl.train.watchdog import Stalled;"
        "from homerl.train.phases import Phases; print(returns_to_go([1.0, 2.0]), Grpo.name, Stalled.code, Phases.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[3.0, 2.0] grpo 4 PhaseTimer\n", done.stderr


def test_somebody_elses_package_stays_theirs(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/__init__.py").write_text("mine = 1\n")
    (tmp_path / "envs/world.py").write_text("mine = 2\n")
    code = "import homerl.envs.core.plugins, envs, envs.world; print(envs.mine, envs.world.mine)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "2"], done.stderr


def test_what_moved_to_another_module_is_found_there() -> None:
    from homerl.models.endpoint.endpoint_settings import Behaviours
    from homerl.play.situation import Course, Observation
    from homerl.worlds.contract import Visits

    with pytest.deprecated_call():
        old = import_module("homerl.play.chat_messages"), import_module("homerl.play.user_behaviours")
        assert old[0].Observation is Observation
        assert (old[1].Course, old[1].Behaviours) == (Course, Behaviours)
        assert import_module("homerl.worlds.home_visits").Visits is Visits
