"""Durations as Home Assistant writes them, and the clock of a home.

Invariant: what is none is None, and never guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

DURATION = re.compile(r"(-?)(?:(\d+) days?, )?(\d+):(\d\d)(?::(\d\d)(?:\.\d+)?)?")


def parse_clock_duration(text: str) -> int | None:
    """The seconds of a duration, such as `0:45:00` or `-00:02:00`."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups()[1:])
    total = days * 86400 + hours * 3600 + minutes * 60 + rest
    return -total if match[1] else total


def format_timestamp(timestamp: str, zone: tzinfo) -> str:
    """A moment in seconds since 1970, as a text; empty for what is none."""
    try:
        return str(datetime.fromtimestamp(float(timestamp), zone))
    except (ValueError, OverflowError, OSError):
        return ""


def local_clock(moment: datetime, zone: tzinfo) -> int:
    """A moment as the clock of a home in this zone shows it: local time, in seconds since 1970. `moment` has a zone."""
    return int(moment.astimezone(zone).replace(tzinfo=UTC).timestamp())
