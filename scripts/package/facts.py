"""Facts of the project that several files need, each from the one place where it stands.

`python -m package.facts` in scripts/ writes what follows from them: AGENTS.md, three lines of CITATION.cff, the command
that clones the repository, and the version in the folder of OpenEnv (`scripts/regenerate` calls it).

Invariants:
- The version stands in `homerl/__init__.py`, its day in CHANGELOG.md, and the project's address in `pyproject.toml`.
- AGENTS.md says what CONTRIBUTING.md says, without its drawing and its examples.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
UNPUBLISHED = "https://homerl.example"  # the address until there is one
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", re.M)
SECTIONS = ("The house", "Where a new thing goes", "How to check it", "How we name and write")  # of CONTRIBUTING.md
FENCE = re.compile(r"^(?:<!-- [^>]* -->\n)?```(?:mermaid|diff|yaml)\n.*?^```\n(?:<!-- /rooms -->\n)?", re.M | re.S)
AGENTS_HEAD = """\
# For coding agents

`scripts/regenerate` writes this file from [CONTRIBUTING.md](CONTRIBUTING.md), which also has the drawing of the rooms and an
example of each new thing. [README.md](README.md) says what homerl is, the [glossary](docs/glossary.md) what its words mean.

## Begin

- `./scripts/homerl --help` makes the environment `.venv` and lists all commands. `source .venv/bin/activate`
  puts them on the path.
- `./scripts/test FILE...` runs some tests; `tests/` has the folders of the code. `./scripts/lint` checks style and types.
- After a change of recipe keys, rooms, metrics, CONTRIBUTING.md or the version: `./scripts/regenerate`, and commit that.
- Nothing needs a GPU or a network, but what the pages say needs one. Tests that need one are skipped without it.

## Before you say that it is done

- `./scripts/test` passes. It checks style, types, the house and the pages too.
- A test fails without the change.
- The page of the manual and, if a user notices it, CHANGELOG.md say it.
- Bytes of suites, data sets and stored trajectories are as before, or the change says that they are not.
"""


@dataclass(frozen=True)
class Project:
    """The repository at a root."""

    root: Path = ROOT

    def read(self, name: str) -> str:
        """The text of a file."""
        return (self.root / name).read_text("utf-8")

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The table `project` of pyproject.toml."""
        table: dict[str, Any] = tomllib.loads(self.read("pyproject.toml"))["project"]
        return table

    @cached_property
    def version(self) -> str:
        """The version of the next or the present release."""
        found = re.search(r'__version__ = "(.+)"', self.read("homerl/__init__.py"))
        assert found is not None
        return found[1]

    @cached_property
    def address(self) -> str:
        """Where the repository is published."""
        return str(self.metadata["urls"]["Repository"])

    @property
    def app_address(self) -> str | None:
        """Where the repository of the app for Home Assistant is published; None while the project has no address."""
        return None if self.address == UNPUBLISHED else f"{self.address}-app"

    @cached_property
    def release_days(self) -> dict[str, str]:
        """The releases that the changelog has, newest first, with their days."""
        return dict(RELEASE.findall(self.read("CHANGELOG.md")))


def render_agents_page(project: Project) -> str:
    """The text of AGENTS.md."""
    parts = re.split(r"^## (.+)\n", project.read("CONTRIBUTING.md"), flags=re.M)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    chosen = [f"## {name}\n{FENCE.sub(_stand_in, bodies[name])}" for name in SECTIONS]
    text = "\n".join([AGENTS_HEAD, *chosen])
    text = re.sub(r"An arrow points to what is imported\..*\n+", "", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _stand_in(block: re.Match[str]) -> str:
    """What stands for a block of CONTRIBUTING.md: a word for an example, nothing for the drawing."""
    return "(The example is in CONTRIBUTING.md.)\n" if "```diff" in block[0] else ""


def render_citation(project: Project) -> str:
    """The text of CITATION.cff: as it is, with version, day and address."""
    text = project.read("CITATION.cff")
    facts = {
        "version": project.version,
        "date-released": project.release_days.get(project.version),
        "repository-code": project.address,
    }
    for key, value in facts.items():
        if value:
            text = re.sub(rf"^{key}: .*$", f'{key}: "{value}"', text, count=1, flags=re.M)
    return text


def render_openenv_version(project: Project, name: str) -> str:
    """The text of a file of OpenEnv's folder: as it is, with homerl's version, in the quotes that it has or has not."""
    version = rf"\g<1>{project.version}\g<2>"
    return re.sub(r'^(version(?:: | = ")).+?("?)$', version, project.read(name), count=1, flags=re.M)


def render_clone_command(project: Project, name: str) -> str:
    """The text of a page: as it is, with the address in the command that clones the repository."""
    return re.sub(r"git clone \S+ homerl", f"git clone {project.address} homerl", project.read(name))


WRITTEN: dict[str, Callable[[Project], str]] = {
    "AGENTS.md": render_agents_page,
    "CITATION.cff": render_citation,
    **{name: partial(render_clone_command, name=name) for name in ("README.md", "docs/first_hour.md")},
    **{
        name: partial(render_openenv_version, name=name)
        for name in ("recipes/openenv/openenv.yaml", "recipes/openenv/pyproject.toml")
    },
}


def main() -> None:
    """Write the files."""
    project = Project()
    for name, render in WRITTEN.items():
        (project.root / name).write_text(render(project), "utf-8")


if __name__ == "__main__":
    main()
