"""Fans with other speeds than the catalogue's, whose products have three.

Invariant: a fan with three speeds, or of which none are told, stays as it is.
"""

from __future__ import annotations

from typing import Any

from homerl.envs.assistant.listing.narrowing import Spec

SPEEDS = 3  # of the catalogue's fans, which begin with the second one: 67 %
LAST = "(self.speed if self.speed > 0 else 100)"  # with which any other begins, if it is told no speed


def set_fan_speeds(spec: Spec, step: Any) -> Spec:
    """The specification of a fan whose speeds are so many percent apart."""
    speeds = round(100 / step) if isinstance(step, (int, float)) and 1 <= step <= 100 else SPEEDS
    if speeds == SPEEDS:
        return spec
    attributes = [
        one | {"derived": repr(float(step))} if one["name"] == "percentage_step" else one for one in spec["attributes"]
    ]
    changes = ((f"* {SPEEDS}", f"* {speeds}"), (f"// {SPEEDS}", f"// {speeds}"), ("67", LAST))
    services = []
    for one in spec.get("services", ()):
        for old, new in changes:
            one = one | {"code": one["code"].replace(old, new)}
        services.append(one)
    return spec | {"attributes": attributes, "services": services}
