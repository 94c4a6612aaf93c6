"""How diverse the language is: distinct utterances, distinct n-grams, self-BLEU, over many homes and all families.

Invariants: a survey is a pure function of recipe, counts and seed; it keeps hashes, never sentences, but for a sample;
utterances are those that episodes begin with, of both splits.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from envs.documents import InputError
from envs.homemaker.make import HomeRecipe, make_home
from homerl.blueprints.author import BlueprintRecipe
from homerl.blueprints.intents import Ask, families
from homerl.language.speaker import sentence

PER_DRAFT = 8  # ways in which each intent is said
SAMPLE = 200  # utterances that self-BLEU compares
TOKENS = re.compile(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+(?:'[a-z]+)?")


@dataclass
class Survey:
    """What was found. `distinct_1` to `distinct_3` are shares of n-grams, `self_bleu` lies between 0 and 1."""

    homes: int
    language: str
    temperature: float
    utterances: int = 0
    distinct: int = 0
    distinct_1: float = 0.0
    distinct_2: float = 0.0
    distinct_3: float = 0.0
    words: int = 0
    mean_length: float = 0.0
    self_bleu: float = 0.0
    by_family: dict[str, dict[str, int]] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return asdict(self)


def all_families() -> dict[str, float]:
    """Every subcategory, with the same weight."""
    return {f"{family}/{name}": 1.0 for family, names in families().items() for name in names}


def recipe_of(recipe: str | None, overrides: Sequence[str], language: str, temperature: float) -> BlueprintRecipe:
    """The blueprints of a recipe file, or else all families in homes of up to 30 devices."""
    if recipe is None:
        home = HomeRecipe(devices=(5, 30), language=language)
        return BlueprintRecipe(home=home, families=all_families(), temperature=temperature, toolset="smh")
    from homerl.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    for part in ("synth", "blueprints"):
        if found := getattr(getattr(loaded, part, None), "recipe", None):
            if not isinstance(found, BlueprintRecipe):
                raise InputError(
                    "its blueprints are not HomeEnv's", recipe, "the survey knows the families of HomeEnv alone"
                )
            return found
    raise InputError("the recipe makes no blueprints", recipe, "name one that runs synth, rlve or flywheel")


def survey(
    recipe: BlueprintRecipe,
    homes: int,
    each: int,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
    sample: int = SAMPLE,
) -> Survey:
    """`each` utterances in each of so many homes, as people of the recipe would say them."""
    rng = random.Random(f"survey {seed}")
    texts = Spread(rng, sample)
    seen: dict[str, set[int]] = {}
    said: Counter[str] = Counter()
    for number in range(homes):
        for name, text in utterances(recipe, rng, each):
            said[name] += 1
            seen.setdefault(name, set()).add(hash(text))
            texts.add(text)
        progress(number + 1, homes)
    found = Survey(homes, recipe.home.language, recipe.temperature, **texts.figures())
    found.by_family = {name: {"utterances": said[name], "distinct": len(seen[name])} for name in sorted(said)}
    return found


class Spread:
    """How alike the texts of a stream are. Keeps hashes, and a fair sample of texts for self-BLEU."""

    def __init__(self, rng: random.Random, sample: int = SAMPLE) -> None:
        self.rng, self.sample = rng, sample
        self.texts, self.seen, self.lengths = 0, set[int](), 0
        self.grams: tuple[set[int], ...] = (set(), set(), set())
        self.totals = [0, 0, 0]
        self.kept: list[str] = []

    def add(self, text: str) -> None:
        tokens = TOKENS.findall(text)
        self.texts += 1
        self.seen.add(hash(text))
        self.lengths += len(tokens)
        for n, known in enumerate(self.grams, 1):
            known.update(map(hash, zip(*(tokens[i:] for i in range(n)))))
            self.totals[n - 1] += max(0, len(tokens) - n + 1)
        _keep(self.kept, self.sample, text, self.texts, self.rng)

    def figures(self) -> dict[str, float]:
        """Counts, shares and self-BLEU, by `Survey`'s names."""
        shares = [len(known) / max(1, total) for known, total in zip(self.grams, self.totals)]
        return {
            "utterances": self.texts, "distinct": len(self.seen), "words": len(self.grams[0]),
            "distinct_1": shares[0], "distinct_2": shares[1], "distinct_3": shares[2],
            "mean_length": self.lengths / max(1, self.texts), "self_bleu": self_bleu(self.kept),
        }  # fmt: skip


def utterances(recipe: BlueprintRecipe, rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """(family/subcategory, utterance) of one home, as many as asked for unless the home offers too little."""
    home = make_home(rng.getrandbits(40), recipe.home)
    names, weights = zip(*_subcategories(recipe).items())
    wordings, liked = zip(*recipe.wordings.items())
    left, tries = count, count
    while left > 0 and tries > 0:
        tries -= 1
        name, wording = rng.choices(names, weights)[0], rng.choices(wordings, liked)[0]
        family, _, subcategory = name.partition("/")
        draft = families()[family][subcategory](home, rng, Ask(wording, devices=recipe.devices))
        if draft is None:
            continue
        told = home.fork()
        for call in draft.before:
            told.call(call.did, call.service, call.args)
        for _ in range(min(PER_DRAFT, left)):
            left -= 1
            yield name, sentence(draft.meaning, told, recipe.voice, draft.wording or wording, rng).lower()


def _subcategories(recipe: BlueprintRecipe) -> dict[str, float]:
    """Weights by family and subcategory."""
    found: dict[str, float] = {}
    for name, weight in recipe.families.items():
        family, _, subcategory = name.partition("/")
        inner = [subcategory] if subcategory else list(families()[family])
        found |= {f"{family}/{one}": weight / len(inner) for one in inner}
    return found


def _keep(kept: list[str], most: int, text: str, seen: int, rng: random.Random) -> None:
    """A fair sample of a stream (Vitter's algorithm R)."""
    if len(kept) < most:
        kept.append(text)
    elif (at := rng.randrange(seen)) < most:
        kept[at] = text


def self_bleu(texts: Sequence[str]) -> float:
    """The mean BLEU of each text against all others: 1 where all are alike (Zhu et al., Texygen)."""
    from sacrebleu.metrics import BLEU

    if len(texts) < 2:
        return 0.0
    bleu = BLEU(tokenize="none", effective_order=True, smooth_method="exp")
    split = [" ".join(TOKENS.findall(text)) for text in texts]
    scores = [bleu.sentence_score(text, [*split[:i], *split[i + 1 :]]).score for i, text in enumerate(split)]
    return sum(scores) / len(scores) / 100


def table(found: Survey) -> Table:
    """The survey as a table."""
    rows = Table(title=f"{found.homes} homes, {found.language}, temperature {found.temperature:g}", title_justify="left")
    for column in ("", "utterances", "distinct", "share"):
        rows.add_column(column, justify="left" if not column else "right")
    counts = {**found.by_family, "all": {"utterances": found.utterances, "distinct": found.distinct}}
    for name, count in counts.items():
        share = count["distinct"] / max(1, count["utterances"])
        rows.add_row(name, f"{count['utterances']:,}", f"{count['distinct']:,}", f"{share:.1%}", end_section=name != "all")
    grams = ", ".join(f"{share:.4f}" for share in (found.distinct_1, found.distinct_2, found.distinct_3))
    rows.caption = (
        f"distinct-1, -2, -3: {grams}; self-BLEU {found.self_bleu:.3f} ({SAMPLE} sampled); "
        f"{found.words:,} different words, {found.mean_length:.1f} words each"
    )
    return rows
