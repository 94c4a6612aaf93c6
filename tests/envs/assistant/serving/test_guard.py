"""Which devices are guarded, and which words of a person name one."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import call_of
from written_home import Row, written_home

from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.listing.room_and_device_names import is_device_named
from homerl.envs.assistant.serving.call_effects import Effects, LaterEffects
from homerl.envs.assistant.serving.consent import Guard, is_guarded
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.homeenv.sim.home import Home

AREAS = {"garage": "Garage", "hall": "Hall", "kitchen": "Kitchen", "bedroom": "Bedroom"}


def guarded(home: Home) -> set[str]:
    return {device.did for device in home.plan.devices if is_guarded(home, device.did)}


@pytest.mark.parametrize(
    "row",
    [
        Row("script.unlock_front", "Unlock the front door"),
        Row("script.good_night", "Good night"),  # nobody knows what it does
        Row("scene.arrival", "Arrival", members=["lock.front_door", "cover.garage_door"]),
        Row("automation.trigger", "Welcome", state="on"),
        Row("button.relay", "Relay"),
        Row("input_button.relay", "Relay"),
        Row("group.everything", "Everything"),
        Row("switch.relay_1", "Front door opener"),
        Row("switch.relay_2", "Intercom unlock"),
        Row("switch.relay_3", "Disarm"),
        Row("switch.relay_4", "Relay", "garage"),  # its room tells
        Row("switch.relay_5", "Relay", aliases=["Gate"]),
        Row("switch.relay_6", "Türöffner"),
        Row("switch.relay_7", "Portail"),
        Row("switch.relay_8", "车库门"),
        Row("switch.relay_9", "Unlocking relay"),
        Row("switch.relay_11", "Wohnungstür"),
        Row("switch.relay_12", "Relais Kellertu\u0308ren"),
        Row("switch.relay_13", "Tuindeur"),
        Row("switch.relay_14", "Haustuer"),
        Row("switch.haustur", "Relais"),  # an id has no umlauts
        Row("cover.shelly_1242", "Portao", state="closed", device_class="shutter"),
        Row("light.relay", "Stovetop"),
        Row("siren.hall", "Hall"),
        Row("cover.shelly_1241", "Gartentor", state="closed", device_class="shutter"),
        Row("remote.radio", "Radio", state="on"),  # it may have learned what opens the garage
        Row("light.opener", "Opener"),  # an act in a name counts for every kind
        Row("cover.shelly_1234", "Einfahrtstor", state="closed"),
        Row("cover.shelly_1235", "Portail", state="closed"),
        Row("cover.shelly_1236", "Garage Door", "garage", state="closed"),
        Row("cover.shelly_1237", "Cover", state="closed", device_class="window"),
        Row("cover.shelly_1238", "Garage Door", "garage", state="closed", device_class="shutter"),
        Row("cover.shelly_1239", "Garagentor", state="closed", device_class="shutter"),
        Row("cover.shelly_1240", "Cover", state="closed", device_class="curtain", aliases=["Gate"]),
        Row("cover.front_gate", "Cover", state="closed", device_class="blind"),
        Row("light.all", "Everything", members=["light.hall", "lock.front_door"]),
        Row("switch.all", "Everything", members=["switch.inner"]),
        Row("media_player.oven", "Oven"),
        Row("switch.entry", "Entry", members=["switch.turoffner"]),  # ids have no accents
        Row("switch.porton", "Relay"),
        Row("switch.relay_10", "Haustu\u0308r"),  # the same letter in two signs
    ],
    ids=lambda row: f"{row.entity_id} {row.name}",
)
def test_what_may_open_the_home_is_guarded(row: Row, tmp_path: Path) -> None:
    inner = Row("switch.inner", "Inner", members=["switch.all", "lock.front_door"])  # groups that hold each other
    assert row.entity_id in guarded(written_home(tmp_path, row, inner, areas=AREAS))


@pytest.mark.parametrize(
    "row",
    [
        Row("light.garage", "Garage Light", "garage"),
        Row("light.turkis", "Türkis"),
        Row("light.avenue", "Schlossallee"),
        Row("cover.store", "Stores", state="closed", device_class="blind"),
        Row("light.door", "Front Door Light", "hall"),
        Row("light.all", "All", members=["light.hall", "light.kitchen"]),
        Row("cover.blind", "Blind", "garage", state="closed", device_class="shade"),
        Row("switch.gateway", "Gateway"),
        Row("switch.clock", "Clock"),
        Row("switch.temperatur", "Motor Temperatur"),
        Row("media_player.hall", "Speaker", "hall"),
        Row("switch.hall", "门厅插座"),
        Row("binary_sensor.front_door", "Front Door"),  # nothing can be done with it
    ],
    ids=lambda row: f"{row.entity_id} {row.name}",
)
def test_what_is_known_to_be_harmless_is_not(row: Row, tmp_path: Path) -> None:
    assert not guarded(written_home(tmp_path, row, areas=AREAS))


def test_what_a_call_changes_elsewhere_needs_consent_too(tmp_path: Path) -> None:
    home = written_home(tmp_path, Row("light.hall", "Lamp"), Row("lock.front_door", "Front Door", state="locked"))
    lamp, later = ("light.hall",), LaterEffects(actions=(TwinCall("lock.front_door", "unlock", {}),))
    assert not Guard().needs_consent(home, Effects(lamp), "light please")
    assert Guard().needs_consent(home, Effects(lamp, later=later), "light please") == {"lock.front_door": "guarded"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with names that share words."""
    return written_home(
        tmp_path_factory.mktemp("home"),
        Row("lock.front_door", "Front Door", "hall", "locked", aliases=["Main Entrance"]),
        Row("cover.garage_door", "Garage Door", "garage", "closed", device_class="garage"),
        Row("lock.kitchen", "Terrace", "kitchen", "locked"),
        Row("lock.bedroom", "Balcony Lock", "bedroom", "locked"),
        Row("lock.hall", "Balcony Lock", "hall", "locked"),
        Row("light.door", "Front Door Light", "hall"),
        Row("binary_sensor.front_door", "Front Door", "kitchen"),
        Row("lock.front_zh", "前门锁", "hall", "locked"),
        Row("lock.bedroom_zh", "门锁", "bedroom", "locked"),
        Row("light.front_zh", "前门锁灯", "hall"),
        Row("binary_sensor.bedroom_zh", "门锁", "bedroom"),  # so the lock is called 门锁 2 here
        Row("binary_sensor.kitchen", "Terrace", "kitchen"),
        Row("binary_sensor.garage_door", "Garage Door", "garage"),
        Row("lock.hindi", "दरवाज़ा", "kitchen", "locked"),  # door
        Row("sensor.front_door_battery", "Front Door Battery", "hall", "80"),
        Row("sensor.front_zh_battery", "前门锁电量", "hall", "80"),
        areas=AREAS | {"bedroom": "卧室"},
    )


@pytest.mark.parametrize(
    ("said", "did"),
    [
        ("unlock the front door", "lock.front_door"),
        ("Please unlock the FRONT-DOOR!", "lock.front_door"),
        ("open the main entrance", "lock.front_door"),
        ("front door light on, front door unlocked", "lock.front_door"),
        ("unlock the front door, its front door battery is low", "lock.front_door"),
        ("open the garage door", "cover.garage_door"),
        ("unlock the kitchen terrace", "lock.kitchen"),
        ("unlock the hall balcony lock", "lock.hall"),
        ("open the garage door in the garage", "cover.garage_door"),
        ("kitchen दरवाज़ा खोलो", "lock.hindi"),
        ("打开前门锁", "lock.front_zh"),
        ("把前门的锁打开", "lock.front_zh"),
        ("打开卧室的门锁", "lock.bedroom_zh"),
    ],
)
def test_a_whole_name_names_a_device(home: Home, said: str, did: str) -> None:
    assert is_device_named(said, home, home.plan.devices_by_did[did])


@pytest.mark.parametrize(
    "said",
    [
        "play The Doors",
        "lock the back door",
        "is the bedroom door closed?",
        "move to the front of the playlist",
        "turn on the front door light",
        "front door light front door light",
        "how full is the front door battery?",  # of a sensor
        "前门锁电量是多少",
        "is the front of the door red?",
        "put the main course on the list",
        "is somebody in the garage?",
        "go to the terrace",  # of one word, without its room
        "lock the balcony lock",  # of two devices
        "打开前门锁灯",
        "दरवाज़ा खोलो",  # of one word, whose vowels are marks
        "关上书房的门锁",  # what many locks are called
        "打开前门",
        "",
    ],
)
def test_words_that_are_shared_name_nothing(home: Home, said: str) -> None:
    doors = [one for one in home.plan.devices if one.spec.category in ("lock", "cover")]
    named = [one.did for one in doors if is_device_named(said, home, one)]
    assert not named


def test_a_group_that_was_not_there_at_the_import_is_guarded_for_good(serve, tmp_path: Path) -> None:
    """What it holds is nowhere in the twin, also once it is there."""
    home = written_home(tmp_path, Row("switch.all", "All", state="unavailable"), Row("light.hall", "Lamp"))
    served = serve("act", call_of("switch.all", "turn_on"), "Here.", call_of("light.hall", "turn_on"), "There.", of=home)
    shown = [{"entity_id": "switch.all", "state": "off", "attributes": {"entity_id": ["switch.garage_door"]}}]
    served.real.home = refresh_home(home, shown)
    assert "consent" in served.say("all of it please") and not served.real.made
    assert served.say("the lamp please") == "There."
