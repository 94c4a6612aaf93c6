"""`homerl import-ha` as a person meets it, with the recorded Home Assistant behind its address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import homerl as inside
from forked import homerl

from tests.envs.assistant.listing.replay import TOKEN, Replay


def test_a_home_is_brought_in_looked_at_and_brought_in_again(tmp_path: Path) -> None:
    out, again = tmp_path / "home.json", tmp_path / "again.json"
    with Replay() as server:
        done = homerl("import-ha", server.url, "--out", str(out), "--save", str(tmp_path / "saved"), HA_TOKEN=TOKEN)
    assert done.returncode == 0 and "104 devices" in done.stdout.replace("\n", " "), done.stderr
    assert "not understood" in done.stdout
    told = json.loads(out.with_suffix(".import.json").read_text("utf-8"))
    assert any(note["part"] == "automation" and "administrator" in note["why"] for note in told["not_understood"])
    for path in tmp_path.rglob("*.json"):
        assert TOKEN not in path.read_text("utf-8")
    assert inside("import-ha", tmp_path / "saved", "--out", again).code == 0
    assert again.read_bytes() == out.read_bytes()
    assert inside("check-home", out).code == 0
    page = tmp_path / "home.html"
    assert inside("view", "home", out, "--out", page).code == 0 and "Ceiling Lights" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["/no/such/folder"], {}, "no folder"),
        (["http://127.0.0.1:9"], {"HA_TOKEN": ""}, "HA_TOKEN"),
        (["http://127.0.0.1:9"], {"HA_TOKEN": "x"}, "cannot be reached"),
        (["http://127.0.0.1:9", "--token-env", "MINE"], {"HA_TOKEN": "x"}, "MINE"),
    ],
)
def test_what_goes_wrong_is_one_message(
    arguments: list[str], environment: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = inside("import-ha", *arguments, "--out", tmp_path / "home.json")
    assert done.code == 2 and says in done.err.replace("\n", " ") and "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_the_help_knows_it() -> None:
    assert "import-ha" in inside("--help").out
