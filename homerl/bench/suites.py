"""Suites as files: written with their checksum, and read by name or from a file.

Invariants: a suite is a pure function of its seed and language, byte for byte; a file that differs from its checksum is
refused; each world knows the content of its suites.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.documents import InputError, write_atomic
from homerl.worlds.contract import Instance, Progress, Suite
from homerl.worlds.registry import suites, world_of

SEED = 2026  # seed of the shipped suites


def named(name: str) -> Suite:
    """The suite with this name, or `InputError` with the known names."""
    if name not in suites():
        raise InputError(f"there is no suite '{name}'", "homerl bench", f"known: {', '.join(suites())}")
    return suites()[name][1]


def suite_of(instance: Instance) -> Suite:
    """The suite whose name an instance's id starts with, else the first suite of its world."""
    known = world_of(instance.blueprint).suites
    return next((suite for name, suite in known.items() if instance.id.startswith(name)), next(iter(known.values())))


def build_named(
    name: str, seed: int, language: str, dropped: Counter[str], progress: Progress
) -> tuple[int, Iterator[Instance]]:
    """(number of instances, the instances in order) of a suite by name."""
    return named(name).build(seed, language, dropped, progress)


def write_suite(instances: Iterator[Instance], path: Path) -> str:
    """Write the instances as JSON Lines, atomically, and their checksum beside; return the SHA-256 of the bytes."""
    digest = hashlib.sha256()

    def lines() -> Iterator[str]:
        for instance in instances:
            line = to_line(instance)
            digest.update(line.encode())
            yield line

    write_atomic(path, lines())
    write_atomic(path.with_name(path.name + ".sha256"), f"{digest.hexdigest()}  {path.name}\n")
    return digest.hexdigest()


def to_line(instance: Instance) -> str:
    """An instance as one line of a suite's file."""
    return json.dumps(instance.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")) + "\n"


def read_suite(source: str) -> list[Any]:
    """The instances of a shipped suite (by name) or of a file; `InputError` if the checksum differs."""
    path = Path(source)
    if not path.is_file():
        path = named(source).shipped
    data = path.read_bytes()
    data = lzma.decompress(data) if path.suffix == ".xz" else data
    name = path.name.removesuffix(".xz")
    stated = path.with_name(f"{name}.sha256")
    if stated.exists() and stated.read_text().split()[0] != hashlib.sha256(data).hexdigest():
        raise InputError("the suite is not the one that was built", str(path), "build it again: homerl bench build")
    return [instance_from(line) for line in data.decode().splitlines()]


def instance_from(line: str) -> Any:
    """The instance in one line of a suite's file."""
    data = json.loads(line)
    known = world_of(data["blueprint"]).suites.values()
    model = next(iter(known)).instance
    return model.model_validate(data)


def spread_evenly(found: Sequence[Any], count: int) -> list[Any]:
    """`count` of the instances, evenly spaced, since a suite is ordered by category and size."""
    count = min(count, len(found))
    return [found[i * len(found) // count] for i in range(count)]
