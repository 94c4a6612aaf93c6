"""`scripts/new_user` sees what it is there to see; the whole of it runs by hand, since it installs an environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from new_user import DOCS, NAMED, PAGES, Row, Shell, bad_row, first_line, not_run, page_rows, table, typed, typed_row


def test_the_commands_are_those_of_the_pages_in_their_order():
    lines = [line for page in PAGES for block in DOCS.blocks(page) for line in typed(block)]
    starts = ("./scripts/quickstart", "source ", "homerl export", "./scripts/homerl", "homerl check-devices", "python ")
    found = [next(index for index, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert found == sorted(found) and len(set(found)) == len(starts)
    saved = [NAMED.match(block.text)[1] for block in DOCS.blocks(PAGES[1]) if NAMED.match(block.text)]
    assert saved == ["my_devices/desk_lamp.yaml", "make_home.py"]


def test_what_needs_a_gpu_or_the_hub_is_listed_with_its_reason():
    assert "GPU" in not_run("README.md", "accelerate launch --num_processes 8 recipes/sft_8b.yaml")
    assert "hub" in not_run("README.md", "homerl export runs/rlve_full --to org/my-home-agent --push")
    assert not_run("README.md", "./scripts/quickstart") is None
    assert not_run("docs/first_hour.md", "homerl export runs/mine --to models/mine") is None


def test_a_terminal_keeps_what_was_exported_and_knows_nothing_of_this_environment(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOMERL_WORLDS", "elsewhere")
    shell = Shell(tmp_path, ["export MINE=1"])
    code, said, _ = shell.run('echo "$MINE|$HOMERL_WORLDS|$VIRTUAL_ENV|$PYTHONPATH"; exit 3')
    assert (code, said) == (3, "1|||\n")


@pytest.mark.parametrize(
    ("does", "right"),
    [
        ("echo 'homerl: no such file' >&2; exit 2", True),
        ("echo 'homerl: no such file' >&2; exit 1", False),
        ("echo 'Traceback (most recent call last):'; echo 'homerl: x'; exit 2", False),
        ("exit 2", False),
    ],
)
def test_a_refusal_that_is_none_is_seen(tmp_path: Path, does: str, right: bool):
    assert bad_row(Shell(tmp_path), does).right == right


def test_a_page_whose_command_fails_is_seen(tmp_path: Path):
    assert not typed_row(Shell(tmp_path), "false", short=True).right
    assert not typed_row(Shell(tmp_path), "echo Traceback", short=True).right
    row = typed_row(Shell(tmp_path), "echo a | cat", short=True)
    assert row.right and row.said == "a"
    assert "**wrong** bad" in table([Row("x", 1, "bad", right=False)])


def test_files_of_a_page_are_saved_where_they_say(tmp_path: Path, monkeypatch):
    page = (DOCS.Block("yaml", "# a/b.yaml\nx: 1\n"), DOCS.Block("", "export A=b\ncat a/b.yaml\n"))
    monkeypatch.setattr("new_user.DOCS.blocks", lambda name: page)
    shell = Shell(tmp_path)
    assert list(page_rows(shell, "docs/none.md", short=True)) == []  # `cat` is no program of ours
    assert (tmp_path / "a/b.yaml").read_text() == "# a/b.yaml\nx: 1\n" and shell.before == ["export A=b"]


def test_the_first_line_says_what_went_wrong():
    assert first_line("\n\n  one\ntwo\n") == "one"
    assert first_line("Traceback (most recent call last):\n  File x\nKeyError: 'a'\n") == "KeyError: 'a'"
    assert first_line("") == ""


def test_a_page_is_opened_and_left_with_ctrl_c(tmp_path):
    """A command that serves no page, or ends on its own, is told as it is."""
    (tmp_path / "index.html").write_text("<p>a page</p>")
    program = (
        "import http.server as h, signal, sys; signal.signal(signal.SIGINT, lambda *_: sys.exit(0)); "
        "s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); "
        "print(f'mine: http://127.0.0.1:{s.server_port}/ (Ctrl-C ends it)', flush=True); s.serve_forever()"
    )
    code, said, _ = Shell(tmp_path).visit(f'exec {sys.executable} -c "{program}"')
    assert code == 0 and "mine: http://" in said and "the page has 13 bytes" in said
    assert Shell(tmp_path).visit("echo nothing; exit 3")[:2] == (3, "nothing\n")
    (tmp_path / "index.html").unlink()
    broken = program.replace("SimpleHTTPRequestHandler", "BaseHTTPRequestHandler")
    assert "Traceback: the page fails: HTTP Error 501" in Shell(tmp_path).visit(f'exec {sys.executable} -c "{broken}"')[1]


def test_what_is_typed_reaches_the_command(tmp_path):
    assert Shell(tmp_path).run("cat", "hello\n")[:2] == (0, "hello\n")
