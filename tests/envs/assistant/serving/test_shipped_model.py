"""The shipped model, served for entities of the recorded home: the matcher takes what it knows, and the model the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_served import Agent

from homerl.envs.assistant.serving.exchange_journal import read_journal
from homerl.train.offline_bases import SMOLLM2
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, only

ENTITIES = (
    "light.bed_light", "light.ceiling_lights", "light.kitchen_lights", "switch.ac", "fan.ceiling_fan", "cover.garage_door",
    "cover.hall_window", "cover.kitchen_window", "lock.front_door", "climate.heatpump", "sensor.outside_temperature",
)  # fmt: skip
WAIT = 1200  # seconds for a sentence, on a machine that does much else


@pytest.mark.long
@pytest.mark.timeout(3 * WAIT)
@pytest.mark.skipif(not SMOLLM2.base_folder.is_dir(), reason="its base is not here: scripts/base_model makes it")
def test_the_shipped_model_answers_what_the_matcher_leaves(tmp_path: Path):
    """No option says how the model was trained. What it says depends on its weights, so it is only to be heard."""
    more = ("--cpu", "--first", "hassil", "--patience", str(WAIT))
    with (
        Replay(only(listing(), ENTITIES)) as home,
        Agent(tmp_path, home.url, "smollm2-home", env=os.environ | {"HA_TOKEN": TOKEN}, more=more, seconds=WAIT) as agent,
    ):
        said = [agent.say(text, WAIT) for text in ("turn on the bed light", "make it cosy with the Bed Light at 20 percent")]
    matched, left = read_journal(tmp_path / "agent.jsonl").entries
    assert (matched.outcome, [call.did for call in matched.calls]) == ("shadowed", ["light.bed_light"]), said
    assert left.outcome in ("shadowed", "said", "refused") and left.error is None and left.reply, said
