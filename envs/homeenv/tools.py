"""Toolsets: the tools an agent sees, as OpenAI function schemas, and what each does to a home.

Invariants: a tool checks its arguments against its own schema before it acts; queries change nothing;
an observation holds only what the call returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.home import Home
from envs.homeenv.sandbox import Limits, RunResult, run_code
from envs.homeenv.types import shown


@dataclass(frozen=True)
class Tool:
    """A tool: its schema's parts and `act(home, arguments, limits)`."""

    name: str
    description: str
    parameters: Mapping[str, str]
    required: tuple[str, ...]
    act: Callable[[Home, Mapping[str, Any], Limits], RunResult]

    def schema(self) -> dict[str, Any]:
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.required)}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def run(self, home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
        """Act on `home`; refusals are part of the result."""
        try:
            for name in self.required:
                if name not in arguments:
                    raise Refused("missing_argument", f"{self.name} needs '{name}'")
            for name, value in arguments.items():
                if name not in self.parameters:
                    raise Refused("unknown_argument", f"{self.name} takes no argument {shown(name)}")
                if not isinstance(value, str):
                    raise Refused("wrong_type", f"{self.name}: '{name}' must be a string")
            return self.act(home, arguments, limits)
        except Refused as refusal:
            return RunResult("", refusal)


def render(value: Any) -> str:
    """A value as agents see it: JSON."""
    return json.dumps(value, ensure_ascii=False)


def query_status(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """The live state of one device, or of every device of a room."""
    if did := arguments.get("did"):
        if did not in home.plan.by_did:
            raise Refused("unknown_device", f"there is no device {shown(did)}")
        found = [home.plan.by_did[did]]
    elif room := arguments.get("room"):
        if room not in home.plan.by_room:
            raise Refused("unknown_room", f"there is no room {shown(room)}")
        found = list(home.devices(room=room))
    else:
        raise Refused("missing_argument", "query_status needs 'did' or 'room'")
    return RunResult("\n".join(f"{d.did} {d.name}: {render(home.state_of(d.did))}" for d in found) or "no devices")


def query_spec(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """What a device's attributes and services are."""
    did = arguments["did"]
    if did not in home.plan.by_did:
        raise Refused("unknown_device", f"there is no device {shown(did)}")
    spec = home.plan.by_did[did].spec
    lines = [f"{path}: {attribute.describe()}" for path, (_, attribute) in spec.attribute_index.items()]
    for path, compiled in spec.service_index.items():
        needs = f" (needs {compiled.service.requires})" if compiled.service.requires else ""
        lines.append(f"{path.removesuffix(compiled.service.name)}{compiled.service.signature()}{needs}")
    return RunResult("\n".join(lines))


def pyexec(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Run a Python snippet in the sandbox."""
    return run_code(arguments["code"], home, limits)


TOOLSETS: dict[str, tuple[Tool, ...]] = {
    "homeflow": (
        Tool("query_status", "Read the state of a device or of all devices of a room.",
             {"did": "a device id", "room": "a room name"}, (), query_status),
        Tool("query_spec", "Read what a device can do.", {"did": "a device id"}, ("did",), query_spec),
        Tool("pyexec", 'Run Python against the home. device("<did>") gives a device: read its attributes, '
             "call its services; print what you want to see.", {"code": "a Python snippet"}, ("code",), pyexec),
    ),
}  # fmt: skip
