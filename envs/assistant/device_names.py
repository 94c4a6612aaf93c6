"""Whether a person's words name a device.

Invariants: only a whole name counts, only where no other device that can be called has it, and not within a longer name of
any other device; nothing here is random.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from homerl.envs.assistant.listing.areas_to_rooms import SPACELESS
from homerl.envs.assistant.listing.homeassistant_mapping import device_link
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home

FILLING = r"[\s的の]"  # what may stand between the words of a name in a script without spaces
LEAST = 3  # signs of a name in such a script: 门锁 is what many locks are called
GAP = "|"  # no name has it, so none reaches across


def is_device_named(said: str, home: Home, device: Device) -> bool:
    """Whether a person's words hold a whole name of a device, or an alias.

    A name of other devices with which something can be done counts with the room alone. So does a name of one word, for
    `Door` may be what is left of `Garage Door`. What is part of a longer name of another device does not count: the front
    door light is no front door, and neither is the front door battery.
    """
    others = [one for one in home.plan.devices if one.did != device.did]
    shared = _names_as_phrases(home, [one for one in others if one.spec.service_index])
    known, heard = _names_as_phrases(home, others), normalize_text(said)
    aliases = {normalize_text(alias) for alias in device_link(home, device.did).aliases}
    for phrase in _names_as_phrases(home, [device]) - shared:
        one_word = " " not in phrase and (len(phrase) < LEAST or not SPACELESS.search(phrase))
        if not re.sub(FILLING, "", phrase) or (one_word and phrase not in aliases):
            continue  # it does not tell which device is meant
        if _is_heard(heard, phrase, shared, known):
            return True
    return False


def full_device_names(home: Home, device: Device) -> list[str]:
    """All that a device is called: its name, its whole name there, both with each name of its room, and its aliases."""
    link = device_link(home, device.did)
    own = [device.name, *([link.name] if link.name else [])]
    return [*own, *(f"{room} {name}" for room in room_names(home, device) for name in own), *link.aliases]


def room_names(home: Home, device: Device) -> list[str]:
    """The names of a device's room."""
    origin = home.plan.origin
    return [device.room.name, *(origin.rooms.get(device.room.id, ()) if origin else ())]


def normalize_text(text: str) -> str:
    """A text in small letters, with one space in place of signs. However a letter with an accent is written, it is one."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # a mark (M) is part of a letter, such as a vowel of Hindi or Thai
    words = (sign if sign.isalnum() or unicodedata.category(sign).startswith("M") else " " for sign in folded)
    return " ".join("".join(words).split())


def _names_as_phrases(home: Home, devices: Iterable[Device]) -> set[str]:
    return {normalize_text(name) for device in devices for name in full_device_names(home, device)}


def _is_heard(heard: str, phrase: str, shared: set[str], known: set[str]) -> bool:
    """Whether a phrase is heard outside of the longer ones that are known. The same one hides it only if it is shared."""
    own = _phrase_pattern(phrase)
    longer = (one for one in known if own.search(one) and (one in shared or not own.fullmatch(one)))
    for one in sorted(longer, key=len, reverse=True):
        heard = _phrase_pattern(one).sub(GAP, heard)
    return bool(own.search(heard))


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Finds a phrase in whole words, if its script has words."""
    if SPACELESS.search(phrase):
        return re.compile(f"{FILLING}*".join(map(re.escape, re.sub(FILLING, "", phrase))))
    return re.compile(rf"(?<!\S){re.escape(phrase)}(?!\S)")
