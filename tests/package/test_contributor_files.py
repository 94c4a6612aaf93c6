"""The files for contributors say what the repository has: commands, versions, Pythons."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from package.facts import ROOT, Project

PROJECT = Project()
WORKFLOW = yaml.safe_load(PROJECT.read(".github/workflows/tests.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))


def test_the_workflow_runs_scripts_of_this_repository_on_the_pythons_of_the_metadata() -> None:
    commands = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    scripts = [re.sub(r"\$\{\{.*\}\}", "", command).split()[-1] for command in commands]
    assert scripts == [".ci/run", "./scripts/check_package", "./scripts/site"]
    assert all((ROOT / script).is_file() for script in scripts)
    said = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT.metadata["classifiers"]))
    assert WORKFLOW["jobs"]["package"]["strategy"]["matrix"]["python"] == said
    assert PROJECT.metadata["requires-python"] == f">={said[0]}"


def test_style_is_checked_by_the_version_of_the_constraints() -> None:
    style, local = yaml.safe_load(PROJECT.read(".pre-commit-config.yaml"))["repos"]
    assert f"ruff=={style['rev'].removeprefix('v')}\n" in PROJECT.read("constraints.txt")
    paths = [word for word in local["hooks"][0]["entry"].split() if "/" in word]
    assert paths and all((ROOT / path).exists() for path in paths)


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_has_fields_that_github_knows(form) -> None:
    said = yaml.safe_load(form.read_text("utf-8"))
    assert {"name", "description", "body"} <= said.keys()
    asked = [field for field in said["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in asked} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert len({field["id"] for field in asked}) == len(asked) and all(field["attributes"]["label"] for field in asked)


def test_files_that_these_files_name_exist() -> None:
    container = json.loads(PROJECT.read(".devcontainer/devcontainer.json"))
    assert (ROOT / container["postCreateCommand"].split()[0]).is_file()
    named = [*re.findall(r"\]\(([^):#]+)\)", PROJECT.read("SECURITY.md") + PROJECT.read("AGENTS.md"))]
    named += container["customizations"]["vscode"]["settings"]["yaml.schemas"]
    named += re.findall(r"`(\./scripts/\w+)`", PROJECT.read(".github/pull_request_template.md"))
    assert named and not [name for name in named if not (ROOT / name).exists()]
