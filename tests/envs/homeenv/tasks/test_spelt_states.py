"""Homes whose devices write ON and OFF, true and false, OPEN and CLOSE, and set them by one service: they are played in."""

from pathlib import Path

import pytest
from crossed import crossed

from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.devices.device_spec import Entity
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.play.trajectory import Outcome
from tests.envs.homeenv.tasks.intents import expert_plays, idle_plays

ROOMS = "rooms: [study, living_room, bedroom, kitchen]"
DEVICES = f"""
- name: bulb
  userdata: {{category: light, spid: "910001", {ROOMS}}}
  attributes: [{{name: state, STATE}}, {{name: brightness, type: int, range: [0, 100]}}]
  services:
    - {{name: set_state, description: Switch it., arguments: [{{name: state, STATE}}], code: self.state = state}}
    - name: set_brightness
      description: Dim it.
      arguments: [{{name: brightness, type: int, range: [0, 100]}}]
      requires: self.state == ON
      code: self.brightness = brightness
- name: outlet
  userdata: {{category: plug, spid: "910002", {ROOMS}}}
  attributes: [{{name: state, STATE}}]
  services: [{{name: set_state, description: Switch it., arguments: [{{name: value, STATE}}], code: self.state = value}}]
- name: shade
  userdata: {{category: curtain, spid: "910003", {ROOMS}}}
  attributes:
    - {{name: state, type: enum, options: [OPEN, CLOSE]}}
    - {{name: position, type: int, range: [0, 100], unit: percentage}}
  services:
    - name: set_state
      description: Move it.
      arguments: [{{name: state, type: enum, options: [OPEN, CLOSE, STOP]}}]
      code: |
        self.state = self.state if state == "STOP" else state
        self.position = self.position if state == "STOP" else 100 if state == "OPEN" else 0
    - name: set_position
      description: Move it.
      arguments: [{{name: position, type: int, range: [0, 100], unit: percentage}}]
      code: |
        self.position = position
        self.state = "OPEN" if position else "CLOSE"
"""
SPELLINGS = {
    "zigbee": ('type: enum, options: ["ON", "OFF"]', "'ON'", "'OFF'"),
    "truth": ("type: bool", "True", "False"),
    "digit": ("type: int, range: [0, 1]", "1", "0"),
}
FAMILIES = (
    "adjust/step", "ambiguous/state_level", "ambiguous/slot_missing", "atomic/clear", "compositional/batch",
    "compositional/state_dependent", "compositional/top_n", "memory/short_term", "multi_turn/continuation",
    "multi_turn/backtracking", "query/status", "query/quantity", "survey/all", "automation/state_driven",
)  # fmt: skip


def folder(tmp_path: Path, spelling: str) -> HomeRecipe:
    type, on, _ = SPELLINGS[spelling]
    (tmp_path / "spelt.yaml").write_text(DEVICES.replace("STATE", type).replace("ON\n", f"{on}\n"))
    return HomeRecipe(devices=(8, 12), catalogue=(str(tmp_path),), products=("910001", "910002", "910003"))


@crossed(spelling=sorted(SPELLINGS), toolset=["smh", "assist"])
def test_the_expert_solves_tasks_of_homes_with_states_of_their_own(tmp_path: Path, spelling: str, toolset: str) -> None:
    home, switched = folder(tmp_path, spelling), []
    for family in FAMILIES:
        if family.startswith("automation") and not TOOLSETS[toolset].automations:
            continue
        recipe = BlueprintRecipe(families={family: 1}, intents=(1, 1), home=home, toolset=toolset, prompt="full")
        blueprint = make_home_blueprint(recipe, "train", 0)
        assert expert_plays(blueprint) == Outcome.SUCCESS, family
        assert idle_plays(blueprint) != Outcome.SUCCESS, family
        switched += [query for intent in blueprint.intents for query in (*intent.queries, intent.clarification)]
    assert not [text for text in switched if "set_state" in text or "set state" in text or "ON" in text or "OFF" in text]


@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
def test_home_assistant_shows_and_switches_states_by_their_words(tmp_path: Path, spelling: str) -> None:
    home: Home = make_home(3, folder(tmp_path, spelling))
    found = {entity.domain: entity for entity in entities_of_plan(home.plan)}
    assert {"light", "switch", "cover"} <= found.keys() and not {"select", "button"} & found.keys()
    for domain, on, off in (("light", "on", "off"), ("switch", "on", "off"), ("cover", "open", "closed")):
        entity = found[domain]
        for act, state in (("turn_on", on), ("turn_off", off), ("turn_on", on)):
            step = entity.shape.acts[act]
            home.call(entity.device.did, step.service, step.args)
            assert entity.state_text(home) == state


def test_shipped_products_need_no_other_way_to_be_switched() -> None:
    for file in (Path(__file__).parents[4] / "envs/homeenv/sim").glob("*/*.yaml"):
        if file.parent.name in ("catalogue", "homeassistant"):
            assert not [spec.name for spec in Entity.load(file) if spec.switch_services]
