# my_toolsets/switch.py
from collections.abc import Mapping
from typing import Any

from envs.homeenv.home import Home
from envs.homeenv.sandbox import Limits, RunResult
from envs.homeenv.tools import Tool
from envs.homeenv.toolset import Call, StructuredWriter, Toolset
from envs.messages import tool_call


def switch(home: Home, arguments: Mapping[str, Any], limits: Limits) -> RunResult:
    home.call(arguments["did"], "turn_on" if arguments["on"] else "turn_off")
    return RunResult("")


class SwitchWriter(StructuredWriter):  # a service call is one tool call
    def call(self, call: Call) -> dict[str, Any]:
        return tool_call("switch", {"did": call.did, "on": call.service == "turn_on"})


TOOLS = (Tool("switch", "Switch a device.", {"did": "a device id", "on": {"type": "boolean"}}, ("did", "on"), switch),)
TOOLSET = Toolset(TOOLS, {"en": "You switch devices with `switch`."}, SwitchWriter)
