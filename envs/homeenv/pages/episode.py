"""An episode of HomeEnv as one HTML file: the dialogue step by step, and the home after each step beside it.

The trajectory is replayed to draw it. Each step shows its calls and results, what it changed, which goals Φ are met after
it, and its rewards as stored. The home is drawn as on the page of homes.

Invariants: the page is one file without network; its script only plays what can be chosen by hand without it; all texts are
escaped; a replay that differs from the record is refused; equal trajectories give equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

from homerl.envs.homeenv.pages.device_summary import value_with_unit
from homerl.envs.homeenv.pages.home_page import HomeView
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.goals import describe_goals
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.host.html_pages import load_template
from homerl.play.replay import begin_replay, replay_as_recorded
from homerl.play.trajectory import ShownStep, Trajectory, show_dialogue
from homerl.worlds.registry import restore_situation


@dataclass(frozen=True)
class ChangeView:
    """What a step changed: whose, what and how in words, and its exact name. `measured` says that nobody set it."""

    whose: str
    what: str
    before: str
    after: str
    exact: str
    measured: bool = False


@dataclass(frozen=True)
class HomeStepView:
    """One step: its number, its words and calls, what changed, which goals are met after it, and the drawing after it."""

    number: int
    shown: ShownStep
    changes: tuple[ChangeView, ...]
    met: tuple[bool, ...]
    newly: frozenset[int]
    lost: frozenset[int]
    state: int

    @property
    def made_changes(self) -> list[ChangeView]:
        """The changes that somebody made."""
        return [change for change in self.changes if not change.measured]

    @property
    def measured_changes(self) -> list[ChangeView]:
        """The changes that follow from them, or from the time that passed."""
        return [change for change in self.changes if change.measured]


@dataclass(frozen=True)
class HomeDrawing:
    """A drawing of the home. `marked` are the anchors of the devices that changed since the drawing before."""

    view: HomeView
    marked: tuple[str, ...]


Moment = tuple[Home, tuple[bool, ...]]  # the home, and which goals are met


def replay_moments(trajectory: Trajectory, where: str) -> list[Moment]:
    """The home and the goals at the start and after each step. Raises `InputError` if the replay differs from the record."""
    episode = begin_replay(trajectory, restore_situation)
    situation = home_situation_of(episode)
    moments = chain([0], replay_as_recorded(episode, trajectory, where))  # 0 is the start
    return [(situation.home.fork(), situation.met()) for _ in moments]


class HomeEpisodePage:
    """All that the template shows. `goals` are Φ in words and as exact text, and `begun` are those met at the start."""

    def __init__(self, trajectory: Trajectory, where: str = "trajectory") -> None:
        exact = [text for intent in trajectory.blueprint["intents"] for text in describe_goals(intent)]
        played = replay_moments(trajectory, where)
        self.states, drawn = _draw_states([home for home, _ in played])
        self.trajectory, self.dialogue = trajectory, show_dialogue(trajectory, exact)
        numbers = count(1)
        self.turns = [
            (utterance, [_make_step_view(number, step, played, drawn) for step, number in zip(steps, numbers)])
            for utterance, steps in self.dialogue.turns
        ]
        # Goals are shown with the names of devices in place of their ids.
        named = _device_names(played[0][0])
        id = re.compile(r"""device\((["'])(.+?)\1\)\.""")
        self.goals = [(id.sub(lambda match: f"{named.get(match[2], match[2])} ", goal), goal) for goal in exact]
        self.begun, self.met = played[0][1], played[-1][1]

    @property
    def all_steps(self) -> list[HomeStepView]:
        """The steps of all turns."""
        return [step for _, steps in self.turns for step in steps]

    @property
    def rewards_by_step(self) -> list[float]:
        """The reward of each step, all parts together; empty if none were stored."""
        return [sum(rewards.values()) for rewards in self.trajectory.rewards]

    @property
    def total_reward(self) -> float:
        """The sum of all rewards."""
        return sum(self.rewards_by_step)


def _device_names(home: Home) -> dict[str, str]:
    return {device.did: f"{device.room.name} {device.name}" for device in home.plan.devices}


def _make_step_view(number: int, shown: ShownStep, played: list[Moment], drawn: list[int]) -> HomeStepView:
    (before, had), (after, has) = played[number - 1 : number + 1]
    newly, lost = (frozenset(i for i, now in enumerate(has) if now != had[i] and now is gained) for gained in (True, False))
    return HomeStepView(number, shown, tuple(find_home_changes(before, after)), has, newly, lost, drawn[number])


def find_home_changes(before: Home, after: Home) -> Iterator[ChangeView]:
    """What differs between two moments of a home: devices first, automations last."""
    plan = before.plan
    for change in sorted(before.diff(after), key=lambda change: plan.slots[change.slot].owner not in plan.devices_by_did):
        slot = plan.slots[change.slot]
        if getattr(slot.type, "internal", False):
            continue
        device = plan.devices_by_did.get(slot.owner)
        room = plan.rooms_by_id.get(slot.owner)
        whose = f"{device.room.name}: {device.name}" if device else room.name if room else slot.owner
        measured = device is None or getattr(slot.type, "read_only", False)
        was, now = (value_with_unit(slot.type, _shorten_value(value)) for value in (change.before, change.after))
        yield ChangeView(whose, slot.path.replace("_", " "), was, now, str(slot), measured)
    old, new = ({rule.id: _rule_as_text(rule.describe_rule(), home) for rule in home.rules} for home in (before, after))
    for id in sorted(old | new):
        if old.get(id) != new.get(id):
            yield ChangeView("automation", id, old.get(id, "none"), new.get(id, "removed"), f"automation.{id}")


def _shorten_value(value: Any) -> Any:
    """A value without the digits that nobody reads, and with words for yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return round(value, 1) if isinstance(value, float) else value


def _rule_as_text(rule: Mapping[str, Any], home: Home) -> str:
    """An automation as one line: `when time_cron = 0 5 9 ? * * and ...: bedroom lamp turn_off()`."""
    named = _device_names(home)
    given = (", ".join(f"{name}={value!r}" for name, value in act["arguments"].items()) for act in rule["actions"])
    calls = (f"{named.get(act['did'], act['did'])} {act['locator']}({args})" for act, args in zip(rule["actions"], given))
    hold = f" for {rule['hold_seconds']} s" if rule.get("hold_seconds") else ""
    off = "" if rule["enabled"] else "off: "
    return f"{off}when {' and '.join(rule['conditions'])}{hold}: {', '.join(calls)}"


def _draw_states(homes: list[Home]) -> tuple[tuple[HomeDrawing, ...], list[int]]:
    """The drawings of all distinct moments, and for each moment the index of its drawing."""
    states, drawn = [HomeDrawing(HomeView("s0", "Home", homes[0], columns=SIDE), ())], [0]
    for before, after in pairwise(homes):
        if before.clock != after.clock or before.diff(after):
            view = HomeView(f"s{len(states)}", "Home", after, columns=SIDE)
            changed = {after.plan.slots[change.slot].owner for change in before.diff(after)}
            tiles = (tile for tiles in view.room_tiles.values() for tile in tiles)
            states.append(HomeDrawing(view, tuple(tile.anchor for tile in tiles if tile.device.did in changed)))
        drawn.append(len(states) - 1)
    return tuple(states), drawn


SIDE = 5  # columns of a floor that stands beside the dialogue


def render_home_episode(trajectory: Trajectory, where: str = "trajectory") -> str:
    """The page as HTML."""
    return load_template(Path(__file__).with_name("episode.html.jinja")).render(page=HomeEpisodePage(trajectory, where))
