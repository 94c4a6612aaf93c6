"""SimuHome's speed, the ticking oracle's beside it. Run with: scripts/benchmark -k simuhome"""

from __future__ import annotations

from datetime import timedelta

import pytest

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import service, tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from homerl.envs.simuhome.sim.home import MatterHome
from tests.envs.simuhome.oracle import Ticking

ON = {"1.OnOff.OnOff": True}
RUNNING = ON | {"1.OperationalState.OperationalState": 1, "1.OperationalState.CurrentPhase": 0}
STATES = {
    "air_conditioner": ON | {"1.Thermostat.SystemMode": 3, "1.FanControl.PercentCurrent": 60},
    "heat_pump": {"4.Thermostat.SystemMode": 4},
    **{kind: ON | {"1.FanControl.PercentCurrent": 50} for kind in ("fan", "air_purifier", "humidifier", "dehumidifier")},
    "dimmable_light": ON | {"1.LevelControl.CurrentLevel": 100},
    **{
        kind: RUNNING | {"1.OperationalState.CountdownTime": 2700}
        for kind in ("dishwasher", "laundry_washer", "laundry_dryer")
    },
}
HOUR = 36000
each_mode = pytest.mark.parametrize("strict", [True, False], ids=["strict", "mended"])


def config_of_30() -> dict:
    """Five rooms, and 30 devices of all types, most of them at work."""
    rooms = {f"room_{i}": {"devices": [], "state": {"temperature": 2600 + 10 * i}} for i in range(5)}
    kinds = [kind for kind in device_types() if kind != "electrical_sensor"]
    for number in range(30):
        kind = kinds[number % len(kinds)]
        device = {"device_id": f"{kind}_{number}", "device_type": kind, "attributes": STATES.get(kind, {})}
        rooms[f"room_{number % 5}"]["devices"].append(device)
    return {"base_time": "2025-08-23 00:00:00", "rooms": rooms}


def home_of_30(strict: bool = True, flows: int = 20) -> MatterHome:
    """A home of 30 devices, and workflows through the day."""
    home = load.start_home(config_of_30(), strict)
    lamps = [device.id for device in home.plan.devices.values() if device.type.name == "on_off_light"]
    for number in range(flows):
        place = {"device_id": lamps[number % len(lamps)], "endpoint_id": 1, "cluster_id": "OnOff"}
        step = {"tool": "execute_command", "args": {**place, "command_id": "Toggle", "args": {}}}
        at = home.plan.base_time + timedelta(minutes=7 + 70 * number)
        workflows.schedule_workflow(home, at.strftime(TIME_FORMAT), [step])
    home.state_key()
    return home


@each_mode
@pytest.mark.parametrize("hours", [1, 24])
def test_simuhome_leap(benchmark, hours: int, strict: bool) -> None:
    home = home_of_30(strict)
    benchmark(lambda: passage.advance_home(home.fork(), hours * HOUR))


def test_simuhome_ticking_oracle_for_a_minute(benchmark) -> None:
    """An hour is 60 times this."""
    home = home_of_30()
    benchmark.pedantic(lambda: Ticking(home.fork()).advance(600), rounds=3)


def hundred_commands(home: MatterHome) -> list[dict]:
    """The arguments of 100 commands."""
    powered = [device for device in home.plan.devices.values() if "OnOff" in device.type.endpoint_of]
    places = [{"device_id": device.id, "endpoint_id": 1, "cluster_id": "OnOff"} for device in powered]
    return [{**place, "command_id": "On", "args": {}} for place in places * 5][:100]


def test_simuhome_bare_commands(benchmark) -> None:
    """100 commands without the tool layer."""
    home = home_of_30()
    commands = hundred_commands(home)

    def run() -> None:
        for arguments in commands:
            service.execute_command(home, **arguments)

    benchmark.extra_info["operations"] = len(commands)
    benchmark(run)


def test_simuhome_commands(benchmark) -> None:
    """The same commands through the tool layer, with its checks and its envelope."""
    home = home_of_30()
    commands = hundred_commands(home)

    def run() -> None:
        for arguments in commands:
            assert tools.call_tool(home, "execute_command", arguments)["error"] is None

    benchmark.extra_info["operations"] = len(commands)
    benchmark(run)


def test_simuhome_steps(benchmark) -> None:
    """The same commands as steps of the world: what changed, progress and the observation's text too."""
    world = SimuHome(config_of_30())
    actions = [{"name": "execute_command", **arguments} for arguments in hundred_commands(world.state.home)]

    def run() -> None:
        for action in actions:
            assert world.step(action)[4]["blocked"] is None

    benchmark.extra_info["operations"] = len(actions)
    benchmark(run)


def test_simuhome_refuses_a_call_of_10_mb(benchmark) -> None:
    world = SimuHome(config_of_30())
    action = {"name": "get_room_devices", "room_id": "x" * 10_000_000}
    assert world.step(action)[4]["blocked"]["rule"] == "OUT_OF_RANGE"
    benchmark(lambda: world.step(action))


def test_simuhome_fork(benchmark) -> None:
    home = home_of_30()
    benchmark(home.fork)


def test_simuhome_state_key_after_a_call(benchmark) -> None:
    home = home_of_30()
    hand = home.cluster_view("on_off_light_1", "OnOff")

    def run() -> None:
        hand["OnOff"] = not hand["OnOff"]
        home.state_key()

    benchmark(run)
