"""What every server of homerl does with clients that send half a request, hang up, or do not read."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from running import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.sync.client import connect

from homerl.host.web_server import BadRequest, read_json_body, refusal_response


async def _echo(request: Request) -> Response:
    return JSONResponse(await read_json_body(request))


def app() -> Starlette:
    """An application that answers with the body of a request."""
    return Starlette(routes=[Route("/", _echo, methods=["POST"])], exception_handlers={BadRequest: refusal_response})


HEAD = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
WHOLE = HEAD + json.dumps({"said": "hi"})


def post(port: int, body: bytes, kind: str = "application/json") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    connection.request("POST", "/", body, {"Content-Type": kind})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.mark.parametrize(
    "sent",
    ["", "POST / HT", HEAD[:60], HEAD, WHOLE[:-3], WHOLE, WHOLE + HEAD],
    ids=["nothing", "half a line", "half a head", "a head", "half a body", "a whole one", "a whole one and a head"],
)
def test_a_connection_without_a_whole_request_is_closed(
    sent: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("homerl.host.web_server.WHOLE", 0.3)
    with running(app()) as port, socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
        begin = time.monotonic()
        connection.sendall(sent.encode())
        heard = b""
        while part := connection.recv(4096):  # until the server closes
            heard += part
        assert time.monotonic() - begin < 60 and (b" 200 " in heard) == sent.startswith(WHOLE)
        assert post(port, b'{"said": "hi"}') == (200, {"said": "hi"})
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_type_of_content_is_read_whatever_its_letters_and_its_parameters() -> None:
    with running(app()) as port:
        for kind in ("Application/JSON", "APPLICATION/JSON ; charset=UTF-8"):
            assert post(port, b'{"said": "hi"}', kind) == (200, {"said": "hi"})
        assert post(port, b'{"said": "hi"}', "text/json")[0] == 415


def test_a_slow_request_that_becomes_whole_in_time_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homerl.host.web_server.WHOLE", 5.0)
    with running(app()) as port, socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
        for part in (WHOLE[:20], WHOLE[20:-4], WHOLE[-4:]):
            connection.sendall(part.encode())
            time.sleep(0.2)
        assert b" 200 " in connection.recv(4096)


def test_a_websocket_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its opening is a request that never becomes whole."""

    async def echo(client: WebSocket) -> None:
        await client.accept()
        await client.send_text(await client.receive_text())

    monkeypatch.setattr("homerl.host.web_server.WHOLE", 0.2)
    app = Starlette(routes=[WebSocketRoute("/", echo)])
    with running(app) as port, connect(f"ws://127.0.0.1:{port}", proxy=None) as client:
        time.sleep(0.6)
        client.send("hi")
        assert client.recv(timeout=60) == "hi"


@pytest.mark.parametrize(
    "sent", [*(pytest.param(part, marks=pytest.mark.long) for part in ("POST / HT", HEAD)), WHOLE[:-3], WHOLE]
)
def test_a_client_that_hangs_up_leaves_no_trace(sent: str, caplog: pytest.LogCaptureFixture) -> None:
    with running(app()) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
            connection.sendall(sent.encode())
        time.sleep(0.3)
        assert post(port, b'{"said": "hi"}')[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """One server for many bodies."""
    with running(app()) as port:
        yield port


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff\xfe{}",
        b"[" * 90_000,
        b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"a": 1' + b"0" * 9000 + b"}",
    ],
)
def test_a_body_that_is_no_object_of_json_is_a_bad_request(port: int, body: bytes) -> None:
    status, answer = post(port, body)
    assert status == 400 and answer["error"]["type"] == "invalid_request_error"


LONG = 40_000_000  # bytes of an answer, more than the buffers of a system hold


@pytest.mark.parametrize("streamed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_client_that_stops_reading_is_dropped_and_a_slow_reader_is_not(
    streamed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("homerl.host.web_server.READING", 0.6)
    ended: list[bool] = []

    async def parts() -> AsyncIterator[bytes]:
        try:
            for _ in range(LONG // 100_000):
                yield b"x" * 100_000
        finally:
            ended.append(True)

    async def long(request: Request) -> Response:
        return StreamingResponse(parts()) if streamed else Response(b"x" * LONG)

    with running(Starlette(routes=[Route("/", long)])) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=200) as idle:
            idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(1.5)
            heard = 0
            with suppress(ConnectionResetError):
                while part := idle.recv(1 << 22):
                    heard += len(part)
            assert heard < LONG  # only what a system had taken in
        assert ended or not streamed
        with socket.create_connection(("127.0.0.1", port), timeout=200) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            heard = 0
            while part := slow.recv(1 << 22):
                heard += len(part)
                time.sleep(0.1)
            assert heard > LONG
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
