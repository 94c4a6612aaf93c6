"""Sentences: the frames of a grammar, drawn at random; how people write them; and the splits of training and held-out ones.

In a frame, in hassil's template language, `(one|other)` is a choice, `[this]` is optional, `{slot}` is filled in, and
`<rule>` is replaced by one of the rule's templates. A frame belongs to a key (such as `turn_on` or `complaint.dark`) and to
one or both styles. The frames of a key are ordered by how usual they are: at temperature 1 the k-th frame has weight 1/k
(Zipf's law), and at 0 only the first is drawn.

Invariants:
- A draw is a pure function of its random generator.
- A language is one or more YAML files, and no key occurs twice in them.
- Of the frames of each key and style a quarter is in the pool `heldout` and the others are in the pool `train`, as a hash
  of their texts decides.
- A group of fewer than three frames is in both pools.
- Words of a language are spaced in its sentences unless its frames are written in Chinese characters, and names of another
  script are set as its own words are.
- A hash of its words assigns each sentence to one split for ever, so no training sentence is ever evaluated on.
- Writing changes letter case and the final mark only, never a word, and the split is that of the sentence before it was
  written.
- Without shares nothing is drawn at random. The words of `names` keep their case but in `small` sentences.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain, pairwise
from typing import Literal

from hassil.expression import Alternative, Expression, ListReference, Permutation, RuleReference, TextChunk
from hassil.expression import Sequence as Parts
from hassil.parse_expression import parse_sentence
from hassil.parser import ParseError
from pydantic import Field, model_validator

from homerl.envs.core.documents import Document, InputError, validate_document
from homerl.envs.core.model import LateShare, Model

Style = Literal["clear", "colloquial"]
Pool = Literal["train", "heldout", "any"]  # the frames that may be used
HELD_OUT = 4  # one frame in so many is held out, rounded down but at least one
FEWEST = 3  # the smallest group of frames from which one can be held out
PIECES = re.compile(
    r"(?:room|device|device\.\w+|part|it|them|and|join|number\..*|unit\..*|name\..*|option\..*|value\..*|kind\..*"
    r"|noun\.(?:all|all_but|bare|home|floor|without|rooms|holds|that|top)\b.*|query\.(?:place|trait)\b.*"
    r"|when\.(?:after|bare|clock|date|duration|every|once|reading|unit)\b.*)$"
)  # keys of parts of sentences, such as noun phrases and times; their frames are in both pools
POOLS: tuple[Pool, ...] = ("train", "heldout", "any")
WIDE = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef\U00020000-\U0003ffff]"  # characters of scripts that write words together
LOOSE, COMMA = re.compile(rf"(?<={WIDE}) +| +(?={WIDE}|,)"), re.compile(" +(?=,)")
LETTER = re.compile(rf"(?!{WIDE})\w")
SHOWN = 5  # the most missing keys that an error lists
SAID = 0.5  # probability of an optional part at temperature 1


class StyledFrames(Model):
    """The frames of a key by style; frames under `any` serve both styles."""

    clear: tuple[str, ...] = ()
    colloquial: tuple[str, ...] = ()
    any: tuple[str, ...] = ()


class SpeechNoise(Model):
    """The errors of speech and speech recognition: ways to mishear a word, words that may be lost, and filler words."""

    sounds: dict[str, tuple[str, ...]] = {}
    dropped: tuple[str, ...] = ()
    fillers: tuple[str, ...] = ()


class GrammarFile(Model):
    """One file of a language.

    `rules` are visible in all files of the language. `noise` belongs in one file only.
    """

    rules: dict[str, tuple[str, ...]] = {}
    frames: dict[str, tuple[str, ...] | StyledFrames] = {}
    noise: SpeechNoise | None = None


class SlotText(str):
    """The text of a slot."""


Fill = Callable[[ListReference], str]  # the text of a slot of a template


@dataclass(frozen=True)
class Template:
    """A text in hassil's template language, and where it stands."""

    text: str
    where: str

    @cached_property
    def parsed_expression(self) -> Expression:
        """The parsed text. Raises `InputError` if it cannot be parsed."""
        try:
            return parse_sentence(self.text).expression
        except ParseError as error:
            what = f"'{self.text}' cannot be parsed as a template: {error}"
            raise InputError(what, self.where, "see hassil's template language") from None


@dataclass(frozen=True)
class Frame(Template):
    """A template of a sentence, and the pools that contain it."""

    pools: tuple[str, ...]


class Grammar:
    """The frames of one language. `form` is the model of its files, if they hold more than a grammar.

    Raises `InputError` for a duplicate key or rule, and for what `check` refuses. Tests check the files that are `ours`, so
    that of their thousands of templates only the few that are drawn are parsed.
    """

    def __init__(
        self, language: str, documents: Sequence[Document], form: type[GrammarFile] = GrammarFile, ours: bool = False
    ) -> None:
        self.language = language
        self.noise = SpeechNoise()
        self.rules: dict[str, tuple[Template, ...]] = {}
        self._frames: dict[tuple[str, str], tuple[Frame, ...]] = {}
        for document in documents:
            self._add_file(validate_document(form, document), document)
        if not ours:
            self.check_templates()
        self._by_pool = {
            (*at, pool): tuple(frame for frame in frames if pool == "any" or pool in frame.pools)
            for at, frames in self._frames.items()
            for pool in POOLS
        }

    def _add_file(self, file: GrammarFile, document: Document) -> None:
        self.noise = file.noise or self.noise
        for name, texts in file.rules.items():
            if name in self.rules:
                raise InputError(f"rule '{name}' is given twice", document.locate_key(("rules", name)), "rename one of them")
            self.rules[name] = tuple(Template(text, document.locate_key(("rules", name))) for text in texts)
        for key, given in file.frames.items():
            if (key, "clear") in self._frames:
                where = document.locate_key(("frames", key))
                raise InputError(f"'{key}' is given twice", where, "put its frames in one place")
            styles = given if isinstance(given, StyledFrames) else StyledFrames(any=given)
            pools: dict[str, tuple[str, ...]] = {}
            for group in (styles.clear, styles.colloquial, styles.any):  # frames are held out from each group separately
                pools = assign_frame_pools(group, both=PIECES.match(key) is not None) | pools
            where = document.locate_key(("frames", key))
            frames = {text: Frame(text, where, own) for text, own in pools.items()}
            for style, own in (("clear", styles.clear), ("colloquial", styles.colloquial)):
                self._frames[key, style] = tuple(frames[text] for text in (*own, *styles.any))

    def check_templates(self) -> None:
        """Parse every template. Raises `InputError` for one that cannot be parsed, or that has an unknown rule."""
        for template in chain(*self._frames.values(), *self.rules.values()):
            if unknown := [name for name in _rule_names(template.parsed_expression) if name not in self.rules]:
                where = f"the grammar of '{self.language}'"
                raise InputError(f"there is no rule <{unknown[0]}>", where, "write it under `rules`")

    def __contains__(self, key: str) -> bool:
        return bool(self._frames.get((key, "clear")) or self._frames.get((key, "colloquial")))

    def keys(self, prefix: str = "") -> list[str]:
        """Every key that begins with `prefix`, sorted."""
        return sorted({key for key, _ in self._frames if key.startswith(prefix)})

    def frames_of(self, key: str, style: Style, pool: Pool = "any") -> tuple[Frame, ...]:
        """The frames of a key, the most usual first.

        If the key has no frames in this style, those of the other style are returned. Raises `KeyError` if it has none at
        all.
        """
        for known in (style, "colloquial", "clear"):
            if frames := self._by_pool.get((key, known, pool)):
                return frames
        raise KeyError(f"the grammar of '{self.language}' has no frame for '{key}'")

    def plain_sentence(self, key: str) -> str:
        """The most usual sentence of a key, which must have no slots."""
        return self.draw_sentence(key, {}, random.Random(0), "clear", "any", 0.0)

    def plain_texts(self, key: str) -> list[str]:
        """The texts of all frames of a key, which must have neither choices nor slots."""
        return [frame.text for frame in self.frames_of(key, "clear")]

    @cached_property
    def has_spaces(self) -> bool:
        """Whether the language has spaces between words."""
        return not any(re.search(WIDE, frame.text) for frames in self._frames.values() for frame in frames)

    def fit_spaces(self, text: str) -> str:
        """A sentence of the language with the spaces that it has between words, and no others."""
        return normalise_spaces(text, self.has_spaces)

    def draw_sentence(
        self, key: str, slots: Mapping[str, str], rng: random.Random, style: Style, pool: Pool, temperature: float
    ) -> str:
        """Draw a frame of the key, make its choices and fill its slots. Raises `KeyError` if a slot is not given."""
        frames = self.frames_of(key, style, pool)
        parts = frames[draw_zipf_index(len(frames), rng, temperature)].parsed_expression

        def draw_rule(name: str) -> Expression:
            return self.rules[name][draw_zipf_index(len(self.rules[name]), rng, temperature)].parsed_expression

        try:
            drawn = draw_pieces(parts, lambda slot: slots[slot.list_name], draw_rule, rng, temperature)
            return self._join_pieces([piece for piece in drawn if piece])
        except KeyError as missing:
            raise KeyError(f"a frame of '{key}' ({self.language}) has the slot {missing}, which is not given") from None

    def _join_pieces(self, pieces: Sequence[str]) -> str:
        """The pieces of a sentence. Where words are not spaced, two names that meet are, if neither shows where it ends."""
        text = "".join(pieces[:1])
        for left, right in pairwise(pieces):
            meet = isinstance(left, SlotText) and isinstance(right, SlotText) and not self.has_spaces
            text += " " + right if meet and LETTER.match(left[-1]) and LETTER.match(right) else right
        return self.fit_spaces(text)


def draw_pieces(
    item: object, fill: Fill, rule: Callable[[str], Expression], rng: random.Random, temperature: float
) -> Iterator[str]:
    """The pieces of a text that a template stands for. `fill` says its slots, and `rule` gives what a rule stands for.

    Of the alternatives of a choice an earlier one is more likely.
    """

    def draw(part: object) -> Iterator[str]:
        match part:
            case TextChunk(text=text):
                yield text
            case ListReference():
                yield SlotText(fill(part))
            case RuleReference(rule_name=name):
                yield from draw(rule(name))
            case Alternative(is_optional=True, items=items):
                if rng.random() < SAID * temperature:
                    yield from draw(items[draw_zipf_index(len(items) - 1, rng, temperature)])
            case Alternative(items=items):
                yield from draw(items[draw_zipf_index(len(items), rng, temperature)])
            case Parts(items=items) | Permutation(items=items):
                for one in items:
                    yield from draw(one)

    return draw(item)


def refuse_missing_keys(known: Grammar, reference: Grammar, where: str) -> None:
    """Raise `InputError` if a grammar lacks keys of a reference grammar."""
    wanted = reference.keys()
    if lacking := [key for key in wanted if key not in known]:
        more = f" and {len(lacking) - SHOWN} others" if len(lacking) > SHOWN else ""
        what = f"the grammar of '{known.language}' has no {', '.join(lacking[:SHOWN])}{more}"
        raise InputError(what, where, f"translate the frames of these keys of '{reference.language}'")


def normalise_spaces(text: str, spaced: bool | None = None) -> str:
    """The text with single spaces between words, and none before a comma or, unless `spaced`, beside a Chinese character.

    `spaced` says whether the language of the text has spaces between words. If it is not known, the first letter tells.
    """
    spaced = re.match(rf"\W*{WIDE}", text) is None if spaced is None else spaced
    return (COMMA if spaced else LOOSE).sub("", " ".join(text.split()))


def draw_zipf_index(count: int, rng: random.Random, temperature: float) -> int:
    """A random index below `count`: index k has weight (1/(k+1))^(1/temperature), so small indices are more likely."""
    if count == 1 or temperature == 0:
        return 0
    return rng.choices(range(count), cum_weights=_cumulative_zipf_weights(count, temperature))[0]


@lru_cache(maxsize=1024)
def _cumulative_zipf_weights(count: int, temperature: float) -> tuple[float, ...]:
    return tuple(accumulate((1 / rank) ** (1 / temperature) for rank in range(1, count + 1)))


def assign_frame_pools(texts: Sequence[str], both: bool = False) -> dict[str, tuple[str, ...]]:
    """The pools that contain each frame of a group, of which a quarter is held out; `both` holds out none."""
    if both or len(texts) < FEWEST:
        return dict.fromkeys(texts, ("train", "heldout"))
    held_out = set(
        sorted(texts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=8).digest())[
            : max(1, len(texts) // HELD_OUT)
        ]
    )
    return {text: ("heldout",) if text in held_out else ("train",) for text in texts}


def _rule_names(item: object) -> Iterator[str]:
    if isinstance(item, RuleReference):
        yield item.rule_name
    for part in getattr(item, "items", ()):
        yield from _rule_names(part)


MARKS = ".?!。？！"


class Writing(Model):
    """How people write, in shares of their sentences; by default as the grammar has them."""

    capitalised: float = Field(0.0, ge=0, le=1, description="Share that begins with a capital letter.")
    lowered: float = Field(0.0, ge=0, le=1, description="Share without capital letters, but for names.")
    small: LateShare = Field(
        0.0,
        description="Share of sentences without any capital letter, not even in names; beside `capitalised` and `lowered`.",
    )
    punctuated: float = Field(0.0, ge=0, le=1, description="Share that ends in a full stop or question mark.")
    short: float = Field(0.0, ge=0, le=1, description="Share in short frames, such as `kitchen light off`.")
    sloppy: LateShare = Field(
        0.0,
        description="Share of sentences of any wording with slips of speech: misheard, cut off, stuttered, with fillers.",
    )

    @model_validator(mode="after")
    def _one_case_each(self) -> Writing:
        if self.capitalised + self.lowered + self.small > 1:
            raise ValueError("capitalised, lowered, small: their sum should be at most 1, for a sentence has one of them")
        return self


AS_IT_IS = Writing()


def write_sentence(text: str, writing: Writing, grammar: Grammar, names: Iterable[str], rng: random.Random) -> str:
    """The sentence in a drawn case and with or without a final mark."""
    if not (writing.capitalised or writing.lowered or writing.small or writing.punctuated):
        return text
    drawn = rng.random()
    if drawn < writing.capitalised:
        text = capitalise_sentence(text, grammar)
    elif drawn < writing.capitalised + writing.lowered:
        text = lower_sentence(text, names)
    elif drawn < writing.capitalised + writing.lowered + writing.small:
        text = text.lower()
    return punctuate_sentence(text, grammar) if rng.random() < writing.punctuated else text


def capitalise_sentence(text: str, grammar: Grammar) -> str:
    """The sentence with a capital at its beginning, and in the words that always have one ("I")."""
    for word in grammar.plain_texts("writing.capital"):
        text = re.sub(rf"(?<![\w']){re.escape(word)}(?!\w)", lambda found: _capitalise_first(found.group()), text)
    return _capitalise_first(text)


def _capitalise_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def lower_sentence(text: str, names: Iterable[str]) -> str:
    """The sentence without capitals, except in the names."""
    kept = [re.escape(name) for name in sorted(names, key=len, reverse=True) if name != name.lower()]
    parts = re.split(f"({'|'.join(kept)})", text) if kept else [text]
    return "".join(part if at % 2 else part.lower() for at, part in enumerate(parts))


def punctuate_sentence(text: str, grammar: Grammar) -> str:
    """The sentence with a final mark, if it has none: a question mark after a question."""
    if text.endswith(tuple(MARKS)):
        return text
    key = "writing.asking" if is_question(text, grammar) else "writing.telling"
    return grammar.draw_sentence(key, {"text": text}, random.Random(0), "clear", "any", 0.0)


def is_question(text: str, grammar: Grammar) -> bool:
    """Whether a sentence is a question, by the words that begin or end one in its language."""
    text = text.lower()
    begins = any(re.match(rf"{re.escape(word)}(?![a-z])", text) for word in grammar.plain_texts("writing.begins"))
    return begins or any(word in text for word in grammar.plain_texts("writing.has"))


Split = Literal["train", "heldout"]
HELDOUT_SHARE = 5  # one sentence in so many is held out
TRIES = 60  # draws before giving up


class NoSentence(Exception):
    """Raised if no drawn sentence belongs to the split. The author then drops the blueprint and counts it."""


class UnclearSentence(NoSentence):
    """Raised if no sentence is clear, because two things have the same name."""


@dataclass(frozen=True)
class Voice:
    """How the people of a blueprint recipe talk.

    `temperature` sets how often less usual frames are drawn; at 0 only the most usual frame is used. `frames` is the
    pool of frames that are drawn. `writing` has the shares of cases, final marks and short sentences, `by_alias` is the
    share of things that are called by an alias, and `by_kind` that of devices which are called by what they are: "the light
    in the kitchen".
    """

    language: str = "en"
    temperature: float = 1.0
    frames: Pool = "any"
    writing: Writing = AS_IT_IS
    by_alias: float = 0.0
    by_kind: float = 0.0


def split_of(sentence: str) -> Split:
    """The split that a sentence belongs to."""
    digest = hashlib.blake2b(sentence.lower().encode(), digest_size=4).digest()
    return "heldout" if int.from_bytes(digest, "big") % HELDOUT_SHARE == 0 else "train"


def draw_of_split(draw: Callable[[], str], split: Split) -> str:
    """The first drawn sentence that belongs to the split. Raises `NoSentence` after `TRIES` draws."""
    for _ in range(TRIES):
        sentence = draw()
        if split_of(sentence) == split:
            return sentence
    raise NoSentence
