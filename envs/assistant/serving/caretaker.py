"""The caretaker: lets an agent act in a twin of the home, and carries out in the real home what it may.

Invariants:
- The twin is made to agree with the real home before each exchange, and every call runs there first: what the twin refuses
  never reaches the real home.
- People are heard at the same time, each in a copy of the twin. One acts at a time; if somebody has acted since a copy was
  made, or the home was set up anew, its calls run again in the home as it is then, and that copy is not kept.
- In `shadow` nothing reaches the real home. In `confirm`, and for guarded devices in `act`, only what was consented to does.
- Where another device may as well be meant as the one that is called, the person is asked. If that call would leave its
  device as it is, nothing was meant, and it is dropped.
- Consent is a person's next message in the same dialogue. It is good for one proposal, as it was shown, for a few minutes.
  Where that message says something else, its reply also says that what was proposed is not done.
- Each exchange is in the journal before its first call is made in the real home, and again before its reply is given.
- No device is called more than `MOST_CALLS` times for one sentence: a loop of a model wears out no relay. A call that is
  refused twice for one sentence ends the agent's turn, and the person hears why it was refused.
- Once a guarded device has refused a call for a sentence, another of its services needs consent, whatever its owner allowed:
  a model that cannot lock the door tries to unlock it.
- No call is begun in the real home once the person has gone or has waited for `House.patience`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from homerl.envs.assistant.first import MatcherFirst
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.listing.room_and_device_names import spoken_device_name
from homerl.envs.assistant.serving.call_effects import Effects, find_moved_dids, list_groups
from homerl.envs.assistant.serving.consent import (
    Guard,
    WaitingProposals,
    fill_in_code,
    find_spoken_codes,
    hide_spoken_codes,
    is_consent,
    is_guarded,
    is_refusal,
)
from homerl.envs.assistant.serving.exchange_journal import (
    AgentJournal,
    AgentTurn,
    Asker,
    AskerGone,
    Ending,
    Exchange,
    JournalWriteError,
    Mode,
    Proposal,
    RequestCare,
    SeenHome,
    Sentence,
    never_gone,
    replace_lone_surrogates,
)
from homerl.envs.assistant.serving.live_situation import (
    LiveBlueprint,
    LiveSituation,
    ToolAttempt,
    TwinCall,
    cached_prompt_share,
    place_speaker,
    prompt_before_dialogue,
    recent_messages,
)
from homerl.envs.assistant.serving.meant_devices import find_unclear_devices
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
from homerl.envs.assistant.serving.reply_streaming import SentenceSpeaker, StreamingAgent, is_free_of_calls
from homerl.envs.assistant.serving.reply_text import (
    ASK_CODE,
    QUESTION_MARKS,
    ReplyPhrases,
    ReplyWriter,
    find_json_answer,
    join_sentences,
    spoken_error,
)
from homerl.envs.assistant.serving.secret_masking import find_password_fields, secrets_in_calls, secrets_in_reply
from homerl.envs.assistant.serving.sentence_kind import SentenceKind, find_sentence_kind
from homerl.envs.assistant.serving.simulated_home import SimulatedHome
from homerl.envs.assistant.serving.spoken_ids import SpokenIds, tool_names
from homerl.envs.core.messages import Message, text_message
from homerl.envs.homeenv.language import list_home_languages
from homerl.envs.homeenv.sim.automation import make_hidden_rules
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.blueprint import PromptName
from homerl.play.episode import SAME_REFUSALS, Episode, EpisodeLimits
from homerl.play.faults import AgentFault, DialogueTooLong, InfraError
from homerl.play.loop import Agent, replies_from

STEPS = 8  # messages of the agent for one of the person's
SETTLE_SECONDS = 3.0  # that the real home has to become as the twin
PATIENCE_SECONDS = 60.0  # that a person waits for a reply
MOST_CALLS = 20  # of one device for one sentence

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaretakerSettings:
    """How a caretaker works. `toolset` is the one that the agent was trained with, and `language` what it speaks.

    With `ask_unclear` it asks before it acts on what the words of the person may not mean (`meant_devices.py`).
    """

    mode: Mode
    toolset: str
    language: str
    prompt: PromptName = "full"
    guard: Guard = field(default_factory=Guard)
    ask_unclear: bool = True
    settle: float = SETTLE_SECONDS
    steps: int = STEPS
    patience: float = PATIENCE_SECONDS

    @property
    def prompt_language(self) -> str:
        """The language in which the agent is asked: what it speaks, or English if there are no prompts in that."""
        return self.language if self.language in list_home_languages() else "en"


class Caretaker:
    """Answers a person, one message at a time. `agents` makes a fresh agent for each."""

    def __init__(
        self,
        home: Home,
        agents: Callable[[], Agent],
        real: RealHome,
        journal: AgentJournal,
        house: CaretakerSettings,
        name: str,
    ) -> None:
        self.agents, self.real, self.journal, self.house, self.name = agents, real, journal, house, name
        self._guard, self._turn, self._waiting = house.guard, asyncio.Lock(), WaitingProposals()
        self._acts = 0  # how often somebody had the turn to act, or the home was set up anew
        self._prompt: str | None = None  # of the sentence before
        self._heard_language = self.spoken_language
        self.words = ReplyPhrases(house.language, self.spoken_language, real.words)
        self._move_into(home)

    @property
    def spoken_language(self) -> str:
        """The language of the home, which it tells once it is reached; that of the agent until then."""
        return self.real.spoken or self.house.language

    @property
    def home_kind(self) -> Literal["real", "simulated"]:
        """Whether what it does reaches the home outside."""
        return "simulated" if isinstance(self.real, SimulatedHome) else "real"

    @property
    def heard_languages(self) -> tuple[str, ...]:
        """The languages whose words decide whether the person is asked, that of the home first; none if nobody is asked."""
        return tuple(dict.fromkeys((self.spoken_language, self.house.language))) if self.house.ask_unclear else ()

    def _move_into(self, home: Home) -> None:
        """Take a home as the one to take care of."""
        self.home = home.fork()
        self.home.rules += make_hidden_rules(home)
        self._guard = self._guard.with_known_home(home, self.spoken_language)
        self._acts += 1

    def _keep_home(self, home: Home, acts: int) -> None:
        """Take what was seen of the home, unless it is another one since `acts`."""
        self.home = home if acts == self._acts else self.home

    async def answer_dialogue(
        self, dialogue: Sequence[Message], gone: Callable[[], Awaitable[bool]] = never_gone,
        care: RequestCare = RequestCare(), area: str | None = None, speaker: str = "",
        speak: Callable[[str], None] | None = None, wants_json: bool = False,
    ) -> str:  # fmt: skip
        """The reply to the last message of a dialogue, which is a person's. If the model fails, the reply says why.

        `gone` tells whether the person does not wait any more; who has gone gets nothing carried out. `care` is what the
        request asks for beyond the house. `area` is where the person speaks, as Home Assistant tells it, and `speaker` tells
        people apart, as far as it is known. To `speak` come the parts of the reply that may be spoken before its end. A
        request that `wants_json` asks for data, in which JSON is the answer and no call.
        """
        asker = Asker(time.monotonic() + self.house.patience, gone)  # also while others have their turn
        heard = None if wants_json else speak  # JSON is no sentence that could be spoken before its end
        mode = care.limit_mode(self.house.mode)
        sentence = Sentence(asker, mode, care.guard, area, speaker, heard, wants_json=wants_json)
        exchange, ending = Exchange(sentence, SeenHome(self.home)), Ending("said", "")
        try:
            dialogue = replace_lone_surrogates(list(dialogue))
            codes = find_spoken_codes(dialogue, self.spoken_language)
            exchange.secrets |= {*filter(None, codes)}
            exchange.sentence = replace(sentence, dialogue=hide_spoken_codes(dialogue, codes), code=codes[-1])
            ending = await self._answer_sentence(exchange, dialogue[:-1])
        except asyncio.CancelledError as error:
            ending = self._end_with_error(exchange, error, "")
            raise
        except Exception as error:  # what was done until then is logged and told all the same
            ending = self._end_with_error(exchange, error, self._explain_error(error))
        finally:
            reply = self._complete_reply(exchange, ending.reply)
            ending = self._close(exchange, replace(ending, reply=replace_lone_surrogates(reply)))
        if ending.proposal:
            self._waiting.add_proposal([*dialogue, text_message(ending.reply)], speaker, ending.proposal)
        return ending.reply

    def _complete_reply(self, exchange: Exchange, reply: str) -> str:
        """A reply with what was spoken, and with word of a proposal that is void now, unless its calls were made again."""
        void, speaking = exchange.void_proposal, exchange.speaking
        is_gone = void is not None and any(call not in exchange.turn.calls for call in void.made)
        gone = self.words.fill_phrase("dropped") if is_gone else ""
        if speaking and speaking.spoken:
            return join_sentences(speaking.complete_reply(reply), gone)
        return join_sentences(gone, reply)

    async def _answer_sentence(self, exchange: Exchange, before: Sequence[Message]) -> Ending:
        """Do what was said, or ask for consent. `before` is the dialogue before the sentence, with its codes."""
        sentence = exchange.sentence
        asker = sentence.asker
        await asker.require_waiting()
        seen = await self._look_at_home(exchange)

        # a proposal that waits is consented to, or left, or something else is said and it is void
        waiting, language = self._waiting.take_proposal(before, sentence.speaker), self.spoken_language
        agrees = bool(sentence.code) or is_consent(sentence.said, language)
        if waiting and agrees and sentence.mode != "shadow":
            exchange.guarded = dict(waiting.guarded)
            async with self._wait_for_turn(asker):
                return await self._carry_out_proposal(exchange, waiting)
        if waiting and (agrees or is_refusal(sentence.said, language)):
            exchange.turn = AgentTurn(waiting.made)
            return Ending("declined", self.words.fill_phrase("declined"))

        exchange.void_proposal = waiting

        # the agent acts in the twin
        await asker.run_while_waiting(self._play_in_twin(exchange))
        turn, writer = exchange.turn, self._writer(exchange)
        if not turn.calls:
            return Ending("refused" if turn.missed else "said", writer.reply_without_calls())
        did, count = Counter(call.did for call in turn.calls).most_common(1)[0]
        if count > MOST_CALLS:
            left = left_out_calls(seen.home.plan, [call for call in turn.calls if call.did != did])
            exchange.turn = replace(turn, missed=turn.missed + left)
            often = self.words.fill_phrase("often", device=spoken_device_name(seen.home.plan, did), count=count)
            return Ending("refused", join_sentences(often, writer.describe_missed_actions()))

        # the guard decides, by what the calls could cause
        exchange.guarded = self._find_guarded(exchange)
        if sentence.mode == "shadow":
            key = "shadow" if exchange.effects.changed_dids else "shadow_nothing"
            return Ending("shadowed", self._describe_calls(exchange, key, self._describe_effects(exchange)))
        if sentence.mode == "confirm" or exchange.guarded:
            return self._ask_consent(exchange, "ask_guarded" if exchange.guarded else "ask")

        # what the words of the person may not mean is asked
        if exchange.turn.calls and await self._find_unclear(exchange):
            return self._ask_consent(exchange, "ask")

        # the calls are carried out; if somebody has acted meanwhile, they first run in the home of now
        async with self._wait_for_turn(asker):
            if seen.acts != self._acts:
                await self._look_at_home(exchange)
                if refused := await self._run_again(exchange, seen.home.plan):
                    return refused
                if guarded := self._find_guarded(exchange):
                    exchange.guarded = guarded
                    return self._ask_consent(exchange, "ask_again")
            return await self._carry_out(exchange)

    async def _carry_out_proposal(self, exchange: Exchange, proposal: Proposal) -> Ending:
        """Carry out a proposal, if the twin, as it is now, still allows it and shows what the person was shown."""
        exchange.turn = AgentTurn(proposal.made, missed=proposal.missed)
        if exchange.seen.acts != self._acts:
            await self._look_at_home(exchange)
        if refused := await self._run_again(exchange, proposal.plan):
            return refused
        if self._describe_effects(exchange) != proposal.shown:
            exchange.guarded |= self._find_guarded(exchange)
            return self._ask_consent(exchange, "ask_again")
        if code := exchange.sentence.code:
            calls = fill_in_code(exchange.seen.home, proposal.made, code)
            exchange.turn = replace(exchange.turn, calls=tuple(calls))
        return await self._carry_out(exchange)

    @asynccontextmanager
    async def _wait_for_turn(self, asker: Asker) -> AsyncIterator[None]:
        """The turn to act in the real home. One acts at a time."""
        try:
            async with asyncio.timeout(asker.until - time.monotonic()):
                await self._turn.acquire()
        except TimeoutError:
            raise AskerGone("others had their turn") from None
        try:
            yield
        finally:
            self._acts += 1
            self._turn.release()

    async def _look_at_home(self, exchange: Exchange) -> SeenHome:
        """The home as it is now, with the person where they speak."""
        sentence = exchange.sentence
        await sentence.asker.run_while_waiting(self._renew_home())
        home, acts = self.home, self._acts
        home = await sentence.asker.run_while_waiting(self.real.refresh_twin(home))
        self._keep_home(home, acts)
        home = place_speaker(home, sentence.area)
        exchange.seen = SeenHome(home, acts, find_password_fields(home))
        return exchange.seen

    async def _renew_home(self) -> None:
        """Move if the home was set up anew. It is told once, so nothing may come between hearing it and moving."""
        if (fresh := await self.real.take_renewed_home()) is not None:
            self._move_into(fresh)
        if self._heard_language != self.spoken_language:  # in which its names mean something else
            self._heard_language = self.spoken_language
            self._guard = self._guard.with_known_home(self.home, self.spoken_language)
        self.words = ReplyPhrases(self.house.language, self.spoken_language, self.real.words)

    async def _play_in_twin(self, exchange: Exchange) -> None:
        """Let the agent act in the twin for a sentence: `turn` and `effects` tell what it did there."""
        async with AsyncExitStack() as ends:  # what runs beside the agent speaks no more afterwards
            await self._let_agent_act(exchange, ends)

    async def _let_agent_act(self, exchange: Exchange, ends: AsyncExitStack) -> None:
        sentence, seen, house = exchange.sentence, exchange.seen, self.house
        visit = LiveBlueprint(house.toolset, house.prompt_language, house.prompt, json_answers=sentence.wants_json)
        situation = LiveSituation.begin_visit(seen.home, visit)
        limits = EpisodeLimits(len(sentence.dialogue) + 1, house.steps, house.steps, same_refusals=SAME_REFUSALS)
        episode = Episode.from_situation(situation, limits)
        episode.messages += recent_messages(sentence.dialogue)[:-1]
        agent, ids = self.agents(), SpokenIds(seen.home, tool_names(episode.world.tools))
        tried, kind_search = list[tuple[ToolAttempt, ...]](), None
        model = agent.agent if isinstance(agent, MatcherFirst) else agent
        if sentence.speak and isinstance(model, StreamingAgent):
            known = list[SentenceKind]()

            def is_heard_as_written(text: str) -> bool:
                said = episode.spoken_words_of(text_message(text))
                return (
                    bool(known)
                    and is_free_of_calls(text, episode, seen.fields)
                    and exchange.mask_text(ids.remove_ids(text)) == text
                    and self._writer(exchange).is_certain(said, known[0], looked=any(tried))
                )

            async def find_kind_and_speak(speaking: SentenceSpeaker) -> SentenceKind:
                known.append(await self._find_kind(exchange))
                speaking.hear_again()
                return known[0]

            exchange.speaking = SentenceSpeaker(sentence.speak, is_heard_as_written)
            model.told = exchange.speaking.hear_text
            kind_search = asyncio.create_task(find_kind_and_speak(exchange.speaking))  # while the agent begins
            ends.push_async_callback(_end_task, kind_search)
        prompt = prompt_before_dialogue(episode)
        exchange.kept, self._prompt = cached_prompt_share(self._prompt, prompt), prompt
        episode.add_utterance(sentence.said)
        spoke, lists = False, set[str]()
        while episode.outcome is None and not spoke:
            if exchange.speaking:
                exchange.speaking.start_message()
            (reply,) = await replies_from(agent, episode)
            if kind_search:  # so that what is spoken of a message depends on no speed
                await asyncio.wait([kind_search])
            exchange.secrets |= secrets_in_reply(reply, seen.fields)
            needed = {*todo_lists_needed(situation.home, reply, house.toolset)} - lists
            await read_todo_lists(self.real, needed, seen.home, situation.home)
            lists |= needed
            situation.answers |= await read_call_answers(self.real, situation.home, reply)
            taken = len(situation.attempts)
            step = await episode.apply_reply_async(replace(reply, message=replace_lone_surrogates(reply.message)))
            situation = cast(LiveSituation, episode.situation)  # another, where the message failed and was undone
            tried.append(attempts_in_step(step, situation.attempts[taken:]))
            spoke = episode.messages[-1]["role"] == "assistant"
        given = [*situation.made_calls, *(call for call, _ in situation.refused_calls)]
        exchange.secrets |= secrets_in_calls(given, seen.fields)
        took = "hassil" if isinstance(agent, MatcherFirst) and agent.took else ""
        refused_calls = tuple(call for call, _ in situation.refused_calls)
        exchange.turn = AgentTurn(tuple(situation.made_calls), took, refused=refused_calls)
        exchange.turn = replace(exchange.turn, calls=await self._find_meant_calls(exchange))
        exchange.effects = await self._foresee_effects(exchange, situation.home)
        refused = (text for step in episode.steps for text in step.observations if step.has_failed)
        missed = find_missed_actions(tried, sentence.said, seen.home)
        turn = exchange.turn = replace(exchange.turn, refusals=tuple(map(exchange.mask_text, refused)), missed=missed)
        if spoke:
            said = episode.spoken_words_of(episode.messages[-1])
            if not (sentence.wants_json and find_json_answer(said.text) is not None):
                ids = SpokenIds(seen.home, (*ids.tools, *(one.tool for one in situation.attempts)))
                said = replace(said, text=ids.remove_ids(said.text), claims=ids.remove_ids(said.claims))
            kind: SentenceKind = "unknown"
            if not turn.calls and not missed:
                kind = await (kind_search or self._find_kind(exchange))
            words = self._writer(exchange).audible_words(said, kind, looked=any(tried))
            turn = replace(turn, words=exchange.mask_text(words.strip()))
        elif house.steps > 1 and not (
            missed and episode.refused_too_often
        ):  # a model that was not taught to end has one step
            turn = replace(turn, missed=(*missed, MissedAction(UNFINISHED)))
        exchange.turn = turn

    async def _find_kind(self, exchange: Exchange) -> SentenceKind:
        """What the sentence is by Home Assistant's grammar, found beside the loop, which may write to the home."""
        home, said = exchange.seen.home.fork(), exchange.sentence.said
        return await asyncio.to_thread(find_sentence_kind, home, said, self.spoken_language)

    async def _foresee_effects(self, exchange: Exchange, twin: Home) -> Effects:
        """What the calls of a sentence could cause, worked out beside the loop, which answers others meanwhile."""
        seen, calls = exchange.seen, exchange.turn.calls
        if not calls:
            return Effects()
        return await asyncio.to_thread(Effects.foresee_effects, seen.home, twin, calls, seen.fields, self._guard.groups)

    async def _run_again(self, exchange: Exchange, shown: FixedPlan) -> Ending | None:
        """Make the calls in a twin of the home as it is now, for their `effects`. Returns the ending if it refuses one.

        A device that was withdrawn meanwhile is told by the name that it had in the plan that the person was `shown`.
        """
        seen, turn = exchange.seen, exchange.turn
        made = turn.calls
        lists = read_todo_lists(self.real, (call.did for call in made), seen.home)
        await exchange.sentence.asker.run_while_waiting(lists)
        twin = seen.home.fork()
        for at, call in enumerate(made):
            try:
                twin.call(call.did, call.service, (), call.arguments_with_code(twin))
            except Refused as refusal:
                left = left_out_calls(shown, [call, *made[:at], *made[at + 1 :]], refusal.rule)
                refusals = (exchange.mask_text(str(refusal)),)
                exchange.turn = replace(turn, refusals=refusals, missed=(*left, *turn.missed))
                return Ending("refused", self._writer(exchange).describe_missed_actions())
        exchange.effects = await self._foresee_effects(exchange, twin)
        return None

    async def _carry_out(self, exchange: Exchange) -> Ending:
        """Carry out calls in the real home, and compare it with the twin. The log says first that it is about to happen."""
        self._log_ending(exchange, Ending("acting", ""))
        await carry_out_exchange(self.real, exchange)
        blind = ""
        try:
            self._keep_home(await wait_until_settled(self.real, exchange, self.house.settle), exchange.seen.acts)
        except HomeAssistantError as error:
            exchange.note_error(error)
            blind = self.words.fill_phrase("unseen", why=spoken_error(error))
        return Ending(exchange.call_outcome, join_sentences(self._writer(exchange).report_outcome(), blind))

    def _guard_for(self, exchange: Exchange) -> Guard:
        return self._guard.with_held_devices(exchange.sentence.guard)

    def _find_guarded(self, exchange: Exchange) -> dict[str, str]:
        """The devices that need consent, each with the reason."""
        home, turn, guard = exchange.seen.home, exchange.turn, self._guard_for(exchange)
        others = {
            made.did for made in turn.calls for one in turn.refused if one.did == made.did and one.service != made.service
        }
        turned = {did: "after a refusal" for did in others if is_guarded(home, did, guard.held)}
        return guard.needs_consent(home, exchange.effects, exchange.sentence.said) | turned

    async def _find_meant_calls(self, exchange: Exchange) -> tuple[TwinCall, ...]:
        """The calls without those on devices that the words do not clearly mean and that are already as all of them want."""
        home, calls = exchange.seen.home, exchange.turn.calls
        moved = find_moved_dids(home, calls, {**self._guard.groups, **list_groups(home)})
        if moved >= {call.did for call in calls} or not await self._find_unclear(exchange):
            return calls
        return tuple(call for call in calls if call.did in moved or call.did not in exchange.unclear)

    async def _find_unclear(self, exchange: Exchange) -> bool:
        """Whether the words of the person do not clearly mean what is called. The matcher takes only what they mean."""
        sentence, turn, languages = exchange.sentence, exchange.turn, self.heard_languages
        if not languages or turn.agent:
            return False
        before = " ".join(str(one["content"]) for one in sentence.dialogue[-3:-1])
        exchange.unclear = await asyncio.to_thread(
            find_unclear_devices,
            exchange.seen.home,
            turn.calls,
            sentence.said,
            before,
            languages,
            self.words.home.texts,
        )
        return bool(exchange.unclear)

    def _ask_consent(self, exchange: Exchange, key: str) -> Ending:
        turn, shown = exchange.turn, self._describe_effects(exchange)
        proposal = Proposal(turn.calls, shown, exchange.guarded, turn.missed, exchange.seen.home.plan)
        return Ending("asked", self._describe_calls(exchange, key, shown), proposal)

    def _describe_calls(self, exchange: Exchange, key: str, effects: str) -> str:
        """A sentence about what calls do, and what the agent tried in vain."""
        coded = any(call.needs_code(exchange.seen.home) for call in exchange.turn.calls)
        question = self.words.fill_phrase(ASK_CODE if coded else "question")
        told = self.words.fill_phrase(key, changes=effects, question=question)
        missed = self._writer(exchange).describe_missed_actions()
        # a question is the last that is heard
        return join_sentences(missed, told) if told.endswith(QUESTION_MARKS) else join_sentences(told, missed)

    def _describe_effects(self, exchange: Exchange) -> str:
        """What calls do, and on what automations may act then. The model reads this in the next turn."""
        writer = self._writer(exchange)
        led = self._guard_for(exchange).find_guarded_ends(exchange.seen.home, exchange.effects)
        ends = set[str]().union(*led.values()) - {*exchange.effects.touched_dids}
        return self.words.join_list([writer.describe_calls(), *writer.describe_possible_effects(sorted(ends))])

    def _writer(self, exchange: Exchange) -> ReplyWriter:
        return ReplyWriter(self.words, exchange)

    def _explain_error(self, error: Exception) -> str:
        """What a person hears of an error that ended an exchange."""
        match error:
            case HomeAssistantError():
                key = "failed"
            case JournalWriteError():  # before the first call: nothing was done
                key = "unlogged"
            case AskerGone():
                key = "late"
            case DialogueTooLong():
                key = "too_long"
                log.warning("%s", error)
            case AgentFault() | InfraError():
                key = "silent"
                log.warning("the model did not answer: %s", error)
            case _:  # a fault of this program
                key = "broken"
                log.exception("an exchange failed")
        return self.words.fill_phrase(key, why=spoken_error(error))

    def _end_with_error(self, exchange: Exchange, error: BaseException, words: str) -> Ending:
        """The ending of an exchange that an error has ended. What was done before is told first."""
        exchange.note_error(error)
        told = self._writer(exchange).report_outcome() if exchange.done_calls else ""
        return Ending(exchange.call_outcome, join_sentences(told, words))

    def _close(self, exchange: Exchange, ending: Ending) -> Ending:
        """Log how an exchange ended. A log that cannot be written any more takes no answer away."""
        try:
            self._log_ending(exchange, ending)
        except JournalWriteError as error:
            log.exception("an exchange is not in the log")
            remark = self.words.fill_phrase("unlogged", why=spoken_error(error))
            if remark not in ending.reply:
                return replace(ending, reply=join_sentences(ending.reply, remark))
        return ending

    def _log_ending(self, exchange: Exchange, ending: Ending) -> None:
        self.journal.append_entry(exchange.to_journal_entry(self.name, ending))


async def _end_task(task: asyncio.Task[SentenceKind]) -> None:
    """Cancel a task and wait for its end, whatever that is."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
