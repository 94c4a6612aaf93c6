"""The kinds of devices that open a home, arm it, or can set it on fire: a mistake there is worse than ten at lamps."""

from __future__ import annotations

from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec

KINDS = frozenset(  # these open the home, arm it, or can set it on fire
    "lock alarm_control_panel alarm_panel siren garage_door opener oven stove gas_valve valve water_heater".split()
)
HARMLESS_COVERS = frozenset("awning blind curtain damper shade shutter".split())  # another class may let somebody in


def is_guarded_kind(spec: DeviceSpec) -> bool:
    """Whether a product is of a kind that is guarded, whatever it is called."""
    data = spec.userdata
    return data.category in KINDS or (data.category == "cover" and data.subcategory not in HARMLESS_COVERS)
