"""The scripted expert: an oracle that holds the plan. It makes data and upper bounds; it is never a policy.

Invariants: candidates are a pure function of seed and dialogue, and distinct; with `mistakes` 0 every first
candidate leads to success without a refusal. Mistakes are the ones that models make, so that search has
something to prune.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from itertools import groupby, takewhile

from homerl.blueprints.blueprint import Call, Intent
from homerl.chat import label, pyexec_message, tool_call
from homerl.episode import Episode, Reply
from homerl.trajectory import Message

DONE = ("Done.", "All set.", "It is done.")


class Expert:
    """Answers from the plan of the intent that the user last spoke of.

    `styles` weighs how it works: `snippet` (all calls at once), `stepwise` (a call a message), `query_first`
    (reads the device before it acts). `mistakes` is the chance that a candidate is wrong. A `minimal` expert leaves
    out calls that would change nothing; what it sees and a policy cannot is the gap that RL has to close.
    """

    name = "expert"

    def __init__(
        self, seed: int = 0, mistakes: float = 0.0, styles: dict[str, float] | None = None, minimal: bool = False
    ) -> None:
        self.seed, self.mistakes, self.minimal = seed, mistakes, minimal
        self.styles = styles or {"snippet": 1.0}

    async def propose(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        rng = random.Random(self._fingerprint(episode))
        found: dict[str, Message] = {}
        for _ in range(4 * n):
            message = self._candidate(episode, rng)
            found.setdefault(json.dumps(message, sort_keys=True), message)
            if len(found) == n:
                break
        return [Reply(message) for message in found.values()]

    def _fingerprint(self, episode: Episode) -> str:
        text = json.dumps([self.seed, episode.blueprint.id, episode.messages])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def _candidate(self, episode: Episode, rng: random.Random) -> Message:
        intent = next(i for i in episode.blueprint.intents if i.id == episode.speaking_of)
        if intent not in episode.open_intents():
            return {"role": "assistant", "content": rng.choice(DONE)}
        if rng.random() < self.mistakes:
            return rng.choice(MISTAKES)(intent, episode, rng)
        style = rng.choices(list(self.styles), list(self.styles.values()))[0]
        todo = remaining(intent, episode)
        todo = needed(todo, episode) if self.minimal else todo
        if style == "query_first" and episode.messages[-1]["role"] == "user":
            call = tool_call("query_status", {"did": todo[0].did})
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        return _run(todo[:1] if style == "stepwise" else todo, episode)


def remaining(intent: Intent, episode: Episode) -> list[Call]:
    """The calls of the plan that were not made since the user last spoke; all of them after a refusal."""
    turn = list(takewhile(lambda m: m["role"] != "user", reversed(episode.messages)))
    made = "".join(json.loads(c["function"]["arguments"]).get("code", "") for m in turn for c in m.get("tool_calls", ()))
    return [call for call in intent.plan if call.code not in made] or list(intent.plan)


def needed(calls: list[Call], episode: Episode) -> list[Call]:
    """The calls that change something now: an oracle sees that a device is on already, a policy does not."""
    probe, kept = episode.home.fork(), []
    for call in calls:
        key = probe.state_key()
        probe.call(call.did, call.service, call.args)
        kept += [call] if probe.state_key() != key else []
    return kept or calls


def _run(calls: Sequence[Call], episode: Episode) -> Message:
    """A snippet that writes down which device it means, as the prompt lists it, where its id does not say so."""
    lines: list[str] = []
    for device, group in groupby(calls, key=lambda call: episode.home.plan.by_did.get(call.did)):
        lines += [f"# {label(device)}"] if device and label(device) != device.did else []
        lines += [call.code for call in group]
    return pyexec_message("\n".join(lines))


def _wrong_device(intent: Intent, episode: Episode, rng: random.Random) -> Message:
    others = [d.did for d in episode.home.plan.devices if d.did not in intent.devices] or ["0000"]
    other = rng.choice(others)
    return _run([call.model_copy(update={"did": other}) for call in intent.plan], episode)


def _wrong_value(intent: Intent, episode: Episode, rng: random.Random) -> Message:
    last = intent.plan[-1]
    if last.args and isinstance(last.args[0], (int, float)) and not isinstance(last.args[0], bool):
        return _run(
            [*intent.plan[:-1], last.model_copy(update={"args": (last.args[0] + rng.choice((-10, 7, 500)),)})], episode
        )
    return _wrong_device(intent, episode, rng)


def _half(intent: Intent, episode: Episode, rng: random.Random) -> Message:
    return _run(intent.plan[-1:], episode)


def _false_claim(intent: Intent, episode: Episode, rng: random.Random) -> Message:
    return {"role": "assistant", "content": rng.choice(DONE)}


def _unparsable(intent: Intent, episode: Episode, rng: random.Random) -> Message:
    return pyexec_message(intent.plan[0].code.rstrip(")"))


MISTAKES: tuple[Callable[[Intent, Episode, random.Random], Message], ...] = (
    _wrong_device, _wrong_value, _half, _false_claim, _unparsable,
)  # fmt: skip
