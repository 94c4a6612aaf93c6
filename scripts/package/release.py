"""A release: everything that must hold is checked, the package is built and tried, and a tag is set. Nothing is uploaded.

`scripts/release` calls it. What does not hold is listed whole, with what to do; then nothing is built, and no tag is set.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from package.facts import RELEASE, UNPUBLISHED, WRITTEN, Project


def git(project: Project, *arguments: str) -> str:
    """What git prints in the repository."""
    return subprocess.run(["git", *arguments], cwd=project.root, capture_output=True, text=True, check=True).stdout.strip()


def find_obstacles(project: Project) -> Iterator[str]:
    """What stands against a release, before anything is run."""
    tag = f"v{project.version}"
    if changed := git(project, "status", "--porcelain"):
        yield f"files are not committed: {', '.join(line[3:] for line in changed.splitlines()[:5])}. Commit or remove them"
    if git(project, "tag", "--list", tag):
        yield f"the tag {tag} exists: raise __version__ in homerl/__init__.py, and run ./scripts/regenerate"
    if (newest := next(iter(project.release_days), None)) != project.version:
        head = f"## {project.version} - YYYY-MM-DD"
        yield f"CHANGELOG.md begins with {newest or 'no release'}, not with {project.version}: write a heading '{head}'"
    elif not _has_entries(project):
        yield f"CHANGELOG.md says nothing below the heading of {project.version}: write what a user notices"
    if project.address == UNPUBLISHED:
        yield (
            f"pyproject.toml has no address of the project yet ({UNPUBLISHED}): write the real one into [project.urls], "
            "and run ./scripts/regenerate"
        )
    for name, render in WRITTEN.items():
        if render(project) != project.read(name):
            yield f"{name} is out of date: run ./scripts/regenerate, and commit it"


def _has_entries(project: Project) -> bool:
    """Whether the changelog says something about this version."""
    text = project.read("CHANGELOG.md")
    head = next(found for found in RELEASE.finditer(text) if found[1] == project.version)
    return any(line.startswith("- ") for line in text[head.end() :].partition("\n## ")[0].splitlines())


def release(project: Project) -> None:
    """Check, test, build and tag. Ends the program if something does not hold."""
    if obstacles := [*find_obstacles(project)]:
        sys.exit("release: nothing was done.\n" + "\n".join(f"- {what}" for what in obstacles))
    for command in ("test --all", "check_package", "check_package --lowest", "site"):
        print(f"release: scripts/{command}", flush=True)
        script, *arguments = command.split()
        if subprocess.run([project.root / "scripts" / script, *arguments], cwd=project.root, check=False).returncode:
            sys.exit(f"release: scripts/{command} failed, so no tag was set. Mend it, and start again")
    tag = f"v{project.version}"
    git(project, "tag", "--annotate", tag, "--message", f"homerl {project.version}")
    print(f"release: {tag} is set, and dist/ holds the package. Nothing was uploaded. What remains:")
    print(f"    git push origin {tag}\n    python -m twine upload dist/*")


if __name__ == "__main__":
    release(Project())
