"""A chat model behind OpenAI-compatible URLs: several replicas, deadlines, retries, and a circuit breaker for each.

Invariants:
- Every request ends within `deadline`, with an answer or an `InfraError`.
- Keys come from the environment and appear in no message.
- A replica that keeps failing is not used for a while, then tried with a single request. Where nobody waits, each request is
  tried: a person who speaks again is answered once the server is back.
- A garbled answer is retried like a timeout.
- While nothing is answered, a person is told so at faults, at most once a minute, and why.
- What is told of a streamed completion is a beginning of the content that is returned.
- An endpoint may be used in one event loop after another.
- A field that a server refuses by its name, and without which it answers, is left out or renamed later (`SPARED`).
- A request's body is else sent as it is: checking it against the client library's types takes longer than all the rest.
- The client library, which takes long to load, is loaded by the first endpoint.

The retries are a loop of our own. A try may count or not, a wait may concern one replica, and the next try may go to another
replica. With tenacity, its stop, wait and after hooks would share all of this as state, in 30 lines more.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import math
import os
import random
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homerl.envs.core.messages import Message
from homerl.host.terminal import print_error
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.play.faults import EndpointRejected, InfraError, RequestBroken, RequestRefused
from homerl.play.situation import Observation

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Completion
    from openai.types.chat import ChatCompletion


Told = Callable[[str], None]


class StreamListener:
    """Passes on what is told, and knows whether anything was."""

    def __init__(self, told: Told) -> None:
        self._told, self.anything = told, False

    def __call__(self, text: str) -> None:
        self.anything = True
        self._told(text)


async def stream_completion(client: AsyncOpenAI, path: str, body: Mapping[str, Any], told: Told) -> ChatCompletion:
    """The completion of a request, each part of whose content is `told` as it comes. Raises what openai's client raises.

    Raises `ValueError` if the server streams nothing that can be read.
    """
    from openai import AsyncStream
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    from homerl.models.endpoint.server_answers import DeltaReader

    state, reader = ChatCompletionStreamState(), DeltaReader()
    kind = AsyncStream[ChatCompletionChunk]
    stream = await client.post(path, body={**body, "stream": True}, cast_to=ChatCompletion, stream=True, stream_cls=kind)
    try:
        async for chunk in stream:
            for choice in chunk.choices:
                reader.tidy_delta(choice.delta)
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                if choice.delta.content:
                    told(choice.delta.content)
        return state.get_final_completion()
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError("the answer is no stream") from error
    finally:
        await stream.close()


TRIPS = 5  # faults in a row after which a replica rests
REST, LONGEST_REST = 2.0, 60.0  # seconds of a rest, doubled each time up to the longest
FIRST_WAIT, LONGEST_WAIT = 0.5, 20.0  # seconds between tries
QUIET = 60.0  # seconds without any answer after which it is said, and said again
UNREADABLE = (TypeError, LookupError, AttributeError, RecursionError)  # what the client library raises for malformed answers


@dataclass(frozen=True)
class Patience:
    """How long a request may take: seconds for one try, seconds for all tries, and the number of tries.

    A try that found no server, or one that was too busy (`is_unavailable_error`), does not count, unless nobody `waits`.
    """

    timeout: float = 60.0
    deadline: float = 300.0
    tries: int = 5
    waits: bool = True


@dataclass
class Replica:
    """One server. It is not used before the time `since`, when a rest ends, nor before `asked`, which the server named."""

    url: str
    client: AsyncOpenAI
    busy: int = 0
    faults: int = 0
    since: float = 0.0
    asked: float = 0.0
    rest: float = field(default_factory=lambda: REST)  # as it is now: whoever shortens it shortens the first one too

    @property
    def free_from(self) -> float:
        """The time, by the endpoint's clock, from which the replica may be used."""
        return max(self.since, self.asked)

    def note_answer(self) -> None:
        """Note an answer: the replica works, so its count of faults starts again. What the server asked for still holds."""
        self.faults, self.since, self.rest = 0, 0.0, REST

    def note_fault(self, now: float, trips: float) -> None:
        """Note a fault at time `now`; after as many in a row as `trips` the replica rests.

        Requests that were already open when the rest began may fail later. Their faults do not prolong the rest.
        """
        self.faults += 1
        if self.faults >= trips and now >= self.since:
            self.since, self.rest = now + self.rest, min(2 * self.rest, LONGEST_REST)

    def delay_until(self, until: float) -> None:
        """Do not use the replica before `until`. This is not a fault: the server said when it will have time."""
        self.asked = max(self.asked, until)


@dataclass
class EndpointUsage:
    """Totals of an endpoint: answered requests, their tokens, retries, and faults by reason."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    faults: dict[str, int] = field(default_factory=dict)


class Endpoint:
    """Sends each request to the least busy replica that works."""

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        patience: Patience = Patience(),
        key: str = "OPENAI_API_KEY",
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.patience, self.clock, self.key = model, patience, clock, key
        self.trips = TRIPS if patience.waits else math.inf
        self.replicas = [Replica(url, self._make_client(url)) for url in urls]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard = self._told = -math.inf  # when a server last answered, and when its silence was last told
        self.usage = EndpointUsage()
        self.plain: set[str] = set()  # names of the schemas that its servers refuse
        self.spared: set[str] = set()  # fields that its servers refuse
        self._rng = random.Random(f"{seed} {os.getpid()}")  # for waits and equal replicas; it changes no result

    @property
    def speaker_name(self) -> str:
        """Who speaks, as data tell it: of a model that is served by its path, the last name."""
        return f"llm:{Path(self.model).name if self.model.startswith(('/', '~')) else self.model}"

    async def chat(self, messages: Sequence[Message], told: Told | None = None, **options: Any) -> ChatCompletion:
        """A chat completion with at least one choice; `options` are further fields of the request.

        The content is `told` as it comes, if the server streams. What breaks off after that is not tried again.
        Raises `RequestRefused` if the server refuses this request, `EndpointRejected` if it refuses every request (key,
        path or model name), `RequestBroken` if the server answered the last try and had broken, and another `InfraError` if
        no try succeeded in time.
        """
        from openai.types.chat import ChatCompletion

        listener = StreamListener(told) if told else None
        return await self._request("/chat/completions", {"messages": list(messages)} | options, ChatCompletion, listener)

    async def chat_in_form(self, messages: Sequence[Message], form: Mapping[str, Any], **options: Any) -> ChatCompletion:
        """The same in the form of a JSON Schema (the field `response_format`), until a server has refused this schema."""
        name = form["json_schema"]["name"]
        if name in self.plain:
            return await self.chat(messages, **options)
        try:
            return await self.chat(messages, **options, response_format=form)
        except RequestRefused:
            answer = await self.chat(messages, **options)
            self.plain.add(name)  # it answers without the schema, so it refused the schema
            return answer

    async def complete_tokens(self, prompt: Sequence[int], **options: Any) -> Completion:
        """A text completion of a prompt of token ids; it raises what `chat` raises."""
        from openai.types import Completion

        return await self._request("/completions", {"prompt": list(prompt)} | options, Completion)

    async def _request(self, path: str, body: dict[str, Any], kind: type, told: StreamListener | None = None) -> Any:
        from openai import OpenAIError

        from homerl.models.endpoint.server_answers import (
            describe_error,
            error_kind,
            find_refused_field,
            is_broken_answer,
            is_transient_error,
            is_unavailable_error,
        )

        body = {"model": self.model} | body
        body |= body.pop("extra_body", None) or {}
        spared = self.spared & body.keys()
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):  # a connection belongs to the loop in which it was made
            for each in self.replicas:
                each.client, each.busy = self._make_client(each.url), 0
        self._loop = loop
        begun = self.clock()
        end = begun + self.patience.deadline
        fault, broken, replica, tries, waits = "no replica works", False, None, 0, 0
        while tries < self.patience.tries and (replica := await self._choose_replica(end, avoid=replica)):
            try:
                answer = await self._ask_replica(replica, path, spare_fields(body, spared), kind, end, told)
                self._note_spared(spared)  # it answers without these fields, so it refused them
                return answer
            except (OpenAIError, TimeoutError, ValueError) as error:
                fault, sort = describe_error(error, os.environ.get(self.key, "")), error_kind(error)
                if told and told.anything:
                    raise InfraError(f"{self.model} broke off ({fault})") from error
                if field := find_refused_field(error, body.keys() - spared):
                    spared = spared | {field}
                    continue
                broken = is_broken_answer(error)
                if not is_transient_error(error):
                    replica.note_answer()
                    self._heard = self.clock()
                    raise self._error_of_refusal(replica.url, error, fault) from error
                tries, waits = tries + (not (self.patience.waits and is_unavailable_error(error))), waits + 1
                self.usage.retries += 1
                self.usage.faults[sort] = self.usage.faults.get(sort, 0) + 1
                now = self.clock()
                silent = now - max(begun, self._heard)
                if silent >= QUIET and now - self._told >= QUIET:
                    self._told = now
                    print_error(f"{self.model} at {replica.url}: no answer for {silent:.0f} s ({fault})")
                await self._wait_for_retry(replica, waits, error, end)
        raise (RequestBroken if broken else InfraError)(f"{self.model} did not answer ({fault})")

    def _note_spared(self, fields: set[str]) -> None:
        """Leave out fields from now on. A temperature that is not the one asked for is said: it changes figures."""
        if "temperature" in fields - self.spared:
            print_error(f"{self.model} takes no temperature but its own, so it samples at that")
        self.spared |= fields

    def _error_of_refusal(self, url: str, error: Exception, why: str) -> InfraError:
        from homerl.models.endpoint.server_answers import REFUSING, is_too_long

        if is_too_long(error):
            return RequestRefused(url, why, too_long=True)
        if getattr(error, "status_code", None) not in (None, *REFUSING):
            hint = f"see to the address, the model's name ({self.model}) and the key in {self.key}"
            return EndpointRejected(f"{url} takes no request: {why}; {hint}")
        return RequestRefused(url, why)

    def _make_client(self, url: str) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        timeout, key = self.patience.timeout, read_api_key(self.key)
        http = DefaultAsyncHttpxClient(verify=_load_certificates(), timeout=timeout)
        return AsyncOpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=0, http_client=http)

    async def _ask_replica(
        self, replica: Replica, path: str, body: Mapping[str, Any], kind: type, end: float, told: StreamListener | None
    ) -> Any:
        from homerl.models.endpoint.server_answers import check_completion

        replica.busy += 1
        try:
            left = max(0.01, min(self.patience.timeout, end - self.clock()))
            async with asyncio.timeout(left):
                answer: Any = check_completion(await _fetch_answer(replica.client, path, body, kind, told), kind)
        except UNREADABLE as error:
            raise ValueError("the answer is no completion") from error
        finally:
            replica.busy -= 1
        replica.note_answer()
        self._heard = self.clock()
        self.usage.requests += 1
        if answer.usage:
            self.usage.prompt_tokens += answer.usage.prompt_tokens
            self.usage.completion_tokens += answer.usage.completion_tokens
        return answer

    async def _choose_replica(self, end: float, avoid: Replica | None) -> Replica | None:
        """The least busy working replica, if possible not `avoid`.

        If all replicas rest, wait for the first that may be tried again; None if that is after `end`.
        """
        while True:
            now = self.clock()
            ready = [r for r in self.replicas if r.free_from <= now and not (r.faults >= self.trips and r.busy)]
            if ready:
                return min(ready, key=lambda r: (r is avoid, r.busy, r.faults, self._rng.random()))
            until = max(min(r.free_from for r in self.replicas), now + 0.05)
            if until >= end:
                return None
            await asyncio.sleep(until - now)

    async def _wait_for_retry(self, replica: Replica, waits: int, error: Exception, end: float) -> None:
        """Wait before the next try. If the server named a time, mark the replica, for which `_choose_replica` waits."""
        from homerl.models.endpoint.server_answers import retry_after

        now, asked = self.clock(), retry_after(error)
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(waits - 1, 10)) * self._rng.uniform(0.5, 1.0)
        if asked is not None:
            replica.delay_until(now + max(wait, asked * self._rng.uniform(1.0, 1.1)))
            return
        replica.note_fault(now, self.trips)
        await asyncio.sleep(max(0.0, min(wait, end - now)))

    async def close(self) -> None:
        """Close the connections of all replicas."""
        for replica in self.replicas:
            await replica.client.close()


@cache
def _load_certificates() -> ssl.SSLContext:
    """The certificates that the client library trusts, for all clients: to load them takes longer than many an answer."""
    from openai import DefaultAsyncHttpxClient

    http = next(one.__module__ for one in DefaultAsyncHttpxClient.__mro__ if one.__module__.startswith("httpx"))
    context: ssl.SSLContext = importlib.import_module(http.partition(".")[0]).create_ssl_context()
    return context


def spare_fields(body: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """A request's body without these fields, each under the name that newer models know, if they know one."""
    from homerl.models.endpoint.server_answers import SPARED

    kept = {key: value for key, value in body.items() if key not in fields}
    return {**{SPARED[field]: body[field] for field in fields if SPARED[field]}, **kept}


async def _fetch_answer(
    client: AsyncOpenAI, path: str, body: Mapping[str, Any], kind: type, told: StreamListener | None
) -> Any:
    """A server's answer, streamed if it is to be told. A server that streams nothing is asked for the whole."""
    from openai import APIConnectionError, OpenAIError

    if told:
        try:
            return await stream_completion(client, path, body, told)
        except APIConnectionError:
            raise
        except (OpenAIError, ValueError):
            if told.anything:
                raise
    return await client.post(path, body=body, cast_to=kind)


def make_endpoint(settings: EndpointSettings) -> Endpoint:
    """The endpoint of a recipe's settings; its servers must already run."""
    patience = Patience(settings.timeout, settings.deadline, settings.retries + 1)
    return Endpoint(settings.urls, settings.served_name, patience, settings.key)


def tokens_of(answer: ChatCompletion) -> tuple[int, int]:
    """The tokens of a request's prompt and of its answer; 0 if the server does not tell them."""
    return (answer.usage.prompt_tokens, answer.usage.completion_tokens) if answer.usage else (0, 0)


def derive_seed(*parts: object) -> int:
    """A 31-bit seed for a request, derived from `parts`; the same in every process."""
    return int.from_bytes(hashlib.blake2b(" ".join(map(str, parts)).encode(), digest_size=4).digest(), "big") >> 1


def request_seed(observation: Observation, seed: int | None, earlier: int = 0) -> dict[str, int]:
    """The field `seed` of a request: derived from `seed`, the task, its play, the number of messages so far, and that of
    the `earlier` candidates for the next one. A seed of None has none."""
    parts = observation.blueprint_id, observation.seed, len(observation.messages), *([earlier] if earlier else [])
    return {} if seed is None else {"seed": derive_seed(seed, *parts)}


def read_api_key(key: str = "OPENAI_API_KEY") -> str:
    """The API key in the environment variable `key`, or "none" if it is not set."""
    return os.environ.get(key, "none")
