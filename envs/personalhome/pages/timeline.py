"""A timeline as a grid: a lane for each person, a column for each month or hour, and a dot for each row.

Invariants: every row has a dot in the lane of everybody that it is about, or in the lane of the home; columns have no gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from homerl.envs.personalhome.pages.replay import FactMark

HOME = "home"


@dataclass(frozen=True)
class TimelineEntry:
    """A memory, an event of the last day or an event of a video. `about` are the ids of those that it is about.

    `id` is the id of the fact, `kind` a word for what happened, and `note` what is said beside the text.
    """

    id: str
    time: datetime
    text: str
    note: str
    kind: str
    about: tuple[str, ...]
    mark: FactMark

    @property
    def html_anchor(self) -> str:
        """The HTML id of its row."""
        return self.id.replace(":", "-")


@dataclass(frozen=True)
class TimelineColumn:
    """A month or an hour. `major` says that its label is shown where there is little room."""

    label: str
    group: str
    major: bool


@dataclass(frozen=True)
class TimelineLane:
    """The entries of a person, or of the home, by column."""

    name: str
    cells: tuple[tuple[TimelineEntry, ...], ...]


@dataclass(frozen=True)
class Timeline:
    """A grid. `groups` are the names of years or days with their numbers of columns."""

    columns: tuple[TimelineColumn, ...]
    lanes: tuple[TimelineLane, ...]

    @property
    def column_groups(self) -> list[tuple[str, int]]:
        """(name, number of columns) of each year or day."""
        return [(name, len(list(columns))) for name, columns in groupby(self.columns, key=lambda column: column.group)]


def timeline_by_month(entries: Sequence[TimelineEntry], people: Mapping[str, str], now: datetime) -> Timeline:
    """The entries by month, from the first one to now. `people` are the names of the lanes by id."""
    first = min((entry.time for entry in entries), default=now)
    months = range(_month(first), _month(max(now, *(entry.time for entry in entries), now)) + 1)
    columns = [TimelineColumn(f"{datetime(2000, at % 12 + 1, 1):%b}", str(at // 12), at % 3 == 0) for at in months]
    return Timeline(tuple(columns), _lanes(entries, people, lambda entry: _month(entry.time) - months[0], len(columns)))


def timeline_by_hour(entries: Sequence[TimelineEntry], people: Mapping[str, str], now: datetime) -> Timeline:
    """The entries by hour, from the first one to now."""
    first = min((entry.time for entry in entries), default=now).replace(minute=0, second=0)
    hours = int((now - first) / timedelta(hours=1)) + 1
    times = [first + timedelta(hours=at) for at in range(hours)]
    columns = [TimelineColumn(f"{time:%H}", f"{time:%m-%d}", time.hour % 3 == 0) for time in times]
    place: Callable[[TimelineEntry], int] = lambda entry: int((entry.time - first) / timedelta(hours=1))  # noqa: E731
    return Timeline(tuple(columns), _lanes(entries, people, place, hours))


def _lanes(
    entries: Iterable[TimelineEntry], people: Mapping[str, str], column: Callable[[TimelineEntry], int], width: int
) -> tuple[TimelineLane, ...]:
    cells: dict[str, list[list[TimelineEntry]]] = {id: [[] for _ in range(width)] for id in (*people, HOME)}
    for entry in entries:
        for id in [one for one in entry.about if one in people] or [HOME]:
            cells[id][min(max(column(entry), 0), width - 1)].append(entry)
    kept = [id for id in cells if id in people or any(cells[id])]
    return tuple(TimelineLane(people.get(id, HOME), tuple(map(tuple, cells[id]))) for id in kept)


def _month(time: datetime) -> int:
    return 12 * time.year + time.month - 1
