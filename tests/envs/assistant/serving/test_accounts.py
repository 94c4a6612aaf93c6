"""What was done is logged and told, whatever goes wrong, and what is asked for is told in full."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from serving import call_of, device_of, state
from written_home import Row, written_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving import real_home as hands
from homerl.envs.assistant.serving.call_effects import ChangeRecord, compare_change
from homerl.envs.assistant.serving.exchange_journal import CallRecord, JournalEntry, Outcome
from homerl.envs.assistant.serving.journal_page import MEANING, render_journal_page
from homerl.envs.homeenv.sim.home import Home
from tests.envs.assistant.listing.replay import recorded_home


@pytest.fixture
def fan(home):
    """Another device that can be turned on."""
    fan = device_of(home, "air_conditioner")
    home.call(fan.did, "turn_off")
    return fan


def test_what_was_done_before_a_failure_is_told_and_compared(serve, lamp, fan):
    served = serve(
        "act", call_of(lamp.did, "turn_on"), call_of(fan.did, "turn_on"), call_of(lamp.did, "turn_off"), "All on."
    )
    served.real.broken.add(fan.did)
    reply = served.say("light and fan please")
    assert reply.startswith("I did only this: ") and f"{lamp.name}: turn on. I could not" in reply
    assert f"{fan.name}: turn on" in reply.partition("could not")[2]
    assert "does not answer" in reply and "All on" not in reply and state(served, lamp) == "on"
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "partly" and [call.fate for call in entry.calls] == ["done", "failed", "meant"]
    differs = {change.did: change.differs for change in entry.changes if change.path == "state"}
    assert differs[fan.did] and all(change.compared for change in entry.changes)


def test_a_call_that_failed_and_worked_all_the_same_is_told(serve, lamp):
    """As when Home Assistant does not answer in time."""
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    carry_out = served.real.carry_out_call

    async def slow(twin, made):
        await carry_out(twin, made)
        raise HomeAssistantError("no answer within 60 s.")

    served.real.carry_out_call = slow
    reply = served.say("light please")
    assert "did not do it: no answer within 60 s. But by now this is so: " in reply and f"{lamp.name}: state is on" in reply


def test_the_log_knows_of_a_call_before_it_is_made(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    carry_out, seen = served.real.carry_out_call, []

    async def watched(twin, made):
        seen.extend(served.journal.read_entries())
        await carry_out(twin, made)

    served.real.carry_out_call = watched
    served.say("light please")
    assert [(entry.outcome, entry.calls[0].did) for entry in seen] == [("acting", lamp.did)]
    assert [entry.outcome for entry in served.journal.read_entries()] == ["done"]


def test_an_exchange_that_is_stopped_within_a_call_is_logged(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    carry_out = served.real.carry_out_call

    async def endless(twin, made):
        await carry_out(twin, made)
        await asyncio.Event().wait()

    async def stopped():
        task = asyncio.create_task(served.caretaker.answer_dialogue([{"role": "user", "content": "light please"}]))
        while not served.real.made:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})

    served.real.carry_out_call = endless
    asyncio.run(stopped())
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "partly" and [call.fate for call in entry.calls] == ["sent"] and entry.error == "CancelledError"


@pytest.mark.parametrize("error", [RuntimeError("a fault of ours"), HomeAssistantError("it is gone.")])
def test_an_error_after_the_calls_hides_none_of_them(serve, lamp, error):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    refreshed = served.real.refresh_twin

    async def blind(twin):
        if served.real.made:
            raise error
        return await refreshed(twin)

    served.real.refresh_twin = blind
    reply = served.say("light please")
    assert reply.startswith("The lamp is on. ") and str(error).rstrip(".") in reply
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "done" and entry.error == str(error) and not entry.changes[0].compared


def test_a_television_has_time_to_wake_up(serve, house):
    served, looks = serve("act", call_of("media_player.tv", "media_play"), "On.", of=house), []
    served.caretaker.house = replace(served.caretaker.house, settle=0.3)
    served.real.ignored.add("media_player.tv")
    refreshed = served.real.refresh_twin

    async def waking(twin):
        looks.append(len(served.real.made))
        if sum(looks) == 4:  # the fourth look after the call, and 0.75 s after the first
            served.real.home.call("media_player.tv", "media_play")
        return await refreshed(twin)

    served.real.refresh_twin = waking
    assert (
        served.say("play") == "On."
        and state(served, served.caretaker.home.plan.devices_by_did["media_player.tv"]) == "playing"
    )


@pytest.mark.parametrize(
    ("did", "before", "after", "actual", "same"),
    [
        ("media_player.tv", "off", "playing", "idle", True),
        ("media_player.tv", "playing", "off", "standby", True),
        ("media_player.tv", "paused", "playing", "buffering", True),
        ("media_player.tv", "playing", "paused", "playing", False),
        ("media_player.tv", "off", "playing", "off", False),
        ("media_player.tv", "playing", "off", "idle", False),
        ("lock.front_door", "locked", "unlocked", "locking", False),
    ],
)
def test_each_player_shows_in_its_own_way_that_it_is_on(house, did, before, after, actual, same):
    house.write_slot(house.plan.slot_of(did, "state"), actual)
    change = ChangeRecord(did=did, device="It", path="state", before=before, after=after)
    assert compare_change(change, house).differs is not same


def test_an_unforeseen_error_is_told_and_logged(serve, lamp):
    class Fails:
        name = "fails"

        async def propose(self, observation, n=1):
            raise ZeroDivisionError

    served = serve("act")
    served.caretaker.agents = Fails
    assert "my own program: ZeroDivisionError" in served.say("light please")
    assert [(entry.outcome, entry.error) for entry in served.journal.read_entries()] == [("failed", "ZeroDivisionError")]


@pytest.mark.parametrize(("said", "words"), [("light \ud800", "On."), ("light", "It is \udfff on.")])
def test_half_a_character_hides_nothing(serve, lamp, said, words):
    served = serve("act", call_of(lamp.did, "turn_on"), words)
    reply = served.say(said)
    reply.encode()
    (entry,) = served.journal.read_entries()
    assert state(served, lamp) == "on" and entry.outcome == "done"
    assert "\ufffd" in entry.said + entry.reply


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_the_page_shows_every_outcome(outcome):
    call = CallRecord(did="light.bed", service="turn_on", fate="sent")
    entry = JournalEntry(
        time=datetime.now(UTC), mode="act", agent="a", said="light", reply="", outcome=outcome, calls=(call,)
    )
    change = ChangeRecord(did="light.bed", device="Bed", path="state", before="off", after="on")
    page = render_journal_page([entry.model_copy(update={"changes": (change,)})])
    assert MEANING[outcome] in page and "</code> sent" in page


# What is consented to


def test_consent_is_to_what_was_shown(serve, house):
    """The door was closed when the person was asked, and is open when the person agrees: a toggle would close it."""
    served = serve("act", call_of("cover.garage_door", "toggle"), "Opened.", of=house)
    assert "from closed to opening" in served.say("the garage door please")
    served.real.home.call("cover.garage_door", "open_cover")
    served.real.home.advance(60)
    again = served.say("yes")
    assert "has changed" in again and "from open to closing" in again and not served.real.made
    assert served.say("yes") == "Done." and served.real.home.read_value("cover.garage_door", "state") == "closing"
    assert [entry.outcome for entry in served.journal.read_entries()] == ["asked", "asked", "done"]


def test_consent_is_to_the_state_that_was_shown_where_the_twin_cannot_tell_the_change(serve, tmp_path):
    home = written_home(
        tmp_path, Row("cover.garage_door", "Garage Door", state="closed", device_class="garage", features=11)
    )
    served = serve("act", call_of("cover.garage_door", "toggle"), "Opened.", of=home)
    assert "Garage Door: toggle (state closed)" in served.say("the garage door please")
    served.real.home.call("cover.garage_door", "open_cover")
    served.real.home.advance(60)
    assert "has changed" in served.say("yes") and not served.real.made


def test_consent_shows_what_no_change_shows(serve, house):
    played = {"media_content_type": "music", "media_content_id": "spotify:4uLU6"}
    calls = [call_of("media_player.tv", "play_media", **played), call_of("lock.front_door", "unlock", code="1234")]
    served = serve("confirm", *calls, "Playing.", of=house)
    reply = served.say("play something")
    assert "play media (media content type music, media content id spotify:4uLU6)" in reply
    assert "unlock (code ***)" in reply and "1234" not in reply


def test_consent_does_not_repeat_what_a_change_shows(serve, lamp):
    calls = [call_of(lamp.did, "turn_on"), call_of(lamp.did, "set_brightness", brightness=30)]
    served = serve("confirm", *calls, "Dim.")
    reply = served.say("not so bright")
    assert "to 30" in reply and "(" not in reply


def test_what_cannot_be_logged_is_not_done_and_the_person_is_told(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    served.journal.path.unlink()
    served.journal.path.mkdir()
    assert served.say("light please") == "My log cannot be written: Is a directory." and not served.real.made


def test_a_log_that_fails_after_an_action_takes_no_answer_away(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    carry_out, path = served.real.carry_out_call, served.journal.path

    async def removed(twin, made):
        await carry_out(twin, made)
        path.unlink()
        path.mkdir()

    served.real.carry_out_call = removed
    assert served.say("light please") == "The lamp is on. My log cannot be written: Is a directory."
    assert state(served, lamp) == "on"


def test_a_question_in_an_error_ends_as_one_sentence(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    served.real.broken.add(lamp.did)
    assert "?." not in served.say("light please")


@pytest.mark.parametrize("code", [4711, "4711" * 8, ["4711"]], ids=["a number", "too long", "a list"])
def test_the_code_of_a_refused_call_is_not_in_the_log(serve, house, code):
    served = serve("act", call_of("lock.front_door", "unlock", code=code), f"It did not take {code}.", of=house)
    served.say("open the door")
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "refused" and "code" in entry.refusals[0] and "4711" not in served.journal.path.read_text()


def test_the_code_of_a_call_that_fails_is_not_in_the_log(serve, house):
    served = serve("act", call_of("lock.front_door", "unlock", code="4711"), "Open.", of=house)

    async def wrong(twin, made):
        raise HomeAssistantError("4711 is no code of mine.")

    served.real.carry_out_call = wrong
    served.say("open the door with 4712")
    served.say("yes")
    told = served.journal.path.read_text()
    assert "*** is no code of mine" in told and "4711" not in told and "with 4712" in told


def test_states_that_do_not_come_keep_nobody_waiting(serve, lamp, monkeypatch):
    """What was done is told, and that nobody could look."""
    monkeypatch.setattr(hands, "LOOK_SECONDS", 0.2)
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    refreshed, looks = served.real.refresh_twin, []

    async def stuck(twin):
        looks.append(twin)
        return await (refreshed(twin) if len(looks) == 1 else asyncio.Event().wait())

    served.real.refresh_twin = stuck
    reply = served.say("light please")
    assert "I could not see what came of it: Home Assistant did not tell its states in time" in reply
    assert state(served, lamp) == "on" and served.journal.read_entries()[-1].outcome == "done"


def test_who_waits_for_the_turn_of_another_is_told_in_time(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.", call_of(lamp.did, "turn_off"), "It is off.")
    keeper, carry_out = served.caretaker, served.real.carry_out_call

    async def talk() -> tuple[str, bool, str]:
        begun, freed = asyncio.Event(), asyncio.Event()

        async def slow(twin, made):
            begun.set()
            await freed.wait()
            await carry_out(twin, made)

        served.real.carry_out_call = slow
        first = asyncio.create_task(keeper.answer_dialogue([{"role": "user", "content": "light"}]))
        await begun.wait()
        keeper.house = replace(keeper.house, patience=0.2)
        late = await keeper.answer_dialogue([{"role": "user", "content": "off"}])
        waits = not first.done()
        freed.set()
        return late, waits, await first

    late, waits, done = asyncio.run(talk())
    assert "took too long" in late and waits, "the first one still has its turn"
    assert done == "The lamp is on." and state(served, lamp) == "on"
    assert [entry.said for entry in served.journal.read_entries() if entry.outcome == "failed"] == ["off"]


@pytest.mark.parametrize(
    ("asked", "became", "differs"),
    [
        ({"color_temp_kelvin": 3000}, {"color_temp_kelvin": 3003}, False),  # it counts in mired
        ({"color_temp_kelvin": 3000}, {"color_temp_kelvin": 3100}, True),
        ({"brightness": 128}, {"brightness": 127}, False),
        ({"brightness": 128}, {"brightness": 64}, True),
        ({"brightness": 4}, {"brightness": 2}, True),
        ({"rgb_color": [255, 100, 0]}, {"rgb_color": [255, 99, 0]}, False),
        ({"rgb_color": [255, 100, 0]}, {"rgb_color": [255, 0, 0]}, True),
    ],
)
def test_what_a_device_rounds_is_as_expected(serve, asked, became, differs):
    home = recorded_home()
    served = serve("act", call_of("light.bed_light", "turn_on", **asked), "Here.", of=home)
    carry_out = served.real.carry_out_call

    async def rounds(twin, made):
        await carry_out(twin, replace(made, arguments=became))

    served.real.carry_out_call = rounds
    assert ("not as I expected" in served.say("light please")) == differs


PRESSED = {
    "scene.film": ("turn_on", {}, "Film: turn on"),
    "button.film": ("press", {}, "Film: press"),
    "input_button.film": ("press", {}, "Film: press"),
    "notify.film": ("send_message", {"message": "It begins"}, "Film: send message (message It begins)"),
}
STATES = ("unknown", "2026-11-27T10:12:13+00:00")


def at(home: Home, did: str, state: str) -> Home:
    return refresh_home(home, [{"entity_id": did, "state": state, "attributes": {}}])


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("did", PRESSED)
def test_a_press_is_asked_about_as_one_and_is_no_false_alarm(serve, tmp_path: Path, did: str, before: str) -> None:
    service, arguments, told = PRESSED[did]
    home = written_home(tmp_path, Row(did, "Film", state=before))
    served = serve("confirm", call_of(did, service, **arguments), "It begins.", of=home)
    reply = served.say("film please")
    assert f" {told}." in reply and "state" not in reply

    async def later(twin: Home) -> Home:
        return at(twin, did, "2026-11-27T10:15:00+00:00")

    served.real.refresh_twin = later
    assert served.say("yes") == "Done."
    entry = served.journal.read_entries()[-1]
    assert entry.outcome == "done" and not any(change.differs for change in entry.changes)


def test_a_press_by_an_automation_is_told_as_one(serve, tmp_path: Path) -> None:
    rows = (Row("scene.film", "Film", state="unknown"), Row("light.hall", "Lamp"), Row("automation.x", "X", state="on"))
    written_home(tmp_path, *rows)
    text = {
        "triggers": [{"trigger": "state", "entity_id": "light.hall", "to": "on", "for": 5}],
        "actions": [{"action": "scene.turn_on", "target": {"entity_id": "scene.film"}}],
    }
    listing = load_listing(tmp_path).with_sources({AUTOMATIONS: {"automation.x": text}})
    home = import_home(listing, everything=True).home
    reply = serve("act", call_of("light.hall", "turn_on"), "Here.", of=home).say("light")
    assert "later: Film: turn on" in reply and "from 0" not in reply
