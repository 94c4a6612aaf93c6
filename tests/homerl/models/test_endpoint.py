"""Endpoints: real HTTP, every kind of fault, an end to every wait."""

import asyncio
import json
import re
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import httpx
import pytest
from crossed import crossed
from openai import APIStatusError
from pydantic import ValidationError
from scripted_server import Faults, ScriptedServer

from homerl.envs.core.model import Model
from homerl.models.endpoint import endpoint as endpoints
from homerl.models.endpoint.endpoint import REST, TRIPS, Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.llm_agent import LLMAgent, messages_to_send
from homerl.models.endpoint.server_answers import is_transient_error, is_unavailable_error
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.faults import EndpointRejected, InfraError, RequestBroken, RequestRefused
from homerl.play.situation import Observation
from homerl.play.tool_call_parser import parse_model_json


class Greeting(Model):
    hello: int


ASK = [{"role": "user", "content": "hello"}]
QUICK = Patience(timeout=0.3, deadline=3.0, tries=4)
UNHURRIED = Patience(timeout=30.0, deadline=60.0, tries=4)  # where no answer is late: a busy machine may take seconds


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(endpoints, "FIRST_WAIT", 0.01)


def ask(*servers: ScriptedServer | str, patience: Patience = UNHURRIED, times: int = 1):
    """What `times` requests, one after another, gave: texts and errors; and the endpoint."""

    async def talk():
        endpoint = Endpoint([s if isinstance(s, str) else s.url for s in servers], "scripted", patience)
        found = []
        for _ in range(times):
            try:
                found.append((await endpoint.chat(ASK)).choices[0].message.content)
            except InfraError as error:
                found.append(error)
        await endpoint.close()
        return found, endpoint

    return asyncio.run(talk())


def test_an_answer_is_counted():
    with ScriptedServer() as server:
        (text,), endpoint = ask(server)
    assert text == "Done." and endpoint.usage.requests == 1 and endpoint.usage.prompt_tokens == 100


@pytest.mark.parametrize("fault", ["errors", "garbage", "halves", "stalls"])
def test_a_server_that_only_fails_ends_in_an_infra_error_in_time(fault):
    with ScriptedServer(faults=Faults(**{fault: 1.0})) as server:
        begin = time.monotonic()
        (error,), endpoint = ask(server, patience=QUICK)
        assert isinstance(error, InfraError) and time.monotonic() - begin < QUICK.deadline + 30
        assert endpoint.usage.retries >= 2 and server.served[fault] == endpoint.usage.retries


def test_a_person_is_answered_by_the_next_sentence_once_the_server_is_back():
    """It answered with a page of HTML for a while, as a proxy does. Each sentence asks it, and none rests."""
    patience = Patience(timeout=0.9, deadline=0.9, tries=2, waits=False)  # below the shortest rest
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=["<html>bad gateway</html>"]) as server:
        server.answer = lambda _: {"content": "Done."}
        server.drawn = lambda _: "garbage" if server.served["garbage"] < 2 * TRIPS else None
        found, _ = ask(server, patience=patience, times=TRIPS + 1)
    assert [type(one) for one in found[:TRIPS]] == [RequestBroken] * TRIPS and found[TRIPS] == "Done."


def test_passing_faults_are_outlived():
    with ScriptedServer(faults=Faults(errors=0.2, garbage=0.1, halves=0.1, stalls=0.1), seed=3) as server:
        found, endpoint = ask(server, patience=Patience(timeout=0.2, deadline=20, tries=12), times=30)
    assert found == ["Done."] * 30 and endpoint.usage.retries > 5


def test_a_refusal_is_not_tried_again():
    with ScriptedServer(faults=Faults(refusals=1.0)) as server:
        (error,), endpoint = ask(server)
    assert isinstance(error, InfraError) and "status 400" in str(error)
    assert endpoint.usage.retries == 0 and server.served["refusals"] == 1


def completion(message="null", usage="null", more=""):
    choices = f'[{{"index": 0, "finish_reason": "stop", "message": {message}}}{more}]'
    return f'{{"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": {choices}, "usage": {usage}}}'


def called(arguments):
    return {"id": "c1", "type": "function", "function": {"name": "query_spec", "arguments": arguments}}


SAID = '{"role": "assistant", "content": "hello"}'
ODD = {
    "no object": "true",
    "choices are a number": '{"choices": 5}',
    "choices are an object": '{"choices": {"0": 1}}',
    "endless nesting": "[" * 200_000,
    "no message": completion(),
    "a message in words": completion('"hello"'),
    "content in parts": completion('{"role": "assistant", "content": ["hello"]}'),
    "a call in words": completion('{"role": "assistant", "content": null, "tool_calls": ["switch on"]}'),
    "a call without function": completion('{"role": "assistant", "content": null, "tool_calls": [{"type": "function"}]}'),
    "a second choice without message": completion(SAID, more=', {"index": 1, "finish_reason": "stop"}'),
    "usage in words": completion(SAID, usage='"many"'),
    "usage of words": completion(SAID, usage='{"prompt_tokens": "12", "completion_tokens": 1}'),
}


@pytest.mark.parametrize("what", ODD)
def test_an_answer_of_another_shape_is_garbage(what):
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=[ODD[what]]) as server:
        (error,), endpoint = ask(server, patience=Patience(timeout=2, deadline=5, tries=2))
    assert isinstance(error, InfraError) and server.served["garbage"] == endpoint.usage.retries == 2


@crossed(
    arguments=[
        ('"arguments": null', {}),
        ('"arguments": {"spid": "1"}', {"spid": "1"}),
        ('"arguments": "{}"', {}),
        ("", {}),
    ],
    kind=['"type": "function", ', '"type": null, ', ""],
    id=['"id": null, ', '"id": "c1", ', '"id": "", ', ""],
)
def test_calls_are_read_as_servers_write_them(arguments, id, kind):
    written, read = arguments
    call = f'{{{id}{kind}"function": {{"name": "query_spec"{written and ", "}{written}}}}}'
    said = f'{{"role": "assistant", "content": null, "tool_calls": [{call}]}}'
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=[completion(said)]) as server:
        endpoint = Endpoint([server.url], "scripted")
        (reply,) = asyncio.run(LLMAgent(endpoint).propose(Observation("b", tuple(ASK), ())))
    (made,) = reply.message["tool_calls"]
    assert made["id"] == ("c1" if "c1" in id else "call_0") and parse_model_json(made["function"]["arguments"]) == read


def streamed(*deltas: str) -> str:
    """What a server streams."""
    chunk = '{{"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [{}]}}'
    choices = [f'{{"index": 0, "delta": {delta}, "finish_reason": null}}' for delta in deltas]
    return "".join(f"data: {chunk.format(choice)}\n\n" for choice in choices) + "data: [DONE]\n\n"


def call_delta(name: str, arguments: str = "{}", **more: Any) -> str:
    return json.dumps({"tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]})


def two_calls_in_parts(first: int, second: int) -> tuple[str, ...]:
    """Two calls of these numbers, each with its id and name in its first part alone."""
    numbered = (
        ("on", "{", first, {"id": "a"}),
        ("", "}", first, {}),
        ("off", "{", second, {"id": "b"}),
        ("", "}", second, {}),
    )
    return tuple(call_delta(name, part, index=number, **more) for name, part, number, more in numbered)


@pytest.mark.parametrize(
    ("deltas", "made"),
    [
        ((call_delta("on", index=0, id="a"), call_delta("off", index=0, id="b")), [("a", "on", "{}"), ("b", "off", "{}")]),
        ((call_delta("on", id="a"), call_delta("off", id="b")), [("a", "on", "{}"), ("b", "off", "{}")]),
        ((call_delta("on", "{", index=0, id="a"), call_delta("on", "}", index=0, id="a")), [("a", "on", "{}")]),
        ((call_delta("on", "{", id="a"), call_delta("", "}")), [("a", "on", "{}")]),
        (('{"content": [{"type": "text", "text": "Hi"}]}',), []),
        (two_calls_in_parts(0, 0), [("a", "on", "{}"), ("b", "off", "{}")]),
        (two_calls_in_parts(1, 3), [("a", "on", "{}"), ("b", "off", "{}")]),
    ],
    ids=[
        "all number 0",
        "no number",
        "repeated",
        "a part without a number",
        "content in parts",
        "0 in parts",
        "from 1, a gap",
    ],
)
def test_streamed_calls_are_read_as_servers_number_them(deltas, made):
    heard: list[str] = []
    sends = {"garbage": [streamed(*deltas)], "headers": {"content-type": "text/event-stream"}}
    with ScriptedServer(faults=Faults(garbage=1.0), **sends) as server:
        agent = LLMAgent(Endpoint([server.url], "scripted"))
        agent.told = heard.append
        (reply,) = asyncio.run(agent.propose(Observation("b", tuple(ASK), ())))
    calls = [(one["id"], *one["function"].values()) for one in reply.message.get("tool_calls", ())]
    assert calls == made and "".join(heard) == reply.message["content"]


@pytest.mark.parametrize("arguments", ['"{}"', "null", "{}"])
def test_a_call_in_the_older_form_is_a_call(arguments):
    call = f'{{"name": "query_spec", "arguments": {arguments}}}'
    said = f'{{"role": "assistant", "content": null, "function_call": {call}}}'
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=[completion(said)]) as server:
        (reply,) = asyncio.run(LLMAgent(Endpoint([server.url], "scripted")).propose(Observation("b", tuple(ASK), ())))
    (made,) = reply.message["tool_calls"]
    assert made["function"] == {"name": "query_spec", "arguments": "{}"}


@pytest.mark.parametrize("usage", ["null", "{}", '{"prompt_tokens": 5}', '{"prompt_tokens": 5, "completion_tokens": null}'])
def test_a_usage_of_which_parts_are_missing_counts_as_far_as_it_goes(usage):
    async def heard(url):
        endpoint = Endpoint([url], "scripted")
        (reply,) = await LLMAgent(endpoint).propose(Observation("b", tuple(ASK), ()))
        form = await StructuredClient(endpoint, EndpointSettings(url=url, model="scripted")).ask("", "", Greeting, 0)
        await endpoint.close()
        return reply, form

    said = '{"role": "assistant", "content": "{\\"hello\\": 1}"}'
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=[completion(said, usage=usage)]) as server:
        reply, form = asyncio.run(heard(server.url))
    assert (reply.tokens, reply.prompt_tokens) == (0, 5 if "5" in usage else 0) and form.hello == 1


@pytest.mark.parametrize("thought", ["<think>{}</think>", "so it is</think>\n", "<|channel|>analysis<|message|>{}<|end|>"])
def test_a_structured_answer_may_begin_with_a_thought(thought):
    async def heard(url):
        endpoint = Endpoint([url], "scripted")
        form = await StructuredClient(endpoint, EndpointSettings(url=url, model="scripted")).ask("", "", Greeting, 0)
        await endpoint.close()
        return form

    with ScriptedServer(answer=lambda request: {"content": f'{thought}```json\n{{"hello": 1}}\n```'}) as server:
        assert asyncio.run(heard(server.url)).hello == 1 and len(server.requests) == 1


@pytest.mark.parametrize(
    ("said", "sent", "role"),
    [
        ({"content": "<tool_call>\n{"}, None, "user"),
        ({"content": "", "tool_calls": [called('{"did": ')]}, "{}", "tool"),
        ({"content": "", "tool_calls": [called("[1]")]}, "{}", "tool"),
        ({"content": "", "tool_calls": [called('{"did": "1"}')]}, '{"did": "1"}', "tool"),
    ],
)
def test_what_could_not_be_read_is_sent_so_that_servers_take_the_dialogue(said, sent, role):
    answered = {"role": "tool", "content": "refused: syntax"} | ({"tool_call_id": "c1"} if sent else {})
    dialogue = messages_to_send([*ASK, {"role": "assistant"} | said, answered])
    assert [message["role"] for message in dialogue] == ["user", "assistant", role]
    assert [call["function"]["arguments"] for call in dialogue[1].get("tool_calls", ())] == ([sent] if sent else [])


NEWER = {  # what servers say of fields that they do not take: status, error, field, and the name that they take instead
    "openai": (400, {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                     "'max_completion_tokens' instead.", "param": "max_tokens", "code": "unsupported_parameter"},
               "max_tokens", "max_completion_tokens"),
    "azure": (400, {"message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
                    "value is supported.", "param": "temperature", "code": "unsupported_value"}, "temperature", None),
    "mistral": (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"],
                                  "msg": "Extra inputs are not permitted"}]}, "seed", None),
}  # fmt: skip


@pytest.mark.parametrize("server", NEWER)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_field_that_a_server_refuses_by_its_name_is_sent_in_its_form_or_left_out(server, streamed, capsys):
    status, reason, field, instead = NEWER[server]
    asked = {"max_tokens": 7, "temperature": 0.0, "seed": 3}

    async def talk(url):
        endpoint = Endpoint([url], "scripted", QUICK)
        told = [].append if streamed else None
        said = [(await endpoint.chat(ASK, told, **asked)).choices[0].message.content for _ in range(3)]
        await endpoint.close()
        return said

    with ScriptedServer(refusal=status, reason=reason) as scripted:
        scripted.drawn = lambda request: "refusals" if field in request else None
        assert asyncio.run(talk(scripted.url)) == ["Done."] * 3
    asked_twice = 1 + streamed  # what a server does not stream is asked for whole
    assert scripted.served == {"refusals": asked_twice, "answers": 3 * asked_twice}  # found out once, and known from then on
    expected = {key: value for key, value in asked.items() if key != field} | ({instead: asked[field]} if instead else {})
    names = {*asked, "max_completion_tokens"}
    assert {key: value for key, value in scripted.requests[-1].items() if key in names} == expected
    assert capsys.readouterr().err.count("samples at that") == (field == "temperature")


def test_a_limit_that_is_too_large_is_no_field_that_is_not_taken():
    error = {
        "message": "max_tokens is too large: 9. This model supports at most 4 completion tokens.",
        "param": "max_tokens",
    }
    with ScriptedServer(faults=Faults(refusals=1.0), reason=error) as server:

        async def talk():
            endpoint = Endpoint([server.url], "scripted", QUICK)
            with pytest.raises(RequestRefused, match="too large"):
                await endpoint.chat(ASK, max_tokens=9)
            await endpoint.close()

        asyncio.run(talk())
    assert len(server.requests) == 1


def test_half_a_character_is_replaced_before_it_gets_anywhere():
    call = {"type": "function", "function": {"name": "say\ud83d", "arguments": '{"text": "\\ud83d"}'}}
    with ScriptedServer(answer=lambda request: {"content": "well \ud83d, \ud83d\ude00", "tool_calls": [call]}) as server:
        (text,), _ = ask(server)
    assert text == "well \ufffd, \U0001f600"
    assert parse_model_json('{"text": "\\ud83d", "more": ["\\ud83d\\ude00"]}') == {"text": "\ufffd", "more": ["\U0001f600"]}


TOO_LONG = {  # what servers say of a dialogue that is longer than their model takes
    "vllm": (400, {"message": "This model's maximum context length is 4096 tokens. Your request has 4321 input tokens.",
                   "type": "BadRequestError", "code": 400}),
    "an older vllm": (400, {"message": "The decoder prompt (length 4321) is longer than the maximum model length of 4096."}),
    "openai": (400, {"message": "Please reduce the length of the messages.", "code": "context_length_exceeded"}),
    "sglang": (400, {"message": "The input (4321 tokens) is longer than the model's context length (4096 tokens)."}),
    "llama.cpp": (400, {"code": 400, "message": "request (4321 tokens) exceeds the available context size (4096 tokens)",
                        "type": "exceed_context_size_error"}),
    "an older llama.cpp": (500, {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}),
    "ollama": (400, {"message": "prompt too long; exceeded max context length by 225 tokens"}),
    "lm studio": (400, {"message": "Trying to keep the first 4321 tokens when context the overflows. However, the model is "
                                   "loaded with context length of only 4096 tokens"}),
    "tgi": (422, {"message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4321"}),
    "anthropic": (400, {"type": "invalid_request_error", "message": "prompt is too long: 4321 tokens > 4096 maximum"}),
    "mistral": (400, {"message": "Prompt contains 4321 tokens, too large for model with 4096 maximum context length"}),
    "gemini": (400, {"message": "The input token count (4321) exceeds the maximum number of tokens allowed (4096)."}),
    "groq": (413, {"message": "Request too large: Limit 4096, Requested 4321, please reduce your message size."}),
    "xai": (400, {"message": "This model's maximum prompt length is 4096 but the request contains 4321 tokens."}),
    "exllama": (400, {"message": "Prompt length 4321 is greater than max_seq_len 4096"}),
    "cohere": (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4096"}),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "a code alone": (500, {"code": "context_length_exceeded"}),
    "homerl": (400, {"message": "the dialogue is longer than the model takes: it has 4321 tokens"}),
}  # fmt: skip


RATE = (
    "This would exceed the rate limit of 20,000 input tokens a minute. Please reduce the prompt length, or try again later."
)


def test_a_rate_limit_that_speaks_of_tokens_is_waited_for():
    with ScriptedServer(faults=Faults(refusals=1.0), refusal=429, reason={"message": RATE}) as asked:
        (error,), endpoint = ask(asked, patience=replace(QUICK, deadline=1.0))
    assert not isinstance(error, RequestRefused) and endpoint.usage.retries > 0


@pytest.mark.parametrize("server", TOO_LONG)
def test_a_dialogue_that_is_too_long_is_known_by_what_servers_say_of_it(server):
    status, reason = TOO_LONG[server]
    with ScriptedServer(faults=Faults(refusals=1.0), refusal=status, reason=reason) as asked:
        (error,), endpoint = ask(asked)
    assert isinstance(error, RequestRefused) and error.too_long and endpoint.usage.retries == 0


@pytest.mark.parametrize(
    "reason",
    [
        "tool_choice: no such thing",
        "a parameter is too long",
        "max_tokens is too large: this model writes at most 4096 tokens",
        "name: the input is longer than 64 characters",
        "max_tokens exceeds the limit of 4096",
    ],
)
def test_no_other_refusal_is_taken_for_one_of_a_long_dialogue(reason):
    with ScriptedServer(faults=Faults(refusals=1.0), reason={"message": reason}) as server:
        (error,), _ = ask(server)
    assert isinstance(error, RequestRefused) and not error.too_long


def test_a_server_that_gives_one_candidate_a_request_is_asked_for_the_rest():
    def answer(request):
        return [{"content": f"with seed {request['seed']}"}]

    async def proposed(url):
        observation = Observation("b", tuple(ASK), ())
        replies = await LLMAgent(Endpoint([url], "scripted"), seed=7).propose(observation, n=3)
        return [reply.message["content"] for reply in replies]

    with ScriptedServer(answer=answer) as server:
        said = asyncio.run(proposed(server.url))
        assert [request["n"] for request in server.requests] == [3, 2, 1]
        assert len(set(said)) == 3 and said == asyncio.run(proposed(server.url))


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_model_is_no_refusal_of_a_request(status):
    with ScriptedServer(faults=Faults(refusals=1.0), refusal=status) as server:
        (error,), _ = ask(server)
    assert isinstance(error, EndpointRejected) and not isinstance(error, RequestRefused)
    assert f"status {status}" in str(error) and "OPENAI_API_KEY" in str(error) and server.served["refusals"] == 1


def test_nobody_at_the_address_is_an_infra_error():
    (error,), endpoint = ask("http://127.0.0.1:9/v1", patience=Patience(timeout=0.3, deadline=0.5, tries=4))
    assert isinstance(error, InfraError) and endpoint.usage.requests == 0


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:8000/v1", "begins with http"),
        (["http://a/v1", "b/v1"], "begins with http"),
        ("http://me:pw@a/v1", "no user"),
    ],
)
def test_what_is_no_address_is_refused(url, says):
    with pytest.raises(ValidationError, match=says):
        EndpointSettings(url=url, model="m")


def test_the_server_says_how_long_to_wait():
    with ScriptedServer(faults=Faults(errors=1.0), headers={"retry-after": "0.2"}) as server:
        begin = time.monotonic()
        ask(server, patience=Patience(timeout=1, deadline=30, tries=3))
        assert time.monotonic() - begin >= 0.4


def test_a_date_to_wait_for_is_kept_and_one_too_late_is_not_waited_for():
    then = formatdate(time.time() + 2, usegmt=True)
    with ScriptedServer(faults=Faults(refusals=1.0), refusal=429, headers={"retry-after": then}) as server:
        begin = time.time()
        ask(server, patience=Patience(timeout=1, deadline=2.5, tries=2))
        assert server.served["refusals"] >= 2 and time.time() - begin >= 0.9  # a date has whole seconds
    with ScriptedServer(faults=Faults(errors=1.0), headers={"retry-after": "3600"}) as server:
        begin = time.monotonic()
        (error,), _ = ask(server, patience=Patience(timeout=1, deadline=30, tries=3))
    assert isinstance(error, InfraError) and server.served["errors"] == 1 and time.monotonic() - begin < 10


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("0", marks=pytest.mark.long),
        "nan",
        "Thu, 01 Jan 2026 00:00:00 GMT",
        pytest.param("soon", marks=pytest.mark.long),
        "Wed, 21 Oct 99999999999999 07:28:00 GMT",
    ],
)
def test_a_busy_server_that_names_no_time_is_not_flooded(said, monkeypatch):
    monkeypatch.setattr(endpoints, "FIRST_WAIT", 0.1)
    with ScriptedServer(faults=Faults(refusals=1.0), refusal=429, headers={"retry-after": said}) as server:
        (error,), _ = ask(server, patience=Patience(timeout=1, deadline=1.2, tries=3))
    assert isinstance(error, InfraError) and 2 <= server.served["refusals"] <= 15


def test_an_answer_to_another_request_does_not_end_the_wait():
    now = [0.0]
    endpoint = Endpoint(["http://127.0.0.1:9/v1"], "scripted", clock=lambda: now[0])
    (replica,) = endpoint.replicas
    replica.delay_until(30.0)
    replica.note_answer()  # a request that was sent before the server asked
    assert asyncio.run(endpoint._choose_replica(end=20.0, avoid=None)) is None
    now[0] = 30.0
    assert asyncio.run(endpoint._choose_replica(end=50.0, avoid=None)) is replica


def test_while_one_server_asks_to_wait_another_is_asked():
    with ScriptedServer(faults=Faults(errors=1.0), headers={"retry-after": "20"}) as busy, ScriptedServer() as free:
        found, _ = ask(busy, free, patience=Patience(timeout=5, deadline=30, tries=3), times=20)
    assert found == ["Done."] * 20 and busy.served["errors"] <= 1 and free.served["answers"] == 20


def test_a_server_that_is_away_costs_time_and_not_tries(monkeypatch):
    monkeypatch.setattr(endpoints, "REST", 0.3)
    with ScriptedServer() as server:
        server.die()
        reborn = threading.Timer(0.3, server.start)
        reborn.start()
        (text,), endpoint = ask(server, patience=Patience(timeout=1, deadline=30, tries=2))
    assert text == "Done." and endpoint.usage.retries > 2


def test_equal_replicas_share_what_comes_one_by_one():
    with ScriptedServer() as one, ScriptedServer() as two:
        ask(one, two, times=40)
    assert min(one.served["answers"], two.served["answers"]) >= 8


def test_a_dead_replica_is_left_alone_and_the_other_does_the_work():
    with ScriptedServer() as alive:
        dead = ScriptedServer()
        found, endpoint = ask(dead, alive, times=40)
        assert found == ["Done."] * 40
        assert endpoint.replicas[0].faults <= TRIPS and 1 <= endpoint.usage.retries <= TRIPS


def test_a_server_that_comes_back_is_found_again(monkeypatch):
    monkeypatch.setattr(endpoints, "REST", 0.3)
    server = ScriptedServer()

    async def talk():
        endpoint = Endpoint([server.url], "scripted", Patience(timeout=1, deadline=20, tries=50))
        asking = asyncio.create_task(endpoint.chat(ASK))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.start)
        answer = await asking
        await endpoint.close()
        return answer.choices[0].message.content

    assert asyncio.run(talk()) == "Done."
    server.die()


def test_the_least_busy_replica_is_asked():
    with ScriptedServer() as one, ScriptedServer() as two:

        async def talk():
            endpoint = Endpoint([one.url, two.url], "scripted", Patience(timeout=30))
            await asyncio.gather(*(endpoint.chat(ASK) for _ in range(40)))
            await endpoint.close()

        asyncio.run(talk())
        assert min(len(one.requests), len(two.requests)) >= 10


def test_the_key_is_the_environments_and_stands_in_no_message(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with ScriptedServer(faults=Faults(errors=1.0)) as server:
        (error,), endpoint = ask(server)
    assert endpoint.replicas[0].client.api_key == "sk-very-secret" and "secret" not in str(error)


def test_many_requests_that_fail_at_once_are_one_outage():
    """32 in flight when a server dies must not rest it 32 times as long."""
    with ScriptedServer(faults=Faults(errors=1.0)) as server:

        async def talk():
            endpoint = Endpoint([server.url], "scripted", Patience(timeout=1.0, deadline=3.0, tries=1))
            await asyncio.gather(*(endpoint.chat(ASK) for _ in range(32)), return_exceptions=True)
            (replica,) = endpoint.replicas
            rest = replica.since - endpoint.clock()
            await endpoint.close()
            return rest, replica.faults

        rest, faults = asyncio.run(talk())
    assert rest <= REST and faults >= TRIPS


def test_a_long_silence_is_told_once_a_minute_and_a_short_one_is_not(monkeypatch, capsys):
    quiet = endpoints.QUIET
    monkeypatch.setattr(endpoints, "QUIET", 0.2)
    monkeypatch.setattr(endpoints, "REST", 0.3)
    with ScriptedServer(faults=Faults(errors=1.0)) as server:
        ask(server, patience=Patience(timeout=0.3, deadline=1.5, tries=30))
        told = capsys.readouterr().err.splitlines()
        assert 1 <= len(told) < server.served["errors"], "not for each of the tries"
    said = rf"homerl: scripted at {re.escape(server.url)}: no answer for \d s \(status 500: out of order\)"
    assert all(re.fullmatch(said, line) for line in told)
    monkeypatch.setattr(endpoints, "QUIET", quiet)
    with ScriptedServer(faults=Faults(errors=1.0)) as server:
        ask(server)
    assert capsys.readouterr().err == ""


def busy(status: int, error: Any) -> APIStatusError:
    response = httpx.Response(status, json={"error": error}, request=httpx.Request("POST", "http://h/v1"))
    return APIStatusError("refused", response=response, body=error)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        ({"code": "insufficient_quota", "type": "insufficient_quota", "message": "You exceeded your current quota"}, False),
        ({"type": "billing_hard_limit_reached", "message": "no"}, False),
        ({"code": "insufficient_balance", "message": "top up"}, False),
        ({"code": "rate_limit_exceeded", "message": "3 a minute. Add a payment method to raise your quota"}, True),
        ({"status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded for requests per minute"}, True),
        (None, True),
    ],
)
def test_what_is_spent_is_not_waited_for_and_a_limit_of_a_minute_is(error, passes):
    assert is_transient_error(busy(429, error)) is passes and is_unavailable_error(busy(429, error)) is passes
