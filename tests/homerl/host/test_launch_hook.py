"""Recipes run as programs, in real interpreters; a probe in place of `homerl.app.runs.launch` tells what it got."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from homerl.host import launch_hook

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
RECIPE = "# a recipe\nhomerl: 1  # version\ntrain: {steps: 3}\n"
PROBE = """
import sys, types

def square(x):
    return x * x

def spawned():
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(square, [2, 3])

def main(path, argv):
    import json, os, colorsys, __main__
    told = {"path": path, "argv": argv, "typed": sys.argv[0], "rank": os.environ.get("RANK"),
            "imports": colorsys.__name__, "clean": not any(p.endswith("yaml") for p in sys.path),
            "spec": __main__.__spec__.name, "file": __main__.__file__, "spawned": spawned()}
    with open(os.path.join(os.environ["PROBE_OUT"], f"{os.getpid()}.json"), "w") as file:
        json.dump(told, file)
    return int(os.environ.get("PROBE_RC", 0))

probe = types.ModuleType("homerl.app.runs.launch")
probe.main = main
sys.modules["homerl.app.runs.launch"] = probe
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a recipe in it, an empty folder for what the probe tells, and the probe."""
    for name in ("recipes", "out", "site", "else where"):
        (tmp_path / name).mkdir()
    (tmp_path / "recipes" / "tiny.yaml").write_text(RECIPE)
    (tmp_path / "site" / "sitecustomize.py").write_text(PROBE)
    return tmp_path


def launch(place: Path, *command: str | Path, cwd: Path | None = None, rc: int = 0) -> list[dict]:
    """Runs a command and returns what each process's `launch.main` was told."""
    for old in (place / "out").iterdir():
        old.unlink()
    env = {
        **os.environ,
        "PYTHONPATH": str(place / "site"),
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(place / "hf"),
    }
    env |= {"PROBE_OUT": str(place / "out"), "PROBE_RC": str(rc)}
    done = subprocess.run([*map(str, command)], cwd=cwd or place, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == rc, done.stderr
    return [json.loads(file.read_text()) for file in sorted((place / "out").iterdir())]


def as_expected(told: dict, place: Path, argv: list[str], recipe: str = "recipes/tiny.yaml") -> bool:
    path = str(place / recipe)
    return told | {"rank": None, "typed": None} == {
        "path": path,
        "argv": argv,
        "typed": None,
        "rank": None,
        "imports": "colorsys",
        "clean": True,
        "spec": "__main__",
        "file": path,
        "spawned": [4, 9],
    }


def test_python_runs_a_recipe_with_its_arguments_and_exit_code(place: Path) -> None:
    [told] = launch(place, sys.executable, "recipes/tiny.yaml", "--a.b", "3", "--c=d e", rc=2)
    assert as_expected(told, place, ["--a.b", "3", "--c=d e"]) and told["typed"] == "recipes/tiny.yaml"


def test_python_runs_a_recipe_from_another_folder(place: Path) -> None:
    [told] = launch(place, sys.executable, place / "recipes" / "tiny.yaml", cwd=place / "else where")
    assert as_expected(told, place, [])


def test_accelerate_launch(place: Path) -> None:
    [told] = launch(place, BIN / "accelerate", "launch", "recipes/tiny.yaml", "--a.b", "3")
    assert as_expected(told, place, ["--a.b", "3"])


@pytest.mark.long
def test_torchrun_on_two_processes(place: Path) -> None:
    told = launch(place, BIN / "torchrun", "--nproc_per_node", "2", "recipes/tiny.yaml", "--a.b", "3")
    assert sorted(one["rank"] for one in told) == ["0", "1"]
    assert all(as_expected(one, place, ["--a.b", "3"]) for one in told)


@pytest.mark.long
def test_accelerate_launch_with_a_config_file(place: Path) -> None:
    config = [
        "compute_environment: LOCAL_MACHINE",
        "distributed_type: MULTI_CPU",
        "num_processes: 2",
        "use_cpu: true",
    ]
    (place / "cpu.yaml").write_text("\n".join([*config, "num_machines: 1"]))
    accelerate = [BIN / "accelerate", "launch", "--config_file", "cpu.yaml"]
    told = launch(place, *accelerate, "recipes/tiny.yaml", "--a.b", "3")
    assert told and all(as_expected(one, place, ["--a.b", "3"]) for one in told)


@pytest.mark.parametrize("text", ["a: 1\n", " homerl: 1\n", "homerl: 2\n", "homerl: 11\n", "x: homerl: 1\n", ""])
def test_other_yaml_files_are_declined(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(text)
    with pytest.raises(ImportError):
        launch_hook.claim(str(file))


def test_claims_nothing_else_and_raises_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "late.yaml").write_text("#" * 9000 + f"\n{RECIPE}")
    here = (tmp_path / "folder.yaml", tmp_path / "late.yaml")
    for path in ("nosuch.yaml", "other/nosuch.yaml", "recipes/nosuch", "recipes/a\0.yaml", "a\0.yaml", "", *here):
        with pytest.raises(ImportError):
            launch_hook.claim(str(path))


def test_a_recipe_with_a_byte_order_mark_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfhomerl: 1\r\n")
    assert launch_hook.claim(str(tmp_path / "bom.yaml")).find_spec("json") is None


def test_a_missing_recipe_is_the_shipped_one_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smoke.yaml").write_text(RECIPE)
    monkeypatch.setattr(launch_hook, "shipped_folder", lambda folder: str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert launch_hook.find_recipe_file(str(tmp_path / "recipes" / "smoke.yaml")) == str(tmp_path / "smoke.yaml")
    assert launch_hook.find_recipe_file("other/smoke.yaml") is None


@pytest.mark.parametrize("how", [[sys.executable], pytest.param([BIN / "accelerate", "launch"], marks=pytest.mark.long)])
def test_of_a_mistyped_recipe_homerl_says_which_it_may_be(tmp_path: Path, how: list[str | Path]) -> None:
    run = subprocess.run([*how, "recipes/quickstrat.yaml"], cwd=tmp_path, capture_output=True, text=True)
    said = run.stderr.partition("homerl: ")[2].partition("Traceback")[0].splitlines()  # `accelerate` adds its own
    assert said[0].endswith("there is no recipe recipes/quickstrat.yaml") and "did you mean quickstart?" in said[1]
    assert len(said) == 2 and run.returncode


def test_start_up_imports_nothing_of_ours() -> None:
    command = [sys.executable, "-c", "import sys; print([name for name in sys.modules if 'homerl' in name])"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


FOLDERS = ("envs", "rewards", "homerl", "recipes")
FILES = ("homerl.pth", "pyproject.toml", "README.md", "LICENSE", ".gitignore")


def build_and_install(source: Path, fresh: Path) -> Path:
    """Installs the wheel of `source`, alone, in a new environment `fresh`; returns its site-packages."""
    pip, dist = [sys.executable, "-m", "pip"], source.parent / "dist"
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(dist), str(source)]
    subprocess.run([*pip, *wheel], check=True, capture_output=True)
    venv.create(fresh, symlinks=True)
    install = [f"--python={fresh}/bin/python", "install", "--no-deps", str(next(dist.iterdir()))]
    subprocess.run([*pip, *install], check=True, capture_output=True)
    return next((fresh / "lib").glob("python*")) / "site-packages"


@pytest.mark.long
def test_the_wheel_alone_launches_recipes(place: Path) -> None:
    """In a fresh environment that sees our dependencies but not our source tree, from other folders."""
    source, fresh = place / "source", place / "fresh"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, symlinks=True)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    (source / "recipes" / "shipped.yaml").write_text(RECIPE)
    site = build_and_install(source, fresh)
    # A plain path in a .pth shows our dependencies, yet runs no .pth beside them: no editable install's.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python, empty = fresh / "bin" / "python", place / "else where"

    assert as_expected(launch(place, python, "recipes/tiny.yaml", "--a.b", "3")[0], place, ["--a.b", "3"])
    accelerate = [python, "-m", "accelerate.commands.launch"]
    assert as_expected(launch(place, *accelerate, place / "recipes" / "tiny.yaml", cwd=empty)[0], place, [])
    [told] = launch(place, *accelerate, "recipes/shipped.yaml", cwd=empty)
    assert told["path"] == str(site / "homerl" / "_recipes" / "shipped.yaml")

    assert [path.name for path in site.iterdir() if path.suffix not in (".dist-info", ".pth")] == ["homerl"]
    data = [file for file in source.glob("envs/**/*.yaml") if "envs/assistant/app" not in file.as_posix()]
    places = [site / "homerl" / file.relative_to(source) for file in data]
    places += [site / file.relative_to(source) for file in source.glob("homerl/**/*.jinja")]
    assert len(places) > 100 and [place for place in places if not place.is_file()] == []
