"""Texts that tell a date, a time of day or both, each in one way of writing.

Invariant: a canonical text is its own canonical text; what is no such moment is None.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Format = Literal["date", "time", "datetime", "instant"]  # an instant is one moment everywhere, told in UTC
PATTERNS: dict[Format, str] = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM:SS",
    "datetime": "YYYY-MM-DD HH:MM:SS",
    "instant": "YYYY-MM-DDTHH:MM:SS+00:00",
}
FIRST = datetime(2026, 1, 1)  # of the year from which moments are drawn


def canonical_moment(kind: Format, text: str, zone: str | None = None) -> str | None:
    """The one way to write a moment: `07:30:00` for `7:30`. An instant that names no zone is one of `zone`."""
    try:
        if kind == "time":
            hour, _, rest = text.partition(":")
            return time.fromisoformat(f"{hour:0>2}:{rest}").replace(tzinfo=None).isoformat("seconds") if rest else None
        if kind == "date":
            return date.fromisoformat(text).isoformat()
        moment = datetime.fromisoformat(text)
        if kind == "datetime":
            return moment.replace(tzinfo=None).isoformat(" ", "seconds")
        return (
            (moment if moment.tzinfo else moment.replace(tzinfo=time_zone_of(zone)))
            .astimezone(UTC)
            .isoformat("T", "seconds")
        )
    except (ValueError, OverflowError):
        return None


def draw_moment_text(kind: Format, rng: random.Random) -> str:
    """A moment of the year 2026, at a full minute."""
    moment = FIRST + timedelta(minutes=rng.randrange(365 * 24 * 60))
    parts = {"date": moment.date().isoformat(), "time": moment.time().isoformat()}
    return canonical_moment(kind, parts.get(kind, moment.isoformat())) or ""


def time_zone_of(name: str | None) -> tzinfo:
    """The time zone of a name; UTC for none, and on a machine that does not know the zone."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
