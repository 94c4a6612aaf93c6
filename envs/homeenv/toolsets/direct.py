"""The `direct` toolset: the whole home is written down once, and one answer is replayed (SMH-Bench's DR).

The agent sees `serialise(home)` and gives one JSON object: `{"mode": "execute", "response", "actions",
"automations"}` or `{"mode": "clarify", "response"}`. Actions are made in order, up to the first that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.homeenv.home import Home
from envs.homeenv.rooms import OUTDOORS
from envs.homeenv.sandbox import Limits, RunResult
from envs.homeenv.tools import Tool, as_schema
from envs.homeenv.toolsets.smh import ACTION, RULE_PARTS, abilities, create_automation


def serialise(home: Home) -> dict[str, Any]:
    """Everything of a home that an agent may know: rooms, devices with their state, each product's abilities once."""
    products = {device.spec.spid: abilities(home, device) for device in home.plan.devices}
    return {
        "clock": home.clock,
        "outdoors": home.state_of(OUTDOORS),
        "rooms": [
            {"id": room.id, "type": room.type, "name": room.name, "floor": room.floor, "parent": room.parent}
            | home.state_of(room.id)
            for room in home.plan.rooms
        ],
        "devices": [
            {"did": d.did, "name": d.name, "room": d.room.id, "spid": d.spec.spid, "state": home.state_of(d.did)}
            for d in home.plan.devices
        ],
        "products": products,
        "automations": [rule.describe() for rule in home.rules],
    }


def answer(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Replay an answer."""
    if arguments["mode"] == "execute":
        for action in arguments.get("actions", ()):
            home.call(action["did"], action["locator"], (), action.get("arguments", {}))
        for automation in arguments.get("automations", ()):
            create_automation(home, automation, limits)
    return RunResult(arguments.get("response", ""))


AUTOMATION = {
    "type": "object",
    "properties": {key: as_schema(part) for key, part in RULE_PARTS.items()},
    "required": ["actions"],
    "additionalProperties": False,
}
TOOLS = (
    Tool("answer", "Give the one and final answer.", {
        "mode": {"type": "string", "enum": ["execute", "clarify"], "description": "whether to act or to ask"},
        "response": "what to say to the user",
        "actions": {"type": "array", "items": ACTION, "description": "service calls, in order"},
        "automations": {"type": "array", "items": AUTOMATION, "description": "rules to create"},
    }, ("mode",), answer),
)  # fmt: skip
