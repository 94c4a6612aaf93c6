"""Homes for the tests, and the released samples where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import service
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.home import MatterHome, OperationError

ROOT = Path(__file__).parents[3]
SAMPLES = Path(os.environ.get("HOMERL_SIMUHOME_SAMPLES", ROOT / "../shared/samples/simuhome"))
BASE_TIME = "2025-08-23 10:00:00"


def samples() -> list[Path]:
    return sorted(SAMPLES.glob("qt*.json"))


each_sample = pytest.mark.parametrize(
    "path",
    samples() or [pytest.param(None, marks=pytest.mark.skip("no samples"))],
    ids=lambda path: getattr(path, "stem", "-"),
)


some_samples = pytest.mark.parametrize(  # by default, the first of each kind
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if number % 2 else [])
        for number, path in enumerate(samples())
    ]
    or [pytest.param(None, marks=pytest.mark.skip("no samples"))],
)


def build(*devices: tuple[str, dict[str, Any]], strict: bool = True, **state: float) -> MatterHome:
    """One room before its first pass; devices are d0, d1, ..."""
    state = {"temperature": 2600, "humidity": 5000, "illuminance": 200, "pm10": 50} | state
    given = [
        {"device_id": f"d{i}", "device_type": kind, "attributes": attributes} for i, (kind, attributes) in enumerate(devices)
    ]
    return load.build_home({"base_time": BASE_TIME, "rooms": {"room": {"state": state, "devices": given}}}, strict)


def start(*devices: tuple[str, dict[str, Any]], strict: bool = True, **state: float) -> MatterHome:
    home = build(*devices, strict=strict, **state)
    passage.advance_home(home, 0)
    return home


def go(home: MatterHome, passes: int) -> None:
    passage.advance_home(home, home.tick + passes)


class Hand:
    """Works one device: calls return data, or the HTTP status of the refusal."""

    def __init__(self, home: MatterHome, device: str = "d0", endpoint: int = 1) -> None:
        self.home, self.device, self.endpoint = home, device, endpoint

    def do(self, cluster: str, command: str, endpoint: Any = None, **args: Any) -> Any:
        place = self.endpoint if endpoint is None else endpoint
        return self._try(service.execute_command, self.device, place, cluster, command, args)

    def write(self, cluster: str, attribute: str, value: Any, endpoint: Any = None) -> Any:
        place = self.endpoint if endpoint is None else endpoint
        return self._try(service.write_attribute, self.device, place, cluster, attribute, value)

    def _try(self, act: Any, *args: Any) -> Any:
        key = self.home.state_key()
        try:
            return act(self.home, *args)
        except OperationError as failure:
            assert self.home.state_key() == key, "a refused call changed something"
            return failure.http_status

    def get(self, cluster: str, attribute: str) -> Any:
        return self.home.cluster_view(self.device, cluster)[attribute]


ON = {"1.OnOff.OnOff": True}
