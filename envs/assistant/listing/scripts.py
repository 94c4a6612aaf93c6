"""The device of a script: it runs for as long as the script's text says, and counts its runs.

Invariant: a script whose text is not known runs for a minute, as that of the catalogue does.
"""

from __future__ import annotations

from homerl.envs.assistant.listing.narrowing import Spec

UNKNOWN = 60  # seconds for which the script of the catalogue runs


def set_script_duration(spec: Spec, seconds: int | None) -> Spec:
    """The specification of a script that runs for some seconds."""
    count = {"name": "runs", "type": "int", "range": [0, 1_000_000], "internal": True, "starts": "0"}
    lasts = UNKNOWN if seconds is None else seconds
    attributes = [
        one | {"range": [0, max(lasts, 1)], "starts": f'{lasts} if self.state == "on" else 0'}
        if one["name"] == "left"
        else one
        for one in spec["attributes"]
    ]
    services = [one | {"code": _counted(one["name"], one["code"], lasts)} for one in spec.get("services", ())]
    return spec | {"attributes": [*attributes, count], "services": services}


def _counted(name: str, code: str, lasts: int) -> str:
    runs = {"turn_on": "(self.runs + 1) % 1000000", "toggle": "(self.runs + 1) % 1000000 if self.left == 0 else self.runs"}
    first = [f"self.runs = {runs[name]}"] if name in runs else []
    return "\n".join([*first, code.replace(str(UNKNOWN), str(lasts))])
