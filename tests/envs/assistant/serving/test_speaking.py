"""What a person hears of an answer before its last word, and of a model that writes calls and thoughts as text."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import openai
import pytest
from running import running
from scripted_server import Faults, ScriptedServer
from serving import Says, Served, call_of, state
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from homerl.app.served.model_agents import make_model_agents
from homerl.envs.assistant.serving import caretaker
from homerl.envs.assistant.serving.openai_endpoint import AgentEndpoint
from homerl.envs.assistant.serving.reply_streaming import SentenceSpeaker
from homerl.envs.assistant.serving.reply_text import spoken_error
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.sentences.matching import load_hassil_sentences
from homerl.host.web_server import ServerAddress
from homerl.models.endpoint.endpoint import Endpoint as Model
from homerl.models.endpoint.endpoint import Patience
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.play.tool_call_parser import parse_observed_reply

DOOR = "lock.front_door"


@pytest.fixture(scope="module", autouse=True)
def known_sentences() -> None:
    """What `serve-agent` reads before it is asked."""
    for language in ("en", "de"):
        load_hassil_sentences(language)


class Writer:
    """A model's server that writes a message word by word, and stops in front of a `|` until it may go on."""

    def __init__(self, *messages: Any, streams: bool = True) -> None:
        self.messages, self.streams, self.go_on = list(messages), streams, asyncio.Event()
        self.asked: list[dict[str, Any]] = []

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        if body.get("stream") and not self.streams:
            return JSONResponse({"error": {"message": "no streams here"}}, 400)
        message = self.messages.pop(0)
        said = {"content": message} if isinstance(message, str) else message
        if body.get("stream"):
            return StreamingResponse(self._events(said), media_type="text/event-stream")
        return JSONResponse(chunk("message", {"role": "assistant", **said}, "stop"))

    async def _events(self, said: dict[str, Any]) -> AsyncIterator[str]:
        yield event({"role": "assistant", "content": ""})
        for word in (said["content"] or "").split(" "):
            if word.startswith("|"):
                while not self.go_on.is_set():
                    await asyncio.sleep(0.005)
            yield event({"content": f"{word.removeprefix('|')} "})
        if calls := said.get("tool_calls"):
            yield event({"tool_calls": [{"index": at, **call} for at, call in enumerate(calls)]})
        yield event({}, "stop")
        yield "data: [DONE]\n\n"


def chunk(key: str, part: dict[str, Any], end: str | None) -> dict[str, Any]:
    kind = "chat.completion" if key == "message" else "chat.completion.chunk"
    choice = {"index": 0, key: part, "finish_reason": end}
    return {"id": "x", "object": kind, "created": 0, "model": "m", "choices": [choice]}


def event(part: dict[str, Any], end: str | None = None) -> str:
    return f"data: {json.dumps(chunk('delta', part, end))}\n\n"


def parts_of(served: Served, writer: Writer, *said: str, speaker: str = "Ann") -> list[str]:
    """The parts in which the client hears the reply. The model goes on once two of them were heard, or at the end."""
    with running(writer.app()) as model, running(AgentEndpoint(served.caretaker, ServerAddress()).build_agent_app()) as port:
        endpoint = Model([f"http://127.0.0.1:{model}/v1"], "m", Patience(timeout=10, deadline=10))
        served.caretaker.agents = lambda: LLMAgent(endpoint)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=20)
        told = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
        heard: list[str] = []
        for one in client.chat.completions.create(model="m", messages=told, stream=True, user=speaker):  # type: ignore[call-overload]
            if text := one.choices[0].delta.content:
                heard.append(text)
                writer.go_on.set()
        return heard


@pytest.fixture
def talk(serve, house: Home):
    return lambda mode="act": serve(mode, of=house)


def test_speech_begins_before_the_last_word(talk):
    served = talk()
    heard = parts_of(
        served, Writer("It is 21.5 degrees there. |The window is open, by the way. Anything else?"), "how warm?"
    )
    assert heard[0] == "It is 21.5 degrees there." and len(heard) == 3, "the model had not written the rest"
    assert "".join(heard) == served.journal.read_entries()[-1].reply


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("I have turned on the lamp. It is bright.", "I switched nothing just now."),
        ("<think>The door is open. So.</think> It is open.", "I switched nothing just now. It is open."),
        ('{"name": "x"}. That was it. And more.', ""),
    ],
)
def test_what_honesty_has_a_say_in_is_not_spoken_early(talk, written, first):
    """A claim, a thought and what looks like a call wait for the end, and are then told as always."""
    served = talk()
    heard = parts_of(served, Writer(written, "Sorry.", "Sorry."), "lamp please")
    assert len(heard) == 1 and heard[0].startswith(first) and heard[0] == served.journal.read_entries()[-1].reply


@pytest.mark.parametrize(
    ("spoken", "said", "written", "first"),
    [
        (
            "de",
            "schalte TV ein",
            "Erledigt, sie ist an. Es ist hell. Noch etwas?",
            "Ich habe gerade nichts geschaltet.",
        ),
        ("de", "mach es gemütlich", "Das Licht ist an. Es ist warm.", "Ich habe gerade nichts geschaltet."),
        ("en", "turn on the TV", "It was off. It is bright.", "I switched nothing just now."),
        ("en", "turn on the bed lamp", "It was off. It is bright.", "I switched nothing just now."),  # no such lamp
        ("en", "make it cosy", "OK.", "I switched nothing just now."),
    ],
)
def test_what_a_remark_may_deny_is_not_spoken_before_it(talk, spoken, said, written, first):
    served = talk()
    served.real.spoken = spoken
    heard = parts_of(served, Writer(written), said)
    assert len(heard) == 1 and heard[0].startswith(first) and heard[0] == served.journal.read_entries()[-1].reply


@pytest.mark.parametrize(
    ("said", "written", "reply"),
    [
        ("tell a story", "Wow!!!  What a day!!\n\nIt rains. And so on.", "{} I switched nothing just now."),
        ("tell a story", "1. Flour\n2. Eggs\n3. Milk", "{} I switched nothing just now."),
        ("tell a story", "A bear!\nI've turned off the stove. It burns.", "A bear! I switched nothing just now."),
        ("make it safe", "The stove is off. I've turned off the stove.", "I switched nothing just now."),
        ("mach es gemütlich", "A bear. Erledigt. It burns. Noch was?", "I switched nothing just now. A bear. Noch was?"),
    ],
)
def test_nothing_is_told_twice_and_a_text_stays_as_it_is(talk, said, written, reply):
    served = talk()
    if said.startswith("mach"):
        served.real.spoken = "de"
        reply = reply.replace("I switched nothing just now. A bear.", "Ich habe gerade nichts geschaltet.")
    heard = "".join(parts_of(served, Writer(written), said))
    assert heard == reply.format(written) == served.journal.read_entries()[-1].reply


class Breaks:
    """An agent that can be heard, and fails."""

    name, told = "breaks", None

    async def propose(self, observation, n=1):
        await asyncio.sleep(0)
        self.told("It is warm. It is dry. And ")
        raise ValueError("no more")


def test_nothing_is_spoken_after_the_end(serve, monkeypatch):
    """The kind of a sentence is found slowly, and the model fails before."""
    served, heard, kinds = serve("act"), [], []

    def find_slowly(*given):
        time.sleep(0.3)
        return kinds.append("talk") or "talk"

    monkeypatch.setattr(caretaker, "find_sentence_kind", find_slowly)
    served.caretaker.agents = Breaks

    async def answer() -> str:
        reply = await served.caretaker.answer_dialogue([{"role": "user", "content": "how warm?"}], speak=heard.append)
        while not kinds:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        return reply

    assert "no more" in asyncio.run(answer()) and not heard


def test_a_confirmation_waits_for_what_comes_after_it(talk):
    heard = parts_of(talk(), Writer("Sure! There was a bear. |It was big."), "tell a story")
    assert heard[0] == "Sure! There was a bear." and "".join(heard).endswith("It was big. I switched nothing just now.")


def test_nothing_is_spoken_after_a_call_before_the_guard_has_spoken(talk):
    served = talk()
    unlock = {"content": None, "tool_calls": call_of(DOOR, "unlock")["tool_calls"]}
    heard = parts_of(served, Writer(unlock, "The door is open now. Come in. Welcome."), "open the door")
    assert len(heard) == 1 and "needs your consent" in heard[0] and not served.real.made
    done = parts_of(served, Writer("No."), "open the door", heard[0], "yes")
    assert done == ["Done."] and [one.did for one in served.real.made] == [DOOR]


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_words_before_a_call_begin_the_reply(talk, monkeypatch, seconds):
    """However long it takes to find out what the sentence is."""
    find = caretaker.find_sentence_kind
    monkeypatch.setattr(caretaker, "find_sentence_kind", lambda *given: time.sleep(seconds) or find(*given))
    served = talk()
    play = {
        "content": "One moment please. Here it comes",
        "tool_calls": call_of("media_player.tv", "media_play")["tool_calls"],
    }
    heard = parts_of(served, Writer(play, "The TV plays."), "play")
    assert heard == ["One moment please.", " The TV plays."] and len(served.real.made) == 1
    assert served.journal.read_entries()[-1].reply == "One moment please. The TV plays."


def test_a_server_that_does_not_stream_is_asked_for_the_whole(talk):
    writer = Writer("It is warm. Very warm.", streams=False)
    assert parts_of(talk(), writer, "how warm?") == ["It is warm. Very warm."]
    assert [bool(one.get("stream")) for one in writer.asked] == [True, False]


@pytest.mark.parametrize(
    ("parts", "spoken"),
    [
        (["It is 21.", "5 degrees. And", " dry. So"], ["It is 21.5 degrees.", " And dry."]),
        (["现在二十一度。", "很干。好"], ["现在二十一度。", "很干。"]),
        (["One:\ntwo\n", "three"], ["One:", "\ntwo"]),
        (["See light.bed_lamp first. Then this. X"], []),
    ],
)
def test_sentences_are_whole(parts: Sequence[str], spoken: list[str]):
    heard: list[str] = []
    speaking = SentenceSpeaker(heard.append, lambda text: True)
    for part in parts:
        speaking.hear_text(part)
    assert heard == spoken and "".join(parts).startswith("".join(heard))


def test_an_agent_that_cannot_be_heard_answers_at_the_end(serve):
    served = serve("act")
    served.caretaker.agents = lambda: Says("Hello there. How are you?")
    heard: list[str] = []
    reply = asyncio.run(served.caretaker.answer_dialogue([{"role": "user", "content": "hi"}], speak=heard.append))
    assert reply == "Hello there. How are you?" and not heard


class Writes:
    """An agent whose model writes these texts in turn, the last of them again and again."""

    name = "writes"

    def __init__(self, *texts):
        self.texts, self.seen = list(texts), []

    async def propose(self, observation, n=1):
        self.seen.append(observation.messages[-1])
        return [parse_observed_reply(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0], observation)]


def written(device, locator="turn_on", **arguments) -> str:
    given = {"did": device.did, "locator": locator, "arguments": arguments}
    return json.dumps({"name": "control_device", "arguments": given})


@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "<functioncall {}>", "<think>Is it on?</think>Sure!\n{}"])
def test_a_call_in_any_form_is_carried_out_as_any_call_and_not_spoken(serve, lamp, form):
    served = serve("act")
    served.caretaker.agents = lambda: agent
    agent = Writes(form.replace("{}", written(lamp)), "<think>Done, I think.</think>The lamp is on.")
    assert served.say("light please") == "The lamp is on." and state(served, lamp) == "on"
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "done" and not entry.refusals


@pytest.mark.parametrize(
    "text",
    ['{"service": "light.turn_on"}', '```homeassistant\n{"service": "a"}\n```', '{"name": "control_dev', "[TOOL_CALLS]x"],
)
def test_a_call_that_cannot_be_read_is_a_refusal_and_the_person_hears_so(serve, lamp, text):
    served = serve("act")
    served.caretaker.agents = lambda: agent
    agent = Writes(text)
    reply = served.say("light please")
    assert "my own call could not be read" in reply and not set("{}[]") & set(reply) and state(served, lamp) == "off"
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "refused" and "the tool call is not the JSON" in entry.refusals[0]
    assert agent.seen[1]["content"].startswith("refused: syntax: "), "the model is told"


def test_after_a_call_that_could_not_be_read_the_model_may_put_it_right(serve, lamp):
    served = serve("act")
    served.caretaker.agents = lambda: agent
    agent = Writes(written(lamp)[:-1], f"<tool_call>{written(lamp)}</tool_call>", "The lamp is on.")
    assert served.say("light please") == "The lamp is on." and state(served, lamp) == "on"


@pytest.mark.parametrize("text", ["<think>Shall I?", "Shall I?</think>", "<|channel|>analysis<|message|>Shall I?"])
def test_a_thought_alone_is_not_spoken(serve, text):
    served = serve("act")
    served.caretaker.agents = lambda: Writes(text)
    assert served.say("light please") == "I did not understand that."


# Errors that are heard

HEARD = {
    "http://10.0.0.5:1 cannot be reached (failed ('10.0.0.5', 1)). Is it running?": "the server cannot be reached",
    "`call_service lock.unlock` at http://ha:8123: Home Assistant says: Code required (invalid_code)": "Code required",
    "http://h/v1 takes no request: status 404: x; see to the key": "the server takes no request: status 404: x",
    "scripted did not answer (ValueError: the answer is no completion)": "scripted did not answer",
    "scripted did not answer (status 500: the GPU is lost)": "scripted did not answer: the GPU is lost",
    r"Home Assistant says: The code for lock.front_door doesn't match pattern ^\d{4}$. (service_validation_error)": (
        "The code for front door doesn't match pattern"
    ),
    r"Home Assistant says: Value [a-z]+ is not valid for text.note": "Value is not valid for note",
    "No space left on device": "No space left on device",
    "no answer within 60 s.": "no answer within 60 s",
}


@pytest.mark.parametrize("error", HEARD)
def test_an_error_is_heard_without_addresses(error: str) -> None:
    assert spoken_error(error) == HEARD[error]


def test_a_server_that_answers_with_a_page_is_not_asked_for_a_minute(serve, monkeypatch) -> None:
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=["<html>Sign in</html>"]) as server:
        served = serve("act")
        _, served.caretaker.agents = make_model_agents(server.url, seconds=60)
        begun = time.monotonic()
        assert served.say("light please") == "I have no answer: scripted did not answer."
        assert time.monotonic() - begun < 50 and len(server.requests) == 2
    assert "JSONDecodeError" in (served.journal.read_entries()[0].error or "")
    served.dialogue.clear()
    assert "I have no answer" in served.say("light please") and time.monotonic() - begun < 55, "nor one that is not there"
