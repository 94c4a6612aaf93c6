"""The text of a source, before any format is read: a file, an open stream, or the text itself.

Invariants: a file that is missing or unreadable raises `InputError`; data that could not be written down again (half a
surrogate pair, too many digits, too much nesting) is refused.
"""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any, TextIO

from envs.documents.document import InputError

_HALF_ESCAPED = re.compile(r"\\[uU]0*[dD][89a-fA-F]")


def read_source(source: str | Path | TextIO) -> tuple[str, str | bytes]:
    """The name and the content of a source: a string with a line break is the text itself.

    The content is bytes where there is a choice, since YAML detects their encoding.
    """
    if isinstance(source, str) and "\n" in source:
        return "<text>", source
    if isinstance(source, (str, Path)):
        return str(source), file_bytes(Path(source))
    name = str(getattr(source, "name", "<stream>"))
    try:
        return name, source.read()
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None


def file_bytes(path: Path) -> bytes:
    """The bytes of a file, or `InputError` where it is missing or unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), _near_names(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), "give a readable file") from None


def _near_names(path: Path) -> str:
    """A remedy for a missing file: a file of nearly that name beside it."""
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f"did you mean {path.with_name(near[0])}?" if near else "check the path"


def refuse_half_characters(data: Any, name: str, text: str | bytes) -> None:
    """Refuse data from a text with an escape that stands for half of a surrogate pair."""
    if _HALF_ESCAPED.search(text if isinstance(text, str) else text.decode("latin-1")):
        refuse_unwritable(data, name)


def refuse_unwritable(data: Any, name: str) -> None:
    """Refuse JSON data, wherever it is from, that could not be written down again."""
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError("holds half a character (one surrogate of a pair)", name, "write the character itself") from None
    except (ValueError, RecursionError):
        raise InputError("holds a number of too many digits, or is nested too deeply", name, "write less") from None
