"""Hashes of states, texts and files, which are the same in every process."""

from __future__ import annotations

import hashlib
from pathlib import Path


def text_hash(text: str) -> int:
    """A 128-bit hash of a text; half characters (lone surrogates) have one too."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest(), "big")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
