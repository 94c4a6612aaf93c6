"""The caretaker: lets an agent act in a twin of the home, and carries out in the real home what it may.

Invariants:
- The twin is made to agree with the real home before each exchange, and every call runs there first: what the twin refuses
  never reaches the real home.
- People are heard at the same time, each in a copy of the twin. One acts at a time; if somebody has acted since a copy was
  made, or the home was set up anew, its calls run again in the home as it is then, and that copy is not kept.
- In `shadow` nothing reaches the real home. In `confirm`, and for guarded devices in `act`, only what was consented to does.
- Consent is a person's next message in the same dialogue. It is good for one proposal, as it was shown, for a few minutes.
- Each exchange is in the journal before its first call is made in the real home, and again before its reply is given.
- No device is called more than `MOST_CALLS` times for one sentence: a loop of a model wears out no relay.
- No call is begun in the real home once the person has gone or has waited for `House.patience`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from homerl.envs.assistant.first import First
from homerl.envs.assistant.listing.errors import HomeAssistantError
from homerl.envs.assistant.serving.asker import Asker, GivenUp, stays
from homerl.envs.assistant.serving.caching import kept, prompt_of
from homerl.envs.assistant.serving.care import Care, Mode
from homerl.envs.assistant.serving.changes import called
from homerl.envs.assistant.serving.codes import codes_said, with_code, without_codes
from homerl.envs.assistant.serving.consent import ASKED, assents, dissents
from homerl.envs.assistant.serving.exchange import Exchange
from homerl.envs.assistant.serving.guard import Guard
from homerl.envs.assistant.serving.hands import RealHome, carry_out, settled
from homerl.envs.assistant.serving.hiding import password_fields, secrets_of, secrets_said
from homerl.envs.assistant.serving.journal import Journal, Unwritten
from homerl.envs.assistant.serving.live import Attempt, LiveSituation, Visit
from homerl.envs.assistant.serving.missed import UNFINISHED, Missed, attempts_of, left_out, missed
from homerl.envs.assistant.serving.proposals import Proposal, Waiting
from homerl.envs.assistant.serving.reading import answers, lists_of, read_lists
from homerl.envs.assistant.serving.speaker import speaking_in
from homerl.envs.assistant.serving.speaking import Aloud, Speaking, fit
from homerl.envs.assistant.serving.telling import Telling, reason
from homerl.envs.assistant.serving.texts import recent, whole
from homerl.envs.assistant.serving.words import ASK_CODE, Words, joined
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.automation import hidden_rules
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.plan import Plan
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.tasks.blueprint import PromptName
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import AgentFault, DialogueTooLong, InfraError
from homerl.play.loop import Agent, replies_from

STEPS = 8  # messages of the agent for one of the person's
SETTLE_SECONDS = 3.0  # that the real home has to become as the twin
PATIENCE_SECONDS = 60.0  # that a person waits for a reply
MOST_CALLS = 20  # of one device for one sentence

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class House:
    """How a caretaker works. `toolset` and `language` are those that the agent was trained with."""

    mode: Mode
    toolset: str
    language: str
    prompt: PromptName = "full"
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
        self.agents, self.real, self.journal, self.house, self.name = agents, real, journal, house, name
        self._guard, self._turn, self._waiting = house.guard, asyncio.Lock(), Waiting()
        self._acts = 0  # how often somebody had the turn to act, or the home was set up anew
        self._prompt: str | None = None  # of the sentence before
        self.words = Words(house.language, self.spoken)
        self._moves_into(home)

    @property
    def spoken(self) -> str:
        """The language of the home, which it tells once it is reached; that of the agent until then."""
        return (self.real and self.real.spoken) or self.house.language

    def _moves_into(self, home: Home) -> None:
        """Take a home as the one to take care of."""
        self.home = home.fork()
        self.home.rules += hidden_rules(home)
        self._guard = self._guard.knowing(home)
        self._acts += 1

    async def _renew(self) -> None:
        """Move if the home was set up anew. It is told once, so nothing may come between hearing it and moving."""
        if self.real is not None and (fresh := await self.real.renewed()) is not None:
            self._moves_into(fresh)
        self.words = Words(self.house.language, self.spoken)

    def _keep(self, home: Home, acts: int) -> None:
        """Take what was seen of the home, unless it is another one since `acts`."""
        self.home = home if acts == self._acts else self.home

    async def answer(
        self, dialogue: Sequence[Message], gone: Callable[[], Awaitable[bool]] = stays, care: Care = Care(),
        area: str | None = None, speaker: str = "", speak: Callable[[str], None] | None = None,
    ) -> str:  # fmt: skip
        """The reply to the last message of a dialogue, which is a person's. If the model fails, the reply says why.

        `gone` tells whether the person does not wait any more; who has gone gets nothing carried out. `care` is what the
        request asks for beyond the house. `area` is where the person speaks, as Home Assistant tells it, and `speaker` tells
        people apart, as far as it is known. To `speak` come the parts of the reply that may be spoken before its end.
        """
        asker = Asker(time.monotonic() + self.house.patience, gone)  # also while others have their turn
        dialogue = whole(list(dialogue))
        exchange = Exchange(str(dialogue[-1]["content"]), asker, self.home, care, area, speaker, speak)
        return await self._answer(exchange, dialogue)

    @asynccontextmanager
    async def _alone(self, exchange: Exchange) -> AsyncIterator[None]:
        """The turn to act in the real home, with the home as it is then."""
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + exchange.asker.left):
                await self._turn.acquire()
        except TimeoutError:
            raise GivenUp("others had their turn") from None
        try:
            yield
        finally:
            self._acts += 1
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
            exchange.reply = whole(exchange.speaking.whole(exchange.reply) if exchange.speaking else exchange.reply)
            self._close(exchange)
        if exchange.outcome == "asked":
            self._wait_for_consent(dialogue, exchange)
        return exchange.reply

    async def _take(self, exchange: Exchange, dialogue: Sequence[Message]) -> None:
        """Do what was said, or ask for consent; the exchange is filled."""
        codes = codes_said(dialogue, self.spoken)
        heard, code = without_codes(dialogue, codes), codes[-1]
        exchange.codes, exchange.said = {*filter(None, codes)}, heard[-1]["content"]  # first: what fails is logged too
        await exchange.asker.require()
        await self._look_at(exchange)
        waiting = self._waiting.take(dialogue[:-1], exchange.speaker)
        agrees = bool(code) or assents(exchange.said, self.spoken)
        if waiting and agrees and self._mode(exchange) != "shadow":
            exchange.guarded, exchange.missed = dict(waiting.guarded), waiting.missed
            async with self._alone(exchange):
                await self._consented(exchange, waiting, code or "")
        elif waiting and (agrees or dissents(exchange.said, self.spoken)):
            exchange.means(waiting.made)
            exchange.outcome, exchange.reply = "declined", self.words.say("declined")
        else:
            await exchange.asker.outlasts(self._play(exchange, heard))
            await self._act(exchange)

    async def _look_at(self, exchange: Exchange) -> None:
        """Let an exchange begin in the home as it is now."""
        await exchange.asker.outlasts(self._renew())
        home, acts = self.home, self._acts
        if self.real is not None:
            home = await exchange.asker.outlasts(self.real.refreshed(home))
            self._keep(home, acts)
        exchange.home, exchange.acts = speaking_in(home, exchange.area), acts
        exchange.fields = password_fields(exchange.home)

    async def _play(self, exchange: Exchange, dialogue: Sequence[Message]) -> None:
        """Let the agent act in the twin."""
        visit = Visit(self.house.toolset, self.house.language, self.house.prompt)
        situation = LiveSituation.visit(exchange.home, visit)
        episode = Episode.begin(
            situation, EpisodeLimits(turns=len(dialogue) + 1, steps=self.house.steps, steps_per_turn=self.house.steps)
        )
        episode.messages += recent(dialogue)[:-1]
        agent, spoke, tried = self.agents(), False, list[tuple[Attempt, ...]]()
        if exchange.speak and isinstance(agent, Aloud):
            exchange.speaking = Speaking(
                exchange.speak, lambda text: fit(text, episode, exchange.fields) and exchange.masked(text) == text
            )
            agent.told = exchange.speaking.hear
        exchange.kept, self._prompt = kept(self._prompt, prompt := prompt_of(episode)), prompt
        episode.hear(exchange.said)
        while episode.outcome is None and not spoke:
            if exchange.speaking:
                exchange.speaking.begin()
            (reply,) = await replies_from(agent, episode)
            exchange.codes |= secrets_said(reply, exchange.fields)
            if self.real is not None:
                needed = {*lists_of(situation.home, reply, self.house.toolset)} - exchange.lists
                await read_lists(self.real, needed, exchange.home, situation.home)
                exchange.lists |= needed
                situation.answers |= await answers(self.real, situation.home, reply)
            taken = len(situation.attempts)
            step = await episode.acts(replace(reply, message=whole(reply.message)))
            situation = cast(LiveSituation, episode.situation)  # another, where the message failed and was undone
            tried.append(attempts_of(step, situation.attempts[taken:]))
            spoke = episode.messages[-1]["role"] == "assistant"
        seen = (text for step in episode.steps for text in step.observations if step.failed)
        exchange.agent = "hassil" if isinstance(agent, First) and agent.took else ""
        exchange.codes |= secrets_of([*situation.made, *(one for one, _ in situation.refused)], exchange.fields)
        exchange.means(situation.made)
        exchange.foresees(exchange.home, situation.home)
        exchange.refusals = tuple(map(exchange.masked, seen))
        exchange.missed = missed(tried, exchange.said, exchange.home)
        if spoke:
            heard = self._telling(exchange).heard(exchange, episode.words_of(episode.messages[-1]))
            exchange.reply = exchange.masked(heard.strip())
        elif self.house.steps > 1:  # a model that was not taught to end has one step
            exchange.missed += (Missed(UNFINISHED),)

    async def _act(self, exchange: Exchange) -> None:
        """What the mode makes of what the agent did in the twin."""
        if not exchange.calls:
            exchange.outcome = "refused" if exchange.missed else "said"
            exchange.reply = self._telling(exchange).nothing_done(exchange)
            return
        did, count = Counter(one.did for one in exchange.made).most_common(1)[0]
        if count > MOST_CALLS:
            exchange.outcome = "refused"
            exchange.missed += left_out(exchange.home.plan, [one for one in exchange.made if one.did != did])
            often = self.words.say("often", device=called(exchange.home.plan, did), count=count)
            exchange.reply = joined(often, self._telling(exchange).missed(exchange))
            return
        exchange.guarded = self._needs_consent(exchange)
        if self._mode(exchange) == "shadow":
            key = "shadow" if exchange.touched else "shadow_nothing"
            exchange.outcome, exchange.reply = "shadowed", self._with_missed(exchange, key)
        elif self._mode(exchange) == "confirm" or exchange.guarded:
            self._ask(exchange, "ask_guarded" if exchange.guarded else "ask")
        else:
            async with self._alone(exchange):
                await self._do_now(exchange)

    def _mode(self, exchange: Exchange) -> Mode:
        return exchange.care.within(self.house.mode)

    def _guarding(self, exchange: Exchange) -> Guard:
        return self._guard.holding(exchange.care.guard)

    def _needs_consent(self, exchange: Exchange) -> dict[str, str]:
        return self._guarding(exchange).needs_consent(exchange.home, exchange.made, exchange.said, exchange.touched)

    async def _do_now(self, exchange: Exchange) -> None:
        """Carry out what the agent did in the twin. If somebody has acted meanwhile, it first runs in the home of now."""
        if exchange.acts != self._acts:
            shown = exchange.home.plan
            await self._look_at(exchange)
            if not await self._runs_again(exchange, shown):
                return
            if guarded := self._needs_consent(exchange):
                exchange.guarded = guarded
                self._ask(exchange, "ask_again")
                return
        await self._do(exchange)

    def _ask(self, exchange: Exchange, key: str) -> None:
        exchange.outcome, exchange.reply = "asked", self._with_missed(exchange, key)

    def _with_missed(self, exchange: Exchange, key: str) -> str:
        """A sentence about what calls do, and what the agent tried in vain."""
        coded = any(one.wants_code(exchange.home) for one in exchange.made)
        question = self.words.say(ASK_CODE if coded else "question")
        told = self.words.say(key, changes=self._shown(exchange), question=question)
        missed = self._telling(exchange).missed(exchange)
        return joined(missed, told) if told.endswith(ASKED) else joined(told, missed)  # a question is the last that is heard

    def _telling(self, exchange: Exchange) -> Telling:
        return Telling(self.words, exchange.home.plan)

    async def _consented(self, exchange: Exchange, proposal: Proposal, code: str = "") -> None:
        """Carry out a proposal, if the twin, as it is now, still allows it and shows what the person was shown."""
        exchange.means(proposal.made)
        if exchange.acts != self._acts:
            await self._look_at(exchange)
        if not await self._runs_again(exchange, proposal.plan):
            return
        if self._shown(exchange) != proposal.shown:
            exchange.guarded |= self._needs_consent(exchange)
            self._ask(exchange, "ask_again")
        else:
            if code:
                exchange.means(with_code(exchange.home, proposal.made, code))
            await self._do(exchange)

    async def _runs_again(self, exchange: Exchange, shown: Plan) -> bool:
        """Make the calls in a twin of the home as it is now; whether it takes them.

        A device that was withdrawn meanwhile is told by the name that it had in the plan that the person was `shown`.
        """
        made = exchange.made
        if self.real is not None:
            await exchange.asker.outlasts(read_lists(self.real, (one.did for one in made), exchange.home))
        twin = exchange.home.fork()
        for at, one in enumerate(made):
            try:
                twin.call(one.did, one.service, (), one.coded(twin))
            except Refused as refusal:
                exchange.outcome, exchange.refusals = "refused", (exchange.masked(str(refusal)),)
                exchange.missed = (
                    *left_out(shown, [one, *made[:at], *made[at + 1 :]], refusal.rule), *exchange.missed,
                )  # fmt: skip
                exchange.reply = self._telling(exchange).missed(exchange)
                return False
        exchange.foresees(exchange.home, twin)
        return True

    async def _do(self, exchange: Exchange) -> None:
        """Carry out calls in the real home, and compare it with the twin. The log says first that it is about to happen."""
        self._log(replace(exchange, outcome="acting", reply=""))
        assert self.real is not None
        await carry_out(self.real, exchange)
        exchange.outcome = exchange.result
        blind = ""
        try:
            self._keep(await settled(self.real, exchange, self.house.settle), exchange.acts)
        except HomeAssistantError as error:
            exchange.errors.append(str(error))
            blind = self.words.say("unseen", why=reason(error))
        exchange.reply = joined(self._telling(exchange).report(exchange), blind)

    def _fail(self, exchange: Exchange, error: BaseException, words: str) -> None:
        """End an exchange that an error has ended. What was done before is told first."""
        exchange.errors.append(str(error) or type(error).__name__)
        exchange.outcome = exchange.result
        told = self._telling(exchange).report(exchange) if exchange.done else ""
        exchange.reply = joined(told, words)

    def _wait_for_consent(self, dialogue: Sequence[Message], exchange: Exchange) -> None:
        asked = [*dialogue, {"role": "assistant", "content": exchange.reply}]
        proposal = Proposal(
            tuple(exchange.made), self._shown(exchange), exchange.guarded, exchange.missed, exchange.home.plan
        )
        self._waiting.add(asked, exchange.speaker, proposal)

    def _shown(self, exchange: Exchange) -> str:
        """What calls do, and on what automations may act then. The model reads this in the next turn."""
        touched = dict.fromkeys([*(one.did for one in exchange.made), *exchange.touched])
        led, telling = self._guarding(exchange).led_to(exchange.home, touched), self._telling(exchange)
        ends = sorted({end for found in led.values() for end in found} - touched.keys())
        return self.words.listed([telling.shown(exchange.home, exchange), *telling.perhaps(ends)])

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
        self.journal.append(exchange.entry(self._mode(exchange), exchange.agent or self.name))
