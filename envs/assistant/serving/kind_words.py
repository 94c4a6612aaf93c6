"""By which words people of a language mean a kind of device, as Home Assistant's own sentences and translations have them.

Home Assistant's sentences for a domain ("turn on the lamps", "lauter", "把窗帘拉上") have words that those of other domains
and those for any device lack. These words name the kind, and the others name nothing. Neither do words of sentences about no
device, such as a timer, nor other words for "everywhere". Its translations name domains and device classes.

Invariants: no word is listed here, so a language has the words that Home Assistant has; of a language without sentences, or
without the package that holds them, the translations alone are known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

from homerl.envs.assistant.listing.guard_words import strip_accents
from homerl.envs.assistant.listing.room_and_device_names import SPACELESS, normalize_text
from homerl.envs.core.documents import InputError

FEW = 2  # domains that share a word or a sentence: what more of them share tells nothing
MORE = 4  # times as often as in other sentences such a word stands in those of its domain, at least
OFTEN = 3  # sentences of a domain in which such a word stands at least
MOST = 40  # ways to write a part of a sentence
FOR_ANY = frozenset(("HassTurnOn", "HassTurnOff", "HassToggle", "HassGetState"))  # intents for any kind of device
EVERYWHERE = "HassBroadcast"  # the intent whose sentences may say "everywhere"
ANY_PLATFORM = ("intent", "homeassistant")  # what names of tools for no single domain begin with
KINDS = {  # by what an intent's name begins with, that of intents for which no recorded tool tells it
    "HassClimate": "climate", "HassMedia": "media_player", "HassShoppingList": "todo", "HassGetWeather": "weather",
}  # fmt: skip


@dataclass(frozen=True)
class KindWords:
    """The words of kinds by domain, those of device classes by class, and those that sentences have for anything.

    A language is `known` if Home Assistant has sentences in it.
    """

    by_domain: Mapping[str, frozenset[str]]
    by_class: Mapping[str, frozenset[str]]
    common: frozenset[str] = frozenset()
    known: bool = False


@lru_cache(1 << 12)
def split_words(text: str) -> tuple[str, ...]:
    """The words of a text in small letters without marks. In a script without spaces each run of its letters is one."""
    return tuple(strip_accents(normalize_text(text)).split())


@lru_cache
def kind_words(language: str) -> KindWords:
    """The words of a language."""
    try:  # its package comes with an extra
        from homerl.envs.homeenv.tasks.sentences.matching import load_hassil_sentences

        intents, _ = load_hassil_sentences(language)
    except InputError:
        return KindWords({}, {})
    reader, of_domain, everywhere = _SentenceReader(intents), defaultdict[str, Counter[str]](Counter), Counter[str]()
    counts, count = Counter[str](), 0  # of sentences
    general = reader.words_for_everywhere(intents.intents.get(EVERYWHERE))  # which name no kind
    for name, intent in intents.intents.items():
        own = _domains_of_intent(name)
        for block in intent.data:
            for one in block.sentences:
                words = reader.words(one.expression)
                everywhere.update(words)
                count += 1
                domains = {*block.domains} or own
                if not domains and name not in FOR_ANY:
                    general |= words
                for domain in domains if len(domains) <= FEW else ():
                    of_domain[domain].update(words)
                    counts[domain] += 1

    spread = Counter(word for found in of_domain.values() for word in found)

    def is_own(domain: str, word: str) -> bool:
        """Whether few domains have a word, and it is much more frequent in the sentences of this one than in the others."""
        inside, outside = of_domain[domain][word], everywhere[word] - of_domain[domain][word]
        return (
            word not in general
            and spread[word] <= FEW
            and inside >= OFTEN
            and inside * (count - counts[domain]) >= MORE * max(outside, 1) * counts[domain]
        )

    by_domain = {
        domain: frozenset(word for word in found if _may_name(word) and is_own(domain, word))
        for domain, found in of_domain.items()
    }
    named = frozenset().union(*by_domain.values())
    common = frozenset(word for word, often in everywhere.items() if often >= OFTEN) - named
    return KindWords(by_domain, reader.classes(), common, known=True)


def _domains_of_intent(name: str) -> set[str]:
    """The domains that an intent is for, by the recorded tools or its name; none if it is for any, or about no device."""
    from homerl.envs.homeenv.sim.assist.assist_tools import BROADCAST
    from homerl.envs.homeenv.sim.assist.value_translation import translation_table
    from homerl.envs.homeenv.tasks.sentences.matching import tool_of_intent

    tool = tool_of_intent(name)
    if tool in translation_table().tools:
        rules = translation_table().tools[tool]
        return {*(rules.domains or rules.offered)}
    if tool and tool != BROADCAST and (domain := tool.partition("__")[0]) not in ANY_PLATFORM:
        return {domain}
    return {domain for beginning, domain in KINDS.items() if name.startswith(beginning)}


def _may_name(word: str) -> bool:
    """Whether a word is long enough to be one, and no number."""
    return not word.isdecimal() and (len(word) > 1 or SPACELESS.search(word) is not None)


class _SentenceReader:
    """Reads the words that templates of sentences have. Each alternative of a template is read once, not each sentence, and
    so is each rule, which many templates share."""

    def __init__(self, intents: Any) -> None:
        self._rules, self._lists = intents.expansion_rules, intents.slot_lists
        self._texts_of_rule: dict[str, list[str]] = {}

    def words_for_everywhere(self, intent: Any) -> set[str]:
        """The words of the rules that stand for a word of an intent about no device."""
        data = intent.data if intent else ()
        heard = {word for block in data for one in block.sentences for word in self.words(one.expression)}
        ways = [[{*split_words(text)} for text in self._texts_of(rule)] for rule in self._rules]
        return {
            word for texts in ways if any(len(one) == 1 and one <= heard for one in texts) for word in set().union(*texts)
        }

    def words(self, part: Any) -> set[str]:
        """The words of all ways to write a part of a template."""
        return {word for written in {*" ".join(self.texts(part)).split()} for word in split_words(written)}

    def texts(self, part: Any) -> list[str]:
        """Ways to write a part of a template, in which each of its alternatives stands at least once."""
        from hassil import expression

        match part:
            case expression.TextChunk():
                text: str = part.original_text
                return [f" {text} " if SPACELESS.search(text) else text]  # where words stand together, a part is one
            case expression.RuleReference():
                return self._texts_of(part.rule_name)
            case expression.ListReference():
                return self._values(part.list_name) or [" "]
            case expression.Alternative():
                return [text for item in part.items for text in self.texts(item)][:MOST] or [""]
            case expression.Group():
                parts = [self.texts(item) for item in part.items]
                return ["".join(row) for row in islice(zip(*map(cycle, parts)), min(MOST, max(map(len, parts), default=0)))]
        return [" "]

    def _texts_of(self, rule: str) -> list[str]:
        """Ways to write what a rule stands for. Within itself, and where it is not there, it is a gap."""
        if rule not in self._texts_of_rule:
            self._texts_of_rule[rule] = [" "]
            if rule in self._rules:
                self._texts_of_rule[rule] = self.texts(self._rules[rule].expression)
        return self._texts_of_rule[rule]

    def _values(self, name: str) -> list[str]:
        """What stands in a list of texts. Names, places and numbers are none."""
        values = getattr(self._lists.get(name), "values", ())
        return [text for value in values for text in self.texts(value.text_in)] if len(values) <= MOST else []

    def classes(self) -> dict[str, frozenset[str]]:
        """The words of device classes."""
        found = defaultdict[str, set[str]](set)
        for name, listed in self._lists.items():
            for value in getattr(listed, "values", ()) if name.endswith("_classes") else ():
                found[str(value.value_out)] |= self.words(value.text_in)
        return {one: frozenset(filter(_may_name, words)) for one, words in found.items()}


def translated_kinds(texts: Mapping[str, str], domain: str, device_class: str | None) -> Iterator[str]:
    """What Home Assistant's translations call a kind; the words of its ids are what English has."""
    yield texts.get(f"component.{domain}.title") or domain.replace("_", " ")
    yield texts.get(f"component.{domain}.entity_component._.name") or ""
    if device_class:
        yield texts.get(f"component.{domain}.entity_component.{device_class}.name") or device_class.replace("_", " ")
