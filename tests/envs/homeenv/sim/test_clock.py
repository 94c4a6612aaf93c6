"""Time: what a leap leaves is what its parts leave; rules act once, in order, at their second."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.cron_times import next_cron_time
from homerl.envs.homeenv.sim.devices.air_physics import HUMIDITY_SECONDS, AirInputs, Outdoors, WeatherChange
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, load_specs
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.rules import CompiledRule, HomeRule, Rule
from homerl.envs.homeenv.sim.values.auditor import Refused

DAY = 86400
KITCHEN = Room("kitchen", "kitchen", "kitchen")
PRESENCE = """
- name: presence_sensor
  userdata: {category: motion_sensor, spid: "p1"}
  attributes:
    - {name: motion, type: bool}
    - {name: no_move_duration, type: int, range: [0, 100000], unit: second, counts: self.motion == False}
"""


def test_air_follows_what_devices_do():
    home = HomeSampler.sample_test()
    before = home.read_value("living_room", "temperature")
    home.advance(3600)
    assert abs(home.read_value("living_room", "temperature") - before) <= 0.1, "nothing changes, so it stands"
    home.call("1002", "set_target_temperature", (18,))
    home.advance(900)
    soon = home.read_value("living_room", "temperature")
    home.advance(4 * 3600)
    later = home.read_value("living_room", "temperature")
    assert 18 < later < soon < before, "it is cooled, and takes its time"
    home.call("1002", "turn_off")
    home.advance(8 * 3600)
    assert abs(home.read_value("living_room", "temperature") - before) <= 0.1, "what it was without any cooling"


def test_light_follows_at_once_and_sensors_say_what_rooms_say():
    home = HomeSampler.sample_test()
    bright = home.read_value("living_room", "brightness")
    home.call("1001", "turn_off")
    home.advance(1)
    assert home.read_value("living_room", "brightness") < bright
    home.plan = replace(home.plan, forecast=(WeatherChange(home.clock + 600, Outdoors(-10.0, 30.0, 0.0)),))
    home.advance(6 * 3600)
    assert home.read_value("1005", "temperature") == home.read_value("bathroom", "temperature") < 20
    assert home.read_value("outdoors", "temperature") == -10.0


def test_humidity_halves_its_distance_in_its_time():
    home = HomeSampler.sample_test()
    home.plan = replace(home.plan, forecast=(WeatherChange(home.clock + 1, Outdoors(27.5, 20.0, 0.0)),))
    home.advance(1)
    start = home.read_value("bathroom", "humidity")
    goal = home.air[2].goal.humidity
    home.advance(round(HUMIDITY_SECONDS * 0.6931471805599453))
    assert abs(home.read_value("bathroom", "humidity") - (start + goal) / 2) < 0.11
    assert home.air[2].devices == AirInputs(), "no device of this room touches its air"


def rule(home: Home, conditions=(), did="1001", service="turn_off", **more):
    made = make_rule(home, conditions, [{"did": did, "locator": service}], **more)
    home.rules = (*home.rules, made)
    return made


def test_a_condition_acts_when_it_begins_to_hold_not_while_it_holds():
    home = HomeSampler.sample_test()
    rule(home, ['device("1003").state == "on"'])
    assert home.settle_rules() == [] and home.read_value("1001", "state") == "on"
    home.call("1003", "turn_on")
    (fired,) = home.settle_rules()
    assert (fired.rule, fired.clock, fired.refused) == ("1", home.clock, None) and home.read_value("1001", "state") == "off"
    home.call("1001", "turn_on")
    assert home.advance(DAY) == [], "it still holds: that is no beginning"
    home.call("1003", "turn_off")
    home.settle_rules()
    home.call("1003", "turn_on")
    assert len(home.settle_rules()) == 1


def test_what_holds_when_the_rule_is_made_is_no_beginning():
    home = HomeSampler.sample_test()
    rule(home, ['device("1001").state == "on"'])
    assert home.advance(DAY) == []


def test_a_condition_must_hold_without_a_break():
    home = HomeSampler.sample_test()
    rule(home, ['device("1003").state == "on"'], hold=600)
    home.call("1003", "turn_on")
    home.advance(599)
    home.call("1003", "turn_off")
    home.advance(1)
    home.call("1003", "turn_on")
    start = home.clock
    assert [f.clock for f in home.advance(DAY)] == [start + 600]


def test_a_counter_counts_and_a_rule_sees_it_pass():
    (spec,) = load_specs(read_yaml(PRESENCE))
    room = {"temperature": 20.0, "humidity": 50.0, "brightness": 0.0}
    states = {"outdoors": room, "kitchen": room, "1": {"motion": True, "no_move_duration": 0}}
    home = Home.build_home([KITCHEN], [Device("1", "sensor", KITCHEN, spec)], states, 1000)
    plan = home.plan
    seen = compile_condition("device(1).no_move_duration > 900", plan)
    home.advance(500)
    assert home.read_value("1", "no_move_duration") == 0
    home.write_slot(plan.slot_of("1", "motion"), False)
    nothing = Rule(id="1", actions=(), when=seen.text)  # an agent can make no rule without actions
    home.rules = (HomeRule(nothing, CompiledRule(condition=seen)),)
    twin = home.fork()
    assert [f.clock for f in twin.advance(5000)] == [home.clock + 901] and twin.read_value("1", "no_move_duration") == 5000
    home.advance(700)
    home.write_slot(plan.slot_of("1", "motion"), True)
    assert home.advance(5000) == [] and home.read_value("1", "no_move_duration") == 0


def test_times_come_by_the_clock_and_one_moment_once():
    home = HomeSampler.sample_test()
    assert datetime.fromtimestamp(home.clock, UTC).strftime("%H:%M") == "20:30"
    rule(home, ["time_cron = 0 0 22 * * ? *"])
    rule(home, ["time_cron == 0 30 7 ? * 2-6 *", 'device("1003").state == "on"'])
    rule(home, delay=90)
    fired = home.advance(7 * DAY)
    hours = [(f.rule, datetime.fromtimestamp(f.clock, UTC).strftime("%H:%M:%S")) for f in fired]
    assert hours == [("3", "20:31:30"), *[("1", "22:00:00")] * 7], "the lamp is off, so rule 2 never acts"
    assert [r.id for r in home.rules] == ["1", "2"]
    home.call("1003", "turn_on")
    days = [datetime.fromtimestamp(f.clock, UTC).strftime("%a") for f in home.advance(7 * DAY) if f.rule == "2"]
    assert sorted(days) == ["Fri", "Mon", "Thu", "Tue", "Wed"], "in seven fields Sunday is day 1"


@pytest.mark.parametrize(
    ("cron", "after", "first"),
    [
        ("0 0 22 27 6 ? 2024", "2024-06-27 21:00:00", "2024-06-27 22:00:00"),
        ("0 0 22 27 6 ? 2024", "2024-06-27 22:00:00", None),
        ("0 0 14 * * ? *", "2024-02-28 15:00:00", "2024-02-29 14:00:00"),
        ("*/15 * * * *", "2024-01-01 00:00:00", "2024-01-01 00:15:00"),
        ("30 0 8 * * 1", "2024-01-02 00:00:00", "2024-01-08 08:00:30"),
        ("0 0 8 ? * 1 *", "2024-01-02 00:00:00", "2024-01-07 08:00:00"),
        ("0 0 9 ? * MON-FRI 2025", "2024-12-31 00:00:00", "2025-01-01 09:00:00"),
        ("*,5 * * * *", "2024-01-01 08:05:00", "2024-01-01 08:06:00"),
        ("0 30 3,* * * ? *", "2024-01-01 04:00:00", "2024-01-01 04:30:00"),
    ],
)
def test_cron_lines_of_five_six_and_seven_fields(cron, after, first):
    def moment(text):
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())

    assert next_cron_time(cron, moment(after)) == (moment(first) if first else None)


SPANS = st.lists(st.integers(1, 7), min_size=1, max_size=2, unique=True).map(sorted) | st.just([])


@given(st.lists(st.tuples(SPANS, st.integers(1, 7)), min_size=1, max_size=3))
def test_days_of_seven_fields_are_counted_from_sunday_and_steps_are_not_days(parts):
    """A part is a first and a last day (none: every day), and a step; one day with a step has no last."""
    wanted, texts = set(), []
    for span, step in parts:
        low, high = (span[0], span[-1] if len(span) == 2 or step == 1 else 7) if span else (1, 7)
        wanted |= set(range(low, high + 1, step))
        texts.append(("-".join(map(str, span)) or "*") + (f"/{step}" if step > 1 else ""))
    sunday = int(datetime(2024, 1, 7, tzinfo=UTC).timestamp())
    found, now = set(), sunday
    while (now := next_cron_time(f"0 0 7 ? * {','.join(texts)} *", now)) < sunday + 7 * DAY:
        found.add((now - sunday) // DAY + 1)
    assert found == wanted


def test_automations_that_a_person_wrote_into_a_file_begin_with_it():
    data, on = home_to_json(HomeSampler.sample_test()), [{"did": "1003", "locator": "turn_on"}]
    data["rules"] = [
        {"id": "daily", "cron": "0 0 22 * * *", "actions": on},
        {"id": "once", "at": data["clock"] + 60, "actions": on},
        {"id": "lit", "when": 'device("1001").state == "on"', "actions": on},
        {"id": "dark", "when": 'device("1001").state == "off"', "actions": on},
    ]
    home = home_from_json(data)
    assert home.fork().advance(0) == [], "what holds already does not trigger"
    assert [fired.rule for fired in home.fork().advance(86400)] == ["once", "daily"]
    assert home_from_json(home_to_json(home)).state_key() == home.state_key()


def test_rules_see_what_rules_do_and_come_to_rest():
    home = HomeSampler.sample_test()
    rule(home, ['device("1001").state == "off"'], service="turn_on")
    rule(home, ['device("1001").state == "on"'], service="turn_off")
    home.call("1001", "turn_off")
    assert [f.rule for f in home.settle_rules()] == ["1", "2"], "each once a second, however they undo each other"
    assert home.fork().advance(0) == [] == home.fork().advance(3600) and home.read_value("1001", "state") == "off"


def test_a_refused_action_is_told_and_ends_the_rule():
    home = HomeSampler.sample_test()
    actions = [
        {"did": "1003", "locator": "set_brightness", "arguments": {"brightness": 5}},
        {"did": "1001", "locator": "turn_off"},
    ]
    home.rules = (make_rule(home, [], actions, delay=5),)
    (fired,) = home.advance(10)
    assert fired.refused.startswith("precondition:") and home.read_value("1001", "state") == "on" and home.rules == ()


@pytest.mark.parametrize(
    ("conditions", "actions", "more", "rule"),
    [
        ([], None, {}, "missing_argument"),
        (["time_cron = 0 0 22 * * ? *", "time_cron = 0 0 23 * * ? *"], None, {}, "wrong_type"),
        (["time_cron = 61 0 0 * * ? *"], None, {}, "wrong_type"),
        (["time_cron = often"], None, {}, "wrong_type"),
        (['device("9").state == "on"'], None, {}, "wrong_type"),
        (["1 == 1"], None, {}, "wrong_type"),
        ([""], None, {}, "wrong_type"),
        (["home.temperature > 5"], [], {}, "missing_argument"),
        (["home.temperature > 5"], [{"did": "9", "locator": "turn_on"}], {}, "unknown_device"),
        (["home.temperature > 5"], [{"did": "1001", "locator": "explode"}], {}, "unknown_service"),
        (["home.temperature > 5"], [{"did": "1001", "locator": "set_brightness"}], {}, "missing_argument"),
        (
            ["home.temperature > 5"],
            [{"did": "1001", "locator": "set_brightness", "arguments": {"brightness": 500}}],
            {},
            "out_of_range",
        ),
        (["home.temperature > 5"], [{"did": "1001"}], {}, "wrong_type"),
        ([], None, {"delay": 5, "hold": 5}, "wrong_type"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(conditions, actions, more, rule):
    home = HomeSampler.sample_test()
    actions = [{"did": "1001", "locator": "turn_off"}] if actions is None else actions
    with pytest.raises(Refused) as refused:
        make_rule(home, conditions, actions, **more)
    assert refused.value.rule == rule


def test_what_is_pending_is_part_of_the_state():
    home = HomeSampler.sample_test()
    bare = home.state_key()
    twin = home.fork()
    rule(twin, delay=60)
    assert twin.state_key() != bare and home.state_key() == bare, "a fork's rules are its own"
    later = home.fork()
    later.advance(60)
    assert later.state_key() != bare


@pytest.mark.parametrize("seconds", [-1, 0.5, 10**12])
def test_time_goes_forward_and_not_for_ever(seconds):
    with pytest.raises(ValueError, match="seconds"):
        HomeSampler.sample_test().advance(seconds)


def test_the_shipped_human_sensor_counts_how_long_nobody_moved():
    """SMH-Bench's own state-driven trigger, on a product of the catalogue."""
    sensor = Device("5267", "human sensor", KITCHEN, Catalogue.load_shipped()["101802"])
    air = {"temperature": 20.0, "humidity": 50.0, "brightness": 0.0}
    values = {"human_detected": "no", "no_move_duration": 30, "illuminance": 0.0, "battery_level": 50, "alias": ""}
    lamp = Device("1", "lamp", KITCHEN, Catalogue.load_shipped()["100002"])
    on = {"state": "on", "brightness": 50, "color_temperature": 3000}
    states = {"outdoors": air, "kitchen": air, "5267": values, "1": on}
    home = Home.build_home([KITCHEN], [sensor, lamp], states, 1000)
    rule(home, ["device(5267).no_move_duration > 900"], did="1")
    assert [f.clock for f in home.advance(3600)] == [1000 + 871] and home.read_value("1", "state") == "off"


def test_what_the_agent_did_is_not_lost_on_the_air_when_a_rule_acts_elsewhere():
    home = HomeSampler.sample_test()
    home.advance(1)  # from now on the air takes notice
    rule(home, ['device("1001").state == "off"'], did="1003", service="turn_on")
    quiet = home.fork()
    quiet.rules = ()
    for twin in (home, quiet):
        twin.call("1002", "set_target_temperature", (16,))
        twin.call("1001", "turn_off")
    assert len(home.settle_rules()) == 1 and home.read_value("1003", "state") == "on"
    home.advance(7200), quiet.advance(7200)
    assert home.read_value("living_room", "temperature") == quiet.read_value("living_room", "temperature") < 22


@pytest.mark.parametrize("leaps", [[100], [1] * 100, [7, 93]])
def test_the_light_that_a_rule_makes_is_seen_a_second_later(leaps):
    home = HomeSampler.sample_test()
    home.advance(5)
    rule(home, delay=5)
    rule(home, ['room("living_room").brightness < 100'], did="1003", service="turn_on")
    start = home.clock
    assert [(f.rule, f.clock - start) for seconds in leaps for f in home.advance(seconds)] == [("1", 5), ("2", 6)]


def test_a_lamp_is_seen_a_second_later_however_far_the_clock_leaps():
    home = HomeSampler.sample_test()
    home.call("1001", "turn_off")
    home.advance(60)
    dark = home.read_value("living_room", "brightness")
    rule(home, [f'room("living_room").brightness > {dark + 50}'], did="1003", service="turn_on")
    home.call("1001", "turn_on")
    home.call("1001", "set_brightness", (100,))
    start = home.clock
    assert [fired.clock for fired in home.advance(DAY)] == [start + 1]


def test_looking_changes_nothing_and_what_is_undone_at_once_leaves_no_trace():
    home = HomeSampler.sample_test()
    home.advance(100)
    key, twin = home.state_key(), home.fork()
    home.call("1002", "turn_off")
    assert home.state_key() != key and home_to_json(home)["air"] == home_to_json(twin)["air"]
    home.call("1002", "turn_on")
    assert home.state_key() == key
    home.advance(5000), twin.advance(5000)
    assert home.state_key() == twin.state_key()


WARMTH = """
- name: warmth_sensor
  userdata: {category: climate_sensor, spid: "w1"}
  attributes:
    - {name: temperature, type: float, range: [-40, 60], precision: 0.1}
    - {name: warm_for, type: int, range: [0, 100000], counts: self.temperature > 19}
"""


def test_a_counter_of_what_the_room_does_stops_at_its_second_however_far_the_clock_leaps():
    (spec,) = load_specs(read_yaml(WARMTH))
    air = {"temperature": 21.0, "humidity": 50.0, "brightness": 0.0}
    states = {"outdoors": air, "kitchen": air, "1": {"temperature": 21.0, "warm_for": 0}}
    home = Home.build_home(
        [KITCHEN], [Device("1", "sensor", KITCHEN, spec)], states, 1000, None, [WeatherChange(4600, Outdoors(0, 50, 0))]
    )
    ticking = home.fork()
    for _ in range(10_000):
        ticking.advance(1)
        if ticking.read_value("1", "warm_for") > 0:
            warm = ticking.read_value("1", "warm_for")
    home.advance(3600 + 600)
    assert 3600 < warm < 10_000 and home.read_value("1", "warm_for") == 4200
    home.advance(10_000 - 4200)
    assert home.read_value("1", "warm_for") == 0 and home.state_key() == ticking.state_key()
    with pytest.raises(InputError, match="must not count itself"):
        load_specs(read_yaml(WARMTH.replace("self.temperature > 19", "self.warm_for < 5")))


def test_nobody_waits_for_ever_and_no_time_is_left_to_chance():
    home = HomeSampler.sample_test()
    for conditions, more in (([], {"delay": 10**18}), (["home.temperature > 5"], {"hold": 10**18})):
        with pytest.raises(Refused, match="out_of_range"):
            rule(home, conditions, **more)
    for cron in ("R * * * *", "0 h(0-5) * * *", "a" + " " * 50_000 + "b"):
        with pytest.raises(Refused, match="no cron line"):
            rule(home, [f"time_cron = {cron}"])
    rule(home, ["time_cron = 0 8 * MAR THU"])
    soon = rule(home, delay=5.0)
    assert type(soon.definition.at) is int and home_from_json(home_to_json(home)).state_key() == home.state_key()
