"""The language of HomeEnv's people: from meanings to sentences; and the languages that they speak.

- `meaning.py`: what people want to say, without words, and which devices a reference denotes.
- `speaker.py`: puts meanings into noun phrases, clauses and sentences of one style.
- `times_and_states.py`: times, durations, conditions and states in words.
- `utterances.py`: complete sentences, with errors of speech if the wording is noisy.

A language is a folder of `languages/`, or `homeenv/` in an added language's folder. A folder holds `grammar/*.yaml` (what
people say), `prompts.yaml` (the texts for agents, and the example of model cards) and `people.yaml` (the residents of
homes). Two more files are shared with other worlds: the names of rooms and devices (`envs/homeenv/maker/home_names.py`), and
the prompts of the LLM user (`homerl/play/words/user_manner.py`).

Invariants: a missing part of a language raises an error that names it; every grammar has the keys of the English one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.core.languages import REFERENCE, LanguagePart
from homerl.envs.homeenv.maker.home_names import NAMES
from homerl.play.words.grammar import Grammar, refuse_missing_keys
from homerl.play.words.user_manner import MANNERS

LANGUAGES = LanguagePart(Path(__file__).parent.parent / "languages", "homeenv")
ROOT = Path(__file__).parents[4]  # of the sources
TRANSLATE = f"translate what '{REFERENCE}' has there"


def list_home_languages() -> tuple[str, ...]:
    """The codes of all languages that have a folder."""
    return tuple(LANGUAGES.paths_by_language())


def missing_language_files(language: str) -> list[str]:
    """The files that a language lacks."""
    paths = [LANGUAGES.expected_path(language) / name for name in ("prompts.yaml", "people.yaml", "grammar")]
    paths += [NAMES.expected_path(language), MANNERS.expected_path(language)]
    return [_path_in_message(path) for path in paths if not path.exists()]


def require_complete_language(language: str) -> None:
    """Raise `InputError` if a language is not known or lacks files."""
    LANGUAGES.find_path(language)
    if lacking := missing_language_files(language):
        raise InputError(f"the language '{language}' has no {', '.join(lacking)}", remedy=TRANSLATE)


def language_path(language: str, name: str) -> Path:
    """The path of a file or folder in a language's folder. Raises `InputError` if it does not exist."""
    path = LANGUAGES.find_path(language) / name
    if not path.exists():
        raise InputError(f"the language '{language}' has no {name}", _path_in_message(path), TRANSLATE)
    return path


@lru_cache
def home_grammar(language: str) -> Grammar:
    """The grammar of a language. Raises `InputError` if it lacks keys of the English grammar."""
    folder = language_path(language, "grammar")
    if not (files := sorted(folder.glob("*.yaml"))):
        raise InputError(f"the grammar of '{language}' is empty", _path_in_message(folder), TRANSLATE)
    known = Grammar(language, [read_yaml(path) for path in files], ours=LANGUAGES.is_shipped(language))
    if language != REFERENCE:
        refuse_missing_keys(known, home_grammar(REFERENCE), _path_in_message(folder))
    return known


def _path_in_message(path: Path) -> str:
    """A path for messages: from the root of the sources if it is in them."""
    return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()
