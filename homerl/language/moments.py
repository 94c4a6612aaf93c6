"""Find times of day, dates and weekdays in a text, in English and Chinese.

Invariants: pure; a time without am or pm and with an hour of at most 12 may be either half of the day, so it is given as
both; a date without a year has the year None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MONTHS = "january february march april may june july august september october november december".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
TIME = re.compile(
    r"(?P<before>凌晨|早上|上午|中午|下午|晚上)?\s*(?<![\d:.-])(?P<hour>[01]?\d|2[0-4])"
    r"(?::(?P<minute>[0-5]\d)(?::[0-5]\d)?(?!\d)|点(?:(?P<fen>[0-5]?\d)分?|(?P<half>半)|整|钟)?|(?=\s*(?:[ap]\.?m\b|o'clock)))"
    r"\s*(?P<after>[ap]\.?m\b\.?|o'clock)?"
)
ISO = re.compile(r"(?<!\d)(\d{4})-(\d\d?)-(\d\d?)(?!\d)")
CHINESE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号]")
MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({MONTH})\b\.?,?(?: (\d{{4}}))?")
MONTH_FIRST = re.compile(rf"\b({MONTH})\b\.? (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?!\d),?(?: (\d{{4}}))?")
WEEKDAY = re.compile(rf"\b({'|'.join(DAYS)})\b|(?:星期|周|礼拜)([一二三四五六日天])")
HANZI_DAYS = "一二三四五六日"
Date = tuple[int | None, int, int]


def times(text: str) -> Iterator[frozenset[int]]:
    """For each time of day in the text, the minutes since midnight that it may mean."""
    for found in TIME.finditer(text.lower()):
        hour, half = int(found["hour"]), found["before"] or (found["after"] or "")[:1]
        minute = 30 if found["half"] else int(found["minute"] or found["fen"] or 0)
        if half in ("p", "下午", "晚上", "中午"):
            hours = {12 if hour == 12 and half != "晚上" else hour % 12 + 12 if hour <= 12 else hour}
            hours = {11} if half == "中午" and hour == 11 else hours
        elif half in ("a", "凌晨", "早上", "上午"):
            hours = {hour % 12 if hour == 12 else hour}
        else:
            hours = {hour, hour + 12} if 0 < hour < 12 else {hour, 0} if hour == 12 else {hour % 24}
        yield frozenset((60 * one + minute) % 1440 for one in hours)


def dates(text: str) -> Iterator[Date]:
    """The (year, month, day) of each date in the text."""
    text = text.lower()
    for pattern in (ISO, CHINESE):
        yield from ((int(year) if year else None, int(month), int(day)) for year, month, day in pattern.findall(text))
    for day, month, year in DAY_FIRST.findall(text):
        yield (int(year) if year else None, _month(month), int(day))
    for month, day, year in MONTH_FIRST.findall(DAY_FIRST.sub(" ", text)):
        yield (int(year) if year else None, _month(month), int(day))


def _month(word: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(word[:3]))


def weekdays(text: str) -> Iterator[int]:
    """Each weekday in the text, from 0 for Monday."""
    for english, chinese in WEEKDAY.findall(text.lower()):
        yield DAYS.index(english) if english else HANZI_DAYS.index(chinese.replace("天", "日"))
