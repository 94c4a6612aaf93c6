"""The languages of SimuHome. Each is one file: in `language/`, or `simuhome.yaml` in an added language's folder.

Invariants: every grammar has the keys of the English one; whatever a file lacks raises an error that names it.

The system message: rules of conduct, and in its last paragraph the user's location and the time.

Invariant: it tells nothing else about the home, so that an agent must look.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.languages import REFERENCE, LanguagePart
from homerl.envs.core.model import Model
from homerl.play.words.grammar import Grammar, GrammarFile, refuse_missing_keys
from homerl.play.words.user_manner import load_manner

LANGUAGES = LanguagePart(Path(__file__).parent / "language", "simuhome.yaml")
Patterns = tuple[re.Pattern[str], ...]


class SystemPrompts(Model):
    """What agents are told: two variants of the rules of conduct, and the last paragraph."""

    brief: str
    full: str
    context: str


class WeakSigns(Model):
    """Signs of a reason that count only if a text shows no other, such as `already` and `impossible`."""

    limit: Patterns = ()
    absent: Patterns = ()
    conflict: Patterns = ()


class Signs(Model):
    """How a final answer is recognised: reasons why nothing was done, and the claim that something was (`done`).

    The patterns match text in lower case, with ' as apostrophe.
    """

    absent: Patterns = Field(min_length=1)
    limit: Patterns = Field(min_length=1)
    conflict: Patterns = Field(min_length=1)
    done: Patterns = Field(min_length=1)
    weak: WeakSigns = WeakSigns()


class LanguageFile(GrammarFile):
    """The file of one language. `example` is the request that model cards show."""

    prompts: SystemPrompts
    example: str
    signs: Signs


@lru_cache
def language_file(language: str) -> LanguageFile:
    """The file of a language. Raises `InputError` if there is none."""
    return validate_document(LanguageFile, read_yaml(LANGUAGES.find_path(language)))


@lru_cache
def simuhome_grammar(language: str) -> Grammar:
    """The grammar of a language: its words and frames. Raises `InputError` if it lacks keys of the English grammar."""
    path = LANGUAGES.find_path(language)
    known = Grammar(language, [read_yaml(path)], LanguageFile, ours=LANGUAGES.is_shipped(language))
    if language != REFERENCE:
        refuse_missing_keys(known, simuhome_grammar(REFERENCE), str(path))
    return known


def check_simuhome_language(language: str) -> None:
    """Raise `InputError` if a language is not known, or for what it lacks."""
    simuhome_grammar(language)
    load_manner(language)


@lru_cache
def all_grammars() -> tuple[Grammar, ...]:
    """The grammars of all languages."""
    return tuple(map(simuhome_grammar, LANGUAGES.paths_by_language()))


def reasons_in(text: str) -> set[str]:
    """The reasons that a text gives, in any language: `absent`, `limit`, `conflict`.

    Weak signs count only if there are no others. If several are shown, the first of `WeakSigns` gives the reason: "it is
    already cooling, so that is not possible" says `limit`.
    """
    weak = (name for name in WeakSigns.model_fields if shows_sign(name, text, weak=True))
    return {name for name in WeakSigns.model_fields if shows_sign(name, text)} or set(islice(weak, 1))


def shows_sign(sign: str, text: str, weak: bool = False) -> bool:
    """Whether a text shows a sign, such as `absent`, in any language; with `weak`, a weak sign."""
    text = fold_for_patterns(text)
    return any(pattern.search(text) for pattern in _sign_patterns(sign, weak))


@lru_cache
def _sign_patterns(sign: str, weak: bool) -> list[re.Pattern[str]]:
    files = map(language_file, LANGUAGES.paths_by_language())
    return [pattern for file in files for pattern in getattr(file.signs.weak if weak else file.signs, sign)]


def fold_for_patterns(text: str) -> str:
    """A text in the form that patterns match: in lower case, with ' as apostrophe."""
    return text.lower().replace("’", "'")


def system_message(style: str, language: str, location: str, now: str) -> str:
    """The system message. `style` is `brief` or `full`, and `now` is the virtual time as text."""
    told = language_file(language).prompts
    return f"{getattr(told, style)}\n\n{told.context.format(location=location, now=now)}"
