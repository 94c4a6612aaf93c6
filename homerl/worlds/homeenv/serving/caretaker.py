"""The caretaker: lets an agent act in a twin of the home, and carries out in the real home what it may.

Invariants:
- The twin is made to agree with the real home before each exchange, and every call runs there first: what the twin refuses
  never reaches the real home.
- In `shadow` nothing reaches the real home. In `confirm`, and for guarded devices in `act`, only what was consented to does.
- Consent is a person's next message in the same dialogue, and is good for one proposal and for a few minutes.
- Each exchange is in the journal before its reply is given.
- No call is begun in the real home once the person has gone or has waited for `House.patience`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from envs.homeenv.audit import Refused
from envs.homeenv.home import Home
from envs.homeenv.plan import Plan
from envs.messages import Message
from homerl.homeassistant.errors import HomeAssistantError
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import AgentFault, InfraError
from homerl.play.loop import Agent, replies_from
from homerl.worlds.homeenv.live import LiveSituation, Made, Visit
from homerl.worlds.homeenv.serving.asker import Asker, GivenUp, stays
from homerl.worlds.homeenv.serving.guard import Guard
from homerl.worlds.homeenv.serving.journal import CallRecord, ChangeRecord, Entry, Journal, Outcome
from homerl.worlds.homeenv.serving.words import Words

Mode = Literal["shadow", "confirm", "act"]
STEPS = 8  # messages of the agent for one of the person's
CONSENT_SECONDS = 300
PROPOSALS = 100  # that wait for consent at most; the oldest go
SETTLE_SECONDS = 3.0  # that the real home has to become as the twin
PATIENCE_SECONDS = 60.0  # that a person waits for a reply
MOST_MESSAGES = 40  # of a dialogue that the agent reads; the oldest are left out
TRAVEL_SECONDS = 120  # after which what moves in the twin, such as a cover, has arrived


class RealHome(Protocol):
    """The home outside. Both methods raise `HomeAssistantError`."""

    async def refreshed(self, twin: Home) -> Home:
        """The twin with the states that the real home has now."""

    async def carry_out(self, twin: Home, made: Made) -> None:
        """Make a call in the real home."""


@dataclass(frozen=True)
class Proposal:
    """Calls that wait for consent, and until when on the monotonic clock."""

    made: tuple[Made, ...]
    until: float


@dataclass(frozen=True)
class Exchange:
    """What came of one message of a person."""

    said: str
    reply: str = ""
    outcome: Outcome = "said"
    made: tuple[Made, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    refusals: tuple[str, ...] = ()
    guarded: dict[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class House:
    """How a caretaker works. `toolset` and `language` are those that the agent was trained with."""

    mode: Mode
    toolset: str
    language: str
    prompt: Literal["brief", "full"] = "full"
    guard: Guard = field(default_factory=Guard)
    settle: float = SETTLE_SECONDS
    steps: int = STEPS
    patience: float = PATIENCE_SECONDS


class Caretaker:
    """Answers a person, one message at a time. `agents` makes a fresh agent for each."""

    def __init__(
        self, home: Home, agents: Callable[[], Agent], real: RealHome | None, journal: Journal, house: House, name: str
    ) -> None:
        if house.mode != "shadow" and real is None:
            raise ValueError(f"the mode {house.mode} needs a real home")
        self.home, self.agents, self.real, self.journal, self.house, self.name = home, agents, real, journal, house, name
        self.words = Words(house.language)
        self._turn, self._waiting = asyncio.Lock(), dict[str, Proposal]()

    async def answer(self, dialogue: Sequence[Message], gone: Callable[[], Awaitable[bool]] = stays) -> str:
        """The reply to the last message of a dialogue, which is a person's. Raises `InfraError` if the model fails.

        `gone` tells whether the person does not wait any more; who has gone gets nothing carried out.
        """
        asker = Asker(time.monotonic() + self.house.patience, gone)  # also while others have their turn
        async with self._turn:
            begun, said = time.monotonic(), str(dialogue[-1]["content"])
            try:
                exchange = await self._exchange(dialogue, said, asker)
            except HomeAssistantError as error:
                exchange = Exchange(said, self.words.say("failed", why=error), "failed", error=str(error))
            except GivenUp as error:
                exchange = Exchange(said, self.words.say("late"), "failed", error=str(error))
            except AgentFault as error:
                exchange = Exchange(said, self.words.say("unable"), "failed", error=str(error))
            except InfraError as error:
                self.journal.append(self._entry(Exchange(said, "", "failed", error=str(error)), time.monotonic() - begun))
                raise
            self.journal.append(self._entry(exchange, time.monotonic() - begun))
            if exchange.outcome == "asked":
                self._wait_for_consent(dialogue, exchange)
            return exchange.reply

    async def _exchange(self, dialogue: Sequence[Message], said: str, asker: Asker) -> Exchange:
        await asker.require()
        if self.real is not None:
            self.home = await asker.outlasts(self.real.refreshed(self.home))
        waiting = self._waiting.pop(_key(dialogue[:-1]), None)
        if waiting and waiting.until > time.monotonic():
            if self.words.assents(said):
                return await self._consented(waiting, said, asker)
            if self.words.dissents(said):
                return Exchange(said, self.words.say("declined"), "declined", waiting.made)
        return await self._acted(await asker.outlasts(self._played(dialogue)), asker)

    async def _played(self, dialogue: Sequence[Message]) -> Exchange:
        """Let the agent act in the twin."""
        visit = Visit(self.house.toolset, self.house.language, self.house.prompt)
        situation = LiveSituation.visit(self.home, visit)
        episode = Episode.begin(
            situation, EpisodeLimits(turns=len(dialogue) + 1, steps=self.house.steps, steps_per_turn=self.house.steps)
        )
        episode.messages += _recent(dialogue)[:-1]
        said, agent = str(dialogue[-1]["content"]), self.agents()
        episode.hear(said)
        spoke = False
        while episode.outcome is None and not spoke:
            (reply,) = await replies_from(agent, episode)
            episode.act(reply)
            spoke = episode.messages[-1]["role"] == "assistant"
        seen = [text for step in episode.steps for text in step.observations if step.facts.blocked or step.facts.error]
        words = episode.words_of(episode.messages[-1]).text.strip() if spoke else ""
        made = tuple(situation.made)
        return Exchange(said, words, "said", made, changes_of(self.home, situation.home), tuple(seen))

    async def _acted(self, played: Exchange, asker: Asker) -> Exchange:
        """What the mode makes of what the agent did in the twin."""
        if not played.made:
            refused = "refused" if played.refusals else "said"
            return replace(played, outcome=refused, reply=played.reply or self._unable(played))
        guarded = self.house.guard.needs_consent(self.home, played.made, played.said)
        if self.house.mode == "shadow":
            key = "shadow" if played.changes else "shadow_nothing"
            reply = self.words.say(key, changes=self._shown(played.made, played.changes))
            return replace(played, outcome="shadowed", reply=reply, guarded=guarded)
        if self.house.mode == "confirm" or guarded:
            key = "ask_guarded" if guarded else "ask"
            reply = self.words.say(key, changes=self._shown(played.made, played.changes))
            return replace(played, outcome="asked", reply=reply, guarded=guarded)
        return await self._done(played, asker)

    async def _consented(self, proposal: Proposal, said: str, asker: Asker) -> Exchange:
        """Carry out a proposal, if the twin, as it is now, still allows it."""
        twin = self.home.fork()
        try:
            for one in proposal.made:
                twin.call(one.did, one.service, (), one.arguments)
        except Refused as refusal:
            why = self.words.say("refused", why=refusal.message)
            return Exchange(said, why, "refused", proposal.made, refusals=(str(refusal),))
        return await self._done(Exchange(said, "", "done", proposal.made, changes_of(self.home, twin)), asker)

    async def _done(self, meant: Exchange, asker: Asker) -> Exchange:
        """Carry out calls in the real home, and compare it with the twin."""
        assert self.real is not None
        try:
            for one in meant.made:
                await asker.require()
                await self.real.carry_out(self.home, one)
        except (HomeAssistantError, GivenUp) as error:
            self.home = await self.real.refreshed(self.home)
            return replace(meant, outcome="failed", reply=self.words.say("failed", why=error), error=str(error))
        changes = await self._compared(meant.changes)
        reply = meant.reply or self.words.say("done")
        if wrong := [change for change in changes if change.differs and _asked_for(change, meant.made)]:
            reply += " " + self.words.say("differs", changes="; ".join(self._is(change) for change in wrong))
        return replace(meant, outcome="done", reply=reply, changes=changes)

    async def _compared(self, changes: Sequence[ChangeRecord]) -> tuple[ChangeRecord, ...]:
        """The changes with what the real home has come to, once it agrees or has had time to."""
        assert self.real is not None
        until = time.monotonic() + self.house.settle
        while True:
            self.home = await self.real.refreshed(self.home)
            compared = tuple(_compare(change, self.home) for change in changes)
            if not any(change.differs for change in compared) or time.monotonic() > until:
                return compared
            await asyncio.sleep(min(0.25, self.house.settle))

    def _wait_for_consent(self, dialogue: Sequence[Message], exchange: Exchange) -> None:
        key = _key([*dialogue, {"role": "assistant", "content": exchange.reply}])
        self._waiting[key] = Proposal(exchange.made, time.monotonic() + CONSENT_SECONDS)
        while len(self._waiting) > PROPOSALS:
            del self._waiting[next(iter(self._waiting))]

    def _unable(self, played: Exchange) -> str:
        if not played.refusals:
            return self.words.say("unable")
        _, _, why = played.refusals[-1].removeprefix("refused: ").partition(": ")
        return self.words.say("refused", why=why or played.refusals[-1])

    def _shown(self, made: Sequence[Made], changes: Sequence[ChangeRecord]) -> str:
        """Changes that were asked for in words; calls whose effect the twin does not show are named by their service."""
        changed = {change.did for change in changes}
        unseen = [one for one in made if one.did not in changed]
        main = [change for change in changes if _asked_for(change, made)]
        changes = [c for c in changes if c in main or c.did not in {one.did for one in main}]
        shown = [
            self.words.say("change", device=c.device, path=_plain(c.path), before=_value(c.before), after=_value(c.after))
            for c in changes
        ]
        shown += [
            self.words.say("action", device=called(self.home.plan, one.did), service=_plain(one.service)) for one in unseen
        ]
        return "; ".join(shown)

    def _is(self, change: ChangeRecord) -> str:
        return self.words.say("is", device=change.device, path=_plain(change.path), actual=_value(change.actual))

    def _entry(self, exchange: Exchange, seconds: float) -> Entry:
        return Entry(
            time=datetime.now(UTC), mode=self.house.mode, agent=self.name, said=exchange.said, reply=exchange.reply,
            outcome=exchange.outcome, changes=exchange.changes, refusals=exchange.refusals, guarded=exchange.guarded,
            calls=tuple(CallRecord(did=m.did, service=m.service, arguments=dict(m.arguments)) for m in exchange.made),
            error=exchange.error, seconds=round(seconds, 3),
        )  # fmt: skip


def changes_of(before: Home, after: Home) -> tuple[ChangeRecord, ...]:
    """What differs between two states of a home, of its devices alone, without what devices keep to themselves."""
    plan, later = before.plan, after.fork()
    later.advance(TRAVEL_SECONDS)
    return tuple(
        ChangeRecord(
            did=slot.owner, device=called(plan, slot.owner), path=slot.path, before=one.before, after=one.after,
            settled=later.values[one.slot],
        )
        for one in before.diff(after)
        if (slot := plan.slots[one.slot]).owner in plan.by_did and not getattr(slot.type, "internal", False)
    )  # fmt: skip


def called(plan: Plan, did: str) -> str:
    """The name of a device, with its room if another device has the same name."""
    device = plan.by_did[did]
    alike = sum(other.name == device.name for other in plan.devices) > 1
    return f"{device.room.name} {device.name}" if alike else device.name


def _compare(change: ChangeRecord, home: Home) -> ChangeRecord:
    actual = home.get(change.did, change.path)
    same = actual in (change.after, change.settled)
    return change.model_copy(update={"actual": None if same else actual, "differs": not same})


def _asked_for(change: ChangeRecord, made: Sequence[Made]) -> bool:
    """Whether a change is the main one of its device, or what a call named. What follows from it is in the log alone."""
    name = change.path.rpartition(".")[2]
    return name == "state" or any(one.did == change.did and name in one.arguments for one in made)


def _recent(dialogue: Sequence[Message]) -> Sequence[Message]:
    """What the agent reads of a dialogue: it begins and ends with words of the person."""
    last = dialogue[-MOST_MESSAGES:]
    return last[next(at for at, message in enumerate(last) if message["role"] == "user") :]


def _key(dialogue: Sequence[Message]) -> str:
    """A hash of a dialogue so far: which conversation it is, since a request carries all of it."""
    said = [(message["role"], message["content"]) for message in dialogue]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()


def _plain(path: str) -> str:
    return path.replace("_", " ").replace(".", " ")


def _value(value: Any) -> str:
    return "nothing" if value is None else str(value)
