"""The files for contributors say what the repository has: commands, versions, Pythons."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from package.facts import ROOT, Project

PROJECT = Project()
WORKFLOW = yaml.safe_load(PROJECT.read(".github/workflows/tests.yml"))


def test_the_workflow_runs_scripts_of_this_repository_on_the_pythons_of_the_metadata() -> None:
    commands = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    named = [word for command in commands for word in command.split() if "/" in word]
    assert named == [".ci/run", ".ci/run", "tests/test_notebooks.py", "./scripts/check_package", "./scripts/site"]
    assert all((ROOT / name).is_file() for name in named)
    said = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT.metadata["classifiers"]))
    assert WORKFLOW["jobs"]["package"]["strategy"]["matrix"]["python"] == said
    assert PROJECT.metadata["requires-python"] == f">={said[0]}"


def test_style_is_checked_by_the_version_of_the_constraints() -> None:
    style, local = yaml.safe_load(PROJECT.read(".pre-commit-config.yaml"))["repos"]
    assert f"ruff=={style['rev'].removeprefix('v')}\n" in PROJECT.read("constraints.txt")
    paths = [word for word in local["hooks"][0]["entry"].split() if "/" in word]
    assert paths and all((ROOT / path).exists() for path in paths)


SCHEMAS = {
    "compose-spec": ["compose.yaml"],
    "citation-file-format": ["CITATION.cff"],
    "github-workflows": [".github/workflows/tests.yml", "envs/assistant/app/.github/workflows/publish.yaml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "github-issue-forms": [f".github/ISSUE_TEMPLATE/{form}.yml" for form in ("bug", "feature")],
}


@pytest.mark.parametrize(("schema", "file"), [(schema, file) for schema, files in SCHEMAS.items() for file in files])
def test_a_file_for_others_programs_keeps_their_schema(schema: str, file: str) -> None:
    carried = Path(pytest.importorskip("check_jsonschema").__file__).parent / f"builtin_schemas/vendor/{schema}.json"
    validator = jsonschema.validators.validator_for(known := json.loads(carried.read_text("utf-8")))(known)
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(load_as_strings(file))]
    assert not errors, file


def load_as_strings(file: str) -> Any:
    """A YAML file whose days are text, and whose key `on` is no truth value, as GitHub reads them."""
    text = re.sub(r"^on:", '"on":', PROJECT.read(file), flags=re.M)
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


def test_files_that_these_files_name_exist() -> None:
    container = json.loads(PROJECT.read(".devcontainer/devcontainer.json"))
    assert (ROOT / container["postCreateCommand"].split()[0]).is_file()
    named = [*re.findall(r"\]\(([^):#]+)\)", PROJECT.read("SECURITY.md") + PROJECT.read("AGENTS.md"))]
    named += container["customizations"]["vscode"]["settings"]["yaml.schemas"]
    named += re.findall(r"`(\./scripts/\w+)`", PROJECT.read(".github/pull_request_template.md"))
    assert named and not [name for name in named if not (ROOT / name).exists()]
