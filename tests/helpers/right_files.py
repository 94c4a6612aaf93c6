"""Valid home and device files for tests that damage them, and the properties of every home that a file gives."""

from __future__ import annotations

import json
import random
from functools import lru_cache

from draws import DAY, ODD, OWN, assert_in_bounds, furnished, lived, own_home, showroom, some_action, whole, with_rules
from hypothesis import strategies as st

from homerl.envs.core.world import check_world
from homerl.envs.homeenv.sim.devices.device_spec import SHIPPED
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json

NUMBERS = st.integers(0, 11)
DEVICE_FILES = (*(path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.yaml"))), OWN, ODD)


@lru_cache(maxsize=16)
def right_home(number: int) -> Home:
    """A home: every fourth one is new, and the others have rules and changing air."""
    rng = random.Random(number)
    home = (own_home(number), showroom(number), furnished("simple", number))[number % 3].fork()
    return home if number % 4 == 0 else lived(with_rules(home, rng, 3), rng, 6)


@lru_cache(maxsize=32)
def right_text(number: int, complete: bool) -> str:
    """The text of a valid home file; `complete` writes its devices in full."""
    return json.dumps(home_to_json(right_home(number), complete), indent=1)


def assert_coherent(home: Home, rng: random.Random) -> None:
    """Assert the invariants of homes: lossless files, values within bounds, and the contract of a world."""
    assert_in_bounds(home)
    for complete in (False, True):
        back = home_from_json(json.loads(json.dumps(home_to_json(home, complete))))
        assert back.state_key() == home.state_key() and whole(back) == whole(home)
    later = home.fork()
    assert back.advance(DAY // 2) == later.advance(DAY // 2) and whole(back) == whole(later)
    assert_in_bounds(later)
    if home.plan.devices and home.plan.rooms:
        actions = [some_action(home, rng) for _ in range(3)]
        check_world(HomeEnv(home, toolset="smh"), [action for action in actions if isinstance(action, dict)])
