"""Measures the time of an operation relative to plain Python in the same process, and checks that it has not grown.

`scripts/benchmark --check` loads this file as a pytest plugin, in place of pytest-benchmark.

Invariants:
- The operation and the baseline run in turns, so a slow machine slows both.
- Time is the CPU time of this process. The fastest of many short turns counts, so other load on the machine matters little.
- Ratios are compared with stored ratios. A time is never compared with a stored time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import pytest

STORED = Path(__file__).parents[1] / "benchmarks" / "ratios.json"
FACTOR = 2.0  # by how much a ratio may grow; a busy machine changes it by less
TURNS, FEWEST, LONGEST = 100, 10, 2.0  # turns of each; after LONGEST seconds of the operation, FEWEST turns are enough
TURN = 0.001  # least seconds of a turn of the operation, given the resolution of the clock


def baseline() -> list[str]:
    """About a millisecond of typical Python: calls, strings, dictionaries, sorting."""
    lengths: dict[str, int] = {}
    for number in range(2000):
        key = f"{number % 97}.{number % 89}"
        lengths[key] = lengths.get(key, 0) + len(key)
    return sorted(lengths, key=lengths.__getitem__)


def ratio(
    operation: Callable[[], Any], clock: Callable[[], float] = process_time, plain: Callable[[], Any] = baseline
) -> float:
    """The time of an operation divided by the time of the baseline. The time of the sandbox's processes does not count."""

    def timed(act: Callable[[], Any], times: int) -> float:
        start = clock()
        for _ in range(times):
            act()
        return (clock() - start) / times

    timed(plain, 1), timed(operation, 1)  # warm-up: the first call costs more
    times = max(1, round(TURN / max(timed(operation, 1), TURN / 10000)))
    ours, theirs = list[float](), list[float]()
    while len(ours) < TURNS and not (len(ours) >= FEWEST and sum(ours) * times > LONGEST):
        ours.append(timed(operation, times))
        theirs.append(timed(plain, 1))
    return min(ours) / min(theirs)


@dataclass
class Ratios:
    """The stored ratios and those of this run, by the name of the benchmark."""

    stored: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None = None) -> Ratios:
        """The stored ratios; none if the file does not exist."""
        path = path or STORED
        return cls(json.loads(path.read_text("utf-8")) if path.exists() else {})

    def fault(self, name: str) -> str | None:
        """The message of a failed check of an operation's ratio; None if the ratio is fine."""
        now, then = self.measured[name], self.stored.get(name)
        if then is None:
            return f"{name}: {now:.3g} times the baseline, and no ratio is stored. Run: scripts/benchmark --check --store"
        if now > FACTOR * then:
            return f"{name}: {now:.3g} times the baseline, more than {FACTOR:g} times the {then:.3g} stored"
        return None

    def store(self, path: Path = STORED) -> None:
        """Write the ratios of this run, and the stored ratios of operations that were not measured."""
        rounded = {name: float(f"{value:.3g}") for name, value in sorted((self.stored | self.measured).items())}
        path.write_text(json.dumps(rounded, indent=1) + "\n", "utf-8")


@dataclass
class Beside:
    """Replaces the fixture of pytest-benchmark: measures the ratio of the operation that a benchmark passes to it."""

    name: str
    ratios: Ratios
    extra_info: dict[str, Any] = field(default_factory=dict)

    def __call__(self, operation: Callable[[], Any]) -> None:
        self.ratios.measured[self.name] = ratio(operation)

    def pedantic(self, operation: Callable[[], Any], **_: Any) -> None:
        """Measure the operation. The rounds are ignored: a ratio needs fewer than a figure of docs/results/speed.md."""
        self(operation)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--ratios`."""
    parser.addoption(
        "--ratios", choices=("check", "store"), default="check", help="compare ratios with those stored, or store them"
    )


@pytest.fixture(scope="session")
def ratios(pytestconfig: pytest.Config) -> Iterator[Ratios]:
    """The ratios of the whole run. With `--ratios store` they are written at its end."""
    ratios = Ratios.load()
    yield ratios
    if pytestconfig.getoption("--ratios") == "store":
        ratios.store()


@pytest.fixture
def benchmark(request: pytest.FixtureRequest, ratios: Ratios) -> Iterator[Beside]:
    """The fixture that a benchmark calls with its operation. With `--ratios check` the test fails if the ratio has grown."""
    beside = Beside(request.node.name, ratios)
    yield beside
    if (
        request.config.getoption("--ratios") == "check"
        and beside.name in ratios.measured
        and (fault := ratios.fault(beside.name))
    ):
        pytest.fail(fault, pytrace=False)
