"""The content of a source before its format is read. A source is a file, an open stream, or the text itself.

Invariants:
- A file that is missing or unreadable raises `InputError`.
- Data that could not be written back as UTF-8 JSON is refused: half of a surrogate pair, numbers of too many digits, or
  nesting that is too deep.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TextIO

from homerl.envs.core.documents.document import InputError
from homerl.envs.core.documents.trouble import suggest_near_path

_HALF_ESCAPED = re.compile(r"\\[uU]0*[dD][89a-fA-F]")


def read_source(source: str | Path | TextIO) -> tuple[str, str | bytes]:
    """(name, content) of a source. A string with a line break is the text itself; any other string is a path.

    A file gives bytes, because PyYAML detects their encoding. Raises `InputError` if the source cannot be read.
    """
    if isinstance(source, str) and "\n" in source:
        return "<text>", source
    if isinstance(source, (str, Path)):
        return str(source), read_file_bytes(Path(source))
    name = str(getattr(source, "name", "<stream>"))
    try:
        return name, source.read()
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None


def read_file_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises `InputError` if it is missing or unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), suggest_near_path(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), "give a readable file") from None


def refuse_half_characters(data: Any, name: str, text: str | bytes) -> None:
    r"""Raise `InputError` if `text` escapes half of a surrogate pair, such as `\ud800`, and `data` holds it."""
    if _HALF_ESCAPED.search(text if isinstance(text, str) else text.decode("latin-1")):
        refuse_unwritable(data, name)


def refuse_unwritable(data: Any, name: str) -> None:
    """Raise `InputError` if `data` could not be written back as UTF-8 JSON."""
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError("holds half a character (one surrogate of a pair)", name, "write the character itself") from None
    except (ValueError, RecursionError):
        raise InputError("holds a number of too many digits, or is nested too deeply", name, "write less") from None
