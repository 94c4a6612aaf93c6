"""SmartHome-Bench and SMH-Bench, as instances made from a seed.

Invariants:
- A suite is a pure function of its seed, byte for byte.
- Every instance belongs to the held-out split and uses held-out names, so it shares no home seed, name or sentence with
  training.
- Its frames are held out from recipes of `frames: train`.
- Every instance has passed the validity checks.
- The suite of the default seed is shipped with its checksum.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.bench.instances import HomeInstance, Size, first_flaw, instance_recipe
from homerl.envs.homeenv.language import require_complete_language
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets import ToolsetName
from homerl.envs.homeenv.tasks.author import author_candidate
from homerl.worlds import contract

HERE = Path(__file__).parent
SEED = 2026  # the seed of the shipped suites
TRIES = 400  # candidates for one instance before an error
SIZES: tuple[Size, ...] = ("simple", "medium", "complex")

Shares = dict[Size, float]


@dataclass(frozen=True)
class SuiteCategory:
    """A category of a suite: the intent family, its subcategories, and the number of instances."""

    name: str
    family: str
    subcategories: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class HomeSuite(contract.Suite):
    """The composition of a benchmark.

    `shares` are the fractions of the home sizes. With `shared_complex`, all complex instances use one home.
    """

    name: str
    toolset: ToolsetName
    categories: tuple[SuiteCategory, ...]
    shares: Shares
    shared_complex: bool

    settings = ("eia", "dr")
    instance = HomeInstance
    labels = ("category", "subcategory", "size")

    @property
    def count(self) -> int:
        """The number of instances."""
        return sum(category.count for category in self.categories)

    @property
    def shipped(self) -> Path:  # type: ignore[override]
        """The file with the instances of the default seed."""
        return HERE / "data" / f"{self.name}.jsonl.xz"

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[HomeInstance]]:
        """Make the instances of a seed, see the contract."""
        require_complete_language(language)
        return self.count, build_home_instances(self, seed, language, dropped, progress)

    def printed(self) -> Mapping[str, Any]:
        """The figures of the suite's paper."""
        figures: Mapping[str, Any] = read_yaml(HERE / "printed.yaml").data[self.name]
        return figures

    def easier_half(self, instances: Sequence[HomeInstance]) -> list[HomeInstance]:
        """The instances in simple homes. By the suite's composition, these are half of each subcategory."""
        return [instance for instance in instances if instance.size == "simple"]


WORDINGS = ("clear", "colloquial", "noisy")
SETS = ("explicit", "batch", "state_dependent", "room_dependent", "top_n")
VAGUE = ("state_level", "scene_level", "slot_missing")
TURNS = ("continuation", "topic_shift", "coreference", "correction")
MEMORIES = ("short_term", "long_term")
SUITES = {
    # HomeFlow 4.1, E: 1,678 instances over QT1 to QT5; backtracking (named in 4.1) is QT4's fifth subcategory.
    "smarthome-bench": HomeSuite("smarthome-bench", "homeflow", (
        SuiteCategory("QT1", "atomic", WORDINGS, 379),
        SuiteCategory("QT2", "compositional", SETS, 540),
        SuiteCategory("QT3", "ambiguous", VAGUE, 279),
        SuiteCategory("QT4", "multi_turn", (*TURNS, "backtracking"), 385),
        SuiteCategory("QT5", "memory", MEMORIES, 95),
    ), {"simple": 0.5, "medium": 0.3, "complex": 0.2}, False),
    # SMH-Bench Appendix C: 22 subcategories of 50, each 25 simple, 15 medium, 10 complex.
    "smh-bench": HomeSuite("smh-bench", "smh", (
        SuiteCategory("TC1", "atomic", WORDINGS, 150),
        SuiteCategory("TC2", "compositional", SETS, 250),
        SuiteCategory("TC3", "ambiguous", VAGUE, 150),
        SuiteCategory("TC4", "automation", ("time_specific", "state_driven", "time_and_state"), 150),
        SuiteCategory("TC5", "multi_turn", TURNS, 200),
        SuiteCategory("TC6", "memory", MEMORIES, 100),
        SuiteCategory("TC7", "query", ("status", "quantity"), 100),
    ), {"simple": 0.5, "medium": 0.3, "complex": 0.2}, True),
}  # fmt: skip


@dataclass(frozen=True)
class SuiteSlot:
    """The position of an instance in its suite: the `number`-th of its subcategory and size."""

    category: SuiteCategory
    subcategory: str
    size: Size
    number: int

    def instance_id(self, suite: HomeSuite) -> str:
        """The instance's id, such as `smh-bench-tc1-clear-simple-000`."""
        return f"{suite.name}-{self.category.name.lower()}-{self.subcategory}-{self.size}-{self.number:03d}"


def suite_slots(suite: HomeSuite) -> Iterator[SuiteSlot]:
    """Every slot of a suite, ordered by category, subcategory and size."""
    for category in suite.categories:
        each, more = divmod(category.count, len(category.subcategories))
        for index, subcategory in enumerate(category.subcategories):
            counts = apportion_counts(each + (index < more), suite.shares)
            yield from (SuiteSlot(category, subcategory, size, n) for size in SIZES for n in range(counts[size]))


def apportion_counts(count: int, shares: Shares) -> dict[Size, int]:
    """Divide `count` by shares into whole numbers, by the method of the largest remainder."""
    exact = {size: count * share for size, share in shares.items()}
    counts = {size: int(value) for size, value in exact.items()}
    rest = sorted(exact, key=lambda size: counts[size] - exact[size])
    for size in rest[: count - sum(counts.values())]:
        counts[size] += 1
    return counts


def build_home_instances(
    suite: HomeSuite,
    seed: int = SEED,
    language: str = "en",
    dropped: Counter[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[HomeInstance]:
    """All instances of a suite, in order. `progress` is called with (done, total)."""
    dropped = Counter() if dropped is None else dropped
    for done, slot in enumerate(suite_slots(suite), 1):
        yield make_home_instance(suite, slot, seed, language, dropped)
        progress(done, suite.count)


def make_home_instance(
    suite: HomeSuite, slot: SuiteSlot, seed: int, language: str = "en", dropped: Counter[str] | None = None
) -> HomeInstance:
    """The instance of a slot: the first candidate that passes the validity checks.

    Raises `RuntimeError` if none of `TRIES` candidates is valid. Candidates that fail are counted in `dropped`.
    """
    dropped = Counter() if dropped is None else dropped
    rng = random.Random(f"{suite.name} {seed} {language} {slot.instance_id(suite)}")
    homes = HomeRecipe(scale=slot.size, entrance=True, lexicon="heldout", language=language)
    recipe = instance_recipe(homes, slot.category.family, slot.subcategory, suite.toolset)
    shared = suite.shared_complex and slot.size == "complex"
    for _ in range(TRIES):
        number = rng.getrandbits(40)
        home = _shared_home(seed, language) if shared else make_home(2 * number + 1, homes)
        if (blueprint := author_candidate(recipe, "heldout", number, home, rng, dropped)) is None:
            continue
        instance = HomeInstance(
            id=slot.instance_id(suite),
            category=slot.category.name,
            subcategory=slot.subcategory,
            size=slot.size,
            toolset=suite.toolset,
            blueprint=blueprint.model_copy(update={"id": slot.instance_id(suite)}),
        )
        if (flaw := first_flaw(instance)) is None:
            return instance
        dropped[f"validity: {flaw}"] += 1
    raise RuntimeError(f"no valid instance for {slot.instance_id(suite)} in {TRIES} candidates: {dict(dropped)}")


@lru_cache(maxsize=4)
def _shared_home(seed: int, language: str) -> Home:
    """SMH-Bench's one dense home, with 31 rooms and 135 devices."""
    dense = HomeRecipe(devices=(135, 135), rooms=(31, 31), entrance=True, lexicon="heldout", language=language)
    return make_home(2 * random.Random(f"shared home {seed}").getrandbits(40) + 1, dense)
