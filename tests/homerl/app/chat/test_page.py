"""The page of a talk, over real HTTP and in a real browser."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from running import running

from homerl.app.chat.chat_page import ChatPage
from homerl.app.chat.session import ChatPartner, ChatSession, ChatTerms
from homerl.envs.core.messages import call_message, text_message, tool_call
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.host.web_server import ServerAddress
from homerl.play.situation import Observation, Reply
from homerl.play.trajectory import trajectory_from_row
from homerl.worlds.registry import default_world

NASTY = "<script>alert(1)</script>"
LIGHTS = HomeRecipe(devices=(2, 2), categories=("light",)).model_dump(mode="json")


class Switch:
    """Switches the first light on, then says `NASTY`. A sentence with `wait` waits until it is let go; one with `break` ends
    in an error of the model's program.
    """

    name = "switch"

    def __init__(self, did: str, go: threading.Event) -> None:
        self.did, self.go = did, go

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        if "break" in observation.messages[-1]["content"]:
            raise RuntimeError("CUDA out of memory")
        if observation.messages[-1]["role"] == "tool":
            while "wait" in observation.messages[-3]["content"] and not self.go.is_set():
                await asyncio.sleep(0.01)
            return [Reply(text_message(NASTY))]
        return [Reply(call_message(tool_call("pyexec", {"code": f'device("{self.did}").turn_on()'})))]


class Client:
    """A browser without a window."""

    def __init__(self, port: int) -> None:
        self.port = port

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=200)
        kind = {"Content-Type": "application/json"} if method == "POST" else {}
        connection.request(method, path, None if body is None else json.dumps(body), kind | headers)
        return connection.getresponse()

    def post(self, path: str, **body: Any) -> Any:
        answer = self.send("POST", path, body)
        assert answer.status == 200, answer.read()
        return json.loads(answer.read())

    def say(self, sentence: str) -> list[dict[str, Any]]:
        answer = self.send("POST", "/say", {"sentence": sentence})
        assert answer.status == 200, answer.read()
        return [json.loads(line) for line in answer.read().splitlines()]


@pytest.fixture
def go() -> threading.Event:
    return threading.Event()


@pytest.fixture
def session(go: threading.Event) -> ChatSession:
    visits: Any = default_world().visits
    blueprint = visits.blueprint({"home": LIGHTS}, None, 3)
    session = ChatSession(visits, blueprint, ChatPartner("switch", lambda seed: Switch(did, go)), ChatTerms())
    home: Any = session.current_situation.home
    did = home.plan.devices[0].did
    home.call(did, "turn_off")
    return session


@pytest.fixture
def client(session: ChatSession) -> Iterator[Client]:
    with running(ChatPage(session, ServerAddress()).build_chat_app()) as port:
        yield Client(port)


def test_a_sentence_streams_what_is_done_and_undo_takes_it_back(client: Client, session: ChatSession) -> None:
    before = json.loads(client.send("GET", "/talk").read())
    done, spoken, end = client.say(" light please ")
    (change,) = done["event"]["changes"]
    assert change["words"] == "off → on" and f'data-did="{change["owner"]}"' in done["home"]
    assert done["event"]["calls"] == [f'device("{change["owner"]}").turn_on()'] and done["event"]["results"] == ["ok"]
    assert spoken == {"event": spoken["event"]} and spoken["event"]["words"] == NASTY
    assert [turn["sentence"] for turn in end["turns"]] == ["light please"] and not end["busy"]
    assert json.loads(client.send("GET", "/talk").read()) == end
    stored = trajectory_from_row(json.loads(client.send("GET", "/talk.jsonl").read()))
    assert stored.turns()[0].utterance == "light please" and len(stored.steps) == 2
    undone = client.post("/undo")
    assert undone["undone"] == "light please" and undone["changed"] == [change["owner"]]
    assert {key: undone[key] for key in before} == before and not session.turns
    assert client.post("/undo")["undone"] is None


def test_one_answer_runs_at_a_time_and_can_be_stopped(client: Client, session: ChatSession, go: threading.Event) -> None:
    answer = client.send("POST", "/say", {"sentence": "wait for it"})
    assert json.loads(answer.readline())["event"]["changes"]
    for method, path, body in (("POST", "/undo", {}), ("POST", "/say", {"sentence": "more"}), ("GET", "/talk.jsonl", None)):
        assert client.send(method, path, body).status == 409
    stopped = client.post("/stop")
    assert not stopped["busy"] and stopped["turns"][0]["events"][-1] == {"note": "stopped"}
    assert json.loads(answer.read().splitlines()[-1])["turns"] == stopped["turns"]
    go.set()
    assert len(client.say("wait no more")) == 3 and len(session.turns) == 2
    assert client.post("/reset")["turns"] == []


def test_of_two_sentences_at_once_one_is_refused(client: Client, session: ChatSession, go: threading.Event) -> None:
    def said() -> int:
        answer = client.send("POST", "/say", {"sentence": "wait for it"})
        answer.read()
        return answer.status

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(said) for _ in range(2)]
        until = time.monotonic() + 10
        while not any(one.done() for one in both) and time.monotonic() < until:
            time.sleep(0.01)
        go.set()
        assert sorted(one.result() for one in both) == [200, 409]
    assert len(session.turns) == 1


def test_a_browser_that_asks_for_an_icon_is_told_that_there_is_none(client: Client) -> None:
    assert client.send("GET", "/favicon.ico").status == 204


def test_an_answer_that_breaks_off_says_so_and_the_talk_goes_on(client: Client, session: ChatSession) -> None:
    note, end = client.say("break")
    assert note == {"event": {"note": "no answer: CUDA out of memory"}} and end["turns"] == [] and not end["busy"]
    assert len(client.say("light please")) == 3


def test_half_a_sign_in_a_sentence_is_no_trouble(client: Client) -> None:
    *_, end = client.say("light \ud83d please")
    assert end["turns"][0]["sentence"] == "light \ufffd please"
    assert client.send("GET", "/talk.jsonl").status == 200


def test_a_browser_that_goes_away_stops_its_answer(client: Client, session: ChatSession, go: threading.Event) -> None:
    answer = client.send("POST", "/say", {"sentence": "wait for it"})
    answer.readline()
    answer.close()
    until = time.monotonic() + 10
    while client.send("POST", "/undo", {}).status == 409:
        time.sleep(0.05)
        assert time.monotonic() < until
    assert not session.turns


def test_nobody_else_is_admitted(client: Client) -> None:
    for path in ("/", "/talk", "/talk.jsonl"):
        assert client.send("GET", path, Host="evil.example").status == 403
    for path in ("/say", "/undo", "/reset", "/stop"):
        assert client.send("POST", path, {"sentence": "x"}, Host="evil.example").status == 403
        assert client.send("POST", path, {"sentence": "x"}, **{"Content-Type": "text/plain"}).status == 415
    for sentence in ("", "  ", 5, None, "x" * 2001):
        assert client.send("POST", "/say", {"sentence": sentence}).status == 400
    assert client.send("GET", "/talk.jsonl").status == 409  # nothing was said


def test_the_page_needs_nothing_from_elsewhere(client: Client) -> None:
    answer = client.send("GET", "/")
    text, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert "http://" not in text and "https://" not in text and "@import" not in text and "url(" not in text
    assert policy.startswith("default-src 'none'") and "connect-src 'self'" in policy


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_person_talks_in_a_browser(browser, client: Client, session: ChatSession, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"http://127.0.0.1:{client.port}/")
    page.wait_for_selector(".home")
    assert page.is_disabled("#undo") and page.evaluate("document.activeElement.id") == "sentence"
    page.keyboard.type("light please")  # by the keyboard alone
    page.keyboard.press("Enter")
    page.wait_for_selector(".theirs")
    page.wait_for_selector("#undo:not([disabled])")
    assert page.inner_text(".theirs") == NASTY and page.inner_text(".mine") == "light please"
    assert "off → on" in page.inner_text(".deed") and page.locator(".device.changed").count() == 1
    assert "on" in page.inner_text(".device.changed .says")
    page.keyboard.type("wait for it")
    page.keyboard.press("Enter")
    page.wait_for_selector("#stop", state="visible")
    page.wait_for_selector("li:nth-child(2) .deed")
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    assert page.inner_text("li:nth-child(2) .note") == "stopped"
    for _ in range(2):
        page.click("#undo")
        page.wait_for_load_state("networkidle")
    page.wait_for_selector("#hint", state="visible")
    assert page.locator("#turns > li").count() == 0 and not session.turns
    assert page.input_value("#sentence") == "wait for it"  # what was taken back can be said otherwise
    page.fill("#sentence", "break")
    page.keyboard.press("Enter")
    page.wait_for_selector("#trouble:not([hidden])")
    assert page.inner_text("#trouble") == "no answer: CUDA out of memory"
    assert page.input_value("#sentence") == "break" and page.locator("#turns > li").count() == 0  # it can be said again
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.reload()
    page.wait_for_selector(".home")
    assert not said
    page.close()
