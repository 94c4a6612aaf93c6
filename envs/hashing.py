"""Hashes of states and texts, which are the same in every process."""

from __future__ import annotations

import hashlib


def text_hash(text: str) -> int:
    """A 128-bit hash of a text; half characters (lone surrogates) have one too."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest(), "big")
