"""The `homeflow` toolset: queries, and Python that acts (HomeFlow A.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.home import Home
from envs.homeenv.sandbox import Limits, RunResult, run_code
from envs.homeenv.tools import Tool, render
from envs.homeenv.types import shown


def query_status(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """The live state of one device, or of every device of a room."""
    if did := arguments.get("did"):
        if did not in home.plan.by_did:
            raise Refused("unknown_device", f"there is no device {shown(did)}")
        found = [home.plan.by_did[did]]
    elif room := arguments.get("room"):
        found = list(home.devices(room=home.plan.room(room).id))
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


TOOLS = (
    Tool("query_status", "Read the state of a device or of all devices of a room.",
         {"did": "a device id", "room": "a room's id or name"}, (), query_status),
    Tool("query_spec", "Read what a device can do.", {"did": "a device id"}, ("did",), query_spec),
    Tool("pyexec", 'Run Python against the home. device("<did>") gives a device: read its attributes, '
         "call its services; print what you want to see.", {"code": "a Python snippet"}, ("code",), pyexec),
)  # fmt: skip
