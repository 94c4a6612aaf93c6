"""Scenes and buttons: their state in the real home is the time of the last press."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import call_of
from written_home import Row, written_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.homeenv.sim.home import Home

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
    listing = load_listing(tmp_path)
    sources = listing.sources | {AUTOMATIONS: {"automation.x": text}}
    home = import_home(listing.model_copy(update={"sources": sources}), everything=True).home
    reply = serve("act", call_of("light.hall", "turn_on"), "Here.", of=home).say("light")
    assert "later: Film: turn on" in reply and "from 0" not in reply
