"""The benchmarks SmartHome-Bench and SMH-Bench, and one in a person's own homes, as instances made from a seed.

Invariants:
- A suite is a pure function of its seed and language, byte for byte; that of own homes also of its files, toolset and
  prompt.
- Every instance has passed the validity checks, belongs to the held-out split, and has frames that are held out from
  recipes of `frames: train`.
- Instances of the two benchmarks use held-out names, so they share no home seed, name or sentence with training. They are
  shipped with their checksum, for the default seed.
- In own homes, rooms, devices and names are those of the files, which a policy may have been trained on. No sentence
  occurs twice, and an instance holds its home.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.homeenv.bench.instances import HomeInstance, Size, first_flaw, instance_recipe
from homerl.envs.homeenv.language.known_languages import require_complete_language
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.maker.redraw_own_home import home_files
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS, ToolsetName
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, author_candidate
from homerl.envs.homeenv.tasks.blueprint import PromptName
from homerl.envs.homeenv.tasks.intents import intent_families
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
        return self.count, (make_home_instance(self, slot, seed, language, dropped) for slot in suite_slots(self))

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


def make_home_instance(
    suite: HomeSuite, slot: SuiteSlot, seed: int, language: str = "en", dropped: Counter[str] | None = None
) -> HomeInstance:
    """The instance of a slot: the first candidate that passes the validity checks.

    Raises `RuntimeError` if none of `TRIES` candidates is valid. Candidates that fail are counted in `dropped`.
    """
    dropped, id = Counter() if dropped is None else dropped, slot.instance_id(suite)
    rng = random.Random(f"{suite.name} {seed} {language} {id}")
    homes = HomeRecipe(scale=slot.size, entrance=True, lexicon="heldout", language=language)
    recipe = instance_recipe(homes, slot.category.family, slot.subcategory, suite.toolset)
    shared = _shared_home(seed, language) if suite.shared_complex and slot.size == "complex" else None
    about = {"id": id, "category": slot.category.name, "subcategory": slot.subcategory, "size": slot.size}
    for _ in range(TRIES):
        if instance := _make_candidate(recipe, about, rng, dropped, shared):
            return instance
    raise RuntimeError(f"no valid instance for {id} in {TRIES} candidates: {dict(dropped)}")


def _make_candidate(
    recipe: BlueprintRecipe, about: Mapping[str, Any], rng: random.Random, dropped: Counter[str], home: Home | None = None
) -> HomeInstance | None:
    """An instance with the fields `about`, in a home of the recipe if none is given.

    It is None if the instance fails a check, and the reason is counted in `dropped`.
    """
    number = rng.getrandbits(40)
    home = make_home(2 * number + 1, recipe.home) if home is None else home
    if (blueprint := author_candidate(recipe, "heldout", number, home, rng, dropped)) is None:
        return None
    size = next((size for size, most in MOST.items() if len(home.plan.devices) <= most), "complex")
    own = {"category": blueprint.intents[-1].family, "size": size, "toolset": recipe.toolset}
    blueprint = blueprint.model_copy(update={"id": about["id"]})
    instance = HomeInstance.model_validate({**own, **about, "blueprint": blueprint})
    if (flaw := first_flaw(instance)) is not None:
        dropped[f"validity: {flaw}"] += 1
        return None
    return instance


@lru_cache(maxsize=4)
def _shared_home(seed: int, language: str) -> Home:
    """SMH-Bench's one dense home, with 31 rooms and 135 devices."""
    dense = HomeRecipe(devices=(135, 135), rooms=(31, 31), entrance=True, lexicon="heldout", language=language)
    return make_home(2 * random.Random(f"shared home {seed}").getrandbits(40) + 1, dense)


EACH = 10  # most instances of a query type
OWN_TRIES = 60  # candidates for one instance before the homes are taken not to offer it
MOST: dict[Size, int] = {"simple": 17, "medium": 81}  # devices, midway between the sizes of SMH-Bench; above is complex


@dataclass(frozen=True)
class OwnHome(contract.Suite):
    """The benchmark of some home files; without files it cannot be built."""

    name: str = "own-home"
    files: tuple[str, ...] = ()
    toolset: ToolsetName = "smh"
    prompt: PromptName = "full"

    settings = ("eia", "dr")
    instance = HomeInstance
    labels = ("category", "subcategory", "size")

    def of_homes(self, files: Sequence[str], toolset: str | None = None, prompt: str | None = None) -> OwnHome:
        """The suite of these files, with `toolset` and `prompt` in the setting EIA."""
        if toolset is not None and toolset not in TOOLSETS:
            raise InputError(f"there is no toolset '{toolset}'", "--toolset", f"one of {', '.join(TOOLSETS)}")
        if prompt is not None and prompt not in get_args(PromptName):
            raise InputError(f"there is no prompt '{prompt}'", "--prompt", f"one of {', '.join(get_args(PromptName))}")
        own = self if prompt is None else replace(self, prompt=cast(PromptName, prompt))
        return replace(own, files=tuple(files), toolset=toolset or self.toolset)

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[HomeInstance]]:
        """Make the instances of a seed, see the contract. How many the homes offer is known only at the end."""
        if not self.files:
            raise InputError(f"{self.name} has no homes", "bench build", "name home files: --home home.json")
        require_complete_language(language)
        made, kinds = list[HomeInstance](), self.query_types()
        for done, (family, subcategory) in enumerate(kinds, 1):
            rng = random.Random(f"{self.name} {seed} {language} {family} {subcategory}")
            said = {_first_sentence(instance) for instance in made}
            made += self._make_instances(family, subcategory, language, rng, said, dropped)
            progress(done, len(kinds))
        if not made:
            raise InputError("the homes offer no task", ", ".join(self.files), "name homes with more devices")
        return len(made), iter(made)

    def query_types(self) -> list[tuple[str, str]]:
        """Every (family, subcategory) that the toolset can do."""
        families = {family: sorted(known) for family, known in sorted(intent_families().items())}
        if not TOOLSETS[self.toolset].automations:
            families.pop("automation", None)
        return [(family, subcategory) for family, known in families.items() for subcategory in known]

    def _make_instances(
        self, family: str, subcategory: str, language: str, rng: random.Random, said: set[str], dropped: Counter[str]
    ) -> Iterator[HomeInstance]:
        """Up to `EACH` instances of a query type, in the homes by turns, none with a sentence of `said`."""
        homes = [str(path) for name in self.files for path in home_files(name)]
        for number in range(EACH):
            id = f"{self.name}-{family}-{subcategory}-{number:03d}"
            for attempt in range(OWN_TRIES):
                home = HomeRecipe(files=(homes[(number + attempt) % len(homes)],), language=language)
                recipe = instance_recipe(home, family, subcategory, self.toolset)
                recipe = recipe.model_copy(update={"prompt": self.prompt})
                instance = _make_candidate(recipe, {"id": id, "subcategory": subcategory}, rng, dropped)
                if instance and _first_sentence(instance) not in said:
                    said.add(_first_sentence(instance))
                    yield instance
                    break
            else:
                dropped[f"{family}/{subcategory}: the homes offer {number} of {EACH}"] += 1
                return


def _first_sentence(instance: HomeInstance) -> str:
    return instance.blueprint.intents[-1].queries[0].lower()


OWN_HOME = OwnHome()
