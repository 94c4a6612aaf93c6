"""A benchmark in a person's own homes: tasks of every query type that the homes offer.

Invariants:
- A suite is a pure function of its home files, toolset, prompt, seed and language, byte for byte.
- Its sentences and frames are held out and no sentence occurs twice.
- Every instance has passed the validity checks, and holds its home.
- Rooms, devices and names are those of the files, which a policy may have been trained on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast, get_args

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.bench.instances import HomeInstance, Size, first_flaw, instance_recipe
from homerl.envs.homeenv.language import require_complete_language
from homerl.envs.homeenv.maker.make import HomeRecipe, home_files, make_home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS, ToolsetName
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, author_candidate
from homerl.envs.homeenv.tasks.blueprint import PromptName
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.worlds import contract

EACH = 10  # most instances of a query type
TRIES = 60  # candidates for one instance before the homes are taken not to offer it
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
            for attempt in range(TRIES):
                home = HomeRecipe(files=(homes[(number + attempt) % len(homes)],), language=language)
                recipe = instance_recipe(home, family, subcategory, self.toolset)
                recipe = recipe.model_copy(update={"prompt": self.prompt})
                instance = self._make_candidate(recipe, id, subcategory, rng, dropped)
                if instance and _first_sentence(instance) not in said:
                    said.add(_first_sentence(instance))
                    yield instance
                    break
            else:
                dropped[f"{family}/{subcategory}: the homes offer {number} of {EACH}"] += 1
                return

    def _make_candidate(
        self, recipe: BlueprintRecipe, id: str, subcategory: str, rng: random.Random, dropped: Counter[str]
    ) -> HomeInstance | None:
        """One instance if it passes all checks; otherwise None, and the reason is counted in `dropped`."""
        number = rng.getrandbits(40)
        home = make_home(2 * number + 1, recipe.home)
        if (blueprint := author_candidate(recipe, "heldout", number, home, rng, dropped)) is None:
            return None
        instance = HomeInstance(
            id=id,
            category=blueprint.intents[-1].family,
            subcategory=subcategory,
            size=next((size for size, most in MOST.items() if len(home.plan.devices) <= most), "complex"),
            toolset=self.toolset,
            blueprint=blueprint.model_copy(update={"id": id}),
        )
        if (flaw := first_flaw(instance)) is not None:
            dropped[f"validity: {flaw}"] += 1
            return None
        return instance


def _first_sentence(instance: HomeInstance) -> str:
    return instance.blueprint.intents[-1].queries[0].lower()


OWN_HOME = OwnHome()
