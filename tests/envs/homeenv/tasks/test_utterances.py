"""Utterances read by rule: none names a device or room that is not there, contradicts its plan, or leaks it.

The rules know nothing of how sentences are made: they look for every name of the lexicon, every number, every option.
"""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from homerl.envs.homeenv.diversity import equal_family_weights
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.maker.home_names import load_lexicon
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.envs.homeenv.tasks.paraphrase import value_wordings
from homerl.play.words.numbers_and_times import find_numbers, phrases_to_numbers

CODE = re.compile(r"[_{}<>=]|\b(?:device\(|self\.|True\b|False\b|turn_o)|\d{4}-\d\d-\d\d")
PLAIN = ("atomic", "compositional")  # whose plan is what the sentence says, no more and no less
OFF = re.compile(r"\b(?:off|deactivate|stop|kill)\b")


def found(phrase: str, text: str) -> bool:
    # Most are not in it, and no pattern is made of these.
    return phrase in text and re.search(rf"(?<![a-z0-9]){re.escape(phrase)}(?![a-z0-9])", text) is not None


def without(phrases: list[str], text: str) -> str:
    """The text with the phrases blanked, longer ones first."""
    for phrase in sorted(phrases, key=len, reverse=True):
        edges = (r"(?<![a-z0-9])", r"(?![a-z0-9])") if phrase.isascii() else ("", "")
        text = re.sub(edges[0] + re.escape(phrase) + edges[1], "|", text)
    return text


@cache
def names(language: str) -> frozenset[str]:
    """Every name that a room or device may have, but for those that are everyday words of the frames too."""
    lexicon = load_lexicon(language)
    groups = (*lexicon.rooms.values(), *lexicon.devices.values())
    known = {name for group in groups for name in (*group.train, *group.heldout)}
    frames = home_grammar(language)._frames.values()
    written = {frame.text for group in frames for frame in group}
    texts = "\n".join(re.sub(way, "", text) for text in written for way in (r"[\[\]()<>]", r"\[.*?\]|\(.*?\)"))
    texts += texts.replace("的", "")  # a word that noise may drop
    return frozenset(name for name in known if not found(name, texts))


def own_names(home: Home) -> list[str]:
    return [device.name for device in home.plan.devices] + [room.name for room in home.plan.rooms]


def flaws(text: str, intent: Intent, blueprint: Blueprint, home: Home) -> Iterator[str]:
    """What is wrong with one utterance."""
    text = text.lower()
    own = own_names(home)
    if intent.factors.noise == "noisy":  # a name may be split: "attic bed room"
        own += [part for name in own for part in name.split()] + [name[:2] for name in own if not name.isascii()]
    bare = phrases_to_numbers(without(own, text))
    known = names(blueprint.language) - ({"den"} if intent.family == "foreign" else set())  # in German it is an article
    yield from (f"names {name}, which is not there" for name in known if found(name, bare))
    if code := CODE.search(text):
        yield f"leaks {code.group()}"
    said = {number.value for number in find_numbers(bare)}
    args = [value for call in intent.plan for value in call.args]
    meant = {float(value) for value in args if isinstance(value, (int, float)) and not isinstance(value, bool)}
    ids = {device.did for device in home.plan.devices if device.did.isdigit() and float(device.did) in said - meant}
    yield from (f"leaks the id {did}" for did in ids)
    if intent.family in PLAIN and not intent.clarify:
        in_words = {value for value in meant if any(found(way, text) for way in value_wordings(value, blueprint.language))}
        yield from other_numbers(intent, said | in_words, meant)
        yield from other_options(intent, bare, home, blueprint.language)
        services = {call.service.rpartition(".")[2] for call in intent.plan}
        if blueprint.language == "en" and services == {"turn_on"} and is_single(intent) and OFF.search(bare):
            yield "says off, means on"


def is_single(intent: Intent) -> bool:
    """One thing, and nothing taken back."""
    return intent.family == "atomic" and intent.factors.noise == "clean"


def other_numbers(intent: Intent, said: set[float], meant: set[float]) -> Iterator[str]:
    """A number that is meant is not said, or one is said that is not meant."""
    spans = said | {value * factor for value in said for factor in (60, 3600)}  # an hour and a half of minutes
    if not all(any(abs(value - other) < 1e-6 for other in spans) for value in meant):
        yield f"says {sorted(said)}, means {sorted(meant)}"
    if is_single(intent) and said - meant and not meant & (spans - said):
        yield f"says {sorted(said)}, means {sorted(meant)} alone"


def other_options(intent: Intent, bare: str, home: Home, language: str) -> Iterator[str]:
    """Another option of a setting is said, and the one that is meant is not."""
    if intent.family != "atomic":
        return
    devices = {device.did: device for device in home.plan.devices}
    for call in intent.plan:
        arguments = devices[call.did].spec.service_index[call.service].service.arguments
        for value, type in zip(call.args, arguments):
            if isinstance(value, str) and not any(found(way, bare) for way in value_wordings(value, language)):
                others = [
                    o
                    for o in type.options or ()
                    if o != value and any(len(w) > 3 and found(w, bare) for w in value_wordings(o, language))
                ]
                yield from (f"says {other}, means {value}" for other in others)


def read(language: str, count: int) -> tuple[int, list[str]]:
    """How many utterances were read, and what was wrong with which."""
    recipe = BlueprintRecipe(
        home=HomeRecipe(devices=(5, 30), language=language), families=equal_family_weights(), toolset="smh", intents=(1, 1)
    )
    seen, wrong, seed = 0, [], 0
    while seen < count:
        seed += 1
        blueprint = make_home_blueprint(recipe, "heldout" if seed % 2 else "train", 7_000_000 + seed)
        home = home_from_json(blueprint.home, "home")
        for intent in blueprint.intents:
            for text in (*intent.queries, intent.clarification):
                seen += 1
                wrong += [
                    f"{intent.family}/{intent.subcategory}: {text}: {flaw}" for flaw in flaws(text, intent, blueprint, home)
                ]
    return seen, wrong


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("count", [12, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1200)])])
def test_utterances_name_what_is_there_and_say_what_is_meant(language, count):
    seen, wrong = read(language, count)
    assert seen >= count and not wrong, "\n".join(wrong[:20])
