"""Whether the words of a person mean what an agent calls, in the languages of `meant.yaml`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from serving import Says, call_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.serving.call_effects import find_moved_dids, is_already_so, list_groups
from homerl.envs.assistant.serving.caretaker import CaretakerSettings
from homerl.envs.assistant.serving.home_words import HomeWords
from homerl.envs.assistant.serving.kind_words import kind_words
from homerl.envs.assistant.serving.live_situation import TwinCall, place_speaker
from homerl.envs.assistant.serving.meant_devices import find_unclear_devices
from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import Storey

SENTENCES: Mapping[str, Any] = read_yaml(Path(__file__).with_name("meant.yaml")).data
HEAT = {"hvac_modes": ["off", "heat"], "min_temp": 7, "max_temp": 35, "temperature": 20, "supported_features": 1}
HUMID = {"min_humidity": 30, "max_humidity": 80, "humidity": 50}
BLIND, SHUTTER, CURTAIN = ({"device_class": one, "supported_features": 3} for one in ("blind", "shutter", "curtain"))
Rows = list[tuple[str, str, str, str, dict[str, Any]]]  # id, name, area, state, attributes
HOMES: dict[str, tuple[dict[str, str], Rows]] = {
    "en": (
        {"kitchen": "Kitchen", "living": "Living Room", "bedroom": "Bedroom", "office": "Office", "hall": "Hallway"},
        [
            ("light.kitchen_light", "Kitchen Light", "kitchen", "off", {}),
            ("light.desk_lamp", "Desk Lamp", "office", "off", {}),
            ("light.living_ceiling", "Living Room Ceiling", "living", "off", {}),
            ("light.reading_lamp", "Reading Lamp", "living", "off", {}),
            ("light.bed_light", "Bed Light", "bedroom", "off", {}),
            ("light.hall_light", "Hall Light", "hall", "on", {}),
            ("switch.coffee", "Coffee Machine", "kitchen", "off", {}),
            ("switch.office_plug", "Plug", "office", "off", {}),
            ("cover.kitchen_blind", "Kitchen Blind", "kitchen", "open", BLIND),
            ("cover.bedroom_blind", "Bedroom Blind", "bedroom", "open", BLIND),
            ("climate.thermostat", "Thermostat", "hall", "heat", HEAT),
            ("humidifier.humidifier", "Humidifier", "bedroom", "off", HUMID),
            ("media_player.telly", "TV", "living", "off", {"supported_features": 128 | 256}),
            ("fan.fan", "Fan", "bedroom", "off", {"supported_features": 48}),
        ],
    ),
    "de": (
        {"kueche": "Küche", "schlaf": "Schlafzimmer", "buero": "Büro"},
        [
            ("light.kuechenlicht", "Deckenlicht", "kueche", "off", {}),
            ("light.schreibtisch", "Schreibtischlampe", "buero", "off", {}),
            ("light.bett", "Bettlampe", "schlaf", "off", {}),
            ("cover.rollo_kueche", "Rollo", "kueche", "open", BLIND),
            ("cover.rollo_schlafzimmer", "Rollo", "schlaf", "open", BLIND),
            ("climate.heizung", "Heizung", "schlaf", "heat", HEAT),
        ],
    ),
    "fr": (
        {"cuisine": "Cuisine", "bureau": "Bureau", "chambre": "Chambre"},
        [
            ("light.cuisine", "Plafonnier", "cuisine", "off", {}),
            ("light.bureau", "Lampe de bureau", "bureau", "off", {}),
            ("light.chevet", "Lampe de chevet", "chambre", "off", {}),
            ("cover.volet_cuisine", "Volet", "cuisine", "open", SHUTTER),
            ("cover.volet_chambre", "Volet", "chambre", "open", SHUTTER),
            ("climate.chauffage", "Chauffage", "chambre", "heat", HEAT),
        ],
    ),
    "es": (
        {"cocina": "Cocina", "estudio": "Estudio", "dormitorio": "Dormitorio"},
        [
            ("light.cocina", "Luz", "cocina", "off", {}),
            ("light.escritorio", "Lámpara del escritorio", "estudio", "off", {}),
            ("cover.persiana_cocina", "Persiana", "cocina", "open", BLIND),
            ("cover.persiana_dormitorio", "Persiana", "dormitorio", "open", BLIND),
            ("climate.calefaccion", "Calefacción", "dormitorio", "heat", HEAT),
        ],
    ),
    "nl": (
        {"keuken": "Keuken", "werk": "Werkkamer", "slaap": "Slaapkamer"},
        [
            ("light.keuken", "Plafondlamp", "keuken", "off", {}),
            ("light.bureaulamp", "Bureaulamp", "werk", "off", {}),
            ("cover.gordijn_keuken", "Gordijn", "keuken", "open", CURTAIN),
            ("cover.gordijn_slaapkamer", "Gordijn", "slaap", "open", CURTAIN),
        ],
    ),
    "it": (
        {"cucina": "Cucina", "studio": "Studio", "camera": "Camera"},
        [
            ("light.cucina", "Lampadario", "cucina", "off", {}),
            ("light.scrivania", "Lampada della scrivania", "studio", "off", {}),
            ("cover.tapparella_cucina", "Tapparella", "cucina", "open", SHUTTER),
            ("cover.tapparella_camera", "Tapparella", "camera", "open", SHUTTER),
        ],
    ),
    "zh": (
        {"chufang": "厨房", "shufang": "书房", "woshi": "卧室"},
        [
            ("light.chufang", "吸顶灯", "chufang", "off", {}),
            ("light.taideng", "台灯", "shufang", "off", {}),
            ("cover.chufang_lian", "窗帘", "chufang", "open", CURTAIN),
            ("cover.woshi_lian", "窗帘", "woshi", "open", CURTAIN),
            ("climate.kongtiao", "空调", "woshi", "heat", HEAT),
        ],
    ),
}  # fmt: skip


@cache
def home_in(language: str) -> Home:
    areas, rows = HOMES[language]
    states = [
        {"entity_id": id, "state": state, "attributes": {"friendly_name": name, **attributes}}
        for id, name, _, state, attributes in rows
    ]
    entries = [{"entity_id": id, "area_id": area, "aliases": []} for id, _, area, *_ in rows]
    named = [{"area_id": id, "name": name} for id, name in areas.items()]
    with TemporaryDirectory() as folder:
        for stem, data in (("states", states), ("entity_registry", entries), ("area_registry", named)):
            (Path(folder) / f"{stem}.json").write_text(json.dumps(data), encoding="utf-8")
        return import_home(load_listing(Path(folder)), everything=True).home


def calls_in(home: Home, wanted: Mapping[str, Any]) -> list[TwinCall]:
    """What the model called for a sentence; of several services the devices have one each."""
    names, services = wanted["call"].split(), wanted.get("service", "turn_on").split()
    ids = {did.partition(".")[2]: did for did in home.plan.devices_by_did}
    return [
        TwinCall(ids[name], services[min(at, len(services) - 1)], wanted.get("with", {})) for at, name in enumerate(names)
    ]


def is_unclear(language: str, wanted: Mapping[str, Any]) -> bool:
    home = place_speaker(home_in(language), HOMES[language][0].get(wanted.get("here", "")))
    for call in calls_in(home, wanted):
        home.fork().call(call.did, call.service, (), dict(call.arguments))  # the twin would take it
    return bool(
        find_unclear_devices(home, calls_in(home, wanted), wanted["say"], wanted.get("before", ""), (language, "en"), {})
    )


# how many of the right calls are held back, and how many of the wrong ones are not; none in the other languages
RIGHT, WRONG = {"en": 3}, {"en": 6}


@pytest.mark.parametrize("language", SENTENCES)
def test_wrong_calls_are_held_back_and_right_ones_are_not(language: str) -> None:
    right, wrong = (SENTENCES[language][kind] for kind in ("right", "wrong"))
    held = [one["say"] for one in right if is_unclear(language, one)]
    assert len(held) <= RIGHT.get(language, 0), held
    passed = [one["say"] for one in wrong if not is_unclear(language, one)]
    assert len(passed) <= WRONG.get(language, 0), passed


def test_of_a_language_without_sentences_nothing_is_known() -> None:
    home, joke = home_in("en"), SENTENCES["en"]["wrong"][0]
    assert not kind_words("tlh").known
    assert not find_unclear_devices(home, calls_in(home, joke), joke["say"], "", ("tlh", "en"), {})
    assert find_unclear_devices(home, calls_in(home, joke), joke["say"], "", ("en", "tlh"), {})


def test_a_translation_names_a_kind_too() -> None:
    home, wanted = home_in("en"), {"say": "Leuchtmittel an", "call": "kitchen_light"}
    texts = {"component.light.title": "Leuchtmittel"}
    assert find_unclear_devices(home, calls_in(home, wanted), wanted["say"], "", ("en",), {})
    assert not find_unclear_devices(home, calls_in(home, wanted), wanted["say"], "", ("en",), texts)


def test_a_floor_names_the_rooms_on_it() -> None:
    home = home_in("en").fork()
    assert home.plan.origin is not None
    wanted = {"say": "turn everything on upstairs", "call": "bed_light desk_lamp"}
    assert find_unclear_devices(home, calls_in(home, wanted), wanted["say"], "", ("en",), {})
    upstairs = Storey(id="upper", name="Upstairs", rooms=("bedroom", "office"))
    home.plan = replace(home.plan, origin=home.plan.origin.model_copy(update={"storeys": (upstairs,)}))
    assert not find_unclear_devices(home, calls_in(home, wanted), wanted["say"], "", ("en",), {})
    below = {**wanted, "call": "bed_light kitchen_light"}
    assert find_unclear_devices(home, calls_in(home, below), below["say"], "", ("en",), {}) == ("light.kitchen_light",)


def test_words_for_everywhere_and_of_talk_name_no_kind() -> None:
    for language, words in {"en": "everywhere house whole home", "fr": "partout maison", "it": "casa ovunque"}.items():
        named = frozenset[str]().union(*kind_words(language).by_domain.values())
        assert named and not named & {*words.split()}


ON = call_of("light.kitchen_light", "turn_on")


def test_what_the_words_may_not_mean_is_asked_before_it_is_done(tmp_path: Path) -> None:
    assert CaretakerSettings("act", "assist", "en").ask_unclear
    served = serve_home(home_in("en"), Says(ON, "Sure!"), tmp_path, ask_unclear=True)
    assert served.say("tell me a joke") == "I would do this: Kitchen Light: state from off to on. Shall I do it?"
    (entry,) = served.journal.read_entries()
    assert not served.real.made and entry.unclear == ("light.kitchen_light",) and entry.outcome == "asked"
    assert served.say("yes") == "Done." and [one.did for one in served.real.made] == ["light.kitchen_light"]


def test_what_the_words_mean_is_done_at_once_and_so_is_all_if_the_owner_says_so(tmp_path: Path) -> None:
    served = serve_home(home_in("en"), Says(ON, "It is on."), tmp_path, ask_unclear=True)
    assert served.say("kitchen light") == "It is on." and served.real.made
    served = serve_home(home_in("en"), Says(ON, "It is on."), tmp_path)
    assert served.say("tell me a joke") == "It is on." and served.real.made


def test_the_home_s_own_language_counts(tmp_path: Path) -> None:
    home = home_in("de")
    on = call_of("light.bett", "turn_on")
    served = serve_home(home, Says(on, "Ist an.", on, "Ist an."), tmp_path, ask_unclear=True)
    served.real.spoken, served.real.words = "de", HomeWords("de")
    assert served.say("erzähl mir einen Witz").endswith("Soll ich?") and not served.real.made
    served.say("die Lampe am Bett")
    assert [one.did for one in served.real.made] == ["light.bett"]


def test_a_call_that_nothing_names_and_that_changes_nothing_is_dropped(tmp_path: Path) -> None:
    again = call_of("light.hall_light", "turn_on")
    served = serve_home(home_in("en"), Says(again, "Done.", again, ON, "Sure."), tmp_path, ask_unclear=True)
    assert served.say("thank you so much") == "I switched nothing just now."
    (entry,) = served.journal.read_entries()
    assert not served.real.made and not entry.calls and entry.outcome == "said" and entry.unclear == ("light.hall_light",)
    assert served.say("tell me a joke") == "I would do this: Kitchen Light: state from off to on. Shall I do it?"


def test_what_is_named_is_called_though_it_is_so_already(tmp_path: Path) -> None:
    served = serve_home(home_in("en"), Says(call_of("light.hall_light", "turn_on"), "It is on."), tmp_path, ask_unclear=True)
    assert served.say("hall light") == "It is on." and [one.did for one in served.real.made] == ["light.hall_light"]


def test_a_value_with_a_dot_is_told_as_it_is() -> None:
    words = HomeWords("de")
    assert words.name_of_value(None, "mode", "on") == "an" and words.name_of_value(None, "mode", "auto.on") == "auto.on"


def test_what_a_call_before_has_changed_is_not_so_already(tmp_path: Path) -> None:
    """A group drives its members in the real home alone, and a script may drive anything."""
    home = written_home(
        tmp_path,
        Row("light.hall", "Hall", state="on"),
        Row("light.desk", "Desk", state="on"),
        Row("light.both", "Both", state="on", members=["light.hall", "light.desk"]),
        Row("script.night", "Night"),
    )
    on, off = TwinCall("light.hall", "turn_on", {}), TwinCall("light.hall", "turn_off", {})
    desk, both = TwinCall("light.desk", "turn_on", {}), TwinCall("light.both", "turn_off", {})
    night = TwinCall("script.night", "turn_on", {})
    groups = list_groups(home)
    assert find_moved_dids(home, [on, desk], groups) == set()
    assert find_moved_dids(home, [on, off, on], groups) == {"light.hall"}
    assert find_moved_dids(home, [both, desk], groups) == {"light.both", "light.desk"}
    assert find_moved_dids(home, [night, desk], groups) == {"script.night", "light.desk"}


@pytest.mark.parametrize(
    ("did", "service", "arguments", "so"),
    [
        ("light.hall_light", "turn_on", {}, True),
        ("light.hall_light", "turn_off", {}, False),
        ("climate.thermostat", "set_temperature", {"temperature": 20}, True),
        ("climate.thermostat", "set_temperature", {"temperature": 22}, False),
        ("light.hall_light", "turn_on", {"flash": "short"}, False),  # of which the twin shows nothing
    ],
)
def test_a_device_is_so_already_if_it_shows_all_that_a_call_says(
    did: str, service: str, arguments: dict[str, Any], so: bool
) -> None:
    assert is_already_so(home_in("en"), TwinCall(did, service, arguments)) is so


@pytest.mark.parametrize(
    ("said", "called", "unclear"),
    [
        ("turn on the spotlight", "pendant", True),
        ("turn on whatever light is off", "pendant", False),  # "light" is what both are, and in the name of one
        ("turn on whatever light is off in the bath and the loft bedroom", "bath", False),
        ("turn on the light in the loft bedroom", "bath", True),
        ("turn on the light in the loft bedroom", "bedroom", True),  # which "bedroom" names, and "loft" does not
        ("turn on the light in the bedroom", "bedroom", False),
    ],
)
def test_another_device_is_meant_if_the_words_name_all_of_the_one_that_is_called_and_more(
    tmp_path: Path, said: str, called: str, unclear: bool
) -> None:
    rows = {"spot": "Spotlight", "pendant": "Pendant", "bath": "Mirror", "loft": "Sconce", "bedroom": "Globe"}
    areas = {"bath": "Bath", "loft": "Loft Bedroom", "bedroom": "Bedroom"}
    lights = (Row(f"light.{id}", name, id if id in areas else None) for id, name in rows.items())
    home = written_home(tmp_path, *lights, areas=areas)
    call = TwinCall(f"light.{called}", "turn_on", {})
    assert bool(find_unclear_devices(home, [call], said, "", ("en",), {})) is unclear
