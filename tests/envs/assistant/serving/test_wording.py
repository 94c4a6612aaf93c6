"""Which names tell of a door or of what burns, however they are written."""

from __future__ import annotations

import pytest

from homerl.envs.assistant.serving.consent import GUARD_WORDS, has_guard_word
from homerl.envs.core.documents import read_yaml

TELLING = {
    "fi": "Etuovi|Autotalli|Uuni|Liesi",
    "hu": "Garázskapu|Tűzhely|Bejárati ajtó|Riasztó",
    "cs": "Varná deska|varna deska|Trouba|Garážová vrata|Zámek|Branka|Přímotop|Uzávěr plynu",
    "uk": "Двері|Духовка|dukhovka|Кран газу",
    "en": "Front Door|Water main|Space heater|Gas shutoff|Induction hob|frontdoor|FrontDoor|front_door_1|door2|"
    "Doorlock|SmartLock|GateLock|sidegate|gateopener|unlocker|"
    "Stovetop|Cooktop|Gas fireplace|Gas range|hob|MyOven|Kettle|Smoke siren|Safe|"
    "Radiator|Deep fryer|BBQ|Furnace",
    "de": "Hauptwasserhahn|Heizlüfter Bad|Heizluefter|Einbruchmeldeanlage|Haustür|Haustuer|Haustur|HAUSTÜR|"
    "Haustu\u0308r|Haustürschloss|Haustuerschloss|Eingangstür|Wohnungstürrelais|"
    "WCTür|Saunatür|Saunatuer|tur|Tür1|Türöffner|Tueroeffner|Turoffner|Schloß|Türschloß|Garagentor|Gartentor 2|Hoftor|"
    "Hoftore|Tormotor|Einfahrtstor|Kochfeld|Werktor|Parktor|Elektrotor|Herdplatte|Elektroherd|Kaminofen|Wasserkocher|"
    "Wohnungstueren|Heizung Bad|Schranke|Haupthahn|Durchlauferhitzer|Ceranfeld",
    "fr": "Four|Poêle à granulés|Arrivée d'eau|Vanne gaz|Porte d'entrée|Porte d’entree|PORTAIL|Gâche|gache électrique|"
    "Serrure|Cuisinière|cuisiniere",
    "es": "Vitro|Llave de paso|Calefactor baño|Puerta principal|Portón|porton|Cerradura|Vitroceramica",
    "it": "Valvola gas|Stufetta bagno|Serratura|Portone|Piano cottura|Cancello",
    "nl": "Kachel schuur|Inductieplaat|Gashaard|Voordeur|Deurslot|Tuinpoort|Achterdeuren",
    "pl": "Zawór gazu|Elektrozaczep|Grzejnik elektryczny|Drzwi wejściowe|Brama|Garaż|garaz|Zamek",
    "pt": "Trinco elétrico|Válvula do gás|Aquecedor|Portão|portao da garagem|Fechadura|Fogão|fogao",
    "ru": "Духовка|Dukhovka|Duhovka|Варочная панель|Обогреватель|Газовый клапан|Дверь|Входная дверь|Ворота|Калитка|"
    "Замок|Гараж",
    "sv": "Braskamin|Vattenavstängning|Ytterdörr|ytterdorr|Lås|laas|Dörrlås|dorrlas|Garageport",
    "da": "Dør|Hoveddør|hoveddor",
    "tr": "Kapı|KAPI|kapi|Kapı kilidi|Fırın|FIRIN",
    "zh": "总水阀|取暖器|门锁|车库门|車庫門|道闸",
    "ro": "Cuptor|Bariera|Incalzire",
}
ELSE = {
    "en": "Clocks|Alarm clock|Sunblock|Blocker|Locker room|Porter|Portable|Portal|Port 3|Passport|Gateway|"
    "ZigbeeGateway|Navigate|Outdoor plug|Indoor|Corridor|Doorbell|Douglas|Villas|Hall|Orange|"
    "Range extender|Hobby|Beethoven|Monitor|"
    "Doctor|Generator|Four lamps|Relay Four|Gazebo|Restore|Turntable|Turbo|Timeslot|Shepherd",
    "de": "Türkis|Tuerkis|Turkis|Schlossallee|Schloßallee|Gastraum|Gästezimmer|Deckenventilator|Temperatur|Tastatur|"
    "Armatur|Kultur|Natur|Natürlich|"
    "Motor|Elektromotor|Rotor|Projektor|Aktor|Viktor|Ventilator|Turm|Torte|Torsten|Wörishofen|Türklingel",
    "fr": "Stores salon|Profondeur|Lampe four",
    "es": "Las luces",
    "it": "Ventilatore|Umidificatore|Lettore|Interruttore",
    "ru": "воротник|плитка|Поворот",
    "zh": "门厅插座",
}


def listed(names: dict[str, str]) -> list[str]:
    return [name for texts in names.values() for name in texts.split("|")]


@pytest.mark.parametrize("name", listed(TELLING))
def test_a_name_of_a_door_or_of_what_burns_is_one_however_it_is_written(name: str) -> None:
    assert has_guard_word([name], "acts", "places", "flows")


def test_a_listed_word_that_stands_alone_tells_whatever_it_contains() -> None:
    words = ((group, word) for group, told in read_yaml(GUARD_WORDS).data.items() for many in told.values() for word in many)
    alone = [(group, word.strip("=")) for group, word in words if group != "harmless" and word.strip("-") == word]
    assert not [word for group, word in alone if not has_guard_word([word], group)]


@pytest.mark.parametrize("name", listed(ELSE))
def test_letters_within_a_word_of_another_meaning_tell_nothing(name: str) -> None:
    assert not has_guard_word([name], "acts", "places", "flows")
