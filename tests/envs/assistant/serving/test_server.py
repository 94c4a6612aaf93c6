"""The endpoint over real HTTP, with the client that Home Assistant uses."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import openai
import pytest
from crossed import crossed
from running import running as running_at
from serving import Says, call_of, device_of, serve_home

import homerl
from homerl.envs.assistant.serving import caretaker
from homerl.envs.assistant.serving.openai_endpoint import AgentEndpoint, parse_dialogue
from homerl.envs.assistant.serving.reply_text import find_json_answer
from homerl.envs.assistant.serving.simulated_home import SimulatedHome
from homerl.envs.core.documents import InputError
from homerl.host.web_server import ServerAddress
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import parse_observed_reply


@pytest.fixture
def running(serve, home) -> Iterator[tuple]:
    lamp = device_of(home, "light")
    home.call(lamp.did, "turn_off")
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.", "Anything else?", "Bye.")
    with running_at(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        yield served, lamp, port


def get(port: int, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def wait_for(condition: Callable[[], object], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


def client(port: int, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


def post(port: int, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    connection.request("POST", "/v1/chat/completions", body, headers)
    return connection.getresponse().status


def test_it_says_that_it_is_an_agent(running):
    _, _, port = running
    (model,) = json.loads(get(port, "/v1/models").read())["data"]
    assert model["homerl"] == {"serves": "agent", "version": homerl.__version__, "mode": "act", "home": "real"}
    assert "simulated" not in get(port, "/").read().decode()


def test_a_simulated_home_is_told_as_one(home, tmp_path):
    served = serve_home(home, Says(), tmp_path, real=SimulatedHome())
    with running_at(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        (model,) = json.loads(get(port, "/v1/models").read())["data"]
        assert model["homerl"]["home"] == "simulated" and "The home is simulated" in get(port, "/").read().decode()


def test_a_chat_acts_whole_and_streamed(running):
    served, lamp, port = running
    asked = [{"role": "system", "content": "You are a voice assistant."}, {"role": "user", "content": "light please"}]
    (model,) = client(port).models.list()
    whole = client(port).chat.completions.create(model=model.id, messages=asked, tools=[TOOL])
    assert whole.choices[0].message.content == "The lamp is on." and not whole.choices[0].message.tool_calls
    assert served.real.home.read_value(lamp.did, "state") == "on"
    asked += [{"role": "assistant", "content": "The lamp is on."}, {"role": "user", "content": "thanks"}]
    chunks = list(client(port).chat.completions.create(model=model.id, messages=asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Anything else?"
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices[0].finish_reason == "stop"


def test_a_fault_while_codes_are_looked_for_is_told_in_a_sentence(running, monkeypatch):
    """Nobody knows then whether the sentence gives a code, so the log has nothing of it."""
    served, _, port = running

    def broken(dialogue, language):
        raise RuntimeError("no such phrase")

    monkeypatch.setattr(caretaker, "find_spoken_codes", broken)
    asked = [{"role": "user", "content": "4711"}]
    whole = client(port).chat.completions.create(model="any", messages=asked)
    assert "wrong in my own program: no such phrase" in whole.choices[0].message.content and not served.real.made
    (entry,) = served.journal.read_entries()
    assert (entry.outcome, entry.said, entry.error) == ("failed", "***", "no such phrase")


class SaysText:
    """An agent whose text is read as a model's."""

    name = "script"

    def __init__(self, text: str) -> None:
        self.text = text

    async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
        return [parse_observed_reply(self.text, observation)]


AMONG_WORDS = 'Here it is:\n```JSON\n{"anzahl": 3}\n```\nDone!'
DATA = (
    AMONG_WORDS,
    "[1, null, {}]",
    "null",
    '{"anzahl": 3}',
    '```json\n{"anzahl": 3}\n```',
    '{"name": "lamp", "action": "on"}',
    '{"done": "It is done."}',
)


@crossed(said=DATA, streamed=[False, True])
def test_the_json_that_a_task_asks_for_is_its_answer_and_no_broken_call(home, tmp_path, said, streamed):
    served = serve_home(home, SaysText(said), tmp_path, "shadow")
    asked = {"model": "any", "messages": [{"role": "user", "content": "How many? Answer with one JSON object."}]}
    with running_at(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        made = client(port).chat.completions.create(**asked, response_format={"type": "json_object"}, stream=streamed)
        parts = [chunk.choices[0].delta.content or "" for chunk in made] if streamed else [made.choices[0].message.content]
    whole = '{"anzahl": 3}' if said == AMONG_WORDS else said
    assert json.loads("".join(parts)) == json.loads(whole.removeprefix("```json").removesuffix("```"))


TOOL = {"type": "function", "function": {"name": "HassTurnOn", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('The lamps [1]: {"a": [1]}', '{"a": [1]}'),
        ('{"a": 1}\n\n{"b": 2}', '{"b": 2}'),
        ('{"a": 1} is for [1], [x] and {me}', '{"a": 1}'),
        ('I use {placeholders}. {"a": "}"}', '{"a": "}"}'),
        ('It is ["on", {"a": 1}].', '["on", {"a": 1}]'),
        ("[1]", "[1]"),
        ("It is done [0].", None),
        ("{" * 9000, None),
    ],
)
def test_the_last_data_among_words_is_the_answer(text, data):
    assert find_json_answer(text) == data


BODY = json.dumps({"messages": [{"role": "user", "content": "light please"}]}).encode()
JSON = {"Content-Type": "application/json"}


def test_the_content_type_is_read_in_any_case(running):
    _, _, port = running
    assert post(port, BODY, {"Content-Type": "Application/JSON; charset=UTF-8"}) == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (BODY, {"Content-Type": "text/plain"}, 415),  # what a web page can send without being asked
        (BODY, JSON | {"Host": "evil.example"}, 403),  # a name that an attacker lets point here
        (BODY, JSON | {"Host": "localhost@evil.example"}, 403),
        (BODY, JSON | {"Host": "éé.example".encode()}, 403),
        (BODY, JSON | {"Host": "localhost, evil.example"}, 403),
        (BODY, JSON | {"Host": ""}, 403),
        (b"{", JSON, 400),
        (b"[]", JSON, 400),
        (b'{"messages": [{"role": "assistant", "content": "hi"}]}', JSON, 400),
        (b'{"messages": "hi"}', JSON, 400),
        (b" " * 300_000, JSON, 413),
    ],
)
def test_what_is_refused_does_nothing(running, body, headers, status):
    served, _, port = running
    assert post(port, body, headers) == status
    assert not served.real.made and not served.journal.read_entries()


ODD = [
    None, True, 5, -1, 0.5, 1e300, 10**30, float("nan"), "", "x", "\ud800", "<|im_end|>", "{{ x }}", [], [None], [5], [[]],
    ["x"], {}, {"\ud800": 5}, [{"type": "text"}], [{"type": "text", "text": 5}], [{"type": "text", "text": "\ud800"}],
]  # fmt: skip


def test_no_request_however_odd_is_a_fault_of_the_server(serve, caplog):
    served = serve("shadow")
    served.caretaker.agents = lambda: Says("Hello.")
    good = {"model": "x", "stream": False, "temperature": 1, "messages": [{"role": "user", "content": "hi"}]}
    with running_at(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        for odd in ODD:
            said = [
                {"role": odd, "content": "hi"},
                {"role": "user", "content": odd},
                {"role": "user", "content": odd, "name": odd},
            ]
            bodies = [
                good | {"messages": odd},
                *(good | {"messages": [one]} for one in (odd, *said)),
                good | {"stream": odd},
            ]
            for body in (*bodies, good | {"temperature": odd}, good | {"messages": [{}, *good["messages"]], "tools": odd}):
                assert post(port, json.dumps(body).encode(), JSON) in (200, 400), body
        assert post(port, json.dumps(good).encode(), JSON) == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_key_is_needed_outside_of_this_machine(serve):
    with pytest.raises(InputError, match="--key-env"):
        ServerAddress("0.0.0.0")
    served = serve("act", "Hello.", "Hello.")
    with running_at(AgentEndpoint(served.caretaker, ServerAddress("0.0.0.0", key="secret")).build_agent_app()) as port:
        with pytest.raises(openai.AuthenticationError):
            client(port, "wrong").models.list()
        assert client(port, "secret").models.list().data[0].id == "script"


def test_a_request_without_a_host_is_refused(running):
    _, _, port = running
    with socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
        connection.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert b" 403 " in connection.recv(4096)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8124", "127.0.0.1", "[::1]:8124", "127.0.0.2:8124"])
def test_this_machine_is_let_in_by_any_of_its_names(serve, host):
    with running_at(AgentEndpoint(serve("act").caretaker, ServerAddress("127.0.0.2")).build_agent_app()) as port:
        assert get(port, "/v1/models", Host=host).status == 200
        refusal = get(port, "/v1/models", Host="evil.example").read().decode()
    assert "evil.example" in refusal and "127.0.0.2" in refusal and "--key-env" in refusal


def test_a_browser_opens_the_page_with_the_key_as_password(serve):
    served = serve("act")
    with running_at(AgentEndpoint(served.caretaker, ServerAddress("0.0.0.0", key="a:key")).build_agent_app()) as port:
        asked = get(port, "/")
        assert asked.status == 401 and asked.getheader("WWW-Authenticate", "").startswith("Basic ")
        given = {"Authorization": "Basic " + base64.b64encode(b"anybody:a:key").decode()}
        assert "Nobody has spoken" in get(port, "/", **given).read().decode()
        assert get(port, "/", Authorization="Bearer a:key").status == 200
        assert get(port, "/v1/models", **given).status == 401, "a browser sends it by itself"
        for wrong in ("Basic " + base64.b64encode(b"anybody:no").decode(), "Basic a:key", "Basic /w==", "a:key"):
            assert get(port, "/", Authorization=wrong).status == 401


@pytest.mark.parametrize(("ingress", "page"), [("127.0.0.1", 200), ("172.30.32.2", 401)])
def test_the_ingress_needs_no_key_for_the_page_alone_and_nobody_pretends_to_be_it(serve, ingress, page):
    served = serve("act")
    with running_at(
        AgentEndpoint(served.caretaker, ServerAddress("0.0.0.0", key="secret", ingress=ingress)).build_agent_app()
    ) as port:
        pretended = {"X-Forwarded-For": "172.30.32.2", "X-Forwarded-Proto": "http"}
        assert get(port, "/", **pretended).status == page
        assert get(port, "/v1/models", **pretended).status == 401
        assert get(port, "/health").read() == b"ok"


@pytest.mark.parametrize("key", ["schlüssel", "钥匙", "two words"])
def test_a_key_that_no_header_carries_is_refused_at_the_start(key):
    with pytest.raises(InputError, match="--key-env") as raised:
        ServerAddress("0.0.0.0", key=key)
    assert key not in str(raised.value)


# Who waits for an answer


class Slow:
    """An agent that takes its time, and then switches a lamp on."""

    name = "slow"

    def __init__(self, did: str) -> None:
        self.did, self.asked, self.free = did, threading.Event(), threading.Event()

    async def propose(self, observation, n=1):
        self.asked.set()
        while not self.free.is_set():
            await asyncio.sleep(0.01)
        return [Reply(call_of(self.did, "turn_on"))]


@pytest.fixture
def slow(serve, home) -> Iterator[tuple]:
    lamp = device_of(home, "light")
    home.call(lamp.did, "turn_off")
    served, agent = serve("act", steps=1), Slow(lamp.did)
    served.caretaker.agents = lambda: agent
    with running_at(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        yield served, agent, port


def test_nothing_is_done_for_who_has_hung_up(slow):
    """Neither by the exchange under way, nor by one that waits for its turn."""
    served, agent, port = slow
    waiting = [http.client.HTTPConnection("127.0.0.1", port, timeout=200) for _ in range(2)]
    for connection in waiting:
        connection.request("POST", "/v1/chat/completions", BODY, JSON)
        assert agent.asked.wait(100)
    for connection in waiting:
        connection.close()
    wait_for(lambda: len(served.journal.read_entries()) == 2)
    agent.free.set()
    assert post(port, BODY, JSON) == 200 and len(served.real.made) == 1, "the next is served"
    assert [entry.outcome for entry in served.journal.read_entries()] == ["failed", "failed", "done"]
    assert "hung up" in (served.journal.read_entries()[0].error or "")


def test_what_takes_too_long_is_left_and_said(slow):
    served, agent, port = slow
    served.caretaker.house = replace(served.caretaker.house, patience=0.3)
    asked = [{"role": "user", "content": "light please"}]
    (choice,) = client(port).chat.completions.create(model="slow", messages=asked).choices
    assert "too long" in choice.message.content and not served.real.made
    agent.free.set()
    assert served.journal.read_entries()[0].error == "it took too long"


def test_a_long_dialogue_can_still_consent(serve, home):
    lamp = device_of(home, "light")
    home.call(lamp.did, "turn_off")
    served = serve("confirm", *["I see."] * 25, call_of(lamp.did, "turn_on"), "On.")
    with running_at(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        told: list[dict[str, str]] = []
        asked = client(port).chat.completions
        for said in [f"sentence {number}" for number in range(25)] + ["light please", "yes"]:
            told.append({"role": "user", "content": said})
            (choice,) = asked.create(model="script", messages=told).choices  # type: ignore[arg-type]
            told.append({"role": "assistant", "content": choice.message.content or ""})
    assert told[-1]["content"] == "Done." and served.real.home.read_value(lamp.did, "state") == "on"
    longest = max((heard.messages for heard in served.caretaker.agents().heard), key=len)
    assert len(longest) <= 42 and [one["role"] for one in longest[:2]] == ["system", "user"], "the agent reads the latest"


def test_parts_of_a_message_are_joined_and_others_left_out():
    told = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "light"}, {"type": "image_url"}, {"type": "text", "text": "on"}],
        },
        {"role": "tool", "content": "ok"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": "now"},
    ]
    assert [one["content"] for one in parse_dialogue({"messages": told})] == ["light on", "now"]


def test_the_page_is_served_and_escapes(running):
    served, _, port = running
    asked = [{"role": "user", "content": "<script>alert(1)</script>"}]
    client(port).chat.completions.create(model="script", messages=asked)
    with served.journal.path.open("a") as file:
        file.write('{"said": "<script>"}\n')
    page = get(port, "/").read().decode()
    assert "&lt;script&gt;alert(1)" in page and "<script" not in page and "acted 1" in page
    assert "Line 3 of the log is damaged" in page


def test_a_log_that_is_gone_is_said_on_the_page(running):
    served, _, port = running
    served.journal.path.unlink()
    answer = get(port, "/")
    assert answer.status == 500 and "there is no such log" in answer.read().decode()


def test_half_a_character_is_answered(running):
    served, lamp, port = running
    assert post(port, rb'{"messages": [{"role": "user", "content": "light \ud800"}]}', JSON) == 200
    assert served.real.home.read_value(lamp.did, "state") == "on" and served.journal.read_entries()[0].said == "light \ufffd"
