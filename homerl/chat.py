"""How dialogues become text and text becomes messages.

Invariants: the training template is prefix-preserving; `parse_reply` never raises on sampled text;
`system_prompt` holds what an agent may know of a home (rooms, names, ids), never its state or the task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.documents import InputError, read_yaml, validate
from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.toolsets.direct import serialise
from envs.model import Model
from homerl.language import signs
from homerl.language.grammar import tight
from homerl.trajectory import Message

IM_START, IM_END = "<|im_start|>", "<|im_end|>"
CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.S)

FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.S)
HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")  # of a surrogate pair, as JSON writes it or as it is

PROMPTS = Path(__file__).parent / "prompts"


class Prompts(Model):
    """What agents are told, in one language (prompts/en.yaml)."""

    brief: str
    full: dict[str, str]
    hour: str
    rooms: str
    days: tuple[str, ...]
    between: str
    floor: str
    entrance: str
    memory: str


@lru_cache
def prompts(language: str) -> Prompts:
    """The texts of a language."""
    known = sorted(path.stem for path in PROMPTS.glob("*.yaml"))
    if language not in known:
        raise InputError(f"there are no prompts in '{language}'", "language", f"known: {', '.join(known)}")
    return validate(Prompts, read_yaml(PROMPTS / f"{language}.yaml"))


def system_prompt(devices: Iterable[Device], style: str = "brief", toolset: str = "homeflow", language: str = "en") -> str:
    """The instruction and the home's devices, one a line: `- kitchen ceiling light=1001`."""
    listed = "\n".join(f"- {label(device)}" for device in devices)
    told = prompts(language)
    return f"{told.brief if style == 'brief' else told.full[toolset]}\n{listed}"


def briefing(
    home: Home, style: str = "brief", toolset: str = "homeflow", memory: Iterable[str] = (), language: str = "en"
) -> str:
    """All that an agent is told at the start: instruction, devices, and (in full) hour, rooms, entrance; its memory.

    An agent that can make automations is told the hour in any case.

    The `direct` toolset cannot ask, so it is shown the whole home.
    """
    told = prompts(language)
    parts = [system_prompt(home.plan.devices, style, toolset, language)]
    if style == "full" or toolset != "homeflow":  # who makes automations must know the hour
        moment = datetime.fromtimestamp(home.clock, UTC)
        day = told.days[moment.weekday()]
        parts.append(told.hour.format(day=day, date=f"{moment:%Y-%m-%d}", time=f"{moment:%H:%M}"))
    if style == "full":
        parts.append(told.rooms.format(rooms=told.between.join(_placed(home, told))))
        parts += [told.entrance.format(did=home.plan.entrance)] if home.plan.entrance else []
    if known := [f"- {fact}" for fact in memory]:
        parts.append("\n".join([told.memory, *known]))
    if toolset == "direct":
        parts.append(json.dumps(serialise(home), ensure_ascii=False))
    return "\n".join(parts)


def _placed(home: Home, told: Prompts) -> Iterator[str]:
    """Room names, with their floor (0 is the lowest) where the home has several."""
    storeys = len({room.floor for room in home.plan.rooms})
    for room in home.plan.rooms:
        yield room.name if storeys == 1 else told.floor.format(room=room.name, floor=room.floor)


def plain_text(text: str) -> str:
    """The text with every half of a surrogate pair replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if HALF.search(text) else text


def parse_json(text: str) -> Any:
    """JSON as a model wrote it, its strings plain; `ValueError` or `RecursionError` like `json.loads`."""
    found = json.loads(text)
    return json.loads(plain_text(json.dumps(found, ensure_ascii=False))) if HALF.search(text) else found


def direct_answer(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """(the answer of a `direct` agent, what is malformed or None); a fence around the JSON is forgiven."""
    try:
        found = parse_json(FENCE.sub(r"\1", text.strip()))
    except (ValueError, RecursionError) as error:
        return None, f"the answer is not JSON ({_why(error)})"
    return (found, None) if isinstance(found, dict) else (None, "the answer is not a JSON object")


@dataclass(frozen=True)
class Words:
    """What a message says to the user; `claims` is what it states without what it asks, `question` whether it asks
    something back (to offer more is not to ask)."""

    text: str
    claims: str
    question: bool


def words_of(message: Message, toolset: str = "homeflow") -> Words:
    """The words of an agent's message; a `direct` agent's stand in its JSON, where its mode says if it asks."""
    content = message.get("content") or ""
    if toolset != "direct":
        return _words(content)
    answer, _ = direct_answer(content)
    text = (answer or {}).get("response")
    said = _words(text if isinstance(text, str) else "")
    return replace(said, question=(answer or {}).get("mode") == "clarify")


def _words(text: str) -> Words:
    sentences = list(filter(str.strip, signs.SENTENCE_END.split(text)))
    asking = [sentence for sentence in sentences if signs.ASKS.search(sentence.lower())]
    offers = [sentence for sentence in asking if signs.OFFERS.search(sentence.lower())]
    claims = " ".join(sentence.strip() for sentence in sentences if sentence not in asking)
    return Words(text, claims, len(asking) > len(offers))


def label(device: Device) -> str:
    """How a device is listed: `kitchen wall light=1001`, or the id alone where it says as much."""
    return device.did if device.did == device.slug else tight(f"{device.room.name} {device.name}") + f"={device.did}"


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
            return {"role": "assistant", "content": text}, f"the tool call is not the JSON asked for ({_why(error)})"
    message = {"role": "assistant", "content": CALL.sub("", text).strip(), "tool_calls": calls}
    return (message, None) if calls else ({"role": "assistant", "content": text}, "the tool call has no end")


def _why(error: Exception) -> str:
    """What is wrong; where Python's stack ended says nothing, and is another place in a replay."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _word(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError("the name must be a string")
    return name


def _object(arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, dict):
        raise TypeError("arguments must be an object")
    return arguments
