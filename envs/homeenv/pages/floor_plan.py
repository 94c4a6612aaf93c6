"""Floor plans: the levels on which rooms are drawn, and the layout of rooms and device tiles in the columns of a page.

A room is drawn on its floor, unless its name tells otherwise of a room on floor 0: HomeMaker names rooms of one-storey
homes `attic` or `basement` too. Agents are told the floor of the home file; only the page draws an attic above all floors,
and a basement below them.

A plan is a guillotine cut: a floor is divided into a row or a stack of two parts, and each part is divided again, down to
rooms. A room is divided in the same way between its own tiles and its nested rooms. Rooms keep their order. A search over
intervals (first room, last room, columns) finds the cut with the least height, empty space, and long thin rooms.

Invariants: every room and its tiles are drawn exactly once, and a nested room lies inside its parent; the widths in a row
add up to its columns; heights are estimates that only select the cut, so larger text is never clipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from homerl.envs.homeenv.sim.devices.rooms import Room

ROOF, CELLAR = math.inf, -math.inf
NAMED = {  # the level that a name tells of
    ROOF: re.compile(r"\b(attic|loft)\b|阁楼", re.IGNORECASE),
    CELLAR: re.compile(r"\b(basement|cellar)\b|地下室", re.IGNORECASE),
    1: re.compile(r"\bupstairs\b|楼上", re.IGNORECASE),
}


def drawn_level(room: Room) -> float:
    """The room's floor, or on floor 0 the level that its name tells of."""
    told = (level for level, names in NAMED.items() if names.search(room.name))
    return room.floor or next(told, 0)


def level_name(level: float) -> str:
    """The level's name on the page."""
    names = {ROOF: "Attic", CELLAR: "Basement", 0: "Ground floor"}
    return names.get(level) or (f"Floor {level}" if level > 0 else f"Basement {-level}")


COLUMNS = 7  # columns of a floor; a tile is one column wide
TILE, HEAD, NARROW_HEAD, GAP, EDGE = 74, 34, 60, 6, 18  # pixels, as in home.css
EMPTY, THIN, LONG = 4, 12, 3  # penalties of an empty place, and of each row beyond LONG times the tiles side by side
GROUP = 10  # the most rooms in one search; longer floors are stacks of such groups


@dataclass(frozen=True)
class PlanBlock:
    """A part of the plan that is `columns` wide.

    `height` is in pixels. `room` is a room's id, and `across` the number of its tiles side by side. `ugly` is the penalty
    for empty space and long thin rooms, in pixels of height.
    """

    kind: Literal["tiles", "room", "row", "stack"]
    columns: int
    height: float
    ugly: float
    room: str = ""
    across: int = 0
    parts: tuple[PlanBlock, ...] = ()


Fit = Callable[[int], PlanBlock]  # the layout for a given number of columns


def floor_plan(rooms: Sequence[Room], counts: dict[str, int], columns: int = COLUMNS) -> PlanBlock | None:
    """The plan of a floor, or None without rooms; `counts` are the numbers of devices by room id.

    A nested room is drawn inside its parent, wherever the parent is.
    """
    inside: dict[str | None, list[Room]] = {}
    ids = {room.id for room in rooms}
    for room in rooms:
        inside.setdefault(room.parent if room.parent in ids else None, []).append(room)
    fits = [_fit_room(room, inside, counts) for room in inside.get(None, [])]
    return _best_cut(fits)(columns) if fits else None


def _fit_room(room: Room, inside: dict[str | None, list[Room]], counts: dict[str, int]) -> Fit:
    """The layout of a room: its own tiles first, then its nested rooms."""
    own = [_fit_tiles(room.id, counts[room.id])] if counts.get(room.id) else []
    content = _best_cut([*own, *(_fit_room(child, inside, counts) for child in inside.get(room.id, ()))])

    @cache
    def fit(columns: int) -> PlanBlock:
        part = content(columns)
        height = (NARROW_HEAD if columns == 1 else HEAD) + EDGE + part.height
        return PlanBlock("room", columns, height, part.ugly, room.id, parts=(part,))

    return fit


def _fit_tiles(room: str, count: int) -> Fit:
    """The layout of a room's own devices, in rows of nearly equal length."""

    def fit(columns: int) -> PlanBlock:
        rows = math.ceil(count / columns)
        across = math.ceil(count / rows)
        ugly = EMPTY * (columns * rows - count) + THIN * max(0, rows / across - LONG) ** 2
        return PlanBlock("tiles", columns, rows * (TILE + GAP), ugly, room, across)

    return fit


def _best_cut(fits: Sequence[Fit]) -> Fit:
    """The best cut of several parts."""
    if len(fits) > GROUP:
        half = math.ceil(len(fits) / GROUP) // 2 * GROUP
        first, second = _best_cut(fits[:half]), _best_cut(fits[half:])
        return lambda columns: _stack_blocks(first(columns), second(columns))

    @cache
    def best(start: int, end: int, columns: int) -> PlanBlock:
        if end - start <= 1:
            return fits[start](columns) if fits else PlanBlock("stack", columns, 0, 0)
        shape: PlanBlock = min(cuts(start, end, columns), key=lambda shape: shape.height + shape.ugly)
        return shape

    def cuts(start: int, end: int, columns: int) -> Iterator[PlanBlock]:
        for middle in range(start + 1, end):
            for left in range(1, columns):
                yield _place_side_by_side(best(start, middle, left), best(middle, end, columns - left))
            yield _stack_blocks(best(start, middle, columns), best(middle, end, columns))

    return lambda columns: best(0, len(fits), columns)


def _place_side_by_side(left: PlanBlock, right: PlanBlock) -> PlanBlock:
    """Two parts side by side. The lower one is stretched, which leaves empty space."""
    stretched = min(left, right, key=lambda shape: shape.height)
    height = max(left.height, right.height)
    lost = (height - stretched.height) / TILE
    ugly = left.ugly + right.ugly + EMPTY * lost**2 * stretched.columns
    return PlanBlock("row", left.columns + right.columns, height, ugly, parts=(left, right))


def _stack_blocks(upper: PlanBlock, lower: PlanBlock) -> PlanBlock:
    height = upper.height + GAP + lower.height
    return PlanBlock("stack", upper.columns, height, upper.ugly + lower.ugly, parts=(upper, lower))
