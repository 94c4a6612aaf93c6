"""A new thing is one new file in the repository too: the examples of the pages are put into a copy of the tree, and the
generated pages are written again. The tests of the tree's structure and of these pages then pass without any other edit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # each kind of extension has tests of its own; these write all pages of a whole copy

ROOT = Path(__file__).parents[1]
WORLD = "glowworm"  # `lamp` is a word of shared files, and these name no world
PLACES = {  # where each example goes: its page, and a mark of its block
    "rewards/brevity.py": ("CONTRIBUTING.md", "REWARD ="),
    "homerl/app/cli/commands/hello.py": ("CONTRIBUTING.md", "COMMAND ="),
    "homerl/play/metrics/steps.py": ("CONTRIBUTING.md", "METRIC ="),
    "homerl/train/credit/rank.py": ("docs/training.md", "MODE ="),
    "homerl/train/losses/soft.py": ("docs/training.md", "LOSS ="),
    "homerl/train/engines/unpadded.py": ("docs/training.md", "ENGINE ="),
    "envs/homeenv/sim/toolsets/switch.py": ("docs/homes.md", "TOOLSET ="),
    "envs/homeenv/tasks/intents/leaving.py": ("docs/language.md", "SUBCATEGORIES ="),
}
NEW_PAGES = {f"docs/schemas/{WORLD}-blueprint.v1.json"}
TESTS = (
    "tests/test_house.py",
    "tests/homerl/app/test_reference.py",
    "tests/homerl/app/test_schemas.py",
    "tests/homerl/train/test_extensions.py::test_what_is_there_is_documented",
)


def example(page: str, mark: str) -> str:
    """The one Python block, or the one diff, of a page that contains the mark."""
    blocks = re.findall(r"^```(python|diff)\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S)
    (found,) = ((kind, text) for kind, text in blocks if f"\n{mark}" in text or f"\n+{mark}" in text)
    lines = found[1].splitlines()[1:] if found[0] == "diff" else found[1].splitlines()
    return "".join((line.removeprefix("+") if found[0] == "diff" else line) + "\n" for line in lines)


def lamp() -> dict[str, str]:
    """The files of the lamp's world under another name."""
    files = {path.name: path.read_text("utf-8") for path in (ROOT / "tests/worlds/lamp").glob("*.py")}
    return {
        f"envs/{WORLD}/{name}": text.replace('"lamp"', f'"{WORLD}"').replace("envs.lamp", f"envs.{WORLD}")
        for name, text in files.items()
    }


@pytest.fixture(scope="module")
def added() -> dict[str, str]:
    """What is added, by its path."""
    return {file: example(*place) for file, place in PLACES.items()} | lamp()


@pytest.fixture(scope="module")
def tree(added: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this tree with what is added, after `scripts/regenerate`."""
    copy = tmp_path_factory.mktemp("in") / "tree"
    for file in listed():
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, copy / file, follow_symlinks=False)
    for file, text in added.items():
        assert not (copy / file).exists()
        (copy / file).parent.mkdir(exist_ok=True)
        (copy / file).write_text(text, "utf-8")
    scripts = copy.parent / "scripts"  # the script itself, with a stand-in for its virtual environment
    scripts.mkdir()
    shutil.copy(ROOT / "scripts/regenerate", scripts)
    (scripts / "python").symlink_to(launcher(scripts))
    (scripts / "_venv.sh").write_text(f"set -eu\nroot={copy}\nPATH={scripts}:$PATH\nensure_venv() {{ :; }}\n")
    run(copy, scripts / "regenerate")
    return copy


def launcher(folder: Path) -> Path:
    """A program that starts this Python: a link to it would lose its packages."""
    path = folder / "this_python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def listed() -> list[str]:
    """The files of this tree that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [file for file in files if (ROOT / file).is_file() or (ROOT / file).is_symlink()]


def run(tree: Path, *command: str | Path) -> None:
    """Run a command in a copy, with the copy's own code and plug-ins alone."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("HOMERL_", "PYTEST_"))}
    own = {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command], cwd=tree, env=plain | own, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_new_files_and_generated_pages_differ(tree: Path, added: Mapping[str, str]) -> None:
    before = {file: (ROOT / file).read_bytes() for file in listed() if (ROOT / file).is_file()}
    made = (path for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc")
    after = {path.relative_to(tree).as_posix(): path.read_bytes() for path in made}
    assert before.keys() <= after.keys() and after.keys() - before.keys() == added.keys() | NEW_PAGES
    changed = {file for file, text in before.items() if after[file] != text}
    assert {"docs/reference.md", "docs/schemas/recipe.v1.json"} <= changed
    pages = ("docs/reference.md", "docs/glossary.md", "CONTRIBUTING.md")
    assert all(file in pages or file.startswith("docs/schemas/") for file in changed)


def test_the_page_of_rules_changes_only_in_its_drawing(tree: Path) -> None:
    without = [
        re.sub(r"```mermaid\n.*?```", "", (root / "CONTRIBUTING.md").read_text("utf-8"), flags=re.S) for root in (ROOT, tree)
    ]
    assert without[0] == without[1]


def test_the_reference_describes_each_new_thing(tree: Path) -> None:
    page = (tree / "docs/reference.md").read_text("utf-8")
    for key in (
        "rewards.brevity",
        "rewards.max_calls",
        "rlve.rank_scale",
        "rlve.steepness",
        "rlve.engine.prompts",
    ):
        assert f"\n- `{key}: " in page
    assert "- **steps a task**: " in (tree / "docs/glossary.md").read_text("utf-8")
    assert "`leaving`" in page and "or `switch`" in page and f"\n### World {WORLD}\n" in page


@pytest.mark.timeout(300)
def test_the_tests_of_the_house_and_of_generated_pages_pass(tree: Path) -> None:
    """Tests of the examples themselves are left out: these are there already."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not example")
    run(tree, sys.executable, "-m", "pytest", *options, *TESTS)
