"""What its owner does not expose any more is out of an agent's reach at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from serving import Says, Served, call_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, ENTRIES, EXPOSED, STATES
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.home_words import HomeWords
from homerl.envs.assistant.serving.real_home import HomeAssistantHome, remove_devices
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.home import Home
from homerl.play.situation import Observation, Reply
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, recorded_home

LAMP, NAME = "light.bed_light", "Bed Light"
OFF, ON = call_of(LAMP, "turn_off"), call_of(LAMP, "turn_on")


class Withdrawing(Says):
    """An agent during whose thought something happens."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        self.meanwhile()
        return await super().propose(observation, n)


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay() as home:
        yield home


@pytest.fixture
def serve(server: Replay, tmp_path: Path) -> Callable[..., Served]:
    """A caretaker of the recorded home, asked over its WebSocket."""

    def made(mode: str, *messages: Message | str) -> Served:
        real: Any = HomeAssistantHome(server.url, SecretStr(TOKEN))
        return serve_home(recorded_home(), Withdrawing(*messages), tmp_path, mode, real=real)

    return made


def expose(server: Replay, **sources: Any) -> None:
    """Let the server say something else from now on, under names of commands."""
    server.listing = server.listing.with_sources(sources)


def withdraw(server: Replay, *entities: str) -> None:
    left = {name: to for name, to in server.listing.sources[EXPOSED]["exposed_entities"].items() if name not in entities}
    expose(server, **{EXPOSED: {"exposed_entities": left}})


def called(server: Replay) -> list[str]:
    made = [one for one in server.seen if one["type"] == "call_service" and not one.get("return_response")]
    return [one["target"]["entity_id"] for one in made]


def test_it_is_gone_in_the_next_sentence(serve, server):
    served = serve("act", OFF, "Off.", ON, "I cannot see it.", OFF, "Neither.")
    served.say("bed light off")
    assert called(server) == [LAMP]
    withdraw(server, LAMP)
    assert served.say("bed light on") == "I cannot see it." and called(server) == [LAMP]
    heard = str(served.caretaker.agents().heard[-1].messages[0])
    assert NAME not in heard and "Ceiling Lights" in heard
    assert "there is no device" in served.journal.read_entries()[-1].refusals[0]
    served.say("again")
    assert called(server) == [LAMP]


def test_a_consent_to_what_was_proposed_before_does_not_reach_it(serve, server):
    served = serve("confirm", OFF, "Off.")
    assert "Shall I" in served.say("bed light off")
    withdraw(server, LAMP)
    assert f"{NAME}: turn off, because I found no device that fits" in served.say("yes") and not called(server)
    entry = served.journal.read_entries()[-1]
    assert entry.outcome == "refused" and "there is no device" in entry.refusals[0]


def test_it_may_be_withdrawn_while_the_model_thinks(serve, server):
    served = serve("act", OFF, "Off.")
    served.caretaker.agents().meanwhile = lambda: withdraw(server, LAMP)
    assert served.say("bed light off") == f"Home Assistant did not do it: {NAME} is not exposed to Assist any more."
    assert not called(server) and served.journal.read_entries()[-1].outcome == "failed"


def test_it_may_be_withdrawn_between_a_call_and_the_look_at_what_came_of_it(serve, server, monkeypatch):
    served, done = serve("act", OFF, "Off."), HomeAssistantHome.carry_out_call

    async def carried(*given: Any) -> None:
        await done(*given)
        withdraw(server, LAMP)

    monkeypatch.setattr(HomeAssistantHome, "carry_out_call", carried)
    assert served.say("bed light off") == "Off." and served.journal.read_entries()[-1].outcome == "done"
    assert LAMP not in served.caretaker.home.plan.devices_by_did


@pytest.mark.parametrize("fault", ["lacks", "hangs_up", "garbled"])
def test_where_the_list_cannot_be_read_nothing_is_done(serve, server, fault):
    served = serve("act", OFF, "Off.")
    setattr(server, fault, frozenset({EXPOSED}))
    assert "Home Assistant did not do it" in (reply := served.say("bed light off")) and EXPOSED in reply
    assert not called(server) and not served.caretaker.agents().heard


@pytest.mark.parametrize("answer", [None, [], {"exposed_entities": [LAMP]}, {"exposed_entities": {LAMP: True}}])
def test_an_answer_that_is_no_list_is_no_permission(serve, server, answer):
    served = serve("act", OFF, "Off.")
    expose(server, **{EXPOSED: answer})
    assert "no list of entities" in served.say("bed light off") and not called(server)


def test_where_nothing_is_exposed_any_more_nothing_is_in_reach(server):
    entries = {
        name: entry | {"options": {"conversation": {"should_expose": False}}}
        for name, entry in listing().sources[ENTRIES].items()
    }
    expose(server, **{EXPOSED: {"exposed_entities": {}}, ENTRIES: entries})
    assert not refresh_twin(server).plan.devices


def test_before_assist_was_asked_its_defaults_hold(server):
    entries = {name: entry | {"options": {}} for name, entry in listing().sources[ENTRIES].items()}
    expose(server, **{EXPOSED: {"exposed_entities": {}}, ENTRIES: entries})
    left = refresh_twin(server).plan.devices_by_did
    assert LAMP in left and "lock.front_door" not in left


def refresh_twin(server: Replay) -> Home:
    return asyncio.run(HomeAssistantHome(server.url, SecretStr(TOKEN)).refresh_twin(recorded_home()))


def test_a_sentence_asks_no_service_for_more_than_the_states(server):
    assert "todo.chores" in refresh_twin(server).plan.devices_by_did
    assert not [one for one in server.seen if one["type"] == "call_service"]


def test_what_is_disabled_is_in_no_reach(serve, server):
    served = serve("act", OFF, "I cannot.")
    expose(server, **{STATES: [row for row in server.listing.sources[STATES] if row["entity_id"] != LAMP]})
    assert served.say("bed light off") == "I cannot." and not called(server)
    assert "cannot be reached" in served.journal.read_entries()[-1].refusals[0]


# What the guard keeps

UNLOCK = {"action": "lock.unlock", "target": {"entity_id": "lock.front_door"}}
PRESS = {"action": "switch.turn_on", "target": {"entity_id": "switch.relay"}}
ROWS = (
    Row("light.hall", "Hall Lamp"),
    Row("light.porch", "Porch Lamp"),
    Row("light.all", "All Lamps", members=["light.hall"]),
    Row("lock.front_door", "Front Door", state="locked"),
    Row("switch.relay", "Front door opener"),
    Row("switch.both", "Both", members=["switch.relay"]),
    Row("automation.x", "X", state="on"),
)


def automated(folder: Path, read: str, action: dict[str, Any]) -> Home:
    written_home(folder, *ROWS)
    trigger = {"trigger": "state", "entity_id": read, "to": "on"}
    home = load_listing(folder)
    texts = {"automation.x": {"alias": "X", "triggers": [trigger], "actions": [action]}}
    return import_home(home.with_sources({AUTOMATIONS: texts}), everything=True).home


def caretaker_of(home: Home, gone: str, tmp_path: Path, *messages: Message | str) -> tuple[Served, list[str]]:
    """A caretaker whose real home shows everything but one device, and the devices that were called there."""
    made: list[str] = []

    class Real:
        spoken, words = None, HomeWords()

        async def take_renewed_home(self) -> None: ...

        async def refresh_twin(self, twin: Home) -> Home:
            return remove_devices(twin, {gone})

        async def carry_out_call(self, twin: Home, one: Any) -> None:
            made.append(one.did)

    real: Any = Real()
    return serve_home(home, Says(*messages), tmp_path, real=real), made


@pytest.mark.parametrize(
    ("read", "action", "gone", "told"),
    [
        ("light.hall", UNLOCK, "lock.front_door", "lock"),
        ("light.hall", PRESS, "switch.relay", "switch"),  # by its name alone
        ("light.all", UNLOCK, "light.all", "Front Door"),  # by the members that it had
    ],
)
def test_the_guard_still_knows_where_it_leads(tmp_path, read, action, gone, told):
    home = automated(tmp_path, read, action)
    served, made = caretaker_of(home, gone, tmp_path, call_of("light.hall", "turn_on"), "Here.")
    assert f"perhaps, by an automation: {told}" in served.say("please") and not made
    assert not served.caretaker.home.rules
    served, made = caretaker_of(home, gone, tmp_path, call_of("light.porch", "turn_on"), "Here.")
    served.say("please")
    assert made == ["light.porch"]


def test_a_group_of_it_stays_guarded(tmp_path):
    served, made = caretaker_of(
        automated(tmp_path, "light.hall", PRESS), "switch.relay", tmp_path, call_of("switch.both", "turn_on"), "Here."
    )
    assert "consent" in served.say("please") and not made


def test_the_rest_of_the_home_is_as_it_was(tmp_path):
    home = automated(tmp_path, "light.hall", {"action": "light.turn_on", "target": {"entity_id": "light.porch"}})
    left = remove_devices(home, {"lock.front_door", "switch.nobody"})
    assert [one.did for one in left.plan.devices] == [one.did for one in home.plan.devices if one.did != "lock.front_door"]
    assert all(left.state_of(one.did) == home.state_of(one.did) for one in left.plan.devices)
    assert [rule.describe_rule() for rule in left.rules] == [rule.describe_rule() for rule in home.rules]
    left.call("light.hall", "turn_on")
    left.advance(1)
    assert left.read_value("light.porch", "state") == "on"
    assert remove_devices(home, {"switch.nobody"}) is home
