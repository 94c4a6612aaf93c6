"""The real home of a caretaker, a Home Assistant: what is read there, what is carried out, and whether it came so.

Invariants:
- The token is sent to Home Assistant and nowhere else.
- While the home is followed, whatever may have changed which home it is (an event, a lost connection, a state of another
  form) is a doubt, and the home is read before the next sentence. So a restart of Home Assistant loses nothing.
- A twin from which something was withdrawn is a doubt until it is made anew, so what is exposed again comes back. What is
  withdrawn is no device of the twin, so no prompt tells of it and no call reaches it. An automation that reads it or acts on
  it is known to the guard alone, as one that cannot be followed.
- Calls are made one after the other, until one fails or nobody waits for them any more; what was done until then stands in
  the exchange.
- What tools read that no state tells (events, media, what stands on lists) goes to the model, and into no log. A list that
  cannot be read keeps what its state tells.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from pydantic import SecretStr

from homerl.envs.assistant.automations.automation_import import with_automation_texts
from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import CONFIG, REGISTERED, Listing, entity_domain
from homerl.envs.assistant.listing.home_setup import (
    find_withdrawn_devices,
    follow_setup_events,
    hash_home_setup,
    is_home_running,
    is_same_setup,
    merge_earlier_listing,
)
from homerl.envs.assistant.listing.homeassistant_client import (
    PATIENCE,
    HomeAssistantClient,
    HomeAssistantError,
    connect_client,
    with_state_history,
)
from homerl.envs.assistant.listing.homeassistant_mapping import home_zone, refresh_home, to_homeassistant
from homerl.envs.assistant.listing.room_and_device_names import spoken_device_name
from homerl.envs.assistant.serving.call_effects import compare_change
from homerl.envs.assistant.serving.exchange_journal import Exchange
from homerl.envs.assistant.serving.home_words import CATEGORIES, HomeWords
from homerl.envs.assistant.serving.live_situation import Answers, TwinCall, tool_call_key
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.assist import assist_tools as assist
from homerl.envs.homeenv.sim.assist.intents import EntityConstraints, IntentFailed, NoMatch, match_entities
from homerl.envs.homeenv.sim.automation import compile_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan, Unfollowed
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.toolset import RunResult
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import read_tool_calls

GREETING = 10.0  # seconds for the first answer
QUIET = 1.0  # seconds after an event in which others are awaited
AGAIN = 5.0  # seconds before what failed is tried again

log = logging.getLogger(__name__)
DAYS = {"today": 1, "week": 7}
MOST_RESULTS = 35
ASSIST = "assist"  # the toolset whose tools name the list that they are about
LIST, LONGEST, MOST_ITEMS = "todo", 200, 100  # the domain of lists, signs of an item, items of a list
RESULT = ("title", "media_class", "media_content_type", "media_content_id", "can_play", "can_search")
SLOW, LONGER = ("media_player", "vacuum", "lawn_mower"), 4  # domains that take their time, and how many times as long
LOOK_SECONDS = 5.0  # beyond those to settle, in which the real home tells its states


class RealHome(Protocol):
    """The home outside. All methods raise `HomeAssistantError`. `spoken` is its language, or None until it has told.

    `words` are its own ones for states and services.
    """

    spoken: str | None
    words: HomeWords

    async def take_renewed_home(self) -> Home | None:
        """The home as it is set up now, if it is another one than was given last; None if not."""

    async def refresh_twin(self, twin: Home) -> Home:
        """The twin with the states that the real home has now, without the devices that it does not show any more."""

    async def ask_service(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        """What a service of a device answers that changes nothing."""

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        """Make a call in the real home."""


class HomeAssistantHome:
    """A `RealHome` at a URL. `known` is what its twin was made of, if that was read there."""

    def __init__(self, url: str, token: SecretStr, known: Listing | None = None) -> None:
        self.url, self._token = url, token
        self.spoken: str | None = None
        self.words = HomeWords()
        self.known = known
        self._fresh: Home | None = None
        self._lacks = False  # whether something was withdrawn from a twin since the home was made
        self._doubt, self._reading = asyncio.Event(), asyncio.Lock()

    async def read_known_entities(self) -> frozenset[str]:
        """The entities that Home Assistant knows.

        Raises `HomeAssistantError` if the address or the token is wrong, or nothing answers.
        """
        async with self._connect(GREETING) as client:
            await self._hear_language(client, await client.call_command(CONFIG))
            rows = [*await client.call_command(REGISTERED), *await client.read_states()]
            return frozenset(row["entity_id"] for row in rows)

    async def _hear_language(self, client: HomeAssistantClient, config: Mapping[str, Any]) -> None:
        """Take the language that the home tells, and its words for what agents do. Without them, English stands for them."""
        self.spoken = config.get("language") or self.spoken
        if self.spoken and self.spoken != self.words.language:
            texts: Mapping[str, str] = {}
            if self.spoken.partition("-")[0] != "en":
                try:
                    texts = await client.read_translations(self.spoken, CATEGORIES)
                except HomeAssistantError as error:
                    log.info("%s", error)
            self.words = HomeWords(self.spoken, texts)

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
                await self._hear_language(client, listing.sources[CONFIG])
                listing = merge_earlier_listing(await with_automation_texts(client, listing), self.known)
                listing = await with_state_history(client, listing)
            if is_home_running(listing):
                if self._lacks or self.known is None or await asyncio.to_thread(_is_other_home, listing, self.known):
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
            await _require_exposed(client, did, did)
            return await client.call_service(domain, service, data, {"entity_id": did}, returns=True)

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        """Call the service that a call of the twin stands for, and wait until it is carried out.

        It is not called if its entity is not exposed any more.
        """
        call = to_homeassistant(twin, made.did, made.service, made.arguments)
        try:
            async with asyncio.timeout(PATIENCE), self._connect() as client:
                await _require_exposed(client, made.did, spoken_device_name(twin.plan, made.did))
                await client.call_service(call.domain, call.service, call.data, call.target)
        except TimeoutError:
            what = f"{self.url} did not say within {PATIENCE:.0f} s that {call.domain}.{call.service} is done."
            raise HomeAssistantError(what) from None


def _is_other_home(listing: Listing, known: Listing) -> bool:
    return hash_home_setup(listing) != hash_home_setup(known)


async def _require_exposed(client: HomeAssistantClient, did: str, name: str) -> None:
    """Raise `HomeAssistantError` if a device, of this name, is not exposed any more."""
    if await find_withdrawn_devices(client, {did}, [unavailable_state(did)]):
        raise HomeAssistantError(f"{name} is not exposed to Assist any more.")


def unavailable_state(entity: str) -> dict[str, Any]:
    """The state of an entity that cannot be reached, as Home Assistant writes it."""
    return {"entity_id": entity, "state": "unavailable", "attributes": {}}


def remove_devices(home: Home, gone: Collection[str]) -> Home:
    """A home without these devices; the home itself if it has none of them."""
    old = home.plan
    if not (gone := old.devices_by_did.keys() & gone):
        return home
    lost = []
    for rule in home.rules:
        reads, acts = _devices_read(rule, old), tuple(action.did for action in rule.definition.actions)
        if gone & {*reads, *acts}:
            lost.append(Unfollowed(id=rule.id, reads=tuple(reads), acts=acts))
    ids, origin = {one.id for one in lost}, old.origin
    if origin:  # the guard alone knows the automations that are lost
        told = {
            "devices": {did: link for did, link in origin.devices.items() if did not in gone},
            "hidden": tuple(one for one in origin.hidden if one.id not in ids),
            "unfollowed": (*origin.unfollowed, *lost),
        }
        origin = origin.model_copy(update=told)
    plan = replace(
        old,
        devices=tuple(device for device in old.devices if device.did not in gone),
        entrance=(old.entrance_room.id if old.entrance_room else None) if old.entrance in gone else old.entrance,
        origin=origin,
    )
    fresh = Home(plan, [home.read_value(slot.owner, slot.path) for slot in plan.slots], home.clock)
    fresh.rules = tuple(compile_rule(rule.definition, plan, rule.progress) for rule in home.rules if rule.id not in ids)
    return fresh


def _devices_read(rule: HomeRule, plan: FixedPlan) -> dict[str, None]:
    """The devices on which it depends whether a rule acts."""
    return dict.fromkeys(
        owner for slot in sorted(rule.compiled.slots_it_reads) if (owner := plan.slots[slot].owner) in plan.devices_by_did
    )


async def carry_out_exchange(real: RealHome, exchange: Exchange) -> None:
    """Make the calls of an exchange, until one fails: the next may rest on it. Raises `AskerGone`."""
    for call in exchange.turn.calls:
        await exchange.sentence.asker.require_waiting()
        exchange.fates.append("sent")
        try:
            await real.carry_out_call(exchange.seen.home, call)
        except Exception as error:  # whatever it was, the calls before it stand and are to be told
            exchange.fates[-1] = "failed"
            exchange.note_error(error)
            return
        exchange.fates[-1] = "done"


async def wait_until_settled(real: RealHome, exchange: Exchange, settle: float) -> Home:
    """The home once it agrees with the twin, or has had the seconds to; the changes of the exchange are compared with it.

    What wakes up first, such as a television, has longer. Only what was done is waited for. Raises `HomeAssistantError` if
    its states do not come for as long as others may be kept waiting.
    """
    done, everything = {call.did for call in exchange.done_calls}, exchange.call_outcome == "done"
    settle *= LONGER if any(entity_domain(did) in SLOW for did in done) else 1
    until = time.monotonic() + settle
    try:
        async with asyncio.timeout(settle + LOOK_SECONDS):
            while True:
                home = await real.refresh_twin(exchange.seen.home)
                await read_todo_lists(real, (change.did for change in exchange.effects.changes), home)
                # each look is noted at once: the next one may not come
                changes = tuple(compare_change(change, home) for change in exchange.effects.changes)
                exchange.effects = replace(exchange.effects, changes=changes)
                late = any(change.differs for change in changes if everything or change.did in done)
                if not late or time.monotonic() > until:
                    return home
                await asyncio.sleep(min(0.25, settle))
    except TimeoutError:
        raise HomeAssistantError("Home Assistant did not tell its states in time.") from None


async def read_call_answers(real: RealHome, home: Home, reply: Reply) -> Answers:
    """What the calls of a message read in the real home. Calls that mean no device of the home are left to the twin."""
    found: Answers = {}
    for call in read_tool_calls(reply.message):
        if call.name not in (*assist.READS, assist.TIMERS) or call.malformed:
            continue
        tool, arguments = call.name, call.arguments
        key = tool_call_key(tool, arguments)
        if tool == assist.TIMERS:  # nothing outside of Home Assistant tells of them
            found[key] = assist.refused_result("unknown_tool", f"{assist.FAILED}timers are Home Assistant's own")
            continue
        try:
            did, service, data = _make_question(home, tool, arguments)
            told = (await real.ask_service(did, service, data) or {}).get(did) or {}
            found[key] = RunResult(json.dumps(_answer_of_assist(tool, told), ensure_ascii=False))
        except HomeAssistantError as error:
            found[key] = assist.refused_result("unavailable", f"{assist.FAILED}{error.said or error}")
        except (IntentFailed, NoMatch, LookupError, ValueError, TypeError, AttributeError):
            continue  # the twin says what is wrong with the call
    return found


def todo_lists_needed(home: Home, reply: Reply, toolset: str) -> Iterator[str]:
    """The devices whose items a message may need: the lists that tools of Assist name, or all, for what has other tools."""
    calls = read_tool_calls(reply.message)
    if toolset != ASSIST:
        yield from home.plan.devices_by_did if calls or TOOLSETS[toolset].one_answer else ()
        return
    for call in calls:
        if name := call.arguments.get(assist.LISTS.get(call.name, "")):
            with suppress(NoMatch):
                named = EntityConstraints(str(name), domains=frozenset({LIST}))
                yield from (one.id for one in match_entities(home, named).entities)


async def read_todo_lists(real: RealHome, dids: Iterable[str], *homes: Home) -> None:
    """Put the items of those devices that are lists into homes. Raises `HomeAssistantError` if the real home is gone."""
    for did in dict.fromkeys(dids):
        known = entity_domain(did) == LIST and did in homes[0].plan.devices_by_did
        if not known or homes[0].read_value(did, assist.OPEN) is None:
            continue
        try:
            items = (await real.ask_service(did, "get_items", {"status": [assist.OPEN, assist.DONE]}))[did]["items"]
        except (HomeAssistantError, LookupError, TypeError) as error:
            if isinstance(error, HomeAssistantError) and error.code is None:
                raise
            continue
        for kind in {assist.OPEN, assist.DONE} & homes[0].plan.devices_by_did[did].spec.attribute_index.keys():
            told = [str(one["summary"])[:LONGEST] for one in items if one.get("status") == kind and one.get("summary")]
            for home in homes:
                home.write_slot(home.plan.slot_of(did, kind), tuple(told[:MOST_ITEMS]))


def _make_question(home: Home, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The device, the service and its data by which a tool reads."""
    if tool == assist.EVENTS:
        named = EntityConstraints(str(arguments["calendar"]), domains=frozenset({"calendar"}))
        calendar = match_entities(home, named).entities[0]
        now = datetime.now(home_zone(home))
        day = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=DAYS[arguments["range"]])
        return calendar.id, "get_events", {"start_date_time": now.isoformat(), "end_date_time": day.isoformat()}
    within = {f"media_content_{part}": arguments.get(f"within_media_content_{part}") for part in ("id", "type")}
    data = {"search_query": str(arguments["search_query"])} | {key: value for key, value in within.items() if value}
    return assist.find_media_player(home, arguments).id, "search_media", data


def _answer_of_assist(tool: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as Assist tells it."""
    if tool == assist.EVENTS:
        return {"events": [one if "T" in one["start"] else {**one, "all_day": True} for one in answer.get("events", ())]}
    results = [{key: one.get(key) for key in RESULT} for one in (answer.get("result") or ())[:MOST_RESULTS]]
    hint = f"{assist.PLAY} plays a result that can_play, and {assist.SEARCH} looks inside of one that can_search."
    return {"results": results} | ({"instruction": hint} if results else {})
