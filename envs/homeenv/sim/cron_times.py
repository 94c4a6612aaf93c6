"""Cron lines: the seconds at which a line is due.

A line has 5 fields, or 6 with seconds as the first, or 7 with the year as the last. With 7 fields, Sunday is day 1.

Invariant: the times are a function of the line and the clock alone, and are the same in every process.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from copy import copy
from functools import lru_cache
from itertools import product

from croniter import CroniterBadCronError, CroniterBadDateError, croniter

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import SHOWN, clip_text, quote_value

DAY = 86400  # seconds
QUARTZ_DAY = re.compile(r"(?<![#/\w])([1-7])(?!\w)")  # neither the count after `#` nor the step after `/`
ANY_TIME = re.compile(r"(?i)(?<![a-z])[hr](?![a-z])")  # croniter's random and hashed times, which differ between processes


def next_cron_time(cron: str, after: int) -> int | None:
    """The first time of a cron line after the second `after`, both in seconds since the epoch; None if there is none.

    Raises `Refused` if the text is no cron line.
    """
    # croniter is slow, so it is asked once a day; the times within a day follow from the fields.
    day, first = after - after % DAY, _first_time(cron, after - after % DAY)
    if first is None or first > after:
        return first
    times = _times_of_day(cron)
    index = bisect_right(times, after - day)
    return day + times[index] if index < len(times) else _first_time(cron, day + DAY)


@lru_cache(maxsize=1 << 12)
def _first_time(cron: str, day: int) -> int | None:
    """The first time from the beginning of a day (s) on, by croniter; None if there is none."""
    try:
        return int(copy(read_cron(cron)).get_next(float, start_time=day - 1))
    except (CroniterBadDateError, OverflowError, ValueError):  # croniter searches 50 years; some dates do not exist
        return None


@lru_cache(maxsize=64)
def _times_of_day(cron: str) -> array[int]:
    """The seconds within a day, in order, at which a line is due on each of its days."""
    minutes, hours, *days = read_cron(cron).expanded
    seconds = days[3] if len(days) > 3 else [0]
    fields = [range(n) if "*" in field else field for field, n in ((hours, 24), (minutes, 60), (seconds, 60))]
    return array("i", (3600 * hour + 60 * minute + second for hour, minute, second in product(*fields)))


@lru_cache(maxsize=4096)
def read_cron(text: str) -> croniter:
    """A parsed cron line. Raises `Refused` if it is invalid. The object is cached and shared: copy it before iterating."""
    fields = text.split()
    if len(fields) == 7:
        fields[5] = QUARTZ_DAY.sub(lambda day: str(int(day[1]) - 1), fields[5])
    line = " ".join(fields)
    try:
        if ANY_TIME.search(line):
            raise CroniterBadCronError("a time must not be left to chance")
        return croniter(line, second_at_beginning=True)
    except (CroniterBadCronError, ValueError, LookupError, AttributeError, TypeError) as error:
        reason = clip_text(str(error), SHOWN)
        raise Refused("wrong_type", f"{quote_value(text)} is no cron line of 5, 6 or 7 fields: {reason}") from None
