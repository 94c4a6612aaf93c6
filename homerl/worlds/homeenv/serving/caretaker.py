"""The caretaker: lets an agent act in a twin of the home, and carries out in the real home what it may.

Invariants:
- The twin is made to agree with the real home before each exchange, and every call runs there first: what the twin refuses
  never reaches the real home.
- In `shadow` nothing reaches the real home. In `confirm`, and for guarded devices in `act`, only what was consented to does.
- Consent is a person's next message in the same dialogue. It is good for one proposal, as it was shown, for a few minutes.
- Each exchange is in the journal before its first call is made in the real home, and again before its reply is given.
- No device is called more than `MOST_CALLS` times for one sentence: a loop of a model wears out no relay.
- No call is begun in the real home once the person has gone or has waited for `House.patience`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, cast

from envs.homeenv.automation import hidden_rules
from envs.homeenv.home import Home
from envs.homeenv.values.audit import Refused
from envs.messages import Message
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.translation import domain_of
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import AgentFault, DialogueTooLong, InfraError
from homerl.play.loop import Agent, replies_from
from homerl.worlds.homeenv.agents.first import First
from homerl.worlds.homeenv.blueprints.blueprint import PromptName
from homerl.worlds.homeenv.live import Attempt, LiveSituation, Made, Visit
from homerl.worlds.homeenv.serving.asker import Asker, GivenUp, stays
from homerl.worlds.homeenv.serving.changes import called, compared
from homerl.worlds.homeenv.serving.codes import code_said, wants_code, with_code
from homerl.worlds.homeenv.serving.consent import ASKED, assents, dissents
from homerl.worlds.homeenv.serving.exchange import Exchange
from homerl.worlds.homeenv.serving.guard import Guard
from homerl.worlds.homeenv.serving.hiding import HIDDEN, password_fields, secrets_of, secrets_said
from homerl.worlds.homeenv.serving.journal import Journal, Unwritten
from homerl.worlds.homeenv.serving.missed import LEFT_OUT, UNFINISHED, Missed, attempts_of, missed
from homerl.worlds.homeenv.serving.speaker import speaking_in
from homerl.worlds.homeenv.serving.telling import Telling, reason
from homerl.worlds.homeenv.serving.texts import whole
from homerl.worlds.homeenv.serving.words import Words, joined

Mode = Literal["shadow", "confirm", "act"]
STEPS = 8  # messages of the agent for one of the person's
CONSENT_SECONDS = 300
PROPOSALS = 100  # that wait for consent at most; the oldest go
SETTLE_SECONDS = 3.0  # that the real home has to become as the twin
LOOK_SECONDS = 5.0  # beyond these, in which the real home tells its states
PATIENCE_SECONDS = 60.0  # that a person waits for a reply
MOST_CALLS = 20  # of one device for one sentence
MOST_MESSAGES = 40  # of a dialogue that the agent reads; the oldest are left out

log = logging.getLogger(__name__)


class RealHome(Protocol):
    """The home outside. Both methods raise `HomeAssistantError`."""

    async def refreshed(self, twin: Home) -> Home:
        """The twin with the states that the real home has now, without the devices that it does not show any more."""

    async def carry_out(self, twin: Home, made: Made) -> None:
        """Make a call in the real home."""


@dataclass(frozen=True)
class Proposal:
    """Calls that wait for consent, as the person was shown them, and until when on the monotonic clock.

    `guarded` are the guarded devices for which the person is asked, and `missed` is what else the agent tried in vain.
    """

    made: tuple[Made, ...]
    shown: str
    until: float
    guarded: dict[str, str]
    missed: tuple[Missed, ...]


@dataclass(frozen=True)
class House:
    """How a caretaker works. `toolset` and `language` are those that the agent was trained with; `spoken` is the home's."""

    mode: Mode
    toolset: str
    language: str
    prompt: PromptName = "full"
    guard: Guard = field(default_factory=Guard)
    settle: float = SETTLE_SECONDS
    steps: int = STEPS
    patience: float = PATIENCE_SECONDS
    spoken: str = "en"


class Caretaker:
    """Answers a person, one message at a time. `agents` makes a fresh agent for each."""

    def __init__(
        self, home: Home, agents: Callable[[], Agent], real: RealHome | None, journal: Journal, house: House, name: str
    ) -> None:
        if house.mode != "shadow" and real is None:
            raise ValueError(f"the mode {house.mode} needs a real home")
        self.agents, self.real, self.journal, self.house, self.name = agents, real, journal, house, name
        self.home = home.fork()
        self.home.rules += hidden_rules(home)
        self.words = Words(house.language)
        self._guard = house.guard.knowing(home)
        self._telling = Telling(self.words, home.plan)
        self._turn, self._waiting = asyncio.Lock(), dict[str, Proposal]()

    async def answer(
        self, dialogue: Sequence[Message], gone: Callable[[], Awaitable[bool]] = stays, area: str | None = None
    ) -> str:
        """The reply to the last message of a dialogue, which is a person's. If the model fails, the reply says why.

        `area` is where the person speaks, as Home Assistant tells it. `gone` tells whether the person does not wait any
        more; who has gone gets nothing carried out.
        """
        dialogue = whole(list(dialogue))
        asker = Asker(time.monotonic() + self.house.patience, gone)  # also while others have their turn
        exchange = Exchange(str(dialogue[-1]["content"]), asker, area)
        try:
            async with asyncio.timeout(self.house.patience):
                await self._turn.acquire()
        except TimeoutError:
            self._fail(exchange, GivenUp("others had their turn"), self.words.say("late"))
            self._close(exchange)
            return exchange.reply
        try:
            return await self._answer(exchange, dialogue)
        finally:
            self._turn.release()

    async def _answer(self, exchange: Exchange, dialogue: Sequence[Message]) -> str:
        """The reply, of an exchange that is filled and logged."""
        try:
            await self._take(exchange, dialogue)
        except HomeAssistantError as error:
            self._fail(exchange, error, self.words.say("failed", why=reason(error)))
        except Unwritten as error:  # before the first call: nothing was done
            self._fail(exchange, error, self.words.say("unlogged", why=reason(error)))
        except GivenUp as error:
            self._fail(exchange, error, self.words.say("late"))
        except DialogueTooLong as error:
            self._fail(exchange, error, self.words.say("too_long"))
            log.warning("%s", error)
        except (AgentFault, InfraError) as error:
            self._fail(exchange, error, self.words.say("silent", why=reason(error)))
            log.warning("the model did not answer: %s", error)
        except asyncio.CancelledError as error:
            self._fail(exchange, error, "")
            raise
        except Exception as error:  # a fault of this program: what was done until then is logged and told all the same
            log.exception("an exchange failed")
            self._fail(exchange, error, self.words.say("broken", why=reason(error)))
        finally:
            exchange.reply = whole(exchange.reply)
            self._close(exchange)
        if exchange.outcome == "asked":
            self._wait_for_consent(dialogue, exchange)
        return exchange.reply

    async def _take(self, exchange: Exchange, dialogue: Sequence[Message]) -> None:
        """Do what was said, or ask for consent; the exchange is filled."""
        await exchange.asker.require()
        if self.real is not None:
            self.home = await exchange.asker.outlasts(self.real.refreshed(self.home))
        self.home = speaking_in(self.home, exchange.area)
        exchange.fields = password_fields(self.home)
        waiting = self._waiting.pop(_key(dialogue[:-1]), None)
        if waiting and waiting.until <= time.monotonic():
            waiting = None
        if waiting and assents(exchange.said, self.house.spoken):
            await self._consented(exchange, waiting)
        elif waiting and (code := self._code(exchange.said, waiting)):
            exchange.said = HIDDEN
            await self._consented(exchange, waiting, code)
        elif waiting and dissents(exchange.said, self.house.spoken):
            exchange.means(waiting.made)
            exchange.outcome, exchange.reply = "declined", self.words.say("declined")
        else:
            await exchange.asker.outlasts(self._play(exchange, dialogue))
            await self._act(exchange)

    async def _play(self, exchange: Exchange, dialogue: Sequence[Message]) -> None:
        """Let the agent act in the twin."""
        visit = Visit(self.house.toolset, self.house.language, self.house.prompt)
        situation = LiveSituation.visit(self.home, visit)
        episode = Episode.begin(
            situation, EpisodeLimits(turns=len(dialogue) + 1, steps=self.house.steps, steps_per_turn=self.house.steps)
        )
        episode.messages += _recent(dialogue)[:-1]
        agent, spoke, tried = self.agents(), False, list[tuple[Attempt, ...]]()
        episode.hear(exchange.said)
        while episode.outcome is None and not spoke:
            (reply,) = await replies_from(agent, episode)
            exchange.codes |= secrets_said(reply, exchange.fields)
            taken = len(situation.attempts)
            step = await episode.acts(replace(reply, message=whole(reply.message)))
            situation = cast(LiveSituation, episode.situation)  # another, where the message failed and was undone
            tried.append(attempts_of(step, situation.attempts[taken:]))
            spoke = episode.messages[-1]["role"] == "assistant"
        seen = (text for step in episode.steps for text in step.observations if step.failed)
        exchange.agent = "hassil" if isinstance(agent, First) and agent.took else ""
        exchange.codes |= secrets_of([*situation.made, *(one for one, _ in situation.refused)], exchange.fields)
        exchange.means(situation.made)
        exchange.foresees(self.home, situation.home)
        exchange.refusals = tuple(map(exchange.masked, seen))
        exchange.missed = missed(tried, exchange.said, self.home)
        if spoke:
            heard = self._telling.heard(exchange, episode.words_of(episode.messages[-1]))
            exchange.reply = exchange.masked(heard.strip())
        elif self.house.steps > 1:  # a model that was not taught to end has one step
            exchange.missed += (Missed(UNFINISHED),)

    async def _act(self, exchange: Exchange) -> None:
        """What the mode makes of what the agent did in the twin."""
        if not exchange.calls:
            exchange.outcome = "refused" if exchange.missed else "said"
            exchange.reply = self._telling.nothing_done(exchange)
            return
        did, count = Counter(one.did for one in exchange.made).most_common(1)[0]
        if count > MOST_CALLS:
            exchange.outcome = "refused"
            exchange.missed += self._left([one for one in exchange.made if one.did != did])
            often = self.words.say("often", device=called(self.home.plan, did), count=count)
            exchange.reply = joined(often, self._telling.missed(exchange))
            return
        exchange.guarded = self._guard.needs_consent(self.home, exchange.made, exchange.said, exchange.touched)
        if self.house.mode == "shadow":
            key = "shadow" if exchange.touched else "shadow_nothing"
            exchange.outcome, exchange.reply = "shadowed", self._with_missed(exchange, key)
        elif self.house.mode == "confirm" or exchange.guarded:
            coded = any(wants_code(self.home, one) for one in exchange.made)
            self._ask(exchange, "ask_code" if coded else "ask_guarded" if exchange.guarded else "ask")
        else:
            await self._do(exchange)

    def _ask(self, exchange: Exchange, key: str) -> None:
        exchange.outcome, exchange.reply = "asked", self._with_missed(exchange, key)

    def _with_missed(self, exchange: Exchange, key: str) -> str:
        """A sentence about what calls do, and what the agent tried in vain."""
        told, missed = self.words.say(key, changes=self._shown(exchange)), self._telling.missed(exchange)
        return joined(missed, told) if told.endswith(ASKED) else joined(told, missed)  # a question is the last that is heard

    def _left(self, made: Sequence[Made], rule: str = LEFT_OUT) -> tuple[Missed, ...]:
        """Calls that are not made after all: the first for this reason, the others since they were left out then.

        A device that was withdrawn meanwhile is told by the name that the person was shown.
        """
        rules = [rule, *[LEFT_OUT] * len(made)]
        return tuple(Missed.of(self._telling.plan, one.did, one.service, why) for one, why in zip(made, rules))

    def _code(self, said: str, proposal: Proposal) -> str | None:
        """The code that was said, if a call of a proposal wants one."""
        wanted = any(wants_code(self.home, one) for one in proposal.made if one.did in self.home.plan.by_did)
        return code_said(said, self.house.spoken) if wanted else None

    async def _consented(self, exchange: Exchange, proposal: Proposal, code: str = "") -> None:
        """Carry out a proposal, if the twin, as it is now, still allows it and shows what the person was shown."""
        exchange.means(proposal.made)
        exchange.guarded, exchange.missed = dict(proposal.guarded), proposal.missed
        twin = self.home.fork()
        for at, one in enumerate(proposal.made):
            try:
                twin.call(one.did, one.service, (), one.arguments)
            except Refused as refusal:
                exchange.outcome, exchange.refusals = "refused", (exchange.masked(str(refusal)),)
                others = [*proposal.made[:at], *proposal.made[at + 1 :]]
                exchange.missed = (*self._left([one, *others], refusal.rule), *proposal.missed)
                exchange.reply = self._telling.missed(exchange)
                return
        exchange.foresees(self.home, twin)
        if self._shown(exchange) != proposal.shown:
            exchange.guarded |= self._guard.needs_consent(self.home, exchange.made, exchange.said, exchange.touched)
            self._ask(exchange, "ask_again")
        else:
            if code:
                exchange.means(with_code(self.home, proposal.made, code))
            await self._do(exchange)

    async def _do(self, exchange: Exchange) -> None:
        """Carry out calls in the real home, and compare it with the twin. The log says first that it is about to happen."""
        self._log(replace(exchange, outcome="acting", reply=""))
        await self._carry_out(exchange)
        exchange.outcome = exchange.result
        blind = ""
        try:
            await self._look(exchange)
        except HomeAssistantError as error:
            exchange.errors.append(str(error))
            blind = self.words.say("unseen", why=reason(error))
        exchange.reply = joined(self._telling.report(exchange), blind)

    async def _carry_out(self, exchange: Exchange) -> None:
        """Make the calls one after the other, until one fails: the next may rest on it."""
        assert self.real is not None
        for call in exchange.calls:
            await exchange.asker.require()
            call.fate = "sent"
            try:
                await self.real.carry_out(self.home, call.made)
            except Exception as error:  # whatever it was, the calls before it stand and are to be told
                call.fate = "failed"
                exchange.errors.append(str(error) or type(error).__name__)
                return
            call.fate = "done"

    async def _look(self, exchange: Exchange) -> None:
        """Compare the real home with the twin, for as long as others may be kept waiting."""
        try:
            async with asyncio.timeout(self.house.settle + LOOK_SECONDS):
                await self._compare(exchange)
        except TimeoutError:
            raise HomeAssistantError("Home Assistant did not tell its states in time.") from None

    async def _compare(self, exchange: Exchange) -> None:
        """Look what the real home has come to, once it agrees or has had time to. Only what was done is waited for."""
        assert self.real is not None
        done, until = {one.did for one in exchange.done}, time.monotonic() + self.house.settle
        while True:
            self.home = await self.real.refreshed(self.home)
            exchange.changes = tuple(compared(change, self.home) for change in exchange.changes)
            late = any(change.differs for change in exchange.changes if exchange.outcome == "done" or change.did in done)
            if not late or time.monotonic() > until:
                return
            await asyncio.sleep(min(0.25, self.house.settle))

    def _fail(self, exchange: Exchange, error: BaseException, words: str) -> None:
        """End an exchange that an error has ended. What was done before is told first."""
        exchange.errors.append(str(error) or type(error).__name__)
        exchange.outcome = exchange.result
        told = self._telling.report(exchange) if exchange.done else ""
        exchange.reply = joined(told, words)

    def _wait_for_consent(self, dialogue: Sequence[Message], exchange: Exchange) -> None:
        key = _key([*dialogue, {"role": "assistant", "content": exchange.reply}])
        until = time.monotonic() + CONSENT_SECONDS
        self._waiting[key] = Proposal(tuple(exchange.made), self._shown(exchange), until, exchange.guarded, exchange.missed)
        while len(self._waiting) > PROPOSALS:
            del self._waiting[next(iter(self._waiting))]

    def _shown(self, exchange: Exchange) -> str:
        """What calls do, and on what automations may act then that the twin does not follow.

        What is not exposed is told by its kind alone: the model reads this in the next turn.
        """
        touched = dict.fromkeys([*(one.did for one in exchange.made), *exchange.touched])
        ends = sorted({end for found in self._guard.led_to(self.home, touched).values() for end in found} - touched.keys())
        plan = self.home.plan
        things = dict.fromkeys(called(plan, end) if end in plan.by_did else kind_of(end) for end in ends)
        perhaps = [self.words.say("perhaps", what=self.words.listed(things, "within"))] if things else []
        return self.words.listed([self._telling.shown(self.home, exchange), *perhaps])

    def _close(self, exchange: Exchange) -> None:
        """Log how an exchange ended. A log that cannot be written any more takes no answer away."""
        try:
            self._log(exchange)
        except Unwritten as error:
            log.exception("an exchange is not in the log")
            remark = self.words.say("unlogged", why=reason(error))
            if remark not in exchange.reply:
                exchange.reply = joined(exchange.reply, remark)

    def _log(self, exchange: Exchange) -> None:
        self.journal.append(exchange.entry(self.house.mode, exchange.agent or self.name))


def kind_of(entity: str) -> str:
    """What an entity is, as people write it."""
    return domain_of(entity).replace("_", " ")


def _recent(dialogue: Sequence[Message]) -> Sequence[Message]:
    """What the agent reads of a dialogue: it begins and ends with words of the person."""
    last = dialogue[-MOST_MESSAGES:]
    return last[next(at for at, message in enumerate(last) if message["role"] == "user") :]


def _key(dialogue: Sequence[Message]) -> str:
    """A hash of a dialogue so far: which conversation it is, since a request carries all of it."""
    said = [(message["role"], message["content"]) for message in dialogue]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()
