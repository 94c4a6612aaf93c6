"""A home on the terminal: rooms side by side, in each its devices with their states."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from homerl.envs.homeenv.pages.home import DeviceTile, HomeView

STYLES = {"on": "bold cyan", "alert": "bold yellow", "off": "dim", "plain": ""}
WIDTH = 38  # columns of a room
INNER = WIDTH - 4  # without its frame


def list_home_devices(view: HomeView) -> RenderableType:
    """The rooms that have devices, and the names of the others in one line."""
    rooms = [view.rooms_by_id[id] for id, tiles in view.room_tiles.items() if tiles]
    empty = [room.name for room in view.rooms_by_id.values() if not view.room_tiles[room.id]]
    date, time = view.date_and_time
    head = Text.assemble((time, "bold"), f"  {date}, {view.sky_phase}")
    panels = [
        Panel(
            _devices(view.room_tiles[room.id]),
            title=Text(room.name, "bold"),
            title_align="left",
            width=WIDTH,
            subtitle=Text(_air(view, room.id), "dim"),
            subtitle_align="left",
            border_style="dim",
        )
        for room in rooms
    ]
    rest = [Text(f"without devices: {', '.join(empty)}", "dim")] if empty else []
    return Group(head, Columns(panels), *rest)


def _air(view: HomeView, room: str) -> str:
    air = view.rounded_air(room)
    return f"{air['temperature']} · {air['humidity']}"


def _devices(tiles: list[DeviceTile]) -> Group:
    """A line a device, or two if its name and its state do not fit in one."""
    lines = []
    for tile in tiles:
        name, state = Text(tile.device.name), Text(tile.tile_summary.words, STYLES[tile.tile_summary.tone], justify="right")
        if (gap := INNER - name.cell_len - state.cell_len) > 0:
            lines.append(Text.assemble(name, " " * gap, state))
        else:
            lines += [name, state]
    return Group(*lines)
