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

from homerl.envs.assistant.first import MatcherFirst
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.serving.agent_journal import AgentJournal, JournalWriteError
from homerl.envs.assistant.serving.agent_request import (
    Asker,
    AskerGone,
    Mode,
    RequestCare,
    cached_prompt_share,
    never_gone,
    place_speaker,
    prompt_before_dialogue,
    recent_messages,
    replace_lone_surrogates,
)
from homerl.envs.assistant.serving.call_effects import spoken_device_name
from homerl.envs.assistant.serving.consent_answers import (
    ASKED,
    Proposal,
    WaitingProposals,
    fill_in_code,
    find_spoken_codes,
    hide_spoken_codes,
    is_consent,
    is_refusal,
)
from homerl.envs.assistant.serving.consent_guard import Guard
from homerl.envs.assistant.serving.exchange import Exchange
from homerl.envs.assistant.serving.live_situation import LiveBlueprint, LiveSituation, ToolAttempt
from homerl.envs.assistant.serving.missed_actions import (
    UNFINISHED,
    MissedAction,
    attempts_in_step,
    find_missed_actions,
    left_out_calls,
)
from homerl.envs.assistant.serving.real_home import (
    RealHome,
    carry_out_exchange,
    read_call_answers,
    read_todo_lists,
    todo_lists_needed,
    wait_until_settled,
)
from homerl.envs.assistant.serving.reply_streaming import SentenceSpeaker, StreamingAgent, is_speakable
from homerl.envs.assistant.serving.reply_text import ASK_CODE, ReplyPhrases, ReplyWriter, join_sentences, spoken_error
from homerl.envs.assistant.serving.secret_masking import find_password_fields, secrets_in_calls, secrets_in_reply
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.sim.automation import make_hidden_rules
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.fixed_plan import FixedPlan
from homerl.envs.homeenv.sim.values.auditor import Refused
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
class CaretakerSettings:
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
        self,
        home: Home,
        agents: Callable[[], Agent],
        real: RealHome | None,
        journal: AgentJournal,
        house: CaretakerSettings,
        name: str,
    ) -> None:
        if house.mode != "shadow" and real is None:
            raise ValueError(f"the mode {house.mode} needs a real home")
        self.agents, self.real, self.journal, self.house, self.name = agents, real, journal, house, name
        self._guard, self._turn, self._waiting = house.guard, asyncio.Lock(), WaitingProposals()
        self._acts = 0  # how often somebody had the turn to act, or the home was set up anew
        self._prompt: str | None = None  # of the sentence before
        self.words = ReplyPhrases(house.language, self.spoken_language)
        self._moves_into(home)

    @property
    def spoken_language(self) -> str:
        """The language of the home, which it tells once it is reached; that of the agent until then."""
        return (self.real and self.real.spoken) or self.house.language

    def _moves_into(self, home: Home) -> None:
        """Take a home as the one to take care of."""
        self.home = home.fork()
        self.home.rules += make_hidden_rules(home)
        self._guard = self._guard.with_known_home(home)
        self._acts += 1

    async def _renew(self) -> None:
        """Move if the home was set up anew. It is told once, so nothing may come between hearing it and moving."""
        if self.real is not None and (fresh := await self.real.take_renewed_home()) is not None:
            self._moves_into(fresh)
        self.words = ReplyPhrases(self.house.language, self.spoken_language)

    def _keep(self, home: Home, acts: int) -> None:
        """Take what was seen of the home, unless it is another one since `acts`."""
        self.home = home if acts == self._acts else self.home

    async def answer_dialogue(
        self, dialogue: Sequence[Message], gone: Callable[[], Awaitable[bool]] = never_gone,
        care: RequestCare = RequestCare(), area: str | None = None, speaker: str = "",
        speak: Callable[[str], None] | None = None,
    ) -> str:  # fmt: skip
        """The reply to the last message of a dialogue, which is a person's. If the model fails, the reply says why.

        `gone` tells whether the person does not wait any more; who has gone gets nothing carried out. `care` is what the
        request asks for beyond the house. `area` is where the person speaks, as Home Assistant tells it, and `speaker` tells
        people apart, as far as it is known. To `speak` come the parts of the reply that may be spoken before its end.
        """
        asker = Asker(time.monotonic() + self.house.patience, gone)  # also while others have their turn
        dialogue = replace_lone_surrogates(list(dialogue))
        exchange = Exchange(str(dialogue[-1]["content"]), asker, self.home, care, area, speaker, speak)
        return await self._answer(exchange, dialogue)

    @asynccontextmanager
    async def _alone(self, exchange: Exchange) -> AsyncIterator[None]:
        """The turn to act in the real home, with the home as it is then."""
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + exchange.asker.remaining_seconds):
                await self._turn.acquire()
        except TimeoutError:
            raise AskerGone("others had their turn") from None
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
            self._fail(exchange, error, self.words.fill_phrase("failed", why=spoken_error(error)))
        except JournalWriteError as error:  # before the first call: nothing was done
            self._fail(exchange, error, self.words.fill_phrase("unlogged", why=spoken_error(error)))
        except AskerGone as error:
            self._fail(exchange, error, self.words.fill_phrase("late"))
        except DialogueTooLong as error:
            self._fail(exchange, error, self.words.fill_phrase("too_long"))
            log.warning("%s", error)
        except (AgentFault, InfraError) as error:
            self._fail(exchange, error, self.words.fill_phrase("silent", why=spoken_error(error)))
            log.warning("the model did not answer: %s", error)
        except asyncio.CancelledError as error:
            self._fail(exchange, error, "")
            raise
        except Exception as error:  # a fault of this program: what was done until then is logged and told all the same
            log.exception("an exchange failed")
            self._fail(exchange, error, self.words.fill_phrase("broken", why=spoken_error(error)))
        finally:
            exchange.reply = replace_lone_surrogates(
                exchange.speaking.complete_reply(exchange.reply) if exchange.speaking else exchange.reply
            )
            self._close(exchange)
        if exchange.outcome == "asked":
            self._wait_for_consent(dialogue, exchange)
        return exchange.reply

    async def _take(self, exchange: Exchange, dialogue: Sequence[Message]) -> None:
        """Do what was said, or ask for consent; the exchange is filled."""
        codes = find_spoken_codes(dialogue, self.spoken_language)
        heard, code = hide_spoken_codes(dialogue, codes), codes[-1]
        exchange.codes, exchange.said = {*filter(None, codes)}, heard[-1]["content"]  # first: what fails is logged too
        await exchange.asker.require_waiting()
        await self._look_at(exchange)
        waiting = self._waiting.take_proposal(dialogue[:-1], exchange.speaker)
        agrees = bool(code) or is_consent(exchange.said, self.spoken_language)
        if waiting and agrees and self._mode(exchange) != "shadow":
            exchange.guarded, exchange.missed = dict(waiting.guarded), waiting.missed
            async with self._alone(exchange):
                await self._consented(exchange, waiting, code or "")
        elif waiting and (agrees or is_refusal(exchange.said, self.spoken_language)):
            exchange.plan_calls(waiting.made)
            exchange.outcome, exchange.reply = "declined", self.words.fill_phrase("declined")
        else:
            await exchange.asker.run_while_waiting(self._play(exchange, heard))
            await self._act(exchange)

    async def _look_at(self, exchange: Exchange) -> None:
        """Let an exchange begin in the home as it is now."""
        await exchange.asker.run_while_waiting(self._renew())
        home, acts = self.home, self._acts
        if self.real is not None:
            home = await exchange.asker.run_while_waiting(self.real.refresh_twin(home))
            self._keep(home, acts)
        exchange.home, exchange.acts = place_speaker(home, exchange.area), acts
        exchange.fields = find_password_fields(exchange.home)

    async def _play(self, exchange: Exchange, dialogue: Sequence[Message]) -> None:
        """Let the agent act in the twin."""
        visit = LiveBlueprint(self.house.toolset, self.house.language, self.house.prompt)
        situation = LiveSituation.begin_visit(exchange.home, visit)
        episode = Episode.from_situation(
            situation, EpisodeLimits(turns=len(dialogue) + 1, steps=self.house.steps, steps_per_turn=self.house.steps)
        )
        episode.messages += recent_messages(dialogue)[:-1]
        agent, spoke, tried = self.agents(), False, list[tuple[ToolAttempt, ...]]()
        if exchange.speak and isinstance(agent, StreamingAgent):
            exchange.speaking = SentenceSpeaker(
                exchange.speak,
                lambda text: is_speakable(text, episode, exchange.fields) and exchange.mask_text(text) == text,
            )
            agent.told = exchange.speaking.hear_text
        exchange.kept, self._prompt = cached_prompt_share(self._prompt, prompt := prompt_before_dialogue(episode)), prompt
        episode.add_utterance(exchange.said)
        while episode.outcome is None and not spoke:
            if exchange.speaking:
                exchange.speaking.start_message()
            (reply,) = await replies_from(agent, episode)
            exchange.codes |= secrets_in_reply(reply, exchange.fields)
            if self.real is not None:
                needed = {*todo_lists_needed(situation.home, reply, self.house.toolset)} - exchange.lists
                await read_todo_lists(self.real, needed, exchange.home, situation.home)
                exchange.lists |= needed
                situation.answers |= await read_call_answers(self.real, situation.home, reply)
            taken = len(situation.attempts)
            step = await episode.apply_reply_async(replace(reply, message=replace_lone_surrogates(reply.message)))
            situation = cast(LiveSituation, episode.situation)  # another, where the message failed and was undone
            tried.append(attempts_in_step(step, situation.attempts[taken:]))
            spoke = episode.messages[-1]["role"] == "assistant"
        seen = (text for step in episode.steps for text in step.observations if step.has_failed)
        exchange.agent = "hassil" if isinstance(agent, MatcherFirst) and agent.took else ""
        exchange.codes |= secrets_in_calls(
            [*situation.made_calls, *(one for one, _ in situation.refused_calls)], exchange.fields
        )
        exchange.plan_calls(situation.made_calls)
        exchange.foresee_changes(exchange.home, situation.home)
        exchange.refusals = tuple(map(exchange.mask_text, seen))
        exchange.missed = find_missed_actions(tried, exchange.said, exchange.home)
        if spoke:
            heard = self._telling(exchange).audible_words(exchange, episode.spoken_words_of(episode.messages[-1]))
            exchange.reply = exchange.mask_text(heard.strip())
        elif self.house.steps > 1:  # a model that was not taught to end has one step
            exchange.missed += (MissedAction(UNFINISHED),)

    async def _act(self, exchange: Exchange) -> None:
        """What the mode makes of what the agent did in the twin."""
        if not exchange.calls:
            exchange.outcome = "refused" if exchange.missed else "said"
            exchange.reply = self._telling(exchange).reply_without_calls(exchange)
            return
        did, count = Counter(one.did for one in exchange.made_calls).most_common(1)[0]
        if count > MOST_CALLS:
            exchange.outcome = "refused"
            exchange.missed += left_out_calls(exchange.home.plan, [one for one in exchange.made_calls if one.did != did])
            often = self.words.fill_phrase("often", device=spoken_device_name(exchange.home.plan, did), count=count)
            exchange.reply = join_sentences(often, self._telling(exchange).describe_missed_actions(exchange))
            return
        exchange.guarded = self._needs_consent(exchange)
        if self._mode(exchange) == "shadow":
            key = "shadow" if exchange.touched_dids else "shadow_nothing"
            exchange.outcome, exchange.reply = "shadowed", self._with_missed(exchange, key)
        elif self._mode(exchange) == "confirm" or exchange.guarded:
            self._ask(exchange, "ask_guarded" if exchange.guarded else "ask")
        else:
            async with self._alone(exchange):
                await self._do_now(exchange)

    def _mode(self, exchange: Exchange) -> Mode:
        return exchange.care.limit_mode(self.house.mode)

    def _guarding(self, exchange: Exchange) -> Guard:
        return self._guard.with_held_devices(exchange.care.guard)

    def _needs_consent(self, exchange: Exchange) -> dict[str, str]:
        return self._guarding(exchange).needs_consent(
            exchange.home, exchange.made_calls, exchange.said, exchange.touched_dids
        )

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
        coded = any(one.needs_code(exchange.home) for one in exchange.made_calls)
        question = self.words.fill_phrase(ASK_CODE if coded else "question")
        told = self.words.fill_phrase(key, changes=self._shown(exchange), question=question)
        missed = self._telling(exchange).describe_missed_actions(exchange)
        return (
            join_sentences(missed, told) if told.endswith(ASKED) else join_sentences(told, missed)
        )  # a question is the last that is heard

    def _telling(self, exchange: Exchange) -> ReplyWriter:
        return ReplyWriter(self.words, exchange.home.plan)

    async def _consented(self, exchange: Exchange, proposal: Proposal, code: str = "") -> None:
        """Carry out a proposal, if the twin, as it is now, still allows it and shows what the person was shown."""
        exchange.plan_calls(proposal.made)
        if exchange.acts != self._acts:
            await self._look_at(exchange)
        if not await self._runs_again(exchange, proposal.plan):
            return
        if self._shown(exchange) != proposal.shown:
            exchange.guarded |= self._needs_consent(exchange)
            self._ask(exchange, "ask_again")
        else:
            if code:
                exchange.plan_calls(fill_in_code(exchange.home, proposal.made, code))
            await self._do(exchange)

    async def _runs_again(self, exchange: Exchange, shown: FixedPlan) -> bool:
        """Make the calls in a twin of the home as it is now; whether it takes them.

        A device that was withdrawn meanwhile is told by the name that it had in the plan that the person was `shown`.
        """
        made = exchange.made_calls
        if self.real is not None:
            await exchange.asker.run_while_waiting(read_todo_lists(self.real, (one.did for one in made), exchange.home))
        twin = exchange.home.fork()
        for at, one in enumerate(made):
            try:
                twin.call(one.did, one.service, (), one.arguments_with_code(twin))
            except Refused as refusal:
                exchange.outcome, exchange.refusals = "refused", (exchange.mask_text(str(refusal)),)
                exchange.missed = (
                    *left_out_calls(shown, [one, *made[:at], *made[at + 1 :]], refusal.rule), *exchange.missed,
                )  # fmt: skip
                exchange.reply = self._telling(exchange).describe_missed_actions(exchange)
                return False
        exchange.foresee_changes(exchange.home, twin)
        return True

    async def _do(self, exchange: Exchange) -> None:
        """Carry out calls in the real home, and compare it with the twin. The log says first that it is about to happen."""
        self._log(replace(exchange, outcome="acting", reply=""))
        assert self.real is not None
        await carry_out_exchange(self.real, exchange)
        exchange.outcome = exchange.call_outcome
        blind = ""
        try:
            self._keep(await wait_until_settled(self.real, exchange, self.house.settle), exchange.acts)
        except HomeAssistantError as error:
            exchange.errors.append(str(error))
            blind = self.words.fill_phrase("unseen", why=spoken_error(error))
        exchange.reply = join_sentences(self._telling(exchange).report_outcome(exchange), blind)

    def _fail(self, exchange: Exchange, error: BaseException, words: str) -> None:
        """End an exchange that an error has ended. What was done before is told first."""
        exchange.errors.append(str(error) or type(error).__name__)
        exchange.outcome = exchange.call_outcome
        told = self._telling(exchange).report_outcome(exchange) if exchange.done_calls else ""
        exchange.reply = join_sentences(told, words)

    def _wait_for_consent(self, dialogue: Sequence[Message], exchange: Exchange) -> None:
        asked = [*dialogue, {"role": "assistant", "content": exchange.reply}]
        proposal = Proposal(
            tuple(exchange.made_calls), self._shown(exchange), exchange.guarded, exchange.missed, exchange.home.plan
        )
        self._waiting.add_proposal(asked, exchange.speaker, proposal)

    def _shown(self, exchange: Exchange) -> str:
        """What calls do, and on what automations may act then. The model reads this in the next turn."""
        touched = dict.fromkeys([*(one.did for one in exchange.made_calls), *exchange.touched_dids])
        led, telling = self._guarding(exchange).find_unfollowed_ends(exchange.home, touched), self._telling(exchange)
        ends = sorted({end for found in led.values() for end in found} - touched.keys())
        return self.words.join_list(
            [telling.describe_calls(exchange.home, exchange), *telling.describe_possible_effects(ends)]
        )

    def _close(self, exchange: Exchange) -> None:
        """Log how an exchange ended. A log that cannot be written any more takes no answer away."""
        try:
            self._log(exchange)
        except JournalWriteError as error:
            log.exception("an exchange is not in the log")
            remark = self.words.fill_phrase("unlogged", why=spoken_error(error))
            if remark not in exchange.reply:
                exchange.reply = join_sentences(exchange.reply, remark)

    def _log(self, exchange: Exchange) -> None:
        self.journal.append_entry(exchange.to_journal_entry(self._mode(exchange), exchange.agent or self.name))
