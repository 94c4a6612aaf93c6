"""The repository of the app and the component, as Home Assistant's app store and HACS read it.

    scripts/publish_app FOLDER           writes it into FOLDER, with a wheel of homerl and the changelog
    app_repository.py --pins             writes its version, and those that it installs (`scripts/regenerate` calls it)

Invariants:
- The app installs versions of constraints.txt only, and the homerl of this tree.
- One address says all others: those of help and issues, and that of the image.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import quote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))  # when it is started by itself
from package.facts import UNPUBLISHED, Project  # noqa: E402

SOURCE = ROOT / "envs/assistant/app"
PINS = SOURCE / "app/constraints.txt"
VERSIONED = (SOURCE / "app/config.yaml", SOURCE / "custom_components/homerl/manifest.json")
ADDRESS = re.compile(r"https://[\w.-]+(/[\w.~-]+)+")
REGISTRIES = {"github.com": "ghcr.io", "gitlab.com": "registry.gitlab.com"}  # where a repository's images lie
PICTURES = {".png"}  # what holds no address
CONTAINER = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux"}  # of the app's Dockerfile
HEAD = """\
# What the app installs: the versions of constraints.txt that homerl[serve] reaches. `scripts/regenerate` writes this file.
"""


def app_pins() -> str:
    """The text of the app's file of versions. Raises `ValueError` for a package that constraints.txt lacks."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {canonicalize_name(line.partition("==")[0]): line.split()[0] for line in lines if "==" in line}
    names = sorted(_reached_packages())
    if unpinned := [name for name in names if name not in pins]:
        raise ValueError(f"constraints.txt has no version of {', '.join(unpinned)}, which the app installs: add it there")
    return HEAD + "\n".join([f"homerl=={Project(ROOT).version}", *(pins[name] for name in names)]) + "\n"


def write_versions() -> None:
    """Write the versions that the app installs, and homerl's into what says the app's and the component's."""
    PINS.write_text(app_pins(), "utf-8")
    for path in VERSIONED:
        text = re.sub(r'("?version"?: )"[^"]*"', rf'\g<1>"{Project(ROOT).version}"', path.read_text("utf-8"), count=1)
        path.write_text(text, "utf-8")


def _reached_packages() -> set[str]:
    """The packages that `homerl[serve]` installs in the app's container, but homerl."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    waiting = [*map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["serve"]])]
    reached = set[tuple[str, str]]()
    while waiting:
        wanted = waiting.pop()
        for part in {(canonicalize_name(wanted.name), extra) for extra in ("", *wanted.extras)} - reached:
            reached.add(part)
            waiting += _requirements(*part)
    return {name for name, _ in reached}


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    """What a package with an extra asks for in the container."""
    for wanted in map(Requirement, distribution(name).requires or ()):
        here: Mapping[str, str] = CONTAINER | {"extra": extra}
        if wanted.marker is None or wanted.marker.evaluate(dict(here)):
            yield wanted


def find_image(address: str) -> str | None:
    """The image of the app that is published beside a repository, for all processors; None if its host keeps no images."""
    where = urlsplit(address)
    registry = REGISTRIES.get(where.netloc)
    return registry and f"{registry}{where.path.lower()}"


def render_app_changelog(project: Project) -> str:
    """The changelog as the app store shows it: that of homerl, without its links, which lead nowhere there."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", project.read("CHANGELOG.md"))


def write_repository(folder: Path, address: str | None, image: str | None) -> None:
    """Write the repository into a new or empty folder. Raises `ValueError` if the address or the folder does not do.

    Without an address it is for the shares of one Home Assistant. Without an image each home builds the app from its wheel.
    """
    if address and (not ADDRESS.fullmatch(address) or address.startswith(UNPUBLISHED)):
        raise ValueError(f"'{address}' is no address of a repository: write it as https://github.com/OWNER/NAME")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds files already: name a new folder")
    unpublished = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "*.whl", "tests")
    shutil.copytree(SOURCE, folder, ignore=unpublished, dirs_exist_ok=True)
    for path in folder.rglob("*"):
        if address and path.is_file() and path.suffix not in PICTURES:
            text = path.read_text("utf-8")
            named = text.replace(quote(UNPUBLISHED, safe=""), quote(address, safe="")).replace(UNPUBLISHED, address)
            path.write_text(named, "utf-8")
    if image:
        config = folder / "app/config.yaml"
        config.write_text(re.sub(r"^(slug: .+)$", rf"\1\nimage: {image}", config.read_text("utf-8"), flags=re.M), "utf-8")
    (folder / "app/CHANGELOG.md").write_text(render_app_changelog(Project(ROOT)), "utf-8")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(folder / "app"), str(ROOT)], check=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser("publish_app", description="Write the repository of the app for Home Assistant.")
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument(
        "--address",
        default=Project(ROOT).app_address,
        help="where it will be published, such as https://github.com/OWNER/NAME; default: the project's address and -app",
    )
    parser.add_argument("--image", help="where its image will lie; default: the registry of GitHub or GitLab")
    parser.add_argument("--without-image", action="store_true", help="each home builds the app itself, in some minutes")
    if sys.argv[1:] == ["--pins"]:
        write_versions()
        return
    given = parser.parse_args()
    address = given.address and given.address.removesuffix("/")
    image = None if given.without_image else given.image or (address and find_image(address))
    try:
        write_repository(given.folder, address, image)
    except ValueError as error:
        sys.exit(f"publish_app: {error}")
    print(f"{given.folder} is written. {_next_step(given.folder, address, image)}")


def _next_step(folder: Path, address: str | None, image: str | None) -> str:
    """What a person does with the repository."""
    if not address:
        return f"Copy {folder}/app to the share addons of Home Assistant, {folder}/custom_components to its share config."
    pushed = f"Commit it, and push it to {address}"
    if not image:
        return pushed
    return f"{pushed}; its workflow makes {image}. If that is new, make it public there once."


if __name__ == "__main__":
    main()
