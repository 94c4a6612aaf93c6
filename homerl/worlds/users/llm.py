"""The LLM user: a chat model plays the person of a blueprint (HomeFlow 3.4.2).

Invariants:
- `prompt.py` decides what the model is told, and the world's persona what it must not say.
- The user gives up only after `patience` claims of success in a row without progress, so giving up counts against the
  agent.
- Every other way to leave the role is a `UserError` with its reason.
- Errors of servers are an `InfraError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.core.messages import Message
from homerl.models.endpoint.endpoint import Endpoint, Patience, derive_seed
from homerl.models.endpoint.settings import UserSettings
from homerl.play.episode import Episode
from homerl.play.faults import RequestRefused, UserError
from homerl.play.loop import has_claimed_done
from homerl.play.situation import IntentProtocol
from homerl.play.utterance import Utterance
from homerl.play.words.manner import load_manner
from homerl.worlds.contract import Persona
from homerl.worlds.registry import world_of
from homerl.worlds.users.prompt import MalformedAnswer, UserAnswer, build_user_prompt, parse_user_answer, utterance_schema


@dataclass(frozen=True)
class UserCompletion:
    """A model's text, whether it was cut off at the token limit, and the tokens of the answer and of the prompt."""

    text: str
    cut: bool
    tokens: int
    prompt_tokens: int


class SharedEndpoint:
    """The endpoint that all users of a run share, with counts of their utterances and of their errors by reason."""

    def __init__(self, settings: UserSettings, urls: Sequence[str], model: str, seed: int = 0) -> None:
        patience = Patience(settings.timeout, settings.deadline, settings.retries + 1)
        self.settings, self.structured = settings, settings.structured
        self.endpoint = Endpoint(urls, model, patience, settings.key, seed)
        self.utterances, self.errors = 0, Counter[str]()

    async def complete_utterance(self, messages: Sequence[Message], shape: dict[str, Any], seed: int) -> UserCompletion:
        """The model's answer to `messages`; after a server has refused the schema `shape`, requests go without it."""
        if self.structured:
            try:
                return await self._ask(messages, seed, response_format=shape)
            except RequestRefused:
                answer = await self._ask(messages, seed)
                self.structured = False  # it answers without the schema, so it refused the schema
                return answer
        return await self._ask(messages, seed)

    async def _ask(self, messages: Sequence[Message], seed: int, **shape: Any) -> UserCompletion:
        said = self.settings
        answer = await self.endpoint.chat(
            messages, temperature=said.temperature, max_tokens=said.max_tokens, seed=seed, extra_body=said.extra, **shape
        )
        said, usage = answer.choices[0], answer.usage
        tokens = (usage.completion_tokens, usage.prompt_tokens) if usage else (0, 0)
        return UserCompletion(said.message.content or "", said.finish_reason == "length", *tokens)


class LLMUser:
    """One person in one episode."""

    def __init__(self, shared: SharedEndpoint, seed: int) -> None:
        self.name, self.shared, self.seed = shared.endpoint.speaker_name, shared, seed

    async def speak(self, episode: Episode) -> Utterance:
        """The next utterance; an empty one if nothing is open, or if the agent's claims have used up the patience.

        Raises `UserError` if the model leaves its role, and `InfraError` if its server fails.
        """
        intents = episode.open_intents()
        patience = (
            self.shared.settings.patience + episode.situation.added.turns
        )  # the turns that it takes itself are no fault
        if not intents or (has_claimed_done(episode) and count_idle_turns(episode) >= patience):
            return Utterance("", requests=0)
        persona = world_of(episode.blueprint).persona(episode)
        said, spent = await self._say(episode, persona, intents)
        if said.stop:
            return self._stop(episode, spent)
        if fault := persona.fault(said.say, intents):
            raise self._fault(*fault, spent)
        self.shared.utterances += 1
        return replace(spent, text=" ".join(said.say.split()), intent_id=self._intent(said, persona, episode, intents))

    async def _say(
        self, episode: Episode, persona: Persona, intents: Sequence[IntentProtocol]
    ) -> tuple[UserAnswer, Utterance]:
        """The first answer of at most two that can be parsed, and what the requests cost."""
        spent = Utterance("", requests=0)
        messages = build_user_prompt(episode, persona, intents, self.shared.settings, self.seed)
        again = load_manner(episode.blueprint.language).again
        for attempt in range(2):
            answer = await self.shared.complete_utterance(messages, utterance_schema(intents), self._seed(episode, attempt))
            tokens, prompt_tokens = spent.tokens + answer.tokens, spent.prompt_tokens + answer.prompt_tokens
            spent = Utterance("", None, tokens, prompt_tokens, attempt + 1)
            try:
                return parse_user_answer(answer.text, answer.cut, intents), spent
            except MalformedAnswer as error:
                fault = str(error)
                tried = [
                    {"role": "assistant", "content": answer.text},
                    {"role": "user", "content": again.format(error=fault)},
                ]
                messages = [*messages, *tried]
        raise self._fault("malformed", f"the user's answer could not be read: {fault}", spent)

    def _stop(self, episode: Episode, spent: Utterance) -> Utterance:
        """The model wants to stop: right if the agent claimed that all is done, else a `UserError`."""
        if has_claimed_done(episode):
            return spent
        raise self._fault("gave_up", "the user gave up while something was still to be done", spent)

    def _intent(self, said: UserAnswer, persona: Persona, episode: Episode, intents: Sequence[IntentProtocol]) -> int:
        """The intent that the answer names; else the one that its words are about; else the current or first one."""
        if said.about is not None:
            return said.about
        named = persona.meant(said.say, intents)
        current = next((intent for intent in intents if intent.id == episode.speaking_of), intents[0])
        return (named or current).id

    def _fault(self, reason: str, message: str, spent: Utterance) -> UserError:
        self.shared.errors[reason] += 1
        return UserError(message, reason, spent)

    def _seed(self, episode: Episode, attempt: int) -> int:
        """A seed for each utterance and attempt, the same in every process."""
        return derive_seed(self.seed, episode.blueprint.id, episode.turn, attempt)


def count_idle_turns(episode: Episode) -> int:
    """How many turns in a row, up to the current one, ended with a claim of success but without progress."""
    count = 0
    for turn in range(episode.turn, 0, -1):
        steps = [step for step in episode.steps if step.facts.turn == turn]
        gained = bool(steps) and steps[-1].facts.progress_after > steps[0].facts.progress_before
        if not steps or gained or episode.spoken_words_of(steps[-1].message).question:
            break
        count += 1
    return count
