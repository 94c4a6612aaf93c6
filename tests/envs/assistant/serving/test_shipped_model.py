"""The shipped model, served for entities of the recorded home: the matcher takes what it knows, and the model the rest. By
itself, and as a GGUF file behind llama.cpp, with the commands of the page of Home Assistant."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from agent_served import Agent, answers

from homerl.envs.assistant.serving.exchange_journal import read_journal
from homerl.train.offline_bases import SMOLLM2
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, only

ENTITIES = (
    "light.bed_light", "light.ceiling_lights", "light.kitchen_lights", "switch.ac", "fan.ceiling_fan", "cover.garage_door",
    "cover.hall_window", "cover.kitchen_window", "lock.front_door", "climate.heatpump", "sensor.outside_temperature",
)  # fmt: skip
WAIT = 1200  # seconds for a sentence, on a machine that does much else
SAID = ("turn on the bed light", "make it cosy with the Bed Light at 20 percent")
PAGE = Path(__file__).parents[4] / "docs/homeassistant.md"
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(5 * WAIT),
    pytest.mark.skipif(not SMOLLM2.base_folder.is_dir(), reason="its base is not here: scripts/base_model makes it"),
]


def check_answers(folder: Path, said: list[str]) -> None:
    """What the model says depends on its weights, so it is only to be heard."""
    matched, left = read_journal(folder / "agent.jsonl")[0]
    assert (matched.outcome, [call.did for call in matched.calls]) == ("shadowed", ["light.bed_light"]), said
    assert left.outcome in ("shadowed", "said", "refused") and left.error is None and left.reply, said


def test_the_shipped_model_answers_what_the_matcher_leaves(tmp_path: Path):
    """No option says how the model was trained."""
    more = ("--cpu", "--first", "hassil", "--patience", str(WAIT))
    with (
        Replay(only(listing(), ENTITIES)) as home,
        Agent(tmp_path, home.url, "smollm2-home", env=os.environ | {"HA_TOKEN": TOKEN}, more=more, seconds=WAIT) as agent,
    ):
        said = [agent.say(text, WAIT) for text in SAID]
    check_answers(tmp_path, said)


def test_the_commands_of_the_page_make_a_gguf_file_and_an_agent_that_it_answers(tmp_path: Path):
    """All but the first, which downloads the base, as the page has them; the home's address is another."""
    block = next(
        text for text in re.findall(r"^```\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S) if "base_model" in text
    )
    lines = [
        shlex.split(line, comments=True) for line in block.replace("\\\n", "").splitlines() if line.startswith("homerl ")
    ]
    export, (*serve, _), (_, _, _, url, *more, _, _) = lines
    environment, more = os.environ | {"HA_TOKEN": TOKEN}, [*more, "--patience", str(WAIT)]
    here = {"cwd": tmp_path, "env": environment}
    subprocess.run([sys.executable, "-m", *export], check=True, **here)
    with subprocess.Popen([sys.executable, "-m", *serve], **here) as server:
        try:
            answers(f"{url}/models", server, WAIT)
            with (
                Replay(only(listing(), ENTITIES)) as home,
                Agent(
                    tmp_path, home.url, url, env=environment, more=(*more, "--patience", str(WAIT)), seconds=WAIT
                ) as agent,
            ):
                said = [agent.say(text, WAIT) for text in SAID]
        finally:
            server.terminate()
    check_answers(tmp_path, said)
