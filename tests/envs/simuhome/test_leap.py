"""A leap of any length gives what the ticks give: attributes, workflows and clock exactly, room variables to 1e-6.

With long ticks, heat pumps in mended mode can make a room unstable: ticks from a start that differs by 1e-9
then end elsewhere. Rounding decides what happens there, so such a life is not compared any further. The room does not run
away: it swings about the pumps' setpoint, such as 2601 hundredths of a degree.
"""

from __future__ import annotations

import copy
import json
from datetime import timedelta

import pytest
from crossed import crossed
from draws import few
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homerl.envs.simuhome.sim import air, service
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from homerl.envs.simuhome.sim.home import MatterHome, OperationError
from tests.envs.simuhome.conftest import BASE_TIME, build, some_samples
from tests.envs.simuhome.oracle import Ticking

TOLERANCE = 1e-6
KINDS = sorted(device_types())
FAMILIES = {
    "all": KINDS,
    "dimmers": ["dimmable_light"],
    "appliances": ["dishwasher", "laundry_washer", "laundry_dryer"],
    "vacuums": ["rvc"],
    "climate": ["air_conditioner", "heat_pump", "fan", "humidifier", "dehumidifier", "air_purifier"],
    "others": ["window_covering_controller", "tv", "air_purifier", "on_off_light"],
}
LEVELS = [0, 1, 2, 60, 127, 253, 254, 255, 50.5]
TIMES = [None, 0, 1, 7, 30, 400, 12.5, -3]
JUNK = [None, True, "x", "5", 2.5, -1, [], [1], {}]
PASSES = [0.1, 0.0713, 0.3719, 1.2917, 5.03]  # no sums of them and of 0.1 are whole seconds, which rounding could decide
ARGUMENTS = {
    "Level": LEVELS, "TransitionTime": TIMES, "OptionsMask": [0, 1, 3], "OptionsOverride": [0, 1], "MoveMode": [0, 1, 2],
    "Rate": [None, 0, 1, 3, 7.3, 200, -250], "StepMode": [0, 1], "StepSize": [1, 10, 300, -400], "Direction": [0, 1, "up"],
    "Wrap": [None, True, False], "LowestOff": [None, True, False], "Mode": [0, 1, 2], "Amount": [-20, 5, 600],
    "lift_percent_100ths": [0, 1, 3000, 10000, 10001], "new_mode": [0, 1, 2, 3, 4, 5, 9], "mode": [0, 1, 2, 3, 4, 16384],
    "KeyCode": [0x40, 0x41, 0x42, 0x43, 0x44, 0x46, 0x48, 0x30, 0x32, 0x50], "IdentifyTime": [0, 3, 20],
    "target_temperature": [-1800, 400, 4000], "match": ["MBC", "9.9"], "count": [1, -2],
    "major_number": [3, 5, 5.0, "5", 99], "minor_number": [0, 1, None], "EffectIdentifier": [0, 2, 3, True],
}  # fmt: skip
VALUES = [None, True, 0, 1, 2, 3, 4, 5, 33, 50, 80, 100, 127, 1500, 2000, 2590, 2625, 2800, 3000, 10000, 12.5, "x", "50"]
LOADED = {
    "OnOff.OnOff": [True, False], "FanControl.PercentCurrent": [0, 1, 30, 80, 100, None],
    "LevelControl.CurrentLevel": LEVELS,
    "Thermostat.SystemMode": [0, 3, 4], "Thermostat.OccupiedCoolingSetpoint": [1800, 2400, 2599, 2600],
    "Thermostat.OccupiedHeatingSetpoint": [2000, 2599.99, 2601, 2800], "OperationalState.OperationalState": [0, 1, 2],
    "OperationalState.CountdownTime": [None, 0, 1, 30, 61, 900], "OperationalState.CurrentPhase": [0, 1],
    "RVCOperationalState.OperationalState": [0, 1, 2], "RVCOperationalState.CountdownTime": [None, 5, 10],
    "RVCOperationalState.PhaseList": [None, ["Cleaning", "SeekingCharger", "Docked"]],
    "RVCOperationalState.CurrentPhase": [0],
    "Identify.IdentifyTime": [0, 3, 20], "LevelControl.OnOffTransitionTime": [0, 0, 25], "LevelControl.OnLevel": [None, 90],
}  # fmt: skip
STATE = {
    "temperature": [1500, 2399.5, 2600, 2600.03, 2805],
    "pm10": [0, 0.4, 35, 120.5],
    "illuminance": [0, 950],
    "humidity": [0, 990, 1000, 1003, 1899, 1902, 5000, 8098, 8101, 8985, 8999.99, 9000, 9004, 10000],
}


@st.composite
def devices(draw, number: int, kinds: list[str]):
    kind = draw(st.sampled_from(kinds))
    keys = [key for key in device_types()[kind].initial if key.split(".", 1)[1] in LOADED]
    attributes = {key: draw(st.sampled_from(LOADED[key.split(".", 1)[1]])) for key in keys if draw(st.integers(0, 3))}
    return {"device_id": f"d{number}", "device_type": kind, "attributes": attributes}


@st.composite
def homes(draw, kinds: list[str]):
    rooms, count = {}, 0
    for name in ("kitchen", "study")[: draw(st.integers(1, 2))]:
        size = draw(st.integers(1, 5))
        state = {key: draw(st.sampled_from(values)) for key, values in STATE.items()}
        rooms[name] = {"state": state, "devices": [draw(devices(count + i, kinds)) for i in range(size)]}
        count += size
    interval = draw(st.sampled_from(PASSES)) if draw(st.integers(0, 3)) == 0 else 0.1
    return {"base_time": BASE_TIME, "tick_interval": interval, "rooms": rooms}, count


@st.composite
def calls(draw, config, count):
    """A command or a write, as a workflow's step would have it."""
    device = draw(st.sampled_from([d for room in config["rooms"].values() for d in room["devices"]]))
    kind = device_types()[device["device_type"]]
    endpoint, cluster = draw(st.sampled_from([place for place in kind.cluster_places if place[0]]))
    written = draw(st.sampled_from([*[endpoint] * 9, float(endpoint), str(endpoint), endpoint == 1, endpoint + 0.5]))
    place = {"device_id": device["device_id"], "endpoint_id": written, "cluster_id": cluster.name}
    if cluster.commands and draw(st.integers(0, 2)):
        command = draw(st.sampled_from(sorted(cluster.commands)))
        needed = {k: v for k, v in cluster.commands[command].items() if v == "required" or draw(st.booleans())}
        args = {name: draw(st.sampled_from(ARGUMENTS.get(name, VALUES))) for name in needed}
        if draw(st.integers(0, 7)) == 0:
            args |= {
                draw(st.sampled_from([*cluster.commands[command], *args, *sorted(service.RESERVED), "Foreign"])): draw(
                    st.sampled_from(JUNK)
                )
            }
        return {"tool": "execute_command", "args": place | {"command_id": command, "args": args}}
    attribute = draw(st.sampled_from(sorted(cluster.attributes)))
    return {"tool": "write_attribute", "args": place | {"attribute_id": attribute, "value": draw(st.sampled_from(VALUES))}}


@st.composite
def lives(draw, longest: int, kinds: list[str] = KINDS):
    """A home, and what happens in it: calls, workflows, devices that come and go, other passes, and leaps between them."""
    config, count = draw(homes(kinds))
    deeds = []
    for _ in range(draw(st.integers(1, 6))):
        happening = draw(st.integers(0, 11))
        if count and happening < 7:
            deeds.append(("call", draw(calls(config, count))))
        elif count and happening == 7:
            steps = [draw(calls(config, count)) for _ in range(draw(st.integers(1, 2)))]
            deeds += [("schedule", (draw(st.integers(1, longest // 8)), steps))] * draw(st.sampled_from([1, 1, 1, 12]))
        elif happening == 10:
            deeds.append(("interval", draw(st.sampled_from([*PASSES, "0.3719", True, 0, "x"]))))
        elif happening == 8:
            deeds.append(("add", (draw(st.sampled_from(["kitchen", "hall"])), draw(st.sampled_from(kinds)))))
        elif count:
            deeds.append(("remove", f"d{draw(st.integers(0, count - 1))}"))
        if draw(st.booleans()):
            deeds.append(("leap", draw(st.one_of(st.integers(1, 15), st.integers(1, longest)))))
    return config, [*deeds, ("leap", draw(st.integers(1, longest)))], draw(st.booleans())


def do(home: MatterHome, deed: str, what, number: int):
    """The result of a deed that takes no time."""
    try:
        if deed == "call":
            act = service.execute_command if what["tool"] == "execute_command" else service.write_attribute
            return act(home, **what["args"])
        if deed == "schedule":
            return workflows.schedule_workflow(
                home,
                (home.plan.base_time + timedelta(seconds=home.elapsed_seconds + what[0])).strftime(TIME_FORMAT),
                what[1],
            )
        if deed == "add":
            return load.add_device(home, what[0], what[1], f"new{number}")
        if deed == "interval":
            return load.set_tick_interval(home, what)
        return load.remove_device(home, what)
    except OperationError as failure:
        return failure.type, failure.label


def assert_alike(fast: MatterHome, slow: MatterHome) -> None:
    assert (fast.tick, fast.workflows) == (slow.tick, slow.workflows)
    for room in fast.plan.rooms:
        assert fast.room_state(room) == pytest.approx(slow.room_state(room), abs=TOLERANCE, rel=1e-9), room
    for device in fast.plan.devices.values():
        mine, theirs = fast.shown_attributes(device), slow.shown_attributes(slow.plan.devices[device.id])
        for key, value in mine.items():
            if key.endswith(("LocalTemperature", "MeasuredValue")) and at_a_whole_number(slow, device.room):
                assert abs(value - theirs[key]) <= 1, key
            else:
                assert json.dumps(value) == json.dumps(theirs[key]), (device.id, key)


def at_a_whole_number(home: MatterHome, room: str) -> bool:
    """A sensor truncates: where a variable is a whole number but for rounding, either side of it is right."""
    state = home.room_state(room)
    return any(abs(state[name] - round(state[name])) < TOLERANCE for name in ("temperature", "humidity"))


def live(config, deeds, strict) -> None:
    fast, ticking = load.build_home(config, strict), Ticking(load.build_home(config, strict))
    passage.advance_home(fast, 0)
    ticking.advance(0)
    for number, (deed, what) in enumerate(deeds):
        if deed == "leap":
            passage.advance_home(fast, fast.tick + what)
            ticking.advance(ticking.home.tick + what)
        else:
            assert do(fast, deed, what, number) == do(ticking.home, deed, what, number)
        try:
            assert_alike(fast, ticking.home)
        except AssertionError:
            if not is_unstable(config, deeds[: number + 1], strict):
                raise
            return


def is_unstable(config, deeds, strict) -> bool:
    """Whether ticks from temperatures that hardly differ before each leap end in different air.

    One difference at the start would not tell: a stable time may forget it, to the last bit, before an unstable one begins.
    """
    ends = []
    for nudge in (0.0, 1e-9):
        ticking = Ticking(load.build_home(copy.deepcopy(config), strict))
        ticking.advance(0)
        for number, (deed, what) in enumerate(deeds):
            if deed != "leap":
                do(ticking.home, deed, what, number)
                continue
            for room in ticking.home.plan.rooms.values():
                ticking.home.set_slot(room.base, ticking.home.values[room.base] + nudge)
            ticking.advance(ticking.home.tick + what)
        ends.append([value for room in ticking.home.plan.rooms for value in ticking.home.room_state(room).values()])
    return any(abs(one - other) > TOLERANCE / 10 for one, other in zip(*ends, strict=True))


def test_a_room_that_rounding_decides_is_told_from_one_that_is_stable():
    pump = {f"4.Thermostat.{key}": value for key, value in
            {"OccupiedCoolingSetpoint": 1800, "OccupiedHeatingSetpoint": 2601, "SystemMode": 4}.items()}  # fmt: skip
    for pumps, unstable in ((1, False), (2, True)):
        devices = [{"device_id": f"d{n}", "device_type": "heat_pump", "attributes": pump} for n in range(pumps)]
        rooms = {"kitchen": {"state": {"temperature": 2600}, "devices": devices}}
        config = {"base_time": BASE_TIME, "tick_interval": 1.2917, "rooms": rooms}
        assert is_unstable(config, [("leap", 250)], False) is unstable
        live(config, [("leap", 250)], False)


def test_a_room_that_becomes_unstable_after_a_stable_time_is_told_too():
    """With one pump the room forgets where it began; then the second one is set to heat."""
    pump = {f"4.Thermostat.{key}": value for key, value in
            {"OccupiedCoolingSetpoint": 1800, "OccupiedHeatingSetpoint": 2601, "SystemMode": 4}.items()}  # fmt: skip
    devices = [
        {"device_id": f"d{n}", "device_type": "heat_pump", "attributes": pump | {"4.Thermostat.SystemMode": mode}}
        for n, mode in enumerate((4, 0))
    ]
    rooms = {"kitchen": {"state": {"temperature": 2600}, "devices": devices}}
    config = {"base_time": BASE_TIME, "tick_interval": 1.2917, "rooms": rooms}
    place = {"device_id": "d1", "endpoint_id": 4, "cluster_id": "Thermostat"}
    heat = {"tool": "write_attribute", "args": place | {"attribute_id": "SystemMode", "value": 4}}
    alone, both = [("leap", 250)], [("leap", 250), ("call", heat), ("leap", 250)]
    slower = [("leap", 491), ("interval", 5.03), ("leap", 20)]  # so is a room in which ticks become long
    for deeds, unstable in ((alone, False), (both, True), (slower, True)):
        assert is_unstable(config, deeds, False) is unstable
        live(config, deeds, False)


def humid(humidity, *devices):
    """A kitchen with devices (kind, fan's speed), all switched on."""
    attributes = [{"1.OnOff.OnOff": True, "1.FanControl.PercentCurrent": percent} for _, percent in devices]
    placed = [
        {"device_id": f"d{n}", "device_type": kind, "attributes": attributes[n]} for n, (kind, _) in enumerate(devices)
    ]
    state = {"temperature": 1500, "pm10": 0, "illuminance": 0, "humidity": humidity}
    return {"base_time": BASE_TIME, "rooms": {"kitchen": {"state": state, "devices": placed}}}


@pytest.mark.parametrize(
    "leap", [0, *(pytest.param(n, marks=[pytest.mark.long] if n % 9 else []) for n in range(270, 300, 3))]
)
@pytest.mark.parametrize("other", ["humidifier", "dehumidifier"])
@crossed(humidity=[8985, 9000, 1000, 1003], speeds=[(80, 80), (10, 10), (10, 80), (100, 30)])
def test_a_removed_device_keeps_its_last_effect_where_effects_jump(humidity, other, speeds, leap):
    """A humidifier stops at 9000, and a dehumidifier at 1000: the value after a pass does not tell which the pass was."""
    config = humid(humidity, ("humidifier", speeds[0]), (other, speeds[1]))
    live(config, [("leap", leap), ("remove", "d1"), ("leap", 1), ("remove", "d0"), ("leap", 200)], True)


@pytest.mark.parametrize("interval", [1, 10, 100, 1000, 1800, 3600])
@pytest.mark.parametrize("devices", [(("humidifier", 100),), (("air_purifier", 100),), (("air_conditioner", 100),)])
def test_passes_of_any_length_run_and_devices_can_go(interval, devices):
    """In a pass so long, a variable returns to its baseline at once, whatever it was."""
    home = load.build_home(humid(5000, *devices), strict=True)
    load.set_tick_interval(home, interval)
    passage.advance_home(home, home.tick + 3)
    load.remove_device(home, "d0")
    passage.advance_home(home, home.tick + 3)
    assert all(value == value for value in home.room_state("kitchen").values())


RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=10, deadline=None, suppress_health_check=RELAXED)
@given(data=st.data())
def test_a_leap_is_its_ticks(family, data):
    live(*data.draw(lives(300, FAMILIES[family])))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=600, deadline=None, suppress_health_check=RELAXED)
@given(data=st.data())
def test_a_leap_is_its_ticks_in_many_lives(family, data):
    live(*data.draw(lives(900, FAMILIES[family])))


def command(cluster, name, **args):
    return "d0", 1, cluster, name, args


ON = {"1.OnOff.OnOff": True}
LIT = ON | {"1.LevelControl.CurrentLevel": 10}
DAMP = ON | {"1.FanControl.PercentCurrent": 80}
STATE_OF = "1.OperationalState"
PROGRAMME = ON | {f"{STATE_OF}.OperationalState": 1, f"{STATE_OF}.CountdownTime": 45, f"{STATE_OF}.CurrentPhase": 0}
ROBOT = {
    "RVCRunMode.CurrentMode": 2,
    "RVCOperationalState.OperationalState": 1,
    "RVCOperationalState.CountdownTime": 4,
    "RVCOperationalState.CurrentPhase": 0,
    "RVCOperationalState.PhaseList": ["Cleaning", "SeekingCharger", "Docked"],
}
COURSES = {
    "transition": ("dimmable_light", LIT, [command("LevelControl", "MoveToLevel", Level=201, TransitionTime=137)]),
    "transition to off": (
        "dimmable_light", LIT, [command("LevelControl", "MoveToLevelWithOnOff", Level=1, TransitionTime=77)],
    ),
    "move": ("dimmable_light", LIT, [command("LevelControl", "Move", MoveMode=0, Rate=7.3)]),
    "move and transition": (
        "dimmable_light", LIT,
        [command("LevelControl", "Move", MoveMode=0, Rate=3),
         command("LevelControl", "MoveToLevel", Level=90, TransitionTime=60)],
    ),
    "loaded dishwasher": ("dishwasher", PROGRAMME, []),
    "loaded washer": ("laundry_washer", PROGRAMME, []),
    "paused dryer": (
        "laundry_dryer", PROGRAMME, [command("OperationalState", "Pause"), command("OperationalState", "Resume")],
    ),
    "quick wash": (
        "laundry_washer", ON,
        [command("LaundryWasherMode", "ChangeToMode", new_mode=4), command("OperationalState", "Start")],
    ),
    "vacuum": ("rvc", {f"1.{key}": value for key, value in ROBOT.items()}, []),
    "identify": ("air_purifier", DAMP, [command("Identify", "Identify", IdentifyTime=12)]),
    "blind": ("window_covering_controller", {}, [command("WindowCovering", "DownOrClose")]),
    "humidifier": ("humidifier", DAMP, []),
}  # fmt: skip


@crossed(course=list(COURSES), strict=[True, False])
def test_every_length_of_leap(course, strict):
    """From one start, each leap of 1 to n passes against n ticks; a start within a second, and one on it."""
    kind, attributes, calls = COURSES[course]
    for begin in (0, 7):
        start = build((kind, attributes), strict=strict, humidity=5000.5, temperature=2600.5)
        ticking = Ticking(start.fork())
        passage.advance_home(start, begin)
        ticking.advance(begin)
        for home in (start, ticking.home):
            for call in calls:
                service.execute_command(home, *call)
        each = 7 if begin else 1  # a start within a second needs not every length
        for n in range(1, 9100 if course == "quick wash" else 500, 37 if course == "quick wash" else each):
            fast = start.fork()
            passage.advance_home(fast, begin + n)
            ticking.advance(begin + n)
            assert_alike(fast, ticking.home)


@crossed(kind=["humidifier", "air_purifier", "air_conditioner", "on_off_light"], strict=[True, False])
def test_what_a_removed_device_leaves_behind(kind, strict):
    """Strict, its last effect goes on; else none, and the air returns to its baseline."""
    more = {"on_off_light": {}, "air_conditioner": DAMP | {"1.Thermostat.SystemMode": 3}}
    fast = build((kind, ON | more.get(kind, DAMP)), strict=strict, illuminance=700)
    ticking = Ticking(fast.fork())
    for ticks in (200, 3000, 20000):
        passage.advance_home(fast, ticks)
        ticking.advance(ticks)
        assert_alike(fast, ticking.home)
        if ticks == 200:
            load.remove_device(fast, "d0")
            load.remove_device(ticking.home, "d0")


@few(20, 40)
@given(lives(longest=3000), st.lists(st.integers(1, 900), min_size=1, max_size=5))
def test_leaps_add_up(life, parts):
    """One leap is as good as many: attributes exactly, variables but for rounding."""
    config, _, strict = life
    whole, pieces = load.start_home(config, strict), load.start_home(config, strict)
    passage.advance_home(whole, sum(parts))
    for part in parts:
        passage.advance_home(pieces, pieces.tick + part)
    assert_alike(whole, pieces)


@some_samples
@pytest.mark.parametrize("passes", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_samples_for_some_time(path, passes):
    config = json.loads(path.read_text())["initial_home_config"]
    fast, ticking = load.build_home(config), Ticking(load.build_home(config))
    for tick in (0, 1, 100, passes):
        passage.advance_home(fast, tick)
        ticking.advance(tick)
        assert_alike(fast, ticking.home)


CLIMATE = {name: kinds for name, kinds in air.WATCHED.items() if name != "illuminance"}
NEAR = {
    "temperature": [2399.99, 2400.0, 2400.03, 2599.98, 2600.0, 2700.0],
    "pm10": [0.0, 1.0, 69.9, 70.1, 200.0],
    "humidity": [500.0, 1000.0, 1899.0, 1901.0, 5000.0, 8099.0, 8101.0, 8999.0, 9001.0, 9800.0],
}
STATES = st.fixed_dictionaries({
    "OnOff.OnOff": st.sampled_from([True, True, False]),
    "FanControl.PercentCurrent": st.sampled_from([0, 7, 50, 100]),
    "Thermostat.SystemMode": st.sampled_from([3, 4]),
    "Thermostat.OccupiedCoolingSetpoint": st.sampled_from([2399, 2400, 2590, 2700]),
    "Thermostat.OccupiedHeatingSetpoint": st.sampled_from([2400, 2410, 2600, 2800]),
})  # fmt: skip


@st.composite
def climates(draw):
    """A variable, its value, the baseline and devices that act on it."""
    name = draw(st.sampled_from(sorted(CLIMATE)))
    kinds = draw(st.lists(st.sampled_from(CLIMATE[name]), min_size=1, max_size=4))
    given = []
    for kind in kinds:
        state, keys = draw(STATES), device_types()[kind].initial
        given.append((kind, {key: state[key.split(".", 1)[1]] for key in keys if key.split(".", 1)[1] in state}))
    return name, draw(st.sampled_from(NEAR[name])), draw(st.sampled_from(NEAR[name])), given


@few(20, 100)
@given(climates(), st.integers(1, 20000))
def test_air_leaps_as_it_ticks(climate, passes):
    """Rates that follow the air, over up to half an hour; the effects are the oracle's, formula by formula."""
    name, value, baseline, given = climate
    home = build(*given)
    ticking, lines = Ticking(home), []
    for device in home.plan.devices.values():
        state = tuple(home.values[device.base + device.offsets[key]] for key in air.SIGNATURE[device.type.name])
        own = air.device_effect(device.type.name, state, baseline, 0.1)
        *_, base, slope = air.total_effect(own, value)
        assert base + slope * value == pytest.approx(ticking._effect(device, name, value, baseline), abs=1e-12)
        lines += own
    law, slow = air.LAWS[name], value
    for _ in range(passes):
        *_, base, slope = air.total_effect(lines, slow)
        slow = air.value_after_pass(slow, baseline, law.pull * 0.1, base, slope, law)
    assert air.value_after(value, baseline, law, 0.1, lines, passes) == pytest.approx(slow, abs=TOLERANCE, rel=0)


@pytest.mark.parametrize("baseline", [8940.0, 8960.0, 8985.0, 8999.0, 9020.0])
def test_humidity_that_chatters_at_an_edge(baseline):
    """Above 9000 a humidifier rests: the air goes to and fro over the edge, by ever the same doubles."""
    law, lines = air.LAWS["humidity"], air.device_effect("humidifier", (True, 100), baseline, 0.1)
    value, passes = 8990.0, 20000
    for _ in range(passes):
        *_, base, slope = air.total_effect(lines, value)
        value = air.value_after_pass(value, baseline, 0.001, base, slope, law)
    assert air.value_after(8990.0, baseline, law, 0.1, list(lines), passes) == pytest.approx(value, abs=TOLERANCE)
    assert abs(value - 9000) < 0.06 or baseline in (8940.0, 9020.0)


def test_a_sensor_shows_the_side_from_which_the_air_returns():
    """Passes too small for a double stop short of the baseline, and a sensor truncates."""
    for start, shown in ((4900.0, 4999), (5100.0, 5000)):
        assert int(air.value_after(start, 5000.0, air.LAWS["humidity"], 0.1, [], 10**6)) == shown
