"""An update is the same on one rank and on two, however they share its weights: packed, with shared prompts, uneven groups,
several passes on each rank and not as many on each. Losses, whole gradients and weights after two steps are compared.

ZeRO needs DeepSpeed, which `scripts/check_deepspeed` installs.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import script
from launches import ROOT
from spread_updates import KINDS, UPDATES

HELPER = ROOT / "tests/helpers/spread_updates.py"
NO_DEEPSPEED = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
WAYS = [
    "ddp",
    pytest.param("fsdp2", marks=pytest.mark.long),
    *(pytest.param(f"zero{stage}", marks=NO_DEEPSPEED) for stage in (1, 2, 3)),
]
LOSS, GRADIENT, WEIGHT = 1e-5, 1e-4, 1e-5  # in float32: absolute, relative to the largest of a tensor, absolute


def made(way: str, folder: Path, ranks: int) -> dict[tuple[str, str], Any]:
    """What the updates give, by kind."""
    script(HELPER, way, folder, cwd=folder, ranks=ranks)
    return torch.load(folder / f"{way}.pt")


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[tuple[str, str], Any]:
    """What one rank gives."""
    return made("none", tmp_path_factory.mktemp("alone"), ranks=1)


@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_make_the_updates_of_one(way, alone, tmp_path):
    spread = made(way, tmp_path, ranks=2)
    assert alone.keys() == spread.keys() == set(KINDS)
    for kind, one in alone.items():
        both = spread[kind]
        assert both["losses"] == pytest.approx(one["losses"], abs=LOSS), kind
        assert len(one["gradients"]) == len(both["gradients"]) == UPDATES and 2 < both["passes"] < one["passes"]
        for expected, found in zip(one["gradients"], both["gradients"], strict=True):
            assert expected.keys() == found.keys()
            for name, gradient in expected.items():
                most = gradient.abs().max()
                assert most > 0 and (found[name] - gradient).abs().max() < GRADIENT * most, (kind, name)
        assert one["weights"].keys() == both["weights"].keys()
        assert all((both["weights"][name] - weight).abs().max() < WEIGHT for name, weight in one["weights"].items()), kind
