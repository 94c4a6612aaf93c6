"""The endpoint over real HTTP, with the client that Home Assistant uses."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator

import openai
import pytest
import uvicorn
from serving import call_of, device_of

from envs.documents import InputError
from homerl.worlds.homeenv.serving.server import Address, Endpoint, dialogue_of


@pytest.fixture
def running(serve, home) -> Iterator[tuple]:
    lamp = device_of(home, "light")
    home.call(lamp.did, "turn_off")
    served = serve("act", call_of(lamp.did, "turn_on"), "The lamp is on.", "Anything else?", "Bye.")
    with _server(Endpoint(served.caretaker, Address()).app()) as port:
        yield served, lamp, port


class _server:
    """The application on a free port, in a thread."""

    def __init__(self, app) -> None:
        self.server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> int:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self.server.servers[0].sockets[0].getsockname()[1]

    def __exit__(self, *_) -> None:
        self.server.should_exit = True
        self.thread.join(10)


def client(port: int, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


def post(port: int, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/v1/chat/completions", body, headers)
    return connection.getresponse().status


def test_a_chat_acts_whole_and_streamed(running):
    served, lamp, port = running
    asked = [{"role": "system", "content": "You are a voice assistant."}, {"role": "user", "content": "light please"}]
    (model,) = client(port).models.list()
    whole = client(port).chat.completions.create(model=model.id, messages=asked, tools=[TOOL])
    assert whole.choices[0].message.content == "The lamp is on." and not whole.choices[0].message.tool_calls
    assert served.real.home.get(lamp.did, "state") == "on"
    asked += [{"role": "assistant", "content": "The lamp is on."}, {"role": "user", "content": "thanks"}]
    chunks = list(client(port).chat.completions.create(model=model.id, messages=asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Anything else?"
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices[0].finish_reason == "stop"


TOOL = {"type": "function", "function": {"name": "HassTurnOn", "parameters": {"type": "object", "properties": {}}}}
BODY = json.dumps({"messages": [{"role": "user", "content": "light please"}]}).encode()
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (BODY, {"Content-Type": "text/plain"}, 415),  # what a web page can send without being asked
        (BODY, JSON | {"Host": "evil.example"}, 403),  # a name that an attacker lets point here
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
    assert not served.real.made and not served.journal.path.exists()


def test_a_key_is_needed_outside_of_this_machine(serve):
    with pytest.raises(InputError, match="--key-env"):
        Address("0.0.0.0")
    served = serve("act", "Hello.", "Hello.")
    with _server(Endpoint(served.caretaker, Address("0.0.0.0", key="secret")).app()) as port:
        with pytest.raises(openai.AuthenticationError):
            client(port, "wrong").models.list()
        assert client(port, "secret").models.list().data[0].id == "script"


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
    assert [one["content"] for one in dialogue_of({"messages": told})] == ["light on", "now"]


def test_the_page_is_served_and_escapes(running):
    _, _, port = running
    asked = [{"role": "user", "content": "<script>alert(1)</script>"}]
    client(port).chat.completions.create(model="script", messages=asked)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    page = connection.getresponse().read().decode()
    assert "&lt;script&gt;alert(1)" in page and "<script" not in page and "acted 1" in page


def test_half_a_character_is_answered(running):
    served, lamp, port = running
    assert post(port, rb'{"messages": [{"role": "user", "content": "light \ud800"}]}', JSON) == 200
    assert served.real.home.get(lamp.did, "state") == "on" and served.journal.entries()[0].said == "light \ufffd"
