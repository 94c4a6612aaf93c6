"""The slow way: a home that takes every pass, one by one, as the specification describes a pass.

It shares the commands with the product (time is not their affair) and nothing of the passage of time: countdowns sum the
length of a pass in doubles, transitions and moves take a step a pass, rooms add up each device's effect and return a little
to their baseline.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.episode_file import VARIABLES
from homerl.envs.simuhome.sim.home import ClusterView, MatterDevice, MatterHome

DT = 0.1
CYCLES = {"dishwasher": (1, 5, 2, 1), "laundry_washer": (1, 4, 2, 1), "laundry_dryer": (2, 6, 2)}
MEMBERS = {
    "temperature": ("air_conditioner", "heat_pump", "fan"),
    "pm10": ("air_purifier",),
    "illuminance": ("on_off_light", "dimmable_light"),
    "humidity": ("humidifier", "dehumidifier"),
}


def number(value: Any) -> bool:
    return isinstance(value, (int, float))


class Ticking:
    """A home and what the reference keeps beside its attributes."""

    def __init__(self, home: MatterHome) -> None:
        self.home = home
        self.fractions: dict[tuple[str, str], float] = {}
        self.signatures: dict[tuple[str, str], dict[str, Any]] = {}
        self.effects: dict[tuple[str, str], dict[str, float]] = {}

    def advance(self, to_tick: int) -> None:
        while self.home.tick < to_tick:
            workflows.run_due(self.home, live=True)
            self.home.tick += 1
            for room in self.home.plan.rooms:
                for device in self.home.plan.devices_by_room[room]:
                    self._device(device)
                for variable in VARIABLES:
                    self._variable(room, variable)

    # Devices

    def _device(self, device: MatterDevice) -> None:
        for endpoint, cluster in device.type.cluster_places:
            act = getattr(self, f"_{cluster.name}", None)
            if act:
                act(ClusterView(self.home, device, endpoint, cluster.name))

    def _seconds(self, view: ClusterView) -> int:
        """Another pass: how many whole seconds have gone by?"""
        key = (view.device.id, view.cluster)
        fraction = 0.0 if view["#passes"] == 0 else self.fractions.get(key, 0.0)
        view["#passes"] = 1
        fraction += DT if view.cluster == "Identify" and view.is_strict else self.home.interval
        self.fractions[key] = fraction - int(fraction)
        return int(fraction)

    def _OperationalState(self, view: ClusterView) -> None:
        if view["OperationalState"] != 1 or not number(view["CountdownTime"]):
            return
        view["CountdownTime"] -= self._seconds(view)
        left = view["CountdownTime"]
        if left <= 0:
            view.set_enum("OperationalState", 0)
            if view["PhaseList"]:
                view["CurrentPhase"] = len(view["PhaseList"]) - 1
            view["CountdownTime"], view["#passes"] = None, 0
            return
        self._phase(view, left)

    def _phase(self, view: ClusterView, left: float) -> None:
        kind, strict = view.device.type.name, view.is_strict
        shares, total = CYCLES[kind], view["#cycle"]
        if (kind == "dishwasher" or not strict) and (total == 0 or left > total):
            total = view["#cycle"] = left
        target, reached = len(shares) - 1, 0.0
        for index, share in enumerate(shares):
            if kind == "dishwasher":
                reached += share / sum(shares)
                hit = (total - left) / total <= reached + 1e-12
            else:
                reached += int(total * (share / sum(shares)))
                hit = max(total - left, 0) <= reached
            if hit:
                target = index
                break
        if number(view["CurrentPhase"]) and target > view["CurrentPhase"]:
            view["CurrentPhase"] = target

    def _RVCOperationalState(self, view: ClusterView) -> None:
        if view["OperationalState"] not in (1, 64, 66) or not number(view["CountdownTime"]):
            return
        view["CountdownTime"] -= self._seconds(view)
        if view["CountdownTime"] > 0:
            return
        mode, phases = view.sibling_view("RVCRunMode"), view["PhaseList"] or []
        following = (view["CurrentPhase"] + 1) if number(view["CurrentPhase"]) else len(phases)
        view["#passes"] = 0
        if following >= len(phases):
            view["OperationalState"], view["CurrentPhase"], view["CountdownTime"] = 0, None, None
            view["OperationalError"] = {"error_state_id": 0}
            mode["CurrentMode"] = 1
            return
        lengths = {"Cleaning": (1800, 1), "Mapping": (1800, 1), "SeekingCharger": (10, 64), "Docked": (5, 66)}
        view["CurrentPhase"] = following
        view["CountdownTime"], view["OperationalState"] = lengths[phases[following]]
        if phases[following] == "Docked":
            mode["CurrentMode"] = 1

    def _Identify(self, view: ClusterView) -> None:
        if type(view["IdentifyTime"]) is not int:
            return
        view["IdentifyTime"] = max(0, view["IdentifyTime"] - (self._seconds(view) if view["IdentifyTime"] > 0 else 0))
        if view["IdentifyTime"] == 0:
            view["#passes"] = 0

    def _WindowCovering(self, view: ClusterView) -> None:
        if view["#motion"] is None:
            return
        start, target, ticks, gone = view["#motion"]
        name = "CurrentPositionLiftPercent100ths"
        if gone + 1 >= ticks:
            view[name] = view["TargetPositionLiftPercent100ths"] = target
            view["OperationalStatus"], view["#motion"] = 0, None
        else:
            view[name] = round(start + (gone + 1) * (target - start) / ticks)
            view["#motion"] = (start, target, ticks, gone + 1)

    def _LevelControl(self, view: ClusterView) -> None:
        power = view.sibling_view("OnOff")
        if view["#transition"] is not None:
            start, target, ticks, gone, coupled, *changed = view["#transition"]
            length = changed[0] if changed else DT
            gone += max(1, round(self.home.interval / length))
            if gone >= ticks:
                view["CurrentLevel"], view["RemainingTime"], view["#transition"] = target, 0, None
                if coupled:
                    power["OnOff"] = target > view["MinLevel"]
            else:
                level = start + gone * ((target - start) / ticks)
                view["CurrentLevel"] = round(min(level, target) if target > start else max(level, target))
                view["RemainingTime"] = round((ticks - gone) * length * 10)
                view["#transition"] = (start, target, ticks, gone, coupled, *changed)
        if view["#move"] is not None:
            direction, rate, total, coupled = view["#move"]
            total += rate * self.home.interval
            whole, ended = int(total), False
            if whole:
                now = view["MinLevel"] if view["CurrentLevel"] is None else view["CurrentLevel"]
                low, high = view["MinLevel"], view["MaxLevel"]
                level = (int(now) if view.is_strict else now) + direction * whole
                level = max(level, low) if direction < 0 or not view.is_strict else level
                level = min(level, high) if direction > 0 or not view.is_strict else level
                view["CurrentLevel"], total = level, total - whole
                ended = level == (high if direction > 0 else low) or (not view.is_strict and level in (low, high))
                view["RemainingTime"] = 0 if ended else view["RemainingTime"]
                if coupled:
                    power["OnOff"] = level > view["MinLevel"]
            view["#move"] = None if ended else (direction, rate, total, coupled)

    # Air

    def _variable(self, room: str, name: str) -> None:
        home, key = self.home, (room, name)
        slot = home.plan.rooms[room].base + list(VARIABLES).index(name)
        value, baseline = home.values[slot], home.plan.rooms[room].baseline[list(VARIABLES).index(name)]
        devices = [d for d in home.plan.devices_by_room[room] if d.type.name in MEMBERS[name]]
        signature = {d.id: self._signature(d, name) for d in devices}
        last = self.signatures.setdefault(key, {})
        changed = any(last.get(did, ()) != state for did, state in signature.items())
        effects = self.effects.setdefault(key, {})
        if not home.plan.strict or (name == "illuminance" and changed):
            effects.clear()
        if changed or name == "humidity" or not home.plan.strict:
            for device in devices:
                effects[device.id] = self._effect(device, name, value, baseline)
            last.update(signature)
        home.set_slot(slot, self._next(name, value, baseline, effects, changed))
        for device in devices:
            self._sense(device, name, home.values[slot])

    def _next(self, name: str, value: float, baseline: float, effects: dict[str, float], changed: bool) -> float:
        if name == "illuminance":
            return baseline + sum(effects.values()) if changed or not self.home.plan.strict else value
        value += sum(effects.values())
        value += (baseline - value) * {"temperature": 0.0002, "pm10": 0.1, "humidity": 0.01}[name] * self.home.interval
        if name == "pm10":
            return max(0.0, value)
        return max(0.0, min(value, 10000.0)) if name == "humidity" else value

    def _signature(self, device: MatterDevice, name: str) -> tuple:
        keys = [k for k in device.offsets if k.split(".", 1)[1] in (
            "OnOff.OnOff", "Thermostat.SystemMode", "Thermostat.OccupiedCoolingSetpoint",
            "Thermostat.OccupiedHeatingSetpoint",
            "FanControl.PercentCurrent", "ElectricalPowerMeasurement.ActivePower",
        ) or (name == "illuminance" and k.endswith(".CurrentLevel"))]  # fmt: skip
        return tuple(self.home.values[device.base + device.offsets[k]] for k in keys)

    def _effect(self, device: MatterDevice, name: str, value: float, baseline: float) -> float:
        def of(cluster: str, attribute: str) -> Any:
            return self.home.cluster_view(device.id, cluster)[attribute]

        kind = device.type.name
        on = of("OnOff", "OnOff") if kind != "heat_pump" else True
        if kind in ("on_off_light", "dimmable_light"):
            share = 1 if kind == "on_off_light" else (of("LevelControl", "CurrentLevel") or 0) / 254
            return share * 500 if on else 0.0
        percent = of("FanControl", "PercentCurrent") if kind != "heat_pump" else 100
        fan = 0.5 if percent is None else max(0, min(percent, 100)) / 100
        if name == "temperature":
            return self._warmth(kind, of, on, fan, value, baseline)
        if not on or not percent or percent <= 0:
            return 0.0
        if kind == "air_purifier":
            ratio = value / baseline if baseline > 0 else 1
            return -5 * (percent / 100) ** 0.8 * (0.8 * ratio if ratio > 2 else min(2, ratio)) * self.home.interval
        if kind == "humidifier" and value < 9000:
            return 5 * (percent / 100) * max(0.1, (9000 - value) / 9000) * self.home.interval
        if kind == "dehumidifier" and value > 1000:
            return -5 * (percent / 100) * max(0.1, (value - 1000) / 9000) * self.home.interval
        return 0.0

    def _warmth(self, kind: str, of: Any, on: bool, fan: float, value: float, baseline: float) -> float:
        if kind == "fan":
            floor = baseline - 200
            return (
                -(min(0.0002, ((value - floor) / 100) * 0.5) * fan * 100) * self.home.interval
                if on and value > floor
                else 0.0
            )
        mode, cool, heat = (
            of("Thermostat", name) for name in ("SystemMode", "OccupiedCoolingSetpoint", "OccupiedHeatingSetpoint")
        )
        if on and mode == 4 and value < heat:
            return (min(0.0005, (heat - value) / 100) * fan * 100) * self.home.interval
        if on and mode == 3 and kind == "air_conditioner" and value > cool:
            return -(min(0.0005, (value - cool) / 100) * fan * 100) * self.home.interval
        return 0.0

    def _sense(self, device: MatterDevice, name: str, value: float) -> None:
        if name == "temperature" and device.type.name != "fan":
            self.home.cluster_view(device.id, "Thermostat")["LocalTemperature"] = int(value)
        if name == "humidity":
            view = self.home.cluster_view(device.id, "RelativeHumidityMeasurement")
            view["MeasuredValue"] = max(view["MinMeasuredValue"], min(int(value), view["MaxMeasuredValue"]))
