"""What reaches the real home, and what does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from scripted_server import Faults, ScriptedServer
from serving import call_of, device_of, state
from written_home import Row, written_home

from homerl.envs.assistant.listing.room_and_device_names import spoken_device_name
from homerl.envs.assistant.serving import caretaker as module
from homerl.envs.assistant.serving import consent as proposals
from homerl.envs.assistant.serving.consent import is_guarded
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import call_message, tool_call
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.llm_agent import LLMAgent


def test_shadow_changes_nothing_and_says_what_it_would_have_done(serve, lamp):
    served = serve("shadow", call_of(lamp.did, "turn_on"), "The lamp is on.")
    before = served.real.home.state_key()
    reply = served.say("light please")
    assert served.real.home.state_key() == before and not served.real.made
    assert lamp.name in reply and "from off to on" in reply and "The lamp is on" not in reply
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "shadowed" and entry.changes[0].after == "on" and entry.calls[0].service == "turn_on"


def test_act_acts_and_compares(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    assert served.say("light please") == "The lamp is on."
    assert state(served, lamp) == "on"
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "done" and not any(change.differs for change in entry.changes)


@pytest.mark.parametrize(("said", "more"), [("light please", " That was: {}: turn on."), ("Turn on the {}!", "")])
def test_a_bare_confirmation_is_followed_by_what_was_done_unless_that_was_said(serve, lamp, said, more):
    served = serve("act", call_of(lamp.did, "turn_on"), "Done.")
    assert served.say(said.format(name := spoken_device_name(served.real.home.plan, lamp.did))) == "Done." + more.format(
        name
    )


def test_of_many_calls_a_few_are_told(serve, home):
    lamps = [one.did for one in home.plan.devices if one.spec.category == "light"]
    served = serve("act", *(call_of(did, "turn_on") for did in lamps), "All set.", steps=9)
    assert len(lamps) == 8 and (reply := served.say("light please")).count("turn on") == 4 and "and 4 more" in reply


def test_a_device_that_does_not_react_is_noticed(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    served.real.ignored.add(lamp.did)
    reply = served.say("light please")
    assert f"{lamp.name}: state is off" in reply
    (entry,) = served.journal.read_entries()
    assert [(one.path, one.after, one.actual) for one in entry.changes if one.path == "state"] == [("state", "on", "off")]


def test_a_device_that_fails_is_said(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.")
    served.real.broken.add(lamp.did)
    reply = served.say("light please")
    assert "does not answer" in reply and "The lamp is on" not in reply
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "failed" and [call.fate for call in entry.calls] == ["failed"]


def test_confirm_waits_for_a_yes_in_the_same_dialogue(serve, lamp):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "The lamp is on.")
    assert "Shall I" in served.say("light please") and state(served, lamp) == "off"
    assert served.say("Yes, please!") == "Done." and state(served, lamp) == "on"
    assert [entry.outcome for entry in served.journal.read_entries()] == ["asked", "done"]


@pytest.mark.parametrize("said", ["no", "never mind"])
def test_a_no_leaves_it(serve, lamp, said):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "The lamp is on.")
    served.say("light please")
    served.say(said)
    assert state(served, lamp) == "off" and served.journal.read_entries()[-1].outcome == "declined"


def test_consent_counts_only_as_the_whole_of_the_next_message(serve, lamp):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "On.", "I see.", "I see.")
    served.say("light please")
    served.say("yes, and open the door")
    served.say("yes")
    assert state(served, lamp) == "off" and not served.real.made


def test_consent_of_another_dialogue_does_not_count(serve, lamp):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "On.", "Hello.")
    served.say("light please")
    served.dialogue = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Shall I?"}]
    served.say("yes")
    assert state(served, lamp) == "off"


def test_consent_expires(serve, lamp, monkeypatch):
    monkeypatch.setattr(proposals, "CONSENT_SECONDS", 0)
    served = serve("confirm", call_of(lamp.did, "turn_on"), "On.", "What do you mean?")
    served.say("light please")
    assert served.say("yes") == "What do you mean?" and state(served, lamp) == "off"


def test_what_the_twin_refuses_never_reaches_the_home(serve, lamp):
    served = serve("act", call_of(lamp.did, "explode"), "I could not.")
    served.say("light please")
    assert not served.real.made
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "refused" and "unknown_service" in entry.refusals[0]


def test_the_twin_follows_the_home(serve, lamp):
    served = serve("shadow", call_of(lamp.did, "turn_on"), "On.")
    served.real.home.call(lamp.did, "turn_on")
    assert "change nothing" in served.say("light please")


def test_words_alone_are_passed_on_with_the_dialogue(serve):
    served = serve("act", "It is bright.", "As I said.")
    assert served.say("is it bright?") == "It is bright."
    served.say("really?")
    heard = served.caretaker.agents().heard[-1].messages
    assert [message["role"] for message in heard] == ["system", "user", "assistant", "user"]


def test_an_agent_that_never_stops_calling_is_cut(serve, lamp):
    calls = [call_of(lamp.did, name) for name in ("turn_on", "turn_off") * 10]
    served = serve("shadow", *calls)
    served.say("light please")
    assert len(served.journal.read_entries()[0].calls) == module.STEPS


def test_a_model_that_was_not_taught_to_end_is_stopped_after_its_first_message(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), call_of(lamp.did, "turn_off"), "Done twice.", steps=1)
    assert served.say("light please") == "Done." and state(served, lamp) == "on"


def test_a_device_is_told_as_a_person_calls_it(home, tmp_path):
    first, *others = home.plan.devices
    names = {other.did: f"small lamp {number}" for number, other in enumerate(others)} | {first.did: "small lamp"}
    apart = replace(home.plan, devices=tuple(replace(one, name=names[one.did]) for one in home.plan.devices))
    assert spoken_device_name(apart, first.did) == "small lamp"
    alike = replace(home.plan, devices=tuple(replace(one, name="small lamp") for one in home.plan.devices))
    assert spoken_device_name(alike, first.did) == f"{first.room.name} small lamp", "two have the name"
    rows = (
        Row("cover.garage_door", "Garage Door", "garage", "closed"),
        Row("light.x", "Lights", "kitchen"),
        Row("fan.y", "Fan"),
    )
    plan = written_home(tmp_path, *rows, areas={"garage": "Garage", "kitchen": "Kitchen"}).plan
    assert plan.devices_by_did["cover.garage_door"].name == "Door"
    assert [spoken_device_name(plan, row.entity_id) for row in rows] == ["Garage Door", "Kitchen Lights", "Fan"]


def test_only_what_was_asked_for_is_said(serve, home, lamp):
    """Whatever else follows from a call is in the log."""
    served = serve("shadow", call_of(lamp.did, "turn_on"), "On.")
    reply = served.say("light please")
    entry = served.journal.read_entries()[0]
    assert reply.count(" from ") == sum(change.path.endswith("state") for change in entry.changes) == 1


def test_no_further_call_is_begun_for_who_has_gone(serve, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), call_of(lamp.did, "turn_off"), "Blinked.")

    async def gone() -> bool:
        return bool(served.real.made)

    asyncio.run(served.caretaker.answer_dialogue([{"role": "user", "content": "blink the light"}], gone))
    assert [one.service for one in served.real.made] == ["turn_on"] and state(served, lamp) == "on"
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "partly" and "hung up" in (entry.error or "")


@pytest.mark.parametrize(
    ("status", "reason", "language", "told", "logged"),
    [
        (
            400,
            "request (9000 tokens) exceeds the available context size (4096 tokens)",
            "en",
            "list of this home's devices",
            "9000 tokens",
        ),
        (400, "request (9000 tokens) exceeds the available context size (4096 tokens)", "zh", "设备清单", "9000 tokens"),
        (400, "tools need --jinja", "en", "tools need --jinja", "tools need --jinja"),
        (401, "no such key", "zh", "no such key", "OPENAI_API_KEY"),
        (500, "the GPU is lost", "en", "the GPU is lost", "status 500"),
    ],
)
def test_why_the_model_does_not_answer_is_told_and_logged(serve, monkeypatch, status, reason, language, told, logged):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    served = serve("act", language=language)
    with ScriptedServer(faults=Faults(refusals=1.0), refusal=status, reason={"message": reason}) as server:
        served.caretaker.agents = lambda: LLMAgent(Endpoint([server.url], "scripted", Patience(5, 5, 2)))
        reply = served.say("is the light on?")
    (entry,) = served.journal.read_entries()
    assert told in reply and logged in (entry.error or "") and entry.outcome == "failed"
    assert reply != served.caretaker.words.fill_phrase("unable")


# Guarded devices


@pytest.fixture
def lock(home):
    lock = device_of(home, "lock")
    assert is_guarded(home, lock.did)
    home.call(lock.did, "lock")
    return lock


@pytest.mark.parametrize("allowed", [False, True])
def test_a_lock_needs_consent_unless_it_is_allowed_and_named(serve, lock, allowed):
    served = serve("act", call_of(lock.did, "unlock"), "It is open.", allowed=[lock.did] if allowed else [])
    reply = served.say(f"unlock the {lock.name}")
    assert (state(served, lock) == "unlocked") is allowed
    assert ("consent" in reply) is not allowed


def test_a_text_of_the_home_cannot_open_a_lock(serve, home, lock, lamp):
    """An agent that obeys the name of a device opens nothing: the speaker spoke of a lamp."""
    served = serve("act", call_of(lock.did, "unlock"), "Opened.", allowed=[lock.did])
    reply = served.say("what does the television play?")
    assert state(served, lock) == "locked" and not served.real.made and "consent" in reply
    assert served.journal.read_entries()[0].guarded == {lock.did: "not named"}


def test_one_guarded_call_holds_back_the_others_too(serve, lock, lamp):
    served = serve("act", call_of(lamp.did, "turn_on"), call_of(lock.did, "unlock"), "All done.")
    served.say("light, and let Ann in")
    assert not served.real.made
    served.say("yes")
    assert state(served, lamp) == "on" and state(served, lock) == "unlocked"


def test_a_language_without_sentences_is_refused(serve):
    with pytest.raises(InputError, match="--language"):
        serve("shadow", language="xx")


def test_chinese(serve, lamp):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "开了。", language="zh")
    assert served.say("开灯").endswith("要做吗？")
    assert served.say("好的。") == "好了。" and state(served, lamp) == "on"


def test_german_is_spoken_by_a_model_that_is_asked_in_english(serve, lamp):
    """There are no prompts in German."""
    served = serve("confirm", call_of(lamp.did, "turn_on"), "Ist an.", language="de")
    assert served.say("Licht an").endswith("Soll ich?")
    assert served.say("Ja.") == "Erledigt." and state(served, lamp) == "on"


@pytest.mark.parametrize(
    ("row", "service", "arguments", "told"),
    [
        (Row("lock.door", "Haustür", state="locked"), "unlock", {}, "Haustür: Zustand von verriegelt auf entriegelt"),
        (Row("lock.door", "Haustür", state="unlocked"), "unlock", {}, "Haustür: entriegeln (Zustand entriegelt)"),
        (Row("siren.hall", "Sirene", state="off", features=3), "turn_on", {}, "Sirene: Zustand von aus auf an"),
        (Row("valve.main", "Wasser", state="open", features=3), "close_valve", {}, "Wasser: Zustand von offen auf schließt"),
    ],
)
def test_a_home_that_does_not_tell_its_words_is_told_of_in_the_language_of_the_sentences(
    serve, tmp_path, row, service, arguments, told
):
    served = serve(
        "confirm", call_of(row.entity_id, service, **arguments), "Ja.", of=written_home(tmp_path, row), language="de"
    )
    assert told in served.say("bitte")


@pytest.mark.parametrize(
    "said", ["play The Doors", "lock the back door", "is the bedroom door closed?", "move to the front of the playlist"]
)
@pytest.mark.parametrize(
    ("did", "service"), [("lock.front_door", "unlock"), ("cover.garage_door", "toggle"), ("cover.garage_door", "open_cover")]
)
def test_a_sentence_that_shares_words_with_a_door_opens_none(serve, house, said, did, service):
    served = serve("act", call_of(did, service), "Here you are.", of=house, allowed=["lock.front_door", "cover.garage_door"])
    assert "consent" in served.say(said) and not served.real.made
    assert served.journal.read_entries()[0].guarded == {did: "not named"}


def test_a_script_that_the_owner_allowed_runs_for_a_sentence_that_names_it(serve, tmp_path):
    home = written_home(tmp_path, Row("script.evening", "Good night"))
    calls = [call_of("script.evening", "turn_on"), "Good night.", call_of("script.evening", "turn_on"), "Done it."]
    served = serve("act", *calls, of=home, allowed=["script.evening"])
    assert "consent" in served.say("it is late") and not served.real.made
    assert served.say("run good night") == "Done it." and served.real.made


@pytest.mark.parametrize("mode", ["shadow", "confirm", "act"])
@pytest.mark.parametrize("times", [module.MOST_CALLS, module.MOST_CALLS + 1])
def test_a_loop_of_a_model_wears_out_no_relay(serve, lamp, mode, times):
    calls = [tool_call("control_device", {"did": lamp.did, "locator": "turn_on", "arguments": {}}) for _ in range(times)]
    served = serve(mode, call_message(*calls), "It is on.")
    reply = served.say("light please")
    too_often = times > module.MOST_CALLS
    assert (f"{times} times" in reply) == too_often
    assert len(served.real.made) == (times if mode == "act" and not too_often else 0)
    assert (served.journal.read_entries()[-1].outcome == "refused") == too_often
