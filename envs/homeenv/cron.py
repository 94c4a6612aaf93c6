"""Cron lines: at which seconds a line of 5, 6 or 7 fields comes due.

A line has 5 fields, or 6 with the seconds first, or 7 with the year last (then Sunday is day 1).

Invariant: the times are a function of the line and of the clock alone, the same in every process.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from copy import copy
from functools import lru_cache
from itertools import product

from croniter import CroniterBadCronError, CroniterBadDateError, croniter

from envs.homeenv.audit import Refused
from envs.homeenv.types import SHOWN, clip, shown

DAY = 86400  # seconds
QUARTZ_DAY = re.compile(r"(?<![#\w])([1-7])(?!\w)")
ANY_TIME = re.compile(r"(?i)(?<![a-z])[hr](?![a-z])")  # a time that croniter draws, another in every process


def next_time(cron: str, after: int) -> int | None:
    """The first time of a cron line after a moment, both in seconds since the epoch; None where it has none left.

    Raises `Refused` where the line is no cron line.
    """
    day, first = after - after % DAY, _first_time(cron, after - after % DAY)
    if first is None or first > after:
        return first
    times = _times_of_day(cron)
    index = bisect_right(times, after - day)
    return day + times[index] if index < len(times) else _first_time(cron, day + DAY)


@lru_cache(maxsize=1 << 12)
def _first_time(cron: str, day: int) -> int | None:
    """The first time from the beginning of a day on: which days a line means is croniter's business."""
    try:
        return int(copy(read_cron(cron)).get_next(float, start_time=day - 1))
    except (CroniterBadDateError, OverflowError, ValueError):  # none within croniter's 50 years, or none on the calendar
        return None


@lru_cache(maxsize=64)
def _times_of_day(cron: str) -> array[int]:
    """The seconds of a day that a line names, where it names the day."""
    minutes, hours, *days = read_cron(cron).expanded
    seconds = days[3] if len(days) > 3 else [0]
    fields = [range(n) if field == ["*"] else field for field, n in ((hours, 24), (minutes, 60), (seconds, 60))]
    return array("i", (3600 * hour + 60 * minute + second for hour, minute, second in product(*fields)))


@lru_cache(maxsize=4096)
def read_cron(text: str) -> croniter:
    """A cron line, or `Refused`. It is read once and shared: copy it before iterating."""
    fields = text.split()
    if len(fields) == 7:
        fields[5] = QUARTZ_DAY.sub(lambda day: str(int(day[1]) - 1), fields[5])
    line = " ".join(fields)
    try:
        if ANY_TIME.search(line):
            raise CroniterBadCronError("a time must not be left to chance")
        return croniter(line, second_at_beginning=True)
    except (CroniterBadCronError, ValueError, LookupError, AttributeError, TypeError) as error:
        reason = clip(str(error), SHOWN)
        raise Refused("wrong_type", f"{shown(text)} is no cron line of 5, 6 or 7 fields: {reason}") from None
