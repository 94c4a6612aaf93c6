"""The mode clusters: programmes of dishwashers and washers, and cooling modes of refrigerators and freezers."""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.clusters import laundry
from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.registry import register_command, register_write, store_attribute
from homerl.envs.simuhome.sim.results import OperationError, refuse_unless


def supported_mode(view: ClusterView, key: str, mode: Any) -> dict[str, Any] | None:
    """The entry of SupportedModes with the number `mode` under `key`, or None."""
    entries = view["SupportedModes"] or () if isinstance(mode, (int, float)) else ()
    return next((entry for entry in entries if entry[key] == mode), None)


@register_command("DishwasherMode", "ChangeToMode")
@register_command("LaundryWasherMode", "ChangeToMode")
def change_programme_mode(view: ClusterView, new_mode: Any) -> dict[str, Any]:
    """Choose a programme by its number in SupportedModes. Refused while the appliance runs."""
    refuse_unless(
        view.sibling_view("OperationalState")["OperationalState"] != 1, "INVALID_STATE", "the appliance is running"
    )
    entry = supported_mode(view, "mode", new_mode)
    if not entry:
        raise OperationError("INVALID_ARGUMENT", f"mode {new_mode!r} is not supported")
    old = view["CurrentMode"]
    view.set_enum("CurrentMode", int(new_mode))
    if view.device.type.rows:
        laundry.apply_mode_row(view.sibling_view("LaundryWasherControls"))
    return {"old_mode": old, "new_mode": new_mode, "mode_label": entry.get("label")}


@register_write("DishwasherMode", "CurrentMode")
@register_write("LaundryWasherMode", "CurrentMode")
def write_programme_mode(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Write the number of the programme. In mended mode it must be in SupportedModes."""
    if not view.is_strict:
        refuse_unless(supported_mode(view, "mode", value), "INVALID_ARGUMENT", f"mode {value!r} is not supported")
    return store_attribute(view, "CurrentMode", value)


@register_command("RTCCMode", "ChangeToMode")
def change_cabinet_mode(view: ClusterView, mode: Any) -> dict[str, Any]:
    """Choose a cooling mode by its number in SupportedModes."""
    entry = supported_mode(view, "Mode", mode)
    if not entry:
        raise OperationError("UNSUPPORTED_MODE", f"mode {mode!r} is not supported")
    view["CurrentMode"] = mode
    return {"Status": "SUCCESS", "StatusText": f"Mode changed successfully to {entry['Label']}"}
