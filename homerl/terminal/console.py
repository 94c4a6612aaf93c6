"""What commands say, and how they refuse an option."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from envs.documents import InputError
from envs.explain import did_you_mean

console = Console(markup=False)  # paths may hold brackets


def one_of(option: str, value: str, known: Iterable[str]) -> None:
    """Refuse an option's value that is none of the known ones."""
    if value not in known:
        raise InputError(f"'{value}' is not known", where=option, remedy=did_you_mean(value, list(known)))
