"""The tests' home of twelve: entities of the recorded home, in which models are measured that a person would have at home.

`scripts/write_twelve_entity_home FILE` writes it as `homerl import-ha` writes a person's home.
"""

from __future__ import annotations

import sys

from homerl.envs.assistant.home_import import import_home
from homerl.envs.homeenv.sim.home_file import save_home
from tests.envs.assistant.listing.replay import listing, only

TWELVE = (
    "light.bed_light", "light.ceiling_lights", "light.entrance_color_white_lights", "light.kitchen_lights",
    "light.living_room_rgbww_lights", "switch.ac", "switch.decorative_lights", "fan.ceiling_fan", "fan.living_room_fan",
    "cover.garage_door", "cover.hall_window", "cover.kitchen_window",
)  # fmt: skip

if __name__ == "__main__":
    save_home(import_home(only(listing(), TWELVE)).home, sys.argv[1])
