"""The home in which docs/results measures models is a home file of the entities that are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from house import ROOT

from homerl.envs.homeenv.sim.home_file import load_home
from tests.envs.assistant.listing.twelve import TWELVE


def test_the_home_of_twelve_is_written_as_a_home_file(tmp_path: Path):
    file, paths = tmp_path / "home.json", os.pathsep.join((str(ROOT), str(ROOT / "tests/helpers")))
    command = [sys.executable, "-m", "tests.envs.assistant.listing.twelve", file]
    subprocess.run(command, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths})
    assert {device.did for device in load_home(file).plan.devices} == set(TWELVE)
