"""The log survives crashes and is read back whole."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from homerl.envs.assistant.commands.view_agent import view_agent
from homerl.envs.assistant.serving.call_effects import ChangeRecord
from homerl.envs.assistant.serving.exchange_journal import AgentJournal, CallRecord, JournalEntry, read_journal
from homerl.envs.assistant.serving.journal_page import device_lines, journal_days, render_journal_page
from homerl.envs.core.documents import InputError


def entry(number: int, **fields) -> JournalEntry:
    time = datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(hours=10 * number)
    said = {"said": f"sentence {number}", "reply": "ok", "outcome": "done"}
    return JournalEntry(time=time, mode="act", agent="tiny", **said | fields)


def test_entries_are_read_back_in_order(tmp_path):
    journal = AgentJournal(tmp_path / "logs" / "agent.jsonl")
    written = [entry(number) for number in range(3)]
    for one in written:
        journal.append_entry(one)
    assert AgentJournal(journal.path).read_entries() == written


def test_a_line_that_a_crash_cut_costs_nothing_else(tmp_path):
    journal = AgentJournal(tmp_path / "agent.jsonl")
    journal.append_entry(entry(0))
    with journal.path.open("a") as file:
        file.write('{"time": "2026-')
    again = AgentJournal(journal.path)
    again.append_entry(entry(1))
    assert again.read_entries() == [entry(0), entry(1)]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\r\n", "\x1e"])
def test_a_sign_that_ends_a_line_elsewhere_hides_nothing(tmp_path, sign):
    """A name, a title or a sentence may hold one."""
    journal = AgentJournal(tmp_path / "agent.jsonl")
    written = [entry(0, said=f"light{sign}please"), entry(1, reply=f"It{sign}is on."), entry(2)]
    for one in written:
        journal.append_entry(one)
    assert journal.read_entries() == written and not read_journal(journal.path)[1]


@pytest.mark.parametrize("damage", ['{"time": "2026-', '{"a": 1}', "开"], ids=["cut", "of another shape", "no JSON"])
def test_a_damaged_line_is_shown_and_costs_no_other(tmp_path, damage):
    path = tmp_path / "agent.jsonl"
    AgentJournal(path).append_entry(entry(0))
    with path.open("ab") as file:
        file.write(f"{damage}\n".encode())
    AgentJournal(path).append_entry(entry(1))
    entries, damaged = read_journal(path)
    assert entries == [entry(0), entry(1)]
    ((number, text),) = [(one.line, one.text) for one in damaged]
    assert (number, text) == (2, damage)
    view_agent(path)
    page = path.with_suffix(".html").read_text()
    assert "Line 2 of the log is damaged" in page and "sentence 0" in page and "sentence 1" in page


def test_a_line_that_was_cut_inside_of_a_character_costs_no_other(tmp_path):
    journal = AgentJournal(tmp_path / "agent.jsonl")
    journal.append_entry(entry(0))
    with journal.path.open("ab") as file:
        file.write('{"said": "开'.encode()[:-1])
    assert journal.read_entries() == [entry(0)] and not read_journal(journal.path)[1], "it may just be being written"
    journal.append_entry(entry(1, said="开灯"))
    assert journal.read_entries() == [entry(0), entry(1, said="开灯")]
    assert "Line 2 of the log is damaged" in render_journal_page(journal.read_entries(), read_journal(journal.path)[1])


def test_half_a_character_does_not_keep_an_exchange_out_of_the_log(tmp_path):
    journal = AgentJournal(tmp_path / "agent.jsonl")
    journal.append_entry(JournalEntry.model_construct(**dict(entry(0)) | {"said": "light \ud800"}))
    assert journal.read_entries()[0].said == "light ?"


def test_only_its_owner_reads_a_log_and_its_page(tmp_path):
    old = tmp_path / "old.jsonl"
    old.write_text("")
    old.chmod(0o644)
    for path in (old, tmp_path / "new.jsonl"):
        AgentJournal(path).append_entry(entry(0))
        view_agent(path)
        assert [one.stat().st_mode & 0o777 for one in (path, path.with_suffix(".html"))] == [0o600, 0o600]


def test_codes_are_not_in_the_log(tmp_path):
    journal = AgentJournal(tmp_path / "agent.jsonl")
    arguments = {"code": "4711", "more": [{"pin": 4711}], "area": "hall"}
    journal.append_entry(entry(0, calls=(CallRecord(did="lock.door", service="unlock", arguments=arguments),)))
    assert "4711" not in journal.path.read_text()
    assert journal.read_entries()[0].calls[0].arguments == {"code": "***", "more": [{"pin": "***"}], "area": "hall"}


def test_another_file_is_refused_by_line(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"other.jsonl:1"):
        view_agent(path)
    with pytest.raises(InputError, match="no such log"):
        view_agent(tmp_path / "none.jsonl")


def test_a_log_that_cannot_be_written_is_told_at_the_start(tmp_path):
    with pytest.raises(InputError, match="--log"):
        AgentJournal(tmp_path)


def test_the_page_goes_day_by_day_latest_first():
    entries = [entry(number) for number in range(5)]
    assert [day.date for day in journal_days(entries)] == sorted({day.date for day in journal_days(entries)}, reverse=True)
    page = render_journal_page(entries)
    assert page.index("sentence 4") < page.index("sentence 0")
    assert "Nobody has spoken" in render_journal_page([])


def test_a_log_that_is_no_file_keeps_its_mode(tmp_path):
    """As `--log /dev/null`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    before = pipe.stat().st_mode
    AgentJournal(pipe)
    os.close(reader)
    assert pipe.stat().st_mode == before
    AgentJournal(Path(os.devnull)).append_entry(entry(0))


def change(did: str, path: str, before, after, **fields) -> ChangeRecord:
    return ChangeRecord(did=did, device=did.title(), path=path, before=before, after=after, **fields)


def test_a_device_has_one_line_and_the_rest_is_counted():
    calls = (CallRecord(did="lamp", service="turn_on", arguments={"brightness": 128}),)
    lamp = [
        change("lamp", "state", "off", "on"),
        change("lamp", "brightness", None, 128),
        change("lamp", "color_mode", None, "hs"),
    ]
    line, other = device_lines([lamp[0], change("fan", "speed", 1, 2), *lamp[1:]], calls)
    assert [one.path for one in line.told] == ["state", "brightness"] and line.more == 1
    assert [one.path for one in other.told] == ["speed"] and other.more == 0, "what has no state tells what it has"
    page = render_journal_page([entry(0, outcome="shadowed", changes=tuple(lamp), calls=calls)])
    assert page.count("<b>Lamp</b>") == 1 and "<table" not in page and "</span> 128" in page


def test_counts_are_of_exchanges_and_what_would_change_nothing_is_told_apart():
    differs = change("lamp", "state", "off", "on", differs=True, actual="off", compared=True)
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    told = [
        entry(0, outcome="shadowed", changes=(change("lamp", "state", "off", "on"),)),
        entry(1, outcome="shadowed", said="again"),
        entry(2, outcome="done", changes=(differs, change("lamp", "speed", 1, 2, differs=True, actual=3))),
    ]
    (day,) = journal_days([one.model_copy(update={"time": at}) for one in told])
    counts = {key: number for key, _, number in day.badge_counts}
    assert counts == {"shadowed": 1, "nothing": 1, "done": 1, "unexpected": 1}
    page = render_journal_page(told)
    assert "would change nothing 1" in page and "not as expected 1" in page and "really off" in page
