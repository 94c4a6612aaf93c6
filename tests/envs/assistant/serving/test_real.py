"""A served agent in a real Home Assistant (`scripts/check_homeassistant` starts one), from a sentence to the lamp.

The sentence goes through Home Assistant's conversation API and its own `llama_cpp` integration to `homerl serve-agent`. The
model behind that is an endpoint that a test scripts, or one that a test trains.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_server import ScriptedServer

from homerl.envs.assistant.listing.homeassistant_client import connect_client, read_token
from homerl.envs.assistant.serving.exchange_journal import JournalEntry, read_journal
from homerl.envs.core.messages import call_message, tool_call
from homerl.train.offline_bases import SMOLLM2
from tests.envs.assistant.listing.twelve import TWELVE

URL = os.environ.get("HOMERL_HA_URL", "")
pytestmark = [
    pytest.mark.homeassistant,
    pytest.mark.skipif(not URL, reason="no HOMERL_HA_URL: scripts/check_homeassistant starts a real Home Assistant"),
]
ROOT = Path(__file__).parents[4]
LAMP, LOCK = "light.bed_light", "lock.front_door"
MOVING = ("sensor.", "media_player.", "sun.", "weather.", "conversation.", "camera.", "image.", "event.")  # by themselves


def says(*called: tuple[str, Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """A model that makes these calls to whatever it hears, and then says "All done."."""

    def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request["messages"][-1]["role"] == "user":
            return call_message(*(tool_call(name, dict(arguments)) for name, arguments in called))
        return {"role": "assistant", "content": "All done."}

    return answer


LAMP_ON = ("intent__HassTurnOn", {"name": "Bed Light", "domain": ["light"]})
OPEN_LOCK = ("intent__HassTurnOff", {"name": "Front Door", "domain": ["lock"]})


def states() -> dict[str, Any]:
    """The state and the attributes of every entity that does not move by itself."""

    async def asked() -> list[dict[str, Any]]:
        async with connect_client(URL, read_token("HA_TOKEN")) as client:
            return await client.read_states()

    rows = asyncio.run(asked())
    return {row["entity_id"]: (row["state"], row["attributes"]) for row in rows if not row["entity_id"].startswith(MOVING)}


def rest(path: str, **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {os.environ['HA_TOKEN']}"}
    answer = httpx.post(f"{URL}{path}", json=body, headers=headers, timeout=600)
    assert answer.is_success, answer.text
    return answer.json()


@contextmanager
def served(tmp_path: Path, mode: str, model: str | Path, *options: str) -> Iterator[tuple[str, Path]]:
    """`homerl serve-agent` in a process of its own: the id of its conversation agent in Home Assistant, and its log."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "agent.jsonl"
    command = [sys.executable, "-m", "homerl", "serve-agent", "--model", str(model), "--ha", URL, "--mode", mode]
    command += ["--port", str(port), "--log", str(log), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            _wait_for(port, process)
            yield _configured(f"http://127.0.0.1:{port}/v1"), log
        finally:
            process.terminate()
            said = process.communicate(timeout=200)[0]
            assert os.environ["HA_TOKEN"] not in said
            assert not log.exists() or os.environ["HA_TOKEN"] not in log.read_text()


def _wait_for(port: int, process: subprocess.Popen) -> None:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()[0]
        try:
            httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=5)
            return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError("serve-agent did not start")


def _configured(base_url: str) -> str:
    """Add the endpoint as Home Assistant's `llama_cpp`, as a person would; the entity of its conversation agent."""
    flow = rest("/api/config/config_entries/flow", handler="llama_cpp")
    form = rest(f"/api/config/config_entries/flow/{flow['flow_id']}", base_url=base_url)
    assert form["step_id"] == "model", form
    known = states_of("conversation")
    made = rest(f"/api/config/config_entries/flow/{flow['flow_id']}", chat_model="scripted")
    assert made["type"] == "create_entry", made
    until = time.monotonic() + 600
    while time.monotonic() < until:
        if new := states_of("conversation") - known:
            return new.pop()
        time.sleep(0.2)
    raise AssertionError("the conversation agent did not appear")


def states_of(domain: str) -> set[str]:
    headers = {"Authorization": f"Bearer {os.environ['HA_TOKEN']}"}
    rows = httpx.get(f"{URL}/api/states", headers=headers, timeout=60).json()
    return {row["entity_id"] for row in rows if row["entity_id"].startswith(f"{domain}.")}


def converse(agent: str, sentence: str, **more: Any) -> tuple[str, str]:
    """What is answered to a sentence, and the id of the conversation."""
    answer = rest("/api/conversation/process", text=sentence, language="en", agent_id=agent, **more)
    return answer["response"]["speech"]["plain"]["speech"], answer["conversation_id"]


def entries(log: Path) -> list[JournalEntry]:
    """The exchanges but those by which Home Assistant tried the endpoint."""
    return [entry for entry in read_journal(log)[0] if entry.calls or entry.outcome != "said"]


def off(entity: str) -> None:
    rest("/api/services/light/turn_off", entity_id=entity)


def test_a_sentence_changes_the_lamp(tmp_path):
    # What a lamp that is off will shine with, nobody can read: as a twin assumes, and not as another test left it.
    rest("/api/services/light/turn_on", entity_id=LAMP, brightness=255, color_temp_kelvin=3000)
    off(LAMP)
    with ScriptedServer(answer=says(LAMP_ON)) as model, served(tmp_path, "act", model.url) as (agent, log):
        assert converse(agent, "turn on the bed light")[0] == "All done."
        assert states()[LAMP][0] == "on"
        entry = entries(log)[-1]
    assert entry.outcome == "done" and entry.calls[0].did == LAMP
    assert not [change for change in entry.changes if change.differs]


def test_shadow_leaves_every_state_as_it_was(tmp_path):
    off(LAMP)
    with ScriptedServer(answer=says(LAMP_ON, OPEN_LOCK)) as model, served(tmp_path, "shadow", model.url) as (agent, log):
        before = states()
        said = [converse(agent, sentence)[0] for sentence in ("turn on the bed light", "open the front door", "everything")]
        assert states() == before
    assert all("I only watch" in one for one in said)
    assert [entry.outcome for entry in entries(log)][-3:] == ["shadowed"] * 3


def test_confirm_asks_and_a_yes_acts(tmp_path):
    off(LAMP)
    with ScriptedServer(answer=says(LAMP_ON)) as model, served(tmp_path, "confirm", model.url) as (agent, _):
        asked, conversation = converse(agent, "turn on the bed light")
        assert "Shall I" in asked and states()[LAMP][0] == "off"
        converse(agent, "yes", conversation_id=conversation)
        assert states()[LAMP][0] == "on"


def test_an_obeyed_text_of_the_home_opens_no_lock(tmp_path):
    """The agent does what a media title told it. The speaker asked for something else, so nothing is opened."""
    rest("/api/services/lock/lock", entity_id=LOCK)
    with (
        ScriptedServer(answer=says(OPEN_LOCK)) as model,
        served(tmp_path, "act", model.url, "--allow", LOCK) as (agent, log),
    ):
        for sentence in ("what does the living room play?", "play The Doors", "is the back door at the front locked?"):
            said, _ = converse(agent, sentence)
            assert states()[LOCK][0] in ("locked", "locking") and "consent" in said
    assert [entry.guarded for entry in entries(log)[-3:]] == [{LOCK: "not named"}] * 3


def test_the_log_is_whole_lines(tmp_path):
    off(LAMP)
    with ScriptedServer(answer=says(LAMP_ON)) as model, served(tmp_path, "act", model.url) as (agent, log):
        converse(agent, "turn on the bed light")
        lines = log.read_text().splitlines()
    assert all(json.loads(line)["mode"] == "act" for line in lines)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_model_that_was_trained_for_this_home_changes_the_lamp(tmp_path):
    """What docs/homeassistant.md tells: import a dozen entities, train on them, serve the model. It takes six minutes."""
    with exposed(*TWELVE):
        run(tmp_path, "homerl.app.cli", "import-ha", URL, "--out", "home.json")
        run(tmp_path, "accelerate.commands.launch", ROOT / "recipes/home_assistant.yaml")
        off(LAMP)
        model = tmp_path / "runs/home_assistant/rlve/model"
        with served(tmp_path, "act", model, "--cpu", "--prompt", "brief", "--steps", "1") as (agent, log):
            for sentence in (
                "turn on the Bedroom Bed Light",
                "switch the Bed Light in the Bedroom on",
                "Bedroom Bed Light on",
            ):
                converse(agent, sentence)
                if states()[LAMP][0] == "on":
                    break
            else:
                raise AssertionError([entry.model_dump_json() for entry in entries(log)])
    assert entries(log)[-1].outcome == "done"


@pytest.mark.skipif(not SMOLLM2.base_folder.is_dir(), reason="its base is not here: scripts/base_model makes it")
def test_the_shipped_model_is_heard_where_the_matcher_leaves_a_sentence(tmp_path):
    more = ("--cpu", "--first", "hassil", "--patience", "600")
    with exposed(*TWELVE):
        off(LAMP)
        with served(tmp_path, "act", "smollm2-home", *more) as (agent, log):
            assert converse(agent, "turn on the bed light")[0] == "Done." and states()[LAMP][0] == "on"
            said = converse(agent, "make it cosy with the Bed Light at 20 percent")[0]
    matched, left = [entry for entry in read_journal(log)[0] if entry.outcome != "acting"][-2:]
    assert [call.did for call in matched.calls] == [LAMP]
    assert left.outcome in ("done", "said", "refused") and left.error is None and left.reply == said


@contextmanager
def exposed(*entities: str) -> Iterator[None]:
    """Expose these entities alone, and afterwards those of before."""
    expose = "homeassistant/expose_entity"

    async def set_to(wanted: set[str]) -> set[str]:
        async with connect_client(URL, read_token("HA_TOKEN")) as client:
            known = (await client.call_command(f"{expose}/list"))["exposed_entities"]
            before = {entity for entity, to in known.items() if to.get("conversation")}
            for change, those in ((True, wanted - before), (False, before - wanted)):
                if those:
                    told = {"assistants": ["conversation"], "entity_ids": sorted(those), "should_expose": change}
                    await client.call_command(expose, **told)
            return before

    before = asyncio.run(set_to(set(entities)))
    try:
        yield
    finally:
        asyncio.run(set_to(before))


def run(folder: Path, module: str, *arguments: str | Path) -> None:
    """Run a command of this Python in a folder; it must succeed."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
