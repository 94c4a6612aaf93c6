"""HomeEnv's homes as a person visits them: on the terminal, and what differs between two states, in people's words.

Invariant: some changes are not told: what devices keep to themselves; the air and the weather, which nobody switches; and
what a device has no value of any more because its state is another (a lamp that is off has no brightness).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from homerl.envs.core.documents import Document, InputError, validate_document
from homerl.envs.homeenv.agents import BASELINES
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.pages.device_summary import STATES, value_with_unit
from homerl.envs.homeenv.pages.home_page import HomeView
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Profile
from homerl.envs.homeenv.tasks.situation import HomeSituation
from homerl.host.html_pages import identifier_to_words, load_template
from homerl.play.loop import Agent
from homerl.play.words.grammar import Split, normalise_spaces
from homerl.worlds.visit_contract import DrawingStyle, HomeChange, Visits


def find_visit_changes(before: Home, after: Home) -> Iterator[HomeChange]:
    """The changes of devices in the plan's order, then those of automations, then the clock's.

    A device that is switched loses values, or has them again. That goes without saying, unless it has another one.
    """
    plan, found = before.plan, before.diff(after)
    moved = {(plan.slots[one.slot].owner, plan.slots[one.slot].path) for one in found if one.before is not None}
    switched = {owner for owner, path in moved if path == "state"}
    for one in found:
        slot = plan.slots[one.slot]
        device = plan.devices_by_did.get(slot.owner)
        gone = one.after is None and slot.owner in switched
        again = one.before is None and slot.owner in switched
        sources = _derived_from(device, slot.path) if again and device is not None else []
        same = bool(sources) and all((slot.owner, path) not in moved for path in sources)
        if device is not None and not (gone or same) and not getattr(slot.type, "internal", False):
            # People tell a device from others by its room, unless its name says the room.
            name, room = device.name, device.room.name
            name = name if room.lower() in name.lower() else normalise_spaces(f"{room} {name}")
            # The state of a device, or of its component, goes without saying.
            component, _, attribute = slot.path.rpartition(".")
            what = identifier_to_words(component if attribute in STATES else slot.path).replace(".", " ")
            was, now = (_value_in_words(slot.type, it) for it in (one.before, one.after))
            yield HomeChange(slot.owner, name, what, "" if again else was, now)
    rules_before, rules_after = ({rule.id: rule for rule in home.rules} for home in (before, after))
    for id in sorted(rules_before | rules_after):
        was, now = (_rule_in_words(rules.get(id)) for rules in (rules_before, rules_after))
        if was != now:
            title = (rules_after.get(id) or rules_before[id]).definition.title
            yield HomeChange(f"automation.{id}", f"automation {title or id}", "", was, now)
    if before.clock != after.clock:
        old, new = (f"{datetime.fromtimestamp(home.clock, UTC):%A %H:%M:%S}" for home in (before, after))
        yield HomeChange("", "the clock", "", old, new)


def _derived_from(device: Device, path: str) -> list[str]:
    """The paths from which an attribute is derived, without states; none if it is not derived."""
    prefix = path.rpartition(".")[0]
    derived = device.spec.attribute_index[path][1].derived or ""
    names = (one for one in OWN_NAME.findall(derived) if one not in STATES)
    return [f"{prefix}.{one}" if prefix else one for one in names]


def _value_in_words(kind: ValueType, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value is None or value == "" else identifier_to_words(value_with_unit(kind, value))


def _rule_in_words(rule: HomeRule | None) -> str:
    if rule is None:
        return "none"
    told = rule.describe_rule()
    does = ", ".join(f"{action['locator']} of {action['did']}" for action in told["actions"])
    return f"{' and '.join(told['conditions']) or 'never'}: {does}{'' if told['enabled'] else ' (switched off)'}"


OWN_NAME = re.compile(r"\bself\.(\w+)")  # an attribute in the expression of another
STYLES = {"on": "bold cyan", "alert": "bold yellow", "off": "dim", "plain": ""}
WIDTH = 38  # columns of a room
INNER = WIDTH - 4  # without its frame


def _list_rooms_and_devices(view: HomeView) -> RenderableType:
    """The rooms that have devices, and the names of the others in one line."""
    panels = []
    for id, tiles in ((id, tiles) for id, tiles in view.room_tiles.items() if tiles):
        lines: list[Text] = []  # one for each device, or two if its name and its state do not fit in one
        for tile in tiles:
            summary = tile.tile_summary
            name, state = Text(tile.device.name), Text(summary.words, STYLES[summary.tone], justify="right")
            gap = INNER - name.cell_len - state.cell_len
            lines += [Text.assemble(name, " " * gap, state)] if gap > 0 else [name, state]
        title, air = Text(view.rooms_by_id[id].name, "bold"), view.rounded_air(id)
        known = [air[path] for path in ("temperature", "humidity") if path in air]
        subtitle = Text(" · ".join(known), "dim") if known else None
        panels.append(Panel(
            Group(*lines), title=title, title_align="left", width=WIDTH, subtitle=subtitle, subtitle_align="left",
            border_style="dim",
        ))  # fmt: skip
    empty = [room.name for room in view.rooms_by_id.values() if not view.room_tiles[room.id]]
    date, time = view.date_and_time
    head = Text.assemble((time, "bold"), f"  {date}, {view.sky_phase}")
    rest = [Text(f"without devices: {', '.join(empty)}", "dim")] if empty else []
    return Group(head, Columns(panels), *rest)


PAGES = Path(__file__).parent / "pages"
SUGGESTED, TRIED = 3, 12  # sentences for a person who does not know what to say, and wishes that are drawn for them
NEEDS_TASK = ("expert",)  # baselines that hold the plan of a task, and understand no words
SOMEBODY = Profile(
    name="somebody", age=0, gender="", height_cm=0, weight_kg=0, health="", habits=(), preferences={}
)  # nobody knows who speaks


class HomeVisits(Visits):
    """A home of a file, or one that a seed makes by the recipe, with usual names."""

    def blueprint(self, recipe: Mapping[str, Any], home: Path | None, seed: int) -> Blueprint:
        """The visit of a home, with the recipe's tools, prompt and language."""
        toolset = recipe.get("toolset") or "homeflow"
        if toolset not in TOOLSETS:
            raise InputError(f"there is no toolset '{toolset}' here", "toolset", "HOMERL_TOOLSETS must name its folder")
        told = recipe.get("home") or {}
        if home:
            found = load_home(home)
        elif "outdoors" in told:  # a home of a blueprint, and no recipe of homes
            found = home_from_json(told, "the home of the run's first blueprint")
        else:
            usual = {"coined": 0.0} if told.get("coined") else {}  # a person can read names that no training made up
            found = make_home(seed, validate_document(HomeRecipe, Document("the recipe's homes", {**told, **usual}, {})))
        return Blueprint(
            id=f"visit-{seed}", seed=seed, split="heldout", profile=SOMEBODY, scene="", home=home_to_json(found), visit=True,
            intents=(), preserve=False, toolset=toolset, prompt=recipe.get("prompt") or "brief",
            language=recipe.get("language") or told.get("language") or "en",
        )  # fmt: skip

    @property
    def agents(self) -> Mapping[str, Callable[[], Agent]]:
        """The baselines, without those that need a task."""
        return {name: agent for name, agent in BASELINES.items() if name not in NEEDS_TASK}

    def suggestions(self, situation: HomeSituation) -> Sequence[str]:
        """Wishes of the scripted author for this home, in usual words, each about other devices."""
        from homerl.envs.homeenv.tasks.author import BlueprintRecipe, author_candidate

        visit, found, concerned = situation.blueprint, list[str](), set[str]()
        usual = {"home": {"language": visit.language}, "wordings": {"clear": 1}, "temperature": 0, "phrasings": 1}
        recipe = BlueprintRecipe.model_validate({**usual, "intents": (1, 1), "families": {"atomic": 1}})
        splits: tuple[Split, ...] = ("heldout", "train")  # a home of few kinds of devices may have sentences of one alone
        for split, seed in product(splits, range(TRIED)):
            rng = random.Random(f"suggestions {visit.seed} {seed}")
            made = author_candidate(recipe, split, seed, situation.home.fork(), rng, Counter())
            calls = {call.did for intent in made.intents for call in intent.plan} if made else set()
            if made and not calls & concerned:
                found.append(made.intents[0].queries[0])
                concerned |= calls
            if len(found) == SUGGESTED:
                break
        return found

    def listed(self, situation: HomeSituation) -> RenderableType:
        """The rooms and devices, for the terminal."""
        return _list_rooms_and_devices(HomeView("h1", "Home", situation.home))

    def drawn(self, situation: HomeSituation) -> str:
        """The home as its page draws it (`pages.home_page`)."""
        return str(_load_page_template("home_alone.html.jinja").render(view=HomeView("h1", "Home", situation.home)))

    @property
    def look(self) -> DrawingStyle:
        """The style and the icons of the page of homes."""
        css, icons = ((PAGES / name).read_text(encoding="utf-8") for name in ("home.css", "icons.svg"))
        return DrawingStyle(css, icons)

    def changes(self, before: HomeSituation, after: HomeSituation) -> Iterator[HomeChange]:
        """The changes of devices and automations."""
        return find_visit_changes(before.home, after.home)


@cache
def _load_page_template(name: str) -> Any:
    return load_template(PAGES / name)
