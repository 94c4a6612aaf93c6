"""Which calls need a person's consent.

Invariants:
- A device is guarded by its kind, its names, the names of its room, or by what it drives. Whatever acts on things that the
  twin does not show, such as a script, is guarded; so is a cover unless its class is known to be harmless and nothing that
  it is called itself tells of a door. A group whose members were never seen is guarded.
- A device is held back like a guarded one if an automation that the twin cannot follow may then act on a guarded one.
- A guarded device is never acted on without consent, unless its owner allowed it by id and the speaker's own words name it
  in full. So no name, state or title of a device in the home can bring an agent to open a lock that nobody spoke of.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envs.documents import read_yaml
from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from homerl.homeassistant.listing import ENTITY
from homerl.homeassistant.rooms import SPACELESS
from homerl.homeassistant.translation import domain_of, link_of
from homerl.worlds.homeenv.live import Made
from homerl.worlds.homeenv.serving.naming import called_in_full, names, plain, rooms_of
from homerl.worlds.homeenv.serving.unforeseen import unforeseen

FILE = Path(__file__).parent / "guard.yaml"
KINDS = frozenset(  # these open the home, arm it, or can set it on fire
    "lock alarm_control_panel alarm_panel garage_door opener oven stove gas_valve valve water_heater".split()
)
INDIRECT = frozenset(  # their effects are not in the twin; the last ones have no devices, but automations call them
    "script scene automation button input_button group remote rest_command shell_command python_script pyscript mqtt".split()
)
HARMLESS_COVERS = frozenset("awning blind curtain damper shade shutter".split())  # another class may let somebody in
DECLARED = frozenset(  # these say by their kind what they are: a lamp in a garage is no garage door
    "air_conditioner air_purifier ceiling_fan climate clothes_rack cover curtain dehumidifier dishwasher dryer fan "
    "humidifier lawn_mower light media_player refrigerator speaker thermostat timer todo tv vacuum washer".split()
)
MEMBERS = "entity_id"  # the attribute in which a group lists them
END = "-"  # before what ends a word: Wohnungstür
COMPOUND = 6  # letters from which on a word is found within others: Garagentor


@dataclass(frozen=True)
class Guard:
    """The owner's rules. `allowed` are the ids of guarded devices that need no consent if the speaker names them.

    `unseen` are the ids of devices that may be groups whose members nobody knows.
    """

    allowed: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()

    def needs_consent(self, home: Home, made: Sequence[Made], said: str, changed: Iterable[str] = ()) -> dict[str, str]:
        """The guarded devices among those called and `changed` that need consent, each with the reason."""
        dids = dict.fromkeys([*(one.did for one in made), *changed])
        return dict(self._held_back(home, dids, said))

    def led_to(self, home: Home, dids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The guarded entities to which automations may lead from these devices, unseen by the twin, by device."""
        members = {device.did: held for device in home.plan.devices if (held := [*_members(home, device)])}
        return unforeseen(home, dids, members, lambda did: _is_guarded_entity(home, did, self.unseen, frozenset()))

    def _held_back(self, home: Home, dids: Iterable[str], said: str) -> Iterator[tuple[str, str]]:
        led = self.led_to(home, dids)
        for did in dids:
            device = home.plan.by_did[did]
            guarded = is_guarded(home, device, self.unseen)
            if not guarded and did not in led:
                continue
            if did not in self.allowed:
                yield did, "guarded" if guarded else "automation"
            elif not names(said, home, device):
                yield did, "not named"


def unseen_groups(home: Home) -> frozenset[str]:
    """The devices of a home, as it was imported, that were not available then: a group does not list its members so."""
    found = (device.did for device in home.plan.devices if device.spec.service_index)
    return frozenset(
        did for did in found if (state := home.state_of(did)).get("state") == "unavailable" and MEMBERS not in state
    )


def is_guarded(
    home: Home, device: Device, unseen: frozenset[str] = frozenset(), within: frozenset[str] = frozenset()
) -> bool:
    """Whether a device may open the home, arm it, or set it on fire, itself or by what it drives.

    `unseen` are those of `Guard`. `within` are the groups by which it was reached, since groups may hold each other.
    """
    if _by_kind(device):
        return True
    if not device.spec.service_index:
        return False
    if device.did in unseen or _by_name(home, device):
        return True
    within |= {device.did}
    return any(_is_guarded_entity(home, one, unseen, within) for one in _members(home, device))


def _by_kind(device: Device) -> bool:
    data = device.spec.userdata
    if data.category == "cover":
        return data.subcategory not in HARMLESS_COVERS
    return data.category in KINDS | INDIRECT


def _by_name(home: Home, device: Device) -> bool:
    link, category = link_of(home, device.did), device.spec.category
    if category == "cover":  # any class may be a guess of its integration: the name tells, but a blind may hang in a garage
        own = [device.name, link.name or "", *link.aliases, device.did.partition(".")[2]]
        if _has_word(own, ["places"]):
            return True
    return _tells([*called_in_full(home, device), *rooms_of(home, device), device.did], category)


def _members(home: Home, device: Device) -> Iterator[str]:
    """The entities that a device lists, such as those of a group."""
    for value in home.state_of(device.did).values():
        if isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, str) and ENTITY.fullmatch(one))


def _is_guarded_entity(home: Home, did: str, unseen: frozenset[str], within: frozenset[str]) -> bool:
    """Whether what a group or an automation acts on is guarded. Of what the home does not have, only the id is known."""
    if did in within:
        return False
    if (device := home.plan.by_did.get(did)) is not None:
        return is_guarded(home, device, unseen, within)
    kind = domain_of(did)
    return kind in KINDS | INDIRECT | {"cover"} or _tells([did], kind)


def _tells(texts: Iterable[str], category: str) -> bool:
    """Whether a text says that a device of this category is to be guarded."""
    return _has_word(texts, ("acts",) if category in DECLARED else ("acts", "places"))


def _has_word(texts: Iterable[str], groups: Sequence[str]) -> bool:
    return any(_words(group).search(_without_harmless(text)) for text in texts for group in groups)


@cache
def _words(group: str) -> re.Pattern[str]:
    listed: dict[str, list[str]] = read_yaml(FILE).data[group]
    spellings = dict.fromkeys(way for words in listed.values() for word in words for way in (word, _without_marks(word)))
    return re.compile("|".join(map(_pattern, spellings)))


def _without_marks(word: str) -> str:
    """A word as ids have it, which have no accents. The end of a word is none of its own: `-tur` ends others."""
    if word.startswith(END):
        return word
    return "".join(sign for sign in unicodedata.normalize("NFKD", word) if not unicodedata.combining(sign))


def _pattern(word: str) -> str:
    if word.startswith(END):
        return rf"{re.escape(word.removeprefix(END))}\b"
    if len(word) >= COMPOUND or SPACELESS.search(word):
        return re.escape(word)
    return rf"\b{re.escape(word)}s?\b"


def _without_harmless(text: str) -> str:
    told = plain(text)
    for word in _harmless():
        told = told.replace(word, " ")
    return told


@cache
def _harmless() -> tuple[str, ...]:
    return tuple(read_yaml(FILE).data["harmless"])
