"""Find times of day, dates and weekdays in a text, in English and Chinese.

Invariants:
- Pure.
- A time without am or pm and with an hour of at most 12 may be either half of the day, so it is given as both, and 晚上 and
  "at night" go on after midnight.
- A date without a year has the year None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from homerl.play.words.numbers import parse_hanzi_number

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
A_BIT = re.compile(r"(?<![上午里晚晨早夜间十在于到是为])一点(?![零〇一二三四五六七八九十半钟整\d])")
QUARTER = {"点一刻": "点15分", "点三刻": "点45分"}
ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?!\d)")
NUMERIC = re.compile(r"(?<![\d/.])(\d\d?)([/.])(\d\d?)\2(\d{4})(?!\d)")  # 23/11/2026 or 11/23/2026
HAN_DATE = re.compile(r"([一二三四五六七八九十]{1,2})月([一二三四五六七八九十]{1,3})(?=[日号])")
CHINESE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号]")
MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({MONTH})\b\.?,?(?: (\d{{4}}))?")
MONTH_FIRST = re.compile(rf"\b({MONTH})\b\.? (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?!\d),?(?: (\d{{4}}))?")
WEEKDAY = re.compile(rf"\b({'|'.join(DAYS)})\b|(?:星期|周|礼拜)([一二三四五六日天])")
HANZI_DAYS = "一二三四五六日"
Date = tuple[int | None, int, int]


def find_times(text: str) -> Iterator[frozenset[int]]:
    """For each time of day in the text, the minutes since midnight that it may mean."""
    for found in TIME.finditer(_in_digits(text.lower())):
        minute = 30 if found["half"] else int(found["minute"] or found["fen"] or 0)
        half = next((half for half in HALVES if found[f"before_{half}"] or found[f"after_{half}"]), None)
        yield frozenset((60 * hour + minute) % 1440 for hour in _hours(int(found["hour"]), half))


def _in_digits(text: str) -> str:
    """The text with Chinese numerals of times, and quarters, in digits: 两点一刻 becomes 2点15分."""
    for quarter, minutes in QUARTER.items():
        text = text.replace(quarter, minutes)
    return HAN_TIME.sub(_clock, A_BIT.sub("  ", text))


def _clock(found: re.Match[str]) -> str:
    hour, minute = (value and f"{int(parse_hanzi_number(value)):02}" for value in found.group("hour", "minute"))
    return f"{hour}点{minute or ''}"


def _hours(hour: int, half: str | None) -> set[int]:
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
        yield (int(year) if year else None, _month(month), int(day))
    for month, day, year in MONTH_FIRST.findall(DAY_FIRST.sub(" ", text)):
        yield (int(year) if year else None, _month(month), int(day))


def _month(word: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(word[:3]))


def find_weekdays(text: str) -> Iterator[int]:
    """Each weekday in the text, from 0 for Monday."""
    for english, chinese in WEEKDAY.findall(text.lower()):
        yield DAYS.index(english) if english else HANZI_DAYS.index(chinese.replace("天", "日"))
