"""The home in which docs/results measures models is a home file of the entities that are named."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from homerl.envs.homeenv.sim.home_file import load_home
from tests.envs.assistant.listing import twelve
from tests.envs.assistant.listing.twelve import TWELVE


def test_the_home_of_twelve_is_written_as_a_home_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "home.json"
    monkeypatch.setattr(sys, "argv", ["twelve", str(file)])
    runpy.run_path(twelve.__file__, run_name="__main__")
    assert {device.did for device in load_home(file).plan.devices} == set(TWELVE)
