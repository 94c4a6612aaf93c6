"""A range of numbers on the command line."""

from __future__ import annotations

from homerl.envs.core.documents import InputError


def parse_number_range(text: str) -> tuple[int, int]:
    """The numbers of `2-6`, or of `4`, which is from 4 to 4. Raises `InputError` for other texts."""
    low, _, high = text.partition("-")
    if not (low.isdigit() and (high or low).isdigit() and int(low) <= int(high or low)):
        raise InputError(f"'{text}' is not a range", where="--devices", remedy="write for example 2-6")
    return int(low), int(high or low)
