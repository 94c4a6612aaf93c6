"""OnOff: power, and what it brings along: a dimmer's level, an appliance's programme."""

from __future__ import annotations

from typing import Any

from envs.simuhome.clusters import appliances, level
from envs.simuhome.home import View
from envs.simuhome.registry import command, done


@command("OnOff", "On")
def on(view: View) -> dict[str, Any]:
    """Switch on."""
    if "GlobalSceneControl" in view:
        view["GlobalSceneControl"] = True
    _switch(view, True)
    return done(view, "On", result="Device turned on")


@command("OnOff", "Off")
def off(view: View) -> dict[str, Any]:
    """Switch off."""
    _switch(view, False)
    return done(view, "Off", result="Device turned off")


@command("OnOff", "Toggle")
def toggle(view: View) -> dict[str, Any]:
    """Switch on what is off, and off what is on."""
    old = view["OnOff"]
    _switch(view, not old, appliance=not view.strict)  # strict: an appliance takes no notice of a toggle
    return done(view, "Toggle", result=f"OnOff toggled from {old} to {not old}")


def _switch(view: View, on: bool, appliance: bool = True) -> None:
    changed = view["OnOff"] is not on
    view["OnOff"] = on
    if changed and view.device.type.dims:
        level.powered(view.beside("LevelControl"), on)
    if changed and appliance and view.device.type.cycle:
        appliances.powered(view.beside("OperationalState"), on)
