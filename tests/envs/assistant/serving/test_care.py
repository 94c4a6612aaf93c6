"""A request makes the agent more careful than it was started, and never less."""

from __future__ import annotations

import pytest
from serving import call_of, device_of, state
from written_home import Row, written_home

from homerl.envs.assistant.serving.exchange import RequestCare
from homerl.envs.assistant.serving.openai_endpoint import parse_request_care
from homerl.host.web_server import BadRequest


@pytest.mark.parametrize(
    ("started", "asked", "acts", "asks"),
    [
        ("act", RequestCare(), True, False),
        ("act", RequestCare("confirm"), False, True),
        ("act", RequestCare("shadow"), False, False),
        ("confirm", RequestCare("act"), False, True),
        ("shadow", RequestCare("act"), False, False),
    ],
)
def test_the_more_careful_mode_holds(serve, lamp, started, asked, acts, asks):
    served = serve(started, call_of(lamp.did, "turn_on"), "Done.")
    served.say("Light, please.", asked)
    (entry,) = served.journal.read_entries()[-1:]
    assert bool(served.real.made) == acts and (entry.outcome == "asked") == asks
    assert entry.mode == asked.limit_mode(started)


def test_what_a_request_guards_needs_consent(serve, lamp):
    served, care = serve("act", call_of(lamp.did, "turn_on"), "Done."), RequestCare(guard=frozenset({lamp.did}))
    served.say("Light, please.", care)
    assert not served.real.made
    served.say("yes", care)
    assert state(served, lamp) == "on"


def test_what_a_request_guards_needs_consent_though_its_owner_allowed_it(serve, home):
    lock = device_of(home, "lock")
    for care, acts in ((RequestCare(), True), (RequestCare(guard=frozenset({lock.did})), False)):
        served = serve("act", call_of(lock.did, "unlock"), "Done.", allowed=[lock.did])
        served.say(f"Unlock the {lock.room.name} {lock.name}.", care)
        assert bool(served.real.made) == acts


def test_a_proposal_is_not_carried_out_by_who_only_watches(serve, lamp):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "Done.", "Yes?")
    served.say("Light, please.")
    served.say("yes", RequestCare("shadow"))
    assert not served.real.made


def test_a_code_that_comes_too_late_is_not_in_the_log(serve, tmp_path):
    home = written_home(tmp_path, Row("lock.front", "Front Door", state="locked", code_format="^[0-9]{4}$"))
    served = serve("act", call_of("lock.front", "unlock"), "Open.", "Hm.", of=home)
    served.say("unlock the front door")
    served.say("1234", RequestCare("shadow"))
    assert not served.real.made and "1234" not in served.journal.path.read_text()


@pytest.mark.parametrize(
    "asked", ["act", ["act"], {"mode": "bold"}, {"mode": ["act"]}, {"guard": "switch.a"}, {"guard": [1]}, {"guards": []}]
)
def test_care_that_cannot_be_read_is_refused(asked):
    with pytest.raises(BadRequest):
        parse_request_care({"homerl": asked})


def test_a_request_without_care_has_none():
    assert parse_request_care({"messages": []}) == RequestCare()
    assert parse_request_care({"homerl": {"mode": "confirm", "guard": ["switch.a"]}}) == RequestCare(
        "confirm", frozenset({"switch.a"})
    )
