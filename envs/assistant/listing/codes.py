"""The code of an alarm panel, which only the real panel knows.

Invariants: a home asks for a code where the entity does, and takes any; no code of an owner is in a home.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.assistant.listing.listing import ListedEntity

DOMAIN = "alarm_control_panel"
TO_ARM = "code_arm_required"
CODE = "code"  # the argument
GIVEN = 'code != None and code != ""'  # the real panel judges it


def require_alarm_code(spec: Mapping[str, Any], entity: ListedEntity) -> dict[str, Any]:
    """The product of an alarm panel, which asks for a code where its entity does. Any other stays as it is."""
    if entity.domain != DOMAIN:
        return dict(spec)
    attributes = [_told(one, entity) if one["name"] == TO_ARM else one for one in spec["attributes"]]
    return {**spec, "attributes": attributes, "services": [_service(one, entity) for one in spec["services"]]}


def _told(attribute: dict[str, Any], entity: ListedEntity) -> dict[str, Any]:
    return attribute | {"derived": repr(entity.attributes.get(TO_ARM) is not False)}


def _service(service: dict[str, Any], entity: ListedEntity) -> dict[str, Any]:
    plain = {key: one for key, one in service.items() if key != "requires"}
    return plain | {"requires": GIVEN} if "requires" in service and _needed(service["name"], entity) else plain


def _needed(service: str, entity: ListedEntity) -> bool:
    """Whether a panel takes a code for this; one that says nothing may take it."""
    if entity.attributes.get("code_format", "") is None:
        return False
    return not service.startswith("alarm_arm_") or entity.attributes.get(TO_ARM) is not False
