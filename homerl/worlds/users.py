"""Who speaks to the agent: the scripted user, the LLM user (HomeFlow 3.4.2), and the factory that a recipe asks for users.

The scripted user speaks for unmet intents, follows their courses, rewords, answers questions, and stops when no intent is
unmet. What it says is a pure function of blueprint, seed and dialogue.

The LLM user is a chat model that plays the person of a blueprint. The prompt says who the person is, its unmet requests and
how it tells them, what it notices, and the dialogue. The world's persona says what the person must not say.

Invariants:
- An utterance and the prompt hold no ids, conditions or plans. An id in an agent's words is replaced by the device's
  everyday name, because otherwise an agent could make its user leave its role.
- `patience` claims of success in a row without progress end the user's patience, which counts against the agent.
- A user who gives up, says the same again, cannot be read, or says after the agent what a user must not say, after a turn of
  the agent that did nothing for it, has met the agent's failure (`has_given_cause_to_stop`). In every other case, a model
  that leaves its role is asked once more as if the agent had not spoken. It is a `UserError` with its reason only if it
  leaves its role then, too: no words of an agent can be what made it.
- Errors of servers are an `InfraError`, unless the server errs at the agent's words and at no others.
- Only the recipe decides who speaks. All LLM users of a run share one `SharedEndpoint`, so that the least busy replica is
  chosen among all requests, and usage is counted in one place.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, StrictBool, StrictInt, StrictStr, ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, replace_surrogates
from homerl.models.endpoint.endpoint import derive_seed, make_endpoint, tokens_of
from homerl.models.endpoint.endpoint_settings import NO_KEY, EndpointSettings, UserSettings
from homerl.play.episode import Episode
from homerl.play.faults import RequestBroken, RequestRefused, UserError
from homerl.play.loop import User, has_claimed_done, has_done_nothing, has_given_cause_to_stop
from homerl.play.situation import IntentProtocol, Utterance
from homerl.play.tool_call_parser import strip_thoughts_and_controls
from homerl.play.words.user_manner import Manner, load_manner
from homerl.worlds.contract import Persona
from homerl.worlds.registry import world_of

JSON = re.compile(r"""^[{\[]|\{\s*["']|```""")  # a text that is meant to be JSON
STOP = "<stop>"
UTTERANCE = "utterance"  # the name of the schema
LINES = 4  # most lines of a plain-text utterance


class MalformedAnswer(Exception):
    """An answer that is neither the requested JSON nor a plain utterance."""


@dataclass(frozen=True)
class UserFault:
    """How a model left its role: the reason, and what it did in words."""

    reason: str
    message: str


class UserAnswer(BaseModel):
    """A parsed answer. `about` is the id of an intent, or None if a plain text does not tell."""

    say: StrictStr = ""
    about: StrictInt | None = None
    stop: StrictBool = False


def build_user_prompt(
    episode: Episode,
    persona: Persona,
    intents: Sequence[IntentProtocol],
    settings: UserSettings,
    seed: int,
    hears_agent: bool = True,
) -> list[Message]:
    """Two messages: the person as the system message, the present situation as the user message.

    Without `hears_agent` they hold no word of the agent.
    """
    words = load_manner(episode.blueprint.language)
    wishes = [*(describe_wish(episode, intent) for intent in intents), *describe_behaviours(episode, intents, words)]
    said = dialogue_text(episode, persona, words, hears_agent)
    situation = words.situation.format(wishes="\n".join(wishes), around=persona.notices(words), said=said)
    # Whether this utterance gets slips of speech is a pure function of seed and turn.
    stumbles = random.Random(f"noise {seed} {episode.turn}").random() < settings.noise
    noise = [words.noise] if stumbles else []
    system = "\n".join([persona.role(words), words.rules, words.style, *noise, words.format.format()])
    return [{"role": "system", "content": system}, {"role": "user", "content": situation}]


def describe_wish(episode: Episode, intent: IntentProtocol) -> str:
    """A wish as the person has it now: before a change of mind it is another one."""
    parts, at = episode.situation.course_of(intent.id).parts, episode.course_position(intent.id, episode.turn + 1)
    other = at == 0 and parts and parts[0].behaviour == "change_of_mind"
    return f"{intent.id}. {parts[0].text if other else intent.clarification}"


def describe_behaviours(episode: Episode, intents: Sequence[IntentProtocol], words: Manner) -> Iterator[str]:
    """How the person tells its wishes this time, one line for each that is not told at once."""
    for intent in intents:
        course, at = episode.situation.course_of(intent.id), episode.course_position(intent.id, episode.turn + 1)
        if at is None:
            yield words.behaviours.beside_the_point.format(wish=intent.id, text=course.aside)
        elif at < len(course.parts):
            part = course.parts[at]
            if at or part.behaviour != "change_of_mind":
                yield getattr(words.behaviours, part.behaviour).format(wish=intent.id, text=part.text)


def dialogue_text(episode: Episode, persona: Persona, words: Manner, hears_agent: bool = True) -> str:
    """What was said so far, or what the person said, one line for each message, with the speaker's name."""
    spoken = [
        (m["role"], episode.spoken_words_of(m).text if m["role"] == "assistant" else m["content"]) for m in episode.messages
    ]
    who = {"user": words.you} | ({"assistant": words.assistant} if hears_agent else {})
    lines = [f"{who[role]}: {persona.overhears(text)}" for role, text in spoken if role in who and text.strip()]
    return "\n".join(lines) or words.silence


def utterance_schema(intents: Sequence[IntentProtocol]) -> dict[str, Any]:
    """The field `response_format` that asks for a `UserAnswer`; `about` is one of these intents."""
    about = {"anyOf": [{"type": "integer", "enum": [intent.id for intent in intents]}, {"type": "null"}]}
    properties = {"say": {"type": "string"}, "about": about, "stop": {"type": "boolean"}}
    shape = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": UTTERANCE, "strict": True, "schema": shape}}


def parse_user_answer(text: str, cut: bool, intents: Sequence[IntentProtocol]) -> UserAnswer:
    """Parse a model's text: the JSON in it, else the text as the utterance. `cut` says that the tokens ran out.

    Raises `MalformedAnswer`, with a reason that can be told to the model.
    """
    text = strip_thoughts_and_controls(text).strip()
    if cut:
        raise MalformedAnswer("it was cut off; be shorter")
    if JSON.search(text):
        said = _parse_json_utterance(text)
    elif STOP in text:
        said = UserAnswer(stop=True)
    elif len(text.splitlines()) > LINES:
        raise MalformedAnswer("it is more than an utterance")
    else:
        said = UserAnswer(say=text.strip('"“” \n'))
    if not (said.stop or said.say.strip()):
        raise MalformedAnswer("it says nothing")
    if not said.stop and said.about not in (None, *(intent.id for intent in intents)):
        raise MalformedAnswer(f"there is no wish {said.about}")
    return said


def _parse_json_utterance(text: str) -> UserAnswer:
    """The single JSON object in a text; text around it is ignored."""
    text = text[max(0, text.find("{")) :]
    try:
        found, end = json.JSONDecoder().raw_decode(text)
        if "{" in text[end:]:
            raise MalformedAnswer("it is more than one answer")
        said = UserAnswer.model_validate(found)
    except (ValidationError, ValueError, RecursionError):
        raise MalformedAnswer('it is not the JSON {"say", "about", "stop"}') from None
    return said.model_copy(update={"say": replace_surrogates(said.say)})


class SharedEndpoint:
    """The endpoint that all users of a run share, with counts of their utterances and of their errors by reason."""

    def __init__(self, settings: UserSettings) -> None:
        self.settings, self.endpoint = settings, make_endpoint(settings)
        if not settings.structured:
            self.endpoint.plain.add(UTTERANCE)
        self.utterances, self.errors = 0, Counter[str]()


class LLMUser:
    """One person in one episode."""

    def __init__(self, shared: SharedEndpoint, seed: int) -> None:
        self.name, self.shared, self.seed = shared.endpoint.speaker_name, shared, seed

    async def speak(self, episode: Episode) -> Utterance:
        """The next utterance; an empty one if nothing is open, or if the agent has given cause to stop.

        Raises `UserError` if the model leaves its role, and `InfraError` if its server fails.
        """
        intents = episode.open_intents()
        # The turns that the user's own behaviours take are no fault of the agent.
        patience = self.shared.settings.patience + episode.situation.added.turns
        if not intents or (has_claimed_done(episode) and count_idle_turns(episode) >= patience):
            return Utterance("", requests=0)
        persona = world_of(episode.blueprint).persona(episode)
        said, fault, spent = await self._hear_agent(episode, persona, intents)
        if fault and is_failure_of_agent(fault, said.say, episode):
            return spent
        if fault:
            self.shared.errors[fault.reason] += 1
            raise UserError(fault.message, fault.reason, spent)
        self.shared.utterances += 1
        about = said.about
        if about is None:  # the intent that its words are about, else the current or first one
            current = next((intent for intent in intents if intent.id == episode.speaking_of), intents[0])
            about = (persona.meant(said.say, intents) or current).id
        return replace(spent, text=" ".join(said.say.split()), intent_id=about)

    async def _hear_agent(
        self, episode: Episode, persona: Persona, intents: Sequence[IntentProtocol]
    ) -> tuple[UserAnswer, UserFault | None, Utterance]:
        """The user's answer to what the agent has said.

        If its model leaves its role, or its server refuses the request, as for too many words or such as a filter takes
        out, it is asked again without any word of the agent. So it is if its server breaks; but if it breaks for a while and
        not for these words, it takes them then, and is heard.
        """
        spent, without = Utterance("", requests=0), None
        try:
            said, fault, spent = await self._ask_for_answer(episode, persona, intents, spent)
        except (RequestRefused, RequestBroken) as error:
            if not episode.steps:
                raise
            without = await self._ask_for_answer(episode, persona, intents, spent, hears_agent=False)
            if isinstance(error, RequestRefused):
                return without
            try:
                said, fault, spent = await self._ask_for_answer(episode, persona, intents, without[2])
            except (RequestRefused, RequestBroken):  # though it takes other words: it is for these
                return without
        if not fault or not episode.steps or is_failure_of_agent(fault, said.say, episode):
            return said, fault, spent
        if without:
            return *without[:2], spent
        return await self._ask_for_answer(episode, persona, intents, spent, hears_agent=False)

    async def _ask_for_answer(
        self,
        episode: Episode,
        persona: Persona,
        intents: Sequence[IntentProtocol],
        spent: Utterance,
        hears_agent: bool = True,
    ) -> tuple[UserAnswer, UserFault | None, Utterance]:
        """The first answer of at most two that can be parsed, how it leaves the role, and what all requests cost so far."""
        said = self.shared.settings
        options = {"temperature": said.temperature, "max_tokens": said.max_tokens, "extra_body": said.extra}
        messages = build_user_prompt(episode, persona, intents, said, self.seed, hears_agent)
        again = load_manner(episode.blueprint.language).again
        why = ""
        for _ in range(2):
            # The same in every process, and another for each request.
            seed = derive_seed(self.seed, episode.blueprint.id, episode.turn, spent.requests)
            answer = await self.shared.endpoint.chat_in_form(messages, utterance_schema(intents), **options, seed=seed)
            choice, (prompt, completion) = answer.choices[0], tokens_of(answer)
            spent = Utterance("", None, spent.tokens + completion, spent.prompt_tokens + prompt, spent.requests + 1)
            text = choice.message.content or ""
            try:
                parsed = parse_user_answer(text, choice.finish_reason == "length", intents)
            except MalformedAnswer as error:
                why = str(error)
                told = {"role": "user", "content": again.format(error=why)}
                messages = [*messages, {"role": "assistant", "content": text}, told]
                continue
            if parsed.stop:
                return parsed, UserFault("gave_up", "the user gave up while something was still to be done"), spent
            found = persona.fault(parsed.say, intents)
            return parsed, UserFault(*found) if found else None, spent
        return UserAnswer(), UserFault("malformed", f"the user's answer could not be read: {why}"), spent


def is_failure_of_agent(fault: UserFault, said: str, episode: Episode) -> bool:
    """Whether a fault of the user counts against the agent.

    A user who stops or repeats himself has met an agent that does nothing for him. A false claim is cause to stop, too, but
    makes no answer unreadable.
    """
    if fault.reason == "malformed":
        return has_done_nothing(episode)
    provoked = fault.reason in ("gave_up", "repetition") or says_after_agent(said, episode)
    return provoked and has_given_cause_to_stop(episode)


def says_after_agent(text: str, episode: Episode) -> bool:
    """Whether all words of a text are in the agent's last message: the agent has told its user what to say."""
    heard = episode.spoken_words_of(episode.messages[-1]).text if episode.steps else ""
    said, told = (re.findall(r"\w+", words.lower()) for words in (text, heard))
    return bool(said) and {*said} <= {*told}


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


class ScriptedUser:
    """Starts with the wording that `seed` selects, and cycles through the intent's wordings from there."""

    name = "scripted"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    async def speak(self, episode: Episode) -> Utterance:
        """What comes next in the course of the current or first unmet intent. After the course, the plain answer if the
        agent asked a question, else the next wording.

        The utterance is empty if every intent is met.
        """
        open_intents = episode.open_intents()
        if not open_intents:
            return Utterance("")
        intent = next((i for i in open_intents if i.id == episode.speaking_of), open_intents[0])
        course = episode.situation.course_of(intent.id)
        at = episode.course_position(intent.id, episode.turn + 1)
        if at is None:
            return Utterance(course.aside or "", intent.id)
        if at < len(course.parts):
            return Utterance(course.parts[at].text, intent.id)
        if intent.id == episode.speaking_of and episode.spoken_words_of(episode.messages[-1]).question:
            return Utterance(intent.clarification, intent.id)
        times = sum(m["role"] == "user" and m["content"] in intent.queries for m in episode.messages)
        return Utterance(intent.queries[(self.seed + times) % len(intent.queries)], intent.id)


class UserFactory:
    """A factory of users: `users(seed)` makes one. Without a `shared` endpoint they are scripted."""

    def __init__(self, shared: SharedEndpoint | None = None) -> None:
        self.shared = shared

    def __call__(self, seed: int) -> User:
        if self.shared is None:
            return ScriptedUser(seed)
        return LLMUser(self.shared, seed)

    def usage_totals(self) -> dict[str, Any]:
        """Requests, tokens, retries and faults of the endpoint, utterances, and user errors by reason; empty if scripted."""
        if self.shared is None:
            return {}
        counts = {"utterances": self.shared.utterances, "errors": dict(self.shared.errors)}
        return asdict(self.shared.endpoint.usage) | counts

    def usage_metrics(self) -> dict[str, float]:
        """The usage as flat numbers named `user/...`, for a run's monitor."""
        flat: dict[str, float] = {}
        for key, value in self.usage_totals().items():  # a number, or numbers by reason
            if isinstance(value, dict):
                flat |= {f"user/{key}/{reason}": float(count) for reason, count in value.items()}
            else:
                flat[f"user/{key}"] = float(value)
        return flat


def make_llm_users(settings: UserSettings) -> UserFactory:
    """Users behind endpoints that answer; raises `InputError` if the key's variable is not set."""
    refuse_missing_key(settings)
    return UserFactory(SharedEndpoint(settings))


def refuse_missing_key(settings: EndpointSettings) -> None:
    """Raise `InputError` if the settings name a key whose variable is not set."""
    if settings.key != NO_KEY and settings.key not in os.environ:
        raise InputError(f"the environment variable {settings.key} is not set", "key", "export it")


@contextmanager
def open_user_factory(settings: UserSettings, log: Path = Path("user_server.log")) -> Iterator[UserFactory]:
    """Yield the users of a recipe; a model that the recipe serves runs until the context ends."""
    if settings.kind == "scripted":
        yield UserFactory()
        return
    from homerl.models.endpoint.vllm_server import serve_endpoint

    with serve_endpoint(settings, log) as running:
        yield make_llm_users(running)
