"""The templates of Home Assistant's sentences by intent, and their pools; and sentences that say given slots.

A template stands in a block, whose sentences share fixed slots (`domain: light`) and what must be known beside the sentence,
such as the domain of the entity that is named, or the area where the person speaks.

Invariants:
- Of the templates of each intent a quarter is in the pool `heldout` and the others are in the pool `train`, as for our own
  frames; those of an intent with fewer than three are in both.
- A text is a pure function of (template, slots, random generator).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hassil.expression import Expression, ListReference, Sentence
from hassil.intents import IntentData, RangeSlotList, SlotList, TextSlotList, WildcardSlotList

from homerl.envs.homeenv.language.speaker import SPELLED, number_in_words
from homerl.envs.homeenv.tasks.sentences.matching import load_hassil_sentences
from homerl.play.words.grammar import Pool, assign_frame_pools, draw_pieces, draw_zipf_index, normalise_spaces

NAMES = frozenset(("name", "area", "floor"))  # lists of the home's own names


class CannotBeFilled(Exception):
    """A template has a slot for which there is no text."""


@dataclass(frozen=True)
class SentenceTemplate:
    """A template of an intent's sentences, its block, and the pools that contain it.

    One that `names_alone` can be said without any word beside the names of things: "the kitchen lamp".
    """

    intent: str
    block: IntentData
    expression: Expression
    pools: tuple[str, ...]
    names_alone: bool

    def required_values(self, key: str) -> frozenset[str] | None:
        """The values that the block's context asks of a key, such as the domains of what is named; None if it asks none."""
        given = self.block.requires_context.get(key)
        return None if given is None or isinstance(given, dict) else frozenset([given] if isinstance(given, str) else given)

    @property
    def is_about_here(self) -> bool:
        """Whether the area is the one where the person speaks."""
        return isinstance(self.block.requires_context.get("area"), dict)


@lru_cache
def templates_by_intent(language: str) -> Mapping[str, tuple[SentenceTemplate, ...]]:
    """All templates of a language. Raises `InputError` for a language without any."""
    intents, _ = load_hassil_sentences(language)
    rules = intents.expansion_rules

    def names_alone(sentence: Sentence, block: IntentData) -> bool:
        known = rules | block.expansion_rules
        return not sentence.get_required_clauses(known) and set(sentence.list_names(known)) <= NAMES

    found = {}
    for name, intent in intents.intents.items():
        texts = dict.fromkeys(text for block in intent.data for text in block.sentence_texts)
        pools = assign_frame_pools(tuple(texts))
        found[name] = tuple(
            SentenceTemplate(name, block, sentence.expression, pools[sentence.text or ""], names_alone(sentence, block))
            for block in intent.data
            for sentence in block.sentences
        )
    return found


def templates_of_intent(language: str, intent: str, pool: Pool) -> list[SentenceTemplate]:
    """The templates of an intent in a pool, in the order of the package; none for an intent that the language lacks."""
    found = templates_by_intent(language).get(intent, ())
    return [template for template in found if pool == "any" or pool in template.pools]


@dataclass
class FilledSlots:
    """Texts for the slots of a template.

    `wanted` has the values by slot of which a text must mean one, and `names` the texts of names by slot. A slot in neither
    cannot be filled, except by any of its list's values if it is in `free`. `said` collects the values that were said, with
    their texts, by slot.
    """

    language: str
    rng: random.Random
    temperature: float
    names: Mapping[str, str] = field(default_factory=dict)
    wanted: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    said: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def write(self, template: SentenceTemplate) -> str:
        """A text of the template. Raises `CannotBeFilled`."""
        self.said = {}
        drawn = self._draw(template.expression, template.block)
        return normalise_spaces("".join(drawn).strip())

    def _draw(self, expression: Expression, block: IntentData) -> list[str]:
        rules = load_hassil_sentences(self.language)[0].expansion_rules | block.expansion_rules

        def rule(name: str) -> Expression:
            return rules[name].expression

        def fill(slot: ListReference) -> str:
            return self._text_of_slot(slot, block)

        return list(draw_pieces(expression, fill, rule, self.rng, self.temperature))

    def _text_of_slot(self, slot: ListReference, block: IntentData) -> str:
        name = slot.slot_name
        if slot.list_name in self.names:
            text = self.names[slot.list_name]
            self.said[name] = text, text
            return text
        known: Mapping[str, SlotList] = load_hassil_sentences(self.language)[1] | block.slot_lists
        values, of = self.wanted.get(name), known.get(slot.list_name)
        if of is None or (values is None and name not in self.free):
            raise CannotBeFilled(name)
        text, value = self._text_of_list(of, values, block)
        self.said[name] = text, value
        return text

    def _text_of_list(self, known: SlotList, values: Sequence[Any] | None, block: IntentData) -> tuple[str, Any]:
        """A text of a list that means one of the values (any, if None), and the value."""
        match known:
            case TextSlotList():
                fit = [one for one in known.values if values is None or one.value_out in values]
                if fit:
                    drawn = fit[draw_zipf_index(len(fit), self.rng, self.temperature)]
                    return "".join(self._draw(drawn.text_in, block)).strip(), drawn.value_out
            case RangeSlotList(multiplier=multiplier):
                numbers = values or ()
                fit_numbers = [one for one in numbers if isinstance(one, (int, float)) and not isinstance(one, bool)]
                if fit_numbers:
                    value = self.rng.choice(fit_numbers)
                    said = value / multiplier if multiplier else value
                    if any(abs(said - one) < 1e-6 for one in known.get_numbers()):
                        return self._text_of_number(said), value
            case WildcardSlotList():
                texts = [one for one in values or () if isinstance(one, str)]
                if texts:
                    text = self.rng.choice(texts)
                    return text, text
        raise CannotBeFilled(known.name or "")

    def _text_of_number(self, number: float) -> str:
        whole = int(number) if float(number).is_integer() else number
        if self.rng.random() < SPELLED * min(self.temperature, 1.0):
            return number_in_words(whole, self.language)
        return str(whole)
