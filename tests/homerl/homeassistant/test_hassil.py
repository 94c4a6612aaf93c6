"""The baseline `hassil` does what Home Assistant's own agent did with the same sentences."""

import pytest

from homerl.homeassistant.importing import import_home
from homerl.worlds.homeenv.agents.hassil_agent import meant
from tests.homerl.homeassistant.replay import listing, recorded

LACKS = {
    "make the office lights green": "the package of sentences has only `set ..` and `turn ..` for colours",
    "add eggs to the shopping list": "Assist has a tool of its own for each list, which is not played",
}
SAID = recorded("assist")["sentences"]


@pytest.fixture(scope="module")
def home():
    return import_home(listing()).home


@pytest.mark.parametrize("said", [one for one in SAID if one["sentence"] not in LACKS], ids=lambda one: one["sentence"])
def test_the_same_entities_are_called(home, said):
    answer = said["answer"]["response"]
    reached = [one["id"] for one in answer["data"].get("success", ()) if one["type"] == "entity"]
    calls = meant(home, said["sentence"], "en")
    assert [call.did for call in calls] == (reached if answer["response_type"] == "action_done" else [])
    there = home.fork()
    for call in calls:
        there.call(call.did, call.service, call.args)


def test_a_value_goes_where_the_service_takes_it(home):
    (dimmed,) = meant(home, "set the bed light to 30 percent", "en")
    assert (dimmed.service, dimmed.args) == ("turn_on", (None, 30))


def test_what_some_sentences_lack_is_still_so(home):
    assert not any(meant(home, sentence, "en") for sentence in LACKS), "take it from LACKS"
