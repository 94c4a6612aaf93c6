"""One form for texts that say the same: `norm` of PersonalHomeBench eq. 1 and 6, for English and Chinese.

The paper prints no rules for `norm`. Ours: NFKC and case; dates as 2025-03-04 (--03-04 without a year, 2025-03 without a
day); times as 18:30; numbers as digits; units by one name, durations in minutes; no articles, no punctuation.

Invariants:
- All functions are pure.
- A text that is nothing but an article or punctuation stays as it is.
- A date that can be read in two ways, such as 3/4/2025, is left as it is.
- A unit that is not said is not added.
"""

from __future__ import annotations

import math
import re
import unicodedata

from homerl.play.words.numbers_and_times import DAYS, HAN_DIGITS, MONTHS, VALUES, find_numbers, phrases_to_numbers

MONTH = rf"(?P<month>{'|'.join(f'{name}|{name[:3]}' for name in MONTHS)}|sept)\b\.?"
WEEKDAY = rf"(?:(?:{'|'.join(DAYS)}|{'|'.join(f'{name[:3]}' for name in DAYS)})\b\.?,? (?:the )?)?"
ZH_WEEKDAY = r"(?: ?[,，(（]? ?(?:星期|周|礼拜)[一二三四五六日天][)）]?)?"
HAN = r"[零〇一二两三四五六七八九十]{1,9}|\d{1,9}"  # bounded: a long number is no part of a date, and takes no time to read
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
# Each pattern finds what those before it have left.
DATES = (
    re.compile(r"\b(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)"),
    re.compile(rf"(?:(?P<year>{HAN})年)?(?P<month>{HAN})月(?P<day>{HAN})[日号]{ZH_WEEKDAY}"),
    re.compile(rf"(?P<year>{HAN})年(?P<month>{HAN})月(?:份)?"),
    re.compile(rf"\b{WEEKDAY}{MONTH} {DAY}(?:,? (?P<year>\d{{4}})\b)?"),
    re.compile(rf"\b{WEEKDAY}{DAY} (?:of )?{MONTH}(?:,? (?P<year>\d{{4}})\b)?"),
    re.compile(rf"\b{MONTH},? (?P<year>\d{{4}})\b"),
    re.compile(r"\b(?P<day>1[3-9]|2\d|3[01])/(?P<month>\d{1,2})/(?P<year>\d{4})\b"),
    re.compile(r"\b(?P<month>\d{1,2})/(?P<day>1[3-9]|2\d|3[01])/(?P<year>\d{4})\b"),
)
HOUR = rf"(?P<hour>\d{{1,2}}|{'|'.join(word for word, value in VALUES.items() if 1 <= value <= 12)})"
TIMES = (
    re.compile(rf"\b{HOUR}(?:[:.](?P<minute>\d\d)(?::(?P<second>\d\d))?)? ?(?P<half>[ap])\.?m\b\.?"),
    re.compile(r"\b(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?z?)?(?![:\d])"),
    re.compile(rf"\b{HOUR} o'clock\b"),
    re.compile(r"\b(?:12 )?(?P<named>noon|midday|midnight)\b"),
    re.compile(
        rf"(?P<part>凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上)?(?P<hour>{HAN})[点时]"
        rf"(?:(?P<quarter>半|一刻|三刻)|(?P<minute>\d{{1,2}})分?|(?P<minutes>{HAN})分|钟|整|(?![零〇一二三四五六七八九]))"
    ),
)
DATE, MONTH_OF_YEAR, TIME = r"(?:\d{4}|-)-\d\d-\d\d", r"\d{4}-\d\d(?![-\d])", r"\d\d:\d\d(?::\d\d)?"
MOMENT = re.compile(rf"((?<![\w-])(?:{DATE}|{MONTH_OF_YEAR})(?!\w)|\b{TIME}\b)")
ORDERED = re.compile(rf"({TIME})(?:,| on)? ({DATE})")
JOINED = re.compile(rf"({DATE})(?:t| at|,)? ?({TIME})")
AT = re.compile(rf"\b(?:at|on|in) (?={DATE}|{MONTH_OF_YEAR}|{TIME})|在(?={DATE}|{TIME})")

UNITS = (  # name, factor to the name's unit, and the ways to write it behind a number
    ("percent", 1, r"%|percent\b|per cent\b|pct\b"),
    ("fahrenheit", 1, r"(?:°|degrees?|deg)? ?(?:f|fahrenheit)\b|华氏度"),
    ("celsius", 1, r"(?:°|degrees?|deg)? ?(?:c|celsius|centigrade)\b|°|(?:degrees?|deg)\b|摄氏度|度"),
    ("kilowatt hour", 1, r"kwh\b|kilowatt[- ]hours?\b|千瓦时|度电"),
    ("watt", 1000, r"kw\b|kilowatts?\b|千瓦"),
    ("watt", 1, r"w\b|watts?\b|瓦"),
    ("minute", 60, r"h\b|hrs?\b|hours?\b|个?小时"),
    ("minute", 1, r"mins?\b|minutes?\b|分钟"),
    ("minute", 1 / 60, r"s\b|secs?\b|seconds?\b|秒钟?"),
    ("day", 1, r"days?\b|天"),
    ("week", 1, r"weeks?\b|个?星期|周"),
    ("month", 1, r"months?\b|个月"),
    ("year", 1, r"(?:years?|yrs?)(?: old| of age)?\b|岁|年"),
    ("microgram per cubic metre", 1, r"(?:μg|ug)/m\^?3|micrograms? per cubic met(?:er|re)|微克(?:每|/)立方米"),
    ("metre per second", 1, r"m/s\b|met(?:er|re)s? (?:per|a) second\b|米(?:每|/)秒"),
    ("kilogram", 1, r"kgs?\b|kilo(?:gram)?s?\b|公斤|千克"),
    ("kilogram", 0.001, r"g\b|grams?\b|克"),
    ("litre", 0.001, r"ml\b|millilit(?:re|er)s?\b|毫升"),
    ("litre", 1, r"l\b|lit(?:re|er)s?\b|升"),
    ("lux", 1, r"lux\b|lx\b|勒克斯"),
    ("times", 1, r"times?\b|次"),
    ("dollar", 1, r"dollars?\b|usd\b|美元"),
    ("yuan", 1, r"yuan\b|cny\b|rmb\b|块钱|元"),
    ("", 1, "[个盏台间只把扇处部套户种条张座支位名口匹]"),  # Chinese measure words name no unit
)
# The first unit that fits counts, so 千瓦时 stands before 千瓦, and 千瓦 before 瓦.
UNIT = re.compile("[ -]?(?:" + "|".join(f"(?P<u{at}>{pattern})" for at, (_, _, pattern) in enumerate(UNITS)) + ")")
BEFORE = {"$": "dollar", "us$": "dollar", "¥": "yuan", "百分之": "percent", "华氏": "fahrenheit", "摄氏": "celsius"}
PREFIX = re.compile("(" + "|".join(map(re.escape, sorted(BEFORE, key=len, reverse=True))) + ") ?$")
# A span begins where its first number does: tried at each digit, a long number would take the square of its length.
SPAN = re.compile(r"(-?(?<![\d.])[\d.]+) minute,?(?: and)? +([\d.]+) minute")

CJK = "\u4e00-\u9fff"
BETWEEN = re.compile(rf"(?<=\d)([{CJK}]{{1,4}})(?=\d)")  # as in 1小时30分钟, where `numbers` would skip the 1
TOKEN = re.compile(
    rf"(?<![\w-])(?:{DATE}|{MONTH_OF_YEAR})|{TIME}|(?:(?<!\S)-)?\d+(?:\.\d+)?(?![^\W_])|[{CJK}]+|[^\W_{CJK}]+"
)
ARTICLES = {"a", "an", "the"}
YES, NO = {"yes", "true", "yeah", "是", "是的", "对", "对的"}, {"no", "false", "nope", "否", "不", "不是", "不对"}


def normal_form(text: str) -> str:
    """The text in the one form of all texts that say the same by rules; see the module."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").strip()
    # Words such as "once" and 三天 are a number only if they are the whole text.
    said = text.strip(" .。!")
    if said[:1] in HAN_DIGITS and UNIT.fullmatch(said, 1):
        text = f"{HAN_DIGITS[said[0]]}{said[1:]}"
    text = {"once": "1 times", "twice": "2 times"}.get(said, text)
    parts = MOMENT.split(_moments_to_digits(text))  # moments stand at odd places
    text = " ".join(part if at % 2 else _quantities_to_digits(part) for at, part in enumerate(parts))
    text = SPAN.sub(lambda found: f"{_shortest_digits(float(found[1]) + float(found[2]))} minute", text)
    words = TOKEN.findall(re.sub(r"(?<=\w)'(?=\w)", "", text))
    kept = [word for word in words if word not in ARTICLES] or words
    # Chinese is written without spaces, so those that the steps above put in are taken out.
    plain = re.sub(f"(?<=[{CJK}]) (?=[{CJK}])", "", " ".join(kept)) or text
    return "yes" if plain in YES else "no" if plain in NO else plain


# dates and times


def _moments_to_digits(text: str) -> str:
    """The text with its dates and times in one form, the date before the time."""
    text = re.sub(r"(?<=\d)t(?=\d\d:)", " ", text)
    for pattern in DATES:
        text = pattern.sub(lambda found: f" {_date_to_digits(found)} ", text)
    for pattern in TIMES:
        text = pattern.sub(lambda found: f" {_time_to_digits(found)} ", text)
    text = " ".join(text.split())
    return AT.sub("", ORDERED.sub(r"\2 \1", JOINED.sub(r"\1 \2", text)))


def _date_to_digits(found: re.Match[str]) -> str:
    said = found.groupdict()
    year = _parse_whole_number(said["year"]) if said.get("year") else None
    by_name = {name[:3]: at for at, name in enumerate(MONTHS, 1)}
    month = by_name.get(said["month"][:3]) or _parse_whole_number(said["month"])
    day = _parse_whole_number(said["day"]) if said.get("day") else None
    if not 1 <= month <= 12 or not 1 <= (day or 1) <= 31:
        return found[0]
    first = "-" if year is None else f"{year:04d}"
    return f"{first}-{month:02d}" + (f"-{day:02d}" if day else "")


def _time_to_digits(found: re.Match[str]) -> str:
    said = found.groupdict()
    if said.get("named"):
        return "00:00" if said["named"] == "midnight" else "12:00"
    hour, half, part = _parse_whole_number(found["hour"]), said.get("half"), said.get("part")
    quarters = {"半": 30, "一刻": 15, "三刻": 45}
    minute = quarters.get(said.get("quarter") or "") or _parse_whole_number(said.get("minute") or said.get("minutes") or "0")
    if half:  # 99 is no hour, so that "13 pm" stays as it is
        hour = hour % 12 + 12 * (half == "p") if 1 <= hour <= 12 else 99
    # A Chinese part of the day says which half of it is meant: 下午六点 is 18:00.
    if hour == 12 and part in ("凌晨", "晚上"):
        hour = 0
    elif (part in ("下午", "傍晚", "晚上") and hour < 12) or (part == "中午" and hour < 3):
        hour += 12
    if hour > 23 or minute > 59:
        return found[0]
    second = int(said.get("second") or 0)
    return f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if second else "")


def _parse_whole_number(text: str) -> int:
    """A whole number in digits, an English word or Chinese signs; the signs of a year are read one by one."""
    if text.isdecimal():
        return int(text)
    if text in VALUES:
        return VALUES[text]
    signs = {sign: str(at) for at, sign in enumerate("零一二三四五六七八九")} | {"〇": "0", "两": "2"}
    if "十" not in text:
        return int("".join(signs[sign] for sign in text))
    tens, _, ones = text.partition("十")
    return 10 * int(signs.get(tens, "1")) + int(signs.get(ones, "0"))


# numbers


def _quantities_to_digits(text: str) -> str:
    """The text with its numbers in digits, each before the name of its unit."""
    text = BETWEEN.sub(r"\1 ", phrases_to_numbers(text))
    out, last = "", 0
    for number in find_numbers(text):
        if not math.isfinite(number.value):  # NaN: a choice such as 两三; infinite: more digits than a float has
            continue
        before = PREFIX.search(text, last, number.start)
        after = UNIT.match(text, number.end)
        name, factor, _ = UNITS[int(after.lastgroup[1:])] if after and after.lastgroup else ("", 1, "")
        name = BEFORE[before[1]] if before else name
        out += text[last : before.start() if before else number.start]
        out += f" {_shortest_digits(number.value * factor)} {name} "
        last = max(number.end, after.end() if after else 0)
    return re.sub(" +", " ", out + text[last:])


def _shortest_digits(value: float) -> str:
    value = round(value, 6)
    return str(int(value)) if float(value).is_integer() else repr(value)
