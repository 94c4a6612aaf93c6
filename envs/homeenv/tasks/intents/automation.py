"""Automated tasks, TC4: what should happen later, or when something happens (SMH-Bench).

Nothing may change at once, so `devices` is empty: an agent that acts at once causes a side effect. The trigger of a
rule does not hold at the start. It is the air of a room or outdoors, or a device that no action touches.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from homerl.envs.homeenv.language.meaning import Act, Operator
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.language.times_and_states import (
    WEEKEND,
    WORKDAYS,
    AfterDelay,
    Aspect,
    Circumstance,
    ClockTime,
    MeasuredCondition,
    OnceAt,
    RecurringAt,
    StateCondition,
    Time,
    clear_speaker,
    duration_in_words,
)
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE
from homerl.envs.homeenv.tasks.actions import DeviceAction, actions
from homerl.envs.homeenv.tasks.blueprint import Automation, Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose

DEVICES = (0.55, 0.3, 0.15)  # probabilities of acting on one, two and three devices
BOTH = 0.2  # probability that two conditions must hold together
HELD = 0.2  # probability that a measured condition must have lasted
ONE_DAY = 0.25  # probability that a time with a condition occurs only once
SOONEST = timedelta(minutes=10)
MINUTES = (0, 0, 0, 0, 30, 30, 15, 45, 5, 10, 20, 25, 35, 40, 50, 55)
DELAYS = tuple(60 * m for m in (15, 20, 25, 30, 40, 45, 50, 60, 75, 90, 100, 120, 150, 180, 240, 300, 360, 480, 600))
LASTS = tuple(60 * m for m in (2, 3, 5, 10, 15, 20, 25, 30, 40, 45, 60, 90, 120))
DAYS = "MON TUE WED THU FRI SAT SUN".split()

# Attributes of devices with values whose beginning may be a trigger (BEGINS), or whose duration (LASTING).
BEGINS: frozenset[tuple[str, Any]] = frozenset({
    ("motion", True), ("human_detected", "yes"), ("human_detected", "no"), ("contact", "open"), ("contact", "closed"),
    ("smoke", True), ("leak", True), ("gas", True), ("pressed", True), ("rain_detected", True), ("door_open", True),
    ("window_open", True), ("tank_empty", True), ("tank_full", True), ("bin_full", True), ("food_empty", True),
    ("running", True), ("running", False), ("recording", True), ("playing", True), ("playing", False), ("ringing", True),
    ("watering", True), ("watering", False), ("state", "on"), ("state", "off"), ("state", "locked"), ("state", "unlocked"),
    ("state", "cleaning"), ("state", "docked"), ("state", "armed"), ("state", "disarmed"), ("state", "triggered"),
})  # fmt: skip
LASTING: frozenset[tuple[str, Any]] = frozenset({
    ("motion", False), ("human_detected", "no"), ("contact", "open"), ("door_open", True), ("window_open", True),
    ("state", "on"), ("state", "unlocked"), ("tank_full", True),
})  # fmt: skip
COUNTED = {("human_detected", "no"): "no_move_duration"}  # the counter of how long it has lasted, if the device has one
PRESENCE = ("motion", "human_detected")
# Numbers that people name: for rooms and outdoors by quantity; for devices by attribute, with the direction that matters.
AIR = {"temperature": range(-5, 36), "humidity": range(20, 91, 5), "brightness": (10, 20, 50, 100, 150, 200, 300, 500, 800)}
NEAR = {"temperature": 7, "humidity": 25, "brightness": math.inf}  # largest distance from the current value
READINGS: dict[str, tuple[Operator, tuple[int, ...]]] = {
    "pm25": (">", (35, 50, 75, 100, 150)),
    "carbon_dioxide": (">", (800, 1000, 1200, 1500, 2000)),
    "carbon_monoxide": (">", (10, 20, 30, 50)),
    "battery": ("<", (10, 15, 20, 25, 30)),
    "battery_level": ("<", (10, 15, 20, 25, 30)),
    "soil_moisture": ("<", (20, 30, 40)),
    "power": (">", (100, 500, 1000, 2000)),
    "filter_life": ("<", (5, 10, 20)),
    "current_water_temperature": (">=", (40, 45, 50, 55, 60)),
}


@dataclass(frozen=True)
class AutomationTrigger:
    """Something that a rule may wait for: its condition, its meaning, and how long it must hold.

    `owner` is the id of the device, the room or the outdoors. `hold` is in seconds, as the rule has it. `lasts` is in
    seconds, as people say it: the hold, or the number that a counter is compared with.
    """

    condition: str
    meaning: Circumstance
    owner: str
    hold: int = 0
    lasts: int = 0  # seconds, as people say it

    def words(self, speaker: Speaker, aspect: Aspect) -> str:
        """The trigger as a clause."""
        if self.lasts:
            return self.meaning.words(speaker, "has_been", duration_in_words(self.lasts, speaker))
        return self.meaning.words(speaker, aspect)


@dataclass(frozen=True)
class AutomationMeaning:
    """Acts at a time, when something happens, or at a time if a condition holds then."""

    acts: tuple[Act, ...]
    time: Time | None = None
    triggers: tuple[AutomationTrigger, ...] = ()

    def words(self, speaker: Speaker) -> str:
        """The request as a sentence."""
        clear = clear_speaker(speaker)
        slots = {"what": clear.join_requests([clear.act(act) for act in self.acts])}
        many = ".many" if len(self.acts) > 1 else ""
        if self.time is not None:
            slots["when"] = self.time.words(speaker)
            many = ".many" if slots["what"][-1].isdigit() and slots["when"][0].isdigit() else many  # "to 65 50 minutes"
        if self.triggers:
            aspect: Aspect = "begins" if self.time is None and len(self.triggers) == 1 else "is"
            first, *rest = [trigger.words(speaker, aspect) for trigger in self.triggers]
            slots["event"] = speaker.say("automation.both", first=first, second=rest[0]) if rest else first
        if self.time is not None and self.triggers:
            return speaker.say(f"automation.time_and_state{many}", **slots)
        kind = "state" if self.triggers else "recurring" if isinstance(self.time, RecurringAt) else "once"
        return speaker.say(f"automation.{kind}{many}", **slots)


# Subcategories


def propose_time_specific(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A request for one future moment, or for recurring times."""
    time: Time
    if rng.random() < 0.5:
        time = _draw_recurring_time(rng)
    else:
        time = _draw_single_time(home, rng) if rng.random() < 0.6 else AfterDelay(rng.choice(DELAYS))
    return _draft_automation("time_specific", home, rng, ask, time, ())


def propose_state_driven(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A request for when something begins or has lasted, or for when two things hold together."""
    first = next(_draw_triggers(home, rng, ask, lasting=True), None)
    if first is None:
        return None
    both = rng.random() < BOTH and not first.lasts
    second = next((other for other in _draw_triggers(home, rng, ask) if _are_apart(other, first)), None) if both else None
    return _draft_automation("state_driven", home, rng, ask, None, (first, second) if second else (first,))


def propose_time_and_state(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A request for a time, under a condition at that time."""
    trigger = next(_draw_triggers(home, rng, ask, now=True), None)
    time = _draw_single_time(home, rng) if rng.random() < ONE_DAY else _draw_recurring_time(rng)
    return _draft_automation("time_and_state", home, rng, ask, time, (trigger,)) if trigger else None


def _draft_automation(
    subcategory: str, home: Home, rng: random.Random, ask: Ask, time: Time | None, triggers: tuple[AutomationTrigger, ...]
) -> Draft | None:
    """A draft that acts on one to three devices at this time or trigger."""
    taken = ask.taken | {trigger.owner for trigger in triggers}
    wanted = rng.choices((1, 2, 3), DEVICES)[0]  # devices; fewer if the home offers no more
    by_device: dict[str, DeviceAction] = {}
    for action in actions(home, rng):
        sensor = "sensor" in action.device.spec.userdata.tags
        if action.device.did not in taken and not sensor and _do_all_calls_count(home, action):
            by_device.setdefault(action.device.did, action)
        if len(by_device) == wanted:
            break
    if not (chosen := list(by_device.values())):
        return None
    crons = [f"time_cron = {cron_line(time)}"] if isinstance(time, (OnceAt, RecurringAt)) else []
    return Draft(
        subcategory,
        AutomationMeaning(tuple(action.act() for action in chosen), time, triggers),
        Factors(scope="single_device" if len(chosen) == 1 else "multi_device"),
        automation=Automation(
            conditions=(*crons, *(trigger.condition for trigger in triggers)),
            delay_seconds=time.seconds if isinstance(time, AfterDelay) else None,
            hold_seconds=sum(trigger.hold for trigger in triggers),
            actions=tuple(call for action in chosen for call in action.plan),
            effects=tuple(action.condition for action in chosen),
        ),
    )


def _do_all_calls_count(home: Home, action: DeviceAction) -> bool:
    """Whether each call of the plan changes something.

    Otherwise a rule could leave out the call that turns on a device that happens to be on now.
    """
    after = home.fork()
    for call in action.plan:
        before = after.values.copy()
        after.call(call.did, call.service, call.args)
        if after.values == before:
            return False
    return True


# Times


def cron_line(time: OnceAt | RecurringAt) -> str:
    """The cron line of a time as SMH-Bench writes it: seconds first, year last."""
    at = f"0 {time.clock.minute} {time.clock.hour}"
    if isinstance(time, OnceAt):
        return f"{at} {time.day.day} {time.day.month} ? {time.day.year}"
    if time.monthday is not None:
        return f"{at} {time.monthday} * ? *"
    days = {(): "*", WORKDAYS: "MON-FRI"}.get(time.weekdays) or ",".join(DAYS[day] for day in time.weekdays)
    return f"{at} ? * {days} *"


def _draw_single_time(home: Home, rng: random.Random) -> OnceAt:
    """A time today, tomorrow, within the week, or on a date.

    Before dawn, people disagree about what "tomorrow" means, so the next days are left out then.
    """
    now = datetime.fromtimestamp(home.clock, UTC).replace(tzinfo=None)
    near = [0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6] if now.hour >= 5 else [0]
    while True:
        ahead = rng.choice([*near, rng.randint(7, 90)])
        clock = ClockTime(rng.randint(6, 23), rng.choice(MINUTES))
        day = now.date() + timedelta(days=ahead)
        if datetime(day.year, day.month, day.day, clock.hour, clock.minute) >= now + SOONEST:
            return OnceAt(day, clock, now)


def _draw_recurring_time(rng: random.Random) -> RecurringAt:
    if rng.random() < 0.02:
        return RecurringAt(ClockTime(0))  # midnight itself; for later times of the hour, people disagree about the day
    clock = ClockTime(rng.randint(1, 4) if rng.random() < 0.05 else rng.randint(5, 23), rng.choice(MINUTES))
    named = tuple(sorted(rng.sample(range(7), rng.choice((1, 1, 1, 2, 2, 3)))))
    weekdays: tuple[int, ...] = rng.choices(((), WORKDAYS, WEEKEND, named), (4, 2, 2, 3))[0]
    if rng.random() < 0.12:
        return RecurringAt(clock, monthday=rng.choice((1, 1, 1, rng.randint(2, 28))))
    return RecurringAt(clock, weekdays)


# Circumstances


def _draw_triggers(
    home: Home, rng: random.Random, ask: Ask, lasting: bool = False, now: bool = False
) -> Iterator[AutomationTrigger]:
    """What a rule of this home may wait for, in random order.

    With `lasting`, a trigger may also have to last. With `now`, a trigger may already hold. Devices that other intents
    may change are left out, because the change could trigger the rule.
    """
    weights = {_room_triggers: 3, _outdoor_triggers: 1, _value_triggers: 4, _reading_triggers: 1}
    weights |= {_duration_triggers: 3} if lasting else {}
    while weights:
        source = rng.choices(list(weights), list(weights.values()))[0]
        del weights[source]
        for trigger in _mix_kinds(source(home, rng), rng):
            if trigger.owner in ask.taken or (not now and compile_condition(trigger.condition, home.plan).holds_in(home)):
                continue
            if lasting and isinstance(trigger.meaning, MeasuredCondition) and isinstance(trigger.meaning.where, Room):
                hold = rng.choice(LASTS[2:8]) if rng.random() < HELD else 0
                trigger = AutomationTrigger(trigger.condition, trigger.meaning, trigger.owner, hold, hold)
            yield trigger


def _mix_kinds(triggers: Iterable[AutomationTrigger], rng: random.Random) -> list[AutomationTrigger]:
    """One trigger of each kind in random order, then the others.

    Otherwise most triggers would be of the few kinds that most devices have.
    """
    kinds: dict[Any, list[AutomationTrigger]] = {}
    for trigger in triggers:
        said = trigger.meaning
        kinds.setdefault((said.path, said.value) if isinstance(said, StateCondition) else said.quantity, []).append(trigger)
    for kind in kinds.values():
        rng.shuffle(kind)
    order = list(kinds.values())
    rng.shuffle(order)
    return [kind[0] for kind in order] + [trigger for kind in order for trigger in kind[1:]]


def _are_apart(one: AutomationTrigger, other: AutomationTrigger) -> bool:
    """Whether two triggers concern different things, so that neither implies the other."""
    places = [said.where if isinstance(said, MeasuredCondition) else said.device for said in (one.meaning, other.meaning)]
    first, second = (place.room if isinstance(place, Device) else place for place in places)
    return (one.owner != other.owner and first != second) or type(one.meaning) is not type(other.meaning)


def _room_triggers(home: Home, rng: random.Random) -> Iterator[AutomationTrigger]:
    names = Counter(room.name for room in home.plan.rooms)
    for room in home.plan.rooms:
        if names[room.name] == 1:
            yield from _air_triggers(home, rng, room.id, room)


def _outdoor_triggers(home: Home, rng: random.Random) -> Iterator[AutomationTrigger]:
    return _air_triggers(home, rng, OUTDOORS, None)


def _air_triggers(home: Home, rng: random.Random, owner: str, where: Room | None) -> Iterator[AutomationTrigger]:
    """Triggers that a quantity passes a number near its current value."""
    name = "home" if where is None else f'room("{owner}")'
    for quantity in ROOM_STATE:
        is_now = home.read_value(owner, quantity)
        if near := [n for n in AIR[quantity] if 0.5 < abs(n - is_now) <= NEAR[quantity]]:
            value = rng.choice(near)
            operator: Operator = rng.choice((">", ">", ">=") if value > is_now else ("<", "<", "<="))
            meaning = MeasuredCondition(quantity, operator, value, where)
            yield AutomationTrigger(f"{name}.{quantity} {operator} {value}", meaning, owner)


def _value_triggers(home: Home, rng: random.Random) -> Iterator[AutomationTrigger]:
    """Triggers that an attribute takes a value."""
    for device, path, value, word in _attributes_with_values(home, BEGINS):
        condition = f'device("{device.did}").{path} == {code_literal(value)}'
        meaning = StateCondition(device, path, word, _is_only_source(home, device, path))
        yield AutomationTrigger(condition, meaning, device.did)


def _duration_triggers(home: Home, rng: random.Random) -> Iterator[AutomationTrigger]:
    """Triggers that an attribute keeps a value for some time, which has not begun."""
    for device, path, value, word in _attributes_with_values(home, LASTING):
        if home.read_value(device.did, path) == value:
            continue
        prefix, dot, attribute = path.rpartition(".")
        lasts, meaning = rng.choice(LASTS), StateCondition(device, path, word, _is_only_source(home, device, path))
        counter = f"{prefix}{dot}{COUNTED.get((attribute, value))}"
        condition, hold = f'device("{device.did}").{path} == {code_literal(value)}', lasts
        if counter in device.spec.attribute_index:
            condition, hold = f'device("{device.did}").{counter} > {lasts}', 0
        yield AutomationTrigger(condition, meaning, device.did, hold, lasts)


def _reading_triggers(home: Home, rng: random.Random) -> Iterator[AutomationTrigger]:
    """Triggers that a reading, which is not null, passes a number."""
    for device in home.plan.devices:
        for path in device.spec.readable_attributes:
            part, _, attribute = path.rpartition(".")
            if attribute in READINGS and home.read_value(device.did, path) is not None:
                operator, numbers = READINGS[attribute]
                value = rng.choice(numbers)
                meaning = MeasuredCondition(attribute, operator, value, device, part)
                yield AutomationTrigger(f'device("{device.did}").{path} {operator} {value}', meaning, device.did)


def _attributes_with_values(home: Home, wanted: frozenset[tuple[str, Any]]) -> Iterator[tuple[Device, str, Any, Any]]:
    """Devices with an attribute that can have one of these values, in the order of the home; and what people call it."""
    for device in home.plan.devices:
        for path, attribute in device.spec.readable_attributes.items():
            name = path.rpartition(".")[2]
            words = attribute.state_words if name == STATE else {}
            options = (False, True) if attribute.type == "bool" else attribute.options or words.values()
            for value in options:
                word = attribute.word_of_value(value) if words else value
                if (name, word) in wanted:
                    yield device, path, value, word


def _is_only_source(home: Home, device: Device, path: str) -> bool:
    """Whether no other device shows the same about its room, and no other room has the same name."""
    attributes = PRESENCE if path in PRESENCE else (path,)
    rooms = [room for room in home.plan.rooms if room.name == device.room.name]
    sayers = [d for d in home.find_devices(room=device.room.id) if any(a in d.spec.attribute_index for a in attributes)]
    return len(rooms) == 1 and sayers == [device]


SUBCATEGORIES: dict[str, Propose] = {
    "time_specific": propose_time_specific,
    "state_driven": propose_state_driven,
    "time_and_state": propose_time_and_state,
}
