"""The console on which commands print, and the check of an option's value."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.status import Status

from envs.documents import InputError
from envs.documents.explain import did_you_mean

console = Console(markup=False)  # paths may hold brackets


def print_error(message: object) -> None:
    """Print a message on stderr. A terminal gets lines that break between words; a file gets the lines as they are."""
    stderr = Console(stderr=True, markup=False, emoji=False, highlight=False)
    stderr.print(f"homerl: {message}", soft_wrap=not stderr.is_terminal)


def waiting(what: str) -> Status:
    """A spinner on stderr, for what takes some seconds; where that is no terminal, nothing."""
    return Console(stderr=True, markup=False, quiet=not sys.stderr.isatty()).status(what)


def one_of(option: str, value: str, known: Iterable[str]) -> None:
    """Raise `InputError` if an option's value is not one of the known ones; the message suggests the nearest."""
    if value not in known:
        raise InputError(f"'{value}' is not known", where=option, remedy=did_you_mean(value, list(known)))
