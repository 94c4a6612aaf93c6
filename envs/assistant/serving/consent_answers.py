"""Whether the answer to a question consents, or declines, and what else it says beside a code, in many languages.

Invariants: nothing but the whole of an answer counts. What holds a phrase that is not listed, of both kinds, or a question
mark at its end, is neither: "yes but not the door" consents to nothing.

The code of a lock or an alarm, which a person says to consent.

Invariants:
- A code goes to the real home alone. The sentence that gives it is in no log, and the model never reads it, neither then nor
  as a part of the dialogue later.
- What consists of a code is one if it answers the last question of the dialogue and this was ours for a code, so also where
  it comes too late, or again after it was wrong.

What people are asked, and wait to consent to.

Invariant: a proposal is taken once, within `CONSENT_SECONDS`, by the next message of the dialogue in which it was made. Who
speaks is part of a dialogue, so two people who say the same have a proposal each.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from homerl.envs.assistant.device_names import normalize_text
from homerl.envs.assistant.listing.areas_to_rooms import SPACELESS
from homerl.envs.assistant.serving.consent_guard import strip_accents
from homerl.envs.assistant.serving.exchange import Proposal
from homerl.envs.assistant.serving.live_situation import CODE, TwinCall
from homerl.envs.assistant.serving.reply_text import is_code_question
from homerl.envs.assistant.serving.secret_masking import HIDDEN
from homerl.envs.core.documents import read_yaml
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.home import Home

FILE = Path(__file__).parent / "consent.yaml"
ASKED = ("?", "？", ";")  # how a question ends
LONGEST = 60  # signs of an answer: more words say something else
Kind = Literal["yes", "no"]


def is_consent(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said gives consent, in any language. `language` is that of the home."""
    return _is_answer(said, "yes", language)


def is_refusal(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said refuses consent."""
    return _is_answer(said, "no", language)


def _is_answer(said: str, kind: Kind, language: str) -> bool:
    if len(said := said.strip()) > LONGEST or said.endswith(ASKED):
        return False
    return _answer_pattern(kind, language).fullmatch(_plain_letters(said)) is not None


@cache
def _answer_pattern(kind: Kind, language: str) -> re.Pattern[str]:
    """Finds an answer of one kind: its phrases and what fills, with one phrase at least."""
    phrases, filling = _any_of_phrases(_list_phrases(kind, language)), _any_of_phrases(_list_words("filling"))
    return re.compile(rf"{filling}*{phrases}(?:{phrases}|{filling})*")


@cache
def _frame_pattern(language: str) -> re.Pattern[str]:
    """Finds what may stand beside a code, which may be nothing."""
    return re.compile(rf"{_any_of_phrases(_list_phrases('yes', language) | _list_words('filling') | _list_words('code'))}*")


def _list_phrases(kind: Kind, language: str) -> set[str]:
    """The phrases of a kind, in all languages and in the home's own."""
    own = read_yaml(FILE).data["own"].get(language.partition("-")[0], {})
    other: Kind = "no" if kind == "yes" else "yes"
    mine = _list_words(kind) | set(map(_plain_letters, own.get(kind, ())))
    return mine - set(map(_plain_letters, own.get(other, ())))  # Polish says no for yes


def _list_words(key: str) -> set[str]:
    """What the file lists under a key, in all languages."""
    return {_plain_letters(one) for words in read_yaml(FILE).data[key].values() for one in words}


def _any_of_phrases(phrases: set[str]) -> str:
    """Finds one of these phrases and the space behind it. In a script without spaces there need be none."""
    ends = (f"{re.escape(one)}(?: |$)" if not SPACELESS.search(one) else f"{re.escape(one)} ?" for one in phrases)
    return f"(?:{'|'.join(sorted(ends))})"


def _plain_letters(text: str) -> str:
    return strip_accents(normalize_text(text)).translate({0x307: None})


SAID = re.compile(r"(\D*)(\d[\d\s-]{1,18}\d)(\D*)")


def parse_spoken_code(said: str, language: str = "en") -> str | None:
    """The code of which an answer consists, alone or beside a yes: `1234`, "yes, 12 34", "the code is 1234, please"."""
    found = SAID.fullmatch(said.strip())
    if found is None:
        return None
    for beside in (found[1], found[3]):  # which may say nothing but yes, and that this is the code
        if len(beside) > LONGEST or not _frame_pattern(language).fullmatch(_plain_letters(beside)):
            return None
    return re.sub(r"[\s-]", "", found[2])


def find_spoken_codes(dialogue: Iterable[Message], language: str) -> list[str | None]:
    """The code that each message of a dialogue gives, or None."""
    codes, wanted = list[str | None](), False
    for message in dialogue:
        text, asks = message["content"], message["role"] == "assistant"
        if asks and (is_code_question(text) or text.endswith(ASKED)):
            wanted = is_code_question(text)
        codes.append(parse_spoken_code(text, language) if wanted and not asks else None)
    return codes


def hide_spoken_codes(dialogue: Sequence[Message], codes: Sequence[str | None]) -> list[Message]:
    """A dialogue with `***` in place of each message that gives a code."""
    return [message | {"content": HIDDEN} if code else message for message, code in zip(dialogue, codes)]


def fill_in_code(home: Home, made: Iterable[TwinCall], code: str) -> list[TwinCall]:
    """Calls with the code in those that want one."""
    return [replace(one, arguments={**one.arguments, CODE: code}) if one.needs_code(home) else one for one in made]


CONSENT_SECONDS = 300
PROPOSALS = 100  # that wait for consent at most; the oldest go


@dataclass
class WaitingProposals:
    """The proposals that wait, by the dialogue that each ends, with the monotonic time until which it is good."""

    proposals: dict[str, tuple[float, Proposal]] = field(default_factory=dict)

    def add_proposal(self, dialogue: Sequence[Message], speaker: str, proposal: Proposal) -> None:
        """Let a proposal wait that ends a dialogue."""
        self.proposals[_hash_dialogue(dialogue, speaker)] = time.monotonic() + CONSENT_SECONDS, proposal
        while len(self.proposals) > PROPOSALS:
            del self.proposals[next(iter(self.proposals))]

    def take_proposal(self, dialogue: Sequence[Message], speaker: str) -> Proposal | None:
        """The proposal that ends a dialogue, which waits no more."""
        until, found = self.proposals.pop(_hash_dialogue(dialogue, speaker), (0.0, None))
        return found if until > time.monotonic() else None


def _hash_dialogue(dialogue: Sequence[Message], speaker: str) -> str:
    """A hash of a dialogue so far: which conversation it is, since a request carries all of it."""
    said = [speaker, *((message["role"], message["content"]) for message in dialogue)]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()
