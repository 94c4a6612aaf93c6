"""The `direct` toolset: the prompt shows the whole home, and the agent gives one answer that is executed (SMH-Bench's DR).

The agent sees `serialise_home(home)` and gives one JSON object: either `{"mode": "execute", "response", "actions",
"automations"}` or `{"mode": "clarify", "response"}`. Actions are executed in order, up to the first that is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import Message, text_message
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import (
    Call,
    Limits,
    RunResult,
    Tool,
    Toolset,
    ToolsetWriter,
    WantedAutomation,
    parameter_schema,
)
from homerl.envs.homeenv.sim.toolsets.smh import (
    ACTION,
    RULE_PARTS,
    automation_to_arguments,
    call_to_action,
    create_automation,
    device_abilities,
)


def serialise_home(home: Home) -> dict[str, Any]:
    """Everything about a home that an agent may know: rooms, devices with their state, and each product's services once."""
    products = {device.spec.spid: device_abilities(home, device) for device in home.plan.devices}
    return {
        "clock": home.clock,
        "outdoors": home.state_of(OUTDOORS),
        "rooms": [
            {"id": room.id, "type": room.type, "name": room.name, "floor": room.floor, "parent": room.parent}
            | home.state_of(room.id)
            for room in home.plan.rooms
        ],
        "devices": [
            {"did": d.did, "name": d.name, "room": d.room.id, "spid": d.spec.spid, "state": home.readable_state_of(d.did)}
            for d in home.plan.devices
        ],
        "products": products,
        "automations": [rule.describe_rule() for rule in home.readable_rules],
    }


def execute_answer(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    """Execute an answer: its actions, then its automations. The output is its `response`."""
    if arguments["mode"] == "execute":
        for action in arguments.get("actions", ()):
            home.call(action["did"], action["locator"], (), action.get("arguments", {}))
        for automation in arguments.get("automations", ()):
            create_automation(home, automation, limits)
    return RunResult(arguments.get("response", ""))


AUTOMATION = {
    "type": "object",
    "properties": {key: parameter_schema(part) for key, part in RULE_PARTS.items()},
    "required": ["actions"],
    "additionalProperties": False,
}
TOOLS = (
    Tool(
        "answer",
        "Give the one and final answer.",
        {
            "mode": {"type": "string", "enum": ["execute", "clarify"], "description": "whether to act or to ask"},
            "response": "what to say to the user",
            "actions": {"type": "array", "items": ACTION, "description": "service calls, in order"},
            "automations": {"type": "array", "items": AUTOMATION, "description": "rules to create"},
        },
        ("mode",),
        execute_answer,
    ),
)


class DirectWriter(ToolsetWriter):
    """Writes messages that hold one JSON answer."""

    def write_calls(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """An answer with the calls as its actions. Its response is `reply`, or the words for "it is done"."""
        actions = [call_to_action(self.home, call) for call in calls]
        return _answer_message(mode="execute", response=reply or self.done, actions=actions)

    def automate(self, wanted: WantedAutomation) -> Message:
        """An answer that makes an automation."""
        automations = [automation_to_arguments(self.home, wanted)]
        return _answer_message(mode="execute", response=self.done, automations=automations)

    def write_reply(self, text: str) -> Message:
        """An answer with a response and no actions."""
        return _answer_message(mode="execute", response=text)

    def write_question(self, text: str) -> Message:
        """An answer that asks a question (`mode: clarify`)."""
        return _answer_message(mode="clarify", response=text)

    def write_garbled_call(self, call: Call) -> Message:
        """An answer whose JSON lacks its closing braces."""
        message = self.write_calls([call])
        return message | {"content": message["content"].rstrip("}")}

    def was_made_in(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        """Always false: an answer ends its turn, so no call has been made before it."""
        return lambda call: False


def _answer_message(**parts: Any) -> Message:
    return text_message(json.dumps(parts, ensure_ascii=False))


INSTRUCTION = {
    "en": """\
You run a smart home for the person who speaks to you. The whole home is written below.
Answer with one JSON object and nothing else. To act: {"mode": "execute", "response": what to say, "actions":
[{"did", "locator", "arguments"}], "automations": [{"conditions", "actions", "delay_seconds", "hold_seconds"}]}; leave
out what is not needed. To answer a question: the same with a response alone. To ask back: {"mode": "clarify",
"response": your question}. Many settings are refused while a device is off, so turn it on first. Conditions of
automations read device("<did>").attribute, room("<name>").temperature or home.temperature; a time is
time_cron = sec min hour day month weekday year. Change only what was asked for.""",
    "zh": """\
你为和你说话的人管理一个智能家居。整个家的情况写在下面。
只回答一个 JSON 对象，不要写别的。要执行：{"mode": "execute", "response": 要说的话, "actions":
[{"did", "locator", "arguments"}], "automations": [{"conditions", "actions", "delay_seconds", "hold_seconds"}]}；
用不到的就省略。要回答问题：同样的格式，只写 response。要反问：{"mode": "clarify", "response": 你的问题}。
设备关着的时候，很多设置会被拒绝，所以要先打开设备。自动化的条件可以读 device("<did>").attribute、
room("<name>").temperature 或 home.temperature；时间写成 time_cron = 秒 分 时 日 月 星期 年。
只改动用户要求改动的。""",
}
TOOLSET = Toolset(TOOLS, INSTRUCTION, DirectWriter, automations=True, one_answer=True, shown=serialise_home)
