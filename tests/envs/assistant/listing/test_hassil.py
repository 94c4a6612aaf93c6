"""The baseline `hassil` does what Home Assistant's own agent did with the same sentences."""

import pytest

from homerl.envs.assistant.first import match_certain_calls
from homerl.envs.assistant.serving.real_home import remove_devices
from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence
from tests.envs.assistant.listing.replay import FOLDER, recorded, recorded_home

LACKS = {
    "make the office lights green": "the package of sentences has only `set ..` and `turn ..` for colours",
}
BEYOND = {  # what the matcher does though Home Assistant failed: the device, and why a person wants it nevertheless
    "clean the kitchen": (
        "vacuum.demo_vacuum_0_ground_floor",
        "Home Assistant made the same call, and its demo's vacuum has no map of rooms. If an owner's has none, the "
        "refusal is told to the person",
    ),
}
SAID = recorded("assist")["sentences"]


@pytest.fixture(scope="module")
def home():
    return recorded_home()


@pytest.mark.parametrize(
    "said", [one for one in SAID if one["sentence"] not in {**LACKS, **BEYOND}], ids=lambda one: one["sentence"]
)
def test_the_same_entities_are_called(home, said):
    answer = said["answer"]["response"]
    reached = [one["id"] for one in answer["data"].get("success", ()) if one["type"] == "entity"]
    calls = calls_of_sentence(home, said["sentence"], "en")
    assert [call.did for call in calls] == (reached if answer["response_type"] == "action_done" else [])
    there = home.fork()
    for call in calls:
        there.call(call.did, call.service, call.args)


def test_a_value_goes_where_the_service_takes_it(home):
    (dimmed,) = calls_of_sentence(home, "set the bed light to 30 percent", "en")
    assert (dimmed.service, dimmed.args) == ("turn_on", (None, 30))


def test_a_colour_is_one_that_the_home_takes(home):
    (red,) = calls_of_sentence(home, "make the bed light red", "en")
    assert red.args[-1] == (255, 0, 0)
    home.fork().call(red.did, red.service, red.args)


def test_what_some_sentences_lack_is_still_so(home):
    assert not any(calls_of_sentence(home, sentence, "en") for sentence in LACKS), "take it from LACKS"


@pytest.mark.parametrize("sentence", BEYOND)
def test_what_home_assistant_tried_in_vain_is_tried(home, sentence):
    (answer,) = [one["answer"]["response"] for one in SAID if one["sentence"] == sentence]
    assert answer["response_type"] == "error" and answer["data"]["code"] == "failed_to_handle", "take it from BEYOND"
    assert [call.did for call in calls_of_sentence(home, sentence, "en")] == [BEYOND[sentence][0]]


# The matcher before a model

NEITHER = {  # in other languages: not, later, and something else as well
    "de": "schalte Bed Light nicht ein|schalte Bed Light in zehn Minuten ein|schalte Bed Light ein und Kitchen Lights aus",
    "fr": "n'allume pas Bed Light|allume Bed Light dans dix minutes|allume Bed Light et éteins Kitchen Lights",
    "es": "no enciendas Bed Light|enciende Bed Light en diez minutos|enciende Bed Light y apaga Kitchen Lights",
    "it": "non accendere Bed Light|accendi Bed Light tra dieci minuti|accendi Bed Light e spegni Kitchen Lights",
    "nl": "zet Bed Light niet aan|zet Bed Light over tien minuten aan|zet Bed Light aan en Kitchen Lights uit",
    "pl": "nie włączaj Bed Light|włącz Bed Light za dziesięć minut|włącz Bed Light i wyłącz Kitchen Lights",
    "ru": "не включай Bed Light|включи Bed Light через десять минут|включи Bed Light и выключи Kitchen Lights",
    "sv": "tänd inte Bed Light|tänd Bed Light om tio minuter|tänd Bed Light och släck Kitchen Lights",
    "pt": "não ligues Bed Light|liga Bed Light daqui a dez minutos|liga Bed Light e desliga Kitchen Lights",
}


@pytest.fixture(scope="module")
def small(home):
    """Twelve of its entities."""
    kept = (
        "cover.garage_door cover.hall_window cover.kitchen_window fan.ceiling_fan fan.living_room_fan light.bed_light "
        "light.ceiling_lights light.entrance_color_white_lights light.kitchen_lights light.living_room_rgbww_lights "
        "switch.ac switch.decorative_lights"
    ).split()
    return remove_devices(home, home.plan.devices_by_did.keys() - set(kept))


def test_of_what_people_say_the_matcher_takes_what_it_knows_and_nothing_wrongly(small):
    """`people.tsv` has the entities that a person means, or - where a matcher cannot know, and the sentence."""
    said = [line.split("\t") for line in (FOLDER.parent / "people.tsv").read_text().splitlines()]
    took = {text: {call.did for call in match_certain_calls(small, text, "en")} for _, text in said}
    wrong = {text: found for wanted, text in said if (found := took[text]) and found != set(wanted.split())}
    assert not wrong
    assert sum(bool(found) for found in took.values()) == 33 and len(said) == 129


@pytest.mark.parametrize("language", ["de", *(pytest.param(one, marks=pytest.mark.long) for one in [*NEITHER][1:])])
def test_it_takes_no_sentence_that_says_more_in_any_language(small, language):
    assert not [said for said in NEITHER[language].split("|") if match_certain_calls(small, said, language)]
