"""No id of a device and no name of a tool is said to a person."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from serving import Says, call_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.serving.spoken_ids import SpokenIds
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.homeenv.sim.home import Home

TOOLS = ("intent__HassTurnOn", "homeassistant__GetLiveContext", "control_device", "pyexec", "answer")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return written_home(
        tmp_path_factory.mktemp("home"),
        Row("light.kitchen", "Ceiling", "living_room"),
        Row("light.floor_lamp", "Floor Lamp", "living_room"),
        Row("switch.relay_1", "esp_relay_1"),
        areas={"living_room": "Living Room"},
    )


@pytest.mark.parametrize(
    ("written", "heard"),
    [
        ("I turned on light.kitchen.", "I turned on Living Room Ceiling."),
        ("The `light.floor_lamp` is on, and floor_lamp stays.", "The Floor Lamp is on, and Floor Lamp stays."),
        ("All is off in living_room.", "All is off in Living Room."),
        ("Das war light.kitchen. Noch etwas?", "Das war Living Room Ceiling. Noch etwas?"),
        ("已打开light.kitchen。我用了HassTurnOn。", "已打开Living Room Ceiling。"),
        ("Of course. I called intent__HassTurnOn. It is on.", "Of course. It is on."),
        ("I will use HassTurnOn for that!", ""),
        ("I asked GetLiveContext. It is 21.5 degrees.", "It is 21.5 degrees."),
        ("Sure.\nI use control_device now.\nWait.", "Sure.\nWait."),
        ("I ran `pyexec`. Done.", "Done."),
        ("I know no light.cellar. Which one?", "Which one?"),
        ("light.turn_on was called. Done.", "Done."),
        ("The answer is: the light.", "The answer is: the light."),
        ("esp_relay_1 is on.", "esp_relay_1 is on."),
        ("I see one light.Shall I turn it on?", "I see one light.Shall I turn it on?"),
        ("It is in fan_only mode at 21.5, see example.com.", "It is in fan_only mode at 21.5, see example.com."),
    ],
)
def test_ids_are_told_by_names_and_tools_are_not_told(home: Home, written: str, heard: str) -> None:
    assert SpokenIds(home, TOOLS).remove_ids(written) == heard


@pytest.mark.parametrize("mode", ["shadow", "confirm", "act"])
def test_a_person_hears_neither(home: Home, tmp_path: Path, mode: str) -> None:
    served = serve_home(
        home, Says("I cannot do that with HassTurnOn. The light.floor_lamp is broken."), tmp_path, mode, "assist"
    )
    assert served.say("is the lamp broken").startswith("The Floor Lamp is broken.")
    served = serve_home(home, Says("control_device failed."), tmp_path, mode)
    assert served.say("is the lamp broken") == "I did not understand that."


def test_what_was_done_is_told_where_the_model_told_its_tools(home: Home, tmp_path: Path) -> None:
    served = serve_home(home, Says(call_of("light.floor_lamp", "turn_on"), "I called control_device."), tmp_path)
    assert served.say("floor lamp on") == "Done."
    wrong = call_message(tool_call("open_the_door", {}))
    served = serve_home(home, Says(wrong, "Sorry, I cannot: open_the_door is not there."), tmp_path)
    assert "open_the_door" not in served.say("floor lamp on"), "nor is a tool that it made up"


def test_data_that_was_asked_for_is_left_alone(home: Home, tmp_path: Path) -> None:
    served = serve_home(home, Says('{"lamp": "light.floor_lamp"}'), tmp_path)
    asked = served.caretaker.answer_dialogue([{"role": "user", "content": "which lamp?"}], wants_json=True)
    assert asyncio.run(asked) == '{"lamp": "light.floor_lamp"}'
