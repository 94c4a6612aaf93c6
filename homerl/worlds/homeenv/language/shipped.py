"""The languages that HomeEnv's people speak: one folder of `languages/` each, found by being there.

A folder holds `grammar/*.yaml` (what people say), `prompts.yaml` (what agents are told, and the example of model cards) and
`people.yaml` (who lives in homes). The names of rooms and devices stand in `envs/homemaker/names/`, and how an LLM plays a
person in `homerl/users/manners/`, since other worlds use them too.

Invariants: a part that a language lacks is refused by name; every grammar has the keys of the English one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from envs.documents import Document, InputError, read_yaml
from envs.explain import did_you_mean
from envs.homemaker.lexicon import NAMES
from homerl.language.grammar import Grammar
from homerl.users.manner import SHIPPED as MANNERS

LANGUAGES = Path(__file__).parent.parent / "languages"
ROOT = Path(__file__).parents[4]
REFERENCE = "en"  # whose keys every other grammar has
SHOWN = 5  # keys that are named


def languages() -> tuple[str, ...]:
    """Every language that has a folder, by name."""
    return tuple(sorted(path.name for path in LANGUAGES.iterdir() if path.is_dir()))


def missing(language: str) -> list[str]:
    """The files that a language lacks."""
    own = (LANGUAGES / language / name for name in ("prompts.yaml", "people.yaml", "grammar"))
    shared = (folder / f"{language}.yaml" for folder in (NAMES, MANNERS))
    return [path.relative_to(ROOT).as_posix() for path in (*own, *shared) if not path.exists()]


def language_path(language: str, name: str) -> Path:
    """A file or folder of a language's own folder."""
    path = LANGUAGES / language / name
    if not path.exists():
        if language not in languages():
            raise InputError(f"there is no language '{language}'", "language", did_you_mean(language, languages()))
        remedy = f"translate that of '{REFERENCE}'"
        raise InputError(f"the language '{language}' has no {name}", path.relative_to(ROOT).as_posix(), remedy)
    return path


@lru_cache
def grammar(language: str) -> Grammar:
    """The grammar of a language."""
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
