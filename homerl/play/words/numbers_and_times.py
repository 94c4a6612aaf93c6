"""Find numbers, times of day, dates and weekdays in a text, in English and Chinese. Each number comes with its unit.

Invariants:
- All functions are pure.
- Ordinals, clock times, list markers and ids of devices are no numbers; "one" and 一 are numbers only where they count
  something; a numeral that gives a choice, such as 两三 ("two or three"), has the value NaN.
- A time without am or pm and with an hour of at most 12 may be either half of the day, so it is given as both, and 晚上 and
  "at night" go on after midnight.
- A date without a year has the year None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import mul

HAN_DIGITS = {sign: n for n, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
ONES = "zero one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
VALUES = {word: n for n, word in enumerate(ONES + TEENS)} | {word: 10 * n for n, word in enumerate(TENS, 2)}
SMALL = rf"(?:(?:{'|'.join(TENS)})(?:[- ](?:{'|'.join(ONES[1:])}))?|{'|'.join(sorted(ONES + TEENS, key=len, reverse=True))})"
# English numerals below 100,000, also with a sign and a fraction: "minus twenty-one point five"
SPELT = (
    rf"(?:minus |negative )?(?:(?:{SMALL}|a) thousand(?: and)?(?: {SMALL} hundred(?: and)?)?(?: {SMALL})?"
    rf"|(?:{SMALL}|a) hundred(?: (?:and )?{SMALL})?|{SMALL})(?: point(?: (?:{'|'.join(ONES)}))+| and a half)?"
)
# digits; 千 and 万 multiply by 1,000 and 10,000, but not in 千瓦 (kilowatt), 千米 (kilometre) and 千克 (kilogram)
PLAIN = r"\d+(?:,\d{3})*(?:\.\d+)?(?:万|千(?![瓦米克万]))?"
# a hyphen is a minus only where it follows no word or number, as it does in 20-25
SIGN = r"(?:零下|负|minus |negative |(?:(?<=\s)|(?<=[(:=：，、。\u4e00-\u9fff])|^)[-\u2212])"
DIGITS = rf"{SIGN}{PLAIN}|{PLAIN}"
BELOW = re.compile("零下|负|minus |negative |\u2212")
BELOW_10000 = "[零〇一二两三四五六七八九十百千]"
HANZI = (  # 万 stands in numerals and in words (万一, 千万), which no digit begins
    rf"(?:零下|负)?(?:[一二两三四五六七八九十]{BELOW_10000}*万{BELOW_10000}*|{BELOW_10000}+)(?:点[零〇一二三四五六七八九]+)?"
)
NUMBER = re.compile(
    rf"(?P<digits>(?<![A-Za-z0-9_.])(?:{DIGITS})(?![A-Za-z0-9_]*\d)(?!(?:st|nd|rd|th)\b))"
    rf"|\b(?P<spelt>{SPELT})\b|(?P<hanzi>(?<![\d一二三四五六七八九]){HANZI})",
    re.I,
)
# times and dates, whose digits are no numbers that answer "how many"
CLOCK = re.compile(
    r"\b\d{1,2}:\d{2}(?::\d{2})?\b|\b\d{1,2} ?(?:am|pm|o'clock)\b|\d{1,2}点(?:\d{1,2}分|钟|整)|\b\d{4}-\d\d-\d\d\b", re.I
)
# ids of devices
ID = re.compile(r"(?:\b(?:device|did)|#|编号|设备)[ :=#]*\d+|\bid[ :=#]*\d{2,}|=\d{3,}|\(\d{3,}\)|（\d{3,}）", re.I)
# numbers of a list, such as "1." at the beginning of a line
MARKER = re.compile(r"^[ \t]*\d{1,2}[.)、](?=[ \t]*[^\s\d])", re.M)
# "one" in place of a noun
PRONOUN = re.compile(
    r"\b(?:the|which|this|that|each|every|any|other|another|no|some|last|first|right|wrong|same|single) one\b", re.I
)
MEASURE = "个盏台间只把扇处部套户种档级条张座路度颗支"
UNITS = {
    "watt hour": r"k?wh\b|kilowatt[- ]hours?\b|千瓦时|度电(?!视)",
    "percentage": r"%|％|percent\b|per cent\b|pct\b",
    "fahrenheit": r"(?:°|degrees?|deg)?\s*(?:f\b|fahrenheit)|℉|华氏",
    "celsius": r"°\s*c?|℃|c\b|(?:degrees?|deg)\b|摄氏|度",
    "kelvin": r"k\b|kelvins?\b|开尔文|开",
    "kilowatt": r"kw\b|kilowatts?\b|千瓦",
    "watt": r"w\b|watts?\b|瓦",
    "lux": r"lux\b|lx\b|勒克斯",
    "ppm": r"ppm\b",
    "ug/m3": r"(?:µg|ug|μg)/m|micrograms?\b|微克",
    "minute": r"mins?\b|minutes?\b|分钟",
    "hour": r"h\b|hrs?\b|hours?\b|(?:个)?小时",
    "second": r"s\b|secs?\b|seconds?\b|秒",
    "millisecond": r"ms\b|milliseconds?\b|毫秒",
    "day": r"days?\b|天",
    "millilitre": r"ml\b|millilit(?:re|er)s?\b|毫升",
    "litre": r"l\b|lit(?:re|er)s?\b|升",
    "rpm": r"rpm\b|转",
    "count": rf"[{MEASURE}]",
}
UNITS = {unit: ways.replace(r"\b", "(?![a-z0-9_])") for unit, ways in UNITS.items()}  # Chinese may follow: 5min后
UNIT = re.compile(r"[\s-]*(?:" + "|".join(f"(?P<u{i}>{pattern})" for i, pattern in enumerate(UNITS.values())) + ")", re.I)


NEAR = 120  # letters before and after a number that tell what it is
SECONDS: dict[str, float] = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
SCALES = (SECONDS, {"watt": 1.0, "kilowatt": 1000.0}, {"millilitre": 0.001, "litre": 1.0})  # units that can be converted
HAN_WHOLE = "[零一二两三四五六七八九十百]{1,9}"  # bounded, for it is tried at each sign of a long numeral
BOUNDED = r"(?<![a-z0-9_.,-])\d{1,6}"  # a number without fraction
HALF = "半(?!个?小时|分|天|夜)"
SPANS = {  # phrases that the rules for numbers do not read, and what replaces them
    "钟头": "小时",
    rf"({BOUNDED}) and a half\b": r"\1.5",
    r"\b(?:a |one )?half (?:an|a) (hour|minute)\b|\b(?:a|one) half (hour|minute)\b": r"0.5 \1\2",
    r"\b(?:a |one )?quarter (?:of )?(?:an )?hour\b|(?<!点)一刻钟": "0.25 hour",
    r"\b(?:an|one) hour and a half\b": "1.5 hour",
    r"\b(?:a|an|one)(?: single)? (hour|minute|second)\b": r"1 \1",
    rf"({BOUNDED})(?:个半小时|个?小时{HALF})": r"\1.5 hour",
    rf"({HAN_WHOLE})(?:个半小时|个?小时{HALF})": r"\1点五 hour",
    rf"({BOUNDED})(?:分半钟?|分钟{HALF})": r"\1.5 minute",
    rf"(?<!点)({HAN_WHOLE})(?:分半钟?|分钟{HALF})": r"\1点五 minute",
    rf"({BOUNDED})度{HALF}": r"\1.5度",
    rf"(?<!点)({HAN_WHOLE})度{HALF}": r"\1点五度",
    r"半个?小时": "0.5 hour",
    r"半分钟": "0.5 minute",
    rf"((?<![\w.-])\d{{1,6}}(?:\.\d{{1,6}})?|\b(?<!minus )(?<!negative ){SMALL})"
    r"( ?°c?| ?degrees?(?: celsius)?)? below (?:zero|freezing)\b": r"minus \1\2",
}
DECIMAL = r"\d{1,6}(?:\.\d{1,6})?"
AMOUNT = rf"(?:(?<![a-z0-9_.:-]){DECIMAL}|\b{SPELT}|{HANZI})"
PARTS = {  # a digit may follow: 1h30m
    "hour": r"h(?:(?:ou)?rs?)?(?![a-z_])|个?小时",
    "minute": r"m(?:in(?:ute)?s?)?(?![a-z_])|分钟|分(?!之)",
    "second": r"s(?:ec(?:ond)?s?)?(?![a-z_])|秒",
}
# a duration in two units is read only where no numeral or sign is right before it
NO_SIGN = "(?<![点零〇一二两三四五六七八九十百千万负])(?<!minus )(?<!negative )"
DURATIONS = {  # durations in two units: 4 minutes and 30 seconds, 1小时30分
    (long, short): re.compile(
        rf"{NO_SIGN}({AMOUNT})[ -]?(?:{PARTS[long]}) *[,，]? *(?:and |零|又)?"
        rf"({DECIMAL}|\b{SPELT}|{HANZI})[ -]?(?:{PARTS[short]})"
    )
    for long, short in (("minute", "second"), ("hour", "minute"), ("hour", "second"))
}

CLOCKED = re.compile(r"(?<![\d:])(\d{1,2}):([0-5]\d):([0-5]\d)(?![\d:])")


def phrases_to_numbers(text: str) -> str:
    """The text with phrases as plain numbers: "half an hour" becomes "0.5 hour", "1 h 30 min" "90 minute"."""
    for pattern, number in SPANS.items():
        text = re.sub(pattern, number, text)
    for (long, short), duration in DURATIONS.items():
        text = duration.sub(partial(_in_one_unit, SECONDS[long] / SECONDS[short], short), text)
    return text


def clock_durations_to_seconds(text: str) -> str:
    """The text with durations such as 0:12:05 in seconds."""
    return CLOCKED.sub(lambda found: f"{sum(map(mul, (3600, 60, 1), map(int, found.groups())))} second", text)


def _in_one_unit(factor: float, unit: str, found: re.Match[str]) -> str:
    """A duration in two units in the shorter one, where one is `factor` of the other."""
    long, short = (_value_of_match(number) if (number := NUMBER.fullmatch(part)) else math.nan for part in found.groups())
    whole = factor * long + short
    return f" {whole:.12g} {unit} " if min(long, short) >= 0 and math.isfinite(whole) else found[0]


@dataclass(frozen=True)
class FoundNumber:
    """A number at `text[start:end]`; `unit` is a key of `UNITS`, or None if the text gives no unit."""

    value: float
    start: int
    end: int
    unit: str | None = None

    def convert_to_unit(self, unit: str | None) -> FoundNumber | None:
        """The number converted to this unit, or None if its own unit cannot be converted. With None, any unit but
        Fahrenheit fits.
        """
        unit = "celsius" if unit == "degree" else unit  # both are said as degrees
        if self.unit in (None, unit) or (unit is None and self.unit != "fahrenheit"):
            return self
        for scale in SCALES:
            if unit in scale and self.unit in scale:
                return replace(self, value=self.value * scale[self.unit] / scale[unit])
        return None


def blank_matches(text: str, pattern: re.Pattern[str]) -> str:
    """The text with each match replaced by spaces, so that all other characters keep their positions."""
    return pattern.sub(lambda match: " " * len(match[0]), text)


def find_numbers(text: str) -> list[FoundNumber]:
    """All numbers of a text, in order."""
    listed = (MARKER,) if len(MARKER.findall(text)) > 1 else ()
    for pattern in (CLOCK, ID, PRONOUN, *listed):
        text = blank_matches(text, pattern)
    found = [(match, _unit_of_match(text, match)) for match in NUMBER.finditer(text)]
    return [
        FoundNumber(_value_of_match(match), match.start(), match.end(), unit)
        for match, unit in found
        if not match["hanzi"] or _is_hanzi_number(text, match, unit)
    ]


def _unit_of_match(text: str, match: re.Match[str]) -> str | None:
    if text.endswith("百分之", 0, match.start()):
        return "percentage"
    if text[max(0, match.start() - NEAR) : match.start()].rstrip().endswith("华氏"):
        return "fahrenheit"
    after = UNIT.match(text, match.end())
    return list(UNITS)[int(after.lastgroup[1:])] if after and after.lastgroup else None


def _is_hanzi_number(text: str, match: re.Match[str], unit: str | None) -> bool:
    """Whether a Chinese numeral is a number, and not part of a word (一起, 统一), an ordinal (第一) or a floor (二楼)."""
    before, after = text[max(0, match.start() - NEAR) : match.start()], text[match.end() : match.end() + NEAR]
    if before.endswith(("第", "星期", "周", "统", "唯", "万", "单")) or after.startswith(("楼", "层", "月", "号")):
        return False
    return unit is not None or len(match[0]) > 1 or not after[:1].strip() or not after[0].isalnum()


def _value_of_match(match: re.Match[str]) -> float:
    if match["digits"]:
        digits = BELOW.sub("-", match["digits"].lower()).replace(",", "")
        return float(digits.rstrip("千万")) * {"千": 1000, "万": 10000}.get(digits[-1], 1)
    return _parse_spelt_number(match["spelt"].lower()) if match["spelt"] else parse_hanzi_number(match["hanzi"])


def _parse_spelt_number(text: str) -> float:
    """The value of an English numeral such as "minus twenty-one point five"."""
    whole, _, fraction = text.replace("-", " ").partition(" point ")
    value, group = 0.0, 0.0  # `group` is the part after "thousand", or the factor before it
    for word in whole.replace(" and a half", " half").split():
        match word:
            case "hundred":
                group = max(group, 1) * 100
            case "thousand":
                value, group = max(group, 1) * 1000, 0.0
            case "half":
                group += 0.5
            case _:
                group += VALUES.get(word, 0)
    value += group + (float("0." + "".join(str(VALUES[word]) for word in fraction.split())) if fraction else 0)
    return -value if text.startswith(("minus", "negative")) else value


def parse_hanzi_number(text: str) -> float:
    """The value of a Chinese numeral such as 零下二十一点五; NaN if two digits are adjacent (两三)."""
    below = BELOW.match(text)
    whole, _, fraction = BELOW.sub("", text).partition("点")
    high, myriads, low = whole.rpartition("万")
    value = 10000 * _below_10000(high) + _below_10000(low, scale=10000 if myriads else 1)
    value += float("0." + "".join(str(HAN_DIGITS[sign]) for sign in fraction)) if fraction else 0
    return -value if below else value


def _below_10000(text: str, scale: int = 1) -> float:
    """The value of a numeral without 万, where `scale` is the one before it: 五 in 两万五 is 5,000."""
    total, last = 0, None
    for sign in text:
        if sign in HAN_DIGITS:
            if last is not None and last != 0:
                return math.nan
            last = HAN_DIGITS[sign]
        else:
            scale = {"十": 10, "百": 100, "千": 1000}[sign]
            total, last = total + (1 if last is None else last) * scale, None
    return total + (last or 0) * (scale // 10 if scale > 10 and "零" not in text else 1)


MONTHS = "january february march april may june july august september october november december".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
HALVES = {  # half of the day: what stands before or after a time
    "morning": ("凌晨|清晨|清早|早晨|早上|上午", r"a\.?m\b\.?|in the morning\b"),
    "noon": ("中午", r"noon\b"),
    "afternoon": ("下午|傍晚", r"p\.?m\b\.?|in the afternoon\b"),
    "evening": ("晚上|夜里|夜晚|夜间|深夜|半夜|午夜", r"in the evening\b|at night\b|midnight\b"),
}
BEFORE = "|".join(f"(?P<before_{half}>{before})" for half, (before, _) in HALVES.items())
AFTER = "|".join(f"(?P<after_{half}>{after})" for half, (_, after) in HALVES.items())
BARE = "|".join(after for _, after in HALVES.values())
TIME = re.compile(
    rf"(?:{BEFORE})?\s*(?<![\d:.-])(?P<hour>[01]?\d|2[0-4])"
    rf"(?:[:：](?P<minute>[0-5]\d)(?:[:：][0-5]\d)?(?!\d)|(?:点|时(?![间候段长]))(?:(?P<fen>[0-5]?\d)分?|(?P<half>半)|整|钟)?"
    rf"|(?=\s*(?:{BARE}|o'clock)))"
    rf"\s*(?:o'clock\s*)?(?:{AFTER})?"
)
HAN = "[一二两三四五六七八九]"
HAN_TIME = re.compile(  # 一点 without more is "a bit", and 二十一点五 is a decimal
    rf"(?<![一二三四五六七八九十])(?P<hour>(?:二?十)?{HAN}|二?十)点"
    rf"(?P<minute>零{HAN}(?!度)|[二三四五]?十{HAN}?|{HAN}(?=分))?(?![零〇一二三四五六七八九度])"
)
# 一点 after anything but a word for a time of day is "a bit", as in 调高一点
A_BIT = re.compile(r"(?<![上午里晚晨早夜间十在于到是为])一点(?![零〇一二三四五六七八九十半钟整\d])")
QUARTER = {"点一刻": "点15分", "点三刻": "点45分"}
# 2026-11-23
ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?!\d)")
NUMERIC = re.compile(r"(?<![\d/.])(\d\d?)([/.])(\d\d?)\2(\d{4})(?!\d)")  # 23/11/2026 or 11/23/2026
HAN_DATE = re.compile(r"([一二三四五六七八九十]{1,2})月([一二三四五六七八九十]{1,3})(?=[日号])")
# 2026年11月23日, of which the year may be missing
CHINESE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号]")
MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
# "23rd of November 2026"
DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({MONTH})\b\.?,?(?: (\d{{4}}))?")
# "November 23, 2026"
MONTH_FIRST = re.compile(rf"\b({MONTH})\b\.? (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?!\d),?(?: (\d{{4}}))?")
WEEKDAY = re.compile(rf"\b({'|'.join(DAYS)})\b|(?:星期|周|礼拜)([一二三四五六日天])")
Date = tuple[int | None, int, int]


def find_times(text: str) -> Iterator[frozenset[int]]:
    """For each time of day in the text, the minutes since midnight that it may mean."""
    text = text.lower()
    for quarter, minutes in QUARTER.items():
        text = text.replace(quarter, minutes)
    text = HAN_TIME.sub(_hanzi_time_to_digits, A_BIT.sub("  ", text))
    for found in TIME.finditer(text):
        minute = 30 if found["half"] else int(found["minute"] or found["fen"] or 0)
        half = next((half for half in HALVES if found[f"before_{half}"] or found[f"after_{half}"]), None)
        yield frozenset((60 * hour + minute) % 1440 for hour in _possible_hours(int(found["hour"]), half))


def _hanzi_time_to_digits(found: re.Match[str]) -> str:
    """A time with Chinese numerals in digits: 两点十五 becomes 02点15."""
    hour, minute = (value and f"{int(parse_hanzi_number(value)):02}" for value in found.group("hour", "minute"))
    return f"{hour}点{minute or ''}"


def _possible_hours(hour: int, half: str | None) -> set[int]:
    """The hours since midnight that an hour may mean in a half of the day, or in either if none is said."""
    if hour > 12 or hour == 0:
        return {hour}
    match half:
        case "morning":
            return {hour % 12}
        case "evening":  # after midnight, the night goes on
            return {hour % 12 if hour == 12 or hour < 5 else hour + 12}
        case "noon":
            return {hour if hour in (11, 12) else hour + 12}
        case "afternoon":
            return {hour % 12 + 12}
        case _:
            return {hour, (hour + 12) % 24}


def minutes_apart(some: int, other: int) -> int:
    """Minutes between two times of day, the shorter way round."""
    return min((some - other) % 1440, (other - some) % 1440)


def find_dates(text: str) -> Iterator[Date]:
    """The (year, month, day) of each date in the text."""
    text = HAN_DATE.sub(lambda found: "{:.0f}月{:.0f}".format(*map(parse_hanzi_number, found.groups())), text.lower())
    for first, _, second, year in NUMERIC.findall(text):
        month, day = sorted((int(first), int(second)))
        if month == day or day > 12:  # else it may be the one or the other
            yield int(year), month, day
    for pattern in (ISO, CHINESE):
        yield from ((int(year) if year else None, int(month), int(day)) for year, month, day in pattern.findall(text))
    for day, month, year in DAY_FIRST.findall(text):
        yield (int(year) if year else None, _month_number(month), int(day))
    for month, day, year in MONTH_FIRST.findall(DAY_FIRST.sub(" ", text)):
        yield (int(year) if year else None, _month_number(month), int(day))


def _month_number(word: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(word[:3]))


def find_weekdays(text: str) -> Iterator[int]:
    """Each weekday in the text, from 0 for Monday."""
    for english, chinese in WEEKDAY.findall(text.lower()):
        yield DAYS.index(english) if english else "一二三四五六日".index(chinese.replace("天", "日"))
