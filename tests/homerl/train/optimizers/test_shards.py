"""Muon on FSDP2's shards is Muon on whole matrices, and goes on from a checkpoint to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from forked import script
from hypothesis import given
from hypothesis import strategies as st
from launches import ROOT

from homerl.train.parallel.muon import count_shard_rows

TRAINER = ROOT / "tests/helpers/sharded_muon.py"


@given(st.integers(1, 100), st.integers(1, 16))
def test_rows_are_shared_out_as_torch_does(rows: int, count: int) -> None:
    found = [len(part) for part in torch.zeros(rows).chunk(count)]
    assert count_shard_rows(rows, count) == found + [0] * (count - len(found))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_shards_move_as_whole_matrices(ranks: int, tmp_path: Path) -> None:
    """Matrices of 6 to 18 rows on ranks that they do not divide over, in an order that leaves a rank without one."""
    (tmp_path / "ends").mkdir()
    script(TRAINER, tmp_path / "ends", cwd=tmp_path, ranks=ranks)
    for dtype in (torch.float32, torch.bfloat16):
        ends = torch.load(tmp_path / f"ends/{dtype}.pt")
        for alone, spread, resumed in zip(*(ends[name] for name in ("alone", "spread", "resumed")), strict=True):
            assert torch.equal(spread, resumed)
            torch.testing.assert_close(spread, alone, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.0)
