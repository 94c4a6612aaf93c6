"""Codes and what is written into password fields are told to nobody, in whatever way the agent gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from serving import OtherHome, Says, Served, call_of
from written_home import Row, written_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange_journal import AgentJournal
from homerl.envs.assistant.serving.journal_page import render_journal_page
from homerl.envs.assistant.serving.secret_masking import (
    find_password_fields,
    mask_secrets,
    secrets_in_data,
    secrets_in_reply,
)
from homerl.envs.core.messages import call_message, text_message, tool_call
from homerl.envs.homeenv.sim.home import Home
from homerl.play.situation import Reply

FIELDS = ["text.wifi", "input_text.wifi"]
WRITE_ON = {"trigger": "state", "entity_id": "light.hall", "to": "on", "for": "00:05:00"}


def rows(mode: str | None = "password") -> list[dict]:
    shown = {"min": 0, "max": 50} | ({"mode": mode} if mode else {})
    return [{"entity_id": one, "state": "old word", "attributes": shown | {"friendly_name": one}} for one in FIELDS] + [
        {"entity_id": "text.note", "state": "Milk", "attributes": shown | {"mode": "text", "friendly_name": "Note"}},
        {"entity_id": "light.hall", "state": "off", "attributes": {"friendly_name": "Hall Lamp"}},
        {"entity_id": "automation.x", "state": "on", "attributes": {"friendly_name": "X"}},
    ]


@pytest.fixture
def texts(tmp_path: Path) -> Home:
    """A home with password fields, and a note that is none. An automation writes into a field once the lamp has been on."""
    (tmp_path / "states.json").write_text(json.dumps(rows()))
    listing = load_listing(tmp_path)
    write = {"action": "input_text.set_value", "target": {"entity_id": "input_text.wifi"}, "data": {"value": "tulip9"}}
    text = {"alias": "x", "triggers": [WRITE_ON], "actions": [write]}
    return import_home(listing.with_sources({AUTOMATIONS: {"automation.x": text}}), everything=True).home


class Forgetful(OtherHome):
    """A real home that does not tell what is in its password fields."""

    async def refresh_twin(self, twin: Home) -> Home:
        told = ((one.did, self.home.state_of(one.did)) for one in twin.plan.devices)
        return refresh_home(twin, [{"entity_id": did, "state": state["state"], "attributes": state} for did, state in told])


def forgetful(served: Served) -> Served:
    served.caretaker.real = served.real = Forgetful(served.real.home)
    return served


def all_told(served: Served) -> str:
    """Everything that can be read afterwards."""
    said = (one["content"] for one in served.dialogue)
    return "\n".join([served.journal.path.read_text(), render_journal_page(served.journal.read_entries()), *said])


@pytest.mark.parametrize("did", FIELDS)
@pytest.mark.parametrize("value", ["hunter2", "on", "päss, wörd"])
def test_what_is_written_into_a_password_field_is_told_nowhere(serve, texts, did, value):
    call = call_of(did, "set_value", value=value)
    served = forgetful(serve("confirm", call, f"It is '{value}' now.", of=texts))
    asked, done = served.say("set the word"), served.say("yes")
    assert "state from *** to ***" in asked and "(value ***)" in asked and done == "Done."
    assert served.real.home.read_value(did, "state") == value, "the real home got it"
    entry = served.journal.read_entries()[-1]
    (change,) = entry.changes
    assert (change.before, change.after, change.settled) == ("***", "***", "***")
    assert change.actual is None and not change.compared and not change.differs
    assert entry.outcome == "done" and entry.calls[0].arguments == {"value": "***"}
    assert len(value) < 4 or not any(form in all_told(served) for form in (value, json.dumps(value)[1:-1]))


def test_what_is_written_is_not_compared_and_not_repeated(serve, texts):
    served = forgetful(serve("act", call_of("text.wifi", "set_value", value="hunter2"), "It is hunter2 now.", of=texts))
    assert served.say("set the word") == "It is *** now."


def test_another_text_is_told(serve, texts):
    served = serve("act", call_of("text.note", "set_value", value="Bread"), "Bread it is.", of=texts)
    assert served.say("note it") == "Bread it is."
    (entry,) = served.journal.read_entries()
    assert (entry.changes[0].after, entry.calls[0].arguments) == ("Bread", {"value": "Bread"})


def test_what_an_automation_writes_into_a_password_field_is_not_told(serve, texts):
    served = serve("confirm", call_of("light.hall", "turn_on"), "On.", of=texts)
    assert served.say("light please") == "I would do this: Hall Lamp: state from off to on. Shall I do it?"
    assert "tulip9" not in all_told(served)


def test_what_a_call_that_fails_was_to_write_is_not_told(serve, texts):
    served = serve("act", call_of("text.wifi", "set_value", value="hunter2"), "It is set.", of=texts)

    async def wrong(twin, made):
        raise HomeAssistantError("'hunter2' is too easy.")

    served.real.carry_out_call = wrong
    assert "'***' is too easy" in served.say("set the word") and "hunter2" not in all_told(served)


def test_a_text_that_does_not_say_its_mode_may_be_a_password(texts):
    assert find_password_fields(texts) == set(FIELDS)
    assert find_password_fields(refresh_home(texts, rows(mode=None))) == set(FIELDS), "as while it is unavailable"
    assert find_password_fields(refresh_home(texts, rows(mode="text"))) == set()


LONG = ["12-34, 56" * 9, "(1)'2\"3\\4}5]" * 9, "päss wörd " * 9, ["47-11, 12" * 9], {"a": "47-11, 12" * 9}]


@pytest.mark.parametrize("code", LONG, ids=["separators", "signs", "letters", "a list", "an object"])
def test_no_part_of_a_refused_code_is_told(serve, house, code):
    served = serve("act", call_of("lock.front_door", "unlock", code=code), of=house, steps=1)
    reply = served.say("open the door")
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "refused" and "code = " in entry.refusals[0] and "***" in entry.refusals[0]
    parts = [part for one in ("34, 56", '2"3', "wörd", "47-11") for part in (one, json.dumps(one)[1:-1])]
    assert not any(part in told for part in parts for told in (reply, all_told(served)))


def test_a_code_that_is_given_by_position_is_not_told(house, tmp_path):
    """As in the Python of `homeflow`, where the call has no names."""
    snippet = 'device("lock.front_door").unlock("12-34, " + "56" * 20)'
    agent = Says(call_message(tool_call("pyexec", {"code": snippet})), f"It did not take 12-34, {'56' * 20}.")
    journal = AgentJournal(tmp_path / "agent.jsonl")
    real = OtherHome(house)
    caretaker = Caretaker(house, lambda: agent, real, journal, CaretakerSettings("shadow", "homeflow", "en"), "script")
    served = Served(caretaker, real, journal)
    assert served.say("open the door") == "It did not take ***."
    assert journal.read_entries()[0].outcome == "refused" and "5656" not in all_told(served)


def test_words_of_a_question_are_not_hidden_by_a_code_that_is_like_them(serve, house):
    """Or an agent could ask for consent to something that the person cannot read."""
    served = serve("act", call_of("lock.front_door", "unlock", code="Front Door"), "Open.", of=house)
    assert "Front Door: state from locked to unlocked" in served.say("open the door")


def test_secrets_are_read_from_calls_however_they_are_written():
    escaped = {"function": {"name": "f", "arguments": '{"arguments": {"code": "p\\u00e4ss, 1"}}'}}
    within = tool_call("f", {"arguments": json.dumps({"pin": "47, 11"})})
    broken = {"function": {"name": "f", "arguments": '{"code": "4711", '}}
    nested = tool_call("f", {"actions": [{"did": "text.wifi", "arguments": {"value": ["hunter2"]}}]})
    for call, secret in ((escaped, "päss, 1"), (within, "47, 11"), (broken, "4711"), (nested, "hunter2")):
        assert secret in secrets_in_reply(Reply(call_message(call)), frozenset(FIELDS))
    answer = text_message('{"mode": "execute", "actions": [{"did": "lock.a", "arguments": {"code": "47, 11"}}]}')
    assert "47, 11" in secrets_in_reply(Reply(answer), frozenset())
    assert "4711" in secrets_in_reply(Reply(text_message('<tool_call>{"code": "4711"'), "it is cut"), frozenset())
    assert not secrets_in_reply(Reply(text_message("The washer shows this error code: E24.")), frozenset())


def test_conditions_and_what_is_nothing_are_no_secrets():
    said = {"conditions": ['device("lock.a").code == "4711"'], "code": None, "pin": "", "password": [], "value": "hall"}
    assert secrets_in_data(said, frozenset(FIELDS)) == {"4711"}


@pytest.mark.parametrize(
    ("text", "secret", "told"),
    [
        ("It is 4711.", "4711", "It is ***."),
        ("密码是4711吗", "4711", "密码是***吗"),
        ("code = 'a, b(c)' is wrong", "a, b(c)", "code = '***' is wrong"),
        ('{"code": "p\\u00e4ss"}', "päss", '{"code": "***"}'),
        ('"{\\"code\\": \\"a\\\\\\"bc\\"}"', 'a"bc', '"{\\"code\\": \\"***\\"}"'),
        ("code = 'it\\'s \"me\"'", 'it\'s "me"', "code = '***'"),
        ("code = '12345678... is outside", "1234567890", "code = '***... is outside"),
        ("code = '1' is wrong, after 1 of 12 s", "1", "code = '***' is wrong, after 1 of 12 s"),
        ("code = 1 is no text; the code is 1", "1", "code = *** is no text; the code is ***"),
        ('{\\"code\\": \\"1\\", \\"level\\": 1}', "1", '{\\"code\\": \\"***\\", \\"level\\": 1}'),
        ("The light is on, the code 'on' is wrong.", "on", "The light is on, the code '***' is wrong."),
        ("code 12 of 1", "1", "code 12 of 1"),
    ],
)
def test_a_secret_is_masked_in_each_form_and_a_short_one_where_it_is_clear(text, secret, told):
    assert mask_secrets(text, {secret}) == told


def test_what_a_tool_only_tried_is_not_done(serve, tmp_path):
    """Assist tries calls that belong together in a copy first."""
    written_home(tmp_path, Row("humidifier.a", "Humidifier", features=1))
    states = json.loads((tmp_path / "states.json").read_text())
    states[0]["attributes"] |= {"min_humidity": 0, "max_humidity": 100, "humidity": 40, "available_modes": ["home"]}
    (tmp_path / "states.json").write_text(json.dumps(states))
    home = import_home(load_listing(tmp_path), everything=True).home
    wet = call_message(tool_call("humidifier__HassHumidifierSetpoint", {"name": "Humidifier", "humidity": 50}))
    served = serve("act", wet, "It is wetter.", of=home)
    served.caretaker.house = CaretakerSettings("act", "assist", "en", settle=0.05)
    assert served.say("more water") == "It is wetter."
    assert [one.service for one in served.real.made] == ["turn_on", "set_humidity"]
