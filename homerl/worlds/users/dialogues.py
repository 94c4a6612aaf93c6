"""Files of dialogues between people and an assistant, with which a user's behaviours are compared.

JSON Lines, or one JSON list. A dialogue is `{"language": "en", "messages": [{"role": "user", "content": "..."}, ...]}`. Or
it is written as in the Taskmaster datasets (arXiv 1909.05358): `{"utterances": [{"speaker": "USER", "text": "..."}, ...]}`.
Messages of the user may have `behaviours`, a list of labels. Messages of other roles than `user` and `assistant` are passed
over.

Invariant: other keys are ignored, so that a dataset with more columns can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.play.course import Behaviour

SECONDS = 60.0  # for a download
REMEDY = (
    'write {"language": "en", "messages": [{"role": "user", "content": "..."}, ...]}, or as Taskmaster does '
    '{"utterances": [{"speaker": "user", "text": "..."}, ...]}'
)


def _lower(named: Any) -> Any:
    return named.lower() if isinstance(named, str) else named


class DialogueMessage(Model, extra="ignore"):
    """One message; `behaviours` are labels, if somebody labelled it."""

    role: Annotated[str, BeforeValidator(_lower)] = Field(validation_alias=AliasChoices("role", "speaker"))
    content: str | None = Field(None, validation_alias=AliasChoices("content", "text"))
    behaviours: tuple[Behaviour, ...] | None = None


class SpokenDialogue(Model, extra="ignore"):
    """One dialogue."""

    language: str = "en"
    messages: tuple[DialogueMessage, ...] = Field(min_length=1, validation_alias=AliasChoices("messages", "utterances"))


def read_dialogues(source: str) -> list[SpokenDialogue]:
    """The dialogues of a file, of a file at a URL, or of the split `train` of a dataset on the hub.

    Raises `InputError` for a source that cannot be read, naming the line or the dialogue, and for one in which nobody speaks
    as `user`.
    """
    if source.startswith(("http://", "https://")):
        rows = _rows(_downloaded(source), source)
    elif Path(source).is_file():
        rows = _rows(Path(source).read_bytes(), source)
    else:
        rows = ((f"{source}, dialogue {number}", row) for number, row in enumerate(_hub_rows(source), 1))
    found = [_dialogue(row, where) for where, row in rows]
    if not found:
        raise InputError("there is no dialogue", source, REMEDY)
    if not any(said.role == "user" for one in found for said in one.messages):
        raise InputError("nobody speaks as `user`", source, REMEDY)
    return found


def _rows(content: bytes, source: str) -> Iterator[tuple[str, Any]]:
    """The rows of JSON Lines, unread, or those of one JSON list, each with its place."""
    try:
        text = content.decode("utf-8-sig")
        listed = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError) as error:
        raise InputError(f"it cannot be read: {error}", source, REMEDY) from None
    if listed is not None:
        yield from ((f"{source}, dialogue {number}", row) for number, row in enumerate(listed, 1))
    else:
        yield from ((f"{source}:{number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _dialogue(row: Any, where: str) -> SpokenDialogue:
    try:
        return SpokenDialogue.model_validate(json.loads(row) if isinstance(row, str) else row)
    except (ValidationError, ValueError) as error:
        what = f"{error.errors()[0]['msg']}" if isinstance(error, ValidationError) else str(error)
        raise InputError(f"this is no dialogue: {what}", where, REMEDY) from None


def _downloaded(url: str) -> bytes:
    import httpx

    try:
        return httpx.get(url, follow_redirects=True, timeout=SECONDS).raise_for_status().content
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise InputError(f"it cannot be downloaded: {error}", url, "download it elsewhere and name the file") from None


def _hub_rows(name: str) -> Iterable[Any]:
    """The rows of a dataset on the hub, or in its cache."""
    from datasets import load_dataset

    try:
        rows: Iterable[Any] = load_dataset(name, split="train")
    except Exception as error:  # the hub's client raises errors of many libraries
        raise InputError(f"there is no such file, and the hub has no such dataset ({error})", name, REMEDY) from None
    return rows
