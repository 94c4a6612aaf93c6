"""Leaps: whatever moves and whoever reads it, a leap leaves what ticking leaves, and looking leaves no trace."""

import io
import random
from collections.abc import Callable
from contextlib import suppress

from croniter import croniter
from draws import few
from hypothesis import example, given
from hypothesis import strategies as st

from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.cron_times import next_cron_time
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, WeatherChange
from homerl.envs.homeenv.sim.devices.device_spec import Device, load_specs
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import FiredRule, Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.values.auditor import Refused

DAY = 86400
EVERYTHING = """
- name: post
  userdata: {category: climate_sensor, spid: "p2"}
  attributes:
    - {name: temperature, type: int, range: [-40, 60]}
    - {name: humidity, type: float, range: [0, 100], precision: 0.5}
    - {name: illuminance, type: float, range: [0, 900]}
    - {name: seconds_of_warmth, type: int, range: [0, 100000], counts: self.temperature > 19}
    - {name: state, type: enum, options: ["on", "off"]}
    - {name: brightness, type: int, range: [0, 100]}
    - {name: noted, type: float}
  services:
    - {name: turn_on, requires: self.humidity > 30, code: self.state = "on"}
    - {name: turn_off, code: self.state = "off"}
    - {name: note, code: self.noted = self.temperature + self.humidity}
    - {name: spoil, code: self.temperature = 0}
    - {name: warm_up, code: self.seconds_of_warmth = 50}
"""


def restless(seed: int, posts: int = 3, rules: int = 7) -> Home:
    """Rooms with posts (sensor, lamp and counter in one) under weather that turns often, and rules on all that moves."""
    rng = random.Random(seed)
    (spec,) = load_specs(read_yaml(io.StringIO(EVERYTHING)))
    kinds = rng.sample(("bathroom", "balcony", "kitchen", "garage"), posts)
    air = {"temperature": rng.randint(50, 250) / 10, "humidity": rng.randint(200, 990) / 10, "brightness": 0.0}
    state = {"temperature": 20, "humidity": 50.0, "illuminance": 0.0, "seconds_of_warmth": 0}
    state |= {"state": "off", "brightness": rng.randint(1, 100), "noted": 0.0}
    states = {"outdoors": air} | dict.fromkeys(kinds, air) | {str(i): state for i in range(posts)}
    rooms = [Room(kind, kind, kind) for kind in kinds]
    devices = [Device(str(i), "post", room, spec) for i, room in enumerate(rooms)]
    skies = [Outdoors(*(round(rng.uniform(*span), 1) for span in ((-5, 35), (20, 100), (0, 60000)))) for _ in range(30)]
    moments = [WeatherChange(60 * i + rng.randrange(60), sky) for i, sky in enumerate(skies, 1)]
    home = Home.build_home(rooms, devices, states, 0, forecast=moments)
    named = [f'room("{kind}").{path}' for kind in kinds for path in ("temperature", "humidity", "brightness")]
    named += [f"device({i}).{path}" for i in range(posts) for path in list(state)[:4]]
    middle = {"temperature": 18, "humidity": 50, "brightness": 150, "illuminance": 150, "seconds_of_warmth": 40}
    for _ in range(rules):
        one, other = rng.choice(named), rng.choice(named)
        number = middle[one.rpartition(".")[2]] * rng.choice((0.5, 0.8, 0.9, 1, 1.05, 1.1, 1.5))
        conditions, more = rng.choice(
            [
                ([f"{one} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {number:.{rng.randrange(3)}f}"], {}),
                ([f"{number} {rng.choice(('<', '<=', '>', '>='))} {one} <= {number + 5}"], {}),
                ([f"{one} in ({number:.0f}, {number:.1f})"], {"hold": rng.randrange(3)}),
                ([f"{one} > {number}"], {"hold": rng.randrange(60)}),
                ([f"{one} - {other} > {rng.randint(-5, 5)}"], {}),
                ([f"{one} > {number}", f"time_cron = */{rng.randint(1, 30)} * * * * *"], {}),
                ([], {"delay": rng.randrange(600)}),
            ]
        )
        does = [{"did": str(rng.randrange(posts)), "locator": path} for path in rng.sample(list(spec.service_index), 2)]
        home.rules = (*home.rules, make_rule(home, conditions, does, **more))
    return home


@few(12, 60)
@given(seed=st.integers(0, 10**6), seconds=st.integers(1, 900))
def test_whatever_moves_and_whoever_reads_it_the_leap_is_what_ticking_gives(seed, seconds):
    """Light, rounded sensors, counters of what the air moves, services that read and spoil what sensors say."""
    leap = restless(seed)
    ticking, fired = leap.fork(), []
    expected = leap.advance(seconds)
    for _ in range(seconds):
        fired += ticking.advance(1)
    assert fired == expected and not leap.diff(ticking) and ticking.state_key() == leap.state_key()


def visit(seed: int, between: Callable[[Home], Home] = lambda home: home, cut: int = 0) -> tuple[list[FiredRule], str]:
    """Minutes of calls and leaps; what rules did, and the last state. `between` is done after every call and leap."""
    home, rng, fired = between(restless(seed)), random.Random(seed), []
    for _ in range(6):
        for _ in range(rng.randrange(4)):
            did, service = str(rng.randrange(3)), rng.choice(("turn_on", "turn_off", "note", "spoil", "warm_up"))
            with suppress(Refused):
                home.call(did, service)
            fired += home.settle_rules() if rng.random() < 0.4 else []
            home = between(home)
        seconds = rng.randrange(1, 200)
        fired += home.advance(seconds) if not cut else [f for part in parts(seconds, cut) for f in home.advance(part)]
        home = between(home)
    return fired, home.state_key()


def parts(whole: int, size: int) -> list[int]:
    return [size] * (whole // size) + ([whole % size] if whole % size else [])


def looked_at(home: Home) -> Home:
    home.state_key(), home_to_json(home), home.fork().advance(30)
    return home


@few(6, 25)
@example(seed=14, cut=7)  # the air of a room is saturated at the end
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 199))
def test_a_visit_is_the_same_in_parts_looked_at_saved_and_forked(seed, cut):
    plain = visit(seed)
    assert visit(seed, looked_at) == plain
    assert visit(seed, Home.fork) == plain
    assert visit(seed, lambda home: home_from_json(home_to_json(home))) == plain
    assert visit(seed, cut=cut) == plain


def test_looking_at_a_home_does_not_change_it_and_a_fork_breathes_its_own_air():
    home = HomeSampler.sample_test()
    home.advance(600)
    left_alone = home.fork()
    home.call("1002", "set_target_temperature", (16,))
    seen = home.state_key(), home_to_json(home)
    left_alone.call("1002", "set_target_temperature", (16,))
    home.fork().advance(DAY)
    assert (home.state_key(), home_to_json(home)) == seen
    for twin in (home, left_alone):
        twin.call("1002", "set_target_temperature", (20,))
        twin.advance(600)
    assert home.state_key() == left_alone.state_key()


@few(80, 200)
@example(fields=["*"] * 6, after=0)
@given(
    fields=st.tuples(
        st.sampled_from(["*", "0", "59", "*/7", "3,1,58"]),
        st.sampled_from(["*", "0", "30-40/3", "*/13"]),
        st.sampled_from(["*", "0", "23", "*/5", "8-10"]),
        st.sampled_from(["*", "L", "1", "28-31"]),
        st.sampled_from(["*", "2", "*/5"]),
        st.sampled_from(["*", "1-5", "sun"]),
    ),
    after=st.integers(0, 2_000_000_000) | st.integers(0, 23_000).map(lambda day: day * DAY - 1 if day else 0),
)
def test_the_next_time_is_what_croniter_finds_step_by_step(fields, after):
    line = " ".join(fields)
    for _ in range(4):
        expected = int(croniter(line, after, second_at_beginning=True).get_next(float))
        assert next_cron_time(line, after) == expected
        after = expected
