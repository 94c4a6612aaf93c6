"""Durations as Home Assistant writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.assistant.listing.homeassistant_mapping import parse_clock_duration


@given(total=st.integers(0, 10**7), less=st.booleans())
def test_a_duration_is_its_seconds(total: int, less: bool) -> None:
    text = f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"
    assert parse_clock_duration(f"-{text}" if less else text) == (-total if less else total)


@pytest.mark.parametrize(
    ("text", "total"), [("1 day, 2:00:00", 93600), ("0:00:01.5", 1), ("soon", None), ("", None), ("7", None)]
)
def test_other_durations(text: str, total: int | None) -> None:
    assert parse_clock_duration(text) == total
