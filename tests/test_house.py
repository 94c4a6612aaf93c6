"""The house: rooms import one way, worlds are plug-ins, and modules stay short. CONTRIBUTING.md has the rules in words."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from house import PAGE, ROOT, House, Module

from homerl.play.bench_results import METRICS
from homerl.worlds.registry import known_suites, known_worlds

HEAD = "## The house\n\n| room | why |\n|---|---|\n"


@pytest.fixture(scope="module")
def house() -> House:
    return House()


def none_of(faults: Iterable[str]) -> None:
    found = list(faults)
    assert not found, "\n".join(found)


def test_there_is_no_cycle_of_modules(house: House) -> None:
    none_of(house.cycles())


def test_every_module_has_a_room_and_every_room_a_module(house: House) -> None:
    none_of(house.misplaced())


def test_rooms_import_one_way(house: House) -> None:
    none_of(house.upward())


def test_no_folders_import_each_other_in_a_circle(house: House) -> None:
    none_of(house.circles_of_folders())


def test_the_drawing_is_of_these_rooms(house: House) -> None:
    assert house.drawn() == house.drawing(), f"{PAGE} shows other arrows. Run: ./scripts/regenerate"


def test_nobody_imports_a_plug_in_world(house: House) -> None:
    none_of(house.known_worlds())


def test_nobody_names_a_world(house: House) -> None:
    assert len(known_worlds()) > 1
    none_of(house.named_worlds(known_worlds()))


def test_nobody_names_a_suite(house: House) -> None:
    """A citation may: it names the paper, in capitals."""
    names = known_suites().keys() - known_worlds().keys()
    folders = tuple(f"envs/{world}/" for world in known_worlds())
    outside = [module for module in house.modules.values() if not module.file.startswith(folders)]
    assert names
    none_of(f"{module.file} names the suite '{name}'" for module in outside for name in names if name in module.text)


def test_model_libraries_stay_where_models_are(house: House) -> None:
    none_of(house.heavy())


def test_files_and_functions_hold_one_idea(house: House) -> None:
    none_of(house.oversized())


def test_what_reaches_the_terminal_passes_its_room(house: House) -> None:
    """There a stranger's text loses what would act on the terminal. `console.print` of that room is a method."""
    none_of(
        f"{module.file}:{node.lineno} calls {node.func.id}: use `console`, `say` or `print_error` of homerl.host.terminal"
        for module in house.modules.values()
        if module.file.startswith(("homerl/", "envs/", "rewards/"))
        and module.file not in ("homerl/host/terminal.py", "homerl/host/exit_codes.py")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "Console", "echo")
    )


def test_what_a_world_imports_late_is_there() -> None:
    for world in known_worlds().values():
        none_of(
            f"{world.name} lacks {name}"
            for name in vars(type(world))
            if not name.startswith("_") and not hasattr(world, name)
        )


def test_each_package_says_what_it_holds(house: House) -> None:
    none_of(house.undescribed())


SCRIPTS = [path for path in sorted((ROOT / "scripts").rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
OURS = ("homerl.", "gpu.", "ha.")  # `gpu` and `ha` are folders of scripts
PROGRAMS = [path for path in SCRIPTS if path.read_text("utf-8").startswith("#!/usr/bin/env python")]
BEHIND = [path for path in SCRIPTS if path.suffix == ".py"]  # the modules behind programs


@pytest.mark.parametrize("program", PROGRAMS + BEHIND, ids=lambda path: path.name)
def test_a_script_imports_what_there_is(program: Path) -> None:
    module = Module("script", program.name, program.read_text("utf-8"))
    ours = [imported for imported in module.imports if imported.target.startswith(OURS)]
    assert ours or program in BEHIND
    for imported in ours:
        parent, _, name = imported.target.rpartition(".")
        known = find_spec(imported.target) if find_spec(parent).submodule_search_locations else None
        assert known or hasattr(import_module(parent), name), f"{imported} imports {imported.target}, which does not exist"


# The rules themselves, on small houses that break them


def build(root: Path, files: Mapping[str, str], rooms: Iterable[str] = ()) -> House:
    """A house of these files (by path, less the suffix), and with these rooms from low to high."""
    for name, text in files.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    root.mkdir(parents=True, exist_ok=True)
    (root / PAGE).write_text(
        HEAD + "".join(f"| `{room}` | because |\n" for room in rooms) + "\n## Next\n\n| `x/` | no room |\n"
    )
    return House(root)


@pytest.mark.parametrize(
    "text",
    [
        "import homerl.envs.b\n",
        "from homerl.envs import b\n",
        "from homerl.envs.b import thing\n",
        "from . import b\n",
        "from .b import thing\n",
        "def late():\n    from homerl.envs.b import thing\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from homerl.envs.b import thing\n",
        "try:\n    import homerl.envs.b\nexcept ImportError:\n    raise\n",
        "class A:\n    thing = late('homerl.envs.b', 'thing.made')\n",
    ],
)
def test_a_cycle_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    files = {"envs/a": text, "envs/b": "from homerl.envs.c import x\n", "envs/c": "\n\nfrom homerl.envs.a import x\n"}
    (fault,) = build(tmp_path, files).cycles()
    steps = ("imports homerl.envs.b", "envs/b.py:1 imports homerl.envs.c", "envs/c.py:3 imports homerl.envs.a")
    for step in (*steps, "Move what they share"):
        assert step in fault
    assert not list(build(tmp_path, {"envs/a": "x = 1\n"}).cycles())


def test_two_cycles_are_two_faults(tmp_path: Path) -> None:
    files = {
        "envs/a": "import homerl.envs.b",
        "envs/b": "import homerl.envs.a",
        "envs/c": "import homerl.envs.d",
        "envs/d": "import homerl.envs.c",
    }
    assert len(list(build(tmp_path, files).cycles())) == 2


ROOMS = ("homerl/play/", "homerl/worlds/", "envs/*/", "homerl/app/")


def test_an_arrow_up_is_found(tmp_path: Path) -> None:
    files = {"homerl/worlds/contract": "def late():\n    import homerl.app.cli", "homerl/app/cli": ""}
    (fault,) = build(tmp_path, files, ROOMS[1::2]).upward()
    assert fault.startswith("homerl/worlds/contract.py:2 imports homerl.app.cli: homerl/worlds/ may import only rooms that")
    assert not list(build(tmp_path, files, ROOMS[3:0:-2]).upward())


def test_a_circle_of_folders_is_found_though_no_module_is_in_one(tmp_path: Path) -> None:
    files = {"homerl/worlds/contract": "", "homerl/users/make": "import homerl.worlds.contract"}
    late = {"homerl/worlds/one/x": "def late():\n    from homerl.users.words import said", "homerl/users/words": ""}
    assert not list(build(tmp_path / "without", files).circles_of_folders())
    house = build(tmp_path / "with", files | late)
    (fault,) = house.circles_of_folders()
    assert "homerl/worlds/one/x.py:2 imports homerl.users.words.said" in fault and "homerl/users/make.py:1" in fault
    assert not list(house.cycles())


def test_a_circle_of_folders_inside_of_a_room_is_found(tmp_path: Path) -> None:
    files = {
        "envs/a/x/one": "import homerl.envs.a.y.one",
        "envs/a/y/one": "import homerl.envs.a.low",
        "envs/a/low": "",
        "envs/a/x/two": "",
    }
    assert not list(build(tmp_path, files).circles_of_folders())
    (fault,) = build(tmp_path, {"envs/a/y/two": "import homerl.envs.a.x.two"}).circles_of_folders()
    assert "envs/a/y/two.py:1 imports homerl.envs.a.x.two" in fault


def test_plug_ins_import_what_is_lower_but_not_each_other_and_nobody_imports_them(tmp_path: Path) -> None:
    files = {"homerl/worlds/contract": "import homerl.play.x", "homerl/play/x": "", "homerl/app/cli": ""}
    files |= {"envs/one/x": "import homerl.play.x", "envs/two/x": "import homerl.worlds.contract"}
    house = build(tmp_path, files, ROOMS)
    assert not [*house.upward(), *house.known_worlds(), *house.misplaced()]
    (fault,) = build(tmp_path, files | {"envs/one/x": "import homerl.app.cli"}, ROOMS).upward()
    assert fault.startswith("envs/one/x.py:1 imports homerl.app.cli")
    house = build(tmp_path, files | {"envs/two/x": "import homerl.envs.one.x"}, ROOMS)
    assert len(list(house.upward())) == len(list(house.known_worlds())) == 1
    house = build(tmp_path, files | {"envs/two/x": "", "rewards/y": "from homerl.envs.one import x"}, ROOMS)
    assert next(house.misplaced()).startswith("rewards/y.py:1 lies in no room")
    (fault,) = build(tmp_path, {}, ("rewards/", *ROOMS)).known_worlds()
    assert fault.startswith("rewards/y.py:1 imports homerl.envs.one.x: nobody outside envs/one/")


def test_what_serves_a_home_may_import_a_world_and_a_world_what_is_apart_in_another(tmp_path: Path) -> None:
    files = {"envs/one/sim/x": "", "envs/one/y": "", "envs/two/x": "import homerl.envs.one.sim.x"}
    files |= {"envs/assistant/z": "import homerl.envs.one.y"}
    house = build(tmp_path, files, ("envs/one/sim/", "envs/*/", "envs/assistant/"))
    assert not [*house.upward(), *house.known_worlds(), *house.misplaced()]


def test_a_room_that_is_listed_twice_is_found(tmp_path: Path) -> None:
    (fault,) = build(tmp_path, {"envs/a": "", "rewards/b": ""}, ("envs/", "rewards/", "envs/")).misplaced()
    assert fault.startswith(f"{PAGE} lists the room envs/ 2 times")


def test_a_room_without_modules_is_found(tmp_path: Path) -> None:
    assert list(build(tmp_path, {"envs/a": ""}, ("envs/", "rewards/")).misplaced()) == [
        f"{PAGE} lists the room rewards/, which holds no module. Delete its row"
    ]


def test_a_name_of_a_world_is_found(tmp_path: Path) -> None:
    files = {"envs/garden/x": "garden", "envs/other/v": "garden", "homerl/y": "", "homerl/old_garden": "pass"}
    files |= {"rewards/z": "of = 'garden'", "envs/core/w": "class OurGardenThing: pass"}
    house = build(tmp_path, files)
    (tmp_path / "homerl/page.html.jinja").write_text("<p>\n<p>Your GARDEN\n")
    assert [fault.partition(". Put")[0] for fault in house.named_worlds(["garden"])] == [
        "homerl/old_garden.py:0 names the world 'garden': 'homerl/old_garden.py'",
        "homerl/page.html.jinja:2 names the world 'garden': '<p>Your GARDEN'",
        """rewards/z.py:1 names the world 'garden': "of = 'garden'\"""",
        "envs/core/w.py:1 names the world 'garden': 'class OurGardenThing: pass'",
    ]


def test_a_name_of_a_world_within_another_word_is_none(tmp_path: Path) -> None:
    house = build(tmp_path, {"homerl/gardener": "gardens = 'Gardening'", "rewards/x": "kindergarden = 1"})
    assert not list(house.named_worlds(["garden"]))


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("homerl/train/x", "import torch", True),
        ("homerl/models/policy/transformers_engine", "import torch.nn", False),
        ("homerl/models/policy/transformers_engine", "def late():\n    import torch", True),
        ("homerl/models/policy/guest", "from transformers import Trainer", False),
        ("homerl/app/runs/x", "import torch", False),
        ("homerl/app/runs/x", "def late():\n    import torch", True),
        ("homerl/play/x", "def late():\n    import torch", False),
        ("homerl/play/x", "if TYPE_CHECKING:\n    import torch", True),
        ("homerl/play/x", "import openai", True),
        ("envs/core/x", "def late():\n    import openai", False),
        ("envs/core/x", "import homerl.rewards.y", False),
        ("envs/core/x", "if TYPE_CHECKING:\n    import torch", False),
        ("envs/one/sim/x", "from homerl.play import y", False),
        ("envs/one/sim/x", "from homerl.envs import core", True),
        ("envs/one/x", "from homerl.play import y", True),
        ("envs/one/x", "def late():\n    import torch", False),
        ("rewards/x", "from homerl import play", False),
        ("rewards/x", "import homerl.envs.core.world", True),
        ("rewards/x", "from homerl.rewards import reward", True),
    ],
)
def test_a_heavy_import_is_found(tmp_path: Path, name: str, text: str, allowed: bool) -> None:
    assert (not list(build(tmp_path, {name: text}).heavy())) == allowed


def test_what_is_too_long_is_found(tmp_path: Path) -> None:
    body = "def f():\n" + "    x = 1\n" * 100
    faults = list(build(tmp_path, {"envs/a": body + "y = 1\n" * 600, "envs/b": "def g():\n    pass\n"}).oversized())
    assert [fault.partition(" ")[0] for fault in faults] == ["envs/a.py:701", "envs/a.py:1"]
    assert "f has 101 lines" in faults[1]


def test_a_package_without_docstring_is_found(tmp_path: Path) -> None:
    files = {"envs/a": "", "envs/__init__": '"""Said."""\n', "rewards/b": "", "homerl/__init__": "x = 1\n"}
    assert [fault.partition(":")[0] for fault in build(tmp_path, files).undescribed()] == [
        "homerl/__init__.py",
        "rewards/__init__.py",
    ]


def test_the_drawing_leaves_out_arrows_that_follow(tmp_path: Path) -> None:
    files = {"envs/a": "", "rewards/b": "import homerl.envs.a", "homerl/c": "import homerl.envs.a\nimport homerl.rewards.b"}
    drawing = build(tmp_path, files, ("envs/", "rewards/", "homerl/")).drawing()
    assert re.findall(r"r\d --> r\d", drawing) == ["r1 --> r0", "r2 --> r1"]


# The examples of CONTRIBUTING.md


def example(name: str, folder: Path) -> Path:
    """The file that an example adds, written below the folder."""
    found = re.search(
        rf"<!-- example: {name} -->\n```diff\n\+\+\+ b/(\S+)\n(.*?)```", (ROOT / PAGE).read_text("utf-8"), re.DOTALL
    )
    assert found, f"{PAGE} has no example '{name}'"
    path = folder / found[1]
    path.parent.mkdir(parents=True)
    path.write_text("".join(line.removeprefix("+") + "\n" for line in found[2].splitlines()), "utf-8")
    return path


def printed(code: str) -> str:
    """What a Python of its own prints, which finds plug-ins by this environment."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_a_reward_is_found_and_earns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = example("reward", tmp_path)
    monkeypatch.setenv("HOMERL_REWARDS", str(path.parent))
    code = (
        "from homerl.envs.core.world import StepFacts, ToolCall; "
        "from homerl.rewards.composite import RewardWeights, step_rewards; "
        "facts = StepFacts(turn=1, progress_before=0.0, progress_after=0.0, calls=(ToolCall('look', {}),) * 6); "
        "print(step_rewards(facts, RewardWeights(brevity=0.5))['brevity'])"
    )
    assert printed(code).strip() == "-0.5"


def test_the_example_of_a_metric_is_found_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = example("metric", tmp_path)
    monkeypatch.setenv("HOMERL_METRICS", str(path.parent))
    code = (
        "from types import SimpleNamespace; from homerl.play.bench_results import METRICS; "
        "print(*METRICS, METRICS['steps'].count(SimpleNamespace(steps=(1, 2)), None))"
    )
    assert printed(code).split() == [*METRICS, "steps", "2"]


def test_the_example_of_a_world_is_found_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example("world", tmp_path)
    monkeypatch.setenv("HOMERL_WORLDS", str(tmp_path))
    code = "from homerl.worlds.registry import known_worlds as worlds;"
    code += "print(*worlds(), worlds()['greenhouse'].card({}).utterance, sep='|')"
    assert printed(code).strip().split("|") == [
        *known_worlds(),
        "greenhouse",
        "Open the roof vent.",
    ]


# Continuous integration


def test_ci_calls_what_the_readme_names() -> None:
    assert "\n./scripts/test " in (ROOT / "README.md").read_text("utf-8")
    assert '/../scripts/test" "$@"' in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "called"), [((), "pytest lint"), (("--all",), "pytest lint"), (("tests/x.py",), "pytest")]
)
def test_style_and_types_are_checked_beside_all_tests(tmp_path: Path, arguments: tuple[str, ...], called: str) -> None:
    """The script itself, with stand-ins for what it calls."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / "test", scripts / "test")
    (scripts / "_venv.sh").write_text(
        f"set -euo pipefail\nroot={tmp_path}\nPATH={tmp_path}:$PATH\nensure_venv() {{ :; }}\nsay() {{ :; }}\n"
    )
    for path, said in ((scripts / "lint", "echo lint"), (tmp_path / "python", '[ "$2" != pytest ] || echo pytest')):
        path.write_text(f"#!/bin/sh\n{said}\n")
        path.chmod(0o755)
    done = subprocess.run([scripts / "test", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split() == called.split()
    (scripts / "lint").write_text("#!/bin/sh\nsleep 0.2; echo found; exit 1\n")
    done = subprocess.run([scripts / "test", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == ("lint" in called) and done.stdout.split() == called.replace("lint", "found").split()
    (scripts / "lint").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "python").write_text("#!/bin/sh\nkill -INT $PPID\nexit 130\n")
    done = subprocess.run([scripts / "test", *arguments], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode, "whoever stops the tests waits for no check"
