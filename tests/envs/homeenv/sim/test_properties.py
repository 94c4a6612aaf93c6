"""What holds of every home, whatever happens to it: every product, homes of all scales, rules, weather and time.

A few cases of each property by default, thousands under `scripts/test --all`.
"""

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import draws
import pytest
from draws import (
    DAY,
    HOMES,
    LIVED,
    MANY,
    PRODUCTS,
    RANDOM,
    RULED,
    Deed,
    assert_in_bounds,
    do,
    few,
    home_at,
    some_action,
    some_call,
    some_deed,
    some_rule,
    whole,
    with_rules,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from mutations import mutated

from homerl.envs.core.world import check_world
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import FiredRule, Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home, save_home
from homerl.envs.homeenv.sim.home_world import name_state_changes
from homerl.envs.homeenv.sim.values.auditor import RULES, Refused

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.timeout(1800)


def test_there_is_every_product_and_every_scale_to_draw_from():
    homes = [home_at(seed) for seed in range(200)]
    assert {spec.spid for spec in PRODUCTS} <= {device.spec.spid for home in homes for device in home.plan.devices}
    sizes = [len(home.plan.devices) for home in homes]
    assert min(sizes) < 10 and any(26 <= size <= 44 for size in sizes) and max(sizes) >= 120


# Refusals


@few(15)
@given(LIVED, RANDOM)
def test_a_refused_call_changes_nothing(home, rng):
    before, key, twin = whole(home), home.state_key(), home.fork()
    for _ in range(20):
        call = some_call(home, rng)
        try:
            twin.call(*call)
            twin = home.fork()
        except Refused as error:
            assert error.rule in RULES and len(error.message) < 2000
            break
    else:
        assume(False)
    with pytest.raises(Refused):
        home.call(*call)
    assert whole(home) == before and home.state_key() == key


@few(15)
@given(LIVED, RANDOM, st.sampled_from(("smh", "homeflow", "direct")))
def test_a_step_never_raises_and_a_refused_one_changes_nothing(home, rng, toolset):
    env, before = HomeEnv(home, toolset=toolset), whole(home)
    for _ in range(20):
        action = mutated(some_step(home, rng, toolset), rng)
        given_as, start = copy.deepcopy(action), env.fork()
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation and (reward, terminated, truncated) == (0.0, False, False)
        assert repr_of(action) == repr_of(given_as), "a step changed its action"
        if info["blocked"]:
            break
        env = start
    else:
        assume(False)
    assert info["blocked"]["rule"] in RULES and observation.startswith(f"refused: {info['blocked']['rule']}")
    assert whole(env.engine.home) == before and not info["changed"] and env.state_key() == home.state_key()


def some_step(home: Home, rng: random.Random, toolset: str) -> dict[str, Any]:
    """A right action that acts at most once, so that nothing stands before what is refused."""
    action = some_action(home, rng)
    match toolset:
        case "smh":
            return action
        case "homeflow":
            what = {"did": rng.choice(home.plan.devices).did} if rng.random() < 0.5 else {"room": home.plan.rooms[0].id}
            return {"name": rng.choice(("query_status", "query_spec")), **what}
    parts = rng.choice(({"actions": [draws.some_order(home, rng)]}, {"automations": [some_rule(home, rng)]}))
    return {"name": "answer", "mode": rng.choice(("execute", "execute", "clarify")), "response": "Done.", **parts}


def repr_of(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of too many digits
        return "endless"


# Forks


@few(15)
@given(LIVED, RANDOM)
def test_forks_are_independent_both_ways(home, rng):
    family = [home, home.fork(), home.fork().fork()]
    for _ in range(6):
        acting = rng.randrange(len(family))
        before = [(whole(member), member.state_key()) for member in family]
        do(family[acting], some_deed(family[acting], rng))
        for at, member in enumerate(family):
            assert at == acting or (whole(member), member.state_key()) == before[at]


# Keys


def ways_to(home: Home, rng: random.Random) -> list[Home]:
    """Homes of the same state that came to it by other ways."""
    loaded = [home_from_json(json.loads(json.dumps(home_to_json(home, whole)))) for whole in (False, True)]
    looked_at, detour = home.fork(), home.fork()
    looked_at.state_key(), looked_at.advance(0)
    for _ in range(4):  # what is done and undone within a second leaves no trace
        try:
            detour.call(*some_call(detour, rng))
        except Refused:
            continue
        looked_at.fork().advance(60), detour.state_key(), home_to_json(detour)
    for slot, value in enumerate(home.values):
        detour.write_slot(slot, value)
    return [home.fork(), *loaded, looked_at, detour]


@few(15)
@given(LIVED, RANDOM)
def test_equal_keys_have_equal_futures(home, rng):
    """By whatever way: calls, rules and their holds and delays, the clock."""
    others = ways_to(home, rng)
    assert {other.state_key() for other in others} == {home.state_key()}
    for _ in range(5):
        deed = some_deed(home, rng)
        outcome = do(home, deed)
        for other in others:
            assert do(other, deed) == outcome and whole(other) == whole(home) and other.state_key() == home.state_key()


STATE_OF: dict[str, int] = {}
KEY_OF: dict[int, str] = {}


@few(15)
@given(LIVED, RANDOM)
def test_different_states_have_different_keys_and_one_state_one_key(home, rng):
    """Among all that were ever drawn."""
    for _ in range(5):
        key, state = home.state_key(), hash((home.plan.content_digest, *whole(home)))
        assert STATE_OF.setdefault(key, state) == state and KEY_OF.setdefault(state, key) == key
        assert Home(home.plan, home.values, home.clock)._key == home._key, "the running key is not the recomputed one"
        do(home, some_deed(home, rng))
    for other in slightly_other(home, rng):
        assert other.state_key() != home.state_key()


def slightly_other(home: Home, rng: random.Random) -> Iterator[Home]:
    """Homes that differ in one place: a slot, the clock, one field of a rule, of a room's air."""
    other = home.fork()
    other.write_slot(rng.randrange(len(home.values)), "another")
    yield other
    other = home.fork()
    other.clock += 1
    yield other
    for at, told in enumerate(home.rules):
        part = rng.choice(("definition", "progress"))
        name = rng.choice([field.name for field in fields(getattr(told, part)) if field.repr])
        changed = replace(told, **{part: replace(getattr(told, part), **{name: "another"})})
        other = home.fork()
        other.rules = (*home.rules[:at], changed, *home.rules[at + 1 :])
        yield other
    for at, air in enumerate(home.air or ()):
        name = rng.choice(("since", "temperature", "humidity", "goal"))
        other = home.fork()
        other.air = (*home.air[:at], air._replace(**{name: "another"}), *home.air[at + 1 :])
        yield other


JOURNEYS = "from draws import journeys; print(*journeys(range({})))"


@pytest.mark.parametrize(
    ("homes", "hash_seeds"), [pytest.param(50, "1", id="few"), pytest.param(MANY, "123", id="many", marks=pytest.mark.long)]
)
def test_keys_are_the_same_in_every_process(homes, hash_seeds):
    here = list(draws.journeys(range(homes)))
    assert len(set(here)) > 0.99 * homes
    for seed in hash_seeds:
        done = subprocess.run(
            [sys.executable, "-c", JOURNEYS.format(homes)], cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/helpers'}"},
        )  # fmt: skip
        assert done.stdout.split() == here


# Files


@few(15)
@given(LIVED)
def test_saving_and_loading_is_identity(tmp_path_factory, home):
    path = tmp_path_factory.getbasetemp() / "home.json"
    save_home(home, path)
    stored = home_to_json(home)
    for back in (load_home(path), home_from_json(json.loads(json.dumps(stored)))):
        assert (
            back.plan.content_digest == home.plan.content_digest
            and whole(back) == whole(home)
            and back.state_key() == home.state_key()
        )
        assert home_to_json(back) == stored and not back.diff(home) and back.plan.entrance == home.plan.entrance


# Bounds


@few(15)
@given(LIVED, RANDOM)
def test_nothing_leaves_its_range_and_calls_write_nothing_that_is_read_only(home, rng):
    read_only = [at for at, slot in enumerate(home.plan.slots) if getattr(slot.type, "read_only", True)]
    for _ in range(8):
        deed, before = some_deed(home, rng), [home.values[at] for at in read_only]
        if deed[0] == "call":
            try:
                home.call(*deed[1:])
            except Refused:
                continue
            assert [home.values[at] for at in read_only] == before
        do(home, deed)
        assert_in_bounds(home)


# Differences


class Recorder(Home):
    """A home that writes down every value put in a slot."""

    __slots__ = ("log",)

    @classmethod
    def of(cls, home: Home) -> "Recorder":
        twin = cls(home.plan, home.values, home.clock)
        twin.air, twin.rules, twin.air_stale, twin.log = home.air, home.rules, home.air_stale, {}
        return twin

    def write_slot(self, slot: int, value: Any) -> None:
        self.log[slot] = value
        super().write_slot(slot, value)


@few(15)
@given(LIVED, RANDOM)
def test_a_diff_lists_exactly_what_was_done(home, rng):
    acting = Recorder.of(home)
    for _ in range(rng.randrange(6)):
        do(acting, some_deed(acting, rng))
    expected = {slot: (home.values[slot], value) for slot, value in acting.log.items() if value != home.values[slot]}
    assert {change.slot: (change.before, change.after) for change in home.diff(acting)} == expected
    assert {change.slot: (change.after, change.before) for change in acting.diff(home)} == expected
    old, new = ({rule.id: rule for rule in each.rules} for each in (home, acting))
    told = [str(home.plan.slots[slot]) for slot in sorted(expected)]
    told += [f"automation.{id}" for id in sorted(old | new) if old.get(id) != new.get(id)]
    assert name_state_changes(home, acting) == (*told, *(["clock"] if acting.clock > home.clock else []))


@few(15)
@given(HOMES, RANDOM)
def test_a_call_writes_only_what_its_service_says(home, rng):
    did, path, args, kwargs = some_call(home, rng)
    before = home.fork()
    try:
        home.call(did, path, args, kwargs)
    except Refused:
        assert not before.diff(home)
        return
    compiled, base = home.plan.compiled_services[did, path]
    written = {base + offset: attribute for offset, attribute, _ in compiled.writes}
    assert {change.slot for change in before.diff(home)} <= set(written)
    if path.rpartition(".")[2].startswith("set_") and len(written) == len(args) == 1:
        ((slot, attribute),) = written.items()
        assert home.values[slot] == attribute.check_value(args[0])


# Time


def cut(length: int, rng: random.Random) -> list[int]:
    """An interval in parts, some of them a second, some none."""
    cuts = sorted(rng.randrange(length + 1) for _ in range(rng.randrange(10)))
    cuts += [second + 1 for second in cuts if second < length and rng.random() < 0.3]
    return [end - start for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), length])]


@few(15)
@given(RULED, RANDOM)
def test_a_leap_leaves_what_its_parts_leave(home, rng):
    length, parts, fired = rng.choice((60, 3600, DAY)), home.fork(), []
    expected = home.advance(length)
    for seconds in cut(length, rng):
        fired += parts.advance(seconds)
        if rng.random() < 0.3:
            parts = home_from_json(home_to_json(parts))
    assert fired == expected and whole(parts) == whole(home) and parts.state_key() == home.state_key()
    assert len({(act.rule, act.clock) for act in fired}) == len(fired), "a rule acts once a second at most"
    assert [act.clock for act in fired] == sorted(act.clock for act in fired)


@few(15)
@given(RULED, RANDOM)
def test_the_leap_is_what_ticking_gives(home, rng):
    """The oracle: every second is an event of its own."""
    ticking, fired = home.fork(), []
    seconds = rng.randrange(1, 600)
    expected = home.advance(seconds)
    for _ in range(seconds):
        fired += ticking.advance(1)
    assert fired == expected and whole(ticking) == whole(home)


class Timetable:
    """What rules that act by the clock alone should do: an oracle that looks at every second."""

    def __init__(self) -> None:
        self.rules: dict[str, Any] = {}  # id -> (second, minute, hours) of each day, or the moment; in the order of making
        self.disabled: set[str] = set()

    def due(self, clock: int) -> list[str]:
        now = datetime.fromtimestamp(clock, UTC)
        daily = (now.second, now.minute, now.hour)
        found = [
            id for id, time in self.rules.items() if time == clock or (isinstance(time, tuple) and self._meets(time, daily))
        ]
        return [id for id in found if id not in self.disabled]

    @staticmethod
    def _meets(time: tuple, now: tuple) -> bool:
        return time[:2] == now[:2] and now[2] % time[2] == 0


@few(30)
@given(HOMES, RANDOM)
def test_rules_act_at_their_times_once_and_in_order_and_edited_and_removed_ones_as_they_are_then(home, rng):
    switches = [(d.did, p) for d in home.plan.devices for p, s in d.spec.service_index.items() if not s.service.arguments]
    assume(switches)
    orders = [{"did": did, "locator": path} for did, path in rng.sample(switches, min(3, len(switches)))]
    table, fired, expected = Timetable(), [], []
    for _ in range(12):
        change_timetable(home, table, orders, rng)
        for seconds in cut(rng.choice((1, 60, 1800)), rng):
            for clock in range(home.clock + 1, home.clock + seconds + 1):
                due = table.due(clock)
                expected += [(id, clock) for id in due]
                table.rules = {id: time for id, time in table.rules.items() if time != clock}
            fired += home.advance(seconds)
    assert [(act.rule, act.clock) for act in fired] == expected


def change_timetable(home: Home, table: Timetable, orders: list[dict], rng: random.Random) -> None:
    """Make, edit, switch off or on, or remove a rule, in the home and in the timetable."""
    id = rng.choice([*table.rules]) if table.rules else ""
    delay, daily = rng.randrange(1, 4000), (rng.randrange(60), rng.choice((0, 15, rng.randrange(60))), rng.choice((1, 1, 2)))
    cron = {"conditions": ["time_cron = {} {} */{} * * ? *".format(*daily)]}
    when, time = rng.choice(((cron, daily), ({"delay_seconds": delay}, home.clock + delay)))
    match rng.randrange(6) if id else 0:
        case 0 | 1:
            known = set(table.rules)
            do(home, ("tool", {"name": "create_automation", **when, "actions": orders}))
            (made,) = {each.id for each in home.rules} - known
            table.rules[made] = time
            table.disabled.discard(made)
        case 2:
            do(home, ("tool", {"name": "edit_automation", "id": id, **when}))
            table.rules[id] = time
        case 3:
            do(home, ("tool", {"name": "delete_automation", "id": id}))
            del table.rules[id]
        case 4:
            do(home, ("tool", {"name": "edit_automation", "id": id, "title": "other", "actions": orders[:1]}))
        case 5:
            on = id in table.disabled
            do(home, ("tool", {"name": "edit_automation", "id": id, "enabled": on}))
            (table.disabled.discard if on else table.disabled.add)(id)


# All of it at once


class Household(RuleBasedStateMachine):
    """A home in which anything may happen, in any order, beside a twin to which the same happens by other ways."""

    seeds = st.integers(0, 1 << 32)

    @initialize(home=HOMES)
    def move_in(self, home):
        self.home, self.twin, self.start = home, home.fork(), home.fork()
        self.before = whole(self.start)

    def both(self, deed: Deed) -> Any:
        before, key = whole(self.home), self.home.state_key()
        outcome = do(self.home, deed)
        assert do(self.twin, deed) == outcome
        if draws.refused(outcome):
            assert whole(self.home) == before and self.home.state_key() == key
        return outcome

    @rule(seed=seeds)
    def call(self, seed):
        self.both(("call", *some_call(self.home, random.Random(seed))))

    @rule(seed=seeds)
    def use_a_tool(self, seed):
        self.both(("tool", some_action(self.home, random.Random(seed))))

    @rule(seed=seeds)
    def make_rules(self, seed):
        for home in (self.home, self.twin):
            with_rules(home, random.Random(seed), 2)

    @rule(seconds=st.integers(0, 2 * DAY), seed=seeds)
    def wait(self, seconds, seed):
        fired: list[FiredRule] = []
        for part in cut(seconds, random.Random(seed)):
            fired += self.twin.advance(part)
        assert self.home.advance(seconds) == fired

    @rule(complete=st.booleans())
    def move_the_twin(self, complete):
        self.twin = home_from_json(json.loads(json.dumps(home_to_json(self.twin, complete))))

    @rule(seed=seeds)
    def try_it_on_a_fork(self, seed):
        fork = self.twin.fork()
        draws.lived(fork, random.Random(seed), 3)

    @precondition(lambda self: self.home.rules)
    @rule(seed=seeds)
    def remove_a_rule(self, seed):
        id = random.Random(seed).choice(self.home.rules).id
        self.both(("tool", {"name": "delete_automation", "id": id}))

    @invariant()
    def twins_are_alike(self):
        if hasattr(self, "home"):
            assert whole(self.twin) == whole(self.home) and self.twin.state_key() == self.home.state_key()
            assert not self.home.diff(self.twin) and whole(self.start) == self.before

    @invariant()
    def nothing_leaves_its_range(self):
        if hasattr(self, "home"):
            assert_in_bounds(self.home)


def test_a_household_keeps_every_promise():
    run_state_machine_as_test(Household, settings=settings(few(15), stateful_step_count=12))


@few(10, many=500)
@given(LIVED, RANDOM)
def test_every_home_is_a_world(home, rng):
    actions = [action for _ in range(5) if isinstance(action := some_action(home, rng), dict)]
    check_world(HomeEnv(home, toolset="smh"), [action for action in actions if repr_of(action) != "endless"])


def test_rules_of_one_second_act_in_the_order_of_the_home():
    home = home_at(0).fork()
    device, path = next(
        (d.did, p) for d in home.plan.devices for p, s in d.spec.service_index.items() if not s.service.arguments
    )
    for delay in (30, 20, 30, 10):
        made = make_rule(home, [], [{"did": device, "locator": path}], delay=delay)
        home.rules = (*home.rules, made)
    assert [(act.rule, act.clock - home.clock + 60) for act in home.advance(60)] == [
        ("4", 10),
        ("2", 20),
        ("1", 30),
        ("3", 30),
    ]
