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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from homerl.envs.assistant.listing.listing import ENTITY
from homerl.envs.assistant.listing.translation import device_link, entity_domain
from homerl.envs.assistant.naming import full_device_names, is_device_named, room_names
from homerl.envs.assistant.serving.live import TwinCall
from homerl.envs.assistant.serving.unforeseen import find_unforeseen_ends
from homerl.envs.assistant.serving.wording import has_guard_word
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home

KINDS = frozenset(  # these open the home, arm it, or can set it on fire
    "lock alarm_control_panel alarm_panel siren garage_door opener oven stove gas_valve valve water_heater".split()
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


@dataclass(frozen=True)
class Guard:
    """The owner's rules. `allowed` are the ids of guarded devices that need no consent if the speaker names them.

    `held` are the ids of devices that are guarded whatever they show now, also if they are withdrawn, and `groups` what the
    devices of the home list, or listed.
    """

    allowed: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_known_home(self, home: Home) -> Guard:
        """The guard with what a home, as it was imported, tells of its devices. What it does not show is held as before."""
        unseen = _unseen_groups(home)
        held = unseen | {device.did for device in home.plan.devices if is_guarded(home, device, unseen)}
        hidden = self.held - (home.plan.devices_by_did.keys() - unseen)
        return replace(self, held=held | hidden, groups={**self.groups, **_groups(home)})

    def with_held_devices(self, dids: frozenset[str]) -> Guard:
        """The guard with further devices that are guarded, whatever the owner allowed."""
        return replace(self, held=self.held | dids, allowed=self.allowed - dids)

    def needs_consent(self, home: Home, made: Sequence[TwinCall], said: str, changed: Iterable[str] = ()) -> dict[str, str]:
        """The guarded devices among those called and `changed` that need consent, each with the reason."""
        dids = dict.fromkeys([*(one.did for one in made), *changed])
        return dict(self._held_back(home, dids, said))

    def find_unfollowed_ends(self, home: Home, dids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The guarded entities to which automations may lead from these devices, unseen by the twin, by device."""
        members = {**self.groups, **_groups(home)}
        return find_unforeseen_ends(home, dids, members, lambda did: _is_guarded_entity(home, did, self.held, frozenset()))

    def _held_back(self, home: Home, dids: Iterable[str], said: str) -> Iterator[tuple[str, str]]:
        led = self.find_unfollowed_ends(home, dids)
        for did in dids:
            device = home.plan.devices_by_did[did]
            guarded = is_guarded(home, device, self.held)
            if not guarded and did not in led:
                continue
            if did not in self.allowed:
                yield did, "guarded" if guarded else "automation"
            elif not is_device_named(said, home, device):
                yield did, "not named"


def _unseen_groups(home: Home) -> frozenset[str]:
    """The devices of a home, as it was imported, that were not available then: a group does not list its members so."""
    found = (device.did for device in home.plan.devices if device.spec.service_index)
    return frozenset(
        did for did in found if (state := home.state_of(did)).get("state") == "unavailable" and MEMBERS not in state
    )


def is_guarded(home: Home, device: Device, held: frozenset[str] = frozenset(), within: frozenset[str] = frozenset()) -> bool:
    """Whether a device may open the home, arm it, or set it on fire, itself or by what it drives.

    `held` are those of `Guard`. `within` are the groups by which it was reached, since groups may hold each other.
    """
    if _by_kind(device):
        return True
    if not device.spec.service_index:
        return False
    if device.did in held or _by_name(home, device):
        return True
    within |= {device.did}
    return any(_is_guarded_entity(home, one, held, within) for one in _members(home, device))


def _by_kind(device: Device) -> bool:
    data = device.spec.userdata
    if data.category == "cover":
        return data.subcategory not in HARMLESS_COVERS
    return data.category in KINDS | INDIRECT


def _by_name(home: Home, device: Device) -> bool:
    link, category = device_link(home, device.did), device.spec.category
    if category == "cover":  # any class may be a guess of its integration: the name tells, but a blind may hang in a garage
        own = [device.name, link.name or "", *link.aliases, device.did.partition(".")[2]]
        if has_guard_word(own, "places"):
            return True
    return _tells([*full_device_names(home, device), *room_names(home, device), device.did], category)


def _groups(home: Home) -> dict[str, tuple[str, ...]]:
    return {device.did: listed for device in home.plan.devices if (listed := tuple(_members(home, device)))}


def _members(home: Home, device: Device) -> Iterator[str]:
    """The entities that a device lists, such as those of a group."""
    for value in home.state_of(device.did).values():
        if isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, str) and ENTITY.fullmatch(one))


def _is_guarded_entity(home: Home, did: str, held: frozenset[str], within: frozenset[str]) -> bool:
    """Whether what a group or an automation acts on is guarded. Of what the home does not have, only the id is known."""
    if did in within:
        return False
    if (device := home.plan.devices_by_did.get(did)) is not None:
        return is_guarded(home, device, held, within)
    kind = entity_domain(did)
    return did in held or kind in KINDS | INDIRECT | {"cover"} or _tells([did], kind)


def _tells(texts: Iterable[str], category: str) -> bool:
    """Whether a text says that a device of this category is to be guarded."""
    return has_guard_word(texts, "acts") if category in DECLARED else has_guard_word(texts, "acts", "places", "flows")
