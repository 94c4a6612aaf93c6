"""The grammars that HomeEnv's people speak by: one folder a language."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from envs.documents import InputError, read_yaml
from homerl.language.grammar import Grammar

SHIPPED = Path(__file__).parent


@lru_cache
def grammar(language: str) -> Grammar:
    """The grammar that comes with homerl."""
    files = sorted((SHIPPED / language).glob("*.yaml"))
    if not files:
        known = sorted(path.name for path in SHIPPED.iterdir() if any(path.glob("*.yaml")))
        raise InputError(f"there is no grammar for '{language}'", "language", f"known: {', '.join(known)}")
    return Grammar(language, [read_yaml(path) for path in files])
