"""What tests ask of texts."""

from __future__ import annotations

from collections.abc import Sequence


def common_beginning(texts: Sequence[str]) -> str:
    """What all of these texts begin with."""
    first, last = min(texts), max(texts)
    differs = next((at for at, (one, other) in enumerate(zip(first, last)) if one != other), min(len(first), len(last)))
    return first[:differs]
