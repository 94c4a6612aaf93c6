"""Where an automation acts on a guarded device, and the twin cannot play it, a call that may set it off needs consent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from serving import call_of
from written_home import Row, written_home

from homerl.envs.assistant.home_import import ImportedHome, build_import_report, import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, EXPOSED
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.live_situation import LiveBlueprint, LiveSituation
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, save_home

UNLOCK = {"action": "lock.unlock", "target": {"entity_id": "lock.front_door"}}
PORCH = {"action": "light.turn_on", "target": {"entity_id": "light.porch"}}
ROWS = (
    Row("light.hall", "Hall Lamp"),
    Row("light.porch", "Porch Lamp"),
    Row("light.all", "All Lamps", members=["light.hall", "light.porch"]),
    Row("switch.x", "Plug"),
    Row("lock.front_door", "Front Door", state="locked"),
    Row("automation.x", "X", state="on"),
    Row("automation.y", "Y", state="on"),
)
SOMETIME = {"for": "{{ range(9) | random }}"}  # which nobody can follow
SEEN = ("light.hall", "light.porch", "light.all", "switch.x")


def on(*entities: str, **more: Any) -> dict[str, Any]:
    return {"trigger": "state", "entity_id": [*entities] if len(entities) > 1 else entities[0], "to": "on"} | more


@pytest.fixture
def brought(tmp_path):
    """A home with automations, each a trigger and an action. Without `exposed` all is imported."""

    def made(*automations: tuple[dict[str, Any], dict[str, Any]], exposed: tuple[str, ...] = ()) -> ImportedHome:
        written_home(tmp_path, *ROWS)
        listing = load_listing(tmp_path)
        texts = {
            f"automation.{letter}": {"alias": f"Secret {letter}", "triggers": [trigger], "actions": [action]}
            for letter, (trigger, action) in zip("xy", automations, strict=False)
        }
        known = {"exposed_entities": {name: {"conversation": True} for name in exposed}}
        listing = listing.model_copy(update={"sources": listing.sources | {AUTOMATIONS: texts, EXPOSED: known}})
        return import_home(listing, everything=not exposed)

    return made


def asks(serve, home: Home, did: str, service: str = "turn_on") -> str:
    """The question before a call in the mode `act`; empty if there is none."""
    served = serve("act", call_of(did, service), "Here you are.", of=home)
    reply = served.say("please")
    assert bool(served.real.made) == (reply == "Here you are.")
    return "" if served.real.made else reply


@pytest.mark.parametrize(("read", "called"), [("light.hall", "light.all"), ("light.all", "light.hall")])
def test_a_group_drives_its_members_and_follows_them(serve, brought, read, called):
    home = brought((on(read), UNLOCK)).home
    assert "consent" in (reply := asks(serve, home, called)) and "perhaps, by an automation: Front Door" in reply
    served = serve("act", call_of(called, "turn_on"), "Here.", of=home)
    served.say("please")
    assert served.journal.read_entries()[-1].guarded == {called: "automation"}


def test_other_members_of_a_called_lamps_group_are_not_asked_about(serve, brought):
    assert not asks(serve, brought((on("light.hall"), UNLOCK)).home, "light.porch")


@pytest.mark.parametrize("action", [PORCH, {"action": "switch.turn_on", "target": {"entity_id": "switch.x"}}])
def test_groups_need_no_consent_where_automations_are_harmless(serve, brought, action):
    home = brought((on("light.hall"), action)).home
    assert not asks(serve, home, "light.all") and not asks(serve, home, "light.porch")


def test_one_automation_may_set_off_another(serve, brought):
    switch = {"action": "switch.turn_on", "target": {"entity_id": "switch.x"}}
    home = brought((on("light.hall"), switch), (on("switch.x"), UNLOCK)).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "light.all")


def test_an_automation_that_is_not_exposed_is_followed(serve, brought):
    home = brought((on("light.hall", **{"for": 60}), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    assert not home.rules and "automation.x" not in home.plan.devices_by_did
    assert "later: Front Door: state from locked to unlocked" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "light.porch")


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ({"action": "mqtt.publish", "data": {"topic": "lock"}}, "mqtt"),
        ({"action": "shell_command.open"}, "shell command"),
        ({"action": "automation.turn_on", "target": {"entity_id": "automation.z"}}, "automation"),
        ({"choose": [{"conditions": [], "sequence": [{"action": "rest_command.open"}]}]}, "rest command"),
        ({"action": "notify.phone", "data": {"message": "Hi"}}, ""),
    ],
)
def test_what_is_taken_and_reaches_beyond_the_home_is_asked_about(serve, brought, action, end):
    imported = brought((on("light.hall"), action))
    assert not any(note.entity == "automation.x" and note.part == "automation" for note in imported.notes)
    reply = asks(serve, imported.home, "light.hall")
    assert f"perhaps, by an automation: {end}" in reply if end else not reply
    assert not asks(serve, imported.home, "light.porch")


def test_what_a_run_waits_for_is_asked_about(serve, brought):
    """Whether one waits in the real home, the twin does not know."""
    steps = {"sequence": [{"wait_for_trigger": [on("light.hall")]}, UNLOCK]}
    assert "perhaps, by an automation: Front Door" in asks(serve, brought((on("switch.x"), steps)).home, "light.hall")


def test_it_is_followed_while_it_is_on(serve, brought):
    home = brought((on("light.hall"), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    served = serve("act", call_of("light.hall", "turn_on"), "Here.", of=home)
    caretaker = served.caretaker
    caretaker.home = refresh_home(caretaker.home, [{"entity_id": "automation.x", "state": "off", "attributes": {}}])
    assert served.say("please") == "Here." and served.real.made


def test_no_agent_is_told_of_it(serve, brought):
    home = brought((on("light.hall"), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    served = serve("act", call_message(tool_call("list_automations", {})), "None.", of=home)
    served.say("which automations are there?")
    heard = str(served.caretaker.agents().heard[-1].messages)
    shown = str(LiveSituation.begin_visit(served.caretaker.home, LiveBlueprint("direct", "en")).opening())
    assert not any(word in heard + shown for word in ("automation.x", "Secret"))


@pytest.mark.parametrize(
    ("trigger", "action"),
    [
        (on("light.hall"), UNLOCK),
        (on("light.hall", "switch.x"), UNLOCK),
        (on("light.hall", to=None), UNLOCK),
        (on("light.hall", **{"from": ["off", "unknown"]}), UNLOCK),
        ({"trigger": "light.turned_on", "target": {"entity_id": "light.hall"}}, UNLOCK),
        (on("light.all"), UNLOCK),
        (on("light.hall"), {"action": "lock.unlock", "target": {"area_id": "hall"}}),
        (on("light.hall"), {"device_id": "17", "domain": "lock", "type": "unlock", "entity_id": "0af3"}),
        (on("light.hall"), {"choose": [{"conditions": ["{{ 1 }}"], "sequence": [{"if": ["{{ 1 }}"], "then": [UNLOCK]}]}]}),
        (on("light.hall"), {"parallel": [PORCH, {"repeat": {"count": 2, "sequence": UNLOCK}}]}),
    ],
    ids=["lock", "several", "any state", "from", "new kind", "group", "area", "device", "choose", "parallel"],
)
def test_what_cannot_be_followed_is_asked_about_and_reported(serve, brought, trigger, action):
    imported = brought((trigger, action), exposed=SEEN)
    assert any(note.entity == "automation.x" for note in imported.notes)
    reply = asks(serve, imported.home, "light.hall")
    assert "consent" in reply and "perhaps, by an automation: lock" in reply and "front" not in reply.casefold()
    assert not asks(serve, imported.home, "light.porch") or trigger == on("light.all")


@pytest.mark.parametrize(
    ("trigger", "action"),
    [
        (on("light.hall, light.porch"), UNLOCK),
        (on("Light.Hall"), UNLOCK),
        ({"triggers": [on("light.hall")]}, UNLOCK),
        (on("light.hall"), {"scene": "scene.open_up"}),
        (on("light.hall"), {"action": "switch.turn_on", "target": {"entity_id": "switch.front_door, switch.gate"}}),
        (on("light.hall"), {"action": "switch.turn_on", "entity_id": "switch.Front_Door"}),
        ({"trigger": "time", "at": ["07:00", "light.hall"]}, UNLOCK),
        ({"trigger": "time", "at": {"entity_id": "Light.Hall", "offset": "-00:05:00"}}, UNLOCK),
        ({"trigger": "numeric_state", "entity_id": "sensor.sun", "above": "light.hall"}, UNLOCK),
        ({"trigger": "calendar", "event": "start", "entity_id": "light.hall"}, UNLOCK),
        ({"trigger": "device", "domain": "light", "type": "turned_on", "entity_id": "light.hall"}, UNLOCK),
        (on("light.hall"), {"action": "shell_command.welcome"}),
        (on("light.hall"), {"action": "esphome.node_open_gate"}),
        (on("light.hall"), {"action": "{{ what }}", "target": {"entity_id": "lock.front_door"}}),
    ],
    ids=[
        "with commas",
        "in capitals",
        "a list of triggers",
        "a scene",
        "several targets",
        "a target in capitals",
        "at the time of a helper",
        "before it",
        "a bound",
        "an event of a calendar",
        "a device trigger",
        "a command",
        "a service that says it",
        "a service that is a template",
    ],
)
def test_other_ways_to_write_it_are_read_too(serve, brought, trigger, action):
    """A lamp stands for whatever entity a trigger may name."""
    home = brought((trigger, action), exposed=SEEN).home
    assert "perhaps, by an automation" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "switch.x")


def test_an_automation_that_cannot_be_followed_and_is_harmless_needs_no_consent(serve, brought):
    home = brought((on("light.hall", **SOMETIME), PORCH), exposed=SEEN).home
    assert not home.plan.origin.hidden and not asks(serve, home, "light.hall")


def test_the_home_file_keeps_it(serve, brought):
    hidden = brought((on("light.hall"), UNLOCK), (on("switch.x", **SOMETIME), UNLOCK), exposed=(*SEEN, "lock.front_door"))
    home = hidden.home
    again = home_from_json(json.loads(json.dumps(home_to_json(home))))
    assert again.state_key() == home.state_key() and again.plan.origin == home.plan.origin
    assert asks(serve, again, "light.hall") and asks(serve, again, "switch.x")
    assert build_import_report(hidden)["automations_for_the_guard_alone"] == 1
    saved = import_home(hidden.listing, everything=True)
    assert home_to_json(saved.home) == home_to_json(home) and saved.listing == hidden.listing


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [("hidden", "conditions", ['device("light.gone").state == "on"']), ("unfollowed", "reads", ["light.gone"])],
)
def test_a_home_file_that_is_wrong_about_it_is_refused(brought, part, field, value):
    home = brought((on("light.hall"), UNLOCK), (on("switch.x", **SOMETIME), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    data = json.loads(json.dumps(home_to_json(home)))
    data["origin"][part][0][field] = value
    with pytest.raises(InputError, match=r"light\.gone"):
        home_from_json(data)


def test_what_was_consented_to_names_its_guarded_device_in_the_log(serve, brought):
    served = serve("act", call_of("lock.front_door", "unlock"), "Here.", of=brought().home)
    served.say("please")
    assert served.say("yes") == "Done."
    lines = [json.loads(line) for line in served.journal.path.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["asked", "acting", "done"]
    assert all(line["guarded"] == {"lock.front_door": "guarded"} for line in lines)


@pytest.mark.parametrize("keep", ["nothing", "weather", "state"])
def test_tasks_have_nothing_of_it(brought, tmp_path, keep):
    hidden = (on("light.hall"), UNLOCK), (on("switch.x", **SOMETIME), UNLOCK)
    save_home(brought(*hidden, exposed=(*SEEN, "lock.front_door")).home, tmp_path / "home.json")
    drawn = make_home(1, HomeRecipe(files=(str(tmp_path / "home.json"),), keep=keep))
    assert drawn.plan.origin is not None and "automation" not in json.dumps(home_to_json(drawn))
