"""Texts from outside, made fit for files and for other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole(value: Any) -> Any:
    """A value of JSON whose texts can be written as UTF-8: half of a pair of surrogates becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {whole(key): whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [whole(part) for part in value]
    return tuple(whole(part) for part in value) if isinstance(value, tuple) else value
