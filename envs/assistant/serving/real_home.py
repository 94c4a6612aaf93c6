"""What tools read that no state tells: events, media, and what stands on lists. The real home is asked, if a call needs it.

Invariants: what is read goes to the model, and into no log. A list that cannot be read keeps what its state tells.

What a caretaker does in the real home, and how it looks what came of it.

Invariants: calls are made one after the other, until one fails or nobody waits for them any more; what was done until then
stands in the exchange.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.listing.homeassistant_mapping import entity_domain
from homerl.envs.assistant.serving.call_effects import compare_change
from homerl.envs.assistant.serving.exchange import Exchange
from homerl.envs.assistant.serving.live_situation import Answers, TwinCall, tool_call_key
from homerl.envs.homeenv.sim.assist import assist_tools as assist
from homerl.envs.homeenv.sim.assist.intents import EntityConstraints, IntentFailed, NoMatch, match_entities
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import RunResult
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import read_tool_calls

DAYS = {"today": 1, "week": 7}
MOST_RESULTS = 35
ASSIST = "assist"  # the toolset whose tools name the list that they are about
LIST, LONGEST, MOST_ITEMS = "todo", 200, 100  # the domain of lists, signs of an item, items of a list
RESULT = ("title", "media_class", "media_content_type", "media_content_id", "can_play", "can_search")


class ReadableHome(Protocol):
    """A real home of which more can be read than its states."""

    async def ask_service(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        """What a service of a device answers that changes nothing. Raises `HomeAssistantError`."""


async def read_call_answers(real: ReadableHome, home: Home, reply: Reply) -> Answers:
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


async def read_todo_lists(real: ReadableHome, dids: Iterable[str], *homes: Home) -> None:
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
        now = datetime.now(home.plan.origin.time_zone if home.plan.origin else UTC)
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


SLOW, LONGER = ("media_player", "vacuum", "lawn_mower"), 4  # domains that take their time, and how many times as long
LOOK_SECONDS = 5.0  # beyond those to settle, in which the real home tells its states


class RealHome(ReadableHome, Protocol):
    """The home outside. All methods raise `HomeAssistantError`. `spoken` is its language, or None until it has told."""

    spoken: str | None

    async def take_renewed_home(self) -> Home | None:
        """The home as it is set up now, if it is another one than was given last; None if not."""

    async def refresh_twin(self, twin: Home) -> Home:
        """The twin with the states that the real home has now, without the devices that it does not show any more."""

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        """Make a call in the real home."""


async def carry_out_exchange(real: RealHome, exchange: Exchange) -> None:
    """Make the calls of an exchange, until one fails: the next may rest on it. Raises `AskerGone`."""
    for call in exchange.turn.calls:
        await exchange.sentence.asker.require_waiting()
        exchange.fates.append("sent")
        try:
            await real.carry_out_call(exchange.seen.home, call)
        except Exception as error:  # whatever it was, the calls before it stand and are to be told
            exchange.fates[-1] = "failed"
            exchange.errors.append(str(error) or type(error).__name__)
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
