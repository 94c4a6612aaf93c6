"""How much more careful than it was started an agent is to be for one request.

Invariant: a request never makes an agent less careful.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from homerl.envs.assistant.listing.listing import ENTITY
from homerl.host.web.door import BadRequest

Mode = Literal["shadow", "confirm", "act"]
MODES: tuple[Mode, ...] = ("shadow", "confirm", "act")  # from the most careful
FIELD = "homerl"  # of the body of a request


@dataclass(frozen=True)
class RequestCare:
    """The most that is done for a request, and the ids of devices that are guarded as well."""

    mode: Mode = "act"
    guard: frozenset[str] = frozenset()

    def limit_mode(self, mode: Mode) -> Mode:
        """The mode of an agent that was started in this mode."""
        return min(self.mode, mode, key=MODES.index)


def parse_request_care(body: dict[str, Any]) -> RequestCare:
    """The care that the body of a request asks for. Raises `BadRequest` for what is none, so that nothing is done."""
    asked = body.get(FIELD, {})
    if not isinstance(asked, dict) or asked.keys() - {"mode", "guard"}:
        raise BadRequest(400, f"`{FIELD}` is not an object of `mode` and `guard`")
    mode, guard = asked.get("mode", "act"), asked.get("guard", [])
    if mode not in MODES:
        raise BadRequest(400, f"`{FIELD}.mode` is none of {', '.join(MODES)}")
    if not isinstance(guard, list) or not all(isinstance(one, str) and ENTITY.fullmatch(one) for one in guard):
        raise BadRequest(400, f"`{FIELD}.guard` is not a list of ids of entities, such as switch.heater")
    return RequestCare(cast(Mode, mode), frozenset(guard))
