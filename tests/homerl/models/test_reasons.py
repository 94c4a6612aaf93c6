"""What servers say of errors, in their forms, is told as one line without keys."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from scripted_server import Faults, ScriptedServer

from homerl.app.served.model_agents import find_served_model
from homerl.envs.core.documents import InputError
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import refuse_secret
from homerl.models.endpoint.server_answers import LONGEST, read_error_reason, read_error_status
from homerl.play.faults import EndpointRejected, InfraError, RequestBroken, RequestRefused

PAGE = (
    "<!DOCTYPE html>\n<html><head><title>502 Bad\nGateway &amp; more</title></head><body>nginx/1.2 at 10.0.0.7</body></html>"
)
ROUTED = {"code": 502, "message": "Provider returned error", "metadata": {"raw": '{"error": {"message": "GPU is lost"}}'}}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("out of memory", "out of memory"),
        ({"message": "no such model"}, "no such model"),
        ({"error": "model 'x' not found, try pulling it first"}, "model 'x' not found, try pulling it first"),
        ({"error": {"error": {"detail": "deep"}}}, "deep"),
        (ROUTED, "Provider returned error: GPU is lost"),
        ([{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}], "API key not valid"),
        ({"detail": [{"loc": ["body", "tools", 0], "msg": "Field required"}]}, "body.tools.0: Field required"),
        ('{"message": "text that is JSON"}', "text that is JSON"),
        ({"type": "overloaded_error"}, "overloaded_error"),
        (PAGE, "502 Bad Gateway & more"),
        ("<html><body>no title</body></html>", ""),
        ("two\r\nlines \x1b[31mred\x1b[0m \u202egnol\u2028\ud800", "two lines [31mred [0m gnol \ufffd"),
        (None, ""),
        (7, ""),
        ({}, ""),
        ([[[[[[[["deep"]]]]]]]], ""),
        ("[" * 100_000, "[" * (LONGEST - 1) + "…"),
    ],
)
def test_a_reason_is_found_in_the_forms_of_servers(said: Any, told: str) -> None:
    assert read_error_reason(said) == told


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: SECRET1234. See your account.",
        "Authorization: Bearer SECRET1234",
        "http://me:SECRET1234@host/v1 is down",
        "GET /v1?api_key=SECRET1234&x=1",
        '{"headers": {"x-api-key": "SECRET1234"}, broken',
        "no access for sk-proj-SECRET1234",
        "key hf_SECRET1234 is unknown",
        "you sent the-key-SECRET1234-of-mine",
    ],
)
def test_no_key_stands_in_a_reason(said: str) -> None:
    assert "SECRET1234" not in read_error_reason(said, "the-key-SECRET1234-of-mine")


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens: 1234567890 is too large",
        "token count: 12345678 exceeds the limit",
        "keyboard2 is unknown",
        "Unexpected token: 'object'",
    ],
)
def test_words_that_only_look_like_a_key_stay(said: str) -> None:
    assert read_error_reason(said, "x") == said


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"code": 429}, 429), ({"code": "503", "message": "busy"}, 503), (ROUTED, 502), ({"code": 7}, 500), ("busy", 500),
        ({"type": "invalid_request_error", "code": None}, 400), ({"type": "authentication_error"}, 401),
        ({"code": "model_not_found"}, 404), ({"code": "insufficient_quota"}, 402), ({"type": "rate_limit_error"}, 429),
        ({"type": "exceed_context_size_error"}, 400), ({"type": "overloaded_error"}, 500), ({"code": 40_000}, 500),
    ],
)  # fmt: skip
def test_an_error_without_a_status_has_the_one_that_it_names(said: Any, status: int) -> None:
    assert read_error_status(said) == status


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)


def asked(answer: Any, status: int = 200, patience: Patience = Patience(2, 2, 2)) -> str | InfraError:
    """What an endpoint gives if its server always answers so."""

    async def talk(url: str) -> str | InfraError:
        endpoint = Endpoint([url], "scripted", patience)
        try:
            return (await endpoint.chat([{"role": "user", "content": "hello"}])).choices[0].message.content or ""
        except InfraError as error:
            return error
        finally:
            await endpoint.close()

    text = answer if isinstance(answer, str) else json.dumps(answer)
    faults = Faults(garbage=1.0) if status == 200 else Faults(refusals=1.0)
    with ScriptedServer(faults=faults, garbage=[text], refusal=status, reason=answer) as server:
        return asyncio.run(talk(server.url))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 418, 422, 429, 500, 502, 503, 529])
def test_an_error_of_any_status_keeps_the_servers_reason(status: int) -> None:
    error = asked({"message": "tools go\nwith no stream"}, status)
    assert isinstance(error, InfraError) and f"status {status}: tools go with no stream" in str(error)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error": {"message": "the model is overloaded", "code": 502}}, RequestBroken),
        ({"error": "the model is overloaded"}, RequestBroken),
        ({"object": "error", "message": "the model is overloaded", "code": 400}, RequestRefused),
        ({"error": {"message": "the model is overloaded", "type": "invalid_request_error"}}, RequestRefused),
        ({"error": {"message": "the model is overloaded", "code": "invalid_api_key"}}, EndpointRejected),
        ({"choices": [{"index": 0, "message": None, "error": {"message": "the model is overloaded"}}]}, RequestBroken),
        ({"choices": [{"index": 0, "message": {"content": "Half"}, "error": "the model is overloaded"}]}, RequestBroken),
        ({"choices": [], "error": {"message": "the model is overloaded"}}, RequestBroken),
        ({"choices": None, "detail": "the model is overloaded"}, RequestBroken),
    ],
)
def test_an_error_that_comes_as_an_answer_is_an_error_of_its_kind(answer: Any, kind: type) -> None:
    error = asked(answer)
    assert type(error) is kind and "the model is overloaded" in str(error)


def test_an_error_that_comes_as_an_answer_may_be_of_a_long_dialogue() -> None:
    error = asked({"error": {"message": "9000 tokens", "type": "exceed_context_size_error", "code": 400}})
    assert isinstance(error, RequestRefused) and error.too_long


def said(message: Any) -> dict[str, Any]:
    return {"error": None, "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant"} | message}]}


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Is it?"}]}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": [{"type": "text", "text": "It is"}, {"type": "text", "text": " off."}]}, "It is off."),
        ({"content": [THOUGHT, {"type": "text", "text": "It is off."}]}, "It is off."),
        ({"content": [{"type": "reasoning", "text": "Is it?"}, {"type": "output_text", "text": "It"}]}, "It"),
        ({"content": {"type": "text", "text": "It is off."}}, "It is off."),
        ({"content": [{"text": "It is off."}]}, "It is off."),
        ({"content": [THOUGHT]}, ""),
        ({"content": []}, ""),
        ({"content": None, "refusal": "I can't help with that."}, "I can't help with that."),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "I can't."),
        ({"content": "It is off.", "refusal": None}, "It is off."),
    ],
)
def test_the_speech_of_a_message_is_read_in_the_forms_of_servers(message: Any, text: str) -> None:
    assert asked(said(message)) == text


@pytest.mark.parametrize("content", [[{"type": "text", "text": 5}], [{"type": "text"}], 5, ["It", 5]])
def test_parts_of_another_shape_are_garbage(content: Any) -> None:
    assert isinstance(asked(said({"content": content})), InfraError)


@pytest.mark.parametrize(
    "url", ["http://a/v1?key=K", "http://a/v1?api-key=K", "http://a/v1#token=K", "http://K@a/v1", "http://b/v1,http://a:K@b"]
)
def test_an_address_that_may_hold_a_key_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="no user, password or query") as raised:
        refuse_secret("--model", url)
    assert "K" not in str(raised.value).replace("OPENAI_API_KEY", "")


def test_a_server_that_lists_no_models_says_why() -> None:
    class Empty(ScriptedServer):
        async def _app(self, scope: Any, receive: Any, send: Any) -> None:
            await self._send(send, 200, '{"error": {"message": "nothing is loaded"}}')

    with Empty() as server, pytest.raises(InputError, match="lists no models: nothing is loaded"):
        find_served_model(server.url)
