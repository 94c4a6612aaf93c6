"""Where the person speaks: Home Assistant tells the area of the satellite in its system message, always in English.

Invariants: the last such line counts, since Home Assistant writes it behind the names of entities; a name that no room of
the home has tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from homerl.envs.homeenv.sim.assist.entities import areas_of_plan
from homerl.envs.homeenv.sim.assist.match import is_same_name
from homerl.envs.homeenv.sim.home import Home

TOLD = re.compile(r"^You are in area (.+) and all generic commands", re.M)
FLOOR = re.compile(r" \(floor [^()]*\)$")


def parse_speaker_area(prompts: Iterable[str]) -> str | None:
    """The area, with its floor if it has one, that system messages tell."""
    found = [area for prompt in prompts for area in TOLD.findall(prompt)]
    return found[-1] if found else None


def place_speaker(home: Home, area: str | None) -> Home:
    """A home in which the person speaks in an area, as `area_told` has it, or nobody knows where."""
    told = (area, FLOOR.sub("", area)) if area else ()
    room = next(
        (
            one.room.id
            for by in told
            for one in areas_of_plan(home.plan)
            if any(is_same_name(name, by) for name in one.names)
        ),
        None,
    )
    if room == home.plan.entrance:
        return home
    placed = home.fork()
    placed.plan = replace(home.plan, entrance=room)
    return placed
