"""Which calls need a person's consent.

Invariants: a guarded device is never acted on without consent, unless its owner allowed it by id and the speaker's own words
name it. So no name, state or title of a device in the home can bring an agent to open a lock that nobody spoke of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from homerl.worlds.homeenv.live import Made

KINDS = frozenset("lock alarm_control_panel alarm_panel garage_door opener oven stove gas_valve valve water_heater".split())
OPENINGS = frozenset("garage gate door".split())  # classes of covers that let somebody in
DANGEROUS = re.compile(
    r"\b(locks?|alarms?|garage|gates?|oven|stove|cooker|hob|safe|boiler)\b|锁|报警|车库|大门|烤箱|炉|灶", re.I
)
WORD = re.compile(r"[^\W\d_]{3,}|[\u3400-\u9fff]")


def is_guarded(device: Device) -> bool:
    """Whether a device opens the home, arms it, or can set it on fire: by its kind, or by its name or id."""
    data = device.spec.userdata
    if data.category in KINDS or (data.category == "cover" and OPENINGS & {data.subcategory, *data.tags}):
        return True
    controllable = bool(device.spec.service_index)
    return controllable and bool(DANGEROUS.search(f"{device.name} {device.did.replace('_', ' ').replace('.', ' ')}"))


@dataclass(frozen=True)
class Guard:
    """The owner's rules. `allowed` are the ids of guarded devices that need no consent if the speaker names them."""

    allowed: frozenset[str] = frozenset()

    def needs_consent(self, home: Home, made: Sequence[Made], said: str) -> dict[str, str]:
        """The guarded devices of these calls that need consent, each with the reason."""
        return dict(self._held_back(home, made, said))

    def _held_back(self, home: Home, made: Sequence[Made], said: str) -> Iterator[tuple[str, str]]:
        for did in dict.fromkeys(one.did for one in made):
            device = home.plan.by_did[did]
            if not is_guarded(device):
                continue
            if did not in self.allowed:
                yield did, "guarded"
            elif not names(said, device):
                yield did, "not named"


def names(said: str, device: Device) -> bool:
    """Whether words of a person name a device: they share a word with its name, its kind or its id."""
    known = f"{device.name} {device.spec.category} {device.did}".replace("_", " ").replace(".", " ")
    return bool(_words(said) & (_words(known) - {"the", "and"}))


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in WORD.findall(text.casefold())}
