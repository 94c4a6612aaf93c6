"""Suites as files: written with their checksum, and read by name or from a file.

Invariants: a suite is a pure function of its seed and language, byte for byte; a file that differs from its checksum is
refused; each world knows the content of its suites; the id of an instance names its suite.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homerl.envs.core.documents import InputError, write_atomic
from homerl.envs.core.documents.validation import did_you_mean
from homerl.play.trajectory import locate_row_errors, read_trajectories
from homerl.worlds.contract import Suite, SuiteInstance, WorldAdapter
from homerl.worlds.registry import known_suites, known_worlds, world_of

SEED = 2026  # seed of the shipped suites
REBUILD = "build the suite again: homerl bench build"


def find_suite(name: str) -> Suite:
    """The suite with this name, or the first suite of the world with this name; `InputError` with the known names."""
    if name in known_suites():
        return known_suites()[name][1]
    if name in known_worlds() and known_worlds()[name].suites:
        return next(iter(known_worlds()[name].suites.values()))
    raise InputError(f"there is no suite and no file '{name}'", "bench", did_you_mean(name, list(known_suites())))


def make_suite_of_homes(name: str, homes: Sequence[str], toolset: str | None = None, prompt: str | None = None) -> Suite:
    """The suite with this name, made for the given home files, tools and prompt. `InputError` if it takes none."""
    suite = find_suite(name)
    given = [option for option, value in (("--home", homes), ("--toolset", toolset), ("--prompt", prompt)) if value]
    if not given:
        return suite
    if (made := suite.of_homes(homes, toolset, prompt)) is None:
        takers = ", ".join(known for known, (_, other) in known_suites().items() if other.of_homes(()) is not None)
        where = ", ".join(given)
        raise InputError(f"{name} has tasks of its own", where, f"leave it out, or build one that takes homes: {takers}")
    return made


def resolve_suite(source: str) -> tuple[WorldAdapter, Suite]:
    """The world and the suite of a name, or of a file of instances. Raises `InputError` if it is neither."""
    if source in known_suites():
        return known_suites()[source]
    path, lines = read_suite_lines(source)
    if not lines:
        raise InputError("the file holds no task of a suite", str(path), REBUILD)
    first = parse_instance(lines[0], f"{path}:1")
    world = world_of(first.blueprint)
    return world, suite_of_instance(first.id, world, str(path))


def match_suite_name(id: str, known: Iterable[str]) -> str | None:
    """The longest of the known names that an id starts with, or None."""
    return max(filter(id.startswith, known), key=len, default=None)


def suite_of_instance(id: str, world: WorldAdapter, where: str = "") -> Suite:
    """The suite of a world that the id of an instance names, or `InputError` with the known names."""
    if (name := match_suite_name(id, world.suites)) is None:
        remedy = f"an id starts with the name of a suite: {', '.join(world.suites)}" if world.suites else "it has no suites"
        raise InputError(f"the world '{world.name}' has no suite with a task '{id}'", where, remedy)
    return world.suites[name]


def resolve_setting(suite: Suite, asked: str | None, where: str = "") -> str:
    """The setting that was asked for, by default the suite's first; `InputError` with the known ones if it has no such."""
    if asked is not None and asked not in suite.settings:
        raise InputError(f"{suite.name} has no setting '{asked}'", where, f"one of {', '.join(suite.settings)}")
    return asked or suite.settings[0]


def refuse_text_setting(world: WorldAdapter, suite: Suite, setting: str, where: str = "") -> None:
    """Raise `InputError` for a setting in which agents write a text form, which only served models do."""
    if world.endpoint_agent(setting) is not None:
        calls = [name for name in suite.settings if world.endpoint_agent(name) is None]
        remedy = "serve it (homerl bench run --model http://...)" + (f", or take {' or '.join(calls)}" if calls else "")
        raise InputError("a model that is loaded here speaks in calls, not in text", where, remedy)


def labels_of_blueprint(blueprint: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels that the result of a blueprint (plain data) may have: those of its suite, if any, and of its world."""
    world = world_of(blueprint)
    name = match_suite_name(blueprint["id"], world.suites)
    return tuple(dict.fromkeys((*(world.suites[name].labels if name else ()), *world.labels)))


def labels_in_trajectories(trajectories: Path) -> tuple[str, ...]:
    """The labels of the results of a file of trajectories, which are all of one suite."""
    first = next(read_trajectories(trajectories), None)
    if first is None:
        return ()
    with locate_row_errors(f"{trajectories}:1"):
        return labels_of_blueprint(first.blueprint)


def write_suite(instances: Iterable[SuiteInstance], path: Path, progress: Callable[[int], None] = lambda done: None) -> str:
    """Write the instances as JSON Lines, atomically, and their checksum beside; return the SHA-256 of the bytes.

    Instances may be made while they are written. `progress` is called with the number of those that are written.
    """
    digest = hashlib.sha256()

    def lines() -> Iterator[str]:
        for done, instance in enumerate(instances, 1):
            line = instance_to_line(instance)
            digest.update(line.encode())
            yield line
            progress(done)  # after the line, since an instance may take seconds to make

    write_atomic(path, lines())
    write_atomic(path.with_name(path.name + ".sha256"), f"{digest.hexdigest()}  {path.name}\n")
    return digest.hexdigest()


def digest_of_instances(instances: Iterable[SuiteInstance]) -> str:
    """The SHA-256 of the file that `write_suite` makes of the instances."""
    digest = hashlib.sha256()
    for instance in instances:
        digest.update(instance_to_line(instance).encode())
    return digest.hexdigest()


def digest_of_shipped_suite(name: str) -> str | None:
    """The stated SHA-256 of the shipped suite with this name; None if no such suite is shipped."""
    if name not in known_suites() or not is_shipped_suite(known_suites()[name][1]):
        return None
    file = shipped_suite_file(known_suites()[name][1])
    return file.with_name(f"{file.name.removesuffix('.xz')}.sha256").read_text().split()[0]


def instance_to_line(instance: SuiteInstance) -> str:
    """An instance as one line of a suite's file."""
    return json.dumps(instance.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")) + "\n"


def read_suite(source: str) -> list[Any]:
    """The instances of a shipped suite (by name) or of a file.

    Raises `InputError` if the suite is not shipped, if the checksum differs, or if a line is of no suite.
    """
    path, lines = read_suite_lines(source)
    return [parse_instance(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def read_suite_lines(source: str) -> tuple[Path, list[str]]:
    """The file of a shipped suite (by name) or of a path, and its lines. Raises `InputError` as `read_suite` does."""
    path = Path(source)
    if not path.is_file():
        path = shipped_suite_file(find_suite(source))
    data = path.read_bytes()
    data = lzma.decompress(data) if path.suffix == ".xz" else data
    name = path.name.removesuffix(".xz")
    stated = path.with_name(f"{name}.sha256")
    if stated.exists() and stated.read_text().split()[0] != hashlib.sha256(data).hexdigest():
        raise InputError("the suite is not the one that was built", str(path), REBUILD)
    try:
        *lines, last = data.decode().split("\n")  # a text may hold other ends of lines
        return path, [*lines, *([last] if last else [])]
    except UnicodeDecodeError:
        raise InputError("the file is no text, so it holds no task of a suite", str(path), REBUILD) from None


def is_shipped_suite(suite: Suite) -> bool:
    """Whether the suite's instances of the default seed are there as a file."""
    return suite.shipped is not None and suite.shipped.is_file()


def shipped_suite_file(suite: Suite) -> Path:
    """The file with the suite's instances, or `InputError` if it is not shipped."""
    if suite.shipped is None or not is_shipped_suite(suite):
        remedy = f"build it (homerl bench build {suite.name} --out DIR) and run DIR/{suite.name}.jsonl"
        raise InputError(f"the suite '{suite.name}' is not shipped", remedy=remedy)
    return suite.shipped


def parse_instance(line: str, where: str = "") -> Any:
    """The instance in one line of a suite's file, or `InputError` if it is none."""
    try:
        data = json.loads(line)
        name, world = data["id"], world_of(data["blueprint"] if "blueprint" in data else {"world": data["world"]})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"the line is no task of a suite ({type(error).__name__}: {error})", where, REBUILD) from None
    instance = suite_of_instance(name, world, where).instance
    try:
        return instance.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(f"{name}: {key}: {first['msg']}", where, REBUILD) from None


def spread_evenly(found: Sequence[Any], count: int) -> list[Any]:
    """`count` of the instances, evenly spaced, since a suite is ordered by category and size."""
    count = min(count, len(found))
    return [found[i * len(found) // count] for i in range(count)]
