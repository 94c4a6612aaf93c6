"""A home of many entities: its prompt stays the same between sentences, so that a server's cache of it holds."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Says, serve_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import Origin
from tests.envs.assistant.listing.replay import listing
from tests.envs.assistant.listing.test_own_tools import only


def large(entities: int) -> Home:
    """The lights, switches and sensors of the recorded home, many times."""
    small = import_home(only(listing(), "light", "switch", "sensor")).home
    kinds = [(device, small.state_of(device.did)) for device in small.plan.devices]
    devices, values = [], {}
    for number in range(entities):
        device, state = kinds[number % len(kinds)]
        did = f"{device.did}_{number}"
        devices.append(Device(did, f"{device.name} {number}", device.room, device.spec))
        values[did] = state
    rooms = {room.id: small.state_of(room.id) for room in small.plan.rooms}
    outdoors = {"outdoors": small.state_of("outdoors")}
    origin = Origin(system="homeassistant", version="2026.11.0")
    return Home.build_home(small.plan.rooms, devices, outdoors | rooms | values, small.clock, origin=origin)


@pytest.mark.parametrize("entities", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_the_prompt_stays_while_the_home_changes(entities: int, tmp_path):
    home = large(entities)
    lamp = next(device for device in home.plan.devices if device.did.startswith("light."))
    name = {"name": lamp.name}
    on, off = (call_message(tool_call(f"intent__HassTurn{way}", name)) for way in ("On", "Off"))
    reads = call_message(tool_call("homeassistant__GetLiveContext", {"domain": "light", "area": lamp.room.name}))
    agent = Says(on, "On.", off, "Off.", reads, "It is off.")
    served = serve_home(home, agent, tmp_path, toolset="assist", settle=0.0)
    journal = served.journal
    assert [served.say(text) for text in ("on", "off", "is it on?")] == ["On.", "Off.", "It is off."]
    assert len(served.real.made) == 2
    assert [entry.kept for entry in journal.read_entries()] == [None, 1.0, 1.0]
    result: Any = agent.heard[-1].messages[-1]["content"]
    assert lamp.name in result and len(result) < 20_000, "the filter leaves a part of the home"
    prompt = len(agent.heard[0].messages[0]["content"])
    print(f"{entities} entities: a prompt of {prompt} characters, {[entry.seconds for entry in journal.read_entries()]} s")
