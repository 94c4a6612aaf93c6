"""A home without devices that its owner does not show any more.

Invariants: what is withdrawn is no device of the home, so no prompt tells of it and no call reaches it. An automation that
reads it or acts on it is known to the guard alone, as one that cannot be followed.

The real home of a caretaker: a Home Assistant.

Invariants:
- The token is sent to Home Assistant and nowhere else.
- While the home is followed, whatever may have changed which home it is (an event, a lost connection, a state of another
  form) is a doubt, and the home is read before the next sentence. So a restart of Home Assistant loses nothing.
- A twin from which something was withdrawn is a doubt until it is made anew, so what is exposed again comes back.
- `spoken` is Home Assistant's language, as it was told last; None until it is reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from homerl.envs.assistant.automations.automation_import import with_automation_texts
from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.exposure import find_withdrawn_devices
from homerl.envs.assistant.listing.home_listing import CONFIG, REGISTERED, Listing
from homerl.envs.assistant.listing.homeassistant_client import (
    PATIENCE,
    HomeAssistantClient,
    HomeAssistantError,
    connect_client,
    with_state_history,
)
from homerl.envs.assistant.listing.homeassistant_mapping import entity_domain, refresh_home, to_homeassistant
from homerl.envs.assistant.listing.setup_changes import (
    follow_setup_events,
    hash_home_setup,
    is_home_running,
    is_same_setup,
    merge_earlier_listing,
)
from homerl.envs.assistant.serving.call_effects import spoken_device_name
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.automation import compile_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan, Unfollowed
from homerl.envs.homeenv.sim.rules import HomeRule


def remove_devices(home: Home, gone: Collection[str]) -> Home:
    """A home without these devices; the home itself if it has none of them."""
    old = home.plan
    if not (gone := old.devices_by_did.keys() & gone):
        return home
    lost = [rule for rule in home.rules if gone & {*_devices_read(rule, old), *_devices_acted_on(rule)}]
    origin = old.origin
    if origin:  # the guard alone knows the automations that are lost
        ids = {rule.id for rule in lost}
        acts = [
            Unfollowed(id=rule.id, reads=tuple(_devices_read(rule, old)), acts=tuple(_devices_acted_on(rule)))
            for rule in lost
        ]
        told = {
            "devices": {did: link for did, link in origin.devices.items() if did not in gone},
            "hidden": tuple(one for one in origin.hidden if one.id not in ids),
            "unfollowed": (*origin.unfollowed, *acts),
        }
        origin = origin.model_copy(update=told)
    plan = replace(
        old,
        devices=tuple(device for device in old.devices if device.did not in gone),
        entrance=(old.entrance_room.id if old.entrance_room else None) if old.entrance in gone else old.entrance,
        origin=origin,
    )
    fresh = Home(plan, [home.read_value(slot.owner, slot.path) for slot in plan.slots], home.clock)
    fresh.rules = tuple(compile_rule(rule.definition, plan, rule.progress) for rule in home.rules if rule not in lost)
    return fresh


def _devices_read(rule: HomeRule, plan: FixedPlan) -> dict[str, None]:
    """The devices on which it depends whether a rule acts."""
    return dict.fromkeys(
        owner for slot in sorted(rule.compiled.slots_it_reads) if (owner := plan.slots[slot].owner) in plan.devices_by_did
    )


def _devices_acted_on(rule: HomeRule) -> Iterator[str]:
    return (action.did for action in rule.definition.actions)


GREETING = 10.0  # seconds for the first answer
QUIET = 1.0  # seconds after an event in which others are awaited
AGAIN = 5.0  # seconds before what failed is tried again

log = logging.getLogger(__name__)


class HomeAssistantHome:
    """A `RealHome` at a URL. `known` is what its twin was made of, if that was read there."""

    def __init__(self, url: str, token: SecretStr, known: Listing | None = None) -> None:
        self.url, self._token = url, token
        self.spoken: str | None = None
        self.known = known
        self._fresh: Home | None = None
        self._lacks = False  # whether something was withdrawn from a twin since the home was made
        self._doubt, self._reading = asyncio.Event(), asyncio.Lock()

    async def read_known_entities(self) -> frozenset[str]:
        """The entities that Home Assistant knows.

        Raises `HomeAssistantError` if the address or the token is wrong, or nothing answers.
        """
        async with self._connect(GREETING) as client:
            self._hear_language(await client.call_command(CONFIG))
            rows = [*await client.call_command(REGISTERED), *await client.read_states()]
            return frozenset(row["entity_id"] for row in rows)

    def _hear_language(self, config: Mapping[str, Any]) -> None:
        self.spoken = config.get("language") or self.spoken

    @asynccontextmanager
    async def _connect(self, patience: float = PATIENCE) -> AsyncIterator[HomeAssistantClient]:
        async with connect_client(self.url, self._token, patience) as client:
            self.url = client.url
            yield client

    async def take_renewed_home(self) -> Home | None:
        """The home as it is set up now, if it is another one than was given last; None if not."""
        async with self._reading:
            if self._doubt.is_set():
                await self._read_home()
            fresh, self._fresh = self._fresh, None
            return fresh

    async def follow_home(self) -> None:
        """Hear what happens to the home, for ever, and read it once it is quiet, before anybody asks."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hear_events())
            tasks.create_task(self._read_when_quiet())

    async def _hear_events(self) -> None:
        while True:
            try:
                async with self._connect() as client:
                    async for _ in follow_setup_events(client):
                        self._doubt.set()  # at the beginning too: what happened before was not heard
            except HomeAssistantError as error:
                log.info("%s", error)
                self._doubt.set()  # until it is heard again
            await asyncio.sleep(AGAIN)

    async def _read_when_quiet(self) -> None:
        while True:
            await self._doubt.wait()
            await asyncio.sleep(QUIET)
            try:
                async with self._reading:
                    if self._doubt.is_set():
                        await self._read_home()
            except HomeAssistantError as error:
                log.info("%s", error)
            if self._doubt.is_set():
                await asyncio.sleep(AGAIN)

    async def _read_home(self) -> None:
        """Read the home, and make it anew if its setup has changed. While Home Assistant starts, it stays as it was."""
        self._doubt.clear()  # what happens meanwhile sets it again
        try:
            async with self._connect() as client:
                listing = await client.read_listing()
                self._hear_language(listing.sources[CONFIG])
                listing = merge_earlier_listing(await with_automation_texts(client, listing), self.known)
                listing = await with_state_history(client, listing)
            if is_home_running(listing):
                if self._lacks or self.known is None or hash_home_setup(listing) != hash_home_setup(self.known):
                    self._fresh, self._lacks = (await asyncio.to_thread(import_home, listing)).home, False
                self.known = listing
            else:
                self._doubt.set()
        except InputError as nothing:  # is exposed any more
            log.info("%s", nothing)
        except (HomeAssistantError, asyncio.CancelledError):
            self._doubt.set()
            raise
        except Exception:  # whatever it says of itself: what is not exposed any more is left out all the same
            log.exception("the home could not be read anew, and stays as it was")

    async def refresh_twin(self, twin: Home) -> Home:
        """The twin with the states that Home Assistant has now, at this moment, without what is not exposed any more.

        What is exposed and has no state, since it was disabled or Home Assistant is starting, is unavailable.
        """
        async with self._connect() as client:
            states = await client.read_states()
            as_known = is_same_setup(self.known, states, await client.read_exposed_entities())
            known = {row["entity_id"] for row in states}
            states += [unavailable_state(device.did) for device in twin.plan.devices if device.did not in known]
            gone = await find_withdrawn_devices(client, twin.plan.devices_by_did, states)
        self._lacks |= bool(gone)
        if self._lacks or not as_known:
            self._doubt.set()
        return refresh_home(remove_devices(twin, gone), states, datetime.now(UTC))

    async def ask_service(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        """What a service of a device answers that changes nothing. Nothing is asked of what is not exposed any more."""
        domain = entity_domain(did)
        async with self._connect() as client:
            if await find_withdrawn_devices(client, {did}, [unavailable_state(did)]):
                raise HomeAssistantError(f"{did} is not exposed to Assist any more.")
            return await client.call_service(domain, service, data, {"entity_id": did}, returns=True)

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        """Call the service that a call of the twin stands for, and wait until it is carried out.

        It is not called if its entity is not exposed any more.
        """
        call = to_homeassistant(twin, made.did, made.service, made.arguments)
        try:
            async with asyncio.timeout(PATIENCE), self._connect() as client:
                if await find_withdrawn_devices(client, {made.did}, [unavailable_state(made.did)]):
                    raise HomeAssistantError(f"{spoken_device_name(twin.plan, made.did)} is not exposed to Assist any more.")
                await client.call_service(call.domain, call.service, call.data, call.target)
        except TimeoutError:
            what = f"{self.url} did not say within {PATIENCE:.0f} s that {call.domain}.{call.service} is done."
            raise HomeAssistantError(what) from None


def unavailable_state(entity: str) -> dict[str, Any]:
    """The state of an entity that cannot be reached, as Home Assistant writes it."""
    return {"entity_id": entity, "state": "unavailable", "attributes": {}}
