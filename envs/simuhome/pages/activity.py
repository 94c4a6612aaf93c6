"""What a device of SimuHome is doing, in a few words, a colour class and an amount."""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.home import MatterDevice, MatterHome


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
