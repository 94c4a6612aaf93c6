"""The languages that HomeEnv's people speak. Each is a folder of `languages/`, and is found by its folder.

A folder holds `grammar/*.yaml` (what people say), `prompts.yaml` (the texts for agents, and the example of model cards) and
`people.yaml` (the residents of homes). Two more files are shared with other worlds: the names of rooms and devices in
`envs/homemaker/names/`, and the prompts of the LLM user in `homerl/language/manners/`.

Invariants: a missing part of a language raises an error that names it; every grammar has the keys of the English one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from envs.documents import Document, InputError, read_yaml
from envs.documents.explain import did_you_mean
from envs.homemaker.lexicon import NAMES
from homerl.language.grammar import Grammar
from homerl.language.manner import SHIPPED as MANNERS

LANGUAGES = Path(__file__).parent.parent / "languages"
ROOT = Path(__file__).parents[4]
REFERENCE = "en"  # every other grammar must have its keys
SHOWN = 5  # the most missing keys that an error lists


def languages() -> tuple[str, ...]:
    """The names of all languages that have a folder."""
    return tuple(sorted(path.name for path in LANGUAGES.iterdir() if path.is_dir()))


def missing(language: str) -> list[str]:
    """The files that a language lacks."""
    own = (LANGUAGES / language / name for name in ("prompts.yaml", "people.yaml", "grammar"))
    shared = (folder / f"{language}.yaml" for folder in (NAMES, MANNERS))
    return [path.relative_to(ROOT).as_posix() for path in (*own, *shared) if not path.exists()]


def language_path(language: str, name: str) -> Path:
    """The path of a file or folder in a language's folder. Raises `InputError` if it does not exist."""
    path = LANGUAGES / language / name
    if not path.exists():
        if language not in languages():
            raise InputError(f"there is no language '{language}'", "language", did_you_mean(language, languages()))
        remedy = f"translate that of '{REFERENCE}'"
        raise InputError(f"the language '{language}' has no {name}", path.relative_to(ROOT).as_posix(), remedy)
    return path


@lru_cache
def grammar(language: str) -> Grammar:
    """The grammar of a language. Raises `InputError` if it lacks keys of the English grammar."""
    known = Grammar(language, _files(language))
    if language != REFERENCE:
        frames = (file.data.get("frames") or {} for file in _files(REFERENCE))
        if lacking := [key for keys in frames for key in keys if key not in known]:
            more = f" and {len(lacking) - SHOWN} others" if len(lacking) > SHOWN else ""
            raise InputError(
                f"the grammar of '{language}' has no {', '.join(lacking[:SHOWN])}{more}",
                language_path(language, "grammar").relative_to(ROOT).as_posix(),
                f"translate the frames of these keys of '{REFERENCE}'",
            )
    return known


def _files(language: str) -> list[Document]:
    files = sorted(language_path(language, "grammar").glob("*.yaml"))
    if not files:
        raise InputError(f"the grammar of '{language}' is empty", "language", f"translate that of '{REFERENCE}'")
    return [read_yaml(path) for path in files]
