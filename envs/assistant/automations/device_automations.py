"""Triggers, conditions and actions that Home Assistant's editor writes for devices, as those of entities.

Invariant: one that names no entity, such as the press of a remote's button, is `None`: nothing of the home makes it act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.assistant.automations.automation_templates import UnreadableAutomation

OFF_SENSES = frozenset("locked turned_off stopped_moving unoccupied not_occupied".split())  # that begin with no `no`
STATES: dict[str, dict[str, str]] = {  # by domain and type: the state that is reached
    "cover": {"opened": "open"},
    "lock": {},
    "alarm_control_panel": {},
    "vacuum": {},
    "media_player": {"turned_on": "on", "turned_off": "off"},
    "lawn_mower": {},
    "device_tracker": {},
    "person": {},
}
ATTRIBUTES = {  # by domain and type: the attribute whose number is compared
    ("cover", "position"): "current_position",
    ("cover", "tilt_position"): "current_tilt_position",
    ("climate", "current_temperature_changed"): "current_temperature",
    ("climate", "current_humidity_changed"): "current_humidity",
    ("humidifier", "target_humidity_changed"): "humidity",
    ("humidifier", "current_humidity_changed"): "current_humidity",
}
SERVICES = {  # by domain and type, where the service has another name
    "cover": {
        "open": "open_cover",
        "close": "close_cover",
        "stop": "stop_cover",
        "set_position": "set_cover_position",
        "open_tilt": "open_cover_tilt",
        "close_tilt": "close_cover_tilt",
        "set_tilt_position": "set_cover_tilt_position",
    },
    "vacuum": {"clean": "start", "dock": "return_to_base"},
    "lawn_mower": {"mow": "start_mowing", "dock": "dock", "pause": "pause"},
    "alarm_control_panel": {
        one: f"alarm_{one}" for one in ("arm_away", "arm_home", "arm_night", "arm_vacation", "disarm", "trigger")
    },
    "light": {"brightness_increase": "turn_on", "brightness_decrease": "turn_on", "flash": "turn_on"},
}
STEPS = {"brightness_increase": {"brightness_step_pct": 10}, "brightness_decrease": {"brightness_step_pct": -10}}
IS = {("vacuum", "cleaning"): ["cleaning", "returning"]}  # by domain and type, conditions on several states
OURS = frozenset("device_id domain type entity_id subtype platform trigger condition id for".split())  # no data of a service


def is_outside_trigger(text: Mapping[str, Any]) -> bool:
    """Whether a device trigger is of no entity."""
    return not isinstance(text.get("entity_id"), str)


def rewrite_device_trigger(text: Mapping[str, Any]) -> dict[str, Any]:
    """A device trigger as one by state or by number. Raises `UnreadableAutomation`."""
    domain, kind = str(text.get("domain")), str(text.get("type"))
    held = {key: text[key] for key in ("entity_id", "for", "id") if key in text}
    if bounds := _read_bounds(text, domain, kind):
        return {"trigger": "numeric_state", **held, **bounds}
    if kind == "changed_states":
        return {"trigger": "state", "to": None, **held}
    if kind == "hvac_mode_changed" and "to" in text:
        return {"trigger": "state", "to": text["to"], **held}
    if kind in ("current_option_changed", "state") and {"from", "to"} & text.keys():
        return {"trigger": "state", **held, **{key: text[key] for key in ("from", "to") if key in text}}
    return {"trigger": "state", "to": _state_of_type(domain, kind), **held}


def _read_bounds(text: Mapping[str, Any], domain: str, kind: str) -> dict[str, Any]:
    """The bounds of a number, with the attribute that is compared if it is not the state."""
    bounds = {key: text[key] for key in ("above", "below") if key in text}
    attribute = ATTRIBUTES.get((domain, kind))
    return bounds | {"attribute": attribute} if bounds and attribute else bounds


def _state_of_type(domain: str, kind: str) -> str:
    """The state of an entity of a domain for what a type of a device trigger or condition tells."""
    if domain in STATES:
        return STATES[domain].get(kind, kind)
    if kind in ("turned_on", "turned_off", "on", "off"):
        return kind.removeprefix("turned_")
    if domain == "binary_sensor":
        off = kind in OFF_SENSES or (kind.startswith(("no_", "not_")) and kind != "not_locked")
        return "off" if off else "on"
    raise UnreadableAutomation(f"a device trigger or condition of the type '{kind}' of {domain} is not known here")


def rewrite_device_condition(text: Mapping[str, Any]) -> dict[str, Any]:
    """A device condition as one by state or by number. Raises `UnreadableAutomation`."""
    domain, kind = str(text.get("domain")), str(text.get("type")).removeprefix("is_")
    if is_outside_trigger(text):
        raise UnreadableAutomation("a condition is on a device, which names no entity")
    named = {"entity_id": text["entity_id"]}
    if bounds := _read_bounds(text, domain, kind):
        return {"condition": "numeric_state", **named, **bounds}
    held = {"for": text["for"]} if text.get("for") is not None else {}
    if kind in ("hvac_mode", "preset_mode") and kind in text:
        attribute = {"attribute": kind} if kind == "preset_mode" else {}
        return {"condition": "state", **named, "state": text[kind], **attribute}
    if kind == "selected_option" and "option" in text:
        return {"condition": "state", **named, "state": text["option"]}
    return {"condition": "state", **named, "state": IS.get((domain, kind)) or _state_of_type(domain, kind), **held}


def rewrite_device_action(text: Mapping[str, Any]) -> dict[str, Any]:
    """A device action as the call of a service. Raises `UnreadableAutomation`."""
    domain, kind = str(text.get("domain")), str(text.get("type"))
    if is_outside_trigger(text):
        raise UnreadableAutomation("an action is on a device, and names no entity")
    data = {key: value for key, value in text.items() if key not in OURS} | STEPS.get(kind, {})
    service = SERVICES.get(domain, {}).get(kind, kind)
    return {"action": f"{domain}.{service}", "target": {"entity_id": text["entity_id"]}, "data": data}
