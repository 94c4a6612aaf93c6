"""The log survives crashes and is read back whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from envs.documents import InputError
from homerl.worlds.homeenv.serving.journal import Entry, Journal
from homerl.worlds.homeenv.serving.page import days, journal_page


def entry(number: int, **fields) -> Entry:
    time = datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(hours=10 * number)
    return Entry(time=time, mode="act", agent="tiny", said=f"sentence {number}", reply="ok", outcome="done", **fields)


def test_entries_are_read_back_in_order(tmp_path):
    journal = Journal(tmp_path / "logs" / "agent.jsonl")
    written = [entry(number) for number in range(3)]
    for one in written:
        journal.append(one)
    assert Journal(journal.path).entries() == written


def test_a_line_that_a_crash_cut_costs_nothing_else(tmp_path):
    journal = Journal(tmp_path / "agent.jsonl")
    journal.append(entry(0))
    with journal.path.open("a") as file:
        file.write('{"time": "2026-')
    again = Journal(journal.path)
    again.append(entry(1))
    assert again.entries() == [entry(0), entry(1)]


def test_another_file_is_refused_by_line(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"other.jsonl:1"):
        Journal(path).entries()
    with pytest.raises(InputError, match="no such log"):
        Journal(tmp_path / "none.jsonl").entries()


def test_the_page_goes_day_by_day_latest_first():
    entries = [entry(number) for number in range(5)]
    assert [day.date for day in days(entries)] == sorted({day.date for day in days(entries)}, reverse=True)
    page = journal_page(entries)
    assert page.index("sentence 4") < page.index("sentence 0")
    assert "Nobody has spoken" in journal_page([])
