"""The specification's conformance vectors: room variables after n passes, and calls on devices freshly built."""

from __future__ import annotations

import json

import pytest

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim import virtual_time as workflows
from tests.envs.simuhome.conftest import ON, Hand, build, go, start

PASSES = (1, 2, 10, 100, 600, 6000, 36000)


def ac(percent, mode=3, **more):
    setpoints = {f"1.Thermostat.Occupied{name}Setpoint": value for name, value in more.items()}
    return "air_conditioner", ON | {"1.Thermostat.SystemMode": mode, "1.FanControl.PercentCurrent": percent} | setpoints


def blowing(kind, percent):
    return kind, ON | {"1.FanControl.PercentCurrent": percent}


def pump(heating):
    return "heat_pump", {"4.Thermostat.SystemMode": 4, "4.Thermostat.OccupiedHeatingSetpoint": heating}


COOLED = (
    2599.9950000999997,
    2599.9900002999975,
    2599.950005499669,
    2599.5005046668507,
    2597.017958214899,
    2571.7304085022874,
    2471.6897540808245,
)
AIR = {
    "T1": ("temperature", [ac(100, Cooling=2000)], {}, COOLED),
    "T2": ("temperature", [ac(50, Cooling=2000), blowing("fan", 80)], {},
           (2599.995900082, 2599.991800245998, 2599.959004509728,
           2599.590413826818, 2597.5547257362095, 2576.818934971775, 2494.785598345811)),
    "T3": ("temperature", [pump(2800)], {}, (2600.0049999000003, 2600.0099997000025, 2600.049994500331, 2600.4994953331493,
           2602.982041785101, 2628.2695914977126, 2728.3102459191755)),
    "T4": ("temperature", [ac(100, Cooling=2599)], {}, COOLED),
    "T5": ("temperature", [blowing("fan", 100)], {}, (2599.99800004, 2599.9960001199993, 2599.9800021998685,
           2599.8002018667494, 2598.807183286016, 2588.692163401431, 2548.6759016346778)),
    "T6": ("temperature", [ac(70, 4, Heating=2800), pump(2800)], {}, (2600.00849983, 2600.0169994900034, 2600.0849906505605,
           2600.8491420663245, 2605.0694710345088, 2648.058305544572, 2818.1274180555442)),
    "P1": ("pm10", [blowing("air_purifier", 100)], {},
           (49.505, 49.014950000000006, 45.26691271293583, 18.618600893024876,
           0.6190479599199036, 0.5000000000000178, 0.5000000000000178)),
    "P2": ("pm10", [blowing("air_purifier", 30), blowing("air_purifier", 60)], {}, (49.48212224002916, 48.96942325765803,
           45.04816031924999, 17.16822490046207, 0.0, 0.0, 0.0)),
    "H1": ("humidity", [blowing("humidifier", 100)], {}, (5000.222, 5000.4437656790005, 5002.209485179347, 5021.0791004,
           5098.71490, 5209.95442, 5210.32686)),
    "H2": ("humidity", [blowing("dehumidifier", 50)], {}, (4999.889, 4999.77811408025, 4998.895119567, 4989.4462019,
           4950.27313, 4892.22302, 4891.99708)),
    "H3": ("humidity", [blowing("humidifier", 100), blowing("dehumidifier", 40)], {},
           (5000.1332, 5000.26625645, 5001.3255588,
           5012.6338044, 5058.87762, 5123.40501, 5123.59655)),
    "H4": ("humidity", [blowing("dehumidifier", 100)], {"humidity": 1200},
           (1199.95005, 1199.90014995, 1199.50274177,
           1195.24436775, 1177.45491, 1150.17343, 1150.05)),
    "I1": ("illuminance", [("on_off_light", ON), ("dimmable_light", ON | {"1.LevelControl.CurrentLevel": 127})], {},
           (950.0,) * 7),
}  # fmt: skip


@pytest.mark.parametrize("case", AIR)
@pytest.mark.parametrize("index", range(len(PASSES)))
def test_air_after_so_many_passes(case, index):
    variable, devices, state, expected = AIR[case]
    home = build(*devices, **state)
    passage.advance_home(home, PASSES[index] - 1)
    tolerance = 2e-5 if case.startswith("H") and index > 2 else 1e-8
    assert home.room_state("room")[variable] == pytest.approx(expected[index], abs=tolerance, rel=0)


def test_air_after_a_change():
    home = build(ac(100, Cooling=2000))
    go(home, 600)
    Hand(home).do("OnOff", "Off")
    go(home, 600)
    assert home.room_state("room")["temperature"] == pytest.approx(2597.0535292191553, abs=1e-8)
    home = build(blowing("air_purifier", 100))
    go(home, 600)
    Hand(home).write("FanControl", "PercentSetting", 50)
    go(home, 1)
    assert home.room_state("room")["pm10"] == pytest.approx(1.1093375384232445, abs=1e-9)
    go(home, 599)
    assert home.room_state("room")["pm10"] == pytest.approx(49.530090711080746, abs=1e-8)


def test_light():
    hand = Hand(start(("on_off_light", {})))
    assert hand.do("OnOff", "On", endpoint=2) == hand.do("X", "On") == hand.do("OnOff", "Zap") == 404
    assert Hand(hand.home, "d9").do("OnOff", "On") == 404
    assert (hand.write("OnOff", "OnOff", True), hand.write("OnOff", "Foo", 1)) == (400, 404)
    assert hand.do("OnOff", "Toggle")["result"] == "OnOff toggled from False to True"


def test_dimmer():
    hand = Hand(start(("dimmable_light", {})))
    assert hand.do("LevelControl", "MoveToLevel", Level=50)["suppressed"] is True
    hand.do("LevelControl", "MoveToLevel", Level=50, OptionsMask=1, OptionsOverride=1)
    assert (hand.get("LevelControl", "CurrentLevel"), hand.get("OnOff", "OnOff")) == (50, False)
    hand.do("OnOff", "On")
    assert hand.get("LevelControl", "CurrentLevel") == 50
    assert [hand.do("LevelControl", "MoveToLevel", Level=level) for level in (0, 255, "5")] == [400] * 3
    assert hand.do("LevelControl", "MoveToLevel", level=5) == 400
    assert hand.do("LevelControl", "MoveToLevel", Level=100, TransitionTime=20)["duration"] == 20
    assert hand.do("LevelControl", "MoveToLevel", Level=9) == hand.do("LevelControl", "Move", MoveMode=0) == 409
    go(hand.home, 13)
    assert hand.do("LevelControl", "Stop") == {"cluster": "LevelControl", "command": "Stop", "stopped": True}
    assert hand.get("LevelControl", "CurrentLevel") == 82
    answer = hand.do("LevelControl", "Step", StepMode=1, StepSize=200, TransitionTime=30)
    assert (answer["new_level"], answer["duration"]) == (1, 12)
    go(hand.home, 12)
    hand.do("LevelControl", "Move", MoveMode=0, Rate=7)
    go(hand.home, 10)
    assert hand.get("LevelControl", "CurrentLevel") == 8
    hand.do("LevelControl", "Stop")
    hand.do("LevelControl", "MoveToLevel", Level=90)
    levels = []
    for command in ("Off", "Toggle"):
        hand.do("OnOff", command)
        levels.append(hand.get("LevelControl", "CurrentLevel"))
    assert levels == [1, 90]


def test_air_conditioner():
    hand = Hand(start(("air_conditioner", {})))
    assert [hand.write("Thermostat", "SystemMode", 3, endpoint) for endpoint in (1, 9)] == [400, 400]
    assert hand.write("Thermostat", "ControlSequenceOfOperation", 4, 9) == 404
    hand.do("OnOff", "On")

    def cool(value):
        return hand.write("Thermostat", "OccupiedCoolingSetpoint", value)

    def heat(value):
        return hand.write("Thermostat", "OccupiedHeatingSetpoint", value)

    assert cool(2825)["new_value"] == 2825 and [cool(value) for value in (2824, "2400", 28.5)] == [400] * 3
    assert [isinstance(heat(value), dict) for value in (1975, 2800, 2801, 700, 699)] == [True, True, False, True, False]
    hand = Hand(start(("air_conditioner", ON)))
    assert hand.do("Thermostat", "SetpointRaiseLower", 9, Mode=1, Amount=-500) is None
    assert hand.get("Thermostat", "OccupiedCoolingSetpoint") == 1600
    modes = [hand.write("FanControl", "FanMode", value) for value in (4, 6, 5, "1", 2.0)]
    assert [mode["new_value"] if isinstance(mode, dict) else mode for mode in modes] == [100, 100, 400, 400, 66]
    steps = [{"Direction": 0}, {"Direction": 0}, {"Direction": 1, "Wrap": False}, {"Direction": 0, "LowestOff": False}]
    assert [hand.do("FanControl", "Step", **step)["new_value"] for step in steps] == [100, 0, 0, 1]


def test_blind():
    hand = Hand(start(("window_covering_controller", {})))
    first, second = (
        hand.do("WindowCovering", "DownOrClose"),
        hand.do("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=3000),
    )
    assert (first["status"], first["actuation_count"]) == ("Movement started", 1)
    assert (second["interrupted_existing_motion"], second["estimated_duration_sec"]) == (True, 0.9)
    stopped = hand.do("WindowCovering", "StopMotion")
    assert (stopped["stopped_at"], stopped["was_moving_to"], stopped["motion_completion_percent"]) == (0, 3000, 0.0)
    hand.write("WindowCovering", "CurrentPositionLiftPercent100ths", 1234)
    answer = hand.do("WindowCovering", "UpOrOpen")
    assert (answer["previous_percentage"], answer["estimated_duration_sec"]) == (12.34, 0.3)
    go(hand.home, 1)
    assert hand.get("WindowCovering", "CurrentPositionLiftPercent100ths") == 0


def test_dishwasher():
    hand = Hand(start(("dishwasher", {})))
    assert hand.do("OperationalState", "Start") == 400
    assert hand.do("OperationalState", "Pause")["command_response_state"] == {"error_state_id": 3}
    assert hand.do("DishwasherMode", "ChangeToMode", new_mode=3)["mode_label"] == "Quick Wash"
    hand.do("OnOff", "On")
    hand.do("OperationalState", "Start")
    assert hand.get("OperationalState", "CountdownTime") == 1800
    go(hand.home, 3000)
    assert (hand.get("OperationalState", "CountdownTime"), hand.get("OperationalState", "CurrentPhase")) == (1501, 1)
    assert hand.do("OperationalState", "Pause")["operational_state"] == 2
    assert hand.do("OperationalState", "Start")["command_response_state"] == {"error_state_id": 3}
    assert (hand.get("OperationalState", "CountdownTime"), hand.get("OperationalState", "CurrentPhase")) == (1800, 0)
    assert hand.do("OperationalState", "Resume")["operational_state"] == 1
    assert hand.do("DishwasherMode", "ChangeToMode", new_mode=2) == 409
    assert hand.write("DishwasherMode", "CurrentMode", 2)["new_value"] == 2


def test_a_loaded_programme_ends_at_ten_times_its_countdown():
    state = {
        "1.OperationalState.OperationalState": 1,
        "1.OperationalState.CountdownTime": 60,
        "1.OperationalState.CurrentPhase": 0,
    }
    hand = Hand(start(("dishwasher", ON | state)))
    seen = []
    for tick in (599, 600):
        passage.advance_home(hand.home, tick)
        seen.append([hand.get("OperationalState", name) for name in ("OperationalState", "CountdownTime", "CurrentPhase")])
    assert seen[0][:2] == [1, 1] and seen[1] == [0, None, 4]


def test_washer():
    hand = Hand(start(("laundry_washer", ON)))
    hand.do("LaundryWasherMode", "ChangeToMode", new_mode=4)
    assert (hand.get("LaundryWasherControls", "SpinSpeeds"), hand.get("LaundryWasherControls", "SpinSpeedCurrent")) == (
        [2, 3],
        2,
    )
    assert hand.write("LaundryWasherControls", "SpinSpeedCurrent", 1)["new_value"] == 3
    assert hand.write("LaundryWasherControls", "SpinSpeedCurrent", 2) == 400
    calls = ({"target_temperature": 4000}, {"target_temperature": 400}, {}, {"SetPoint": 4000})
    answers = [hand.do("TemperatureControl", "SetTemperature", **call) for call in calls]
    assert [isinstance(answer, dict) or answer for answer in answers] == [True, 400, 400, 400]
    hand.do("OnOff", "Off")
    names = ("SpinSpeedCurrent", "NumberOfRinses", "SpinSpeeds", "SupportedRinses")
    assert [hand.get("LaundryWasherControls", name) for name in names] == [None] * 4
    assert hand.write("LaundryWasherControls", "SpinSpeedCurrent", 0) == 500


def test_dryer():
    hand = Hand(start(("laundry_dryer", ON)))
    hand.write("LaundryDryerControls", "SelectedDrynessLevel", 3)
    info = hand.do("OperationalState", "Start")["cycle_info"]
    assert info == {"initial_phase": "Heating", "dryness_level": "Max", "estimated_duration_minutes": 75}
    assert hand.do("OperationalState", "Pause")["operational_state"] == 2
    again = hand.do("OperationalState", "Start")
    assert (again["operational_state_label"], again["command_response_state"]) == ("Running", {"error_state_id": 3})
    hand.do("OnOff", "Off")
    assert hand.get("LaundryDryerControls", "SelectedDrynessLevel") is None
    hand.do("OnOff", "On")
    info = hand.do("OperationalState", "Start")["cycle_info"]
    assert (info["estimated_duration_minutes"], info["dryness_level"]) == (45, None)


def test_vacuum():
    hand = Hand(start(("rvc", {})))
    assert hand.do("RVCRunMode", "ChangeToMode", new_mode=2) == {"old_mode": 1, "new_mode": 2}
    assert hand.do("RVCCleanMode", "ChangeToMode", mode=2) == hand.do("RVCRunMode", "ChangeToMode", new_mode=3) == 400
    assert hand.do("RVCOperationalState", "Pause")["command_response_state"] == {"error_state_id": 0}
    assert hand.do("RVCRunMode", "ChangeToMode", new_mode=1) == 400
    assert hand.do("RVCOperationalState", "Resume")["command_response_state"] == {"error_state_id": 0}
    hand.do("RVCRunMode", "ChangeToMode", new_mode=1)

    def seen():
        return [hand.get("RVCOperationalState", name) for name in ("OperationalState", "CountdownTime")]

    history = [seen()]
    for passes in (100, 1, 51):
        go(hand.home, passes)
        history.append(seen())
    assert history == [[64, 10], [64, 1], [66, 5], [0, None]]
    assert hand.get("RVCOperationalState", "CurrentPhase") is None and hand.get("RVCRunMode", "CurrentMode") == 1


def test_cleaning_takes_half_an_hour():
    hand = Hand(start(("rvc", {})))
    hand.do("RVCRunMode", "ChangeToMode", new_mode=2)
    states = []
    for passes in (18000, 1, 100, 1, 50, 1):
        go(hand.home, passes)
        states.append(hand.get("RVCOperationalState", "OperationalState"))
    assert states == [1, 64, 64, 66, 66, 0]


def test_freezer():
    hand = Hand(start(("freezer", {})))
    assert isinstance(hand.do("TemperatureControl", "SetTemperature", target_temperature=-2000), dict)
    assert hand.do("TemperatureControl", "SetTemperature", target_temperature=-1000) == 400
    assert hand.do("RTCCMode", "ChangeToMode", mode=16384)["StatusText"].endswith("Rapid Cool")
    assert hand.do("RTCCMode", "ChangeToMode", mode=1) == 400


def test_tv_channels():
    hand = Hand(start(("tv", {})))
    assert hand.do("Channel", "ChangeChannel", match="MBC") == 400
    hand.do("OnOff", "On")
    answers = [hand.do("Channel", "ChangeChannel", match=match) for match in ("MBC", "4.0", "zzz")]
    assert [answer if answer == 400 else answer["Data"] for answer in answers] == [
        "Changed to MBC (Channel 3.0)",
        "Changed to SBS (Channel 4.0)",
        400,
    ]
    hand.do("Channel", "ChangeChannelByNumber", major_number=5)
    assert hand.do("Channel", "SkipChannel", count=2) == "Skipped to channel: KBS2"
    plain = json.loads(
        json.dumps({"list": hand.get("Channel", "ChannelList"), "now": hand.get("Channel", "CurrentChannel")})
    )
    loaded = ON | {"1.Channel.ChannelList": plain["list"], "1.Channel.CurrentChannel": plain["now"]}
    hand = Hand(start(("tv", loaded)))
    assert hand.do("Channel", "ChangeChannelByNumber", major_number=5) == hand.do("Channel", "SkipChannel") == 500
    hand = Hand(start(("tv", loaded), strict=False))
    assert hand.do("Channel", "SkipChannel")["Data"] == "Skipped to channel: MBC"


def test_tv_keys_and_levels():
    hand = Hand(start(("tv", ON)))
    assert hand.do("KeypadInput", "SendKey", KeyCode=0x41) == {"Status": 0}
    assert hand.get("LevelControl", "CurrentLevel") == 11
    assert hand.do("KeypadInput", "SendKey", KeyCode=0x50) == {"Status": 1}
    assert hand.do("KeypadInput", "SendKey", KeyCode=0xFF) == 400
    assert [hand.do("KeypadInput", "SendKey", KeyCode=0x44)["Status"] for _ in range(2)] == [0, 2]
    hand = Hand(start(("tv", {})))
    hand.do("LevelControl", "MoveToLevelWithOnOff", Level=9)
    assert (hand.get("LevelControl", "CurrentLevel"), hand.get("OnOff", "OnOff")) == (9, False)
    assert hand.do("KeypadInput", "SendKey", KeyCode=0x41) == {"Status": 2}
    hand.do("LevelControl", "MoveWithOnOff", MoveMode=0)
    assert hand.get("OnOff", "OnOff") is True


def test_heat_pump():
    hand = Hand(start(("heat_pump", {})), endpoint=4)
    assert hand.do("Thermostat", "SetpointRaiseLower", Mode=0, Amount=5) == 400
    loaded = {"3.DeviceEnergyManagement.PowerAdjustmentCapability": {"power_adjust_capability": [], "cause": 0}}
    assert Hand(start(("heat_pump", loaded)), endpoint=4).do("Thermostat", "SetpointRaiseLower", Mode=0, Amount=5) is None
    assert hand.write("Thermostat", "SystemMode", 5) == 400
    assert [hand.write("Thermostat", "OccupiedHeatingSetpoint", value) for value in (1976, 3001, "x")] == [400, 400, 500]
    assert hand.write("Thermostat", "SystemMode", 3, endpoint=1) == 404


def test_humidifier():
    hand = Hand(start(("humidifier", {})))
    assert [hand.write("FanControl", "PercentSetting", 5, endpoint) for endpoint in (1, 2)] == [400, 404]
    assert hand.do("FanControl", "Step", 2, Direction=0) == 404


def test_malformed_workflows():
    home = start(("on_off_light", {}))
    place = {"device_id": "d0", "endpoint_id": "1", "cluster_id": "OnOff", "command_id": "On", "args": {}}
    broken = {key: value for key, value in place.items() if key != "command_id"}
    ids = []
    for args in (place, broken):
        steps = [{"tool": "execute_command", "args": args}]
        ids.append(workflows.schedule_workflow(home, "2025-08-23 10:00:10", steps)["workflow_id"])
    go(home, 200)
    records = [workflows.workflow_status(home, id) for id in ids]
    assert [(record["status"], record["error"]) for record in records] == [
        ("failed", "Endpoint not found"),
        ("running", None),
    ]


def test_a_removed_light_shines_on_only_if_strict():
    for strict, before, after in ((True, 1200.0, 1200.0), (False, 700.0, 200.0)):
        home = start(("on_off_light", ON), strict=strict, illuminance=700)
        assert home.room_state("room")["illuminance"] == before
        load.remove_device(home, "d0")
        go(home, 10)
        assert home.room_state("room")["illuminance"] == after


def test_mended_rates_follow_the_air():
    """A room cools to the setpoint and no further; strict, it goes on."""
    for strict, stays in ((True, False), (False, True)):
        home = start(ac(100, Cooling=2599), strict=strict)
        go(home, 36000)
        assert (abs(home.room_state("room")["temperature"] - 2599) < 0.1) is stays
    for strict, lowest in ((True, 0.5), (False, 25.0)):
        home = start(blowing("air_purifier", 100), strict=strict)
        go(home, 36000)
        assert home.room_state("room")["pm10"] == pytest.approx(lowest, abs=1.0)
