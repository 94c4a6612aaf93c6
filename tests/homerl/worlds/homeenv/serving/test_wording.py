"""Which names tell of a door or of what burns, however they are written."""

from __future__ import annotations

import pytest

from homerl.worlds.homeenv.serving.wording import tells

TELLING = {
    "en": "Front Door|frontdoor|FrontDoor|front_door_1|door2|Doorlock|SmartLock|GateLock|sidegate|gateopener|unlocker|"
    "Stovetop|Cooktop|Gas fireplace|Gas range|hob|MyOven|Kettle|Smoke siren|Safe",
    "de": "Haustür|Haustuer|Haustur|HAUSTÜR|Haustu\u0308r|Haustürschloss|Haustuerschloss|Eingangstür|Wohnungstürrelais|"
    "WCTür|Saunatür|Saunatuer|tur|Tür1|Türöffner|Tueroeffner|Turoffner|Schloß|Türschloß|Garagentor|Gartentor 2|Hoftor|"
    "Hoftore|Tormotor|Einfahrtstor|Kochfeld|Werktor|Parktor|Elektrotor|Herdplatte|Elektroherd|Kaminofen|Wasserkocher|Wohnungstueren",
    "fr": "Porte d'entrée|Porte d’entree|PORTAIL|Gâche|gache électrique|Serrure|Cuisinière|cuisiniere",
    "es": "Puerta principal|Portón|porton|Cerradura|Vitroceramica",
    "it": "Serratura|Portone|Piano cottura|Cancello",
    "nl": "Voordeur|Deurslot|Tuinpoort|Achterdeuren",
    "pl": "Drzwi wejściowe|Brama|Garaż|garaz|Zamek",
    "pt": "Portão|portao da garagem|Fechadura|Fogão|fogao",
    "ru": "Дверь|Входная дверь|Ворота|Калитка|Замок|Гараж",
    "sv": "Ytterdörr|ytterdorr|Lås|laas|Dörrlås|dorrlas|Garageport",
    "da": "Dør|Hoveddør|hoveddor",
    "tr": "Kapı|KAPI|kapi|Kapı kilidi|Fırın|FIRIN",
    "zh": "门锁|车库门|車庫門",
}
ELSE = {
    "en": "Clocks|Alarm clock|Sunblock|Blocker|Locker room|Porter|Portable|Portal|Port 3|Passport|Gateway|"
    "ZigbeeGateway|Navigate|Outdoor plug|Indoor|Corridor|Doorbell|Douglas|Villas|Hall|Orange|"
    "Range extender|Hobby|Beethoven|Monitor|"
    "Doctor|Generator|Restore|Turntable|Turbo|Timeslot|Shepherd",
    "de": "Türkis|Tuerkis|Turkis|Schlossallee|Schloßallee|Temperatur|Tastatur|Armatur|Kultur|Natur|Natürlich|"
    "Motor|Elektromotor|Rotor|Projektor|Aktor|Viktor|Ventilator|Turm|Torte|Torsten|Wörishofen|Türklingel",
    "fr": "Stores salon|Profondeur|Lampe four",
    "es": "Las luces",
    "ru": "воротник|плитка|Поворот",
    "zh": "门厅插座",
}


def listed(names: dict[str, str]) -> list[str]:
    return [name for texts in names.values() for name in texts.split("|")]


@pytest.mark.parametrize("name", listed(TELLING))
def test_a_name_of_a_door_or_of_what_burns_is_one_however_it_is_written(name: str) -> None:
    assert tells([name], "acts", "places")


@pytest.mark.parametrize("name", listed(ELSE))
def test_letters_within_a_word_of_another_meaning_tell_nothing(name: str) -> None:
    assert not tells([name], "acts", "places")
