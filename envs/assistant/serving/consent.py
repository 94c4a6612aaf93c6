"""Which calls need a person's consent, and what gives it.

What is guarded:
- A device is guarded by its kind, its names, the names of its room, or by what it drives. Whatever acts on things that the
  twin does not show, such as a script, is guarded; so is a cover unless its class is known to be harmless and nothing that
  it is called itself tells of a door. A group whose members were never seen is guarded.
- A device is held back like a guarded one if an automation that the twin cannot follow may then act on a guarded one.
- A guarded device is never acted on without consent, unless its owner allowed it by id and the speaker's own words name it
  in full. So no name, state or title of a device in the home can bring an agent to open a lock that nobody spoke of.
- In a home whose language has no such words, a switch asks unless its device class calls it harmless.

What consents:
- Nothing but the whole of an answer counts, in many languages. What holds a phrase that is not listed, of both kinds, or a
  question mark at its end, is neither: "yes but not the door" consents to nothing.
- A code of a lock or an alarm goes to the real home alone. The sentence that gives it is in no log, and the model never
  reads it, neither then nor as a part of the dialogue later. What consists of a code is one if it answers the last question
  of the dialogue and this was ours for a code, so also where it comes too late, or again after it was wrong.
- A proposal is taken once, within `CONSENT_SECONDS`, by the next message of the dialogue in which it was made. Who speaks is
  part of a dialogue, so two people who say the same have a proposal each.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from homerl.envs.assistant.automations.automation_text import TELLING
from homerl.envs.assistant.listing.guard_words import (
    DECLARED,
    has_guard_word,
    has_guard_words,
    strip_accents,
    tells_to_guard,
)
from homerl.envs.assistant.listing.home_listing import entity_domain
from homerl.envs.assistant.listing.homeassistant_mapping import device_link
from homerl.envs.assistant.listing.room_and_device_names import (
    SPACELESS,
    full_device_names,
    is_device_named,
    normalize_text,
    room_names,
)
from homerl.envs.assistant.serving.call_effects import INDIRECT, Effects, facts_beside, list_groups, listed_entities
from homerl.envs.assistant.serving.exchange_journal import Proposal
from homerl.envs.assistant.serving.live_situation import CODE, TwinCall
from homerl.envs.assistant.serving.reply_text import QUESTION_MARKS, is_code_question
from homerl.envs.assistant.serving.secret_masking import HIDDEN
from homerl.envs.core.documents import read_yaml
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.guarded_kinds import is_guarded_kind
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import ANYTHING

ANSWERS = Path(__file__).with_suffix(".yaml")

SWITCHES = frozenset("switch button input_button".split())
KNOWN_KINDS = frozenset(  # of entities and services that are none of the above: the services of another may do anything
    "adaptive_lighting ai_task air_quality assist_satellite binary_sensor calendar camera cast counter date datetime "
    "device_tracker event geo_location homeassistant hue image image_processing input_boolean input_datetime input_number "
    "input_select input_text lifx mobile_app music_assistant number person plant schedule select sensor sonos stt sun "
    "switch text time update wake_word weather zone".split()
)
ORDINARY = (DECLARED | TELLING | KNOWN_KINDS) - {"cover"}
HARMLESS_SWITCHES = frozenset(["outlet"])  # device classes: what hangs at another switch is not told
MEMBERS = "entity_id"  # the attribute in which a group lists them


@dataclass(frozen=True)
class Guard:
    """The owner's rules. `allowed` are the ids of guarded devices that need no consent if the speaker names them.

    `held` are the ids of devices that are guarded whatever they show now, also if they are withdrawn, and `groups` what the
    devices of the home list, or listed.
    """

    allowed: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_known_home(self, home: Home, language: str = "en") -> Guard:
        """The guard with what a home, as it was imported, tells of its devices. What it does not show is held as before.

        `language` is what the home speaks. If its words are not known, the names of switches tell nothing.
        """
        # what was not available when the home was imported: a group does not list its members then
        found = ((one.did, home.state_of(one.did)) for one in home.plan.devices if one.spec.service_index)
        unseen = frozenset(did for did, state in found if state.get("state") == "unavailable" and MEMBERS not in state)
        held = unseen | {device.did for device in home.plan.devices if is_guarded(home, device.did, unseen)}
        if not has_guard_words(language):
            held |= {one.did for one in home.plan.devices if _is_switch_of_unknown_use(one)}
        hidden = self.held - home.plan.devices_by_did.keys()
        return replace(self, held=held | hidden, groups={**self.groups, **list_groups(home)})

    def with_held_devices(self, dids: frozenset[str]) -> Guard:
        """The guard with further devices that are guarded, whatever the owner allowed."""
        return replace(self, held=self.held | dids, allowed=self.allowed - dids)

    def needs_consent(self, home: Home, effects: Effects, said: str) -> dict[str, str]:
        """The guarded devices that calls touch and that need consent, each with the reason."""
        led, reasons = self.find_guarded_ends(home, effects), dict[str, str]()
        for did in effects.touched_dids:
            guarded = is_guarded(home, did, self.held)
            if not guarded and did not in led:
                continue
            if did not in self.allowed:
                reasons[did] = "guarded" if guarded else "automation"
            elif not is_device_named(said, home, home.plan.devices_by_did[did]):
                reasons[did] = "not named"
        return reasons

    def find_guarded_ends(self, home: Home, effects: Effects) -> dict[str, set[str]]:
        """The guarded entities on which automations may act unseen, by the device that leads to them."""
        found = {did: {end for end in ends if is_guarded(home, end, self.held)} for did, ends in effects.unseen.items()}
        return {did: ends for did, ends in found.items() if ends}


def is_guarded(home: Home, did: str, held: frozenset[str] = frozenset(), within: frozenset[str] = frozenset()) -> bool:
    """Whether a device may open the home, arm it, or set it on fire, itself or by what it drives.

    `held` are those of `Guard`. `within` are the groups by which it was reached, since groups may hold each other. Of what
    the home does not have, the id is known, and what its origin tells beside: of an entity, or of a service that an
    automation calls, or that it may act on anything, or on anything of a kind. Nobody knows what the services of an
    integration do.
    """
    device, kind = home.plan.devices_by_did.get(did), entity_domain(did)
    beside = facts_beside(home, did)
    if device is None:
        if did.rpartition(".")[2] == ANYTHING:
            return kind not in DECLARED - {"cover"}
        if did in held or beside.guarded or kind not in ORDINARY or tells_to_guard([did], kind):
            return True
        within |= {did}
        return any(one not in within and is_guarded(home, one, held, within) for one in beside.lists)
    data = device.spec.userdata
    if data.category in INDIRECT or is_guarded_kind(device.spec):
        return True
    if not device.spec.service_index:
        return False
    if did in held or _has_guarded_name(home, device):
        return True
    within |= {did}
    return any(one not in within and is_guarded(home, one, held, within) for one in listed_entities(home, device))


def _is_switch_of_unknown_use(device: Device) -> bool:
    data = device.spec.userdata
    return data.category in SWITCHES and data.subcategory not in HARMLESS_SWITCHES


def _has_guarded_name(home: Home, device: Device) -> bool:
    link, category = device_link(home, device.did), device.spec.category
    if category == "cover":  # any class may be a guess of its integration: the name tells, but a blind may hang in a garage
        own = [device.name, link.name or "", *link.aliases, device.did.partition(".")[2]]
        if has_guard_word(own, "places"):
            return True
    return tells_to_guard([*full_device_names(home, device), *room_names(home, device), device.did], category)


APOSTROPHE = re.compile("['’]")
LONGEST = 60  # signs of an answer: more words say something else
Kind = Literal["yes", "no"]


def is_consent(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said gives consent, in any language. `language` is that of the home."""
    return _is_answer(said, "yes", language)


def is_refusal(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said refuses consent."""
    return _is_answer(said, "no", language)


def _is_answer(said: str, kind: Kind, language: str) -> bool:
    if len(said := said.strip()) > LONGEST or said.endswith(QUESTION_MARKS):
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
    own = read_yaml(ANSWERS).data["own"].get(language.partition("-")[0], {})
    other: Kind = "no" if kind == "yes" else "yes"
    mine = _list_words(kind) | _write_phrases(own.get(kind, ()))
    return mine - _write_phrases(own.get(other, ()))  # Polish says no for yes


def _list_words(key: str) -> set[str]:
    """What the file lists under a key, in all languages."""
    return _write_phrases(one for words in read_yaml(ANSWERS).data[key].values() for one in words)


def _write_phrases(phrases: Iterable[str]) -> set[str]:
    """Phrases as they are compared: each with its apostrophes as gaps, and as if speech recognition had lost them."""
    return {_plain_letters(way) for one in phrases for way in (one, APOSTROPHE.sub("", one))}


@cache
def denying_words(language: str) -> frozenset[str]:
    """What a sentence of a language says if something is not wanted, in words like "don t"; none if they are not listed."""
    return frozenset(_write_phrases(read_yaml(ANSWERS).data["denying"].get(language.partition("-")[0], ())))


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
        if asks and (is_code_question(text) or text.endswith(QUESTION_MARKS)):
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
