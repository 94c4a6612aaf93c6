"""Paraphrases of HomeEnv queries by an LLM, which are kept only if they certainly have the same meaning.

A paraphrase must pass these checks, in this order: it is one sentence of words and no copy; it belongs to the split of its
blueprint; it has no id; it names the same rooms and devices as the original; it contains every value of the original; and a
second request, with only the home's devices and the paraphrase, recovers the calls of the plan. If a check fails, the
original stays, and the reason is counted.

Invariants: a blueprint's goals, plan and clarifications never change; a failed server raises an `InfraError` and never
leaves a query as it is; the requests for one blueprint and query are the same in every process.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from homerl.envs.core.model import Model
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.speaker import number_in_words
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, Intent
from homerl.envs.homeenv.tasks.prompts import describe_services, device_label
from homerl.worlds.paraphraser import Paraphraser, ParaphraseRejected, refuse_bad_paraphrase

NUMBER = re.compile(r"\d+(?:\.\d+)?")
NUMERALS = "零一二三四五六七八九十百千点"
RECOVER = """You turn what a person says to the voice assistant of a smart home into service calls. Answer with one JSON
object: {"calls": [{"did": "...", "service": "...", "args": [...]}]}. Use the devices and services below, and call only
what was asked for, in the order in which it was said."""


class Understood(Model):
    """The second answer: what somebody who hears the paraphrase alone would do."""

    calls: tuple[Call, ...]


class HomeParaphraser(Paraphraser):
    """Rewords the queries of HomeEnv blueprints."""

    def home_of(self, blueprint: Blueprint) -> Home:
        """The blueprint's home."""
        return home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")

    async def paraphrased(self, query: str, intent: Intent, blueprint: Blueprint, home: Home) -> str:
        """A paraphrase that passes all checks.

        Raises `ParaphraseRejected` if it fails one, or if the query's meaning depends on more than the sentence.
        """
        if intent.clarify or blueprint.history or not intent.plan:
            raise ParaphraseRejected("nothing to check it by")  # the sentence alone does not determine the calls
        paraphrase = await self.asked(query, blueprint)
        check_home_paraphrase(query, paraphrase, intent, blueprint, home)
        devices = "\n".join(f"- {device_label(one)}: {describe_services(one) or 'a sensor'}" for one in home.plan.devices)
        told = f"{devices}\n\nThe person says: {paraphrase}"
        understood = await self.client.ask(RECOVER, told, Understood, blueprint.seed, temperature=0.0)
        if not has_same_calls(understood.calls, intent.plan):
            raise ParaphraseRejected("another meaning")
        return paraphrase


def check_home_paraphrase(query: str, paraphrase: str, intent: Intent, blueprint: Blueprint, home: Home) -> None:
    """Check names, ids and values of a paraphrase. Raises `ParaphraseRejected` with the first rule that it breaks."""
    refuse_bad_paraphrase(query, paraphrase, blueprint.split)
    said, new = query.lower(), paraphrase.lower()
    dids = [device.did.lower() for device in home.plan.devices]
    if any(_has_phrase(new, did) and not _has_phrase(said, did) for did in dids):
        raise ParaphraseRejected("names an id")
    if count_home_names(said, home) != count_home_names(new, home):
        raise ParaphraseRejected("other names")
    values = [value for call in intent.plan for value in call.args] + [float(number) for number in NUMBER.findall(said)]
    if not all(
        _says_value(new, value, blueprint.language) for value in values if _says_value(said, value, blueprint.language)
    ):
        raise ParaphraseRejected("other values")


def count_home_names(text: str, home: Home) -> Counter[str]:
    """How often a text names each room and device. The longest name matches first, so `attic bedroom` is no `attic`."""
    names = {device.name for device in home.plan.devices} | {room.name for room in home.plan.rooms}
    counts: Counter[str] = Counter()
    for name in sorted(names, key=len, reverse=True):
        pattern = _phrase_pattern(name.lower())
        counts[name] = len(pattern.findall(text))
        text = pattern.sub(" \x00 ", text)
    return +counts


def _says_value(text: str, value: Any, language: str) -> bool:
    """Whether a text contains the value in any of its forms."""
    return any(_has_phrase(text, way.lower()) for way in value_wordings(value, language))


def value_wordings(value: Any, language: str) -> Iterable[str]:
    """The forms of a value: digits or words for a number, any of its names for an option."""
    if isinstance(value, bool):
        return home_grammar(language).plain_texts("value.true" if value else "value.false")
    if isinstance(value, (int, float)):
        number = int(value) if float(value).is_integer() else value
        return (str(number), number_in_words(number, language))
    known = home_grammar(language)
    options = [key for key in known.keys("option.") if key.rpartition(".")[2] == value]
    return [str(value).replace("_", " "), *(text for key in options for text in known.plain_texts(key))]


def _has_phrase(text: str, phrase: str) -> bool:
    return bool(_phrase_pattern(phrase).search(text))


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """A pattern for a phrase as whole words and numbers; in Chinese, only numbers have boundaries."""
    before, after = (f"(?<![{NUMERALS}])", f"(?![{NUMERALS}])") if set(phrase) <= set(NUMERALS) else ("", "")
    return re.compile(rf"{before}(?<![a-z0-9_.]){re.escape(phrase)}(?![a-z0-9_]|\.\d){after}")


def has_same_calls(heard: Sequence[Call], plan: Sequence[Call]) -> bool:
    """Whether an LLM's calls equal the plan; turning on a device that another call sets may be left out."""
    return _count_needed_calls(heard) == _count_needed_calls(plan)


def _count_needed_calls(calls: Sequence[Call]) -> Counter[tuple[str, str, str]]:
    """The calls, without those that only turn on what another call sets."""
    # The device and part of each call that does not turn on.
    set_parts = {(call.did, call.service.rpartition(".")[0]) for call in calls if not call.service.endswith("turn_on")}
    counts: Counter[tuple[str, str, str]] = Counter()
    for call in calls:
        part, _, name = call.service.rpartition(".")
        if name != "turn_on" or (call.did, part) not in set_parts:
            args = [int(a) if isinstance(a, float) and a.is_integer() else a for a in call.args]
            counts[call.did, call.service, json.dumps(args)] += 1
    return counts
