"""An HTML page of homes: the floor plan, the state of every device, and its services.

A room is drawn on its floor, unless its name tells otherwise of a room on floor 0: HomeMaker names rooms of one-storey
homes `attic` or `basement` too. Agents are told the floor of the home file; only the page draws an attic above all floors,
and a basement below them.

A plan is a guillotine cut: a floor is divided into a row or a stack of two parts, and each part is divided again, down to
rooms. A room is divided in the same way between its own tiles and its nested rooms. Rooms keep their order. A search over
intervals (first room, last room, columns) finds the cut with the least height, empty space, and long thin rooms.

Invariants:
- The page is self-contained: it needs no network, and its only script is the filter, without which it shows everything.
- The template escapes all text of a home. Equal homes and names give equal bytes.
- Every room and device is drawn once, and a nested room lies inside its parent. The widths in a row add up to its columns.
- Heights are estimates that only select the cut, so larger text is never clipped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from homerl.envs.core.documents import write_atomic
from homerl.envs.homeenv.pages.device_summary import DeviceSummary, device_summary, value_with_unit
from homerl.envs.homeenv.sim.devices.air_physics import MEASURED, measured_quantities
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import load_home
from homerl.host.html_pages import load_template

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


# A symbol in the file is an icon, so adding one needs no change here.
ICONS = frozenset(
    re.findall(r'id="i-(\w+)"', (resources.files("homerl.envs.homeenv.pages") / "icons.svg").read_text("utf-8"))
)
DAY, NIGHT = 1000.0, 10.0  # lux outdoors: day from the first on, night below the second
FEW, FEW_COLUMNS = 14, 5  # a home whose floors have at most FEW rooms and devices is drawn in FEW_COLUMNS


@dataclass(frozen=True)
class DeviceTile:
    """A device on the plan. `anchor` is its HTML id, unique in the page."""

    anchor: str
    device: Device
    values: dict[str, Any]

    @cached_property
    def tile_summary(self) -> DeviceSummary:
        """The summary that the tile shows."""
        return device_summary(self.device.spec, self.values)

    @property
    def category_words(self) -> str:
        """The category in words."""
        return self.device.spec.category.replace("_", " ")

    @property
    def product_words(self) -> str:
        """The kind of device in words; empty if its name says so: people call devices what they like."""
        found = self.device.spec.name.replace("_", " ")
        return "" if found.lower() in self.device.name.lower() else found

    @property
    def icon_name(self) -> str:
        """The category's icon, or the generic icon for an unknown category."""
        name = self.device.spec.category
        if name == "lock" and self.values.get("state") == "unlocked":
            name = "lock_open"
        return name if name in ICONS else "generic"

    @property
    def search_text(self) -> str:
        """The text that the filter searches."""
        device = self.device
        known = (device.name, device.did, device.room.name, self.category_words, device.spec.name, self.tile_summary.words)
        return " ".join(" ".join(known).replace("_", " ").lower().split())

    def attribute_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """(path, value, type, description) of each attribute."""
        for path, kind in self.device.spec.readable_attributes.items():
            yield path, value_with_unit(kind, self.values[path]), kind.describe_type(), kind.description or ""

    def service_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """(path, arguments with types, description, precondition) of each service."""
        for path, compiled in self.device.spec.service_index.items():
            service = compiled.service
            arguments = ", ".join(f"{a.name}: {a.describe_type()}" for a in service.arguments)
            yield path, arguments, service.description or "", (service.requires or "").replace("self.", "")


@dataclass(frozen=True)
class FloorView:
    """A floor: its name, its numbers of rooms and devices, and its plan."""

    name: str
    rooms: int
    devices: int
    plan: PlanBlock | None


@dataclass(frozen=True)
class HomeView:
    """A home as the template reads it. `columns` is the width of its floors; None fits it to the home."""

    anchor: str
    name: str
    home: Home
    columns: int | None = None

    @cached_property
    def room_tiles(self) -> dict[str, list[DeviceTile]]:
        """The tiles by room id, in the order of the home's devices."""
        tiles: dict[str, list[DeviceTile]] = {room.id: [] for room in self.home.plan.rooms}
        for number, device in enumerate(self.home.plan.devices):
            tile = DeviceTile(f"{self.anchor}-d{number}", device, self.home.readable_state_of(device.did))
            tiles[device.room.id].append(tile)
        return tiles

    @property
    def rooms_by_id(self) -> dict[str, Room]:
        """The rooms by id."""
        return self.home.plan.rooms_by_id

    @property
    def active_count(self) -> int:
        """The number of active devices."""
        return sum(tile.tile_summary.tone == "on" for tiles in self.room_tiles.values() for tile in tiles)

    @cached_property
    def outdoor_air(self) -> dict[str, str]:
        """The weather, see `rounded_air`."""
        return self.rounded_air(OUTDOORS)

    @property
    def date_and_time(self) -> tuple[str, str]:
        """(date, time) of the home's clock."""
        clock = datetime.fromtimestamp(self.home.clock, UTC)
        return f"{clock:%A}, {clock.day} {clock:%B %Y}", f"{clock:%H:%M}"

    @property
    def sky_phase(self) -> str:
        """`day`, `night`, `dawn` or `dusk`, by the light outdoors."""
        light = self.home.read_value(OUTDOORS, "brightness")
        if light >= DAY:
            return "day"
        return "night" if light < NIGHT else "dawn" if self.home.clock % 86400 < 43200 else "dusk"

    def known_air(self, owner: str) -> dict[str, Any]:
        """What is known of the air of a room or outdoors. In an imported home it is what a device there measures.

        What nothing measures there is assumed, so that the home can be played.
        """
        state = self.home.state_of(owner)
        if self.home.plan.origin is None:
            return state
        measured = {
            quantity for tile in self.room_tiles.get(owner, ()) for _, quantity in measured_quantities(tile.device.spec)
        }
        return {path: state[path] for path, quantity in MEASURED.items() if quantity in measured}

    def rounded_air(self, owner: str) -> dict[str, str]:
        """Rounded temperature, humidity and brightness of a room or outdoors, with units, as far as they are known."""
        state = self.known_air(owner)
        shown = {"temperature": "{:.1f} °C", "humidity": "{:.0f} %", "brightness": "{:,.0f} lx"}
        return {path: how.format(state[path]) for path, how in shown.items() if path in state}

    def exact_air(self, owner: str) -> str:
        """The same values without rounding."""
        return ", ".join(
            f"{path} {value_with_unit(ROOM_STATE[path], value)}" for path, value in self.known_air(owner).items()
        )

    def room_glow(self, room: str) -> int:
        """How bright a room looks, 0 to 100: the logarithm of its brightness, since eyes perceive ratios."""
        return round(100 * min(math.log10(1 + self.home.read_value(room, "brightness")) / 5, 1))

    def floor_views(self) -> Iterator[FloorView]:
        """The floors from the lowest up. Rooms with many devices come first."""
        counts = {room: len(tiles) for room, tiles in self.room_tiles.items()}
        by_floor: dict[float, list[Room]] = {}
        for room in sorted(self.home.plan.rooms, key=lambda room: -self.count_nested_devices(room.id)):
            outermost = room
            while outermost.parent is not None:  # a nested room is on the floor of its outermost parent
                outermost = self.rooms_by_id[outermost.parent]
            by_floor.setdefault(drawn_level(outermost), []).append(room)
        largest = max((len(rooms) + sum(counts[room.id] for room in rooms) for rooms in by_floor.values()), default=0)
        for number, rooms in sorted(by_floor.items()):
            devices = sum(counts[room.id] for room in rooms)
            plan = floor_plan(rooms, counts, self.columns or (COLUMNS if largest > FEW else FEW_COLUMNS))
            yield FloorView(self._storey_names(rooms) or level_name(number), len(rooms), devices, plan)

    def _storey_names(self, rooms: Sequence[Room]) -> str:
        """What the system that the home was imported from calls the floor of these rooms; empty if it does not say."""
        ids, origin = {room.id for room in rooms}, self.home.plan.origin
        return ", ".join(storey.name for storey in (origin.storeys if origin else ()) if not ids.isdisjoint(storey.rooms))

    def count_nested_devices(self, id: str) -> int:
        """The number of devices in a room and in its nested rooms."""
        nested = (room.id for room in self.rooms_by_id.values() if room.parent == id)
        return len(self.room_tiles[id]) + sum(map(self.count_nested_devices, nested))


def write_homes(files: Sequence[Path], out: Path) -> list[HomeView]:
    """Write a page of these home files to `out`; return the views."""
    views = [HomeView(f"h{i}", file.stem, load_home(file)) for i, file in enumerate(files, 1)]
    write_atomic(out, render_homes(views).encode("utf-8", "replace"))
    return views


def render_homes(views: Sequence[HomeView]) -> str:
    """The HTML of the page."""
    tiles = [tile for view in views for tiles in view.room_tiles.values() for tile in tiles]
    counts = Counter(tile.device.spec.category for tile in tiles)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))  # the most frequent category first
    categories = [(name, name.replace("_", " "), name if name in ICONS else "generic", n) for name, n in ranked]
    return load_template(Path(__file__).with_name("home.html.jinja")).render(homes=views, categories=categories)
