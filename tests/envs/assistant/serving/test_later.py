"""What an automation makes of a call afterwards needs consent as if the call did it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from serving import call_of
from written_home import Row, written_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, SCRIPTS
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.call_effects import FORESIGHT_SECONDS, foresee_later_effects
from homerl.envs.assistant.serving.live_situation import LiveBlueprint, LiveSituation
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.homeenv.sim.home import Home

UNLOCK = {"action": "lock.unlock", "target": {"entity_id": "lock.front_door"}}
PORCH = {"action": "light.turn_on", "target": {"entity_id": "light.porch"}}
LAMP_ON = {"trigger": "state", "entity_id": "light.hall", "to": "on"}
BLIND_UP = {"trigger": "numeric_state", "entity_id": "cover.blind", "attribute": "current_position", "above": 50}
SHOWN = {"cover.blind": {"current_position": 0}, "sensor.level": {"unit_of_measurement": "%"}}
LATER = "later: Front Door: state from locked to unlocked"
SEQUENCES = {"script.gate": {"sequence": [{"action": "rest_command.gate"}]}}  # a script whose work the twin does not show


@pytest.fixture
def automated(tmp_path):
    """A home with an automation, which has one trigger or several."""

    def made(trigger: dict[str, Any] | list[dict[str, Any]], *actions: dict[str, Any]) -> Home:
        written_home(
            tmp_path,
            Row("light.hall", "Hall Lamp"),
            Row("light.porch", "Porch Lamp"),
            Row("lock.front_door", "Front Door", state="locked"),
            Row("cover.blind", "Blind", state="closed", device_class="blind", closed=True),
            Row("automation.x", "X", state="on"),
            Row("alarm_control_panel.home", "Alarm", state="armed_away", code_format="number", code_arm_required=True),
            Row("cover.garage", "Garage Door", state="open", device_class="garage", closed=False),
            Row("script.gate", "Gate"),
            Row("sensor.level", "Level", state="unknown"),
        )
        states = json.loads((tmp_path / "states.json").read_text())
        for state in states:
            state["attributes"] |= SHOWN.get(state["entity_id"], {})
        (tmp_path / "states.json").write_text(json.dumps(states))
        listing = load_listing(tmp_path)
        triggers = trigger if isinstance(trigger, list) else [trigger]
        text = {"alias": "x", "triggers": triggers, "actions": list(actions or (UNLOCK,))}
        texts = {AUTOMATIONS: {"automation.x": text}, SCRIPTS: SEQUENCES}
        home = import_home(listing.with_sources(texts), everything=True).home
        assert home.rules or "wait_for_trigger" in str(actions)
        return home

    return made


@pytest.mark.parametrize(
    ("trigger", "call"),
    [
        (LAMP_ON | {"for": "00:00:05"}, ("light.hall", "turn_on")),
        (LAMP_ON | {"for": "00:30:00"}, ("light.hall", "turn_on")),
        ({"trigger": "state", "entity_id": "cover.blind", "to": "open"}, ("cover.blind", "open_cover")),
        (BLIND_UP, ("cover.blind", "open_cover")),
    ],
    ids=["soon", "half an hour", "arrived", "position"],
)
def test_a_lock_that_opens_later_needs_consent(serve, automated, trigger, call):
    served = serve("act", call_of(*call), "Here you are.", of=automated(trigger))
    reply = served.say("please")
    assert "consent" in reply and LATER in reply and not served.real.made
    (entry,) = served.journal.read_entries()
    assert entry.guarded == {"lock.front_door": "guarded"}
    assert [(one.did, one.path, one.after) for one in entry.later] == [("lock.front_door", "state", "unlocked")]
    assert served.say("yes") == "Done." and served.real.home.read_value("lock.front_door", "state") == "locked"


def test_a_wait_that_is_too_long_to_follow_counts_as_if_it_had_ended(serve, automated):
    home = automated(LAMP_ON | {"for": {"seconds": FORESIGHT_SECONDS + 1}})
    served = serve("act", call_of("light.hall", "turn_on"), "Here you are.", of=home)
    assert "later: Front Door: unlock" in served.say("please") and not served.real.made


def test_what_an_automation_does_unseen_needs_consent_too(serve, automated):
    lock = UNLOCK | {"action": "lock.lock"}  # the twin holds that it is locked already
    served = serve("act", call_of("light.hall", "turn_on"), "Here you are.", of=automated(LAMP_ON, lock))
    assert "later: Front Door: lock" in served.say("please") and not served.real.made


@pytest.mark.parametrize(
    "trigger",
    [LAMP_ON | {"for": "02:00:00"}, {"trigger": "time", "at": "00:10:00"}],
    ids=["another lamp", "time of day"],
)
def test_what_happens_without_the_call_too_needs_no_consent(serve, automated, trigger):
    served = serve("act", call_of("light.porch", "turn_on"), "Here you are.", of=automated(trigger))
    assert served.say("please") == "Here you are." and served.real.made
    assert not served.journal.read_entries()[0].later


def test_a_harmless_automation_needs_no_consent_and_is_told(serve, automated):
    trigger = LAMP_ON | {"for": "00:05:00"}
    served = serve("confirm", call_of("light.hall", "turn_on"), "Here you are.", of=automated(trigger, PORCH))
    assert "later: Porch Lamp: state from off to on" in served.say("please")
    assert not served.journal.read_entries()[0].guarded


def test_looking_ahead_changes_no_home(automated):
    home = automated(LAMP_ON | {"for": "00:00:05"})
    twin = home.fork()
    twin.call("light.hall", "turn_on")
    keys = home.state_key(), twin.state_key()
    assert (
        foresee_later_effects(home, twin).affected_dids == ["lock.front_door"]
        and (home.state_key(), twin.state_key()) == keys
    )


LAMP = ("light.hall", "turn_on")
EACH_DAY = {"conditions": ["time_cron = 0 0 7 * * ? *"], "actions": [{"did": "light.hall", "locator": "turn_on"}]}
EDITS = {
    "delete": ("delete_automation", {"id": "automation.x"}),
    "disable": ("edit_automation", {"id": "automation.x", "enabled": False}),
    "create": ("create_automation", EACH_DAY),
    "badly": ("create_automation", {"actions": []}),
}


@pytest.mark.parametrize(("tool", "arguments"), EDITS.values(), ids=EDITS)
def test_an_agent_changes_no_automation(serve, automated, tool, arguments):
    """So what an automation does to a lock is asked about as before, and the refusal is in the log."""
    served = serve("act", call_message(tool_call(tool, arguments)), call_of(*LAMP), "Each day at 7.", of=automated(LAMP_ON))
    reply = served.say("please")
    assert "consent" in reply and "Front Door: state from locked" in reply and not served.real.made
    (refusal,) = served.journal.read_entries()[0].refusals
    assert "no automations" in refusal and "no automations" in str(served.caretaker.agents().heard[1].messages[-1])


@pytest.mark.parametrize("mode", ["shadow", "confirm", "act"])
def test_nobody_hears_of_an_automation_that_was_not_made(serve, automated, mode):
    made = call_message(tool_call("create_automation", EACH_DAY))
    served = serve(
        mode,
        made,
        "I will turn on the lamp at seven.",
        made,
        call_of("light.porch", "turn_on"),
        "Both done.",
        of=automated(LAMP_ON),
    )
    reply = served.say("lamp on at seven each day")
    assert "cannot make" in reply and "seven" not in reply and served.journal.read_entries()[0].outcome == "refused"
    reply = served.say("and the porch now")
    assert "Both" not in reply and reply.startswith("Done. I cannot make") == (mode == "act")


def test_one_answer_changes_no_automation_either(automated):
    situation = LiveSituation.begin_visit(automated(LAMP_ON), LiveBlueprint("direct", "en"))
    text, info = situation.take({"name": "answer", "mode": "execute", "automations": [EACH_DAY]})
    assert "no automations" in text and info["blocked"] and len(situation.home.rules) == 1


def test_looking_ahead_follows_the_automations_of_the_real_home(automated):
    home = automated(LAMP_ON)
    twin = home.fork()
    twin.rules = ()
    twin.call(*LAMP)
    assert foresee_later_effects(home, twin).affected_dids == ["lock.front_door"]


def waiting(delay: str) -> dict[str, Any]:
    return {"sequence": [{"delay": delay}, UNLOCK]}


PORCH_LIT = {"condition": "state", "entity_id": "light.porch", "state": "on"}


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (waiting("00:10:00"), LATER),
        (waiting("02:00:00"), "later: Front Door: unlock"),
        ({"if": [PORCH_LIT], "then": [UNLOCK]}, ""),
        ({"choose": [{"conditions": [PORCH_LIT], "sequence": []}], "default": [UNLOCK]}, LATER.removeprefix("later: ")),
        ({"wait_for_trigger": [LAMP_ON | {"entity_id": "light.porch"}], "timeout": "00:05:00"}, ""),
    ],
)
def test_steps_are_followed_as_far_as_they_go(serve, automated, action, told):
    reply = serve("act", call_of("light.hall", "turn_on"), "Here you are.", of=automated(LAMP_ON, action)).say("please")
    assert told in reply if told else reply == "Here you are."


PORCH_DARK = PORCH_LIT | {"state": "off"}
DISARM = {"action": "alarm_control_panel.alarm_disarm", "target": {"entity_id": "alarm_control_panel.home"}}
DISARMED = PORCH_LIT | {"entity_id": "alarm_control_panel.home", "state": "disarmed"}
GARAGE = {"action": "cover.open_cover", "target": {"entity_id": "cover.garage"}}  # which the twin holds to be open already
GATE = {"action": "script.gate"}
SOON = {"delay": "00:00:10"}
REFUSED = {  # the twin does not know the level, so it refuses the call
    "action": "cover.set_cover_position",
    "target": {"entity_id": "cover.blind"},
    "data": {"position": "{{ states('sensor.level') | int }}"},
}
UNSEEN = {
    "a script": ([GATE], "later: Gate: turn on"),
    "a script behind a condition": ([PORCH_DARK, GATE], "later: Gate: turn on"),
    "a script behind a choice": ([{"choose": [{"conditions": PORCH_DARK, "sequence": [GATE]}]}], "later: Gate: turn on"),
    "a script soon": ([SOON, GATE], "later: Gate: turn on"),
    "an open door": ([PORCH_DARK, GARAGE], "later: Garage Door: open cover"),
    "open for a while": ([SOON, UNLOCK, SOON, UNLOCK | {"action": "lock.lock"}], "later: Front Door: unlock"),
    "a code": ([PORCH_DARK, DISARM | {"data": {"code": "8421"}}], "Alarm: state from armed_away to disarmed"),
    "what a code leads to": ([DISARM, SOON, DISARMED, UNLOCK], LATER),
    "behind a refused call": ([PORCH_DARK, REFUSED, UNLOCK], "later: Front Door: unlock"),
}


@pytest.mark.parametrize(("actions", "told"), UNSEEN.values(), ids=UNSEEN)
def test_what_steps_do_unseen_needs_consent_too(serve, automated, actions, told):
    served = serve("act", call_of(*LAMP), "Here you are.", of=automated(LAMP_ON, *actions))
    assert told in served.say("please") and not served.real.made
    assert served.say("yes").startswith("Done.") and served.real.made, "it is asked once"


HARMLESS = {
    "a condition": [PORCH_LIT, GATE],
    "another branch": [{"if": [PORCH_LIT], "then": [GATE, DISARM], "else": [SOON]}],
    "before a refused call": [{"if": [PORCH_LIT], "then": [UNLOCK]}, REFUSED],
}


@pytest.mark.parametrize("actions", HARMLESS.values(), ids=HARMLESS)
def test_what_steps_do_not_come_to_needs_none(serve, automated, actions):
    served = serve("act", call_of(*LAMP), "Here you are.", of=automated(LAMP_ON, *actions))
    assert served.say("please") == "Here you are." and served.real.made


def test_a_run_that_still_waits_tells_nothing_of_another_trigger(serve, automated):
    def of(id: str, *steps: dict[str, Any]) -> dict[str, Any]:
        return {"conditions": [{"condition": "trigger", "id": id}], "sequence": [*steps]}

    choice = {"choose": [of("hall", {"delay": "02:00:00"}, PORCH), of("porch", UNLOCK)]}
    triggers = [LAMP_ON | {"id": "hall"}, LAMP_ON | {"id": "porch", "entity_id": "light.porch"}]
    home = automated(triggers, choice)
    twin = home.fork()
    twin.call(*LAMP)
    assert foresee_later_effects(home, twin).affected_dids == ["light.porch"]


HALL_LIT = PORCH_LIT | {"entity_id": "light.hall"}


@pytest.mark.parametrize("steps", [[GATE], [{"delay": "02:00:00"}, UNLOCK]], ids=["does", "waits"])
def test_what_a_timed_automation_does_only_because_of_the_call_needs_consent(serve, automated, steps):
    home = automated({"trigger": "time", "at": "00:10:00"}, {"if": [HALL_LIT], "then": steps})
    served = serve("act", call_of(*LAMP), "Here you are.", call_of("light.porch", "turn_on"), "And here.", of=home)
    assert "later: " in served.say("please") and not served.real.made
    assert served.say("and the porch") == "What I asked about before is not done. And here." and served.real.made
