"""Files, rules and weather that people, agents and disks got wrong: a clear error or a coherent home, nothing else.

Right ones are changed in a few places (`mutations.py`), some hundred times by default, thousands of times under
`scripts/test --all`. What is taken all the same must be as good as what was right.
"""

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path

import pytest
from draws import DAY, RANDOM, few, home_of, some_arguments, some_order, some_rule, whole
from hypothesis import given
from hypothesis import strategies as st
from mutations import WORDS, mutated, spoilt
from right_files import DEVICE_FILES, NUMBERS, assert_coherent, right_home, right_text

from homerl.envs.core.documents import Document, InputError, read_yaml, refuse_unwritable
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.cron_times import next_cron_time
from homerl.envs.homeenv.sim.devices.device_lint import lint_device_files
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec, load_specs
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home, save_home
from homerl.envs.homeenv.sim.values.auditor import RULES, Refused

pytestmark = pytest.mark.timeout(1800)
PATIENCE = 20  # seconds of processor time for one reading


@contextmanager
def refusal_or_nothing() -> Iterator[None]:
    """Whatever is wrong is said as an `InputError`, in three lines at most, and soon."""
    start = time.process_time()
    try:
        yield
    except InputError as error:
        assert error.what and len(str(error).splitlines()) <= 3 and "Traceback" not in str(error)
    finally:
        assert time.process_time() - start < PATIENCE


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("malformed")


# Homes


@few(30)
@given(NUMBERS, RANDOM, st.booleans())
def test_a_home_with_wrong_parts_is_refused_or_coherent(number, rng, complete):
    with refusal_or_nothing():
        home = home_from_json(mutated(json.loads(right_text(number, complete)), rng))
        assert_coherent(home, rng)


@few(20)
@given(NUMBERS, RANDOM, st.booleans())
def test_a_damaged_home_file_is_refused_or_coherent(folder, number, rng, complete):
    path = folder / "home.json"
    path.write_bytes(spoilt(right_text(number, complete).encode(), rng))
    with refusal_or_nothing():
        home = load_home(path)
        assert_coherent(home, rng)
        save_home(home, path)
        assert load_home(path).state_key() == home.state_key()


# Devices


def assert_executable(specs: list[DeviceSpec], rng: random.Random) -> None:
    """What loads works: values can be drawn, services called, and all of it stored."""
    homes = [home_of([spec], [Room("bench", "kitchen", "bench")], 1_750_000_000, rng) for spec in specs]
    for home in homes:
        for path, compiled in home.plan.devices[0].spec.service_index.items():
            for wrong in (0, 0.5):
                before = whole(home)
                try:
                    home.call("1", path, some_arguments(compiled, rng, wrong))
                except Refused as refused:
                    assert refused.rule in RULES and whole(home) == before
        assert_coherent(home, rng)


@few(30)
@given(st.sampled_from(DEVICE_FILES), RANDOM)
def test_a_device_with_wrong_parts_is_refused_or_works(text, rng):
    with refusal_or_nothing():
        data = mutated([rng.choice(read_yaml(text).data)], rng)
        refuse_unwritable(data, "devices.yaml")
        assert_executable(load_specs(Document("devices.yaml", data, {})), rng)


@few(20)
@given(st.sampled_from(DEVICE_FILES), RANDOM)
def test_a_damaged_device_file_is_refused_or_works(folder, text, rng):
    devices = folder / "devices"
    devices.mkdir(exist_ok=True)
    (devices / "some.yaml").write_bytes(spoilt(text.encode(), rng))
    found = lint_device_files(devices)
    assert all(finding.where and finding.what and finding.remedy for finding in found.findings)
    with refusal_or_nothing():
        specs = load_specs(read_yaml(devices / "some.yaml"))
        assert found.error_count == 0 or len({spec.spid for spec in specs}) < len(specs)
        assert_executable([rng.choice(specs)], rng)


# Automations

CRONS = (
    "0 0 22 * * ? *", "*/15 * * * *", "0 30 7 ? * 2-6 *", "0 0 9 ? * MON-FRI 2025", "0 0 22 27 6 ? 2024", "30 0 8 * * 1",
    "0 0 L * *", "0 0 0 ? * 2#1 *", "0 0 15W * *", "@daily", "0 0 29 2 *", "5,10,15 8-18/2 * * *", "0 0 0 1 1 ? 2099",
)  # fmt: skip
FIELDS = (
    "*", "?", "*/0", "0/5", "1-", "-1", "60", "L", "LW", "0L", "W", "6#5", "#", "H", "R", "h(0-5)/3", "sun", "JAN-DEC", "١",
    "9" * 400, "1,2,,3", "0-9999999", "@yearly", "?-?", "7#7", "1-5/99999999999",
)  # fmt: skip


def wrong_cron(rng: random.Random) -> str:
    fields: list = rng.choice(CRONS).split()
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(fields))
        fields[at : at + rng.choice((0, 1, 1, 1))] = [rng.choice(FIELDS)] * rng.choice((0, 1, 1, 1, 2))
        fields = fields or ["*"]
    line = " ".join(fields)
    return f"{line[: rng.randrange(len(line) + 1)]}{rng.choice(WORDS)}" if rng.random() < 0.2 else line


@few(40)
@given(RANDOM, st.integers(0, 253_402_300_799))
def test_a_wrong_cron_line_is_refused_or_has_times_that_come(rng, after):
    line, home = wrong_cron(rng), right_home(0).fork()
    start = time.process_time()
    try:
        made = make_rule(home, [f"time_cron = {line}"], [some_order(home, rng)])
    except Refused as refused:
        assert refused.rule in RULES and len(refused.message) < 400
        return
    if (cron := made.definition.cron) is not None:
        times = [next_cron_time(cron, at) for at in (after, after, home.clock)]
        assert times[0] == times[1] and (times[0] is None or times[0] > after)
        home.rules = (made,)
        back = home_from_json(home_to_json(home))
        assert back.advance(DAY) == home.advance(DAY) and back.state_key() == home.state_key()
    assert time.process_time() - start < PATIENCE


@few(40)
@given(NUMBERS, RANDOM)
def test_a_wrong_automation_is_refused_or_acts_like_any_other(number, rng):
    home = right_home(number).fork()
    right = {"conditions": [], "actions": [], **some_rule(home, rng)}
    wrong = mutated(right, rng)
    names = {
        "conditions": "conditions",
        "actions": "actions",
        "title": "title",
        "delay_seconds": "delay",
        "hold_seconds": "hold",
    }
    env, before = HomeEnv(home, toolset="smh"), whole(home)
    action = {"name": "create_automation", **(wrong if isinstance(wrong, dict) else {"conditions": wrong})}
    _, _, _, _, info = env.step(action)
    if info["blocked"]:
        assert whole(env.engine.home) == before
        return
    assert set(wrong) <= set(names)
    taken = env.engine.home
    back = home_from_json(json.loads(json.dumps(home_to_json(taken))))
    assert back.state_key() == taken.state_key()
    assert back.advance(DAY // 4) == taken.advance(DAY // 4) and back.state_key() == taken.state_key()
    assert env.step({"name": "list_automations"})[4]["blocked"] is None


# Weather

PATHS = count()


@lru_cache(maxsize=1)
def right_weather() -> bytes:
    """A made-up but well-formed EPW file."""
    months = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    lines = ["LOCATION,Zürich,-,CHE,IWEC,066600,47.38,8.57,1.0,569.0", *["DESIGN CONDITIONS,0"] * 7]
    for month, day in ((m, d) for m, days in enumerate(months, 1) for d in range(1, days + 1)):
        for hour in range(1, 25):
            fields = [
                1995,
                month,
                day,
                hour,
                60,
                "?",
                month + hour / 10,
                5.0,
                60,
                95000,
                0,
                0,
                300,
                400 if 9 <= hour <= 16 else 0,
            ]
            lines.append(",".join(map(str, fields + [0] * 7 + [2.5] + [0] * 13)))
    return "\r\n".join(lines).encode("latin-1")


ODD_CELLS = (
    b"", b"nan", b"-99.5", b"1e5", b"1_0", b'"', b'"7"', b"\xb2", b"99.9", b"999", b"9999", b"-inf", b"0x10", b" 5 ", b"\0",
    b"181", b"-91", b"1e300", b"-55.5", b"x,y", b"2,29",
)  # fmt: skip


def wrong_weather(rng: random.Random) -> bytes:
    """Cells of a few lines, the first among them, or the file as a whole."""
    if rng.random() < 0.3:
        return spoilt(right_weather(), rng)
    lines = right_weather().split(b"\r\n")
    for _ in range(rng.randint(1, 4)):
        at = rng.choice((0, rng.randrange(len(lines))))
        cells = lines[at].split(b",")
        cells[rng.randrange(len(cells))] = rng.choice(ODD_CELLS)
        lines[at] = b",".join(cells)
    return b"\r\n".join(lines)


@few(12, many=500)
@given(RANDOM)
def test_wrong_weather_is_refused_or_makes_coherent_homes(folder, rng):
    path = folder / f"{next(PATHS)}.epw"  # a file is read once a process
    path.write_bytes(wrong_weather(rng))
    with refusal_or_nothing():
        home = make_home(rng.randrange(100), HomeRecipe(weather=(str(path),)))
        assert_coherent(home, rng)
    path.unlink()
