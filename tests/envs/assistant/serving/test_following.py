"""The twin of a served home follows what is set up in Home Assistant, also while people speak."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from serving import OtherHome, Says, Served, call_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.commands.serve_agent import _find_homes, _with_first_agent
from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AREAS, CONFIG, ENTRIES, EXPOSED, SCRIPTS, SERVICES, STATES, Listing
from homerl.envs.assistant.listing.home_setup import EVENTS, hash_home_setup, is_same_setup, merge_earlier_listing
from homerl.envs.assistant.serving import real_home as real
from homerl.envs.assistant.serving.caretaker import Caretaker
from homerl.envs.assistant.serving.consent import Guard
from homerl.envs.assistant.serving.real_home import HomeAssistantHome, remove_devices
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.play.situation import Observation, Reply
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing

LAMP, FAN, SWITCH, LOCK = "light.bed_light", "fan.ceiling_fan", "switch.ac", "lock.front_door"


def exposing(of: Listing, *entities: str) -> Listing:
    """The listing of a home with these entities and a few more, in which these are exposed."""
    rows = [row for row in of.sources[STATES] if row["entity_id"] in (LAMP, FAN, SWITCH, LOCK)]
    told = {EXPOSED: {"exposed_entities": {one: {"conversation": True} for one in entities}}, STATES: rows}
    entries = {
        name: {**entry, "options": {"conversation": {"should_expose": name in entities}}}
        for name, entry in of.sources[ENTRIES].items()
        if entry
    }
    return of.with_sources(told | {ENTRIES: entries})


def changed(of: Listing, command: str, **fields: dict[str, Any]) -> Listing:
    """The listing with other fields in rows of a command, by their id."""
    keys = ("entity_id", "area_id")
    rows = [{**row, **next((fields[row[key]] for key in keys if row.get(key) in fields), {})} for row in of.sources[command]]
    return of.with_sources({command: rows})


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay(exposing(listing(), LAMP, SWITCH)) as home:
        yield home


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(real, "QUIET", 0.01)
    monkeypatch.setattr(real, "AGAIN", 0.05)


@asynccontextmanager
async def followed(server: Replay) -> AsyncIterator[HomeAssistantHome]:
    home = HomeAssistantHome(server.url, SecretStr(TOKEN), server.listing)
    task = asyncio.create_task(home.follow_home())
    try:
        await until(lambda: len(server.heard) == len(EVENTS) + 1)  # and that scripts are loaded again
        assert await home.take_renewed_home() is None, "it is as it was imported"
        yield home
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def in_thread(work: Callable[[], object]) -> None:
    await asyncio.to_thread(work)


def asked(server: Replay) -> int:
    return sum(one["type"] == "get_config" for one in server.seen)


def test_a_new_entity_a_new_name_and_another_area_are_there_in_the_next_sentence(server):
    async def talk() -> list[Any]:
        async with followed(server) as home:
            server.listing = exposing(listing(), LAMP, SWITCH, FAN)
            server.fire("entity_registry_updated")
            await until(home._doubt.is_set)
            new = await home.take_renewed_home()
            named = changed(server.listing, STATES, **{LAMP: {"attributes": {"friendly_name": "Nachttisch"}}})
            server.listing = changed(named, AREAS, living_room={"name": "Wohnzimmer", "aliases": []})
            server.fire("area_registry_updated")
            await until(home._doubt.is_set)
            other = await home.take_renewed_home()
            before = asked(server)
            nothing = await home.take_renewed_home()
            return [new, other, nothing, asked(server) - before]

    new, other, nothing, more = asyncio.run(talk())
    assert {device.did for device in new.plan.devices} == {LAMP, SWITCH, FAN}
    assert other.plan.devices_by_did[LAMP].name == "Nachttisch" and other.plan.devices_by_did[FAN].room.name == "Wohnzimmer"
    assert nothing is None and more == 0, "without an event nothing is read"


def test_a_script_that_is_edited_is_read_again(server):
    """Its editor has scripts loaded again by a service, and no other call of a service is heard."""

    async def talk() -> None:
        async with followed(server):
            before = asked(server)
            server.fire("call_service")
            await until(lambda: asked(server) > before)

    asyncio.run(talk())
    (told,) = [one["trigger"] for one in server.seen if one["type"] == "subscribe_trigger"]
    assert told["event_type"] == "call_service" and told["event_data"] == {"domain": "script", "service": "reload"}


def test_a_restart_in_between_loses_nothing(server):
    """What is changed while nobody listens is there afterwards, and what is still missing keeps its form."""

    async def talk() -> list[Any]:
        async with followed(server) as home:
            await in_thread(server.stop)
            starting = server.listing.sources[CONFIG] | {"state": "NOT_RUNNING"}
            bare = exposing(listing(), LAMP, FAN)
            states = [row for row in bare.sources[STATES] if row["entity_id"] not in (LAMP, FAN)]
            server.listing = bare.with_sources({CONFIG: starting, STATES: states})
            server.away = False
            await until(lambda: server.heard)
            early = await home.take_renewed_home()
            server.listing = bare.model_copy(
                update={
                    "sources": bare.sources | {STATES: [one for one in bare.sources[STATES] if one["entity_id"] != LAMP]}
                }
            )
            server.fire("homeassistant_started")
            await until(home._doubt.is_set)
            return [early, await home.take_renewed_home()]

    early, late = asyncio.run(talk())
    assert early is None, "while it starts, the home stays as it was"
    assert {device.did for device in late.plan.devices} == {LAMP, FAN}
    assert "turn_on" in late.plan.devices_by_did[LAMP].spec.service_index and late.read_value(LAMP, "state") == "unavailable"


def test_a_home_that_began_with_a_file_learns_from_the_history_too():
    """A garage door that was open and closed, and never on its way, is at once where it is sent."""
    home, door = listing(), "cover.garage_door"
    past = {"history/history_during_period": {door: [{"s": "open"}, {"s": "closed"}]}}
    with Replay(home.with_sources(past)) as server:

        async def begun() -> Home | None:
            real_home = HomeAssistantHome(server.url, SecretStr(TOKEN))
            real_home._doubt.set()
            return await real_home.take_renewed_home()

        twin = asyncio.run(begun())
    assert twin is not None and twin.read_value(door, "state") == "closed"
    twin.call(door, "open_cover")
    assert twin.read_value(door, "state") == "open"


def test_what_is_no_home_leaves_it_as_it_was(server, caplog):
    async def talk() -> Any:
        async with followed(server) as home:
            garbled = {EXPOSED: ["no", "list"]}
            server.listing = server.listing.with_sources(garbled)
            server.fire("entity_registry_updated")
            await until(lambda: "stays as it was" in caplog.text)
            return await home.take_renewed_home()

    assert asyncio.run(talk()) is None


def test_a_home_of_another_home_assistant_is_refused(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HA_TOKEN", TOKEN)
    its, other = tmp_path / "its.json", tmp_path / "other.json"
    save_home(import_home(server.listing).home, its)
    save_home(make_home(0, HomeRecipe(devices=(3, 3))), other)
    with pytest.raises(InputError, match=f"0 of its 3 devices are known to the Home Assistant at {server.url}") as refused:
        _find_homes(other, server.url, "HA_TOKEN")
    assert "homerl import-ha" in str(refused.value)
    twin, home = _find_homes(its, f"{server.url}/lovelace/0", "HA_TOKEN")
    assert set(twin.plan.devices_by_did) == {LAMP, SWITCH} and home.url == server.url
    assert home.spoken == server.listing.sources[CONFIG]["language"]


def test_a_state_of_another_form_is_a_doubt(server):
    """A device that was out of reach when the home was imported is whole once it is there."""
    lamp = next(row for row in server.listing.sources[STATES] if row["entity_id"] == LAMP)
    known = changed(server.listing, STATES, **{LAMP: {"state": "unavailable", "attributes": {"friendly_name": "Bed Light"}}})
    assert not is_same_setup(known, [lamp], frozenset({LAMP, SWITCH}))
    assert is_same_setup(server.listing, [lamp | {"state": "off"}], frozenset({LAMP, SWITCH}))
    assert not is_same_setup(server.listing, [lamp], frozenset({LAMP})), "another one is exposed"


def test_what_comes_and_goes_is_no_other_home():
    home = exposing(listing(), LAMP, SWITCH)
    lamp = next(row for row in home.sources[STATES] if row["entity_id"] == LAMP)
    dark = {"state": "off", "attributes": lamp["attributes"] | {"brightness": None}}
    assert hash_home_setup(changed(home, STATES, **{LAMP: dark})) == hash_home_setup(home)
    written = home.with_sources({SCRIPTS: {"script.evening": {"sequence": [{"action": "lock.unlock"}]}}})
    assert hash_home_setup(written) != hash_home_setup(home)
    gone = changed(home, STATES, **{LAMP: {"state": "unavailable", "attributes": {"friendly_name": "Bed Light"}}})
    gone = gone.with_sources({SERVICES: {**gone.sources[SERVICES], LAMP: []}})
    assert hash_home_setup(gone) != hash_home_setup(home) and hash_home_setup(
        merge_earlier_listing(gone, home)
    ) == hash_home_setup(home)
    assert import_home(merge_earlier_listing(gone, home)).home.plan.devices_by_did[LAMP].spec.service_index


def moving(tmp_path: Path, before: Home, after: Home, *messages: Any) -> Served:
    """A caretaker whose real home becomes another one after the first sentence."""
    other = OtherHome(before.fork())
    homes = [None, after]

    async def take_renewed_home() -> Home | None:
        home = homes.pop(0) if homes else None
        other.home = home.fork() if home else other.home
        return home

    other.take_renewed_home = take_renewed_home  # type: ignore[method-assign]
    return serve_home(before, Says(*messages), tmp_path, real=other)


def at(tmp_path: Path, *rows: Row) -> Home:
    folder = tmp_path / str(len([*tmp_path.iterdir()]))
    folder.mkdir()
    return written_home(folder, *rows)


LIGHT, RELAY = Row("light.hall", "Hall Light"), Row("switch.relay", "Fan")


def test_the_model_is_told_of_the_new_home_and_the_guard_knows_it(tmp_path):
    before, after = (
        at(tmp_path, LIGHT, RELAY),
        at(tmp_path, LIGHT, Row("switch.relay", "Garage Door"), Row("lock.new", "Gate")),
    )
    press, unlock = call_of("switch.relay", "turn_on"), call_of("lock.new", "unlock")
    served = moving(tmp_path, before, after, press, "Fanned.", press, "Open.", unlock, "Open.")
    assert served.say("fan on") == "Fanned." and [one.did for one in served.real.made] == ["switch.relay"]
    asked = served.say("garage door"), served.say("gate")
    assert all("needs your consent" in one for one in asked) and len(served.real.made) == 1
    heard = [str(one.messages[0]["content"]) for one in served.caretaker.agents().heard]
    assert "Gate" not in heard[0] and "Gate" in heard[-1] and "Fan" not in heard[-1]


def test_a_consent_is_asked_again_under_the_new_name_and_refused_where_it_is_gone(tmp_path):
    door = Row("lock.door", "Front Door", state="locked")
    renamed, gone = Row("lock.door", "Back Door", state="locked"), LIGHT
    for after, says in (
        (renamed, "The home has changed"),
        (gone, "Front Door: unlock, because I found no device that fits"),
    ):
        served = moving(tmp_path, at(tmp_path, door), at(tmp_path, after), call_of("lock.door", "unlock"), "Open.")
        assert "Front Door" in served.say("open")
        assert says in served.say("yes") and not served.real.made


def test_what_was_guarded_by_its_members_stays_so_while_it_is_out_of_reach(tmp_path):
    group = Row("light.all", "All", members=("light.hall", "lock.door"))
    away = Row("light.all", "All", state="unavailable")
    guard = Guard().with_known_home(at(tmp_path, LIGHT, group))
    assert "light.all" in guard.held and "light.all" in guard.with_known_home(at(tmp_path, LIGHT, away)).held
    freed = guard.with_known_home(at(tmp_path, LIGHT, Row("light.all", "All", members=("light.hall",))))
    assert "light.all" not in freed.held and "light.hall" not in freed.held


def test_what_was_guarded_by_its_name_stays_so_when_it_is_withdrawn(tmp_path):
    """An automation may still act on it, and its id alone, switch.relay, tells nothing."""
    guard = Guard().with_known_home(at(tmp_path, LIGHT, Row("switch.relay", "Garage Door")))
    assert "switch.relay" in guard.with_known_home(at(tmp_path, LIGHT)).held
    assert "switch.relay" not in guard.with_known_home(at(tmp_path, LIGHT, RELAY)).held


@pytest.mark.parametrize("left", [(), (LAMP,)], ids=["everything", "one"])
def test_what_is_hidden_and_shown_again_comes_back(server, tmp_path, left):
    """No event tells of an entity that is not registered: the next sentence but one knows it."""
    home, shown = HomeAssistantHome(server.url, SecretStr(TOKEN), server.listing), server.listing
    twin = import_home(server.listing).home
    caretaker = serve_home(twin, lambda: Says("Hm."), tmp_path, toolset="assist", real=home).caretaker

    def heard() -> set[str]:
        asyncio.run(caretaker.answer_dialogue([{"role": "user", "content": "hello"}]))
        return set(caretaker.home.plan.devices_by_did)

    assert heard() == {LAMP, SWITCH}
    server.listing = exposing(listing(), *left)
    assert heard() == set(left)
    server.listing = shown
    assert heard() == {LAMP, SWITCH}, "before its withdrawal was read"
    server.listing = exposing(listing(), *left)
    assert heard() == heard() == set(left)
    asyncio.run(home._read_home())  # as whoever follows it does, and finds nothing new
    server.listing = shown
    heard()
    assert heard() == {LAMP, SWITCH}


def test_the_language_is_that_of_a_home_assistant_that_comes_later(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HA_TOKEN", TOKEN)
    file = tmp_path / "home.json"
    save_home(import_home(server.listing).home, file)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    twin, home = _find_homes(file, url, "HA_TOKEN")
    agent = Says(call_of(SWITCH, "turn_off"), "Off.")
    matching = _with_first_agent("hassil", lambda: agent, lambda: home.spoken or "en")
    served = serve_home(twin, matching, tmp_path, "confirm", real=home)
    home._doubt.set()  # as whoever follows it finds
    assert "Home Assistant did not do it" in served.say("aus") and matching().language == "en"
    server.listing = speaking(server.listing, "de-CH")
    home.url = server.url
    assert served.say("aus bitte").endswith("Soll ich?") and matching().language == "de-CH"
    server.listing = speaking(server.listing, "xx")
    home._doubt.set()
    served.say("nein")
    assert matching() is agent, "the matcher has no sentences in it"


GERMAN = {
    "component.light.entity_component._.state.on": "An",
    "component.light.entity_component._.state.off": "Aus",
    "component.light.entity_component._.state_attributes.brightness.name": "Helligkeit",
    "component.light.services.turn_on.name": "Einschalten",
    "component.light.services.turn_on.fields.brightness.name": "Helligkeitswert",
}


def test_what_is_told_is_in_the_words_that_home_assistant_itself_has(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HA_TOKEN", TOKEN)
    for language, told, expected in (
        ("de-CH", {"frontend/get_translations": {"resources": GERMAN}}, "Zustand von Aus auf An"),
        ("de", {}, "Zustand von aus auf an"),  # an older Home Assistant
        ("fr", {"frontend/get_translations": {"resources": GERMAN}}, "state from off to on"),  # whose sentences are English
    ):
        server.listing = speaking(listing(), language).with_sources(told)
        home = HomeAssistantHome(server.url, SecretStr(TOKEN))
        asyncio.run(home.read_known_entities())
        rows = [row | {"state": "off"} if row["entity_id"] == LAMP else row for row in server.listing.sources[STATES]]
        server.listing = server.listing.with_sources({STATES: rows})
        served = serve_home(
            import_home(server.listing).home, Says(call_of(LAMP, "turn_on"), "An."), tmp_path, "confirm", real=home
        )
        assert expected in served.say("licht")


def speaking(of: Listing, language: str) -> Listing:
    return of.with_sources({CONFIG: of.sources[CONFIG] | {"language": language}})


class Changing(OtherHome):
    """A real home that is set up anew when a test says so, and tells it once."""

    fresh: Home | None = None

    async def take_renewed_home(self) -> Home | None:  # type: ignore[override]
        fresh, self.fresh = self.fresh, None
        self.home = fresh.fork() if fresh else self.home
        return fresh

    async def refresh_twin(self, twin: Home) -> Home:
        gone = twin.plan.devices_by_did.keys() - self.home.plan.devices_by_did.keys()
        return remove_devices(twin, gone)


class Slow(Says):
    """An agent that thinks until a test lets it go."""

    def __init__(self, *messages: Any) -> None:
        super().__init__(*messages)
        self.thinks, self.go = asyncio.Event(), asyncio.Event()

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        self.thinks.set()
        async with asyncio.timeout(10):
            await self.go.wait()
        return await super().propose(observation, n)


def renewing(tmp_path: Path, *agents: Any) -> tuple[Caretaker, Changing, Home]:
    """A caretaker, its real home, and the home as which that may be set up anew."""
    light = Row("light.hall", "Hall Light")
    before = written_home(tmp_path, light, Row("light.attic", "Attic Light"), Row("switch.relay", "Fan"))
    after = written_home(tmp_path, light, Row("switch.relay", "Garage Door"), Row("lock.new", "Gate"))
    queue, real = [*agents], Changing(before.fork())
    return serve_home(before, lambda: queue.pop(0), tmp_path, real=real).caretaker, real, after


def sentence(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("did", "says", "made"),
    [
        ("light.hall", "On.", 1),
        ("light.attic", "I could not do this: Attic Light: turn on, because I found no device that fits", 0),
        ("switch.relay", "This needs your consent", 0),
    ],
)
def test_who_began_in_the_home_before_acts_in_the_new_one_and_does_not_bring_it_back(tmp_path, did, says, made):
    slow = Slow(call_of(did, "turn_on"), "On.")
    caretaker, real, after = renewing(tmp_path, slow, Says("Fine."), Says(call_of("switch.relay", "turn_on"), "Fanned."))

    async def talk() -> list[str]:
        first = asyncio.create_task(caretaker.answer_dialogue(sentence("on")))
        await slow.thinks.wait()
        real.fresh = after
        await caretaker.answer_dialogue(sentence("how is it?"))
        slow.go.set()
        return [await first, await caretaker.answer_dialogue(sentence("relay on"))]

    first, last = asyncio.run(talk())
    assert first.startswith(says) and len(real.made) == made
    assert set(caretaker.home.plan.devices_by_did) == set(after.plan.devices_by_did), "the new home stays"
    assert "needs your consent: Garage Door" in last and len(real.made) == made


@pytest.mark.parametrize("busy", ["refresh_twin", "carry_out_call"])
def test_who_is_busy_in_the_home_before_does_not_bring_it_back(tmp_path, busy):
    caretaker, real, after = renewing(tmp_path, Says(call_of("light.hall", "turn_on"), "On."), Says("Fine."))
    begun, go, quickly = asyncio.Event(), asyncio.Event(), getattr(real, busy)

    async def slowly(*given: Any) -> Any:
        setattr(real, busy, quickly)
        begun.set()
        async with asyncio.timeout(10):
            await go.wait()
        return await quickly(*given)

    setattr(real, busy, slowly)

    async def talk() -> None:
        first = asyncio.create_task(caretaker.answer_dialogue(sentence("on")))
        await begun.wait()
        real.fresh = after
        await caretaker.answer_dialogue(sentence("how is it?"))
        go.set()
        await first

    asyncio.run(talk())
    assert real.made and set(caretaker.home.plan.devices_by_did) == set(after.plan.devices_by_did)


def test_a_new_home_is_not_lost_with_who_hangs_up_when_it_comes(tmp_path):
    caretaker, real, after = renewing(tmp_path)
    real.fresh = after
    answers = [False, True]

    async def gone() -> bool:
        await asyncio.sleep(0.01)
        return answers.pop(0)

    asyncio.run(caretaker.answer_dialogue(sentence("hello"), gone=gone))
    assert not answers and real.fresh is None and set(caretaker.home.plan.devices_by_did) == set(after.plan.devices_by_did)
