"""How dialogues become text and text becomes messages.

Invariants: the training template is prefix-preserving; `parse_reply` never raises on sampled text;
`system_prompt` holds what an agent may know of a home (rooms, names, ids), never its state or the task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.homeenv.home import Device
from homerl.trajectory import Message

IM_START, IM_END = "<|im_start|>", "<|im_end|>"
CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.S)

BRIEF = "You run a smart home through tools."
FULL = """You run a smart home through tools, for the person who speaks to you.
Act on devices with pyexec, for example: device("1001").turn_on()
Many settings are refused while a device is off, so turn it on first. Read a device's specification with
query_spec and its state with query_status when you are unsure. Change only what was asked for. Ask when a
request fits several devices. When a request is done, say so in a few words."""


def system_prompt(devices: Iterable[Device], style: str = "brief") -> str:
    """The instruction and the home's devices, one a line: `- kitchen ceiling light=1001`."""
    listed = "\n".join(f"- {label(device)}" for device in devices)
    return f"{BRIEF if style == 'brief' else FULL}\n{listed}"


def label(device: Device) -> str:
    """How a device is listed: `kitchen wall light=1001`, or the id alone where it says as much."""
    return device.did if device.did == device.slug else f"{device.room} {device.name}={device.did}"


@lru_cache
def chat_template(show_tools: bool = True) -> str:
    """Our training template. Models made from scratch on one toolset may leave its schemas out of the prompt."""
    text = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")
    return text.replace("SHOW_TOOLS", "true" if show_tools else "false")


def tool_call(name: str, arguments: dict[str, Any], call_id: str = "") -> dict[str, Any]:
    """A tool call in OpenAI form."""
    text = json.dumps(arguments, ensure_ascii=False)
    call = {"type": "function", "function": {"name": name, "arguments": text}}
    return {"id": call_id} | call if call_id else call


def pyexec_message(code: str) -> Message:
    """An assistant message that runs code."""
    return {"role": "assistant", "content": "", "tool_calls": [tool_call("pyexec", {"code": code})]}


def parse_reply(text: str) -> tuple[Message, str | None]:
    """(message, what is malformed or None) for sampled text without its final `<|im_end|>`."""
    text = text.strip()
    blocks = CALL.findall(text)
    if not blocks and "<tool_call" not in text:
        return {"role": "assistant", "content": text}, None
    calls = []
    for block in blocks:
        try:
            data = json.loads(block)
            call = tool_call(_word(data["name"]), _object(data["arguments"]))
            json.dumps(call, ensure_ascii=False).encode()  # half a character (a lone surrogate) cannot be stored
            calls.append(call)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return {"role": "assistant", "content": text}, f"the tool call is not the JSON asked for ({error})"
    message = {"role": "assistant", "content": CALL.sub("", text).strip(), "tool_calls": calls}
    return (message, None) if calls else ({"role": "assistant", "content": text}, "the tool call has no end")


def _word(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError("the name must be a string")
    return name


def _object(arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, dict):
        raise TypeError("arguments must be an object")
    return arguments
