"""Texts that tell a date, a time of day or both."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import PATTERNS, Format, ValueType, canonical_moment

KINDS = st.sampled_from([*PATTERNS])


@given(kind=KINDS, moment=st.datetimes() | st.datetimes(timezones=st.timezones()), seed=st.integers())
def test_a_moment_is_written_in_one_way(kind: Format, moment: object, seed: int) -> None:
    type = ValueType(type="str", format=kind, zone="Europe/Berlin")
    for text in (str(moment), type.sample_value(random.Random(seed))):
        if (once := canonical_moment(kind, text, "Europe/Berlin")) is not None:
            assert type.check_value(once) == once == type.check_value(text)


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("time", "7:30", "07:30:00"),
        ("time", "25:00", None),
        ("time", "noon", None),
        ("date", "2026-12-24", "2026-12-24"),
        ("date", "24 December", None),
        ("datetime", "2026-12-24 18:30", "2026-12-24 18:30:00"),
        ("datetime", "soon", None),
        ("datetime", "2026-12-24T18:30:00+05:00", "2026-12-24 18:30:00"),
        ("time", "", None),
        ("instant", "2026-12-24T18:30:00", "2026-12-24T17:30:00+00:00"),
        ("instant", "0001-01-01T00:00:00+14:00", None),
        ("instant", "2026-07-01 08:00:00", "2026-07-01T06:00:00+00:00"),
    ],
)
def test_a_moment_is_as_states_show_it(kind: Format, text: str, shown: str | None) -> None:
    type = ValueType(type="str", format=kind, zone="Europe/Berlin")
    if shown is None:
        with pytest.raises(Refused) as refused:
            type.check_value(text)
        assert refused.value.rule == "out_of_range"
    else:
        assert type.check_value(text) == shown


def test_only_a_text_is_a_moment() -> None:
    with pytest.raises(ValidationError, match="only a str without options"):
        ValueType(type="int", format="date")
