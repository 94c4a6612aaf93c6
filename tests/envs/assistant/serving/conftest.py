"""A home in which an agent can be served, and a caretaker with everything around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from serving import Says, Served, device_of, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.serving.consent import Guard
from homerl.envs.core.messages import Message
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home


@pytest.fixture(scope="module")
def plan_home() -> Home:
    return make_home(2, HomeRecipe(devices=(10, 14), categories=("light", "lock", "fan", "air_conditioner")))


@pytest.fixture
def home(plan_home: Home) -> Home:
    return plan_home.fork()


@pytest.fixture
def serve(home: Home, tmp_path: Path):
    def made(
        mode: str,
        *messages: Message | str,
        allowed: Sequence[str] = (),
        language: str = "en",
        steps: int = 8,
        of: Home = home,
    ) -> Served:
        guard = Guard(frozenset(allowed))
        return serve_home(of, Says(*messages), tmp_path, mode, language=language, guard=guard, steps=steps)

    return made


@pytest.fixture
def lamp(home: Home) -> Device:
    """A lamp that is off."""
    lamp = device_of(home, "light")
    home.call(lamp.did, "turn_off")
    return lamp


@pytest.fixture
def house(tmp_path: Path) -> Home:
    """A home of Home Assistant, with doors."""
    return written_home(
        tmp_path,
        Row("cover.garage_door", "Garage Door", state="closed", device_class="garage", features=3, closed=True),
        Row("lock.front_door", "Front Door", state="locked"),
        Row("media_player.tv", "TV", state="idle", features=512 | 4096 | 16384),
    )
