"""A small household that is written by hand, so that tests know every fact of it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from io import StringIO
from typing import Any

import pytest
from forked import python

from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, Entity
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_to_json
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState

NOW = datetime(2026, 3, 14, 8, 30)
OWN = """
- name: test_oven
  userdata: {category: oven, spid: "990001"}
  attributes:
    - {name: power, type: enum, options: ["on", "off"]}
    - {name: temperature, type: int, range: [50, 250], unit: celsius}
    - {name: probe, type: float, range: [0, 120], precision: 0.5, read_only: true}
    - {name: days, type: list, range: [0, 3], items: [{type: enum, options: [mon, tue, wed]}]}
    - {name: idle_seconds, type: int, counts: self.power == "off"}
  services:
    - name: preheat_oven
      description: Heat it up
      arguments: [{name: temperature, type: int, range: [50, 250], unit: celsius, required: false, default: 180}]
      code: |
        self.power = "on"
        self.temperature = temperature
    - name: read_probe_temp
      description: Measure the meat
      requires: self.power == "on"
      code: self.power = self.power
      returns: {probe: self.probe, done: self.probe > 60}
"""
ROOMS = {"kitchen": Room("kitchen_1", "kitchen", "kitchen"), "hall": Room("hall_1", "hallway", "entrance hall")}
NAMES = {"speaker": "wall speaker"}  # what texts call a device, where it is not its id
STATES = {
    "oven": {"power": "off", "temperature": 180, "probe": 20.0, "days": [], "idle_seconds": 60},
    "speaker": {
        "volume": 30,
        "last_notification": "",
        "notified_room": "here",
        "last_instruction": "play_music",
        "instructions": 3,
        "calibrated_for": "none",
        "profile": "standard",
        "devices_found": 0,
        "devices_near": 2,
        "last_query": "",
        "microphone_muted": False,
    },
    "hall_motion": {"motion": True, "illuminance": 120.0, "battery": 90},
    "kitchen_leak": {"leak": False, "battery": 40},
}
AIR = {"temperature": 21.0, "humidity": 50.0, "brightness": 100.0}
MEMBERS = [
    {
        "member_id": "h1_1", "name": "Anna Berg", "role": "partner", "birthday": "1988-03-15", "gender": "Female",
        "occupation": "teacher", "persona": "Anna plans ahead.", "hobbies": ["baking"], "lifestyle": "Up early.",
        "preference": "Likes it warm.",
        "major_events": [{"date": "2015-06-20", "kind": "married", "description": "Anna married Tom."}],
    },
    {
        "member_id": "h1_2", "name": "Tom Berg", "role": "partner", "birthday": "1985-02-01", "gender": "Male",
        "occupation": "chef", "persona": "Tom jokes.", "hobbies": ["chess", "running"], "lifestyle": "Up late.",
        "preference": "Likes quiet.",
    },
]  # fmt: skip
MEMORIES = [
    ("Tom baked sourdough in the oven.", ["h1_2"], "2026-01-10T18:00", {"kind": "cooked", "who": "h1_2"}),
    ("Anna and Tom celebrated a birthday.", ["h1_1", "h1_2"], "2026-02-01T20:00", {"kind": "celebrated", "who": "h1_2"}),
    ("Anna bakes apple pie on Sundays.", ["h1_1"], "2026-02-20T15:00", {"kind": "cooked", "who": "h1_1"}),
    ("Milo went to the vet.", ["Milo"], "2026-03-01T09:00", {"kind": "cared", "pet": "Milo"}),
    ("Tom baked sourdough in the oven.", ["h1_2"], "2026-03-08T18:00", {"kind": "cooked", "who": "h1_2"}),
]
EVENTS = [
    ("2026-03-13T21:10", "Tom left home.", [], [], {"kind": "left_home", "who": "h1_2"}),
    ("2026-03-14T07:00", "Anna used the oven.", [], ["oven"], {"kind": "used", "who": "h1_1", "appliance": "oven"}),
    ("2026-03-14T08:20", "Motion in the hall.", ["hall_motion"], [], {"kind": "noticed", "sensor": "hall_motion"}),
]


def home() -> dict[str, Any]:
    """The home as plain data: a kitchen and a hall with two appliances and two sensors."""
    oven, speaker = Entity.load(StringIO(OWN))[0], appliance_kinds()["speaker"]
    motion, leak = Catalogue.load_shipped()["101801"], Catalogue.load_shipped()["103101"]
    placed = {"oven": (oven, "kitchen"), "speaker": (speaker, "hall")}
    placed |= {"hall_motion": (motion, "hall"), "kitchen_leak": (leak, "kitchen")}
    devices = [Device(name, NAMES.get(name, name), ROOMS[room], spec) for name, (spec, room) in placed.items()]
    state = STATES | dict.fromkeys((OUTDOORS, "kitchen_1", "hall_1"), AIR)
    clock = int(NOW.replace(tzinfo=UTC).timestamp())
    return home_to_json(Home.build_home(ROOMS.values(), devices, state, clock))


@lru_cache(maxsize=1)
def small_household() -> Household:
    """A couple with a cat."""
    memories = [
        {"memory": text, "subjects": subjects, "additional_information": "", "time": time, "fact": fact}
        for text, subjects, time, fact in MEMORIES
    ]
    events = [
        {"time": time, "description": text, "sensors": sensors, "appliances": appliances, "fact": fact}
        for time, text, sensors, appliances, fact in EVENTS
    ]
    weather = {
        "outdoor": {"rain": 0.0, "snow": 0.0, "sunny": 0.5, "temperature": 9.0, "wind": 3.0},
        "indoor": {"dust": 8.0, "humidity": 45.0, "odor": 1.0, "temperature": 21.0},
    }
    return Household.model_validate(
        {
            "household_id": "h1",
            "occupancy_type": "family",
            "layout": "A flat with a kitchen and a hall.",
            "pets": [{"name": "Milo", "animal": "cat", "age": 4}],
            "members": MEMBERS,
            "home": home(),
            "memories": memories,
            "context": {"events": events, "weather": weather},
        }
    )


def printed(code: str) -> str:
    """What some code prints in a process that hashes texts otherwise: the same, if no order depends on hashes."""
    done = python(f"import sys; sys.path.append('tests/helpers'); {code}")
    done.check_returncode()
    return done.stdout.strip()


@pytest.fixture
def household() -> Household:
    return small_household()


@pytest.fixture
def state() -> HouseholdState:
    return HouseholdState(small_household())
