"""Where strict mode once differed from the released program: calls, and what each of the two modes makes of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.device_catalogue import all_enumerations
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from tests.envs.simuhome.conftest import BASE_TIME, ON, Hand, go, start

each_mode = pytest.mark.parametrize("strict", [True, False])
EVEN_OFF = {"OptionsMask": 1, "OptionsOverride": 1}
PLACE = {"device_id": "d0", "cluster_id": "OnOff", "command_id": "On"}
LIT = ON | {"1.LevelControl.CurrentLevel": 100}


def hand_of(kind, attributes=None, strict=True, **more):
    return Hand(start((kind, attributes or {}), strict=strict), **more)


def level(hand, command, **args):
    return hand.do("LevelControl", command, **args)


def level_and_power(hand):
    return hand.get("LevelControl", "CurrentLevel"), hand.get("OnOff", "OnOff")


def ticking(kind, attributes, interval, strict=True):
    """A device in a home whose passes have this length."""
    device = {"device_id": "d0", "device_type": kind, "attributes": attributes}
    rooms = {"room": {"devices": [device]}}
    return Hand(load.start_home({"base_time": BASE_TIME, "tick_interval": interval, "rooms": rooms}, strict))


def called(hand, name, **arguments):
    """The status of a tool's call, and its data."""
    result = tools.call_tool(hand.home, name, arguments)
    if result["error"] is None:
        return 200, result["data"]
    detail = str(result["error"]["detail"])
    return int(detail[:3]) if detail[:3].isdigit() else result["status"]["code"], None


def schedule(hand, steps, seconds=1):
    at = hand.home.plan.base_time + timedelta(seconds=hand.home.elapsed_seconds + seconds)
    return workflows.schedule_workflow(hand.home, at.strftime(TIME_FORMAT), steps)["workflow_id"]


@pytest.mark.parametrize("interval", [0.1, 0.3, 0.7, 4.0])
def test_a_workflow_is_due_at_the_first_tick_that_is_not_before_its_time(interval):
    home = start(("on_off_light", {}))
    home.interval = interval
    place = {"device_id": "d0", "endpoint_id": 1, "cluster_id": "OnOff", "command_id": "On", "args": {}}
    schedule(Hand(home), [{"tool": "execute_command", "args": place}], seconds=5)
    (flow,) = home.workflows
    at = workflows.parse_time(flow.start_time) - home.plan.base_time
    assert (flow.due - 1) * interval + home.offset < at.total_seconds() - 1e-6 <= flow.due * interval + home.offset


def fate(hand, step):
    """What becomes of a workflow with one step."""
    flow = schedule(hand, [step])
    go(hand.home, 12)
    return workflows.workflow_status(hand.home, flow)["status"]


# 1: the light of a removed device


@pytest.mark.parametrize(("strict", "lux"), [(True, [1000, 1000, 1500]), (False, [1000, 500, 1000])])
def test_a_removed_light_shines_until_another_changes(strict, lux):
    home = start(("on_off_light", ON), ("on_off_light", {}), strict=strict, illuminance=1000 if not strict else 500)
    seen = []
    for act in (lambda: None, lambda: load.remove_device(home, "d0"), lambda: Hand(home, "d1").do("OnOff", "On")):
        act()
        go(home, 1)
        seen.append(home.room_state("room")["illuminance"])
    assert seen == [value - 500 * (strict and index == 2) for index, value in enumerate(lux)]


# 2: what a Stop couples


@each_mode
def test_a_stop_couples_what_a_move_or_a_transition_coupled(strict):
    hand = hand_of("dimmable_light", strict=strict)
    level(hand, "MoveWithOnOff", MoveMode=0, Rate=254)
    go(hand.home, 20)
    hand.do("OnOff", "Off")
    level(hand, "MoveToLevel", Level=50, **EVEN_OFF)
    level(hand, "Stop", **EVEN_OFF)
    assert level_and_power(hand) == (50, strict), "mended: only what still ran"


@each_mode
def test_a_change_at_once_forgets_no_coupling_of_a_transition(strict):
    hand = hand_of("dimmable_light", LIT, strict)
    level(hand, "MoveToLevelWithOnOff", Level=200, TransitionTime=30)
    go(hand.home, 5)
    level(hand, "Stop")
    hand.do("OnOff", "Off")
    level(hand, "MoveToLevel", Level=50, TransitionTime=0, **EVEN_OFF)
    level(hand, "Stop", **EVEN_OFF)
    assert hand.get("OnOff", "OnOff") is strict


@each_mode
def test_a_move_forgets_no_coupling_of_a_transition(strict):
    hand = hand_of("dimmable_light", LIT, strict)
    level(hand, "MoveToLevelWithOnOff", Level=200, TransitionTime=30)
    go(hand.home, 5)
    hand.do("OnOff", "Off")
    level(hand, "Move", MoveMode=0, Rate=50, **EVEN_OFF)
    go(hand.home, 5)
    level(hand, "Stop", **EVEN_OFF)
    assert hand.get("OnOff", "OnOff") is strict, "mended: only what still ran"


# 3: channels


@each_mode
def test_what_the_channel_commands_say(strict):
    hand = hand_of("tv", ON, strict)
    by_number, skipped = hand.do("Channel", "ChangeChannelByNumber", major_number=5), hand.do("Channel", "SkipChannel")
    texts = ["Changed to channel 5.0 (EBS)", "Skipped to channel: KBS1"]
    assert [by_number, skipped] == (texts if strict else [{"Status": 0, "Data": text} for text in texts])
    assert hand.do("Channel", "ChangeChannel", match="MBC") == {"Status": 0, "Data": "Changed to MBC (Channel 3.0)"}
    assert hand.do("KeypadInput", "SendKey", KeyCode=0x32) == {"Status": 0}
    assert hand.get("Channel", "CurrentChannel")["Name"] == "KBS1"


@each_mode
def test_from_no_channel_one_skips_to_the_first_and_does_not_go_back(strict):
    hand = hand_of("tv", ON, strict)
    hand.write("Channel", "CurrentChannel", None)
    said = "Set to first channel: KBS1"
    assert hand.do("Channel", "SkipChannel") == (said if strict else {"Status": 0, "Data": said})
    assert hand.do("KeypadInput", "SendKey", KeyCode=0x32) == {"Status": 2}
    hand.do("Channel", "SkipChannel")
    hand.write("Channel", "CurrentChannel", None)
    assert hand.do("KeypadInput", "SendKey", KeyCode=0x32) == {"Status": 2}


# 4, 5: structures


def shown(hand, cluster, attribute):
    return called(hand, "get_device_structure", device_id="d0")[1]["endpoints"]["1"]["clusters"][cluster]["attributes"][
        attribute
    ]


@pytest.mark.parametrize("kind", ["dishwasher", "laundry_washer", "laundry_dryer"])
def test_off_shows_the_state_as_a_member_whatever_was_loaded(kind):
    hand = hand_of(kind, ON | {"1.OperationalState.OperationalState": 0})
    assert shown(hand, "OperationalState", "OperationalState")["type"] == "int"
    hand.do("OnOff", "Off")
    assert shown(hand, "OperationalState", "OperationalState")["value"] == "STOPPED"


@each_mode
@pytest.mark.parametrize(("kind", "cluster"), [("dishwasher", "DishwasherMode"), ("laundry_washer", "LaundryWasherMode")])
def test_a_fresh_appliance_names_its_modes(kind, cluster, strict):
    hand = hand_of(kind, strict=strict)
    modes = shown(hand, cluster, "SupportedModes")["value"]
    assert [mode["mode"] for mode in modes] == [one.name for one in all_enumerations()[cluster]]
    assert called(hand, "get_all_attributes", device_id="d0")[1][f"1.{cluster}.SupportedModes"][3]["mode"] == 3


# 6 to 11


@each_mode
def test_a_default_rate_of_0_is_a_rate_of_1(strict):
    hand = hand_of("dimmable_light", LIT, strict)
    hand.write("LevelControl", "DefaultMoveRate", 0)
    assert level(hand, "Move", MoveMode=0)["rate"] == 1
    go(hand.home, 11)
    assert hand.get("LevelControl", "CurrentLevel") == 101


@each_mode
def test_ten_workflows_run_in_a_live_tick(strict):
    hand = hand_of("on_off_light", strict=strict)
    step = {"tool": "execute_command", "args": PLACE | {"endpoint_id": 1}}
    flows = [schedule(hand, [step]) for _ in range(23)]
    done = []
    go(hand.home, 10)
    for _ in range(3):
        go(hand.home, 1)
        done.append([workflows.workflow_status(hand.home, flow)["status"] for flow in flows].count("completed"))
    assert done == ([10, 20, 23] if strict else [23, 23, 23])


def test_a_fast_forward_runs_them_all():
    hand = hand_of("on_off_light")
    step = {"tool": "execute_command", "args": PLACE | {"endpoint_id": 1}}
    flows = [schedule(hand, [step]) for _ in range(12)]
    passage.advance_home(hand.home, 11, live=False)  # one tick after they are due
    assert [workflows.workflow_status(hand.home, flow)["status"] for flow in flows] == ["completed"] * 12


@each_mode
def test_a_dryer_without_phases_starts_with_none(strict):
    hand = hand_of("laundry_dryer", strict=strict)
    for command in ("On", "Off", "Toggle"):
        hand.do("OnOff", command)
    phase = hand.do("OperationalState", "Start")["cycle_info"]["initial_phase"]
    assert phase == (None if strict else "Heating")


@pytest.mark.parametrize(("strict", "statuses"), [(True, [400, 400, 404]), (False, [404, None, 404])])
def test_a_heat_pump_that_adjusts_its_power_refuses_before_it_looks(strict, statuses):
    hand = hand_of("heat_pump", strict=strict)
    args = {"Mode": 0, "Amount": -500}
    answers = [hand.do("Thermostat", "SetpointRaiseLower", place, **args) for place in (0, 4)]
    assert [*answers, hand.do("Thermostat", "Other", 0)] == statuses


@each_mode
@pytest.mark.parametrize("status", range(4))  # UNSPECIFIED, ACTIVE, STANDBY, UNAVAILABLE
def test_a_loaded_heat_pump_without_current_refuses_before_it_looks_in_mended_mode(strict, status):
    hand = hand_of("heat_pump", {"1.PowerSource.Status": status}, strict)
    code = 400 if status in (0, 3) and not strict else 404
    assert [hand.do(cluster, "Other", 4) for cluster in ("Thermostat", "DeviceEnergyManagement")] == [code] * 2
    assert hand.do("PowerSource", "Other", 1) == 404
    assert hand.write("Thermostat", "SystemMode", 4, 4)["new_value"] == 4


@pytest.mark.parametrize(("strict", "answer"), [(True, None), (False, 400)])
def test_a_washer_that_is_off_forgets_its_spin_speed(strict, answer):
    hand = hand_of("laundry_washer", ON, strict)
    hand.do("OnOff", "Off")
    result = hand.write("LaundryWasherControls", "SpinSpeedCurrent", None)
    assert (result["new_value"] if strict else result) == answer
    assert hand.write("LaundryWasherControls", "SpinSpeedCurrent", 1) == (500 if strict else 400)


# 12: passes of another length


@each_mode
def test_a_move_follows_virtual_time(strict):
    hand = ticking("dimmable_light", LIT, 0.5, strict)
    level(hand, "Move", MoveMode=0, Rate=3)
    go(hand.home, 4)
    assert hand.get("LevelControl", "CurrentLevel") == 106


@each_mode
def test_a_transition_follows_virtual_time(strict):
    hand = ticking("dimmable_light", LIT, 0.5, strict)
    level(hand, "MoveToLevel", Level=200, TransitionTime=22)  # 2.2 s are five passes
    assert hand.get("LevelControl", "RemainingTime") == 22
    seen = []
    for _ in range(5):
        go(hand.home, 1)
        seen.append((hand.get("LevelControl", "CurrentLevel"), hand.get("LevelControl", "RemainingTime")))
    assert seen == [(120, 20), (140, 15), (160, 10), (180, 5), (200, 0)]
    level(hand, "MoveToLevel", Level=100, TransitionTime=50)
    load.set_tick_interval(hand.home, 1)
    go(hand.home, 2)
    assert (hand.get("LevelControl", "CurrentLevel"), hand.get("LevelControl", "RemainingTime")) == (160, 30)


@pytest.mark.parametrize(("strict", "left"), [(True, 9), (False, 4)])
def test_identify_counts_passes(strict, left):
    hand = ticking("air_purifier", ON, 0.5, strict)
    hand.do("Identify", "Identify", IdentifyTime=10)
    go(hand.home, 12)
    assert hand.get("Identify", "IdentifyTime") == left


@each_mode
def test_a_countdown_keeps_its_fraction_of_a_second(strict):
    hand = ticking("dishwasher", ON, 0.1, strict)
    hand.do("OperationalState", "Start")
    go(hand.home, 8)
    load.set_tick_interval(hand.home, 0.3)
    go(hand.home, 1)
    assert hand.get("OperationalState", "CountdownTime") == 5399
    go(hand.home, 2)
    assert hand.get("OperationalState", "CountdownTime") == 5399
    go(hand.home, 1)
    load.set_tick_interval(hand.home, 2.5)
    go(hand.home, 1)
    assert hand.get("OperationalState", "CountdownTime") == 5400 - int(0.8 + 4 * 0.3) - 2


@each_mode
def test_humidity_follows_the_length_of_a_pass(strict):
    damp = ON | {"1.FanControl.PercentCurrent": 100}
    hand, other = (ticking("humidifier", damp, interval, strict) for interval in (0.1, 0.5))
    before = hand.home.room_state("room")["humidity"]
    load.set_tick_interval(hand.home, 0.5)
    go(hand.home, 2)
    go(other.home, 2)
    rise, usual = hand.home.room_state("room")["humidity"] - before, other.home.room_state("room")["humidity"] - 5000
    assert rise == pytest.approx(usual * 2 / 3, rel=0.01)


# 13: arguments of any kind


@pytest.mark.parametrize(("strict", "levels"), [(True, (-210, 310, -99)), (False, (1, 254, 1))])
def test_a_negative_way_is_bounded_on_the_other_side_only(strict, levels):
    seen = []
    for command, args in (
        ("Step", {"StepMode": 0, "StepSize": -310}),
        ("Step", {"StepMode": 1, "StepSize": -210}),
        ("Move", {"MoveMode": 0, "Rate": -100}),
    ):
        hand = hand_of("dimmable_light", LIT, strict)
        level(hand, command, **args)
        go(hand.home, 20)
        seen.append(hand.get("LevelControl", "CurrentLevel"))
    assert seen == pytest.approx(levels, abs=1.1)


def test_fractions_of_levels_and_times():
    hand = hand_of("dimmable_light", LIT)
    assert level(hand, "MoveToLevel", Level=50.7)["target_level"] == 50.7
    assert level(hand, "Step", StepMode=0, StepSize=1)["new_level"] == 51
    assert level(hand, "MoveToLevel", Level=60.5, TransitionTime=2.5)["duration"] == 2.5
    seen = [(51, 2.5)]
    for _ in range(3):
        go(hand.home, 1)
        seen.append((hand.get("LevelControl", "CurrentLevel"), hand.get("LevelControl", "RemainingTime")))
    assert seen == [(51, 2.5), (54, 2), (57, 1), (60.5, 0)]
    mended = hand_of("dimmable_light", LIT, strict=False)
    assert level(mended, "MoveToLevel", Level=50.7) == level(mended, "MoveToLevel", Level=5, TransitionTime=2.5) == 400


def test_a_tv_takes_no_time_of_any_kind():
    assert level(hand_of("tv", ON), "MoveToLevel", Level=5, TransitionTime="x")["duration"] == 0
    assert level(hand_of("dimmable_light", ON), "MoveToLevel", Level=5, TransitionTime="x") == 400


@each_mode
@pytest.mark.parametrize("time", ["x", "30", ["x"], [30], {"a": 1}])
@pytest.mark.parametrize("suffix", ["", "WithOnOff"])
def test_a_step_takes_no_time_that_is_no_number_at_the_bound_either(strict, time, suffix):
    for start_level, up in ((254, 0), (250, 0), (1, 1), (100, 0)):
        hand = hand_of("dimmable_light", ON | {"1.LevelControl.CurrentLevel": start_level}, strict)
        assert level(hand, f"Step{suffix}", StepMode=up, StepSize=10, TransitionTime=time) == 400
        assert level(hand, f"Step{suffix}", StepMode=up, StepSize=300, TransitionTime=20)["duration"] < 20


def test_a_change_at_once_has_the_duration_0():
    for time in (False, 0, 0.0, None):
        assert repr(level(hand_of("dimmable_light", LIT), "MoveToLevel", Level=5, TransitionTime=time)["duration"]) == "0"


@each_mode
@pytest.mark.parametrize("tool", ["execute_command", "write_attribute", "get_attribute"])
def test_a_call_to_no_device_leads_nowhere_whatever_it_holds(strict, tool):
    hand = hand_of("on_off_light", strict=strict)
    attribute = {"cluster_id": "OnOff", "attribute_id": "OnOff"}
    more = {"execute_command": PLACE | {"args": {}}, "write_attribute": attribute | {"value": 1}, "get_attribute": attribute}
    for endpoint in (None, "x", 1):
        assert called(hand, tool, **more[tool] | {"device_id": "", "endpoint_id": endpoint})[0] == 404
    known = called(hand, tool, **more[tool] | {"device_id": "d0", "endpoint_id": None})
    assert known[0] == 422


def test_a_query_has_the_order_of_the_call():
    home = start(("on_off_light", {}))
    for filters in ({"to_time": "x", "status": "pending"}, {"status": "pending", "to_time": "x"}):
        detail = tools.call_tool(home, "get_workflow_list", filters)["error"]["detail"]
        assert detail.endswith("/schedule/workflows?" + "&".join(f"{name}={value}" for name, value in filters.items()))


@each_mode
@pytest.mark.parametrize(
    ("mask", "override", "status"), [("x", 0, 400), (1.5, 0, 400), (None, 0, 400), (0, "x", 0), (2, "x", 400), (256, "x", 0)]
)
def test_masks_are_checked_whether_on_or_off(strict, mask, override, status):
    for attributes in (LIT, {}):
        hand = hand_of("dimmable_light", attributes, strict)
        for command in ("MoveToLevelWithOnOff", "MoveToLevel"):
            answer = level(hand, command, Level=9, OptionsMask=mask, OptionsOverride=override)
            assert (answer if isinstance(answer, int) else 0) == status


def test_options_of_null_are_none():
    hand = hand_of("dimmable_light")
    hand.write("LevelControl", "Options", None)
    assert level(hand, "MoveToLevel", Level=9)["suppressed"] is True
    assert level(hand, "MoveToLevel", Level=9, **EVEN_OFF)["target_level"] == 9


@pytest.mark.parametrize(
    ("endpoint", "strict", "mended"), [(1.0, "completed", "completed"), (True, "completed", "completed"),
                                       ("1", "failed", "completed"), (1.5, "failed", "failed")],
)  # fmt: skip
def test_what_becomes_of_a_step_that_writes(endpoint, strict, mended):
    place = {"device_id": "d0", "endpoint_id": endpoint, "cluster_id": "FanControl", "attribute_id": "PercentSetting"}
    step = {"tool": "write_attribute", "args": {**place, "value": 40}}
    assert [fate(hand_of("fan", ON, strict=mode), step) for mode in (True, False)] == [strict, mended]


@each_mode
@pytest.mark.parametrize("empty", ["", [], {}, None])
def test_empty_filters_are_none(strict, empty):
    hand = hand_of("on_off_light", strict=strict)
    assert called(hand, "get_workflow_list", status=empty, from_time=empty, to_time=empty) == (200, [])
    assert called(hand, "get_workflow_list", status=0)[0] == called(hand, "get_workflow_list", from_time=False)[0] == 400


@pytest.mark.parametrize(
    ("args", "strict", "mended"),
    [
        (PLACE | {"endpoint_id": 1.0}, "completed", "completed"),
        (PLACE | {"endpoint_id": True}, "completed", "completed"),
        (PLACE | {"endpoint_id": "1"}, "failed", "completed"),
        (PLACE | {"endpoint_id": 1.5}, "failed", "failed"),
        (PLACE | {"endpoint_id": 1, "args": {"endpoint_id": 1}}, "running", "failed"),
        (PLACE | {"endpoint_id": 9, "args": {"self": 1}}, "running", "failed"),
        (PLACE | {"endpoint_id": 1, "args": {"other": 1}}, "failed", "failed"),
        (PLACE | {"device_id": "nobody", "endpoint_id": 1, "args": {"self": 1}}, "failed", "failed"),
    ],
)
def test_what_becomes_of_a_step(args, strict, mended):
    step = {"tool": "execute_command", "args": args}
    assert [fate(hand_of("on_off_light", strict=mode), step) for mode in (True, False)] == [strict, mended]


@each_mode
@pytest.mark.parametrize(("endpoint", "status"), [(True, 422), ("1", 200), (1.0, 200), (None, 422), ([1], 422), (1, 200)])
def test_the_endpoint_of_an_attribute_is_a_part_of_a_url(strict, endpoint, status):
    hand = hand_of("on_off_light", strict=strict)
    assert (
        called(hand, "get_attribute", device_id="d0", endpoint_id=endpoint, cluster_id="OnOff", attribute_id="OnOff")[0]
        == status
    )


def test_a_time_that_is_a_text_is_no_failure_of_the_caller():
    for attribute, command, attributes in (("OnTransitionTime", "On", {}), ("OffTransitionTime", "Off", ON)):
        hand = hand_of("dimmable_light", attributes)
        hand.write("LevelControl", attribute, "soon")
        assert hand.do("OnOff", command) == 500
        step = {"tool": "execute_command", "args": PLACE | {"endpoint_id": 1, "command_id": command}}
        assert fate(hand, step) == "running"


@each_mode
@pytest.mark.parametrize("number", [True, False])
def test_a_device_identifies_itself_for_no_time_that_is_a_truth_value(strict, number):
    hand = hand_of("air_purifier", strict=strict)
    assert hand.do("Identify", "Identify", IdentifyTime=number) == 400
    assert hand.do("Identify", "TriggerEffect", EffectIdentifier=number, EffectVariant=0) == 400
