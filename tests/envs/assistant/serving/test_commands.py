"""`homerl serve-agent` as a person meets it: what is wrong is one message and code 2."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from command import homerl
from scripted_server import ScriptedServer
from serving import Says, call_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.listing.guard_words import has_guard_words
from homerl.envs.assistant.listing.home_listing import CONFIG
from homerl.envs.assistant.serving.simulated_home import SimulatedHome
from tests.envs.assistant.listing.replay import TOKEN, Replay


@pytest.mark.parametrize(
    ("token", "reachable", "says"),
    [("", True, "HA_TOKEN holds no token"), ("wrong", True, "refused the token"), (TOKEN, False, "cannot be reached")],
)
def test_a_home_assistant_that_cannot_be_asked_is_one_message(tmp_path, monkeypatch, token, reachable, says):
    monkeypatch.setenv("HA_TOKEN", token)
    with Replay() as home, socket.create_server(("127.0.0.1", 0)) as nobody:
        url = home.url if reachable else f"http://127.0.0.1:{nobody.getsockname()[1]}"
        nobody.close()
        command = ("serve-agent", "--model", "http://127.0.0.1:9/v1", "--ha", url, "--log", str(tmp_path / "agent.jsonl"))
        done = homerl(*command)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("home") / "home.json"
    assert homerl("make-home", "--out", str(path), "--devices", "3-3").code == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--ha", "homeassistant.local:8123"), "is no address of a Home Assistant"),
        (("--ha", "REPLAY"), "refused the token"),
        (("--port", "99999"), "65535"),
        (("--first", "keywords"), "--first"),
        (("--unclear", "guess"), "--unclear"),
        (("--port", "TAKEN"), "in use"),
        (("--host", "192.0.2.7", "--key-env", "HA_TOKEN"), "192.0.2.7, port"),
        (("--log", "FOLDER"), "FOLDER"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_served(own, tmp_path, monkeypatch, arguments, says):
    monkeypatch.setenv("HA_TOKEN", "wrong")
    with Replay() as home, ScriptedServer() as model, socket.create_server(("127.0.0.1", 0)) as taken:
        known = {"REPLAY": home.url, "TAKEN": str(taken.getsockname()[1]), "FOLDER": str(tmp_path)}
        given = (known.get(argument, argument) for argument in arguments)
        command = ("serve-agent", "--model", model.url, "--home", str(own), "--log", str(tmp_path / "agent.jsonl"))
        done = homerl(*command, *given)
    assert done.code == 2 and known.get(says, says) in done.err.replace("\n", " ")
    assert "Traceback" not in done.err and "http://" not in done.out


def test_without_a_home_nothing_is_read_before_it_is_said(tmp_path):
    done = homerl("serve-agent", "--model", str(tmp_path / "none"), "--mode", "act")
    assert done.code == 2 and "no home to act in" in done.err and "--home home.json" in done.err


def test_a_home_file_is_acted_in_without_home_assistant(tmp_path):
    rows = Row("lock.front_door", "Front Door", state="locked"), Row("todo.shopping", "Shopping", state="0")
    home = written_home(tmp_path, *rows)
    home.write_slot(home.plan.slot_of("todo.shopping", "needs_action"), ("Bread",))
    unlock = call_of("lock.front_door", "unlock")
    served = serve_home(home, Says(unlock, "Open."), tmp_path, "act", real=(real := SimulatedHome()))
    assert served.say("unlock the front door").endswith("Shall I do it?")
    assert served.say("yes") == "Done."
    now = asyncio.run(real.refresh_twin(home))
    assert (
        now.read_value("lock.front_door", "state") == "unlocked" and home.read_value("lock.front_door", "state") == "locked"
    )
    told = asyncio.run(real.ask_service("todo.shopping", "get_items", {}))
    assert told["todo.shopping"]["items"] == [{"summary": "Bread", "status": "needs_action"}]


def test_an_agent_starts_before_its_home_assistant_does(own, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as nobody, socket.create_server(("127.0.0.1", 0)) as free:
        gone, port = (one.getsockname()[1] for one in (nobody, free))
    with ScriptedServer() as model:
        command = ("serve-agent", "--model", model.url, "--home", str(own), "--port", str(port))
        more = ("--ha", f"http://127.0.0.1:{gone}", "--log", str(tmp_path / "agent.jsonl"))
        line = [sys.executable, "-m", "homerl", *command, *more]
        with subprocess.Popen(line, env=os.environ | {"HA_TOKEN": TOKEN}, stdout=subprocess.PIPE, text=True) as served:
            said = _until(served, "what it does")
            models = _asked(f"http://127.0.0.1:{port}/v1/models")
            served.terminate()
    assert "cannot be reached" in said.replace("\n", " ") and models["data"]


def test_the_guard_knows_a_language_whatever_the_country():
    assert has_guard_words("de-CH") and has_guard_words("de") and not has_guard_words("is")


@pytest.mark.long
@pytest.mark.parametrize(("language", "warned"), [("is", True), ("de-CH", False)])
def test_the_start_says_if_the_guard_does_not_know_the_language(tmp_path, language, warned):
    with Replay() as home, ScriptedServer() as model, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        told = home.listing.sources[CONFIG] | {"language": language}
        home.listing = home.listing.with_sources({CONFIG: told})
        command = ("serve-agent", "--model", model.url, "--ha", home.url, "--port", str(port))
        line = [sys.executable, "-m", "homerl", *command, "--log", str(tmp_path / "agent.jsonl")]
        with subprocess.Popen(line, env=os.environ | {"HA_TOKEN": TOKEN}, stdout=subprocess.PIPE, text=True) as served:
            said = _until(served, "what it does")
            served.terminate()
    assert ("so each switch asks" in said.replace("\n", " ")) == warned


def _asked(url: str) -> dict:
    """What an address answers; the server may need a moment to begin."""
    for _ in range(100):
        try:
            with urlopen(url, timeout=5) as answer:
                return json.load(answer)
        except URLError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def _until(served: subprocess.Popen[str], words: str) -> str:
    """What a process has said up to a line with these words."""
    said = ""
    for line in served.stdout:
        said += line
        if words in line:
            break
    return said
