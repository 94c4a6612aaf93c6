"""An episode of SimuHome as one HTML file: rooms, devices, workflows and calls on one axis of virtual time.

The trajectory is replayed in order to draw it. Time then goes on until all goals and workflows are over. Beside each
curve of a room variable stands the curve of a home in which nobody acted.

Invariants:
- The page is one file without scripts; every text of the episode is escaped; equal episodes give equal bytes.
- The words for rooms, devices, attributes and values are those in which people ask for things (the English file of
  `language/`, each the most usual one), with units as a page writes them: hundredths of a percent are percent. A name that
  the file lacks is split into its words.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.episode_file import VARIABLES
from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome
from homerl.envs.simuhome.tasks.expert import actions_in_messages
from homerl.envs.simuhome.tasks.sentences import HUNDREDTHS, PERCENT, SimuHomeSpeaker, plain_number
from homerl.envs.simuhome.tasks.situation import exact_goal_texts, goal_texts, simuhome_situation
from homerl.host.html_pages import load_template
from homerl.play.replay import begin_replay, replay_steps, reply_of_step
from homerl.play.trajectory import Trajectory, show_dialogue
from homerl.play.words.grammar import Voice
from homerl.worlds.registry import restore_situation


def device_activity(home: MatterHome, device: MatterDevice) -> tuple[str, str, float | None]:
    """(what a device is doing in a few words, its colour class, an amount from 0 to 100 or None)."""
    has = device.type.endpoint_of

    def read(cluster: str, attribute: str) -> Any:
        return home.cluster_view(device.id, cluster)[attribute]

    if "OperationalState" in has:
        state, phases, phase = (read("OperationalState", name) for name in ("OperationalState", "PhaseList", "CurrentPhase"))
        named = phases[phase] if isinstance(phases, list) and isinstance(phase, int) and phase < len(phases) else ""
        if state in (1, 2):
            return (f"running: {named}" if state == 1 else "paused"), ("runs" if state == 1 else "waits"), None
        return ("on, stopped", "idle", None) if read("OnOff", "OnOff") is True else ("off", "off", None)
    if "RVCOperationalState" in has:
        return (*VACUUM_STATES.get(read("RVCOperationalState", "OperationalState"), ("?", "idle")), None)
    if "OnOff" in has and read("OnOff", "OnOff") is not True:
        return "off", "off", None
    if "FanControl" in has:
        percent = read("FanControl", "PercentCurrent")
        mode = f", {THERMOSTAT_MODES.get(read('Thermostat', 'SystemMode'), '?')}" if "Thermostat" in has else ""
        return f"on, fan {percent} %{mode}", "runs", percent if isinstance(percent, (int, float)) else None
    if "MediaPlayback" in has:
        return f"on, {PLAYBACK_STATES.get(read('MediaPlayback', 'CurrentState'), '?')}", "runs", None
    if "LevelControl" in has:
        level = read("LevelControl", "CurrentLevel")
        return f"on, level {level}", "lit", 100 * level / 254 if isinstance(level, (int, float)) else None
    if "WindowCovering" in has:
        closed = read("WindowCovering", "CurrentPositionLiftPercent100ths")
        return f"{closed / 100:g} % closed", "idle", closed / 100
    if "TemperatureControl" in has:
        return f"set to {read('TemperatureControl', 'TemperatureSetpoint') / 100:g} °C", "idle", None
    if "Thermostat" in has:
        mode = read("Thermostat", "SystemMode")
        return THERMOSTAT_MODES.get(mode, "?"), ("runs" if mode else "off"), None
    return ("on", "lit", None) if "OnOff" in has else ("", "idle", None)


THERMOSTAT_MODES = {0: "off", 1: "auto", 3: "cooling", 4: "heating"}
PLAYBACK_STATES = {0: "playing", 1: "paused", 2: "not playing", 3: "buffering"}
VACUUM_STATES = {
    0: ("stopped", "off"),
    1: ("cleaning", "runs"),
    2: ("paused", "waits"),
    3: ("error", "waits"),
    64: ("going home", "runs"),
    65: ("charging", "idle"),
    66: ("docked", "idle"),
}


AFTER = {  # what is said after a value, by the attribute's path
    "WindowCovering.TargetPositionLiftPercent100ths": " closed",
    "WindowCovering.CurrentPositionLiftPercent100ths": " closed",
    "LevelControl.CurrentLevel": " of 254",
}
WORDS = SimuHomeSpeaker(Voice("en", temperature=0.0), "clear", random.Random(0))  # at 0 nothing is drawn


def room_name(room: str) -> str:
    """A room, such as `kids room`."""
    return WORDS.say_room(room)


def device_names(devices: Iterable[MatterDevice]) -> dict[str, str]:
    """The name of each device of a home by id: its kind, and its number if its room has several of the kind."""
    devices = list(devices)
    totals = Counter((device.room, device.type.name) for device in devices)
    seen: Counter[tuple[str, str]] = Counter()
    names = {}
    for device in devices:
        group = device.room, device.type.name
        seen[group] += 1
        number = device.id.rpartition("_")[2] if device.id[-1].isdigit() else seen[group]
        names[device.id] = WORDS.say_kind(device.type.name) + (f" {number}" if totals[group] > 1 else "")
    return names


def setting_text(flat: str, value: Any) -> str:
    """An attribute and its value: `target position 35 % closed`, `set temperature -22 °C`, `on`."""
    path = flat.partition(".")[2]
    words = WORDS.say_value(flat, value)
    if path == "OnOff.OnOff":
        return words
    if (path in PERCENT or path in HUNDREDTHS) and isinstance(value, (int, float)):
        unit = " °C" if HUNDREDTHS.get(path) == "degrees" else " %"
        words = plain_number(value / 100 if path in HUNDREDTHS else value) + unit
    return f"{WORDS.say_attribute(flat)} {words}{AFTER.get(path, '')}"


def plain_goal_texts(task: Mapping[str, Any], devices: Mapping[str, MatterDevice]) -> Iterator[str]:
    """Φ in people's words: a text for each goal, each required action and the finish, in the order of the situation's."""
    names = device_names(devices.values())

    def place(named: Mapping[str, Any]) -> str:
        """The device that a goal or a target names, which the home may lack; else the room."""
        kind = names.get(named["device_id"]) or WORDS.say_kind(named["device_type"]) if named.get("device_id") else ""
        return f"{room_name(named['room_id'])} {kind}".rstrip()

    def say_goal(goal: Mapping[str, Any], targets: Sequence[Mapping[str, Any]]) -> str:
        parts = []
        for target in targets:
            settings = ", ".join(setting_text(one["attribute"], one["value"]) for one in target["asserts"])
            parts.append(f"{place(target)}: {settings}")
        if not targets:  # something to tell, or the way in which a room changes
            air = goal.get("room_state", "").replace("pm", "PM")
            what = WORDS.say_attribute(goal["attribute"]) if goal.get("attribute") else air
            way = {"increase": "goes up", "decrease": "goes down", "": "is told"}
            parts.append(f"{place(goal)}: {what} {way.get(goal.get('direction') or '', goal.get('direction'))}")
        return "; ".join(parts)

    def say_minutes(minutes: float) -> str:
        return f"{minutes:.1f}".removesuffix(".0")

    return goal_texts(task, say_goal, lambda value: room_name(str(value)), say_minutes)


MINUTE = 600  # ticks of 0.1 s
POINTS = 360  # evenly spaced points of a curve
# The least and the most time that is drawn, and the time that is drawn after the last event.
MIN_SPAN, MAX_SPAN, MARGIN = 20 * MINUTE, 480 * MINUTE, 3 * MINUTE
KEY = {  # what the colours say
    "met": "when a goal must hold, and did",
    "missed": "when a goal must hold, and did not",
    "runs": "at work",
    "lit": "lit",
    "waits": "paused",
}
AXIS_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120)  # minutes between marks of the axis
MAX_MARKS = 8
VARIABLE_SCALES = {  # (name, unit, divisor from the stored unit, least range of the axis)
    "temperature": ("Temperature", "°C", 100, 1.0),
    "humidity": ("Humidity", "%", 100, 4.0),
    "illuminance": ("Illuminance", "lx", 1, 60.0),
    "pm10": ("PM10", "µg/m³", 1, 4.0),
}


@dataclass(frozen=True)
class Span:
    """A stretch of time on the axis. `left` and `width` are in percent of the axis.

    `level` (0 to 100) is an amount, such as brightness, if the stretch has one.
    """

    left: float
    width: float
    text: str
    tone: str
    level: float | None = None


@dataclass(frozen=True)
class Plot:
    """A room variable: its curve and that of the untouched home, as SVG paths in a box of 1000 by 100.

    `low` and `high` are the values at the box's edges; `first` and `last` are values of the curve.
    """

    name: str
    unit: str
    curve: str
    untouched: str
    low: float
    high: float
    first: float
    last: float
    wanted: bool


@dataclass(frozen=True)
class RoomPanel:
    """A room: its plots, the devices that change (as spans), and the devices that do not.

    `concerned` says whether the request names the room or the agent changed something there.
    """

    name: str
    plots: tuple[Plot, ...]
    moving: tuple[tuple[str, tuple[Span, ...]], ...]
    still: tuple[tuple[str, str], ...]
    concerned: bool


@dataclass(frozen=True)
class CallMark:
    """A call on the axis; `at` is in percent of the axis."""

    number: int
    at: float
    text: str
    tone: str


# Replaying a trajectory


class SimuHomeReplay:
    """A replayed trajectory.

    `homes` are the home at the start and after each message. `calls` are (tick, call, whether it was refused). `met` is
    Φ at the end.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        episode = begin_replay(trajectory, restore_situation)
        self.situation = situation = simuhome_situation(episode)
        self.homes, self.calls = [situation.home.fork()], list[tuple[int, dict[str, Any], bool]]()
        for step in replay_steps(episode, trajectory):
            now = situation.home.tick
            done = episode.apply_reply(reply_of_step(step))
            self.calls += [(now, act, bool(done.facts.blocked)) for act in actions_in_messages([step.message])]
            self.homes.append(situation.home.fork())
        self.met = situation.met()

    def last_tick(self) -> int:
        """The last tick to draw."""
        file, last = self.situation.file, self.homes[-1]
        times = [goal.when.tick_window[-1] for goal in file.eval.goals if goal.when]
        times += [flow.due for flow in last.workflows] + [last.tick]
        return min(max(MIN_SPAN, *(time + MARGIN for time in times)), MAX_SPAN)

    def drawn_ticks(self) -> list[int]:
        """The ticks to draw: evenly spaced ones, those of calls, and those at and right after each workflow."""
        end = self.last_tick()
        due = {tick for flow in self.homes[-1].workflows for tick in (flow.due, flow.due + 1)}
        moved = {home.tick for home in self.homes}
        even = {round(i * end / POINTS) for i in range(POINTS + 1)}
        return [0, *sorted(tick for tick in even | due | moved if tick <= end)]

    def home_states(self) -> Iterator[MatterHome]:
        """The home at each of these ticks, first as it was before any call. The caller must not keep a home."""
        starts = [home.tick for home in self.homes]
        held, home = -1, self.homes[0]
        yield home
        for tick in self.drawn_ticks()[1:]:
            if (at := bisect_right(starts, tick) - 1) != held:
                held, home = at, self.homes[at].fork()
            passage.advance_home(home, tick)
            yield home


# What is drawn


class SimuHomePage:
    """All that the template shows. `goals` are in people's words, as exact text, and whether they are met."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.replay = replay = SimuHomeReplay(trajectory)
        file, ticks, end = replay.situation.file, replay.drawn_ticks(), replay.last_tick()
        samples = []
        for home in replay.home_states():
            samples.append(_sample_home(home, home.tick))
        last, plan = home, replay.homes[-1].plan  # `last` is the home after the last pass that is drawn
        fresh = load.start_home(file.initial_home_config, replay.situation.blueprint.strict)
        untouched = [_sample_home(fresh, tick) for tick in ticks]
        rooms = [_room_panel(room, replay.homes[-1], samples, untouched, ticks, file) for room in plan.rooms]
        self.rooms = sorted(rooms, key=lambda room: not room.concerned)
        self.axis, self.minutes = list(_axis_marks(last.plan.base_time, end)), end // MINUTE
        self.calls = []
        for number, (tick, act, refused) in enumerate(replay.calls, 1):
            given = ", ".join(f"{key}={value!r}" for key, value in act.items() if key != "name")
            tone = "refused" if refused else "acts" if act["name"] in ACTING_TOOLS else "looks"
            self.calls.append(CallMark(number, 100 * tick / end, f"{act['name']}({given})", tone))
        self.flows = []
        for flow in last.workflows:
            text = f"{flow.start_time[11:]}: {flow.total} step{'s' if flow.total > 1 else ''}, {flow.status}"
            self.flows.append(Span(100 * flow.due / end, 0.0, text, flow.status))
        self.windows = []
        for number, goal in enumerate(file.eval.goals):
            if goal.when:
                window = goal.when.tick_window
                left, right = (100 * min(tick, end) / end for tick in (window[0], window[-1] + 1))
                tone = "met" if replay.met[number] else "missed"
                self.windows.append(Span(left, right - left, f"goal {number + 1}", tone))
        task, exact = trajectory.blueprint["task"], exact_goal_texts(trajectory.blueprint)
        self.goals = list(zip(plain_goal_texts(task, plan.devices), exact, replay.met))
        self.names = device_names(plan.devices.values())
        self.dialogue = show_dialogue(trajectory, exact)

    @property
    def drawn_tones(self) -> set[str]:
        """The tones of all that is drawn, calls aside."""
        moving = (span for room in self.rooms for _, spans in room.moving for span in spans)
        return {span.tone for span in (*moving, *self.windows)}

    @property
    def call_subjects(self) -> dict[int, str]:
        """What each call names in people's words, by the number of the call: a device, or a room."""
        placed = self.replay.homes[-1].plan.devices
        said = {}
        for number, (_, act, _) in enumerate(self.replay.calls, 1):
            device, room = str(act.get("device_id")), act.get("room_id")
            if device in self.names:
                said[number] = f"{room_name(placed[device].room)} {self.names[device]}"
            elif isinstance(room, str):
                said[number] = room_name(room)
        return said


ACTING_TOOLS = ("execute_command", "write_attribute", "schedule_workflow", "cancel_workflow", "finish")
Sample = tuple[dict[str, dict[str, float]], dict[str, tuple[Any, ...]]]  # (variables of each room, activity of each device)


def _sample_home(home: MatterHome, tick: int) -> Sample:
    passage.advance_home(home, tick)
    rooms = {room: home.room_state(room) for room in home.plan.rooms}
    return rooms, {device.id: device_activity(home, device) for device in home.plan.devices.values()}


def _room_panel(
    name: str, home: MatterHome, samples: Sequence[Sample], untouched: Sequence[Sample], ticks: Sequence[int], file: Any
) -> RoomPanel:
    wanted = {goal.room_state for goal in file.eval.goals if goal.room_id == name and goal.room_state}
    plots = []
    for variable in VARIABLES:
        values = [rooms[name][variable] for rooms, _ in samples]
        before = [rooms[name][variable] if name in rooms else values[0] for rooms, _ in untouched]
        title, unit, scale, least = VARIABLE_SCALES[variable]
        ours, theirs = ([value / scale for value in row] for row in (values, before))
        low, high = min(*ours, *theirs), max(*ours, *theirs)
        if high - low < least:
            low, high = (low + high - least) / 2, (low + high + least) / 2
        curve, dashed = (_svg_path(row, ticks, low, high) for row in (ours, theirs))
        plots.append(Plot(title, unit, curve, dashed, low, high, ours[0], ours[-1], variable in wanted))
    moving, still, touched = [], [], False
    for device in home.plan.devices_by_room[name]:
        acted, idle = ([devices.get(device.id, ("", "off", None)) for _, devices in row] for row in (samples, untouched))
        touched = touched or acted != idle
        if len(set(acted)) == 1:
            still.append((device.id, acted[0][0]))
            continue
        spans = []  # the stretches of time in which the device's activity stays the same
        for (text, tone, level), run in groupby(enumerate(acted), key=itemgetter(1)):
            steps = [number for number, _ in run]
            start, stop = ticks[steps[0]], ticks[min(steps[-1] + 1, len(ticks) - 1)]
            if stop > start:
                spans.append(Span(100 * start / ticks[-1], 100 * (stop - start) / ticks[-1], text, tone, level))
        moving.append((device.id, tuple(spans)))
    asked = [room for g in file.eval.goals for room in (g.anchor.get("room_id"), *(t.room_id for t in (g.targets or (g,))))]
    return RoomPanel(name, tuple(plots), tuple(moving), tuple(still), name in asked or touched)


def _svg_path(values: Sequence[float], ticks: Sequence[int], low: float, high: float) -> str:
    """An SVG path of straight lines through the values. A flat stretch keeps only its two ends."""
    # The box is 100 high, and the curve keeps a margin of 4 above and below.
    heights = [round(96 - 92 * (value - low) / (high - low), 1) for value in values]
    points = [(round(1000 * tick / ticks[-1], 1), height) for tick, height in zip(ticks, heights)]
    kept = [p for i, p in enumerate(points) if i in (0, len(points) - 1) or not points[i - 1][1] == p[1] == points[i + 1][1]]
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in kept)


def _axis_marks(base_time: datetime, end: int) -> Iterator[tuple[float, str]]:
    """Marks at whole minutes of clock time."""
    step = next((step for step in AXIS_STEPS if end / MINUTE / step <= MAX_MARKS), AXIS_STEPS[-1])
    midnight = base_time.replace(hour=0, minute=0, second=0)
    at = midnight + timedelta(minutes=math.ceil((base_time - midnight).total_seconds() / 60 / step) * step)
    while (tick := (at - base_time).total_seconds() * 10) <= end:
        yield 100 * tick / end, at.strftime("%H:%M")
        at += timedelta(minutes=step)


def render_simuhome_page(trajectory: Trajectory) -> str:
    """The page as HTML."""
    shown = load_template(Path(__file__).with_name("episode.html.jinja"), room=room_name)
    return shown.render(page=SimuHomePage(trajectory), trajectory=trajectory, KEY=KEY)
