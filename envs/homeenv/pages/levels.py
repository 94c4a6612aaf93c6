"""The level on which a room is drawn: its floor, unless its name tells otherwise of a room on floor 0.

HomeMaker names rooms of one-storey homes `attic` or `basement` too. Agents are told the floor of the home file; only the
page draws an attic above all floors, and a basement below them.
"""

from __future__ import annotations

import math
import re

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
