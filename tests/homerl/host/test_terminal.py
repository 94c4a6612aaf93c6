"""Texts of strangers on the terminal: nothing in them acts on it, whatever prints them."""

from __future__ import annotations

import io
import logging
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.host.exit_codes import run_to_end
from homerl.host.progress_bar import progress_bar
from homerl.host.terminal import PlainConsole, print_error, replace_control_characters, say, waiting_spinner

HOSTILE = "a\x1b[2J\x1b]0;pwned\x07\x1b[31m\x9b31m\x00\b\r\x7f\u202eb\u2066c"
HOSTILE += " [red]d[/red] :red_circle: é\t語 \N{WOMAN}\u200d\N{ROCKET}"
ACTING = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\n\t"]
ACTING += [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))]


def harmless(text: str) -> bool:
    return not any(sign in text for sign in ACTING) and "[red]d" in text and ":red_circle:" in text


def a_table(text: str) -> Table:
    table = Table(text, title=text, caption=text)
    table.add_row(text)
    return table


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "shown",
    [str, Text, a_table, lambda text: Panel(Text(text), title=Text(text)), lambda text: Group(Columns([text]), Text(text))],
)
def test_no_part_of_a_text_acts_on_the_terminal(shown: Callable[[str], RenderableType], terminal: bool) -> None:
    stream = io.StringIO()
    PlainConsole(file=stream, width=200, force_terminal=terminal, color_system=None).print(shown(HOSTILE))
    assert harmless(stream.getvalue()) and "語" in stream.getvalue() and "\u200d" in stream.getvalue()


def test_our_own_styles_and_line_breaks_stay() -> None:
    stream = io.StringIO()
    PlainConsole(file=stream, force_terminal=True, color_system="standard").print(Text("a\nb", "bold"))
    assert stream.getvalue() == "\x1b[1ma\x1b[0m\n\x1b[1mb\x1b[0m\n"


def test_bars_and_their_lines_show_texts_as_they_are() -> None:
    stream = io.StringIO()
    with progress_bar(PlainConsole(file=stream, width=400)) as bar:
        bar.add_task(HOSTILE, total=1, note=HOSTILE)
    assert "[red]d" in stream.getvalue() and not any(sign in stream.getvalue() for sign in ACTING)


def test_a_log_has_a_line_when_something_begins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with waiting_spinner("opening a model"):
        assert capsys.readouterr().err == ""
    with waiting_spinner("a.yaml: reading", in_log=True):
        assert capsys.readouterr().err == "a.yaml: reading ...\n"
    monkeypatch.setattr("homerl.host.progress_bar.FIRST", 0.01)
    stream = io.StringIO()
    with progress_bar(PlainConsole(file=stream, width=400)) as bar:
        bar.add_task("sft", total=None, note="")
        for _ in range(50):
            if "sft: begun" in stream.getvalue():
                break
            time.sleep(0.1)
        assert "sft: begun" in stream.getvalue(), "long before a minute is over"


def test_plain_lines_errors_and_logs_pass_it_too(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        say(HOSTILE)
        print_error(HOSTILE)
        logging.getLogger("x").warning("%s", HOSTILE)

    factory = logging.getLogRecordFactory()
    try:
        assert run_to_end(work) == 0
    finally:
        logging.setLogRecordFactory(factory)
    written = capsys.readouterr()
    assert harmless(written.out) and harmless(written.err) and harmless(caplog.text)
    assert replace_control_characters("a\tb\n") == "a\tb\n"


def test_a_device_file_of_a_stranger_cannot_write_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "ansi.yaml").write_text(
        '- name: "\\e[2J\\e]0;pwned\\a\\e[31mred"\n  userdata: {category: light, spid: "1"}\n'
        '  attributes: [{name: "\\e[31mx", type: int, range: [0, 1]}]\n  services: []\n'
    )
    done = CliRunner().invoke(app, ["check-devices", str(tmp_path)])
    assert done.exit_code == 2 and "31mx" in done.output and not any(sign in done.output for sign in ACTING)
