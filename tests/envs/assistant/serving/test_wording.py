"""Which names tell of a door or of what burns, however they are written."""

from __future__ import annotations

import pytest

from homerl.envs.assistant.serving.consent_guard import FILE, has_guard_word
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
    "fi": "Lukulamppu|Ikkuna|Verho",
}


def listed(names: dict[str, str]) -> list[str]:
    return [name for texts in names.values() for name in texts.split("|")]


@pytest.mark.parametrize("name", listed(TELLING))
def test_a_name_of_a_door_or_of_what_burns_is_one_however_it_is_written(name: str) -> None:
    assert has_guard_word([name], "acts", "places", "flows")


def test_a_listed_word_that_stands_alone_tells_whatever_it_contains() -> None:
    words = ((group, word) for group, told in read_yaml(FILE).data.items() for many in told.values() for word in many)
    alone = [(group, word.strip("=")) for group, word in words if group != "harmless" and word.strip("-") == word]
    assert not [word for group, word in alone if not has_guard_word([word], group)]


@pytest.mark.parametrize("name", listed(ELSE))
def test_letters_within_a_word_of_another_meaning_tell_nothing(name: str) -> None:
    assert not has_guard_word([name], "acts", "places", "flows")
