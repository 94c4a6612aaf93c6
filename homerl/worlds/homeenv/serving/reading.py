"""What tools read that no state tells, such as the events of a calendar: the real home is asked.

Invariant: nothing here changes a home. What is read goes to the model, and into no log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from envs.homeenv.assist.intents import Failed
from envs.homeenv.assist.match import NoMatch, Wanted, match
from envs.homeenv.assist.own import EVENTS, PLAY, READS, SEARCH, player
from envs.homeenv.assist.tools import FAILED, failure
from envs.homeenv.home import Home
from envs.homeenv.sandbox import RunResult
from homerl.homeassistant.errors import HomeAssistantError
from homerl.play.messages import read_arguments
from homerl.play.situation import Reply
from homerl.worlds.homeenv.live import Answers, asked

DAYS = {"today": 1, "week": 7}
MOST_RESULTS = 35
RESULT = ("title", "media_class", "media_content_type", "media_content_id", "can_play", "can_search")


class Readable(Protocol):
    """A real home of which more can be read than its states."""

    async def ask(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        """What a service of a device answers that changes nothing. Raises `HomeAssistantError`."""


async def answers(real: Readable, home: Home, reply: Reply) -> Answers:
    """What the calls of a message read in the real home. Calls that mean no device of the home are left to the twin."""
    found: Answers = {}
    for tool, arguments in _calls(reply):
        try:
            did, service, data = _question(home, tool, arguments)
            told = (await real.ask(did, service, data) or {}).get(did) or {}
            found[asked(tool, arguments)] = RunResult(json.dumps(_told(tool, told), ensure_ascii=False))
        except HomeAssistantError as error:
            found[asked(tool, arguments)] = failure("unavailable", f"{FAILED}{error.said or error}")
        except (Failed, NoMatch, LookupError, ValueError, TypeError, AttributeError):
            continue  # the twin says what is wrong with the call
    return found


def _calls(reply: Reply) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for call in reply.message.get("tool_calls") or ():
        arguments = read_arguments(call["function"]["arguments"])
        if call["function"]["name"] in READS and arguments is not None:
            yield call["function"]["name"], arguments


def _question(home: Home, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The device, the service and its data by which a tool reads."""
    if tool == EVENTS:
        calendar = match(home, Wanted(str(arguments["calendar"]), domains=frozenset({"calendar"}))).entities[0]
        now = datetime.now(home.plan.origin.time_zone if home.plan.origin else UTC)
        day = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=DAYS[arguments["range"]])
        return calendar.id, "get_events", {"start_date_time": now.isoformat(), "end_date_time": day.isoformat()}
    within = {f"media_content_{part}": arguments.get(f"within_media_content_{part}") for part in ("id", "type")}
    data = {"search_query": str(arguments["search_query"])} | {key: value for key, value in within.items() if value}
    return player(home, arguments).id, "search_media", data


def _told(tool: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as Assist tells it."""
    if tool == EVENTS:
        return {"events": [one if "T" in one["start"] else {**one, "all_day": True} for one in answer.get("events", ())]}
    results = [{key: one.get(key) for key in RESULT} for one in (answer.get("result") or ())[:MOST_RESULTS]]
    hint = {"instruction": f"{PLAY} plays a result that can_play, and {SEARCH} looks inside of one that can_search."}
    return {"results": results} | (hint if results else {})
