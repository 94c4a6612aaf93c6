"""`homerl serve`: over HTTP a model says what it says from its folder, and bad requests are refused."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import math
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import openai
import pytest
from running import running
from tiny_agent import TOOLS, make_agent, prompts

from homerl.app.served.model_agents import LoadedModel, find_served_model, load_local_model
from homerl.app.served.openai_server import ModelServer
from homerl.host.web_server import ServerAddress
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.models.policy.policy_agent import Sample
from homerl.play.situation import Observation, Reply


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learnt a dialogue by heart, with two calls in one message and words beside a call."""
    return make_agent(tmp_path_factory.mktemp("learnt"), steps=130)


@pytest.fixture(scope="module", params=[pytest.param("learnt", marks=pytest.mark.long), "tiny"])
def model(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder / "model" if request.param == "learnt" else folder


@pytest.fixture(scope="module")
def port(model: Path) -> Iterator[int]:
    with running(
        ModelServer(load_local_model(str(model), cpu=True), ServerAddress(), max_tokens=60).build_server_app()
    ) as port:
        yield port


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1"


def said(agent: Any, observation: Observation) -> Reply:
    (reply,) = asyncio.run(agent.propose(observation))
    return reply


def plain(reply: Reply) -> tuple[str, list[dict[str, Any]], str | None]:
    """The words, the calls without their ids, and what is malformed."""
    calls = [call["function"] for call in reply.message.get("tool_calls") or ()]
    return reply.message["content"], calls, reply.malformed


def test_over_http_a_model_says_what_it_says_from_its_folder(model: Path, port: int) -> None:
    local, endpoint = load_local_model(str(model), cpu=True), Endpoint([url(port)], find_served_model(url(port)))
    most = 60 if model.name == "model" else 8  # an untrained model does not know when to stop
    calls = 0
    for messages in prompts():
        observation = Observation("x", tuple(messages), tuple(TOOLS))
        here = said(local.make_agents(most)(), observation)
        there = said(LLMAgent(endpoint, 0.0, most), observation)
        assert plain(there) == plain(here) and there.tokens == here.tokens and there.prompt_tokens > 40
        calls += len(there.message.get("tool_calls") or ())
    assert calls == 3 or model.name != "model"


CALL = '<tool_call>\n{"name": "query_status", "arguments": {"did": "1001", "text": "灯 <&>"}}\n</tool_call>'
CUT = '<tool_call>\n{"name": "query_status", "arg'


class Scripted:
    """In place of a loaded model's engine: it samples the tokens of a text."""

    context_length = None

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.tokenizer, self.text, self.engine = tokenizer, text, self

    def with_sampling(self, *_: Any) -> Scripted:
        return self

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        return await work()

    async def sample(self, prompt: Sequence[int]) -> Sample:
        ids = (*self.tokenizer.encode(self.text, add_special_tokens=False), self.tokenizer.eos_token_id)
        return Sample(ids, (0.0,) * len(ids))


@pytest.mark.parametrize("text", ["It is on.", CALL, f"I look.\n{CALL}\n{CALL}", "", CUT, "<tool_call>"])
def test_words_calls_and_what_is_malformed_arrive_as_they_were_written(tokenizer: Any, text: str) -> None:
    model = LoadedModel("scripted", Scripted(tokenizer, text), tokenizer)  # type: ignore[arg-type]
    observation = Observation("x", tuple(prompts()[0]), tuple(TOOLS))
    with running(ModelServer(model, ServerAddress()).build_server_app()) as port:
        there = said(LLMAgent(Endpoint([url(port)], "scripted"), 0.0, 60), observation)
    assert plain(there) == plain(said(model.make_agents(60)(), observation))
    assert len(there.message.get("tool_calls") or ()) == text.count("</tool_call>")
    assert bool(there.malformed) == (text in (CUT, "<tool_call>"))


def test_a_message_is_streamed_whole(port: int) -> None:
    client = openai.OpenAI(base_url=url(port), api_key="none", max_retries=0)
    (model,) = client.models.list()
    assert model.owned_by == "homerl" and not hasattr(model, "homerl"), "Home Assistant would take it for an agent"
    asked: dict[str, Any] = {"model": model.id, "messages": prompts()[0], "tools": TOOLS, "temperature": 0, "max_tokens": 60}
    whole = client.chat.completions.create(**asked).choices[0]
    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True)]
    assert "".join(chunk.delta.content or "" for chunk in chunks) == whole.message.content
    streamed = [call.function.model_dump() for chunk in chunks for call in chunk.delta.tool_calls or ()]
    assert streamed == [call.function.model_dump() for call in whole.message.tool_calls or ()]
    assert chunks[-1].finish_reason == whole.finish_reason


def test_with_a_seed_a_sample_is_made_again(port: int) -> None:
    client = openai.OpenAI(base_url=url(port), api_key="none", max_retries=0)
    asked: dict[str, Any] = {
        "model": "x",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 2.0,
        "max_tokens": 20,
    }
    texts = [client.chat.completions.create(**asked, seed=seed).choices[0].message.content for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
        ({"messages": [{"role": "user", "content": "x"}], "n": 2}, "n"),
        ({"messages": [{"role": "user", "content": "x"}], "temperature": -1}, "temperature"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "long " * 20000}]}, "tokens"),
    ],
)
def test_a_bad_request_is_refused_with_its_reason(port: int, body: dict[str, Any], words: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 400 and words in json.loads(answer.read())["error"]["message"]


def post(port: int, body: Any, connection: http.client.HTTPConnection | None = None) -> tuple[int, dict[str, Any]]:
    """The status of the answer to a body, and the answer, if it is not streamed."""
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, {} if text.startswith(b"data: ") else json.loads(text)


JUNK = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-300, 1e-45, 1e300, 10**18, 10**26, -(10**26), 10**4000, math.nan, math.inf,
    -math.inf, "", "x", "5", "true", "null", "\ud800", "\udc00x", "\0", "{", "é灯", "<|im_end|>", "{{ x }}", "[1]", [], [[]],
    [None], ["x"], [1], [{}], ["\ud800"], {}, {"a": 1}, {"\ud800": 1}, {"role": "user"}, {"type": "text", "text": "x"},
    [{"type": "text", "text": 5}], [{"type": "image_url", "image_url": {"url": "x"}}], [[[[[[[["deep"]]]]]]]],
]  # fmt: skip
MADE = {"id": "call_0", "type": "function", "function": {"name": "query_status", "arguments": '{"did": "1"}'}}
GOOD: dict[str, Any] = {
    "model": "x", "max_tokens": 2, "max_completion_tokens": 2, "temperature": 0.5, "seed": 3, "n": 1, "stream": False,
    "stop": None, "logprobs": False, "top_p": 1.0, "tool_choice": "auto", "user": "me",
    "messages": [
        {"role": "system", "content": "You run a home."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "me"},
        {"role": "assistant", "content": "I look.", "tool_calls": [MADE]},
        {"role": "tool", "content": "on", "tool_call_id": "call_0"},
    ],
    "tools": [{"type": "function", "function": {"name": "query_status", "description": "Looks.", "parameters": {"a": "b"}}}],
}  # fmt: skip


def short(folder: Path) -> LoadedModel:
    """A model that takes few tokens."""
    model = load_local_model(str(folder), cpu=True)
    model.engine.engine.model.config.max_position_embeddings = 300
    return model


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of a value of JSON."""
    if path:
        yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(part, (*path, key))


def put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a body with another value at a path."""
    if not path:
        return value
    copied = dict(body) if isinstance(body, dict) else list(body)
    copied[path[0]] = put(body[path[0]], path[1:], value)
    return copied


@pytest.mark.long
def test_no_request_however_odd_is_a_fault_of_the_server(tiny: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(ModelServer(short(tiny), ServerAddress(), max_tokens=2).build_server_app()) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
        for path, value in product(places(GOOD), JUNK):
            status, answer = post(port, put(GOOD, path, value), connection)
            assert status in (200, 400), (path, value, answer)
            assert status == 200 or (answer["error"]["message"] and answer["error"]["type"] == "invalid_request_error")
        assert post(port, GOOD)[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("messages", 1, "content"), "hi \ud800", "surrogate"),
        (("messages", 1, "content"), 5, "messages.1.content"),
        (("messages", 1, "content"), {"a": 1}, "messages.1.content"),
        (("messages", 1, "content", 0, "text"), 5, "messages.1.content"),
        (("messages", 1, "content", 0, "type"), "image_url", "messages.1.content"),
        (("messages", 2, "tool_calls"), "junk", "messages.2.tool_calls"),
        (("messages", 2, "tool_calls", 0), 1, "messages.2.tool_calls.0"),
        (("messages", 2, "tool_calls", 0, "function", "arguments"), "[1]", "JSON object"),
        (("messages", 2, "tool_calls", 0, "function", "arguments"), "[" * 9000, "JSON object"),
        (("seed",), 10**26, "seed"),
        (("stream",), "yes", "stream"),
        (("max_tokens",), "5", "max_tokens"),
        (("max_tokens",), True, "max_tokens"),
        (("temperature",), math.nan, "temperature"),
        (("tools", 0, "function", "parameters"), "x", "tools.0.function.parameters"),
        (("tools", 0, "function", "parameters"), {"enum": ["\ud800"]}, "surrogate"),
    ],
)
def test_what_is_wrong_in_a_request_is_named(port: int, path: tuple[Any, ...], value: Any, words: str) -> None:
    status, answer = post(port, put(GOOD, path, value))
    assert status == 400 and words in answer["error"]["message"]


def test_a_body_that_is_nested_without_end_is_refused(port: int) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    assert post(port, GOOD | {"metadata": deep})[0] == 400


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-6])
def test_a_temperature_next_to_nothing_is_refused(port: int, temperature: float) -> None:
    """Logits would leave the range of their numbers. Who means greedy says 0."""
    status, answer = post(port, GOOD | {"temperature": temperature})
    assert status == 400 and "temperature is 0, which is greedy, or at least 0.0001" in answer["error"]["message"]


def test_an_answer_is_never_longer_than_the_model_takes(tiny: Path) -> None:
    with running(ModelServer(short(tiny), ServerAddress()).build_server_app()) as port:
        status, answer = post(port, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 10**30})
    assert status == 200 and answer["usage"]["completion_tokens"] <= 300


STRICT = "{{ raise_exception('roles must alternate') if messages|length > 1 }}{{ messages[0].content }}"


def test_what_a_models_own_template_does_not_take_is_refused_in_its_words(tiny: Path) -> None:
    model = load_local_model(str(tiny), cpu=True)
    model.tokenizer.chat_template = STRICT
    said = {"role": "user", "content": "hi"}
    with running(ModelServer(model, ServerAddress(), max_tokens=2).build_server_app()) as port:
        assert post(port, {"messages": [said]})[0] == 200
        status, answer = post(port, {"messages": [said, said]})
    assert status == 400 and answer["error"]["message"] == "roles must alternate"


def test_a_client_that_hangs_up_leaves_no_trace(port: int, caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for sent in (body, body[:9], b""):
        with socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + sent)
            time.sleep(0.2)
    assert post(port, GOOD)[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.long
def test_the_command_serves_until_it_is_stopped(learnt: Path) -> None:
    command = [sys.executable, "-m", "homerl", "serve", str(learnt), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
    try:
        assert server.stdout is not None
        found = re.search(r"http://127.0.0.1:\d+/v1", server.stdout.readline())
        assert found and find_served_model(found[0]).startswith("learnt")
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=200)
        assert "Traceback" not in rest and server.returncode == 0
    finally:
        server.kill()
