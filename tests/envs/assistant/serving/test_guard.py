"""Which devices are guarded, by their names, by what they drive and by what automations may do; and which words name one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from serving import Says, call_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.home_import import ImportedHome, build_import_report, import_home
from homerl.envs.assistant.listing.guard_words import GUARD_WORDS, GUARDED, has_guard_word
from homerl.envs.assistant.listing.home_listing import AUTOMATIONS, DEVICES, ENTRIES, EXPOSED
from homerl.envs.assistant.listing.homeassistant_mapping import refresh_home
from homerl.envs.assistant.listing.listing_files import load_listing
from homerl.envs.assistant.listing.room_and_device_names import is_device_named
from homerl.envs.assistant.serving.call_effects import Effects, LaterEffects
from homerl.envs.assistant.serving.consent import Guard, is_guarded
from homerl.envs.assistant.serving.live_situation import LiveBlueprint, LiveSituation, TwinCall
from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, save_home

AREAS = {"garage": "Garage", "hall": "Hall", "kitchen": "Kitchen", "bedroom": "Bedroom"}


def guarded(home: Home) -> set[str]:
    return {device.did for device in home.plan.devices if is_guarded(home, device.did)}


@pytest.mark.parametrize(
    "row",
    [
        Row("script.unlock_front", "Unlock the front door"),
        Row("script.good_night", "Good night"),  # nobody knows what it does
        Row("scene.arrival", "Arrival", members=["lock.front_door", "cover.garage_door"]),
        Row("automation.trigger", "Welcome", state="on"),
        Row("button.relay", "Relay"),
        Row("input_button.relay", "Relay"),
        Row("group.everything", "Everything"),
        Row("switch.relay_1", "Front door opener"),
        Row("switch.relay_2", "Intercom unlock"),
        Row("switch.relay_3", "Disarm"),
        Row("switch.relay_4", "Relay", "garage"),  # its room tells
        Row("switch.relay_5", "Relay", aliases=["Gate"]),
        Row("switch.relay_6", "Türöffner"),
        Row("switch.relay_7", "Portail"),
        Row("switch.relay_8", "车库门"),
        Row("switch.relay_9", "Unlocking relay"),
        Row("switch.relay_11", "Wohnungstür"),
        Row("switch.relay_12", "Relais Kellertu\u0308ren"),
        Row("switch.relay_13", "Tuindeur"),
        Row("switch.relay_14", "Haustuer"),
        Row("switch.haustur", "Relais"),  # an id has no umlauts
        Row("cover.shelly_1242", "Portao", state="closed", device_class="shutter"),
        Row("light.relay", "Stovetop"),
        Row("siren.hall", "Hall"),
        Row("cover.shelly_1241", "Gartentor", state="closed", device_class="shutter"),
        Row("remote.radio", "Radio", state="on"),  # it may have learned what opens the garage
        Row("light.opener", "Opener"),  # an act in a name counts for every kind
        Row("cover.shelly_1234", "Einfahrtstor", state="closed"),
        Row("cover.shelly_1235", "Portail", state="closed"),
        Row("cover.shelly_1236", "Garage Door", "garage", state="closed"),
        Row("cover.shelly_1237", "Cover", state="closed", device_class="window"),
        Row("cover.shelly_1238", "Garage Door", "garage", state="closed", device_class="shutter"),
        Row("cover.shelly_1239", "Garagentor", state="closed", device_class="shutter"),
        Row("cover.shelly_1240", "Cover", state="closed", device_class="curtain", aliases=["Gate"]),
        Row("cover.front_gate", "Cover", state="closed", device_class="blind"),
        Row("light.all", "Everything", members=["light.hall", "lock.front_door"]),
        Row("switch.all", "Everything", members=["switch.inner"]),
        Row("media_player.oven", "Oven"),
        Row("switch.entry", "Entry", members=["switch.turoffner"]),  # ids have no accents
        Row("switch.porton", "Relay"),
        Row("switch.relay_10", "Haustu\u0308r"),  # the same letter in two signs
    ],
    ids=lambda row: f"{row.entity_id} {row.name}",
)
def test_what_may_open_the_home_is_guarded(row: Row, tmp_path: Path) -> None:
    inner = Row("switch.inner", "Inner", members=["switch.all", "lock.front_door"])  # groups that hold each other
    assert row.entity_id in guarded(written_home(tmp_path, row, inner, areas=AREAS))


@pytest.mark.parametrize(
    "row",
    [
        Row("light.garage", "Garage Light", "garage"),
        Row("light.turkis", "Türkis"),
        Row("light.avenue", "Schlossallee"),
        Row("cover.store", "Stores", state="closed", device_class="blind"),
        Row("light.door", "Front Door Light", "hall"),
        Row("light.all", "All", members=["light.hall", "light.kitchen"]),
        Row("cover.blind", "Blind", "garage", state="closed", device_class="shade"),
        Row("switch.gateway", "Gateway"),
        Row("switch.clock", "Clock"),
        Row("switch.temperatur", "Motor Temperatur"),
        Row("media_player.hall", "Speaker", "hall"),
        Row("switch.hall", "门厅插座"),
        Row("binary_sensor.front_door", "Front Door"),  # nothing can be done with it
    ],
    ids=lambda row: f"{row.entity_id} {row.name}",
)
def test_what_is_known_to_be_harmless_is_not(row: Row, tmp_path: Path) -> None:
    assert not guarded(written_home(tmp_path, row, areas=AREAS))


def test_what_a_call_changes_elsewhere_needs_consent_too(tmp_path: Path) -> None:
    home = written_home(tmp_path, Row("light.hall", "Lamp"), Row("lock.front_door", "Front Door", state="locked"))
    lamp, later = ("light.hall",), LaterEffects(actions=(TwinCall("lock.front_door", "unlock", {}),))
    assert not Guard().needs_consent(home, Effects(lamp), "light please")
    assert Guard().needs_consent(home, Effects(lamp, later=later), "light please") == {"lock.front_door": "guarded"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with names that share words."""
    return written_home(
        tmp_path_factory.mktemp("home"),
        Row("lock.front_door", "Front Door", "hall", "locked", aliases=["Main Entrance"]),
        Row("cover.garage_door", "Garage Door", "garage", "closed", device_class="garage"),
        Row("lock.kitchen", "Terrace", "kitchen", "locked"),
        Row("lock.bedroom", "Balcony Lock", "bedroom", "locked"),
        Row("lock.hall", "Balcony Lock", "hall", "locked"),
        Row("light.door", "Front Door Light", "hall"),
        Row("binary_sensor.front_door", "Front Door", "kitchen"),
        Row("lock.front_zh", "前门锁", "hall", "locked"),
        Row("lock.bedroom_zh", "门锁", "bedroom", "locked"),
        Row("light.front_zh", "前门锁灯", "hall"),
        Row("binary_sensor.bedroom_zh", "门锁", "bedroom"),  # so the lock is called 门锁 2 here
        Row("binary_sensor.kitchen", "Terrace", "kitchen"),
        Row("binary_sensor.garage_door", "Garage Door", "garage"),
        Row("lock.hindi", "दरवाज़ा", "kitchen", "locked"),  # door
        Row("sensor.front_door_battery", "Front Door Battery", "hall", "80"),
        Row("sensor.front_zh_battery", "前门锁电量", "hall", "80"),
        areas=AREAS | {"bedroom": "卧室"},
    )


@pytest.mark.parametrize(
    ("said", "did"),
    [
        ("unlock the front door", "lock.front_door"),
        ("Please unlock the FRONT-DOOR!", "lock.front_door"),
        ("open the main entrance", "lock.front_door"),
        ("front door light on, front door unlocked", "lock.front_door"),
        ("unlock the front door, its front door battery is low", "lock.front_door"),
        ("open the garage door", "cover.garage_door"),
        ("unlock the kitchen terrace", "lock.kitchen"),
        ("unlock the hall balcony lock", "lock.hall"),
        ("open the garage door in the garage", "cover.garage_door"),
        ("kitchen दरवाज़ा खोलो", "lock.hindi"),
        ("打开前门锁", "lock.front_zh"),
        ("把前门的锁打开", "lock.front_zh"),
        ("打开卧室的门锁", "lock.bedroom_zh"),
    ],
)
def test_a_whole_name_names_a_device(home: Home, said: str, did: str) -> None:
    assert is_device_named(said, home, home.plan.devices_by_did[did])


@pytest.mark.parametrize(
    "said",
    [
        "play The Doors",
        "lock the back door",
        "is the bedroom door closed?",
        "move to the front of the playlist",
        "turn on the front door light",
        "front door light front door light",
        "how full is the front door battery?",  # of a sensor
        "前门锁电量是多少",
        "is the front of the door red?",
        "put the main course on the list",
        "is somebody in the garage?",
        "go to the terrace",  # of one word, without its room
        "lock the balcony lock",  # of two devices
        "打开前门锁灯",
        "दरवाज़ा खोलो",  # of one word, whose vowels are marks
        "关上书房的门锁",  # what many locks are called
        "打开前门",
        "",
    ],
)
def test_words_that_are_shared_name_nothing(home: Home, said: str) -> None:
    doors = [one for one in home.plan.devices if one.spec.category in ("lock", "cover")]
    named = [one.did for one in doors if is_device_named(said, home, one)]
    assert not named


def test_a_group_that_was_not_there_at_the_import_is_guarded_for_good(serve, tmp_path: Path) -> None:
    """What it holds is nowhere in the twin, also once it is there."""
    home = written_home(tmp_path, Row("switch.all", "All", state="unavailable"), Row("light.hall", "Lamp"))
    served = serve("act", call_of("switch.all", "turn_on"), "Here.", call_of("light.hall", "turn_on"), "There.", of=home)
    shown = [{"entity_id": "switch.all", "state": "off", "attributes": {"entity_id": ["switch.garage_door"]}}]
    served.real.home = refresh_home(home, shown)
    assert "consent" in served.say("all of it please") and not served.real.made
    assert served.say("the lamp please") == "What I asked about before is not done. There."


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
    "ja": "玄関の鍵|スマートロック|玄関ドア|ガレージ|ガス栓|給湯器|オーブン|防犯アラーム|電動ゲート|石油ストーブ",
    "ko": "현관 도어락|현관문|가스밸브|보일러|오븐|차고 문|보안 경보|전기히터|대문",
    "el": "Κλειδαριά εισόδου|Εξώπορτα|Γκαράζ|Συναγερμός|Θερμοσίφωνας|Φούρνος|Κεντρική πόρτα|Ηλεκτρική σόμπα|Κλείδωμα",
    "bg": "Входна врата|Ключалка|Гараж|Аларма|Бойлер|Фурна|Газов клапан|Печка",
    "he": "דלת כניסה|מנעול חכם|שער חניה|אזעקה|דוד חשמל|תנור|ברז ראשי|מוסך",
    "ar": "قفل الباب|باب المرآب|البوابة|الإنذار|سخان الماء|الفرن|صمام الغاز|المدفأة",
    "th": "ประตูหน้า|ประตูโรงรถ|กลอนประตู|สัญญาณกันขโมย|เตาอบ|เครื่องทำน้ำอุ่น|วาล์วแก๊ส|ล็อคบ้าน",
    "vi": "Khóa cửa chính|Cửa cuốn|Cổng|Báo động|Bình nóng lạnh|Lò nướng|Van gas|Gara|Bếp từ",
    "id": "Kunci pintu|Pintu depan|Gerbang|Garasi|Alarm rumah|Pemanas air|Kompor|Katup gas|Oven",
    "hi": "मुख्य दरवाज़ा|ताला|गेट|गैराज|अलार्म|गीज़र|ओवन|गैस वाल्व|हीटर|सामने का दरवाजा",
    "lt": "Durų spyna|Lauko durys|Garažo vartai|Signalizacija|Orkaitė|Boileris|Dujų vožtuvas|Šildytuvas",
    "et": "Ukselukk|Välisuks|Garaažiuks|Häire|Ahi ja pliit|Boiler|Gaasiventiil|Värav|Soojapuhur|Elektrikeris|"
    "Front strike|Door strike|Up and over|Wood burner|Panic button|"
    "Summer|Tauchsieder|Dachfenster|"
    "Wrota|"
    "Porteiro|"
    "Visiophone|Digicode|"
    "Электрозамок",
    "sk": "Zámok|Garážová brána|Rúra|Ohrievač vody|Vchodové dvere",
    "hr": "Brava|Garažna vrata|Pećnica|Bojler",
    "sl": "Ključavnica|Garažna vrata|Pečica|Grelnik",
    "sr": "Брава|Улазна врата|Гаража|Рерна|Бојлер|Brava",
    "lv": "Durvju slēdzene|Garāžas vārti|Cepeškrāsns|Boileris",
    "ca": "Pany|Porta del garatge|Forn|Escalfador",
    "fa": "قفل در|درب پارکینگ|دزدگیر|آبگرمکن|اجاق گاز",
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
    "ja": "ブロック照明|居間の照明|寝室のカーテン|テレビ|扇風機|目覚まし時計",
    "ko": "거실 조명|침실 커튼|창문 블라인드|선풍기|텔레비전|초인종|전자레인지",
    "el": "Φως σαλονιού|Κουρτίνα|Τηλεόραση|Ανεμιστήρας|Κουζίνα φως|Παράθυρο",
    "bg": "Лампа хол|Щора|Телевизор|Вентилатор|Прозорец|Кухня",
    "he": "אור סלון|וילון|טלוויזיה|מאוורר|חלון|מטבח",
    "ar": "ضوء الصالة|ستارة|تلفاز|مروحة|نافذة|المطبخ",
    "th": "ไฟห้องนั่งเล่น|ม่าน|โทรทัศน์|พัดลม|หน้าต่าง|ห้องครัว",
    "vi": "Đèn phòng khách|Rèm cửa|Tivi|Quạt|Cửa sổ|Bếp|Nhà tắm",
    "id": "Lampu ruang tamu|Tirai|Televisi|Kipas angin|Jendela|Dapur",
    "hi": "बैठक की बत्ती|पर्दा|टीवी|पंखा|खिड़की|रसोई",
    "lt": "Svetainės šviesa|Užuolaida|Televizorius|Ventiliatorius|Langas|Virtuvė",
    "et": "Elutoa valgus|Kardin|Televiisor|Ventilaator|Aken|Köök|"
    "Sommerlicht|Wohnzimmerlampe|Fensterrollo|Summen|"
    "Strikethrough|Valentine light|Rampart",
    "nl": "Lamp van Jan|Gordijn|Raam",
    "fi": "Lukulamppu|Ikkuna|Verho|Näytön asetukset",
    "long": "Actualizar|Sincronizar|Cancelar aviso|Ventilar|Protetor de tela|Công tắc đèn|Tạm dừng nhạc|Kapı zili|Rozšíření|"
    "Filmovi|Ponovi|Obnovit seznam|Отключить пульт|封鎖廣告|按鍵音|リモートアクセス|セットアップ|サイレント|スピードアップ|"
    "Mootor|Safe search|Wide dynamic range|Fridge door light|Piece|Vitres|Villas|Ajtócsengő|Grinder",
}

KINDS = {  # of guarded things, in inflected forms and compounds
    "panic": "Panikknopf Flur|Bouton panique|Botón de pánico|Paniekknop|Paniikkinappi|Panik düğmesi|Кнопка паники|"
    "Тревожная кнопка|緊急按鈕|パニックボタン|패닉 버튼|לחצן מצוקה",
    "locks": "Keller entsperren|Vergrendel schuur|Odblokuj wejście|Odemčeno dole|Uzamknúť zadný vchod|Закључај|Zaključaj|"
    "Lukusta sissepääs|Lukitse takaovi|Cykellås|Sykkellåset|Upplåsning|Blocca|施錠",
    "burns": "Kellererhitzer|Zuheizer|Dampfkessel|Motorvärmare|Grelec spodaj|Θερμαντήρας μπάνιου|מחמם מים|浴室加热器|"
    "Elektrikatel|Veesoojendi|Gőzkazán|Ugnslampa",
    "alarms": "Alarmı kur|Alarmy v domě|Autoalarmid|Алармен панел|Алармни панел|Riasztás be|צופר|Sirénu zapnout|"
    "Sirenu uključi|Försiren|Сирену включить",
    "lets in": "Otwarcie zaworu|Położenie zaworów|Klapi avamine|Vanayı kapat|Valf|Van|Van tổng|遮断弁|βαλβίδων|Tanca|"
    "Havelåge|Brány vzadu|Bramy|Deuren|Ovien aukaisu|Gradinile vrata",
}


def listed(names: dict[str, str]) -> list[str]:
    return [name for texts in names.values() for name in texts.split("|")]


@pytest.mark.parametrize("name", [*listed(TELLING), *listed(KINDS)])
def test_a_name_of_a_door_or_of_what_burns_is_one_however_it_is_written(name: str) -> None:
    assert has_guard_word([name], "acts", "places", "flows")


def test_a_listed_word_that_stands_alone_tells_whatever_it_contains() -> None:
    data = read_yaml(GUARD_WORDS).data
    words = ((group, word) for group in GUARDED for many in data[group].values() for word in many)
    alone = [(group, word.strip("=")) for group, word in words if word.strip("-") == word]
    assert not [word for group, word in alone if not has_guard_word([word], group)]


@pytest.mark.parametrize("name", listed(ELSE))
def test_letters_within_a_word_of_another_meaning_tell_nothing(name: str) -> None:
    assert not has_guard_word([name], "acts", "places", "flows")


UNLOCK = {"action": "lock.unlock", "target": {"entity_id": "lock.front_door"}}
PORCH = {"action": "light.turn_on", "target": {"entity_id": "light.porch"}}
ROWS = (
    Row("light.hall", "Hall Lamp"),
    Row("light.porch", "Porch Lamp"),
    Row("light.all", "All Lamps", members=["light.hall", "light.porch"]),
    Row("switch.x", "Plug"),
    Row("lock.front_door", "Front Door", state="locked"),
    Row("automation.x", "X", state="on"),
    Row("automation.y", "Y", state="on"),
)
SOMETIME = {"for": "{{ range(9) | random }}"}  # which nobody can follow
SEEN = ("light.hall", "light.porch", "light.all", "switch.x")


def on(*entities: str, **more: Any) -> dict[str, Any]:
    return {"trigger": "state", "entity_id": [*entities] if len(entities) > 1 else entities[0], "to": "on"} | more


@pytest.fixture
def brought(tmp_path):
    """A home with automations, each a trigger and an action. Without `exposed` all is imported."""

    def made(
        *automations: tuple[dict[str, Any], dict[str, Any]], exposed: tuple[str, ...] = (), more: tuple[Row, ...] = ()
    ) -> ImportedHome:
        written_home(tmp_path, *ROWS, *more)
        listing = load_listing(tmp_path)
        texts = {
            f"automation.{letter}": {"alias": f"Secret {letter}", "triggers": [trigger], "actions": [action]}
            for letter, (trigger, action) in zip("xy", automations, strict=False)
        }
        known = {"exposed_entities": {name: {"conversation": True} for name in exposed}}
        listing = listing.with_sources({AUTOMATIONS: texts, EXPOSED: known})
        return import_home(listing, everything=not exposed)

    return made


def asks(serve, home: Home, did: str, service: str = "turn_on") -> str:
    """The question before a call in the mode `act`; empty if there is none."""
    served = serve("act", call_of(did, service), "Here you are.", of=home)
    reply = served.say("please")
    assert bool(served.real.made) == reply.startswith("Here you are.")
    return "" if served.real.made else reply


@pytest.mark.parametrize(("read", "called"), [("light.hall", "light.all"), ("light.all", "light.hall")])
def test_a_group_drives_its_members_and_follows_them(serve, brought, read, called):
    home = brought((on(read), UNLOCK)).home
    assert "consent" in (reply := asks(serve, home, called)) and "perhaps, by an automation: Front Door" in reply
    served = serve("act", call_of(called, "turn_on"), "Here.", of=home)
    served.say("please")
    assert served.journal.read_entries()[-1].guarded == {called: "automation"}


def test_other_members_of_a_called_lamps_group_are_not_asked_about(serve, brought):
    assert not asks(serve, brought((on("light.hall"), UNLOCK)).home, "light.porch")


@pytest.mark.parametrize("action", [PORCH, {"action": "switch.turn_on", "target": {"entity_id": "switch.x"}}])
def test_groups_need_no_consent_where_automations_are_harmless(serve, brought, action):
    home = brought((on("light.hall"), action)).home
    assert not asks(serve, home, "light.all") and not asks(serve, home, "light.porch")


def test_one_automation_may_set_off_another(serve, brought):
    switch = {"action": "switch.turn_on", "target": {"entity_id": "switch.x"}}
    home = brought((on("light.hall"), switch), (on("switch.x"), UNLOCK)).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "light.all")


def test_an_automation_that_is_not_exposed_is_followed(serve, brought):
    home = brought((on("light.hall", **{"for": 60}), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    assert not home.rules and "automation.x" not in home.plan.devices_by_did
    assert "later: Front Door: state from locked to unlocked" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "light.porch")


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ({"action": "mqtt.publish", "data": {"topic": "lock"}}, "mqtt"),
        ({"action": "shell_command.open"}, "shell command"),
        ({"action": "automation.turn_on", "target": {"entity_id": "automation.z"}}, "automation"),
        ({"choose": [{"conditions": [], "sequence": [{"action": "rest_command.open"}]}]}, "rest command"),
        ({"action": "notify.phone", "data": {"message": "Hi"}}, ""),
    ],
)
def test_what_is_taken_and_reaches_beyond_the_home_is_asked_about(serve, brought, action, end):
    imported = brought((on("light.hall"), action))
    assert not any(note.entity == "automation.x" and note.part == "automation" for note in imported.notes)
    reply = asks(serve, imported.home, "light.hall")
    assert f"perhaps, by an automation: {end}" in reply if end else not reply
    assert not asks(serve, imported.home, "light.porch")


def test_what_a_run_waits_for_is_asked_about(serve, brought):
    """Whether one waits in the real home, the twin does not know."""
    steps = {"sequence": [{"wait_for_trigger": [on("light.hall")]}, UNLOCK]}
    assert "perhaps, by an automation: Front Door" in asks(serve, brought((on("switch.x"), steps)).home, "light.hall")


def test_what_lets_a_later_report_set_off_an_automation_is_asked_about(serve, brought):
    """A trigger by number is looked at when its own entity changes, which the twin cannot know."""
    lit = "{{ 1 if is_state('light.hall', 'on') else 0 }}"
    home = brought(({"trigger": "numeric_state", "entity_id": "switch.x", "above": 0, "value_template": lit}, UNLOCK)).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "light.porch")


def test_it_is_followed_while_it_is_on(serve, brought):
    home = brought((on("light.hall"), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    served = serve("act", call_of("light.hall", "turn_on"), "Here.", of=home)
    caretaker = served.caretaker
    caretaker.home = refresh_home(caretaker.home, [{"entity_id": "automation.x", "state": "off", "attributes": {}}])
    assert served.say("please") == "Here." and served.real.made


def test_no_agent_is_told_of_it(serve, brought):
    home = brought((on("light.hall"), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    served = serve("act", call_message(tool_call("list_automations", {})), "None.", of=home)
    served.say("which automations are there?")
    heard = str(served.caretaker.agents().heard[-1].messages)
    shown = str(LiveSituation.begin_visit(served.caretaker.home, LiveBlueprint("direct", "en")).opening())
    assert not any(word in heard + shown for word in ("automation.x", "Secret"))


@pytest.mark.parametrize(
    ("trigger", "action"),
    [
        (on("light.hall"), UNLOCK),
        (on("light.hall", "switch.x"), UNLOCK),
        (on("light.hall", to=None), UNLOCK),
        (on("light.hall", **{"from": ["off", "unknown"]}), UNLOCK),
        ({"trigger": "light.turned_on", "target": {"entity_id": "light.hall"}}, UNLOCK),
        (on("light.all"), UNLOCK),
        (on("light.hall"), {"action": "lock.unlock", "target": {"area_id": "hall"}}),
        (on("light.hall"), {"device_id": "17", "domain": "lock", "type": "unlock", "entity_id": "0af3"}),
        (
            on("light.hall"),
            {"choose": [{"conditions": ["{{ 1 > 0 }}"], "sequence": [{"if": ["{{ 1 > 0 }}"], "then": [UNLOCK]}]}]},
        ),
        (on("light.hall"), {"parallel": [PORCH, {"repeat": {"count": 2, "sequence": UNLOCK}}]}),
    ],
    ids=["lock", "several", "any state", "from", "new kind", "group", "area", "device", "choose", "parallel"],
)
def test_what_cannot_be_followed_is_asked_about_and_reported(serve, brought, trigger, action):
    imported = brought((trigger, action), exposed=SEEN)
    assert any(note.entity == "automation.x" for note in imported.notes)
    reply = asks(serve, imported.home, "light.hall")
    assert "consent" in reply and "perhaps, by an automation: lock" in reply and "front" not in reply.casefold()
    assert not asks(serve, imported.home, "light.porch") or trigger == on("light.all")


@pytest.mark.parametrize(
    ("trigger", "action"),
    [
        (on("light.hall, light.porch"), UNLOCK),
        (on("Light.Hall"), UNLOCK),
        ({"triggers": [on("light.hall")]}, UNLOCK),
        (on("light.hall"), {"scene": "scene.open_up"}),
        (on("light.hall"), {"action": "switch.turn_on", "target": {"entity_id": "switch.front_door, switch.gate"}}),
        (on("light.hall"), {"action": "switch.turn_on", "entity_id": "switch.Front_Door"}),
        ({"trigger": "time", "at": ["07:00", "light.hall"]}, UNLOCK),
        ({"trigger": "time", "at": {"entity_id": "Light.Hall", "offset": "-00:05:00"}}, UNLOCK),
        ({"trigger": "numeric_state", "entity_id": "sensor.sun", "above": "light.hall"}, UNLOCK),
        ({"trigger": "calendar", "event": "start", "entity_id": "light.hall"}, UNLOCK),
        ({"trigger": "device", "domain": "light", "type": "turned_on", "entity_id": "light.hall"}, UNLOCK),
        (on("light.hall"), {"action": "shell_command.welcome"}),
        (on("light.hall"), {"action": "esphome.node_open_gate"}),
        (on("light.hall"), {"action": "{{ what }}", "target": {"entity_id": "lock.front_door"}}),
    ],
    ids=[
        "with commas",
        "in capitals",
        "a list of triggers",
        "a scene",
        "several targets",
        "a target in capitals",
        "at the time of a helper",
        "before it",
        "a bound",
        "an event of a calendar",
        "a device trigger",
        "a command",
        "a service that says it",
        "a service that is a template",
    ],
)
def test_other_ways_to_write_it_are_read_too(serve, brought, trigger, action):
    """A lamp stands for whatever entity a trigger may name."""
    home = brought((trigger, action), exposed=SEEN).home
    assert "perhaps, by an automation" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "switch.x")


def template(text: str) -> dict[str, Any]:
    return {"trigger": "template", "value_template": text}


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"trigger": "event", "event_type": kind, "event_data": data}


HALL = "is_state('light.hall', 'on')"


@pytest.mark.parametrize(
    "trigger",
    [
        template("{{ 'Home 🎉' if " + HALL + " else 'no' }}"),
        template("{{ " + HALL + " and 'a, b' != 'c' }}"),
        template("{{ " + HALL + " and states('light.hall') != 'Off!' }}"),
        template("{% macro lit(x) %}{{ is_state(x, 'on') }}{% endmacro %}{{ lit('light.hall') }}"),
        template("{% for one in ['light.hall'] %}{{ states(one) }}{% endfor %}"),
        template("{{ states('light.hall') is match('on, or not') }}"),
        template("{{ states.light.hall.state is match('o.+') and now() > today_at('07:00') }}"),
        template("{{ '💡' in states['light.hall'].state }}"),
        on("light.hall") | {"for": "{{ states('light.hall') | regex_replace(find='[a-z]', replace='!') }}"},
        event("state_changed", entity_id="light.hall", new_state={"state": "on"}),
        event("call_service", domain="light", service="turn_on", service_data={"entity_id": ["light.hall"]}),
        {
            "trigger": "light.turned_on",
            "target": {"entity_id": ["light.hall", "light.porch"]},
            "options": {"behavior": "first"},
        },
        {"trigger": "light.brightness_changed", "target": {"entity_id": "light.hall"}, "options": {"above": 3}},
    ],
)
def test_what_is_not_understood_is_reached_by_what_it_names(serve, brought, trigger):
    imported = brought((trigger, UNLOCK))
    assert [note for note in imported.notes if note.entity == "automation.x" and note.part == "automation"]
    assert "perhaps, by an automation: Front Door" in asks(serve, imported.home, "light.hall")
    assert not asks(serve, imported.home, "switch.x")
    again = import_home(imported.listing, everything=True)
    assert again.listing == imported.listing and home_to_json(again.home) == home_to_json(imported.home)


@pytest.mark.parametrize(
    "trigger",
    [
        template("{{ states.light | selectattr('state', 'eq', 'on') | list | count > 0 }}"),
        template("{{ area_entities('hall') | select('is_state', 'on') | list | count > 0 }}"),
        template("{{ 'evening' | label_entities | count > 0 and 'light.hall' }}"),
        template("{{ is_state('switch.' ~ 'x', 'on') }}"),
        template("{% from 'tools.jinja' import lit %}{{ lit() }}"),
        template("{{ lamp is match('!') }}"),
        template("{{ is_state(lamp, 'on') and is_state('light.porch', 'on') and 'a' is match('!') }}"),
        template("{{ broken"),
        event("state_changed"),
        event("{{ kind }}"),
        {"trigger": "moon"},
        "{{ trigger }}",
    ],
)
def test_what_names_nothing_is_reached_by_any_device(serve, brought, trigger):
    home = brought((trigger, UNLOCK)).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "light.hall")
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "switch.x")


@pytest.mark.parametrize(
    "trigger",
    [
        {"trigger": "time", "at": "07:00"},
        {"trigger": "mqtt", "topic": "door"},
        event("zha_event", command="on"),
        {"trigger": "device", "device_id": "17", "domain": "hue", "type": "remote_button_short_press"},
        on("binary_sensor.elsewhere"),
    ],
)
def test_what_comes_from_elsewhere_is_reached_by_no_device(serve, brought, trigger):
    home = brought((trigger, {"choose": [], "default": [UNLOCK], "unknown": 1})).home
    assert not asks(serve, home, "light.hall")


WHOM = {"entity_id": "{{ whom }}"}


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ({"action": "{{ what }}", "target": WHOM}, "anything"),
        ({"action": "{{ what }}", "data": {"entity_id": "{{ whom }}"}}, "anything"),
        ({"action": "homeassistant.turn_on", "target": WHOM}, "homeassistant"),
        ({"action": "switch.turn_on", "target": WHOM}, "switch"),
        ({"action": "switch.turn_on", "target": "{{ whom }}"}, "switch"),
        ({"action": "switch.turn_on", "target": {"label_id": "gone"}}, "switch"),
        ({"action": "switch.turn_on", "entity_id": "all"}, "switch"),
        ({"action": "cover.open_cover", "data_template": WHOM}, "cover"),
        ({"scene": "{{ whom }}"}, "anything"),
        ({"action": "light.turn_on", "target": WHOM}, ""),
        ({"action": "climate.turn_on", "target": WHOM}, ""),
    ],
)
def test_an_action_whose_service_or_entity_is_not_known_might_open_the_door(serve, brought, action, end):
    home = brought((on("light.hall", **SOMETIME), action)).home
    reply = asks(serve, home, "light.hall")
    assert f"perhaps, by an automation: {end}" in reply if end else not reply
    assert not asks(serve, home, "switch.x")


def test_what_acts_on_any_lamp_may_set_off_what_reads_one(serve, brought):
    home = brought(
        (on("switch.x", **SOMETIME), {"action": "light.turn_on", "target": WHOM}), (on("light.hall"), UNLOCK)
    ).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "switch.x")


EACH_SECOND = ({"trigger": "time_pattern", "seconds": "/1"}, PORCH | {"action": "light.toggle"})


def test_what_comes_after_the_end_of_foresight_is_perhaps(serve, brought):
    """An automation at each second uses up what is looked at."""
    lit = {"condition": "state", "entity_id": "light.hall", "state": "on"}
    hourly = ({"trigger": "time_pattern", "hours": "/1"}, {"if": [lit], "then": [UNLOCK]})
    assert "later: Front Door" in asks(serve, brought(hourly).home, "light.hall")
    home = brought(hourly, EACH_SECOND).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "switch.x")


def test_time_may_end_after_some_events(brought):
    home = brought(EACH_SECOND).home
    some, same = home.fork(), home.fork()
    some.advance(3600, 10)
    same.advance(10)
    assert some.clock == home.clock + 10 and some.state_key() == same.state_key()
    (busy := brought(EACH_SECOND, EACH_SECOND).home.fork()).advance(3600, 10)
    assert busy.clock == home.clock + 6, "each of two that act at a time counts"


def test_foresight_runs_once_a_sentence_and_beside_the_loop(serve, brought, monkeypatch):
    threads, foresee = [], Effects.foresee_effects

    def watched(*given: Any) -> Effects:
        threads.append(threading.current_thread())
        return foresee(*given)

    monkeypatch.setattr(Effects, "foresee_effects", watched)
    served = serve("act", call_of("light.porch", "turn_on"), "Here.", of=brought(EACH_SECOND).home)
    assert served.say("please") == "Here." and served.real.made
    assert len(threads) == 1 and threads[0] is not threading.main_thread()
    serve("act", "It is noon.", of=brought(EACH_SECOND).home).say("what time is it?")
    assert len(threads) == 1  # nothing was called


@pytest.mark.parametrize("fire", [on("light.hall"), on("light.hall", **SOMETIME)], ids=["understood", "not understood"])
def test_an_event_leads_to_the_automations_that_hear_it(serve, brought, fire):
    imported = brought((fire, {"event": "come_in", "event_data": {"a": "b"}}), (event("come_in"), UNLOCK))
    assert "perhaps, by an automation: Front Door" in asks(serve, imported.home, "light.hall")
    assert not asks(serve, imported.home, "switch.x")
    assert import_home(imported.listing, everything=True).listing == imported.listing
    assert not asks(serve, brought((fire, {"event": "other"}), (event("come_in"), UNLOCK)).home, "light.hall")


PORCHES = {"condition": "state", "entity_id": "light.porch", "state": "on"}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PORCH, on("automation.x", to=None)),
        (PORCH, on("automation.x", to=None, attribute="last_triggered")),
        (PORCH, template("{{ state_attr('automation.x', 'last_triggered') > now() - timedelta(seconds=5) }}")),
        ({"action": "persistent_notification.create", "data": {"message": "Hi"}}, {"trigger": "persistent_notification"}),
        ({"event": "tag_scanned", "event_data": {"tag_id": "7"}}, {"trigger": "tag", "tag_id": "7"}),
        (
            {"action": "calendar.create_event", "target": {"entity_id": "calendar.me"}, "data": {"summary": "Come in"}},
            {"trigger": "calendar", "entity_id": "calendar.me", "event": "start"},
        ),
        ({"action": "homeassistant.restart"}, {"trigger": "homeassistant", "event": "start"}),
    ],
    ids=["a run", "when it ran", "how long ago it ran", "a notification", "a tag", "an entry of a calendar", "a restart"],
)
def test_what_an_automation_causes_beside_its_actions_sets_off_another_one(serve, brought, first, then):
    home = brought((on("light.hall"), first), (then, UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    assert "perhaps, by an automation: Front Door" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "switch.x")
    alone = brought((on("light.hall"), first), exposed=(*SEEN, "lock.front_door")).home
    assert not asks(serve, alone, "light.hall")


@pytest.mark.parametrize(
    "often",
    [{"trigger": "time_pattern", "minutes": "/1"}, on("sensor.time", to=None), template("{{ states('sensor.time') }}")],
    ids=["a pattern", "a sensor of the clock", "a template of it"],
)
@pytest.mark.parametrize(
    "steps",
    [
        {"if": [{**PORCHES, "entity_id": "light.hall"}], "then": [UNLOCK, {"unknown": 1}]},
        {"choose": [{"conditions": "{{ is_state('light.hall', 'on') and '🎉' != 'a' }}", "sequence": UNLOCK}]},
    ],
)
def test_what_comes_by_the_clock_and_is_not_understood_is_reached_by_its_conditions(serve, brought, often, steps):
    home = brought((often, steps)).home
    assert "perhaps, by an automation" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "light.porch")


@pytest.mark.parametrize(
    "steps",
    [
        {"if": "{{ states.light|selectattr('state','eq','on')|list|count > 0 }}", "then": UNLOCK},
        {"sequence": [{"variables": {"v": "{{ states('light.hall')|regex_replace('a','b') }}"}},
                      {"if": "{{ v == 'on' }}", "then": UNLOCK}]},
        {"repeat": {"for_each": "{{ expand('light.hall') }}",
                    "sequence": [{"if": "{{ repeat.item.state == 'on' }}", "then": UNLOCK}]}},
    ],
    ids=["a look at all lights", "a variable", "a list"],
)  # fmt: skip
def test_what_comes_by_the_clock_is_reached_by_all_that_its_conditions_may_look_at(serve, brought, steps):
    home = brought(({"trigger": "time_pattern", "minutes": "/1"}, steps)).home
    assert "perhaps, by an automation" in asks(serve, home, "light.hall")


def test_a_question_to_the_clock_alone_is_reached_by_nothing_in_the_home(serve, brought):
    after = {"if": [{"condition": "time", "after": "22:00:00"}], "then": [UNLOCK, {"unknown": 1}]}
    assert not asks(serve, brought(({"trigger": "time_pattern", "minutes": "/1"}, after)).home, "light.hall")


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        ({"action": "conversation.process", "data": {"text": "open up"}}, True),
        ({"action": "hassio.addon_stdin", "data": {"addon": "a"}}, True),
        ({"action": "zha.issue_zigbee_cluster_command", "data": {"cluster_id": 257}}, True),
        ({"action": "nodered.trigger", "target": {"entity_id": "light.porch"}}, True),
        ({"service_template": "lock.unlock", "data_template": {"entity_id": "lock.front_door"}}, True),
        ({"try": [UNLOCK]}, True),
        ({"action": "tts.speak", "target": {"entity_id": "tts.piper"}, "data": {"message": "Hi"}}, False),
        ({"action": "homeassistant.turn_on", "target": {"entity_id": "light.porch"}}, False),
        ({"action": "number.set_value", "target": {"entity_id": "number.volume"}, "data": {"value": "{{ 1 }}"}}, False),
    ],
    ids=lambda one: str(next(iter(one.values()))) if isinstance(one, dict) else None,
)
def test_an_action_of_which_nobody_knows_what_it_does_might_open_the_door(serve, brought, action, asked):
    home = brought((on("light.hall", **SOMETIME), action)).home
    assert ("perhaps, by an automation" in asks(serve, home, "light.hall")) is asked
    assert not asks(serve, home, "switch.x")


def test_a_blueprint_that_was_not_filled_in_is_reached_by_its_inputs(serve, brought, tmp_path):
    written_home(tmp_path, *ROWS)
    text = {"use_blueprint": {"path": "a.yaml", "input": {"lamp": "light.hall"}}}
    home = import_home(load_listing(tmp_path).with_sources({AUTOMATIONS: {"automation.x": text}}), everything=True).home
    assert "perhaps, by an automation: anything" in asks(serve, home, "light.hall")
    assert not asks(serve, home, "switch.x")


FLAG = {"action": "input_boolean.turn_on", "target": {"entity_id": "input_boolean.flag"}}
OPENER = {"action": "switch.turn_on", "target": {"entity_id": "switch.relay_9"}}
AWAITED = {"wait_for_trigger": [{"trigger": "light.turned_on", "target": {"entity_id": "light.hall"}}]}
LOOP = {"repeat": {"until": [{"condition": "state", "entity_id": "light.hall", "state": "on"}], "sequence": [{"delay": 9}]}}
IF_LIT = {"condition": "state", "entity_id": "light.hall", "state": "on"}
WEBHOOK = {"trigger": "webhook", "webhook_id": "x"}
SPEAKS = {"action": "tts.speak", "target": {"entity_id": "tts.x"}, "data": {"media_player_entity_id": "media_player.m"}}
BEHIND = (  # nobody exposed these
    Row("input_boolean.flag", "Flag"),
    Row("switch.relay_9", "Front door opener"),
    Row("light.upstairs", "Upstairs", members=["light.hall"]),
    Row("light.downstairs", "Downstairs", members=["switch.relay_9"]),
    Row("media_player.m", "M", state="idle"),
)


@pytest.mark.parametrize(
    ("automations", "called"),
    [
        (((on("light.hall"), FLAG), (on("input_boolean.flag"), UNLOCK)), "light.hall"),
        (((on("light.hall"), OPENER),), "light.hall"),
        (((on("light.hall"), {"action": "light.turn_on", "target": {"entity_id": "light.downstairs"}}),), "light.hall"),
        (((on("light.upstairs"), UNLOCK),), "light.hall"),
        (((WEBHOOK, {"sequence": [AWAITED, UNLOCK]}),), "light.hall"),  # a run of it may wait
        (((on("switch.y"), {"sequence": [LOOP, UNLOCK]}),), "light.hall"),  # or look again and again
        (((WEBHOOK, {"parallel": [[AWAITED, UNLOCK], [{"delay": 1}]]}),), "light.hall"),
        (((WEBHOOK, {"sequence": [{"delay": 9}, IF_LIT, UNLOCK]}),), "light.hall"),  # or look at it after a while
        (((WEBHOOK, {"sequence": [{"if": IF_LIT, "then": {"delay": 9}}, {"if": IF_LIT, "then": UNLOCK}]}),), "light.hall"),
        (((on("light.hall"), SPEAKS), (on("media_player.m", to="playing"), UNLOCK)), "light.hall"),
        (((on("light.hall"), {"action": "logbook.log"}), ({"trigger": "event", "event_type": "logbook_entry"}, UNLOCK)),
         "light.hall"),
        ((({"trigger": "event", "event_type": "*"}, UNLOCK),), "light.hall"),
    ],
)  # fmt: skip
def test_what_leads_through_things_that_are_not_exposed_needs_consent(serve, brought, automations, called):
    home = brought(*automations, exposed=(*SEEN, "lock.front_door"), more=BEHIND).home
    again = home_from_json(json.loads(json.dumps(home_to_json(home))))
    assert "consent" in asks(serve, again, called) and "opener" not in json.dumps(home_to_json(home))
    assert called == "switch.x" or "*" in str(automations) or not asks(serve, home, "switch.x")


@pytest.mark.parametrize(
    "action",
    [
        {"sequence": [IF_LIT, {"delay": 9}, UNLOCK]},
        {"choose": [{"conditions": [], "sequence": [{"delay": 9}, UNLOCK]}, {"conditions": IF_LIT, "sequence": [UNLOCK]}]},
    ],
)
def test_a_condition_that_no_wait_comes_before_needs_no_consent(serve, brought, action):
    assert not asks(serve, brought((WEBHOOK, action), exposed=(*SEEN, "lock.front_door")).home, "light.hall")


def test_a_chain_that_ends_at_a_lamp_needs_no_consent(serve, brought):
    home = brought((on("light.hall"), FLAG), (on("input_boolean.flag"), PORCH), exposed=SEEN, more=BEHIND).home
    assert not asks(serve, home, "light.hall")


def test_a_thing_drives_what_its_registry_tells(tmp_path):
    """A relay shown as a lock, a switch that somebody wrote, a group of what is not exposed, and what a plug draws."""
    platforms = {
        "lock.side": "switch_as_x",
        "switch.visitor": "template",
        "sensor.draws": "shelly",
        "switch.relay_1": "shelly",
    }
    rows = [
        Row("switch.relay_1", "Relay 1"),
        Row("lock.side", "Side", state="locked"),
        Row("switch.visitor", "Visitor"),
        Row("switch.evening", "Evening", members=["switch.relay_9"]),
        Row("switch.relay_9", "Front door opener"),
        Row("light.hall", "Hall Lamp"),
        Row("sensor.draws", "Draws", state="3", device_class="power"),
    ]
    written_home(tmp_path, *rows)
    entries = {one: {"entity_id": one, "aliases": [], "platform": kind, "device_id": "d"} for one, kind in platforms.items()}
    seen = {"exposed_entities": {row.entity_id: {"conversation": row.entity_id != "switch.relay_9"} for row in rows}}
    listing = load_listing(tmp_path).with_sources({ENTRIES: entries, EXPOSED: seen, DEVICES: [{"id": "d", "name": "Box"}]})
    home = import_home(listing).home
    assert guarded(home) == {"lock.side", "switch.relay_1", "switch.visitor", "switch.evening"}
    assert "switch.relay_1" in home.plan.origin.beside["sensor.draws"].lists


def test_an_automation_that_cannot_be_followed_and_is_harmless_needs_no_consent(serve, brought):
    home = brought((on("light.hall", **SOMETIME), PORCH), exposed=SEEN).home
    assert not home.plan.origin.hidden and not asks(serve, home, "light.hall")


def test_a_cover_that_the_home_does_not_have_is_taken_for_a_door(serve, brought):
    opens = {"action": "cover.open_cover", "target": {"entity_id": "cover.shelly_2"}}
    assert "consent" in asks(serve, brought((on("switch.x", **SOMETIME), opens)).home, "switch.x")


def test_the_home_file_keeps_it(serve, brought):
    hidden = brought((on("light.hall"), UNLOCK), (on("switch.x", **SOMETIME), UNLOCK), exposed=(*SEEN, "lock.front_door"))
    home = hidden.home
    again = home_from_json(json.loads(json.dumps(home_to_json(home))))
    assert again.state_key() == home.state_key() and again.plan.origin == home.plan.origin
    assert asks(serve, again, "light.hall") and asks(serve, again, "switch.x")
    assert build_import_report(hidden)["automations_for_the_guard_alone"] == 1
    saved = import_home(hidden.listing, everything=True)
    assert home_to_json(saved.home) == home_to_json(home) and saved.listing == hidden.listing


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [("hidden", "conditions", ['device("light.gone").state == "on"']), ("unfollowed", "reads", ["light.gone"])],
)
def test_a_home_file_that_is_wrong_about_it_is_refused(brought, part, field, value):
    home = brought((on("light.hall"), UNLOCK), (on("switch.x", **SOMETIME), UNLOCK), exposed=(*SEEN, "lock.front_door")).home
    data = json.loads(json.dumps(home_to_json(home)))
    data["origin"][part][0][field] = value
    with pytest.raises(InputError, match=r"light\.gone"):
        home_from_json(data)


def test_what_was_consented_to_names_its_guarded_device_in_the_log(serve, brought):
    served = serve("act", call_of("lock.front_door", "unlock"), "Here.", of=brought().home)
    served.say("please")
    assert served.say("yes") == "Done."
    lines = [json.loads(line) for line in served.journal.path.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["asked", "acting", "done"]
    assert all(line["guarded"] == {"lock.front_door": "guarded"} for line in lines)


@pytest.mark.parametrize("keep", ["nothing", "weather", "state"])
def test_tasks_have_nothing_of_it(brought, tmp_path, keep):
    hidden = (on("light.hall"), UNLOCK), (on("switch.x", **SOMETIME), UNLOCK)
    save_home(brought(*hidden, exposed=(*SEEN, "lock.front_door")).home, tmp_path / "home.json")
    drawn = make_home(1, HomeRecipe(files=(str(tmp_path / "home.json"),), keep=keep))
    assert drawn.plan.origin is not None and "automation" not in json.dumps(home_to_json(drawn))


@pytest.mark.parametrize(
    "name",
    [
        "G\u0430te",  # a Cyrillic a
        "Front d\u043eor",
        "G\u03b1rage",  # a Greek alpha
        "\u0412oiler",  # its capital looks like B
        "\u0437\u0430m\u043e\u043a".replace("m", "\u043c").replace("\u043e", "o"),  # a Russian lock with a Latin o
        "Ga\u200bte",  # a sign that nobody sees
        "Ga\u00adrage",
    ],
)
def test_a_word_of_look_alikes_is_read_as_it_looks(name: str) -> None:
    assert has_guard_word([name], "acts", "places")


@pytest.mark.parametrize("name", ["USB-\u043a\u0430\u0431\u0435\u043b\u044c", "Mot\u043er", "TV\u706f"])
def test_a_word_of_two_scripts_alone_is_no_reason(name: str) -> None:
    assert not has_guard_word([name], "acts", "places", "flows")


def test_in_a_language_without_words_a_switch_asks(tmp_path: Path) -> None:
    rows = (
        Row("switch.a", "Ytri hurð"),
        Row("switch.b", "Ljós", device_class="outlet"),
        Row("switch.c", "Loft", device_class="switch"),
        Row("light.d", "Lampi"),
    )
    home = written_home(tmp_path, *rows)
    for language, held in (("is", {"switch.a", "switch.c"}), ("is-IS", {"switch.a", "switch.c"}), ("de-CH", set())):
        assert Guard().with_known_home(home, language).held == held


@pytest.mark.parametrize(("first", "then"), [("is", "is"), (None, "is")])  # a home may tell its language later
def test_a_served_agent_asks_for_a_switch_in_such_a_language(tmp_path: Path, first: str | None, then: str) -> None:
    home = written_home(tmp_path, Row("switch.a", "Ytri", state="off"))
    served = serve_home(home, Says("Hm?", call_of("switch.a", "turn_on"), "OK."), tmp_path, "act")
    served.real.spoken = first
    served.say("hello")
    served.real.spoken = then
    served.say("Ytri")
    assert not served.real.made and served.journal.read_entries()[-1].guarded == {"switch.a": "guarded"}
