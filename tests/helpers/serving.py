"""An agent that says what a test gives it, and a simulated home that stands for the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange_journal import AgentJournal, RequestCare
from homerl.envs.assistant.serving.home_words import HomeWords
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.play.situation import Observation, Reply


def device_of(home: Home, category: str):
    return next(device for device in home.plan.devices if device.spec.category == category)


def call_of(did: str, locator: str, **arguments: Any) -> Message:
    return call_message(tool_call("control_device", {"did": did, "locator": locator, "arguments": arguments}))


class Says:
    """An agent that says these messages in turn, whatever it is asked."""

    name = "script"

    def __init__(self, *messages: Message | str) -> None:
        self.messages = [text_message(one) if isinstance(one, str) else one for one in messages]
        self.heard: list[Observation] = []

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        self.heard.append(observation)
        return [Reply(self.messages.pop(0))]


@dataclass
class OtherHome:
    """A real home that is itself simulated. `ignored` devices do not react, `broken` ones fail."""

    home: Home
    made: list[TwinCall] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    spoken: str | None = None
    words: HomeWords = field(default_factory=HomeWords)

    async def take_renewed_home(self) -> None:
        """It is set up once."""

    async def refresh_twin(self, twin: Home) -> Home:
        fresh = twin.fork()
        for slot, value in enumerate(self.home.values):
            fresh.write_slot(slot, value)
        return fresh

    async def ask_service(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        """What stands on a list; nothing else can be asked."""
        kinds = ("needs_action", "completed")
        return {
            did: {"items": [{"summary": one, "status": kind} for kind in kinds for one in self.home.read_value(did, kind)]}
        }

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        self.made.append(made)
        if made.did in self.broken:
            raise HomeAssistantError(f"{made.did} does not answer. Is it plugged in?")
        if made.did not in self.ignored:
            try:
                self.home.call(made.did, made.service, (), made.arguments)
            except Refused as refusal:
                raise HomeAssistantError(str(refusal)) from None


@dataclass
class Served:
    """A caretaker with everything around it."""

    caretaker: Caretaker
    real: OtherHome
    journal: AgentJournal
    dialogue: list[Message] = field(default_factory=list)

    def say(self, text: str, care: RequestCare = RequestCare()) -> str:
        """Say something in the dialogue; the reply."""
        self.dialogue.append({"role": "user", "content": text})
        reply = asyncio.run(self.caretaker.answer_dialogue(self.dialogue, care=care))
        self.dialogue.append({"role": "assistant", "content": reply})
        return reply


def serve_home(
    home: Home, agent: Any, folder: Path, mode: str = "act", toolset: str = "smh", language: str = "en", real: Any = None,
    **settings: Any,
) -> Served:  # fmt: skip
    """An agent, or agents of a factory, in a home, with a log in a folder; the real home is a copy unless it is given.

    What the words may not mean is done, so that tests of anything else need no words for it.
    """
    real, journal = real or OtherHome(home.fork()), AgentJournal(folder / "agent.jsonl")
    agents = agent if callable(agent) else lambda: agent
    house = CaretakerSettings(mode, toolset, language, **{"settle": 0.05, "ask_unclear": False, **settings})
    return Served(Caretaker(home, agents, real, journal, house, "script"), real, journal)


def state(served: Served, device: Device) -> str:
    """The state of a device in the real home."""
    return str(served.real.home.read_value(device.did, "state"))
