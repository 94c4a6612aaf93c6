"""The cluster OnOff: power, and its effects on a dimmer's level and on an appliance's programme."""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.clusters import appliances, level
from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.registry import command_result, register_command
from homerl.envs.simuhome.sim.results import UnhandledError


@register_command("OnOff", "On")
def switch_on(view: ClusterView) -> dict[str, Any]:
    """Switch the device on."""
    if "GlobalSceneControl" in view:
        view["GlobalSceneControl"] = True
    _set_power(view, True)
    return command_result(view, "On", result="Device turned on")


@register_command("OnOff", "Off")
def switch_off(view: ClusterView) -> dict[str, Any]:
    """Switch the device off."""
    _set_power(view, False)
    return command_result(view, "Off", result="Device turned off")


@register_command("OnOff", "Toggle")
def toggle_power(view: ClusterView) -> dict[str, Any]:
    """Switch the device on if it is off, and off if it is on."""
    old = view["OnOff"]
    # A fault of the released program: Toggle does not affect an appliance's programme.
    _set_power(view, not old, appliance=not view.is_strict)
    return command_result(view, "Toggle", result=f"OnOff toggled from {old} to {not old}")


def _set_power(view: ClusterView, on: bool, appliance: bool = True) -> None:
    if view["OnOff"] is on:
        return
    view["OnOff"] = on
    if view.device.type.dims:
        try:
            level.level_power_changed(view.sibling_view("LevelControl"), on)
        except TypeError as error:  # a transition time may be of any type
            raise UnhandledError(str(error)) from None
    if appliance and view.device.type.cycle:
        appliances.appliance_power_changed(view.sibling_view("OperationalState"), on)
