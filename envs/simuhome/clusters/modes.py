"""Mode clusters: programmes of dishwashers and washers, cooling modes of cabinets."""

from __future__ import annotations

from typing import Any

from envs.simuhome.clusters import laundry
from envs.simuhome.home import View
from envs.simuhome.registry import command, store, write
from envs.simuhome.results import Failure, need


def supported(view: View, key: str, mode: Any) -> dict[str, Any] | None:
    """The entry of SupportedModes whose `key` is the number `mode`, or None."""
    entries = view["SupportedModes"] or () if isinstance(mode, (int, float)) else ()
    return next((entry for entry in entries if entry[key] == mode), None)


@command("DishwasherMode", "ChangeToMode")
@command("LaundryWasherMode", "ChangeToMode")
def change_to_mode(view: View, new_mode: Any) -> dict[str, Any]:
    """Choose a programme, by its number in SupportedModes, while the appliance does not run."""
    need(view.beside("OperationalState")["OperationalState"] != 1, "INVALID_STATE", "the appliance is running")
    entry = supported(view, "mode", new_mode)
    if not entry:
        raise Failure("INVALID_ARGUMENT", f"mode {new_mode!r} is not supported")
    old = view["CurrentMode"]
    view.enumerate("CurrentMode", int(new_mode))
    if view.device.type.rows:
        laundry.apply_row(view.beside("LaundryWasherControls"))
    return {"old_mode": old, "new_mode": new_mode, "mode_label": entry.get("label")}


@write("DishwasherMode", "CurrentMode")
@write("LaundryWasherMode", "CurrentMode")
def write_mode(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Write the number of the programme; not strict, it must be in SupportedModes."""
    if not view.strict:
        need(supported(view, "mode", value), "INVALID_ARGUMENT", f"mode {value!r} is not supported")
    return store(view, "CurrentMode", value)


@command("RTCCMode", "ChangeToMode")
def change_cabinet_mode(view: View, mode: Any) -> dict[str, Any]:
    """Choose a cooling mode, by its number in SupportedModes."""
    entry = supported(view, "Mode", mode)
    if not entry:
        raise Failure("UNSUPPORTED_MODE", f"mode {mode!r} is not supported")
    view["CurrentMode"] = mode
    return {"Status": "SUCCESS", "StatusText": f"Mode changed successfully to {entry['Label']}"}
