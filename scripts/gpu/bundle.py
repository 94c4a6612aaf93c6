"""Makes the bundle that scripts/gpu_run unpacks: the wheels of homerl.txt and vllm.txt, installed, made small and packed."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpu.pack import pack, unpack
from gpu.slim import SM, remove_unused, slim_libraries
from homerl import __version__

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).parent
GLIBC = (39, 35, 34, 31, 28, 27, 26, 24, 17)  # pip matches each name exactly
PLATFORMS = [*(f"manylinux_2_{minor}_x86_64" for minor in GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64"]
MIB = 2**20
LIMIT = 55_000_000  # bytes of all archives: a bundle must travel in one call


def main() -> None:
    """Read the command line, and make the bundle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the bundle")
    parser.add_argument("--python", default="3.12", help="Python of the GPU machine")
    parser.add_argument("--without-vllm", action="store_true", help="homerl's packages alone")
    asked = parser.parse_args()
    lists = ["homerl"] if asked.without_vllm else ["homerl", "vllm"]
    with tempfile.TemporaryDirectory(prefix="homerl_bundle_") as folder:
        make(Path(folder), asked.out, asked.python, lists)


def make(work: Path, out: Path, python: str, lists: list[str]) -> None:
    """Install, make small, pack, and unpack again as a check. Says the sizes, and the seconds of each phase."""
    site, spent = work / lists[0], Spent()
    with ThreadPoolExecutor(len(lists)) as pool:
        list(pool.map(lambda name: install(work / name, python, *requirements(name)), lists))
    for name in lists[1:]:
        merge(work / name, site)
    spent.on("download and installation")
    say(f"installed {size(site)}")
    if wrong := conflicts(site, python):
        sys.exit("homerl: the versions in scripts/gpu/*.txt do not fit together:\n" + "\n".join(wrong))
    remove_unused(site)
    for name, (before, after) in slim_libraries(site).items():
        say(f"{name}: {after / MIB:.1f} of {before / MIB:.1f} MiB of machine code is of use on sm_{SM}")
    if shutil.which("strip") is None:
        say("binutils are not installed, so symbols were not stripped: the bundle is some MiB larger")
    spent.on("making small")
    about = pack(site, out, {"homerl": __version__, "python": python, "lists": lists, "sm": SM})
    spent.on("compression")
    unpack(out, work / "again")
    differing = subprocess.run(["diff", "-rq", "-x", "bundle.json", site, work / "again"], capture_output=True, text=True)
    if differing.returncode:
        sys.exit(f"homerl: the bundle does not unpack to what was packed:\n{differing.stdout}")
    spent.on("check")
    for name, said in about["files"].items():
        say(f"{out / name}: {said['bytes']:,} bytes, sha256 {said['sha256']}")
    say(str(spent))
    whole = sum(said["bytes"] for said in about["files"].values())
    if whole > LIMIT:
        sys.exit(f"homerl: the bundle has {whole:,} bytes, more than {LIMIT:,}: see what scripts/gpu/slim.py can leave out")
    say(f"{whole:,} bytes, unpacked {about['unpacked'] / MIB:.0f} MiB. On the GPU machine: scripts/gpu_run {out}")


@dataclass
class Spent:
    """The seconds of phases, by the clock and of processors, those of child processes too."""

    phases: list[str] = field(default_factory=list)
    began: tuple[float, float] = field(default_factory=lambda: Spent.now())

    @staticmethod
    def now() -> tuple[float, float]:
        """The seconds until now."""
        used = os.times()
        return used.elapsed, used.user + used.system + used.children_user + used.children_system

    def on(self, phase: str) -> None:
        """Count the seconds since the last phase to this one."""
        (clock, processor), self.began = self.began, Spent.now()
        self.phases.append(f"{phase} {self.began[0] - clock:.0f} s ({self.began[1] - processor:.0f} s of processors)")

    def __str__(self) -> str:
        return ", ".join(self.phases)


def requirements(name: str) -> list[str]:
    """pip's arguments for the wheels of a list."""
    limits = ["-c", str(ROOT / "constraints.txt")] if name == "homerl" else []
    return [*limits, "-r", str(LISTS / f"{name}.txt")]


def install(site: Path, python: str, *wanted: str) -> None:
    """Install wheels for the GPU machine into a folder, as pip's arguments name them. Its programs start with the Python of
    the PATH, wherever the folder will be.
    """
    pip("install", "--no-deps", "--no-compile", *target(python), "--target", str(site), *wanted)
    for program in (site / "bin").iterdir():
        program.chmod(0o755)
        begin, _, rest = program.read_bytes().partition(b"\n")
        if begin.startswith(b"#!") and b"python" in begin:
            program.write_bytes(b"#!/usr/bin/env python3\n" + rest)


def merge(other: Path, site: Path) -> None:
    """Move all files of a folder into another."""
    for path in [path for path in other.rglob("*") if path.is_file()]:
        moved = site / path.relative_to(other)
        moved.parent.mkdir(parents=True, exist_ok=True)
        path.rename(moved)


def conflicts(site: Path, python: str) -> list[str]:
    """What packages of the folder require of one another and do not find. What is not in the folder is the GPU machine's."""
    found = {canonicalize_name(package.name): package for package in distributions(path=[str(site)])}
    wrong = []
    for package in found.values():
        for required in map(Requirement, package.requires or ()):
            needed = required.marker is None or required.marker.evaluate({"extra": "", "python_version": python})
            other = found.get(canonicalize_name(required.name))
            if needed and other and not required.specifier.contains(other.version, prereleases=True):
                wrong.append(f"{package.name} {package.version} requires {required}, and {other.version} is there")
    return wrong


def target(python: str) -> list[str]:
    """pip's arguments for wheels of the GPU machine."""
    tags = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for abi in ("cp" + python.replace(".", ""), "abi3", "none"):
        tags += ["--abi", abi]
    for platform in PLATFORMS:
        tags += ["--platform", platform]
    return tags


def pip(*arguments: str) -> None:
    """Run pip. Exits with what it says if it fails."""
    command = [sys.executable, "-m", "pip", arguments[0], "-q", "--disable-pip-version-check", *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"homerl: pip {arguments[0]} failed:\n{done.stderr}")


def size(folder: Path) -> str:
    """The size of a folder, in words."""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / MIB:.0f} MiB"


def say(what: str) -> None:
    """Tell the person at the terminal."""
    print(f"homerl: {what}", flush=True)
