"""`homerl serve`: over HTTP a model says what it says from its folder, and bad requests are refused."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from running import running
from tiny_agent import TOOLS, make_agent, prompts

from homerl.agents.policy import Sample
from homerl.llm.agent import LLMAgent
from homerl.llm.endpoint import Endpoint
from homerl.play.observation import Observation
from homerl.play.situation import Reply
from homerl.run.model_agents import Loaded, loaded, served_model
from homerl.run.serve_model import ModelServer
from homerl.web.address import Address


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
    with running(ModelServer(loaded(str(model), cpu=True), Address(), max_tokens=60).app()) as port:
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
    local, endpoint = loaded(str(model), cpu=True), Endpoint([url(port)], served_model(url(port)))
    most = 60 if model.name == "model" else 8  # an untrained model does not know when to stop
    calls = 0
    for messages in prompts():
        observation = Observation("x", tuple(messages), tuple(TOOLS))
        here = said(local.agents(most)(), observation)
        there = said(LLMAgent(endpoint, 0.0, most), observation)
        assert plain(there) == plain(here) and there.tokens == here.tokens and there.prompt_tokens > 40
        calls += len(there.message.get("tool_calls") or ())
    assert calls == 3 or model.name != "model"


CALL = '<tool_call>\n{"name": "query_status", "arguments": {"did": "1001", "text": "灯 <&>"}}\n</tool_call>'
CUT = '<tool_call>\n{"name": "query_status", "arg'


class Scripted:
    """In place of a loaded model's engine: it samples the tokens of a text."""

    longest = None

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.tokenizer, self.text, self.engine = tokenizer, text, self

    def sampling(self, *_: Any) -> Scripted:
        return self

    async def sample(self, prompt: Sequence[int]) -> Sample:
        ids = (*self.tokenizer.encode(self.text, add_special_tokens=False), self.tokenizer.eos_token_id)
        return Sample(ids, (0.0,) * len(ids))


@pytest.mark.parametrize("text", ["It is on.", CALL, f"I look.\n{CALL}\n{CALL}", "", CUT, "<tool_call>"])
def test_words_calls_and_what_is_malformed_arrive_as_they_were_written(tokenizer: Any, text: str) -> None:
    model = Loaded("scripted", Scripted(tokenizer, text), tokenizer)  # type: ignore[arg-type]
    observation = Observation("x", tuple(prompts()[0]), tuple(TOOLS))
    with running(ModelServer(model, Address()).app()) as port:
        there = said(LLMAgent(Endpoint([url(port)], "scripted"), 0.0, 60), observation)
    assert plain(there) == plain(said(model.agents(60)(), observation))
    assert len(there.message.get("tool_calls") or ()) == text.count("</tool_call>")
    assert bool(there.malformed) == (text in (CUT, "<tool_call>"))


def test_a_message_is_streamed_whole(port: int) -> None:
    client = openai.OpenAI(base_url=url(port), api_key="none", max_retries=0)
    (model,) = client.models.list()
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 400 and words in json.loads(answer.read())["error"]["message"]


@pytest.mark.long
def test_the_command_serves_until_it_is_stopped(learnt: Path) -> None:
    command = [sys.executable, "-m", "homerl.cli", "serve", str(learnt), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
    try:
        assert server.stdout is not None
        found = re.search(r"http://127.0.0.1:\d+/v1", server.stdout.readline())
        assert found and served_model(found[0]).startswith("learnt")
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=30)
        assert "Traceback" not in rest and server.returncode == 0
    finally:
        server.kill()
