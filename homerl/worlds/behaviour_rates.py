"""How often the utterances of a user, or of a dataset's people, show each behaviour. It is judged from words alone.

- disclosure: an utterance adds to a wish that was told before. It answers a question by more than yes or no, or begins like
  an addition.
- self_correction: within one utterance, something named is taken back and named anew.
- change_of_mind: an utterance after the first replaces what was asked before. Correcting the assistant counts too, since
  words alone do not tell the two apart.
- beside_the_point: an utterance after a question, upon which the assistant asks the same again. What replaces a wish is a
  change of mind all the same.

A file of dialogues between people and an assistant is JSON Lines, or one JSON list. A dialogue is
`{"language": "en", "messages": [{"role": "user", "content": "..."}, ...]}`. Or it is written as in the Taskmaster datasets
(arXiv 1909.05358): `{"utterances": [{"speaker": "USER", "text": "..."}, ...]}`. Messages of the user may have `behaviours`,
a list of labels. Messages of other roles than `user` and `assistant` are passed over. Other keys are ignored, so that a
dataset with more columns can be read.

Invariants: both sides are judged by the same rules, so their rates can be compared; the rules are pure; an utterance shows
at most one behaviour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AliasChoices, BeforeValidator, Field, ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.play.confidence_intervals import share_interval
from homerl.play.situation import BEHAVIOURS, Behaviour
from homerl.play.spoken_words import spoken_words_of
from homerl.play.words.user_manner import BehaviourSigns, load_manner

Messages = Sequence[tuple[str, str]]  # (role, text), roles `user` and `assistant`
WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")  # a Chinese character counts as a word
SAME = 0.5  # share of the words of a question that it has in common with the one before it


def detect_behaviours(messages: Messages, language: str) -> list[frozenset[Behaviour]]:
    """The behaviours of each utterance of the user, in order."""
    signs = load_manner(language).signs
    spoken = [(role, text) for role, text in messages if role in ("user", "assistant") and text.strip()]
    return [_behaviours_at(spoken, at, signs) for at, (role, _) in enumerate(spoken) if role == "user"]


def _behaviours_at(spoken: Messages, at: int, signs: BehaviourSigns) -> frozenset[Behaviour]:
    text = spoken[at][1].strip()
    asked, first = _is_question(spoken, at - 1), not any(role == "user" for role, _ in spoken[:at])
    asks = re.search(signs.asks, text, re.I)
    if not (first or asks) and re.search(signs.changes, text, re.I):
        return frozenset({"change_of_mind"})
    if asked and _is_question(spoken, at + 1):
        before, after = (set(WORD.findall(spoken[place][1].lower())) for place in (at - 1, at + 1))
        if len(before & after) >= SAME * max(1, min(len(before), len(after))):
            return frozenset({"beside_the_point"})
    if re.search(signs.corrects, text, re.I):
        return frozenset({"self_correction"})
    adds = not first and re.search(signs.adds, text, re.I)
    if adds or (asked and not asks and not re.fullmatch(signs.agrees, text, re.I)):
        return frozenset({"disclosure"})
    return frozenset()


def _is_question(spoken: Messages, at: int) -> bool:
    """Whether the message at this index is a question of the assistant; an offer of help is none."""
    if not 0 <= at < len(spoken) or spoken[at][0] != "assistant":
        return False
    return spoken_words_of({"role": "assistant", "content": spoken[at][1]}).question


SECONDS = 60.0  # for a download
REMEDY = (
    'write {"language": "en", "messages": [{"role": "user", "content": "..."}, ...]}, or as Taskmaster does '
    '{"utterances": [{"speaker": "user", "text": "..."}, ...]}'
)


class DialogueMessage(Model, extra="ignore"):
    """One message; `behaviours` are labels, if somebody labelled it."""

    role: Annotated[str, BeforeValidator(lambda named: named.lower() if isinstance(named, str) else named)] = Field(
        validation_alias=AliasChoices("role", "speaker")
    )
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
        rows = _split_rows(_download(source), source)
    elif Path(source).is_file():
        rows = _split_rows(Path(source).read_bytes(), source)
    else:
        rows = ((f"{source}, dialogue {number}", row) for number, row in enumerate(_read_hub_rows(source), 1))
    found = [_parse_dialogue(row, where) for where, row in rows]
    if not found:
        raise InputError("there is no dialogue", source, REMEDY)
    if not any(said.role == "user" for one in found for said in one.messages):
        raise InputError("nobody speaks as `user`", source, REMEDY)
    return found


def _split_rows(content: bytes, source: str) -> Iterator[tuple[str, Any]]:
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


def _parse_dialogue(row: Any, where: str) -> SpokenDialogue:
    try:
        return SpokenDialogue.model_validate(json.loads(row) if isinstance(row, str) else row)
    except (ValidationError, ValueError) as error:
        what = f"{error.errors()[0]['msg']}" if isinstance(error, ValidationError) else str(error)
        raise InputError(f"this is no dialogue: {what}", where, REMEDY) from None


def _download(url: str) -> bytes:
    import httpx

    try:
        return httpx.get(url, follow_redirects=True, timeout=SECONDS).raise_for_status().content
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise InputError(f"it cannot be downloaded: {error}", url, "download it elsewhere and name the file") from None


def _read_hub_rows(name: str) -> Iterable[Any]:
    """The rows of a dataset on the hub, or in its cache."""
    from datasets import load_dataset

    try:
        rows: Iterable[Any] = load_dataset(name, split="train")
    except Exception as error:  # the hub's client raises errors of many libraries
        raise InputError(f"there is no such file, and the hub has no such dataset ({error})", name, REMEDY) from None
    return rows


@dataclass(frozen=True)
class BehaviourRate:
    """The share of `n` utterances that show a behaviour, in [0, 1], with its 95 % interval."""

    share: float
    low: float
    high: float
    n: int


def behaviour_rates(utterances: Sequence[frozenset[Behaviour]]) -> dict[str, BehaviourRate]:
    """The rate of each behaviour, from what each utterance shows; empty without utterances."""
    if not utterances:
        return {}
    found: dict[str, BehaviourRate] = {}
    for name in BEHAVIOURS:
        shows = np.array([name in behaviours for behaviours in utterances], dtype=float)
        found[name] = BehaviourRate(float(shows.mean()), *share_interval(shows), len(shows))
    return found


def dialogue_behaviour_rates(dialogues: Sequence[SpokenDialogue]) -> dict[str, BehaviourRate]:
    """The rate of each behaviour in dialogues."""
    texts = (([(said.role, said.content or "") for said in one.messages], one.language) for one in dialogues)
    return behaviour_rates(
        [behaviours for messages, language in texts for behaviours in detect_behaviours(messages, language)]
    )
