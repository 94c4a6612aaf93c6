"""The `smh` toolset: structured queries, service calls by locator, automations (SMH-Bench Table 16).

A locator is the path of a service within its device: `set_brightness`, `light.set_brightness`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.core.messages import Message, call_message, tool_call
from homerl.envs.homeenv.sim.automation import LONGEST_WAIT, make_rule, refuse_never_due_rule, replace_rule
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.toolset import (
    READS,
    Call,
    Limits,
    Reads,
    RunResult,
    StructuredWriter,
    Tool,
    ToolHints,
    Toolset,
    WantedAutomation,
    to_json_line,
)
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value

AUTOMATING = frozenset({"create_automation", "edit_automation", "delete_automation"})  # tools that change automations
MOST_DEVICES = 50  # most devices with state in one query, so that no observation holds a large home


def query_device(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """The devices that match (`candidates`), their attributes and services (`spec`), or their present state (`status`).

    Raises `Refused` for an unknown device or room, or if too many devices match for `spec` or `status`.
    """
    what, did, room, tags = (arguments.get(key) for key in ("what", "did", "room", "tags"))
    if did is not None:
        home.plan.find_device(did)
    devices = []
    for device in home.find_devices(room=room and home.plan.find_room(room).id):
        data = device.spec.userdata
        if did in (None, device.did) and {*data.tags, data.category, data.subcategory} >= set(tags or ()):
            devices.append(device)
    if len(devices) > MOST_DEVICES and what != "candidates":
        message = f"{len(devices)} devices match; ask for {MOST_DEVICES} at most: narrow it by room or tags"
        raise Refused("out_of_range", message)
    rows: list[dict[str, Any]] = []
    for device in devices:
        if what == "candidates":
            data = device.spec.userdata
            row: dict[str, Any] = {"name": device.name, "room": device.room.name, "category": data.category}
            row |= {"subcategory": data.subcategory, "tags": list(data.tags)}
        else:
            row = device_abilities(home, device) if what == "spec" else home.readable_state_of(device.did)
        rows.append({"did": device.did} | row)
    return RunResult(to_json_line(rows))


def device_abilities(home: Home, device: Device) -> dict[str, Any]:
    """The attributes and services of a device by locator."""
    services: dict[str, dict[str, Any]] = {}
    for path, compiled in device.spec.service_index.items():
        service = compiled.service
        taken = {a.name: a.describe_type() + ("" if a.required else "; may be left out") for a in service.arguments}
        services[path] = {"arguments": taken}
        services[path] |= {"description": service.description} if service.description else {}
        services[path] |= {"requires": service.requires} if service.requires else {}
    attributes = {path: attribute.describe_type() for path, attribute in device.spec.readable_attributes.items()}
    return {"attributes": attributes, "services": services}


def control_device(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Call one service of a device. Raises `Refused` as `Home.call` does."""
    home.call(arguments["did"], arguments["locator"], (), arguments.get("arguments", {}))
    return RunResult("")


def create_automation(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Add an automation. Raises `Refused` if it is invalid."""
    rule = make_rule(
        home,
        arguments.get("conditions", ()),
        arguments["actions"],
        arguments.get("title", ""),
        arguments.get("delay_seconds"),
        arguments.get("hold_seconds", 0),
    )
    refuse_never_due_rule(rule, home)
    home.rules = (*home.rules, rule)
    return RunResult(f"automation {rule.id} created")


def list_automations(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """All automations that agents are told of, as JSON."""
    return RunResult(to_json_line([rule.describe_rule() for rule in home.readable_rules]))


def edit_automation(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Change the given parts of an automation, which then waits for its trigger anew.

    Raises `Refused` if the automation is unknown or becomes invalid.
    """
    index, edited = _find_rule(home, arguments["id"])
    old = edited.definition
    delay, hold = arguments.get("delay_seconds"), old.hold
    # What `make_rule` would need to make the old rule again, as far as the agent has not given something else.
    kept = [text for text in old.trigger_texts if text != old.when]
    if old.at is not None and delay is None and "conditions" not in arguments:
        delay = old.at - home.clock
    elif delay is not None or "conditions" in arguments:  # a new time or condition ends the old hold
        kept, hold = [], 0
    if old.when and (delay is None or old.is_timed):
        kept.append(old.when)
    given = (old.given,) if old.given and delay is None and "conditions" not in arguments else ()
    rule = make_rule(
        home,
        arguments.get("conditions", kept),
        arguments.get("actions", edited.describe_rule()["actions"]),
        arguments.get("title", old.title),
        delay,
        arguments.get("hold_seconds", hold),
        id=old.id,
        given=given,
        of=old.of,
        most=old.most,
        restart=old.restart,
    )
    rule = rule.with_progress(enabled=arguments.get("enabled", edited.progress.enabled), fired=edited.progress.fired)
    if rule.progress.enabled or rule.definition.cron != old.cron:
        refuse_never_due_rule(rule, home)
    replace_rule(home, index, rule)
    return RunResult(f"automation {rule.id} changed")


def delete_automation(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Delete an automation. Raises `Refused` if it is unknown."""
    index, rule = _find_rule(home, arguments["id"])
    replace_rule(home, index, None)
    return RunResult(f"automation {rule.id} removed")


def _find_rule(home: Home, id: str) -> tuple[int, HomeRule]:
    for index, rule in enumerate(home.rules):
        if rule.id == id:
            return index, rule
    known = ", ".join(rule.id for rule in home.readable_rules) or "none"
    raise Refused("unknown_automation", f"there is no automation {quote_value(id)} (there is {known})")


ACTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "did": {"type": "string", "description": "a device id"},
        "locator": {"type": "string", "description": "a service, with its component: light.set_brightness"},
        "arguments": {"type": "object", "description": "the service's arguments by name"},
    },
    "required": ["did", "locator"],
    "additionalProperties": False,
}
RULE_PARTS: dict[str, str | Mapping[str, Any]] = {
    "title": "what to call it",  # not `name`, which is the tool's name in an action
    "conditions": {
        "type": "array",
        "items": {"type": "string"},
        "description": 'all must hold: device("<did>").attribute == value, room("<name>").temperature > 25, and at most '
        "one time_cron = sec min hour day month weekday year",
    },
    "actions": {"type": "array", "items": ACTION, "minItems": 1, "description": "what to do, in order"},
    "delay_seconds": {
        "type": "integer",
        "minimum": 1,
        "maximum": LONGEST_WAIT,
        "description": "act once, so many seconds from now",
    },
    "hold_seconds": {
        "type": "integer",
        "minimum": 0,
        "maximum": LONGEST_WAIT,
        "description": "how long the conditions must have held",
    },
}
TOOLS = (
    Tool("query_device", "Find devices, read what they can do, or read their state.", {
        "what": {"type": "string", "enum": ["candidates", "spec", "status"], "description": "what to read"},
        "did": "only this device",
        "room": "only devices of this room, by its id or name",
        "tags": {"type": "array", "items": {"type": "string"}, "description": "all of these tags or categories"},
    }, ("what",), query_device, READS),
    Tool("control_device", "Call a service of a device now.", ACTION["properties"], ("did", "locator"), control_device),
    Tool("create_automation", "Let the home act later, or when something happens.", RULE_PARTS, ("actions",),
         create_automation, ToolHints(destructive=False)),
    Tool("list_automations", "Read all automations.", {}, (), list_automations, READS),
    Tool("edit_automation", "Change an automation; what is left out stays.", {
        "id": "the automation", **RULE_PARTS, "enabled": {"type": "boolean", "description": "whether it acts"},
    }, ("id",), edit_automation),
    Tool("delete_automation", "Remove an automation.", {"id": "the automation"}, ("id",), delete_automation),
)  # fmt: skip


class SmhWriter(StructuredWriter):
    """Writes structured calls, queries and automations."""

    reads = True

    def call(self, call: Call) -> dict[str, Any]:
        """A call of `control_device`."""
        return tool_call("control_device", call_to_action(self.home, call))

    def look(self, did: str) -> Message:
        """A query of the device's status."""
        return call_message(tool_call("query_device", {"what": "status", "did": did}))

    def read(self, slots: Reads) -> Message:
        """A query of the status of each device."""
        dids = dict.fromkeys(did for did, _ in slots)
        return call_message(*(tool_call("query_device", {"what": "status", "did": did}) for did in dids))

    def automate(self, wanted: WantedAutomation) -> Message:
        """A call of `create_automation`."""
        return call_message(tool_call("create_automation", automation_to_arguments(self.home, wanted)))


def call_to_action(home: Home, call: Call) -> dict[str, Any]:
    """A service call in the form of `control_device`, with its arguments by name; those that are None are left out."""
    device = home.plan.devices_by_did.get(call.did)
    service = device.spec.service_index.get(call.service) if device else None
    names = [argument.name for argument in service.service.arguments] if service else []
    names += [f"argument_{i}" for i in range(len(names), len(call.args))]
    action: dict[str, Any] = {"did": call.did, "locator": call.service}
    given = {name: value for name, value in zip(names, call.args) if value is not None}
    return action | ({"arguments": given} if given else {})


def automation_to_arguments(home: Home, wanted: WantedAutomation) -> dict[str, Any]:
    """An automation in the form of `create_automation`."""
    times = {"delay_seconds": wanted.delay_seconds, "hold_seconds": wanted.hold_seconds}
    return {
        **({"conditions": list(wanted.conditions)} if wanted.conditions else {}),
        "actions": [call_to_action(home, call) for call in wanted.actions],
        **{key: seconds for key, seconds in times.items() if seconds},
    }


INSTRUCTION = {
    "en": """\
You run a smart home through tools, for the person who speaks to you.
Find devices, what they can do and their state with query_device; act with control_device, naming the service by its
locator, such as light.set_brightness. Many settings are refused while a device is off, so turn it on first. What is
to happen later or when something changes is an automation. Change only what was asked for. Ask when a request fits
several devices. Answer questions from what you have read. When a request is done, say so in a few words.""",
    "zh": """\
你通过工具管理一个智能家居，为和你说话的人服务。
用 query_device 查找设备、查看设备能做什么和它的状态；用 control_device 操作设备，用 locator 指明服务，例如
light.set_brightness。设备关着的时候，很多设置会被拒绝，所以要先打开设备。以后才发生的事，或者某个变化发生时
才做的事，要建成自动化。只改动用户要求改动的。如果一个要求对得上好几个设备，就先问清楚。回答问题要依据你读到的
内容。办完之后，用一两句话告诉用户。""",
}
TOOLSET = Toolset(TOOLS, INSTRUCTION, SmhWriter, automations=True)
