"""What a record keeps of an answer: two records of the same version differ only where Home Assistant does.

Times near now become one moment, ids and secrets become numbers in the order in which they appear, lists without an order
are sorted, and what is random is left out.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

MOMENT = "2026-01-01T00:00:00+00:00"
NEAR = timedelta(days=9)  # a weekly forecast is near
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d:\d\d|Z)?")
SECRET = re.compile(r"\b[0-9a-f]{64}\b")
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ID = re.compile(rf"\b(?:[0-9a-f]{{32}}|{UUID}|[0-7][0-9A-HJKMNP-TV-Z]{{25}})\b")  # the last one is a ULID
FLOATS = {"created_at", "media_position", "modified_at"}  # seconds, of the clock or since a film began
SUN = {"azimuth": 0.0, "elevation": 0.0, "rising": False}  # of sun.sun, by the time of day
RANDOM = ("device_tracker.", "geo_location.", "image_processing.")  # the demo draws their states
UNORDERED = {"allowlist_external_dirs", "components", "whitelist_external_dirs"}


class Normal:
    """Makes answers normal. One instance for all answers of a record, since they share ids."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def __call__(self, value: Any, sort: bool = True) -> Any:
        """The answer as the record keeps it; with its own order if that is what an agent reads."""
        return self._named(_ordered(value) if sort else value)

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            value = value | SUN if SUN.keys() <= value.keys() else value
            return {self._text(key): self._named(_steady(key, one)) for key, one in value.items()}
        if isinstance(value, list):
            return [self._named(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = SECRET.sub("0" * 64, TIME.sub(_moment, text))
        return ID.sub(lambda found: self._ids.setdefault(found[0], f"{len(self._ids) + 1:0{len(found[0])}d}"), text)


def _steady(key: str, value: Any) -> Any:
    """A value that runs with the clock, stopped."""
    if key in FLOATS:
        return 0.0
    if key == "remaining":  # of a timer, up to the next ten seconds
        hours, minutes, seconds = map(int, value.split(":"))
        return str(timedelta(hours=hours, minutes=minutes, seconds=-(-seconds // 10) * 10))
    return value


def _moment(found: re.Match[str]) -> str:
    at = datetime.fromisoformat(found[0])
    near = abs((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)) < NEAR
    return MOMENT if near else found[0]


def _ordered(value: Any, key: str = "") -> Any:
    """The same without what is random, with keys and unordered lists sorted by what is not."""
    if isinstance(value, dict):
        if value.get("entity_id") == "sun.sun":
            value = value | {"state": "below_horizon"}
        return {name: _ordered(one, name) for name, one in sorted(value.items()) if not name.startswith(RANDOM)}
    if isinstance(value, list):
        kept = [_ordered(one) for one in value if not _random(one)]
        rows = all(isinstance(one, dict) and one.keys() & {"created_at", "last_changed"} for one in kept)
        return sorted(kept, key=_faceless) if rows or key in UNORDERED else kept
    return value


def _random(row: Any) -> bool:
    return isinstance(row, dict) and str(row.get("entity_id")).startswith(RANDOM)


def _faceless(row: Any) -> str:
    """The text of a row without its ids and times."""
    lasting = {key: one for key, one in row.items() if key not in FLOATS} if isinstance(row, dict) else row
    return SECRET.sub("", ID.sub("", TIME.sub("", json.dumps(lasting, sort_keys=True))))
