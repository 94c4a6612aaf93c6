"""The lowest versions that pyproject.toml allows, as a file of constraints for pip.

`python -m package.lowest EXTRA...` in scripts/ prints one line a package that homerl, or one of the extras, asks for itself.
What these packages ask for in turn is pip's choice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement

from package.facts import Project

LOWER = (">=", "==", "~=")


def lowest_versions(project: Project, extras: Iterable[str]) -> dict[str, str]:
    """The lowest version of each package. Raises `ValueError` if a package has no lower bound."""
    lowest = dict[str, str]()
    for wanted in _requirements(project, extras):
        bounds = [bound.version for bound in wanted.specifier if bound.operator in LOWER]
        if len(bounds) != 1:
            raise ValueError(f"pyproject.toml: {wanted.name} needs one lower bound, and has {len(bounds)}")
        lowest[wanted.name] = bounds[0]
    return lowest


def _requirements(project: Project, extras: Iterable[str]) -> Iterator[Requirement]:
    """What homerl asks for with these extras, and with those that they name."""
    lines = [*project.metadata["dependencies"]]
    waiting, seen = [*extras], set[str]()
    while waiting:
        if (extra := waiting.pop()) not in seen:
            seen.add(extra)
            lines += project.metadata["optional-dependencies"][extra]
    for wanted in map(Requirement, lines):
        if wanted.name == "homerl":
            yield from _requirements(project, wanted.extras)
        else:
            yield wanted


if __name__ == "__main__":
    for name, version in sorted(lowest_versions(Project(), sys.argv[1:]).items()):
        print(f"{name}=={version}")
