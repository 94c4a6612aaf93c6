"""What an operation costs beside plain Python in the same process, and whether that has grown.

Invariants: the operation and the baseline take turns, so a slow machine slows both; time is this process's on a core, and of
each the fastest of many short turns counts, so a busy machine matters little; a time is never compared with a stored time.

`scripts/benchmark --check` loads it as a plugin of pytest, in place of pytest-benchmark.
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
FACTOR = 2.0  # how much dearer an operation may become; a busy machine disturbs a ratio by less
TURNS, FEWEST, LONGEST = 100, 10, 2.0  # turns of both; once the operation's took LONGEST seconds, FEWEST are enough
TURN = 0.001  # seconds that a turn of the operation takes at least, so that the clock can tell


def baseline() -> list[str]:
    """About a millisecond of what our code is made of: calls, strings, dictionaries, sorting."""
    lengths: dict[str, int] = {}
    for number in range(2000):
        key = f"{number % 97}.{number % 89}"
        lengths[key] = lengths.get(key, 0) + len(key)
    return sorted(lengths, key=lengths.__getitem__)


def ratio(
    operation: Callable[[], Any], clock: Callable[[], float] = process_time, plain: Callable[[], Any] = baseline
) -> float:
    """Time of an operation by time of the baseline. What a sandbox's process takes is not its time."""

    def timed(act: Callable[[], Any], times: int) -> float:
        start = clock()
        for _ in range(times):
            act()
        return (clock() - start) / times

    timed(plain, 1), timed(operation, 1)  # what only the first call costs
    times = max(1, round(TURN / max(timed(operation, 1), TURN / 10000)))
    ours, theirs = list[float](), list[float]()
    while len(ours) < TURNS and not (len(ours) >= FEWEST and sum(ours) * times > LONGEST):
        ours.append(timed(operation, times))
        theirs.append(timed(plain, 1))
    return min(ours) / min(theirs)


@dataclass
class Ratios:
    """Those stored, and those measured now."""

    stored: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None = None) -> Ratios:
        """Those that are stored."""
        path = path or STORED
        return cls(json.loads(path.read_text("utf-8")) if path.exists() else {})

    def fault(self, name: str) -> str | None:
        """What is wrong with the ratio measured of an operation."""
        now, then = self.measured[name], self.stored.get(name)
        if then is None:
            return f"{name}: {now:.3g} times the baseline, and no ratio is stored. Run: scripts/benchmark --check --store"
        if now > FACTOR * then:
            return f"{name}: {now:.3g} times the baseline, more than {FACTOR:g} times the {then:.3g} stored"
        return None

    def store(self, path: Path = STORED) -> None:
        """Write what was measured over what was stored."""
        rounded = {name: float(f"{value:.3g}") for name, value in sorted((self.stored | self.measured).items())}
        path.write_text(json.dumps(rounded, indent=1) + "\n", "utf-8")


@dataclass
class Beside:
    """In place of pytest-benchmark's fixture: the operation that a benchmark hands over is measured beside the baseline."""

    name: str
    ratios: Ratios
    extra_info: dict[str, Any] = field(default_factory=dict)

    def __call__(self, operation: Callable[[], Any]) -> None:
        self.ratios.measured[self.name] = ratio(operation)

    def pedantic(self, operation: Callable[[], Any], **_: Any) -> None:
        """The rounds that a figure of the README needs are more than a ratio needs."""
        self(operation)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ratios", choices=("check", "store"), default="check", help="compare ratios with those stored, or store them"
    )


@pytest.fixture(scope="session")
def ratios(pytestconfig: pytest.Config) -> Iterator[Ratios]:
    """Those of the whole run; they are stored at its end, if that is asked for."""
    both = Ratios.load()
    yield both
    if pytestconfig.getoption("--ratios") == "store":
        both.store()


@pytest.fixture
def benchmark(request: pytest.FixtureRequest, ratios: Ratios) -> Iterator[Beside]:
    """What a benchmark calls with its operation."""
    beside = Beside(request.node.name, ratios)
    yield beside
    if (
        request.config.getoption("--ratios") == "check"
        and beside.name in ratios.measured
        and (fault := ratios.fault(beside.name))
    ):
        pytest.fail(fault, pytrace=False)
