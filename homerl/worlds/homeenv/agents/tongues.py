"""How one who knows what to do says it in each toolset: calls, reads, automations and words as messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from envs.homeenv.home import Home
from homerl.play.episode import Episode
from homerl.play.messages import Message, tool_call
from homerl.worlds.homeenv.blueprints.blueprint import Automation, Call
from homerl.worlds.homeenv.language.shipped import grammar
from homerl.worlds.homeenv.messages import label, pyexec_message

Reads = Sequence[tuple[str, str]]


class Tongue(Protocol):
    """One toolset. `reads` says whether it has tools to read with."""

    reads: bool

    def act(self, calls: Sequence[Call], reply: str | None = None) -> Message: ...
    def look(self, did: str) -> Message: ...
    def read(self, slots: Reads) -> Message: ...
    def has_read(self, turn: Sequence[Message]) -> bool: ...
    def automate(self, wanted: Automation) -> Message: ...
    def say(self, text: str) -> Message: ...
    def ask(self, text: str) -> Message: ...
    def garble(self, call: Call) -> Message: ...
    def made(self, turn: Sequence[Message]) -> Callable[[Call], bool]: ...


def tongue_of(episode: Episode) -> Tongue:
    """The tongue of an episode's toolset."""
    done = grammar(episode.blueprint.language).plain("done")
    return TONGUES[episode.blueprint.toolset](episode.situation.home, done)


class Spoken:
    """Toolsets in which words are messages of their own."""

    reads = True

    def __init__(self, home: Home, done: str = "Done.") -> None:
        self.home, self.done = home, done

    def say(self, text: str) -> Message:
        return words(text)

    ask = say

    def has_read(self, turn: Sequence[Message]) -> bool:
        return any(message["role"] == "tool" for message in turn)


class HomeFlow(Spoken):
    """Python, and queries."""

    def act(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        """A snippet that writes down which device it means, as the prompt lists it, where its id does not say so."""
        lines: list[str] = []
        for device, group in groupby(calls, key=lambda call: self.home.plan.by_did.get(call.did)):
            lines += [f"# {label(device)}"] if device and label(device) != device.did else []
            lines += [call.code for call in group]
        return pyexec_message("\n".join(lines))

    def look(self, did: str) -> Message:
        return _calls(tool_call("query_status", {"did": did}))

    def read(self, slots: Reads) -> Message:
        return pyexec_message("\n".join(f'print("{did}", device("{did}").{path})' for did, path in slots))

    def automate(self, wanted: Automation) -> Message:
        raise ValueError("the toolset 'homeflow' has no automations")

    def garble(self, call: Call) -> Message:
        return pyexec_message(call.code.rstrip(")"))

    def made(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        code = "".join(arguments.get("code", "") for arguments in _arguments(turn))
        return lambda call: call.code in code


class SMH(Spoken):
    """Structured calls."""

    def act(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        return _calls(*(tool_call("control_device", action(self.home, call)) for call in calls))

    def look(self, did: str) -> Message:
        return _calls(tool_call("query_device", {"what": "status", "did": did}))

    def read(self, slots: Reads) -> Message:
        dids = dict.fromkeys(did for did, _ in slots)
        return _calls(*(tool_call("query_device", {"what": "status", "did": did}) for did in dids))

    def automate(self, wanted: Automation) -> Message:
        return _calls(tool_call("create_automation", automation(self.home, wanted)))

    def garble(self, call: Call) -> Message:
        broken = tool_call("control_device", {})
        broken["function"]["arguments"] = json.dumps(action(self.home, call), ensure_ascii=False).rstrip("}")
        return _calls(broken)

    def made(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        found = list(_arguments(turn))
        return lambda call: action(self.home, call) in found


class Direct:
    """One JSON answer."""

    reads = False

    def __init__(self, home: Home, done: str = "Done.") -> None:
        self.home, self.done = home, done

    def act(self, calls: Sequence[Call], reply: str | None = None) -> Message:
        return _answer(mode="execute", response=reply or self.done, actions=[action(self.home, call) for call in calls])

    def look(self, did: str) -> Message:
        raise ValueError("the toolset 'direct' has nothing to read with")

    def read(self, slots: Reads) -> Message:
        raise ValueError("the toolset 'direct' has nothing to read with")

    def has_read(self, turn: Sequence[Message]) -> bool:
        return True

    def automate(self, wanted: Automation) -> Message:
        return _answer(mode="execute", response=self.done, automations=[automation(self.home, wanted)])

    def say(self, text: str) -> Message:
        return words(text, direct=True)

    def ask(self, text: str) -> Message:
        return _answer(mode="clarify", response=text)

    def garble(self, call: Call) -> Message:
        message = self.act([call])
        return message | {"content": message["content"].rstrip("}")}

    def made(self, turn: Sequence[Message]) -> Callable[[Call], bool]:
        return lambda call: False


TONGUES: dict[str, Callable[[Home, str], Tongue]] = {"homeflow": HomeFlow, "smh": SMH, "direct": Direct}


def action(home: Home, call: Call) -> dict[str, Any]:
    """A call as `control_device` takes it: its arguments by name."""
    device = home.plan.by_did.get(call.did)
    service = device.spec.service_index.get(call.service) if device else None
    names = [argument.name for argument in service.service.arguments] if service else []
    names += [f"argument_{i}" for i in range(len(names), len(call.args))]
    found: dict[str, Any] = {"did": call.did, "locator": call.service}
    return found | ({"arguments": dict(zip(names, call.args))} if call.args else {})


def automation(home: Home, wanted: Automation) -> dict[str, Any]:
    """A rule as `create_automation` takes it."""
    times = {"delay_seconds": wanted.delay_seconds, "hold_seconds": wanted.hold_seconds}
    return {
        **({"conditions": list(wanted.conditions)} if wanted.conditions else {}),
        "actions": [action(home, call) for call in wanted.actions],
        **{key: seconds for key, seconds in times.items() if seconds},
    }


def words(text: str, direct: bool = False) -> Message:
    """Words to the user, in a `direct` agent's one JSON answer or as they are."""
    return _answer(mode="execute", response=text) if direct else {"role": "assistant", "content": text}


def _answer(**parts: Any) -> Message:
    return {"role": "assistant", "content": json.dumps(parts, ensure_ascii=False)}


def _calls(*calls: Mapping[str, Any]) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def _arguments(turn: Sequence[Message]):
    """The arguments of all calls that were made."""
    for message in turn:
        for call in message.get("tool_calls") or ():
            try:
                yield json.loads(call["function"]["arguments"])
            except ValueError:
                continue
