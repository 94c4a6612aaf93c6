"""The diversity of the language: distinct utterances, distinct n-grams and self-BLEU, over many homes and all families.

Invariants: the figures are a pure function of recipe, counts and seed; only hashes are kept, and a sample of the sentences;
the utterances are the first ones of episodes, of both splits.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from statistics import median_low
from typing import Any

from rich.table import Table

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.language.speaker import Wording
from homerl.envs.homeenv.language.utterances import apply_writing_style, draw_sentence
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.homeenv.tasks.intents import Ask, Draft, intent_families
from homerl.play.words.grammar import MARKS, NoSentence, Voice
from homerl.play.words.text_diversity import SAMPLE, TOKENS, TextDiversity
from homerl.worlds.sources import Mixture

PER_DRAFT = 8  # the most utterances of one intent


@dataclass
class DiversityReport:
    """The figures of a survey.

    `distinct_1` to `distinct_3` are the fractions of n-grams that are distinct, and `self_bleu` is between 0 and 1. `words`
    is the number of different words; `mean_length` and `median_length` are in words. `capitalised` and `punctuated` are the
    shares of utterances that begin with a capital letter and that end with a mark. `by_family` has the counts by family and
    subcategory.
    """

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
    median_length: int = 0
    capitalised: float = 0.0
    punctuated: float = 0.0
    self_bleu: float = 0.0
    by_family: dict[str, dict[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        return asdict(self)


def equal_family_weights() -> dict[str, float]:
    """Every subcategory, with the same weight."""
    return {f"{family}/{name}": 1.0 for family, names in intent_families().items() for name in names}


def mixed_recipe(language: str, temperature: float) -> BlueprintRecipe:
    """A recipe with all families, in homes of up to 30 devices."""
    home = HomeRecipe(devices=(5, 30), language=language)
    return BlueprintRecipe(home=home, families=equal_family_weights(), temperature=temperature, toolset="smh")


def blueprint_recipe(recipe: Any, path: str) -> BlueprintRecipe:
    """The blueprints' part of a loaded recipe; of a mixture, the first part of HomeEnv.

    Raises `InputError` with `path` if the recipe makes no blueprints, or those of another world.
    """
    for part in ("synth", "blueprints"):
        if blueprints := getattr(getattr(recipe, part, None), "recipe", None):
            parts = [one.recipe for one in blueprints.worlds.values()] if isinstance(blueprints, Mixture) else [blueprints]
            if found := next((one for one in parts if isinstance(one, BlueprintRecipe)), None):
                return found
            raise InputError("the recipe's blueprints are not of HomeEnv", path, "name a recipe with blueprints of HomeEnv")
    raise InputError("the recipe makes no blueprints", path, "name one that runs synth, rlve or flywheel")


def measure_diversity(
    recipe: BlueprintRecipe,
    homes: int,
    each: int,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
    sample: int = SAMPLE,
) -> DiversityReport:
    """Draw `each` utterances in each of `homes` homes, and measure their diversity.

    `progress` is called with (homes done, homes). `sample` is the number of sentences for self-BLEU.
    """
    rng = random.Random(f"survey {seed}")
    texts = TextDiversity(rng, sample)
    seen: dict[str, set[int]] = {}
    said: Counter[str] = Counter()
    written: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for number in range(homes):
        for name, text in draw_utterances(recipe, rng, each):
            said[name] += 1
            written["capitalised"] += text[0].isupper()
            written["punctuated"] += text.endswith(tuple(MARKS))
            text = text.lower()
            lengths[len(TOKENS.findall(text))] += 1
            seen.setdefault(name, set()).add(hash(text))
            texts.add_text(text)
        progress(number + 1, homes)
    report = DiversityReport(homes, recipe.home.language, recipe.temperature, **texts.diversity_figures())
    report.capitalised, report.punctuated = (written[form] / max(1, said.total()) for form in ("capitalised", "punctuated"))
    report.median_length = median_low(lengths.elements()) if lengths else 0
    report.by_family = {name: {"utterances": said[name], "distinct": len(seen[name])} for name in sorted(said)}
    return report


def draw_utterances(recipe: BlueprintRecipe, rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """(family/subcategory, utterance) in one new home: `count` of them, or fewer if the home offers too little."""
    home = make_home(rng.getrandbits(40), recipe.home)
    weights: dict[str, float] = {}  # of each "family/subcategory"
    for name, weight in recipe.families.items():
        family, _, subcategory = name.partition("/")
        inner = [subcategory] if subcategory else list(intent_families()[family])
        weights |= {f"{family}/{one}": weight / len(inner) for one in inner}
    wordings, liked = zip(*recipe.wordings.items())
    left = count
    for _ in range(count):
        if left == 0:
            return
        name, wording = rng.choices(list(weights), list(weights.values()))[0], rng.choices(wordings, liked)[0]
        family, _, subcategory = name.partition("/")
        ask = Ask(wording, devices=recipe.devices, timed=True, language=recipe.home.language)
        draft = intent_families()[family][subcategory](home, rng, ask)
        if draft is None:
            continue
        told = home_after_calls(home, draft.before)
        for _ in range(min(PER_DRAFT, left)):
            try:
                said = _draw_utterance(draft, told, recipe.user_voice, wording, rng)
            except NoSentence:
                break
            left -= 1
            yield name, apply_writing_style(said, told, recipe.user_voice, rng)


def _draw_utterance(draft: Draft, home: Home, voice: Voice, wording: Wording, rng: random.Random) -> str:
    """A sentence for a draft. Raises `NoSentence` if the home or the wording has none for it."""
    if wording != "people":
        return draw_sentence(draft.meaning, home, voice, draft.wording or wording, rng)
    from homerl.envs.homeenv.tasks.people_wording import PeopleSpeaker  # its package comes with an extra

    return PeopleSpeaker(home, voice, "train", placed=False).say_wish(draft, rng)


def diversity_table(report: DiversityReport) -> Table:
    """The report as a table for the terminal."""
    rows = Table(title=f"{report.homes} homes, {report.language}, temperature {report.temperature:g}", title_justify="left")
    for column in ("", "utterances", "distinct", "share"):
        rows.add_column(column, justify="left" if not column else "right")
    counts = {**report.by_family, "all": {"utterances": report.utterances, "distinct": report.distinct}}
    for name, count in counts.items():
        share = count["distinct"] / max(1, count["utterances"])
        rows.add_row(name, f"{count['utterances']:,}", f"{count['distinct']:,}", f"{share:.1%}", end_section=name != "all")
    grams = ", ".join(f"{share:.4f}" for share in (report.distinct_1, report.distinct_2, report.distinct_3))
    rows.caption = (
        f"distinct-1, -2, -3: {grams}; self-BLEU {report.self_bleu:.3f} ({SAMPLE} sampled); "
        f"{report.words:,} different words, {report.mean_length:.1f} words each "
        f"(median {report.median_length}); {report.capitalised:.0%} capitalised, {report.punctuated:.0%} with a final mark"
    )
    return rows
