"""What differs between two states of a home, in people's words.

Invariant: what devices keep to themselves is not told, nor the air and the weather, which nobody switches, nor what a device
has no value of any more because its state is another: a lamp that is off has no brightness.

A home on the terminal: rooms side by side, in each its devices with their states.

HomeEnv's homes as a person visits them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from homerl.envs.core.documents import Document, InputError, validate_document
from homerl.envs.homeenv.agents.named_agents import BASELINES
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.pages.device_summary import STATES, value_with_unit
from homerl.envs.homeenv.pages.home_page import DeviceTile, HomeView
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home
from homerl.envs.homeenv.sim.state.rules_and_programs import HomeRule
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Profile
from homerl.envs.homeenv.tasks.situation import HomeSituation
from homerl.host.html_pages import identifier_to_words, load_template
from homerl.play.loop import Agent
from homerl.play.words.grammar import normalise_spaces
from homerl.worlds.home_visits import DrawingStyle, HomeChange, Visits

NONE = "none"  # of an automation that is not there


def find_visit_changes(before: Home, after: Home) -> Iterator[HomeChange]:
    """The changes of devices in the plan's order, then those of automations, then the clock's."""
    yield from _of_devices(before, after)
    yield from _of_automations(before, after)
    if before.clock != after.clock:
        yield HomeChange("", "the clock", "", _time(before), _time(after))


def device_with_room(device: Device) -> str:
    """A device as people tell it from others: with its room, unless its name says the room."""
    room = device.room.name
    return device.name if room.lower() in device.name.lower() else normalise_spaces(f"{room} {device.name}")


def _of_devices(before: Home, after: Home) -> Iterator[HomeChange]:
    plan, found = before.plan, before.diff(after)
    switched = {plan.slots[one.slot].owner for one in found if plan.slots[one.slot].path == "state"}
    for one in found:
        slot = plan.slots[one.slot]
        if one.after is None and slot.owner in switched:
            continue
        device = plan.devices_by_did.get(slot.owner)
        if device is not None and not getattr(slot.type, "internal", False):
            what, old, new = _path(slot.path), _value(slot.type, one.before), _value(slot.type, one.after)
            yield HomeChange(slot.owner, device_with_room(device), what, old, new)


def _path(path: str) -> str:
    """A path in words. The state of a device, or of its component, goes without saying."""
    component, _, name = path.rpartition(".")
    return identifier_to_words(component if name in STATES else path).replace(".", " ")


def _value(kind: ValueType, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value is None or value == "" else identifier_to_words(value_with_unit(kind, value))


def _of_automations(before: Home, after: Home) -> Iterator[HomeChange]:
    old, new = ({rule.id: rule for rule in home.rules} for home in (before, after))
    for id in sorted(old | new):
        was, now = (_rule(rules.get(id)) for rules in (old, new))
        if was != now:
            title = (new.get(id) or old[id]).definition.title
            yield HomeChange(f"automation.{id}", f"automation {title or id}", "", was, now)


def _rule(rule: HomeRule | None) -> str:
    if rule is None:
        return NONE
    told = rule.describe_rule()
    does = ", ".join(f"{action['locator']} of {action['did']}" for action in told["actions"])
    return f"{' and '.join(told['conditions']) or 'never'}: {does}{'' if told['enabled'] else ' (switched off)'}"


def _time(home: Home) -> str:
    return f"{datetime.fromtimestamp(home.clock, UTC):%A %H:%M:%S}"


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


PAGES = Path(__file__).parents[1] / "pages"
NEEDS_TASK = ("expert",)  # baselines that hold the plan of a task, and understand no words
SOMEBODY = Profile(
    name="somebody", age=0, gender="", height_cm=0, weight_kg=0, health="", habits=(), preferences={}
)  # nobody knows who speaks


class HomeVisits(Visits):
    """A home of a file, or one that a seed makes by the recipe."""

    def blueprint(self, recipe: Mapping[str, Any], home: Path | None, seed: int) -> Blueprint:
        """The visit of a home, with the recipe's tools, prompt and language."""
        toolset = recipe.get("toolset") or "homeflow"
        if toolset not in TOOLSETS:
            raise InputError(f"there is no toolset '{toolset}' here", "toolset", "HOMERL_TOOLSETS must name its folder")
        told = recipe.get("home") or {}
        found = load_home(home) if home else _home_of(told, seed)
        return Blueprint(
            id=f"visit-{seed}", seed=seed, split="heldout", profile=SOMEBODY, scene="", home=home_to_json(found), visit=True,
            intents=(), preserve=False, toolset=toolset, prompt=recipe.get("prompt") or "brief",
            language=recipe.get("language") or told.get("language") or "en",
        )  # fmt: skip

    @property
    def agents(self) -> Mapping[str, Callable[[], Agent]]:
        """The baselines, without those that need a task."""
        return {name: agent for name, agent in BASELINES.items() if name not in NEEDS_TASK}

    def listed(self, situation: HomeSituation) -> RenderableType:
        """The rooms and devices, see `listing`."""
        return list_home_devices(_view(situation.home))

    def drawn(self, situation: HomeSituation) -> str:
        """The home as its page draws it (`pages.home`)."""
        return str(_template("home_alone.html.jinja").render(view=_view(situation.home)))

    @property
    def look(self) -> DrawingStyle:
        """The style and the icons of the page of homes."""
        css, icons = ((PAGES / name).read_text(encoding="utf-8") for name in ("home.css", "icons.svg"))
        return DrawingStyle(css, icons)

    def changes(self, before: HomeSituation, after: HomeSituation) -> Iterator[HomeChange]:
        """The changes of devices and automations, see `changes`."""
        return find_visit_changes(before.home, after.home)


def _home_of(told: Mapping[str, Any], seed: int) -> Home:
    """The home of a blueprint, or the home of a seed by a recipe of homes."""
    if "outdoors" in told:  # a home, and no recipe of homes
        return home_from_json(told, "the home of the run's first blueprint")
    return make_home(seed, validate_document(HomeRecipe, Document("the recipe's homes", dict(told), {})))


def _view(home: Home) -> HomeView:
    return HomeView("h1", "Home", home)


@cache
def _template(name: str) -> Any:
    return load_template(PAGES / name)
