"""A home on the terminal: rooms side by side, in each its devices with their states."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from homerl.worlds.homeenv.pages.home import HomeView, Tile

STYLES = {"on": "bold cyan", "alert": "bold yellow", "off": "dim", "plain": ""}
WIDTH = 38  # columns of a room


def listing(view: HomeView) -> RenderableType:
    """The rooms that have devices, and the names of the others in one line."""
    rooms = [view.rooms[id] for id, tiles in view.tiles.items() if tiles]
    empty = [room.name for room in view.rooms.values() if not view.tiles[room.id]]
    date, time = view.when
    head = Text.assemble((time, "bold"), f"  {date}, {view.sky}")
    panels = [
        Panel(
            _devices(view.tiles[room.id]), title=Text(room.name, "bold"), title_align="left", width=WIDTH,
            subtitle=Text(_air(view, room.id), "dim"), subtitle_align="left", border_style="dim",
        )
        for room in rooms
    ]  # fmt: skip
    rest = [Text(f"without devices: {', '.join(empty)}", "dim")] if empty else []
    return Group(head, Columns(panels), *rest)


def _air(view: HomeView, room: str) -> str:
    air = view.air(room)
    return f"{air['temperature']} · {air['humidity']}"


def _devices(tiles: list[Tile]) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right")
    for tile in tiles:
        table.add_row(Text(tile.device.name), Text(tile.summary.words, STYLES[tile.summary.tone]))
    return table
