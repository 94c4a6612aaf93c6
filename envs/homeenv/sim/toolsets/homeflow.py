"""The `homeflow` toolset: two queries, and Python code that acts on the home (HomeFlow A.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from homerl.envs.core.messages import Message, call_message, tool_call
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import PYEXEC
from homerl.envs.homeenv.sim.toolset import (
    READS,
    Call,
    Limits,
    Reads,
    RunResult,
    Tool,
    Toolset,
    ToolsetWriter,
    parse_turn_tool_calls,
    to_json_line,
)
from homerl.envs.homeenv.sim.values.auditor import Refused


def query_status(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """The present state of one device, or of every device of a room. Raises `Refused` if neither is named or known."""
    if did := arguments.get("did"):
        devices = [home.plan.find_device(did)]
    elif room := arguments.get("room"):
        devices = list(home.find_devices(room=home.plan.find_room(room).id))
    else:
        raise Refused("missing_argument", "query_status needs 'did' or 'room'")
    lines = [f"{d.did} {d.name}: {to_json_line(home.readable_state_of(d.did))}" for d in devices]
    return RunResult("\n".join(lines) or "no devices")


def query_spec(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """The attributes and services of a device, one per line. Raises `Refused` for an unknown device."""
    spec = home.plan.find_device(arguments["did"]).spec
    lines = [f"{path}: {attribute.describe_type()}" for path, attribute in spec.readable_attributes.items()]
    for path, compiled in spec.service_index.items():
        needs = f" (needs {compiled.service.requires})" if compiled.service.requires else ""
        lines.append(f"{path.removesuffix(compiled.service.name)}{compiled.service.signature_text()}{needs}")
    return RunResult("\n".join(lines))


TOOLS = (
    Tool("query_status", "Read the state of a device or of all devices of a room.",
         {"did": "a device id", "room": "a room's id or name"}, (), query_status, READS),
    Tool("query_spec", "Read what a device can do.", {"did": "a device id"}, ("did",), query_spec, READS),
    PYEXEC,
)  # fmt: skip


class HomeFlowWriter(ToolsetWriter):
    """Writes Python snippets and queries."""

    reads = True

    def write_calls(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """A snippet with the calls. A comment gives each device's label in the prompt, if the label is not its id."""
        lines: list[str] = []
        for device, group in groupby(calls, key=lambda call: self.home.plan.devices_by_did.get(call.did)):
            lines += [f"# {self.label(device)}"] if device and self.label(device) != device.did else []
            lines += [call.code for call in group]
        return pyexec_message("\n".join(lines))

    def look(self, did: str) -> Message:
        """A query of the device's status."""
        return call_message(tool_call("query_status", {"did": did}))

    def read(self, slots: Reads) -> Message:
        """A snippet that prints the attributes."""
        return pyexec_message("\n".join(f'print("{did}", device("{did}").{path})' for did, path in slots))

    def write_garbled_call(self, call: Call) -> Message:
        """A snippet whose bracket is not closed."""
        return pyexec_message(call.code.rstrip(")"))

    def was_made_in(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """A call was made if its text occurs in a snippet of the turn."""
        code = "".join(arguments.get("code", "") for _, arguments in parse_turn_tool_calls(turn))
        return lambda call: call.code in code


def pyexec_message(code: str) -> Message:
    """An assistant message that runs code."""
    return call_message(tool_call("pyexec", {"code": code}))


INSTRUCTION = {
    "en": """\
You run a smart home through tools, for the person who speaks to you.
Act on devices with pyexec, for example: device("1001").turn_on()
Many settings are refused while a device is off, so turn it on first. Read a device's specification with
query_spec and its state with query_status when you are unsure. Change only what was asked for. Ask when a
request fits several devices. When a request is done, say so in a few words.""",
    "zh": """\
你通过工具管理一个智能家居，为和你说话的人服务。
用 pyexec 操作设备，例如：device("1001").turn_on()
设备关着的时候，很多设置会被拒绝，所以要先打开设备。没有把握时，用 query_spec 查看设备的规格，用
query_status 查看设备的状态。只改动用户要求改动的。如果一个要求对得上好几个设备，就先问清楚。
办完之后，用一两句话告诉用户。""",
}
TOOLSET = Toolset(TOOLS, INSTRUCTION, HomeFlowWriter)
