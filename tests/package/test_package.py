"""The package: its facts agree, what is written from them is up to date, its bounds are tried, and a release refuses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from package.facts import ROOT, UNPUBLISHED, WRITTEN, Project

PROJECT = Project()
EXTRAS = PROJECT.metadata["optional-dependencies"]


@pytest.mark.parametrize("name", WRITTEN)
def test_what_follows_from_the_facts_is_up_to_date(name: str) -> None:
    assert PROJECT.read(name) == WRITTEN[name](PROJECT), "run ./scripts/regenerate"


def test_the_address_stands_once_and_the_changelog_has_this_version() -> None:
    assert all(url.startswith(PROJECT.address) for url in PROJECT.metadata["urls"].values())
    assert next(iter(PROJECT.release_days)) == PROJECT.version
    assert PROJECT.metadata["dynamic"] == ["version"]


def test_what_to_cite_are_the_papers_that_the_pages_name() -> None:
    cited = yaml.safe_load(PROJECT.read("CITATION.cff"))
    assert cited["cff-version"] == "1.2.0" and {"message", "title", "authors"} <= cited.keys()
    ids = {one["value"] for work in cited["references"] for one in work.get("identifiers", ())}
    pages = "".join(PROJECT.read(page) for page in ("README.md", "docs/homes.md", "docs/personalhome.md"))
    assert ids == {f"arXiv:{number}" for number in re.findall(r"arXiv (\d{4}\.\d{5})", pages)}
    assert [work["title"].partition(":")[0] for work in cited["references"]] == [
        "HomeFlow",
        "SMH-Bench",
        "SimuHome",
        "PersonalHomeBench",
    ]


def test_every_extra_has_its_row_on_the_page_of_installation() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PROJECT.read("docs/install.md"), re.M)
    assert sorted(rows) == sorted(EXTRAS)


def test_every_package_has_a_lower_bound_and_is_tested_in_its_range() -> None:
    """`scripts/check_package --lowest` installs the bounds."""
    pins = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", PROJECT.read("constraints.txt"), re.M)
    }
    extras = {name: [*map(Requirement, lines)] for name, lines in EXTRAS.items()}
    exact = [one for one in extras.pop("interop") if one.name != "homerl"]  # tried by scripts/check_interop
    assert exact and all([bound.operator for bound in one.specifier] == ["=="] for one in exact)
    asked = [*map(Requirement, PROJECT.metadata["dependencies"]), *(one for lines in extras.values() for one in lines)]
    wanted = [one for one in asked if one.name != "homerl"]
    assert len(wanted) > 40
    for one in wanted:
        assert [bound.operator for bound in one.specifier].count(">=") == 1, f"pyproject.toml: {one} has no lower bound"
        assert pins[canonicalize_name(one.name)] in one.specifier, f"constraints.txt and pyproject.toml: {one}"


def test_all_that_the_tests_environment_reaches_has_one_version() -> None:
    """What is not pinned can be another one tomorrow, and no test has seen it."""
    pins = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", PROJECT.read("constraints.txt"), re.M)}
    todo = [*map(Requirement, PROJECT.metadata["dependencies"]), Requirement("homerl[test]")]
    reached: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        for extra in {"", *wanted.extras}:
            if (key := (canonicalize_name(wanted.name), extra)) in reached:
                continue
            reached.add(key)
            lines = EXTRAS.get(extra, []) if key[0] == "homerl" else requires(wanted.name) or []
            found = map(Requirement, lines)
            todo += [one for one in found if one.marker is None or one.marker.evaluate({"extra": extra})]
    names = {name for name, _ in reached}
    assert len(names) > 100
    assert sorted(names - pins) == ["homerl"], "constraints.txt"


# A release


def run_git(folder: Path, *arguments: str) -> str:
    """What git prints in a folder, as somebody who may commit."""
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository that may be released: the files that a release reads, and stand-ins for the scripts that it runs."""
    root = tmp_path / "clone"
    (root / "scripts").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts/package", root / "scripts/package", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CHANGELOG.md", "CONTRIBUTING.md", "homerl/__init__.py", *WRITTEN):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / ".gitignore").write_text("__pycache__/\nran\n")
    for name in ("test", "check_package", "site"):
        (root / "scripts" / name).write_text(f"#!/bin/sh\necho {name} $@ >>ran\ntest ! -e fails_{name}\n")
        (root / "scripts" / name).chmod(0o755)
    for name in ("pyproject.toml", "CITATION.cff", "README.md", "docs/first_hour.md"):
        edit(root, name, UNPUBLISHED, "https://git.example.org/me/homerl")
    run_git(root, "init", "-q")
    commit(root)
    return root


def edit(root: Path, name: str, old: str, new: str) -> None:
    """Replace a text that a file has."""
    text = (root / name).read_text("utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new), "utf-8")


def commit(root: Path) -> None:
    """Commit everything."""
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "a change")


def start_release(root: Path) -> subprocess.CompletedProcess[str]:
    """`scripts/release` in that repository, without its environment."""
    command = [sys.executable, "-m", "package.release"]
    identity = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = os.environ | identity | {"PYTHONPATH": str(root / "scripts")}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_a_green_version_is_tested_built_and_tagged_and_not_twice(clone: Path) -> None:
    done = start_release(clone)
    assert done.returncode == 0, done.stderr
    ran = (clone / "ran").read_text().splitlines()
    assert ran == ["test --all", "check_package", "check_package --lowest", "site"]
    assert run_git(clone, "tag").split() == [f"v{PROJECT.version}"] and "Nothing was uploaded" in done.stdout
    again = start_release(clone)
    assert again.returncode == 1 and f"the tag v{PROJECT.version} exists" in again.stderr


def put_dirt(root: Path) -> None:
    """A file that is not committed."""
    (root / "new.txt").write_text("x")


def raise_version(root: Path) -> None:
    """A version that the changelog lacks."""
    edit(root, "homerl/__init__.py", f'"{PROJECT.version}"', '"77.0.0"')


def empty_heading(root: Path) -> None:
    """A heading below which nothing is said."""
    raise_version(root)
    edit(root, "CHANGELOG.md", "# Changelog\n", "# Changelog\n\n## 77.0.0 - 2030-01-01\n\nNothing.\n")


def forget_address(root: Path) -> None:
    """The address that stands for one."""
    edit(root, "pyproject.toml", "https://git.example.org/me/homerl", UNPUBLISHED)


def change_rules(root: Path) -> None:
    """AGENTS.md of before."""
    edit(root, "CONTRIBUTING.md", "- A commit does one thing.", "- A commit does two things.")


def fail_tests(root: Path) -> None:
    """A test that fails."""
    (root / "fails_test").touch()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (put_dirt, "files are not committed: new.txt"),
        (raise_version, f"begins with {PROJECT.version}, not with 77.0.0: write a heading '## 77.0.0 - YYYY-MM-DD'"),
        (empty_heading, "says nothing below the heading of 77.0.0"),
        (forget_address, "write the real one into [project.urls]"),
        (change_rules, "AGENTS.md is out of date: run ./scripts/regenerate"),
        (fail_tests, "scripts/test --all failed, so no tag was set"),
    ],
)
def test_what_is_not_green_is_not_released(clone: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(clone)
    if spoil is not put_dirt:
        commit(clone)
    done = start_release(clone)
    assert done.returncode == 1 and said in done.stderr and not run_git(clone, "tag")
    assert (clone / "ran").exists() == (spoil is fail_tests), "nothing is run before everything else holds"


# The files of the package


def hatch(folder: Path, target: str, into: Path) -> Path:
    """The sdist or the wheel of a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return next(into.iterdir())


@pytest.mark.long
def test_the_sdist_gives_the_wheel_of_the_tree(tmp_path: Path) -> None:
    """Links to folders were followed once, elsewhere: a wheel that was built from the sdist had no code."""
    with tarfile.open(hatch(ROOT, "sdist", tmp_path / "sdist")) as sdist:
        sdist.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    wheels = [hatch(ROOT, "wheel", tmp_path / "direct"), hatch(source, "wheel", tmp_path / "indirect")]
    direct, indirect = ({one.filename: one.CRC for one in zipfile.ZipFile(path).infolist()} for path in wheels)
    assert direct == indirect
    held = """
    homerl.pth homerl/__init__.py homerl/py.typed homerl/_recipes/quickstart.yaml homerl/_recipes/accelerate/ddp.yaml
    homerl/_models/smollm2-home/adapter_model.safetensors homerl/_models/qwen-home/adapter_model.safetensors
    homerl/envs/homeenv/maker/years.npz
    homerl/envs/homeenv/bench/data/smarthome-bench.jsonl.xz homerl/envs/homeenv/bench/data/smh-bench.jsonl.xz
    homerl/envs/simuhome/bench/data/simuhome.jsonl.xz
    """
    assert set(held.split()) <= direct.keys()
    assert {name.split("/")[0].partition("-")[0] for name in direct} == {"homerl", "homerl.pth"}
    assert not [name for name in direct if "/custom_components/" in name], "it runs in Home Assistant's Python"
    assert wheels[0].stat().st_size < 32e6
