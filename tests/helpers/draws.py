"""Generators of random homes and of random events in them, for property tests.

A deed is an event as plain data: a service call, a tool call, or the passage of time. `do` applies it to any home of the
same plan. All draws follow from seeds, so a test case is the same in every process.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from mutations import JUNK, mutated

from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.devices.air_physics import SHELLS, Outdoors, WeatherChange
from homerl.envs.homeenv.sim.devices.attributes_and_services import CompiledService
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, DeviceSpec, Entity
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import Limits
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.values.auditor import RULES, Refused

MANY = 2000  # cases of every property under `scripts/test --all`
DAY = 86400
Deed = tuple[Any, ...]


def few(cases: int, many: int = MANY) -> settings:
    """Hypothesis settings: `cases` examples by default, `many` with the profile `many`."""
    count = many if settings.get_current_profile_name() == "many" else cases
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


# Homes

OWN = """
- name: alarm_clock
  userdata: {category: clock, spid: "900001"}
  attributes:
    - {name: ringing, type: bool}
    - {name: volume, type: int, range: [0, 10]}
    - {name: peak, type: int, range: [0, 10]}
    - {name: colour, type: hex}
    - name: wake
      type: dict
      items: [{name: hour, type: int, range: [0, 23]}, {name: gentle, type: bool}]
    - {name: days, type: list, range: [0, 7], items: [{type: enum, options: [mon, tue, 3]}]}
  services:
    - name: raise_volume
      arguments: [{name: by, type: int, range: [-20, 20], required: false, default: 2}]
      code: |
        self.volume = self.volume + by
        self.peak = max(self.peak, self.volume)
    - name: set_wake
      arguments:
        - name: wake
          type: dict
          items: [{name: hour, type: int, range: [0, 23]}, {name: gentle, type: bool}]
      requires: not self.ringing
      code: self.wake = wake
    - name: set_days
      arguments: [{name: days, type: list, range: [0, 7], items: [{type: enum, options: [mon, tue, 3]}]}]
      code: self.days = days
    - name: ring
      code: self.ringing = True if self.volume > 0 else False
    - name: share
      arguments: [{name: among, type: int, range: [0, 5]}]
      code: self.volume = 10 // among
  components:
    - name: lamp
      attributes:
        - {name: state, type: str, options: ["on", "off"]}
        - {name: level, type: float, range: [-1, 1], precision: 0.1}
      services:
        - {name: turn_on, code: 'self.state = "on"'}
        - {name: turn_off, code: 'self.state = "off"'}
        - name: set_level
          arguments: [{name: level, type: float, range: [-1, 1], precision: 0.1}]
          code: self.level = level
"""
ODD = """
- name: odd_sensor
  userdata: {category: odd_sensor, spid: "900002", tags: [sensor]}
  attributes:
    - {name: temperature, type: int, range: [10, 25], read_only: true}
    - {name: humidity, type: float, range: [40, 45], precision: 0.5, read_only: true}
    - {name: illuminance, type: str, options: [dark, bright], read_only: true}
    - {name: mild_for, type: int, range: [0, 5000], counts: self.temperature > 18, read_only: true}
- name: forge
  userdata: {category: heater, spid: "900003"}
  attributes:
    - {name: state, type: str, options: ["on", "off"]}
    - {name: target_temperature, type: float, range: [-1000, 1000]}
  services:
    - {name: turn_on, code: 'self.state = "on"'}
    - {name: turn_off, code: 'self.state = "off"'}
    - name: set_target_temperature
      arguments: [{name: target_temperature, type: float, range: [-1000, 1000]}]
      code: self.target_temperature = target_temperature
"""
HALL = Room("hall", "hallway", "entrance hall")
PRODUCTS = tuple(Catalogue.load_shipped()[spid] for spid in sorted(Catalogue.load_shipped()))
SHOWN = 8  # products per showroom
SCALES = ("simple", "simple", "medium", "complex")


def home_of(specs: list[DeviceSpec], rooms: list[Room], clock: int, rng: random.Random) -> Home:
    """A home with devices in random states, in rooms with random air."""
    state = {
        owner: {path: kind.sample_value(rng) for path, kind in ROOM_STATE.items()}
        for owner in [OUTDOORS, *(r.id for r in rooms)]
    }
    devices = [Device(str(i), spec.name, rng.choice(rooms), spec) for i, spec in enumerate(specs, 1)]
    state |= {d.did: {path: a.sample_value(rng) for path, (_, a) in d.spec.attribute_index.items()} for d in devices}
    return Home.build_home(rooms, devices, state, clock)


def own_home(seed: int = 0) -> Home:
    """A home of shipped devices and of those in `OWN` and `ODD`, which together have values of every type."""
    shipped = (Catalogue.load_shipped()[spid] for spid in ("100001", "100101", "102101"))
    specs = [*Entity.load(OWN), *shipped, *Entity.load(ODD)]
    rooms = [HALL, Room("closet", "closet", "walk-in closet", parent="hall")]
    return home_of(specs, rooms, 1_750_000_000, random.Random(seed))


def showroom(number: int) -> Home:
    """A home with `SHOWN` successive products of the catalogue. Enough successive showrooms have all of them."""
    rng, first = random.Random(number), number * SHOWN
    specs = [PRODUCTS[at % len(PRODUCTS)] for at in range(first, first + SHOWN)]
    kinds = rng.sample(sorted(SHELLS), 3)
    rooms = [Room(kind, kind, kind, at, kinds[at - 1] if at else None) for at, kind in enumerate(kinds)]
    return home_of(specs, rooms, rng.randrange(1_700_000_000, 1_800_000_000), rng)


@lru_cache(maxsize=256)
def furnished(scale: str, seed: int) -> Home:
    """The home of a scale and a seed, cached: fork it before changing it."""
    return make_home(seed, HomeRecipe(scale=scale))


@lru_cache(maxsize=256)
def home_at(seed: int) -> Home:
    """The home of a seed with a random forecast: a showroom, a home of own devices, or one of any scale."""
    rng = random.Random(seed)
    kind = rng.randrange(5)
    if kind < 2:
        home = showroom(rng.randrange(-(-len(PRODUCTS) // SHOWN)))
    elif kind == 2:
        home = own_home(rng.randrange(20))
    else:
        home = furnished(rng.choice(SCALES), rng.randrange(30))
    return Home(replace(home.plan, forecast=weather(home.clock, rng)), home.values, home.clock)


def weather(clock: int, rng: random.Random, hours: int = 30) -> tuple[WeatherChange, ...]:
    """A random forecast, hourly from the first full hour after `clock`."""
    first = (clock // 3600 + 1) * 3600
    skies = [[round(rng.uniform(*span), 1) for span in ((-5, 35), (20, 95), (0, 60000))] for _ in range(hours)]
    return tuple(WeatherChange(first + 3600 * hour, Outdoors(*sky)) for hour, sky in enumerate(skies))


# Enough homes for every product and scale, but few enough that each is made once per process.
HOMES = st.integers(0, 199).map(lambda seed: home_at(seed).fork())
RANDOM = st.integers(0, 1 << 32).map(random.Random)


def lived(home: Home, rng: random.Random, deeds: int) -> Home:
    """The same home after some random deeds: it has rules and changing air, and its rules may not have reacted yet."""
    for _ in range(deeds):
        do(home, some_deed(home, rng))
    return home


LIVED = st.builds(lambda home, rng: lived(home, rng, rng.randrange(8)), HOMES, RANDOM)


def with_rules(home: Home, rng: random.Random, count: int) -> Home:
    """The same home with more rules. Some react to what others do, and some are disabled."""
    for _ in range(count):
        do(
            home,
            ("tool", {"name": "create_automation", **(undoing(home, rng) if rng.random() < 0.3 else some_rule(home, rng))}),
        )
        if rng.random() < 0.2:
            do(home, ("tool", {"name": "edit_automation", "id": rng.choice(home.rules).id, "enabled": False}))
    return home


RULED = st.builds(lambda home, rng: with_rules(home, rng, rng.randrange(1, 6)), LIVED, RANDOM)


# Deeds


def some_deed(home: Home, rng: random.Random, longest: int = 20_000) -> Deed:
    """A random deed for this home, valid or not. `longest` is the most seconds to wait."""
    share = rng.random()
    if share < 0.45:
        return ("call", *some_call(home, rng))
    if share < 0.7:
        return "wait", rng.choice((0, 1, 59, 60, rng.randrange(3600), rng.randrange(longest)))
    return "tool", some_action(home, rng)


def some_call(home: Home, rng: random.Random) -> tuple[Any, str, list, dict]:
    """The (did, path, args, kwargs) of a service call, each of which may be invalid."""
    device = rng.choice(home.plan.devices)
    path = rng.choice([*device.spec.service_index] if device.spec.service_index and rng.random() < 0.95 else ["explode"])
    args = some_arguments(device.spec.service_index[path], rng) if path != "explode" else []
    args += [1] if rng.random() < 0.05 else []
    did = device.did if rng.random() < 0.95 else rng.choice(("0", None, 5, [], "outdoors"))
    return did, path, args, {"bogus": 1} if rng.random() < 0.05 else {}


def some_arguments(compiled: CompiledService, rng: random.Random, wrong: float = 0.25) -> list[Any]:
    """Random arguments of a service. Each is junk with probability `wrong`."""
    return [rng.choice(JUNK) if rng.random() < wrong else a.sample_value(rng) for a in compiled.service.arguments]


def some_rule(home: Home, rng: random.Random) -> dict[str, Any]:
    """The arguments of a valid `create_automation`: a rule of any kind that fits the home."""
    room = rng.choice(home.plan.rooms).id
    readings = [slot for slot in home.plan.slots if slot.owner in home.plan.devices_by_did]
    read = rng.choice(readings or home.plan.slots[:3])
    reading, now = (
        f'device("{read.owner}").{read.path}' if readings else f"home.{read.path}",
        home.read_value(read.owner, read.path),
    )
    conditions, more = rng.choice(
        (
            ([f'room("{room}").temperature > {rng.randint(10, 30)}'], {}),
            ([f'room("{room}").humidity < {rng.randint(30, 70)}.5'], {"hold_seconds": rng.randrange(0, 4000)}),
            ([f'room("{room}").temperature - home.temperature > {rng.randint(-5, 5)}'], {}),
            ([f'{rng.randint(15, 20)} <= room("{room}").temperature < {rng.randint(20, 25)}'], {}),
            ([f'room("{room}").brightness > {rng.choice((1, 50, 150, 400))}'], {"hold_seconds": rng.choice((0, 0, 600))}),
            ([f"home.brightness > {rng.randrange(0, 60000, 5000)}"], {"hold_seconds": rng.choice((0, 900))}),
            ([f"{reading} != {now!r}"], {"hold_seconds": rng.choice((0, 0, 1, 300))}),
            ([f"{reading} == {now!r}", "home.temperature > 0"], {}),
            ([f"time_cron = 0 {rng.randrange(60)} */{rng.randint(1, 6)} * * ? *"], {}),
            ([f"time_cron = {rng.randrange(60)} 30 * * * ? *", f'room("{room}").temperature > 20'], {}),
            ([f"time_cron = */{rng.randint(1, 30)} * * * *"], {}),
            ([], {"delay_seconds": rng.randrange(1, DAY)}),
            ([], {"delay_seconds": rng.choice((1, 5.0, 60))}),
            ([f'room("{room}").temperature > 20'], {"delay_seconds": rng.randrange(1, 7200)}),
        )
    )
    actions = [some_order(home, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    return {"conditions": conditions, "actions": actions, "title": rng.choice(("", "night", "é")), **more}


def undoing(home: Home, rng: random.Random) -> dict[str, Any]:
    """The arguments of a rule that switches a device off once it is on, or similar. Two such rules can undo each other."""
    switches = [d.did for d in home.plan.devices if {"turn_on", "turn_off"} <= d.spec.service_index.keys()]
    switches = [did for did in switches if "state" in home.plan.devices_by_did[did].spec.attribute_index]
    if not switches:
        return some_rule(home, rng)
    did, state, way = rng.choice(switches), rng.choice(("on", "off")), rng.choice(("turn_on", "turn_off"))
    hold = {"hold_seconds": rng.choice((0, 0, 0, 1, 30))}
    return {"conditions": [f'device("{did}").state == "{state}"'], "actions": [{"did": did, "locator": way}], **hold}


def some_order(home: Home, rng: random.Random) -> dict[str, Any]:
    """One action of a rule, valid except that its precondition may not hold."""
    device = rng.choice([d for d in home.plan.devices if d.spec.service_index] or home.plan.devices)
    path = rng.choice([*device.spec.service_index] or ["none"])
    declared = device.spec.service_index[path].service.arguments if device.spec.service_index else ()
    arguments = {a.name: a.sample_value(rng) for a in declared if a.required or rng.random() < 0.5}
    return json.loads(json.dumps({"did": device.did, "locator": path, "arguments": arguments}))


def some_action(home: Home, rng: random.Random) -> dict[str, Any]:
    """A call of one of the tools of SMH-Bench, valid or not."""
    known = rng.choice([rule.id for rule in home.rules] or ["none"])
    room, device = rng.choice(home.plan.rooms).id, rng.choice(home.plan.devices).did
    rule = some_rule(home, rng)
    edit = {key: value for key, value in rule.items() if rng.random() < 0.4} | {"id": known}
    edit |= rng.choice(({}, {"enabled": True}, {"enabled": False}, {"hold_seconds": rng.randrange(100)}))
    action = rng.choice(
        (
            {"name": "create_automation", **rule},
            {"name": "create_automation", **undoing(home, rng)},
            {"name": "edit_automation", **edit} if home.rules else {"name": "create_automation", **rule},
            {"name": "delete_automation", "id": known},
            {"name": "list_automations"},
            {"name": "control_device", **some_order(home, rng)},
            {"name": "query_device", "what": rng.choice(("candidates", "spec", "status")), "room": room},
            {"name": "query_device", "what": "status", "did": device},
        )
    )
    return mutated(action, rng) if rng.random() < 0.25 else action


TOOLS = {tool.name: tool for tool in TOOLSETS["smh"].tools}


def do(home: Home, deed: Deed) -> Any:
    """Apply a deed. Returns its outcome, to be compared with that of another home; a refusal is ("refused", text)."""
    match deed:
        case "call", did, path, args, kwargs:
            try:
                home.call(did, path, args, kwargs)
            except Refused as refused:
                assert refused.rule in RULES
                return "refused", str(refused)
            return home.settle_rules()
        case "wait", seconds:
            return home.advance(seconds)
        case "tool", action:
            return act(home, action)
    raise AssertionError(deed)


def act(home: Home, action: Any) -> Any:
    """Run a tool call as the environment does: first the tool, then the rules that react. Returns the outcome."""
    name = action.get("name") if isinstance(action, Mapping) else None
    if not isinstance(name, str) or name not in TOOLS:
        return "refused", "unknown_tool"
    result = TOOLS[name].run(home, {key: value for key, value in action.items() if key != "name"}, Limits())
    if result.refusal is not None:
        assert result.refusal.rule in RULES
        return "refused", str(result.refusal)
    return result.output, home.settle_rules()


def refused(outcome: Any) -> bool:
    """Whether the outcome of a deed is a refusal."""
    return isinstance(outcome, tuple) and outcome[0] == "refused"


# Properties of a home


def whole(home: Home) -> tuple:
    """Everything besides the plan that determines the future of a home. The state key must cover it."""
    return tuple(map(repr, home.values)), home.clock, repr(home.rules), repr(home.air and [air[:4] for air in home.air])


def assert_in_bounds(home: Home) -> None:
    """Assert that every value of a home is canonical and within the range and options of its type."""
    for slot, value in zip(home.plan.slots, home.values, strict=True):
        assert repr(slot.type.check_value(value)) == repr(value), f"{slot} holds {value!r}"
        if slot.type.range is not None:
            low, high = slot.type.range
            assert low <= (value if isinstance(value, (int, float)) else len(value)) <= high, f"{slot} holds {value!r}"
        assert slot.type.options is None or value in slot.type.options


def journeys(seeds: range, deeds: int = 6) -> Iterator[str]:
    """State keys of many homes after random deeds. They must be the same in every process."""
    for seed in seeds:
        home, rng = home_at(seed % 200).fork(), random.Random(seed)
        yield lived(home, rng, deeds).state_key()
