"""Rooms, devices, attributes and values of SimuHome in people's words, for pages.

`device_activity` says what a device is doing: a few words, a colour class and an amount.

Invariants: the words are those in which people ask for things (the English file of `language/`, each the most usual one),
with units as a page writes them: hundredths of a percent are percent. A name that the file lacks is split into its words.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome
from homerl.envs.simuhome.tasks.sentences import HUNDREDTHS, PERCENT, SimuHomeSpeaker, plain_number
from homerl.play.words.grammar import Voice


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

    for goal in task["eval"]["goals"]:
        targets = goal.get("targets") or ([goal] if goal.get("asserts") else [])
        parts = []
        for target in targets:
            settings = ", ".join(setting_text(one["attribute"], one["value"]) for one in target["asserts"])
            parts.append(f"{place(target)}: {settings}")
        if not targets:  # something to tell, or the way in which a room changes
            air = goal.get("room_state", "").replace("pm", "PM")
            what = WORDS.say_attribute(goal["attribute"]) if goal.get("attribute") else air
            way = {"increase": "goes up", "decrease": "goes down", "": "is told"}
            parts.append(f"{place(goal)}: {what} {way.get(goal.get('direction') or '', goal.get('direction'))}")
        text = "; ".join(parts)
        if when := goal.get("when"):
            minutes = f"{when['at_tick'] / 600:.1f}".removesuffix(".0")
            text += f" ({minutes} minutes in, ± {when['tolerance_ticks'] // 10} s)"
        yield text if task["meta"]["case"] == "feasible" else f"says why not: {text}"
    for look in task["eval"]["required_actions"]:
        yield f"{look['tool']}({', '.join(room_name(str(value)) for value in look['params'].values())}) was called"
    yield "the agent has finished"
