"""What a person uses by voice, with the tools of Assist: it is read in the real home, and done behind guard and consent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from serving import OtherHome, Says, Served, call_of, serve_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.serving.consent import Guard
from homerl.envs.core.messages import Message, call_message, tool_call
from homerl.envs.homeenv.sim.home import Home
from tests.envs.assistant.listing.replay import listing
from tests.envs.assistant.listing.test_own_tools import FIELDS, only, with_entities

SCRIPT = ["script.turn_on", "script.turn_off", "script.toggle"]


class Answering(OtherHome):
    """A real home that also answers services that read."""

    asked: list[tuple[str, str, Mapping[str, Any]]]
    answer: Any = None

    async def refresh_twin(self, twin: Home) -> Home:
        """What the states tell: of a list, how many items are open."""
        fresh = await super().refresh_twin(twin)
        for did in ("todo.chores", "todo.shopping_list"):
            open_items = self.home.read_value(did, "needs_action")
            fresh.write_slot(
                fresh.plan.slot_of(did, "needs_action"), tuple(f"item {at}" for at, _ in enumerate(open_items, 1))
            )
        return fresh

    async def ask_service(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        self.asked.append((did, service, data))
        if service == "get_items":
            return await super().ask_service(did, service, data)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {did: self.answer}


@pytest.fixture(scope="module")
def voiced() -> Home:
    def row(entity: str, name: str, features: int = 0) -> dict[str, Any]:
        return {
            "entity_id": entity,
            "state": "idle" if features else "off",
            "attributes": {"friendly_name": name, "supported_features": features},
        }

    rows = [
        row("script.tea", "Tea"),
        row("assist_satellite.kitchen", "Kitchen voice", 3),
        row("media_player.radio", "Radio", 512 | 4194304 | 16384),
    ]
    told = with_entities(
        only(listing(), "todo", "calendar", "vacuum"),
        *rows,
        forms={"tea": {"name": "Tea", "fields": FIELDS}},
        tea=SCRIPT,
        kitchen=["assist_satellite.announce"],
        radio=["media_player.play_media", "media_player.search_media", "media_player.media_play"],
    )
    return import_home(told).home


@pytest.fixture
def talk(voiced: Home, tmp_path: Path):
    def made(mode: str, *messages: Message | str, allowed: Sequence[str] = ()) -> Served:
        real = Answering(voiced.fork())
        real.asked = []
        return serve_home(voiced, Says(*messages), tmp_path, mode, "assist", real=real, guard=Guard(frozenset(allowed)))

    return made


def calls(tool: str, **arguments: Any) -> Message:
    return call_message(tool_call(tool, arguments))


def last_result(served: Served) -> str:
    return str(served.caretaker.agents().heard[-1].messages[-1]["content"])


@pytest.mark.parametrize(
    ("tool", "arguments", "made"),
    [
        ("todo__HassListAddItem", {"name": "Chores", "item": "sweep"}, ("todo.chores", "add_item", {"item": "Sweep"})),
        (
            "vacuum__HassVacuumCleanArea",
            {"area": "Kitchen", "name": "Demo vacuum 0 ground floor"},
            ("vacuum.demo_vacuum_0_ground_floor", "clean_area", {"cleaning_area_id": ["kitchen"]}),
        ),
        (
            "assist_satellite__HassBroadcast",
            {"message": "Dinner"},
            ("assist_satellite.kitchen", "announce", {"message": "Dinner"}),
        ),
        (
            "media_player__play_media",
            {"media_content_id": "b", "media_content_type": "music", "player_name": "Radio"},
            ("media_player.radio", "play_media", {"media_content_id": "b", "media_content_type": "music"}),
        ),
    ],
)
@pytest.mark.parametrize("mode", ["shadow", "confirm", "act"])
def test_what_changes_the_home_follows_the_mode(talk, mode, tool, arguments, made):
    served = talk(mode, calls(tool, **arguments), "Here.")
    reply = served.say("please")
    if mode == "confirm":
        assert "Shall I do" in reply and not served.real.made
        served.say("yes")
    assert [(one.did, one.service, dict(one.arguments)) for one in served.real.made] == ([] if mode == "shadow" else [made])


def test_a_script_needs_consent_and_its_fields_are_told(talk):
    served = talk("act", calls("script__tea", minutes=5, loud=True), "Tea it is.")
    asked = served.say("make tea")
    assert "needs your consent" in asked and "minutes 5" in asked and "loud True" in asked and not served.real.made
    assert served.say("yes") == "Done." or served.real.made
    assert [(one.did, one.service, dict(one.arguments)) for one in served.real.made] == [
        ("script.tea", "tea", {"minutes": 5, "loud": True})
    ]


def test_events_of_a_calendar_are_read_in_the_real_home(talk):
    served = talk("shadow", calls("calendar__get_events", calendar="Calendar 1", range="week"), "A party, all day.")
    served.real.answer = {"events": [{"start": "2026-11-28", "end": "2026-11-29", "summary": "Party"}]}
    assert served.say("what is on?") == "A party, all day."
    assert json.loads(last_result(served))["events"][0] == {
        "start": "2026-11-28",
        "end": "2026-11-29",
        "summary": "Party",
        "all_day": True,
    }
    ((did, service, data),) = served.real.asked
    assert (did, service) == ("calendar.calendar_1", "get_events") and data["start_date_time"] < data["end_date_time"]
    assert "Party" not in served.journal.path.read_text().replace("A party", "")
    assert not served.real.made


def test_media_are_looked_for_in_the_real_home(talk):
    served = talk("shadow", calls("media_player__search_media", search_query="Bach", player_name="Radio"), "I found it.")
    served.real.answer = {
        "result": [{"title": "Air", "media_content_id": "b1", "media_content_type": "music", "can_play": True}]
    }
    served.say("find bach")
    told = json.loads(last_result(served))
    assert told["results"][0]["media_content_id"] == "b1" and "play_media" in told["instruction"]
    assert served.real.asked == [("media_player.radio", "search_media", {"search_query": "Bach"})]


def test_what_cannot_be_read_is_a_result_with_an_error_and_is_said(talk):
    served = talk("act", calls("calendar__get_events", calendar="Calendar 1", range="today"), "Nothing is on today.")
    served.real.answer = HomeAssistantError("away")
    assert "cannot be reached" in served.say("what is on?") and "Error calling tool: away" in last_result(served)
    served = talk("act", calls("calendar__get_events", calendar="Nobody", range="today"), "There is no such calendar.")
    assert served.say("what is on?") == "There is no such calendar." and not served.real.asked


def test_who_knows_of_no_timers_does_not_say_that_there_are_none(talk):
    served = talk("act", calls("intent__HassCancelAllTimers"), "All timers are cancelled.")
    assert served.say("cancel all timers") == "I could not do this: cancel all timers, because I have no means for that."


CHORES = ("todo.chores", "get_items", {"status": ["needs_action", "completed"]})


def test_a_list_is_read_by_whom_speaks_of_it_alone(talk):
    served = talk(
        "act",
        calls("vacuum__HassVacuumCleanArea", area="Kitchen", name="Demo vacuum 0 ground floor"),
        "It is on its way.",
        calls("todo__get_items", todo_list="Chores"),
        "Sweep.",
    )
    served.real.home.call("todo.chores", "add_item", (), {"item": "Sweep"})
    served.say("clean the kitchen")
    assert served.real.asked == [] and served.real.made
    served.say("what is on my list?")
    assert served.real.asked == [CHORES]
    assert json.loads(last_result(served))["items"] == [{"summary": "Sweep", "status": "needs_action"}]


@pytest.mark.parametrize("mode", ["act", "confirm"])
def test_an_item_of_the_real_list_is_done(talk, mode):
    done = calls("todo__HassListCompleteItem", name="chores", item="sweep")
    served = talk(mode, done, calls("todo__get_items", todo_list="Chores"), "Done.")
    served.real.home.call("todo.chores", "add_item", (), {"item": "Sweep"})
    reply = served.say("I have swept")
    if mode == "confirm":
        assert served.real.asked == [CHORES], "once for the sentence, whatever calls it takes"
        reply = served.say("yes")
    assert served.real.home.read_value("todo.chores", "completed") == ("Sweep",) and "item 1" not in reply
    assert json.loads(last_result(served))["items"] == []
    assert not [one for one in served.journal.read_entries()[-1].changes if one.differs]


def test_a_home_of_other_tools_reads_its_lists_once_something_is_called(voiced, tmp_path):
    agent, real = Says("Hello.", call_of("todo.chores", "add_item", item="Sweep"), "Done."), Answering(voiced.fork())
    real.asked = []
    served = serve_home(voiced, agent, tmp_path, real=real)
    served.say("hello")
    assert real.asked == []
    served.say("put sweeping on my chores")
    assert real.home.read_value("todo.chores", "needs_action") == ("Sweep",)
    assert {did for did, _, _ in real.asked} == {"todo.chores", "todo.shopping_list"}
