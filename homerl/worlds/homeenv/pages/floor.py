"""Floor plans: how rooms and the tiles of their devices share a page's columns.

The plan of a floor is a guillotine cut: a row or a stack of two, of which each is cut again, down to rooms; and the
same within a room, between its own tiles and the rooms it holds. Of all cuts that keep the rooms' order, an interval
search over (first room, last room, columns) finds the one that is lowest, least empty and without long thin rooms.

Invariants: every room and its tiles are drawn exactly once, a nested room inside its parent; the widths in a row sum
to the columns it has; heights are estimates that only choose the cut, so a page whose text is larger clips nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from envs.homeenv.rooms import Room

COLUMNS = 7  # of a floor; one holds one tile
TILE, HEAD, NARROW_HEAD, GAP, EDGE = 74, 34, 60, 6, 18  # pixels, as in home.css
EMPTY, THIN, LONG = 4, 12, 3  # what an empty place costs; what rows beyond three times what is side by side cost
GROUP = 10  # rooms that are searched together; longer floors are stacks of such groups


@dataclass(frozen=True)
class Block:
    """Something drawn `columns` wide. `room` is a room's id, `across` how many of its tiles are side by side.

    `ugly` sums, in pixels of height that it is worth, empty space and long thin rooms.
    """

    kind: Literal["tiles", "room", "row", "stack"]
    columns: int
    height: float
    ugly: float
    room: str = ""
    across: int = 0
    parts: tuple[Block, ...] = ()

    @property
    def cost(self) -> float:
        return self.height + self.ugly


Fit = Callable[[int], Block]  # how something is drawn in so many columns


def floor_plan(rooms: Sequence[Room], counts: dict[str, int], columns: int = COLUMNS) -> Block | None:
    """The rooms in their order, `counts` devices in each; children are drawn wherever their parents are."""
    inside: dict[str | None, list[Room]] = {}
    ids = {room.id for room in rooms}
    for room in rooms:
        inside.setdefault(room.parent if room.parent in ids else None, []).append(room)
    fits = [_room(room, inside, counts) for room in inside.get(None, [])]
    return _cut(fits)(columns) if fits else None


def _room(room: Room, inside: dict[str | None, list[Room]], counts: dict[str, int]) -> Fit:
    """A room: its own tiles first, then the rooms in it."""
    own = [_tiles(room.id, counts[room.id])] if counts.get(room.id) else []
    content = _cut([*own, *(_room(child, inside, counts) for child in inside.get(room.id, ()))])

    @cache
    def fit(columns: int) -> Block:
        parts = (content(columns),)
        height = (NARROW_HEAD if columns == 1 else HEAD) + EDGE + sum(part.height for part in parts)
        return Block("room", columns, height, sum(part.ugly for part in parts), room.id, parts=parts)

    return fit


def _tiles(room: str, count: int) -> Fit:
    """A room's own devices, in rows as even as can be."""

    def fit(columns: int) -> Block:
        rows = math.ceil(count / columns)
        across = math.ceil(count / rows)
        ugly = EMPTY * (columns * rows - count) + THIN * max(0, rows / across - LONG) ** 2
        return Block("tiles", columns, rows * (TILE + GAP), ugly, room, across)

    return fit


def _cut(fits: Sequence[Fit]) -> Fit:
    """Several things in one place."""
    if len(fits) > GROUP:
        half = math.ceil(len(fits) / GROUP) // 2 * GROUP
        first, second = _cut(fits[:half]), _cut(fits[half:])
        return lambda columns: _stack(first(columns), second(columns))

    @cache
    def best(start: int, end: int, columns: int) -> Block:
        if end - start <= 1:
            return fits[start](columns) if fits else Block("stack", columns, 0, 0)
        return min(cuts(start, end, columns), key=lambda shape: shape.cost)

    def cuts(start: int, end: int, columns: int):
        for middle in range(start + 1, end):
            for left in range(1, columns):
                yield _row(best(start, middle, left), best(middle, end, columns - left))
            yield _stack(best(start, middle, columns), best(middle, end, columns))

    return lambda columns: best(0, len(fits), columns)


def _row(left: Block, right: Block) -> Block:
    """Side by side; the lower one is stretched, which leaves it empty there."""
    stretched = min(left, right, key=lambda shape: shape.height)
    height = max(left.height, right.height)
    lost = (height - stretched.height) / TILE
    ugly = left.ugly + right.ugly + EMPTY * lost**2 * stretched.columns
    return Block("row", left.columns + right.columns, height, ugly, parts=(left, right))


def _stack(upper: Block, lower: Block) -> Block:
    height = upper.height + GAP + lower.height
    return Block("stack", upper.columns, height, upper.ugly + lower.ugly, parts=(upper, lower))
