"""A home in which an agent can be served, and a caretaker with everything around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from serving import OtherHome, Says, Served

from envs.homeenv.home import Home
from envs.homemaker.make import HomeRecipe, make_home
from envs.messages import Message
from homerl.worlds.homeenv.serving.caretaker import Caretaker, House
from homerl.worlds.homeenv.serving.guard import Guard
from homerl.worlds.homeenv.serving.journal import Journal


@pytest.fixture(scope="module")
def plan_home() -> Home:
    return make_home(2, HomeRecipe(devices=(10, 14), categories=("light", "lock", "fan", "air_conditioner")))


@pytest.fixture
def home(plan_home: Home) -> Home:
    return plan_home.fork()


@pytest.fixture
def serve(home: Home, tmp_path: Path):
    def made(
        mode: str, *messages: Message | str, allowed: Sequence[str] = (), language: str = "en", steps: int = 8
    ) -> Served:
        agent = Says(*messages)
        journal, real = Journal(tmp_path / "agent.jsonl"), OtherHome(home.fork())
        house = House(mode, "smh", language, guard=Guard(frozenset(allowed)), settle=0.05, steps=steps)  # type: ignore[arg-type]
        return Served(Caretaker(home, lambda: agent, real, journal, house, "script"), real, journal)

    return made
