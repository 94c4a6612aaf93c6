"""What a person hears of a model that writes calls and thoughts as text."""

from __future__ import annotations

import json
import time

import pytest
from scripted_server import Faults, ScriptedServer
from serving import state

from homerl.app.served.model_agents import make_model_agents
from homerl.envs.assistant.serving.reply_text import spoken_error
from homerl.play.tool_call_parser import parse_observed_reply


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
    "No space left on device": "No space left on device",
    "no answer within 60 s.": "no answer within 60 s",
}


@pytest.mark.parametrize("error", HEARD)
def test_an_error_is_heard_without_addresses(error: str) -> None:
    assert spoken_error(error) == HEARD[error]


def test_a_server_that_answers_with_a_page_is_not_asked_for_a_minute(serve) -> None:
    with ScriptedServer(faults=Faults(garbage=1.0), garbage=["<html>Sign in</html>"]) as server:
        served = serve("act")
        _, served.caretaker.agents = make_model_agents(server.url, seconds=60)
        begun = time.monotonic()
        assert served.say("light please") == "I have no answer: scripted did not answer."
        assert time.monotonic() - begun < 50 and len(server.requests) == 2
    assert "JSONDecodeError" in (served.journal.read_entries()[0].error or "")
    served.dialogue.clear()
    assert "I have no answer" in served.say("light please") and time.monotonic() - begun < 55, "nor one that is not there"
